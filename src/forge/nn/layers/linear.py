"""Linear layers, tables of vectors, and layers that only pass on."""

from __future__ import annotations

from typing import Any

from forge.dims import Dim
from forge.errors import OptionError
from forge.nn import op
from forge.nn.module import Module
from forge.nn.tensor import Parameter, Tensor
from forge.nn.tracing import as_dim


class Linear(Module):
    r"""``x @ weight.T + bias``.

    Args:
        in_features: numbers of the last axis of ``x``; a text is the name of a size.
        out_features: numbers of the last axis of the result.
        bias: whether there is one.
        dtype: of the parameters; by default that of `get_default_dtype`.
        out_dtype: in which products are summed, and of the result; by default that of ``x``.

    Attributes:
        weight: ``(out_features, in_features)``.
        bias: ``(out_features,)``, or None; of type ``out_dtype`` if that is given.
    """

    def __init__(
        self,
        in_features: int | str | Dim,
        out_features: int | str | Dim,
        bias: bool = True,
        dtype: str | None = None,
        out_dtype: str | None = None,
    ) -> None:
        self.in_features = as_dim(in_features, "Linear")
        self.out_features = as_dim(out_features, "Linear")
        self.out_dtype = out_dtype
        self.weight = Parameter((self.out_features, self.in_features), dtype)
        self.bias = Parameter((self.out_features,), out_dtype or dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """``(..., in_features)`` to ``(..., out_features)``."""
        return op.linear(x, self.weight, self.bias, self.out_dtype)

    def to(self, dtype: str | None = None) -> None:
        """Makes ``dtype`` the element type of the parameters; the bias keeps an ``out_dtype`` that was given."""
        self.weight.to(dtype)
        if self.bias is not None and self.out_dtype is None:
            self.bias.to(dtype)


class Embedding(Module):
    """Rows of a table: ``weight[x]``.

    Args:
        num: rows; a text is the name of a size.
        dim: numbers of a row.
        dtype: by default that of `get_default_dtype`.

    Attributes:
        weight: ``(num, dim)``.
    """

    def __init__(self, num: int | str | Dim, dim: int | str | Dim, dtype: str | None = None) -> None:
        self.num = as_dim(num, "Embedding")
        self.dim = as_dim(dim, "Embedding")
        self.weight = Parameter((self.num, self.dim), dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Integers ``(...)`` to ``(..., dim)``."""
        return op.take(self.weight, x, axis=0)


class Identity(Module):
    """``x``. Arguments are ignored, so that it can take any layer's place."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        """``x``."""
        return x


class Dropout(Module):
    """``x``: models that run leave nothing out.

    Args:
        p: the share that training would leave out.
    """

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise OptionError(f"Dropout: p: got {p!r}; expected a share from 0 to 1")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """``x``."""
        return x


class Flatten(Module):
    """Axes ``start_dim`` to ``end_dim`` as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, x: Tensor) -> Tensor:
        """``(n, c, h, w)`` to ``(n, c * h * w)``, by default."""
        return op.flatten(x, self.start_dim, self.end_dim)
