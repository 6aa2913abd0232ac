"""Products of integers of 8 bits with zero points, which the graph IR has as products of differences in 32 bits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dtypes
from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.operators.core.layouts import constant_transposed
from forge.ir.interp import evaluate
from forge.ir.nodes import Value

_NARROW = ("int8", "uint8")


@dataclass(frozen=True)
class Centred:
    """Integers of 8 bits, less a zero point (None: 0)."""

    data: Ref
    zero: Ref | None

    def transposed(self, g: Emitter, axes: Sequence[int]) -> Centred:
        return Centred(constant_transposed(g, self.data, axes), self.zero)


def centred(g: Emitter, value: Value | None) -> list[Centred]:
    """Integers of 8 bits whose sum is ``value``, of integers; none where it is something else."""
    if value is None or value.dtype not in (*_NARROW, "int32"):
        return []
    if value.dtype != "int32":
        return [Centred(g.ref(value), None)]
    narrow = _narrow(g, value)
    if narrow is not None:
        return [Centred(narrow, None)]
    whole = _difference(g, value)
    if whole is not None:
        return [whole]
    contents = _contents(value)
    return [] if contents is None else _constant(g, contents)


def _difference(g: Emitter, value: Value) -> Centred | None:
    """``value`` as widened integers less one zero point."""
    if value.producer is None or value.producer.op != "subtract":
        return None
    minuend, subtrahend = value.producer.operands
    data = _narrow(g, minuend)
    if subtrahend is None or subtrahend.tensor_type.size != 1:
        return None
    zero = None if data is None else _zero_point(g, subtrahend, data.dtype)
    return None if data is None or zero is None else Centred(data, zero)


def _contents(value: Value) -> np.ndarray | None:
    """The contents of a constant, of a constant that is cast, or of a difference of such."""
    node = value.producer
    if value.constant is not None or node is None:
        return value.constant
    parts = [None if v is None else _contents(v) for v in node.operands] if node.op in ("cast", "subtract") else [None]
    if any(p is None for p in parts):
        return None
    found: np.ndarray = evaluate(node, parts, {}, lambda *_: [])[0]
    return found


def _constant(g: Emitter, array: np.ndarray) -> list[Centred]:
    """Of 8 bits: with a zero point, or, as weights with zero points of their own for each channel may need, in two parts."""
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    if high - low <= 255:
        return [Centred(g.const((array - low).astype(np.uint8)), g.const(-low, "uint8"))]
    most = np.clip(array, -128, 127)
    rest = array - most
    return [Centred(g.const(part.astype(np.int8)), None) for part in (most, rest)] if _fits(rest, "int8") else []


def _narrow(g: Emitter, value: Value | None) -> Ref | None:
    """The integers of 8 bits that were widened to ``value``, or that a constant could be."""
    if value is None:
        return None
    if value.constant is not None:
        fitting = next((d for d in _NARROW if _fits(value.constant, d)), None)
        return None if fitting is None else g.const(value.constant.astype(dtypes.numpy_dtype(fitting)))
    producer = value.producer
    source = producer.operands[0] if producer is not None and producer.op == "cast" else None
    return g.values.get(source) if source is not None and source.dtype in _NARROW else None


def _zero_point(g: Emitter, value: Value, dtype: str) -> Ref | None:
    if value.constant is not None:
        return g.const(value.constant.reshape(()), dtype) if _fits(value.constant, dtype) else None
    narrow = _narrow(g, value)
    return g.scalar(narrow) if narrow is not None and narrow.dtype == dtype else None


def _fits(array: np.ndarray, dtype: str) -> bool:
    low, high = dtypes.integer_range(dtype)
    return bool(low <= array.min(initial=0) and array.max(initial=0) <= high)


def product(g: Emitter, op: str, a: Centred, b: Sequence[Centred], **attributes: Any) -> Ref:
    """ConvInteger or MatMulInteger, of each of the parts of ``b``."""
    products = [g.op(op, a.data, part.data, a.zero, part.zero, **attributes) for part in b]
    return functools.reduce(lambda x, y: g.op("Add", x, y), products)


def bytes_of(g: Emitter, x: Ref) -> tuple[Ref, Ref]:
    """The low and the high byte of int16, of which a datum is ``low + 256 * high``: uint8 and int8."""
    whole, size = g.cast(x, "int32"), g.const(256, "int32")
    low = g.op("Mod", whole, size)
    return g.cast(low, "uint8"), g.cast(g.op("Div", g.op("Sub", whole, low), size), "int8")


def by_float(g: Emitter, x: Ref, moved: Callable[[Ref], Ref]) -> Ref:
    """``moved(x)``; of integers of 16 bits by float32, which holds them: onnxruntime moves no others in some operators."""
    return g.cast(moved(g.cast(x, "float32")), x.dtype) if x.dtype in ("int16", "uint16") else moved(x)
