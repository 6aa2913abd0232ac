"""Bounds of a dimension, which are checked when the model runs."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import partial

from forge import dims, te
from forge.dims import Dim
from forge.errors import ExecutionError
from forge.ops.core.batch_parts import carry_reshaped
from forge.ops.core.inference import fail, normalize_axis, required
from forge.ops.core.lowering import injective
from forge.ops.core.op import Kind, Op, Operand, Trait, register
from forge.ops.core.signatures import (
    Array,
    Arrays,
    Conditions,
    DimArray,
    Lowered,
    OperandTypes,
    Tensor,
    TensorType,
    TensorTypes,
    Types,
    Value,
)  # fmt: skip


@dataclass(frozen=True)
class CheckSizeAttrs:
    axis: int
    least: int = 0
    most: int | None = None
    label: str = ""
    size: Dim | None = None


@register
class CheckSize(Op[CheckSizeAttrs]):
    """data, whose dimension ``axis`` has ``least`` to ``most`` elements (None: any number of them), or the run fails.

    ``label`` is what messages call the dimension; empty: its size. With ``size``, an expression of symbols, that is what is
    checked in the place of the dimension.
    """

    name = "check_size"
    data = Operand()
    kind = Kind.INJECTIVE
    traits = Trait.MAY_FAIL
    is_view = True
    carry_batch = carry_reshaped

    @property
    def expected(self) -> str:
        """The bounds of a bound operator, as messages say them."""
        return _bounds(self.attrs)

    def infer(self, attrs: CheckSizeAttrs, data: Value) -> Types:
        size = attrs.size if attrs.size is not None else data.shape[normalize_axis(self.name, attrs.axis, data.rank)]
        if isinstance(size, int) and not _fits(attrs, size):
            raise fail(self.name, f"dimension {attrs.label or attrs.axis}", size, _bounds(attrs))
        return [data.type]

    def reference(self, attrs: CheckSizeAttrs, data: Array) -> Arrays:
        size = data.shape[attrs.axis] if attrs.size is None else attrs.size
        assert isinstance(size, int), "the run knows all sizes"
        if not _fits(attrs, size):
            raise ExecutionError(f"{self.name}: dimension {attrs.label or attrs.axis} is {size}; expected {_bounds(attrs)}")
        return [data]

    def lower(self, attrs: CheckSizeAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        return [injective(self.name, results[0], lambda i: data[tuple(i)])]

    def requires(self, attrs: CheckSizeAttrs, results: TensorTypes, data: TensorType) -> Conditions:
        size: Dim = attrs.size if attrs.size is not None else data.shape[attrs.axis]
        low, high = dims.bounds(size)
        why = f"dimension {attrs.label or size} is out of bounds; expected {_bounds(attrs)}"
        found = required(low is not None and low >= attrs.least, partial(operator.ge, te.dim(size), attrs.least), why)
        if attrs.most is not None:
            found += required(high is not None and high <= attrs.most, partial(operator.le, te.dim(size), attrs.most), why)
        return found

    def evaluate_dims(self, attrs: CheckSizeAttrs, types: OperandTypes, data: DimArray) -> DimArray:
        return data


def _fits(attrs: CheckSizeAttrs, size: int) -> bool:
    return attrs.least <= size and (attrs.most is None or size <= attrs.most)


def _bounds(attrs: CheckSizeAttrs) -> str:
    return f"{attrs.least} or more" if attrs.most is None else f"{attrs.least} to {attrs.most}"
