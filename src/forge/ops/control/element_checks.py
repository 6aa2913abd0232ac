"""Conditions on the elements of a tensor, which are checked when the model runs: indices are in range, divisors are not 0.

They are operands of what needs them to hold. Compiled code computes whether all elements fit, and then `check`; the option
``check_indices`` leaves both out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, te
from forge.dims import Dim
from forge.errors import ExecutionError
from forge.ir.op import A
from forge.ops.core import scalar_math as numeric
from forge.ops.core.batch_parts import carry_reshaped
from forge.ops.core.inference import fail
from forge.ops.core.lowering import identifier
from forge.ops.core.op import Category, Kind, Op, Operand, Trait, register
from forge.ops.core.signatures import (
    Array,
    Arrays,
    Builder,
    DimArray,
    Expr,
    Lowered,
    OperandTypes,
    Tensor,
    TensorType,
    TensorTypes,
    Types,
    Value,
    Values,
)  # fmt: skip


class ElementCheck(Op[A]):
    """data, or the run fails."""

    kind = Kind.INJECTIVE
    traits = Trait.MAY_FAIL
    is_view = True
    checks_elements = True
    category = Category.CONTROL
    carry_batch = carry_reshaped


class IntegerCheck(ElementCheck[A]):
    """data, integers that all fit, or the run fails."""

    data = Operand(accepts="index")

    def hold(self, builder: Any, attrs: A, data: Value) -> Value:
        """Whether all elements fit, of rank 0; ``builder`` puts the nodes for it."""
        raise NotImplementedError

    def violated(self, attrs: A, data: Array) -> bool:
        """Whether an element does not fit."""
        raise NotImplementedError

    def message(self, attrs: A) -> str:
        raise NotImplementedError

    def infer(self, attrs: A, data: Value) -> Types:
        return [data.type]

    def reference(self, attrs: A, data: Array) -> Arrays:
        if self.violated(attrs, data):
            raise ExecutionError(f"{self.name}: {self.message(attrs)}")
        return [data]

    def decompose(self, builder: Builder, attrs: A, data: Value) -> Values:
        builder.call("check", self.hold(builder, attrs, data), message=_placed(builder, self.message(attrs)))
        return [data]

    def evaluate_dims(self, attrs: A, types: OperandTypes, data: DimArray) -> DimArray:
        return data


@dataclass(frozen=True)
class IndexAttrs:
    sizes: tuple[Dim, ...]
    from_end: bool = True
    what: str = "an index"


def _check_sizes(op: str, attrs: IndexAttrs, data: Value) -> None:
    if len(attrs.sizes) != 1 and (not data.rank or data.shape[0] != len(attrs.sizes)):
        raise fail(op, "attribute sizes", len(attrs.sizes), "one size, or one for each slice along the first axis")


@register
class CheckIndex(IntegerCheck[IndexAttrs]):
    """data, whose elements are indices of an axis with ``sizes`` elements, or the run fails.

    There is one size, or one for each slice along the first axis. With ``from_end`` negative indices count from the end.
    Messages call an element ``what``.
    """

    name = "check_index"

    def infer(self, attrs: IndexAttrs, data: Value) -> Types:
        _check_sizes(self.name, attrs, data)
        return [data.type]

    def hold(self, builder: Any, attrs: IndexAttrs, data: Value) -> Value:
        return builder.call("indices_in_range", data, sizes=attrs.sizes, from_end=attrs.from_end)  # type: ignore[no-any-return]

    def violated(self, attrs: IndexAttrs, data: Array) -> bool:
        return not _in_range(attrs, data)

    def message(self, attrs: IndexAttrs) -> str:
        ranges = [f"{-1 * size if attrs.from_end else 0} to {size - 1}" for size in attrs.sizes]
        return f"{attrs.what} is out of range; expected {', '.join(dict.fromkeys(ranges))}"


def _in_range(attrs: IndexAttrs, data: Array) -> bool:
    wide = data.astype(np.int64)
    sizes = np.array(attrs.sizes, np.int64).reshape(-1, *[1] * max(data.ndim - 1, 0))
    return bool(((wide < sizes) & (wide >= (-sizes if attrs.from_end else 0))).all())


@register
class IndicesInRange(Op[IndexAttrs]):
    """Whether all elements of data are what `check_index` expects."""

    name = "indices_in_range"
    data = Operand(accepts="index")
    kind = Kind.REDUCTION
    read_once = ("data",)
    category = Category.CONTROL

    def infer(self, attrs: IndexAttrs, data: Value) -> Types:
        _check_sizes(self.name, attrs, data)
        return [TensorType((), "bool")]

    def reference(self, attrs: IndexAttrs, data: Array) -> Arrays:
        return [np.asarray(_in_range(attrs, data))]

    def lower(self, attrs: IndexAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        axes = [te.reduce_axis(extent, f"r{k}") for k, extent in enumerate(data.shape)]
        places = tuple(axis.var for axis in axes)
        size: Expr = te.dim(attrs.sizes[-1])
        for number in reversed(range(len(attrs.sizes) - 1)):
            size = te.select(places[0].eq(number), te.dim(attrs.sizes[number]), size)
        index = te.cast(data[places], "int64")
        fits = te.binary("and", index < size, index >= (te.const(0) - size if attrs.from_end else te.const(0)))
        body = te.reduce("and", fits, axes) if axes else fits
        return [te.compute((), lambda: body, identifier(self.name), "bool")]


@dataclass(frozen=True)
class CheckDivisorAttrs:
    message: str = "an integer is divided by 0; expected other divisors"


@register
class CheckDivisor(IntegerCheck[CheckDivisorAttrs]):
    """data, integers none of which is 0, or the run fails with ``message``."""

    name = "check_divisor"

    def hold(self, builder: Any, attrs: CheckDivisorAttrs, data: Value) -> Value:
        differs = builder.call("not_equal", data, builder.constant(0, data.dtype))
        return builder.call("all", differs, axis=None) if data.rank else differs  # type: ignore[no-any-return]

    def violated(self, attrs: CheckDivisorAttrs, data: Array) -> bool:
        return not np.asarray(data, dtype=np.int64).all()

    def message(self, attrs: CheckDivisorAttrs) -> str:
        return attrs.message


@dataclass(frozen=True)
class CheckFiniteAttrs:
    message: str = "expected finite numbers"


@register
class CheckFinite(ElementCheck[CheckFiniteAttrs]):
    """data, or the run fails with ``message``, where an element of numbers is infinite or NaN though none of given is."""

    name = "check_finite"
    data = Operand(accepts="float or complex")
    numbers, given = Operand(accepts="float or complex"), Operand(accepts="float or complex")

    def infer(self, attrs: CheckFiniteAttrs, data: Value, numbers: Value, given: Value) -> Types:
        if not attrs.message or not attrs.message.isprintable():
            raise fail(self.name, "message", repr(attrs.message), "printable text")
        return [data.type]

    def reference(self, attrs: CheckFiniteAttrs, data: Array, numbers: Array, given: Array) -> Arrays:
        finite = [bool(np.isfinite(numeric.widen(x)).all()) for x in (numbers, given)]
        if finite == [False, True]:
            raise ExecutionError(f"{self.name}: {attrs.message}")
        return [data]

    def decompose(
        self, builder: Builder, attrs: CheckFiniteAttrs, data: Value, numbers: Value, given: Value
    ) -> Values:
        has, had = (builder.call("all", builder.call("isfinite", x), axis=None) for x in (numbers, given))
        holds = builder.call("logical_or", has, builder.call("logical_not", had))
        builder.call("check", holds, message=_placed(builder, attrs.message))
        return [data]


def _placed(builder: Builder, message: str) -> str:
    return f"node {dims.shown(builder.location)}: {message}" if builder.location else message
