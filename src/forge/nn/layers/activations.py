"""Activations as layers, for ``Sequential`` and models that choose one by name."""

from __future__ import annotations

from forge.nn import op
from forge.nn.module import Module
from forge.nn.tensor import Parameter, Tensor


class ReLU(Module):
    """``max(x, 0)``."""

    def forward(self, x: Tensor) -> Tensor:
        """Element by element."""
        return op.relu(x)


class ReLU6(Module):
    """``min(max(x, 0), 6)``."""

    def forward(self, x: Tensor) -> Tensor:
        """Element by element."""
        return op.relu6(x)


class SiLU(Module):
    """``x * sigmoid(x)``."""

    def forward(self, x: Tensor) -> Tensor:
        """Element by element."""
        return op.silu(x)


class GELU(Module):
    """``x * Phi(x)``, with the distribution function of the normal distribution.

    Args:
        approximate: "tanh": by the hyperbolic tangent.
    """

    def __init__(self, approximate: str | None = None) -> None:
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        """Element by element."""
        return op.gelu(x, self.approximate)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``."""

    def forward(self, x: Tensor) -> Tensor:
        """Element by element."""
        return op.sigmoid(x)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, x: Tensor) -> Tensor:
        """Element by element."""
        return op.tanh(x)


class Hardswish(Module):
    """``x * relu6(x + 3) / 6``."""

    def forward(self, x: Tensor) -> Tensor:
        """Element by element."""
        return op.hardswish(x)


class LeakyReLU(Module):
    """``x`` where it is positive, else ``negative_slope * x``."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        """Element by element."""
        return op.leaky_relu(x, self.negative_slope)


class PReLU(Module):
    """``x`` where it is positive, else ``weight * x``, with one weight for each channel (axis 1) or one for all.

    Attributes:
        weight: ``(num_parameters,)``.
    """

    def __init__(self, num_parameters: int = 1, dtype: str | None = None) -> None:
        self.weight = Parameter((num_parameters,), dtype)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, channels, ...)``."""
        return op.prelu(x, self.weight)


class Softmax(Module):
    """``exp(x) / sum(exp(x))`` along an axis."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        """Along ``axis``."""
        return op.softmax(x, self.axis)
