"""Numbers that are quantized again: one product for each term, and one rounding.

``qnn.quantize(nn.bias_add(multiply(cast(%i), s), b), t, z)`` --> ``cast(clip(add(round(multiply(cast(add(%i, b / s)), s / t)),
z)))``, with bounds for ``nn.relu`` and ``clip``. A rounding point moves, by less than one step of the result. All parts are
rounded on their own (products of converted integers are not fused multiply-adds), so that all targets give the same integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forge import dtypes
from forge.ir.edits.rewrite import RuleBuilder, rule
from forge.ir.nodes import Value
from forge.ops.elementwise.select import Clip
from forge.ops.quantized.quantize import Quantize
from forge.passes.integers.numbers import numbers_of, parameters
from forge.passes.integers.operands import BYTES
from forge.passes.integers.sums import ONE, Sum, real_sum, sum_of
from forge.passes.integers.tables import argument
from forge.passes.integers.terms import centred
from forge.passes.matching import made_by, operand

MAX_MOVED = 2.0**-11
"""In steps of the result: so far may numbers be moved away from 0 by more or less than they should be, on average."""
MAX_BITS = 16
"""float32 holds all integers of a quantized type."""
MIN_SCALE = 1e-30


@dataclass(frozen=True)
class _Steps:
    """What numbers are quantized to: scale and zero point, one of each or one for each channel, in which case they broadcast."""

    dtype: str
    scale: np.ndarray
    zero: np.ndarray


@rule(Quantize)
def quantize_again(builder: RuleBuilder, found: Quantize) -> Value | None:
    """``qnn.quantize(qnn.dequantize(%x, s, z), s, z)`` --> ``%x``, with bounds for ``nn.relu`` and ``clip``"""
    wanted = _wanted(found)
    if wanted is None or wanted.scale.size != 1 or wanted.zero.size != 1:
        return None
    value, least, most = _bounded(found.data, wanted)
    same, low, high = numbers_of(value), int(least), int(most)
    if same is None or parameters(same) != (wanted.dtype, float(wanted.scale), int(wanted.zero)) or low > high:
        return None
    if (low, high) == dtypes.integer_range(wanted.dtype):
        return same.data
    return builder.call("clip", same.data, a_min=low, a_max=high)


@rule(Quantize, moves_rounding=True)
def quantize_a_sum(builder: RuleBuilder, found: Quantize) -> Value | None:
    """Quantizes a sum of scaled integers by one product for each term, and one rounding."""
    wanted = _wanted(found)
    if wanted is None:
        return None
    value, low, high = _bounded(found.data, wanted)
    total = sum_of(builder, value) if np.all(low <= high) else None
    if total is None or not total.terms or not total.is_finite:
        return None
    total, away = total.times(1 / wanted.scale), found.attrs.away
    if away and total.bias is not None and np.all(low >= wanted.zero) and _is_whole_unit(total, away[1]):
        total, away = total.plus(Sum((), np.asarray(away[1], np.float64))), ()
    return _rounded_to(builder, found, wanted, real_sum(builder, total), low, high, away)


def _is_whole_unit(total: Sum, step: float) -> bool:
    """Whether ``step`` is near a whole number of the units that a bias is added in, which costs nothing."""
    unit = min((np.abs(factor) for _, factor in total.terms), key=lambda f: float(f.max(initial=0)))
    return bool(np.all(unit > 0) and np.mean(np.abs(np.rint(step / unit) * unit - step)) <= MAX_MOVED)


@rule(Quantize, moves_rounding=True)
def quantize_a_product(builder: RuleBuilder, found: Quantize) -> Value | None:
    """Quantizes a product of two integers, of which the smaller tensor is multiplied by all scales first.

    A function of one quantized tensor is better as a table.
    """
    wanted = None if argument(found.node) is not None else _wanted(found)
    value, low, high = (found.data, ONE, -ONE) if wanted is None else _bounded(found.data, wanted)
    product = made_by(value, "multiply")
    if wanted is None or product is None or not np.all(low <= high):
        return None
    factors = [numbers_of(operand(product, k)) for k in (0, 1)]
    parts = [f for f in factors if f is not None and f.scale.constant is not None and f.data.dtype in BYTES]
    if len(parts) < 2:
        return None
    if parts[0].result.shape == value.shape:
        parts.reverse()
    scale = np.prod([np.float64(p.scale.constant.reshape(())) for p in parts if p.scale.constant is not None]) / wanted.scale
    if not np.isfinite(scale.astype(np.float32)).all():
        return None
    # int32, shared with another reader, would be stored
    small, large = (centred(builder, p.data, p.zero_point, "float32") for p in parts)
    real = builder.call("multiply", large, builder.call("multiply", small, builder.constant(scale.astype(np.float32))))
    return _rounded_to(builder, found, wanted, real, low, high, found.attrs.away)


@rule(Quantize)
def quantize_before_views(builder: RuleBuilder, found: Quantize) -> Value | None:
    """``qnn.quantize(reshape(%x), s, z)`` --> ``reshape(qnn.quantize(%x, s, z))``"""
    view = found.data.producer
    if view is None or not (view.op_def.is_view or view.op_def.is_permutation) or len(found.data.uses) != 1:
        return None
    if builder.graph.is_output(found.data) or any(v is not None and v.size != 1 for v in found.node.operands[1:]):
        return None
    whole = builder.call("qnn.quantize", view.operands[0], found.scale, found.zero_point, **found.node.attributes | {"axis": -1})
    return builder.call(view.op_def, whole, *view.operands[1:], name=found.node.name, **view.attributes)


@rule(Quantize)
def quantize_parts(builder: RuleBuilder, found: Quantize) -> Value | None:
    """``qnn.quantize(concatenate(%a, %b), s, z)`` --> ``concatenate(qnn.quantize(%a, s, z), qnn.quantize(%b, s, z))``"""
    joined = made_by(found.data, "concatenate")
    if joined is None or found.attrs.block_size or any(v is not None and v.size != 1 for v in found.node.operands[1:]):
        return None
    attributes = found.node.attributes | {"axis": -1}
    parts = [builder.call("qnn.quantize", v, found.scale, found.zero_point, **attributes) for v in joined.operands]
    return builder.call("concatenate", *parts, name=found.node.name, **joined.attributes)


def _rounded_to(
    builder: RuleBuilder, found: Quantize, wanted: _Steps, real: Value, low: np.ndarray, high: np.ndarray, away: tuple[float, ...]
) -> Value:
    """``real``, in steps of ``wanted``, moved ``away`` from 0, as what ``found`` gives, between bounds."""
    if away:
        real = builder.call("add", real, _away(builder, real, away[0], away[1], bool(np.all(low >= wanted.zero))))
    real = builder.call("round", real)
    if wanted.zero.any():
        real = builder.call("add", real, builder.constant(wanted.zero.astype(np.float32)))
    return builder.call("cast", _between(builder, real, low, high), dtype=wanted.dtype, name=found.node.name)


def _away(builder: RuleBuilder, real: Value, below: float, above: float, is_positive: bool) -> Value:
    """What is added to ``real``; what is below 0 does not matter where no result is."""
    if is_positive:
        return builder.constant(np.float32(above))
    if below == above >= 0:
        return builder.call("copysign", builder.constant(np.float32(above)), real)
    is_below = builder.call("less", real, builder.constant(np.float32(0)))
    return builder.call("where", is_below, builder.constant(np.float32(-below)), builder.constant(np.float32(above)))


def _between(builder: RuleBuilder, real: Value, low: np.ndarray, high: np.ndarray) -> Value:
    """``real`` within bounds, which may be those of channels."""
    if low.min() == low.max() and high.min() == high.max():
        return builder.call("clip", real, a_min=int(low.min()), a_max=int(high.max()))
    least = builder.call("maximum", real, builder.constant(low.astype(np.float32)))
    return builder.call("minimum", least, builder.constant(high.astype(np.float32)))


def _wanted(found: Quantize) -> _Steps | None:
    """Scales and zero points of a quantization of float32, if they are known and float32 holds the results."""
    scale, zero = found.scale.constant, np.int32(0) if found.zero_point is None else found.zero_point.constant
    if scale is None or zero is None or found.data.dtype != "float32" or found.attrs.block_size:
        return None
    rank = max(1, found.data.rank)
    along = (-1, *(1,) * (rank - 1 - found.attrs.axis % rank))
    steps, zeros = (v.reshape(() if v.size == 1 else along) for v in (scale.astype(np.float64), np.asarray(zero, np.int64)))
    if not np.all((steps >= MIN_SCALE) & (steps <= 1 / MIN_SCALE)) or dtypes.bits(found.attrs.out_dtype) > MAX_BITS:
        return None
    return _Steps(found.attrs.out_dtype, steps, zeros)


def _bounded(value: Value, wanted: _Steps) -> tuple[Value, np.ndarray, np.ndarray]:
    """``value`` without the bounds that it has, and these as quantized numbers."""
    range_ = dtypes.integer_range(wanted.dtype)
    low, high = (np.full(np.broadcast_shapes(wanted.scale.shape, wanted.zero.shape), bound) for bound in range_)

    def quantized(bound: float) -> np.ndarray:
        whole = np.rint(np.float32(bound) / wanted.scale.astype(np.float32)) + wanted.zero
        return np.asarray(np.clip(whole, *range_), np.int64)

    while True:
        clip = Clip.of(value.producer)
        if (relu := made_by(value, "nn.relu")) is not None:
            value, low = operand(relu), np.maximum(low, wanted.zero)
        elif clip is not None and clip.min is None and clip.max is None and not any(
                b is not None and np.isnan(b) for b in vars(clip.attrs).values()):
            value = clip.data
            bounds = [None if b is None else quantized(b) for b in (clip.attrs.a_min, clip.attrs.a_max)]
            low = low if bounds[0] is None else np.maximum(low, bounds[0])
            high = high if bounds[1] is None else np.minimum(high, bounds[1])
        else:
            return value, low, high
