"""Real numbers that are quantized ones with one scale, as rules read them."""

from __future__ import annotations

import numpy as np

from forge import dtypes
from forge.ir.edits.rewrite import RuleBuilder
from forge.ir.interp import evaluate
from forge.ir.nodes import Value
from forge.ops.elementwise.cast import Cast
from forge.ops.elementwise.select import Clip
from forge.ops.quantized.quantize import Dequantize
from forge.passes.integers.operands import BYTES, WIDE
from forge.passes.matching import made_by, operand, scalar

NARROW = (*BYTES, *WIDE)
"""Their differences are whole numbers of float32, and of int32."""


def numbers_of(value: Value) -> Dequantize | None:
    """Returns the conversion that makes ``value``, float32, of integers of 8 or 16 bits with one positive scale."""
    found = Dequantize.of(value.producer)
    if found is None or found.data.dtype not in NARROW or found.attrs.block_size or value.dtype != "float32":
        return None
    if any(v is not None and v.size != 1 for v in (found.scale, found.zero_point)):
        return None
    return found if found.scale.constant is None or found.scale.constant.reshape(()) > 0 else None


def parameters(found: Dequantize) -> tuple[object, ...]:
    """Returns a key that is equal for conversions of one dtype, scale and zero point."""
    scale, zero = found.scale.constant, np.int32(0) if found.zero_point is None else found.zero_point.constant
    if scale is None or zero is None:
        return (found,)
    return found.data.dtype, float(scale.reshape(())), int(zero.reshape(()))


def rounded(builder: RuleBuilder, found: Dequantize) -> Value | None:
    """Returns `centred` as the float32 that was converted to integers, if nothing else reads these."""
    cast = Cast.of(found.data.producer)
    bounded = None if cast is None else Clip.of(cast.data.producer)
    zero = np.int32(0) if found.zero_point is None else found.zero_point.constant
    if cast is None or bounded is None or zero is None or found.data.dtype not in NARROW or cast.data.dtype != "float32":
        return None
    if len(found.data.uses) != 1 or builder.graph.is_output(found.data) or not _is_whole(bounded, found.data.dtype):
        return None
    shift = builder.constant(np.float32(int(zero.reshape(()))))
    return cast.data if not zero.any() else builder.call("subtract", cast.data, shift)


def _is_whole(clip: Clip, dtype: str) -> bool:
    """Whether it gives numbers of ``dtype``: rounded, and perhaps shifted by a zero point, as `quantize_a_sum` makes them."""
    low, high = dtypes.integer_range(dtype)
    bounds = (clip.attrs.a_min, clip.attrs.a_max)
    if not all(b is not None and low <= b <= high and float(b).is_integer() for b in bounds):
        return False
    shifted = made_by(clip.data, "add")
    shift = 0.0 if shifted is None else scalar(operand(shifted, 1))
    data = clip.data if shifted is None else operand(shifted)
    return shift is not None and shift.is_integer() and made_by(data, "round") is not None


def constant_of(value: Value) -> np.ndarray | None:
    """Returns the contents of a constant of float32, which may be quantized."""
    if value.constant is not None:
        return value.constant if value.dtype == "float32" else None
    found = Dequantize.of(value.producer)
    if found is None or value.dtype != "float32" or any(v is not None and v.constant is None for v in found.node.operands):
        return None
    operands = [None if v is None else v.constant for v in found.node.operands]
    result: np.ndarray = evaluate(found.node, operands, {}, lambda *_: [])[0]
    return result
