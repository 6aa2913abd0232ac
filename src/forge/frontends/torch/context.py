"""What a converter of PyTorch builds with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from forge import dims, dtypes
from forge.compose.casts import wrapped
from forge.dims import Dim
from forge.frontends.context import ImportContext
from forge.frontends.promotion import Number
from forge.frontends.torch.program import Meta, Program, Step, TensorMeta
from forge.frontends.torch.promotion import TORCH
from forge.ir.nodes import Value

if TYPE_CHECKING:
    from forge.frontends.torch.scope import TorchScope

Operand = Value | Number
"""A tensor, or a number, which may be a size, in its place."""


class Context(ImportContext):
    """Given to a converter as its first argument.

    Attributes:
        step: what is converted.
        metas: what torch says of the results, with sizes of this graph.
        program: that the step is part of; its ``parts`` are what higher-order operators apply.
    """

    scope: TorchScope

    def __init__(self, scope: TorchScope, step: Step, metas: Sequence[Meta], program: Program) -> None:
        super().__init__(scope, step.name, step.outputs, [part for part in step.module.split(".") if part])
        self.step = step
        self.metas = metas
        self.program = program

    def meta(self, index: int = 0) -> TensorMeta:
        """What torch says of result ``index``, which is a tensor."""
        found = self.metas[index]
        if not isinstance(found, TensorMeta):
            raise self.invalid(f"result {index}: got {found}; expected a tensor")
        return found

    @property
    def dtype(self) -> str:
        """The element type of the first result."""
        return self.meta().dtype

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape of the first result; symbols that nothing has bound yet are torch's."""
        return self.meta().shape

    def write(self, argument: str, value: Value) -> None:
        """Replaces the contents of the tensor that is an argument; its operator is one of `views.WRITES`."""
        self.scope.cell(self.step.arguments[argument].name).write(value)

    def tensor(self, operand: Operand, dtype: str | None = None) -> Value:
        """``operand`` as a tensor of element type ``dtype``: by default its own, and torch's for a number. Integers wrap."""
        if isinstance(operand, Value):
            return operand if dtype is None else self.cast(operand, dtype)
        if isinstance(operand, dims.DimExpr):
            return self.cast(self.size(operand), dtype or "int64")
        if isinstance(operand, int) and dtype is not None and dtypes.is_integer(dtype):
            operand = dtypes.wrap_int(operand, dtype)
        return self.constant(operand, dtype or TORCH.number(operand))

    def cast(self, value: Value, dtype: str) -> Value:
        """As of any composer; to floats of 8 bits, and of floats that an integer type does not have, as torch does it."""
        if value.dtype == dtype:
            return value
        if dtype.startswith("float8"):
            return self._float8(value, dtype)
        return wrapped(self, value, dtype) if dtypes.is_float(value.dtype) else super().cast(value, dtype)

    def _float8(self, value: Value, dtype: str) -> Value:
        """Of floats of 8 bits, only float8_e4m3fn saturates."""
        if dtype == "float8_e8m0fnu":  # the power of two nearest to the magnitude; there is none of 0
            magnitude = self.call("abs", super().cast(value, "float32"))
            value = self.call("maximum", magnitude, self.scalar(2.0**-127, magnitude))
        return self.call("cast", value, dtype=dtype, saturate=dtype == "float8_e4m3fn")

    def common_dtype(self, *operands: Operand) -> str:
        """The element type to which torch promotes: numbers and tensors of rank 0 count only if they are of a higher kind."""
        return TORCH.of(*operands)

    def promoted(self, *operands: Operand) -> list[Value]:
        """``operands`` as tensors of their `common_dtype`."""
        dtype = self.common_dtype(*operands)
        return [self.tensor(operand, dtype) for operand in operands]

    def size(self, size: Dim) -> Value:
        return self.scope.size(self, size)

    def axes(self, dim: Sequence[int] | int | None, rank: int) -> tuple[int, ...]:
        """Axes counted from the front; all of them where ``dim`` is None or empty."""
        chosen = (dim,) if isinstance(dim, int) else tuple(dim or range(rank))
        return tuple(self.axis(axis, rank, "dim") for axis in chosen)

    def extents(self, value: Value, shape: Sequence[Any]) -> tuple[Dim, ...]:
        """Sizes of a shape argument, of which -1 keeps the one of ``value``, counted from the end."""
        offset = len(shape) - value.rank
        return tuple(value.shape[k - offset] if isinstance(d, int) and d == -1 else d for k, d in enumerate(shape))
