"""Elementwise operators are rows of a table; this is the class that a row becomes.

A row's ``reference`` and ``lower`` take one array or expression per operand, and the attributes by keyword. Operands
broadcast as in NumPy and have equal element types.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from forge import dtypes, te
from forge.dims import is_static
from forge.ir.builder import Builder
from forge.ir.op import Range
from forge.ir.types import TensorType
from forge.ops.core.inference import broadcast_shapes, same_dtype
from forge.ops.core.lowering import identifier
from forge.ops.core.op import Accuracy, Category, Kind, NoAttrs, Op, Operand, Precision, Trait, register
from forge.ops.core.ranges import lies_within
from forge.ops.core.scalar_math import widen_all
from forge.ops.core.signatures import Array, Arrays, DimArray, Expr, Lowered, OperandTypes, TensorTypes, Types, Value, Values
from forge.te import Tensor
from forge.tir.visit import is_costly


@dataclass(frozen=True)
class Row:
    """One elementwise operator.

    ``doc`` is its equation. ``accepts`` is a class of ``dtypes.CLASSES``; ``result`` is "same", "real" (the type
    of the parts of complex operands, else the same), "complex" (of operands that are parts) or a dtype. ``dims`` is its meaning
    on dimensions, which may return None (undecidable). ``on_complex`` is the accuracy on complex operands where it
    differs; ``on_strings`` the operator that takes its place in compiled code where operands are strings. ``precision``,
    ``category``, ``neutral_operand``, ``is_clamp`` and ``keeps_ratios`` are as for every operator; None: derived, or none.
    ``is_monotonic``: it does not decrease where an operand increases.
    """

    name: str
    doc: str
    reference: Callable[..., Any]
    lower: Callable[..., Expr]
    operands: tuple[str, ...] = ("data",)
    accepts: str = "numeric"
    result: str = "same"
    accuracy: Accuracy = Accuracy.ROUNDING
    attrs: type[Any] = NoAttrs
    traits: Trait = Trait.NONE
    dims: Callable[..., Any] | None = None
    flops: int = 1
    on_complex: Accuracy | None = None
    on_strings: str | None = None
    precision: Precision | None = None
    category: Category | None = None
    is_monotonic: bool = False
    neutral_operand: float | None = None
    is_clamp: bool = False
    keeps_ratios: bool = False


class Elementwise(Op[Any]):
    """An operator that a ``Row`` describes."""

    kind = Kind.ELEMENTWISE
    row: Row

    def infer(self, attrs: Any, *operands: Value) -> Types:
        types = [v.tensor_type for v in operands]
        dtype = _result_dtype(self.row.result, same_dtype(self.name, types))
        shape = broadcast_shapes(self.name, *[t.shape for t in types])
        return [next((t for t in types if t.shape == shape and t.dtype == dtype), None) or TensorType(shape, dtype)]

    def accuracy_on(self, dtype: str) -> Accuracy:
        return self.row.on_complex or self.accuracy if dtypes.is_complex(dtype) else self.accuracy

    def reference(self, attrs: Any, *operands: Array) -> Arrays:
        return [self.row.reference(*(widen_all(x) for x in operands), **keywords(attrs))]

    def lower(self, attrs: Any, results: TensorTypes, *operands: Tensor) -> Lowered:
        return [broadcast_compute(self.name, results[0], lambda *x: self._body(x, attrs), *operands)]

    def _body(self, x: Sequence[Expr], attrs: Any) -> Expr:
        """The row's expression, of narrow floats in float32 throughout, so that constants and steps are not rounded to them.

        What is one function of bfloat16 stays that: code generation has a form for it.
        """
        narrow = dtypes.is_float(x[0].dtype) and dtypes.bits(x[0].dtype) <= 16
        plain = self.row.lower(*x, **keywords(attrs))
        if not narrow or self.row.accuracy is not Accuracy.ROUNDING or self.row.result != "same" or _is_short(plain, x):
            return plain
        wide = self.row.lower(*(te.cast(v, "float32") for v in x), **keywords(attrs))
        return te.cast(wide, x[0].dtype)

    def decompose(self, builder: Builder, attrs: Any, *operands: Value) -> Values | None:
        if self.row.on_strings is None or operands[0].dtype != "string":
            return None
        return [builder.call(self.row.on_strings, *operands)]

    def evaluate_dims(self, attrs: Any, types: OperandTypes, *operands: DimArray) -> DimArray:
        if self.row.dims is None or any(x is None for x in operands):
            return None
        return apply_dims(self.row.dims, *(x for x in operands if x is not None))

    def element_range(
        self, attrs: Any, results: Types, ranges: Sequence[Range | None], *operands: Value | None
    ) -> Sequence[Range | None]:
        """Of those that do not decrease where an operand increases: their ``dims`` of the ends, unless these may wrap."""
        dtype = getattr(results[0], "dtype", "")
        if self.row.dims is None or not self.row.is_monotonic or not dtypes.is_integer(dtype):
            return [None]
        ends = dtypes.integer_range(dtype)
        low, high = (self.row.dims(*((ends if r is None else r)[side] for r in ranges)) for side in (0, 1))
        wraps = not lies_within((low, high), *ends) and (dtype != "int64" or is_static(low, high))
        return [None if wraps else (low, high)]

    def is_costly(self, attrs: Any, *operands: Value) -> bool:
        return _is_costly(self, attrs, *(v.dtype for v in operands))


@cache
def _is_costly(op: Elementwise, attrs: Any, *element_types: str) -> bool:
    return is_costly(op._body([te.placeholder((), t)[()] for t in element_types], attrs))


def _is_short(body: Expr, x: Sequence[Expr]) -> bool:
    """Whether ``body`` is nothing but a function of operands ``x`` in bfloat16 that has a form for that type."""
    direct = isinstance(body, te.Call) and body.name in te.BFLOAT16_INTRINSICS and body.args == tuple(x)
    return direct and x[0].dtype == "bfloat16"


def _result_dtype(result: str, dtype: str) -> str:
    if result == "real":
        return dtypes.part(dtype) if dtypes.is_complex(dtype) else dtype
    return {"same": dtype, "complex": dtypes.complex_of(dtype)}.get(result, result)


def keywords(attrs: Any) -> Mapping[str, Any]:
    """The attributes as keyword arguments."""
    return {f.name: getattr(attrs, f.name) for f in dataclasses.fields(attrs)}


def broadcast_compute(name: str, result: TensorType, body: Callable[..., Expr], *operands: Tensor) -> Tensor:
    """The compute whose element is ``body`` of the broadcast elements of the operands."""
    return te.compute(
        result.shape, lambda *i: body(*(te.broadcast_read(t, i) for t in operands)), identifier(name), result.dtype
    )


FACTS = ("precision", "category", "neutral_operand", "is_clamp", "keeps_ratios")


def register_rows(module: str, rows: Sequence[Row]) -> None:
    """Makes and registers the operators of a table in ``module``."""
    for row in rows:
        members = {
            "__doc__": row.doc, "name": row.name, "Attrs": row.attrs,
            "operands": tuple(Operand(n, accepts=row.accepts) for n in row.operands),
            "traits": row.traits, "accuracy": row.accuracy, "flops_per_element": row.flops, "row": row,
            "__module__": module,
            **{fact: value for fact in FACTS if (value := getattr(row, fact)) is not None},
        }
        register(type(f"Elementwise_{identifier(row.name)}", (Elementwise,), members))


def apply_dims(function: Callable[..., Any], *arrays: Array) -> DimArray:
    """``function`` of dimensions, element by element; None when one element is None."""
    result = np.asarray(np.frompyfunc(function, len(arrays), 1)(*arrays), dtype=object)
    return None if any(v is None for v in result.flat) else result
