"""Quantized tensors: in the graph they are their integers; what computes with them computes with the numbers they stand for.

Where TFLite's reference kernels round by fixed point, Forge rounds real numbers, half to even, once. Theirs multiply an integer
with 31 bits of the ratio of scales, round, and round again when they drop the bits of its exponent, half away from 0 both times:
numbers just below half a step go up. `fixed_point` says how far below, and ``qnn.quantize`` adds that. What remains are
channels whose ratios have another exponent than most, and that floats have 24 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from forge import dtypes
from forge.errors import ImportModelError
from forge.frontends.converter import Converter
from forge.frontends.registry import as_list
from forge.frontends.tflite import registry
from forge.frontends.tflite.model import Quantization, Tensor
from forge.ir.nodes import Value

if TYPE_CHECKING:
    from forge.frontends.tflite.context import Context

NUMBERS = frozenset({"int2", "int4", "uint4", "int8", "uint8", "int16", "uint16"})
"""Types of quantized tensors. Wider integers with scales are biases, which converters of products read by `bias`."""


def stated(tensor: Tensor | None) -> Quantization | None:
    """How the numbers of a tensor are quantized, for what moves integers: scales of 0 do not matter then."""
    return tensor.quantization if tensor is not None and tensor.dtype in NUMBERS else None


def quantization(tensor: Tensor | None) -> Quantization | None:
    """How the numbers of a tensor are quantized; None where its elements are the numbers.

    Raises:
        ImportModelError: a scale is not a positive number.
    """
    how = stated(tensor)
    if tensor is not None and how is not None and not (np.isfinite(how.scales) & (how.scales > 0)).all():
        raise ImportModelError(
            f"tensor {tensor.name[:200]!r}: got scales {how.scales[:4]}; expected positive numbers; the model is invalid")
    return how


def converted(
    g: Context, row: Converter, operands: Sequence[Value | None], convert: Callable[[Sequence[Value | None]], Any]
) -> Any:
    """What ``convert`` makes of ``operands``, on numbers in the place of quantized integers."""
    if g.operator.name in _WITH_SHORT_MULTIPLIERS:
        _shorten(g)
    read = [g.tensor(k) for k in range(len(operands))]
    made = [g.result(k) if g.wants(k) else None for k in range(g.num_outputs)]
    kinds = [how for how in map(stated, (*read, *made)) if how is not None]
    if registry.is_of_integers(row.function) or not kinds or registry.is_moving(row.function) and _all_same(kinds):
        return convert(operands)
    given, wanted = [g.replaced.get(k, quantization(one)) for k, one in enumerate(read)], [quantization(one) for one in made]
    g.real = "float64" if is_wide(g) else "float32"
    numbers = [v if how is None or v is None else dequantize(g, v, how) for v, how in zip(operands, given)]
    results = as_list(convert(numbers))
    return [
        v if how is None or v is None or not dtypes.is_float(v.dtype) else quantize(g, v, how, g.result(k).dtype)
        for k, (v, how) in enumerate(zip(results, wanted))]


TIES = 2.0**-12
"""In steps: moves halves away from 0, and nothing else that integers of 8 bits give."""


def fixed_point(g: Context, *positions: int, count: int = 1) -> None:
    """Results are rounded as products of inputs are in fixed point, which those at ``positions`` are multiplied in.

    Args:
        count: numbers of which they are means: the multiplier has this in it, without its leading bits.
    """
    given = [quantization(g.tensor(k)) for k in positions]
    wanted = quantization(g.result())
    if wanted is None or None in given or g.replaced:
        return
    scales = _scales_of_product(g, given)
    if len({scales.size, wanted.scales.size} - {1}) > 1:
        raise g.invalid(f"got {scales.size} and {wanted.scales.size} scales; expected as many, or one")
    ratio = scales / wanted.scales
    g.away = away(ratio, ratio, count)


def _scales_of_product(g: Context, given: Sequence[Quantization | None]) -> np.ndarray:
    """The scales of products of numbers that are quantized so: one, or one for each channel."""
    scales = [q.scales.astype(np.float64) for q in given if q is not None]
    if len({one.size for one in scales} - {1}) > 1:
        raise g.invalid(f"got operands with {[one.size for one in scales]} scales; expected as many, or one")
    return math.prod(scales, start=np.ones(1))


def away(below: np.ndarray, above: np.ndarray, count: int = 1) -> tuple[float, float]:
    """How products with these ratios of scales are rounded in fixed point, those below 0 and others."""
    low, high = (float(np.median(lost(ratio, count))) for ratio in (below, above))
    return low or -TIES, high or TIES


def lost(ratio: np.ndarray, count: int = 1) -> np.ndarray:
    """Half a unit of the first rounding, in steps of the result; where there is one rounding only, nothing."""
    dropped = count.bit_length() - 1 - np.frexp(ratio)[1]
    return np.where(dropped > 0, 0.5 / 2.0 ** np.clip(dropped, 0, 60), 0.0)


def real_product(g: Context, *positions: int) -> None:
    """Results are rounded as kernels round that multiply sums of products with a float64, half away from 0.

    Where the ratio of scales makes sums halves of steps, float32 cannot say on which side of these the float64 is: most of them
    do.
    """
    given, wanted = [quantization(g.tensor(k)) for k in positions], quantization(g.result())
    if wanted is None or None in given or g.replaced or g.result().dtype not in ("int8", "uint8"):
        return
    ratio = (_scales_of_product(g, given) / wanted.scales)[:, None]
    halves = np.arange(256) + 0.5
    beyond = np.rint(halves / ratio) * ratio - halves
    close = beyond[np.abs(beyond) < TIES]
    if close.size:
        step = TIES if np.mean(close >= 0) >= 0.5 else -TIES
        g.away = (step, step)


_UNIT = Quantization(np.ones(1, np.float32), np.zeros(1, np.int64))


def centred(g: Context, value: Value, how: Quantization | None) -> Value:
    """The numbers that integers stand for, in the scale 1."""
    return value if how is None else dequantize(g, value, Quantization(_UNIT.scales, how.zero_points[:1]))


def as_numbers(g: Context, value: Value) -> Value:
    """Integers of a quantized tensor as the numbers that they are themselves; other tensors as they are."""
    g.real = "float64" if is_wide(g) else "float32"
    return value if quantization(g.tensor(0)) is None else dequantize(g, value, _UNIT)


def rounded(g: Context, value: Value, activation: str = "NONE") -> Value:
    """Results of `as_numbers`, half away from 0, as integers of the output, after an activation function; floats as they are."""
    given, wanted = quantization(g.tensor(0)), quantization(g.result())
    if given is None or wanted is None:
        return value
    g.away = (TIES, TIES)
    whole = quantize(g, value, _UNIT, g.result().dtype)
    if not given.same(wanted):
        return activated(g, requantized(g, whole, given, wanted, g.result().dtype), activation, wanted)
    return activated(g, whole, activation, wanted)


RANGES = {"RELU": (0.0, None), "RELU_N1_TO_1": (-1.0, 1.0), "RELU6": (0.0, 6.0), "RELU_0_TO_1": (0.0, 1.0)}
"""Activation functions that are bounds."""


def activated(g: Context, value: Value, activation: str, how: Quantization) -> Value:
    """Integers after an activation function that is bounds."""
    if activation == "NONE":
        return value
    if activation not in RANGES:
        raise g.unsupported(f"fused_activation_function: got {activation} for a quantized tensor; expected NONE or a RELU")
    least, most = dtypes.integer_range(value.dtype)
    scale, zero = float(how.scales[0]), int(how.zero_points[0])
    bounds = [None if b is None else round(nearest(how, b) / scale) + zero for b in RANGES[activation]]
    low, high = (default if b is None else min(max(b, least), most) for b, default in zip(bounds, (least, most)))
    return g.call("clip", value, a_min=low, a_max=high)


_WITH_SHORT_MULTIPLIERS = {
    "CONV_2D": (0, 1), "DEPTHWISE_CONV_2D": (0, 1), "TRANSPOSE_CONV": (2, 1), "BATCH_MATMUL": (0, 1)}
"""Products whose sums are integers of 64 bits where data are of int16, and where their two factors are."""


def _shorten(g: Context) -> None:
    """Kernels multiply these sums by the ratio of scales, rounded to 15 bits: scales of weights that give that ratio."""
    data, weights = _WITH_SHORT_MULTIPLIERS[g.operator.name]
    given, factor, wanted = (quantization(one) for one in (g.tensor(data), g.tensor(weights), g.result()))
    if given is None or factor is None or wanted is None or g.result().dtype != "int16":
        return
    ratio = given.scales.astype(np.float64) * factor.scales / wanted.scales
    fraction, exponent = np.frexp(ratio)
    bits = np.minimum(np.rint(fraction * 2**15), 2**15 - 1)
    scales = bits / 2**15 * 2.0**exponent * wanted.scales / given.scales
    g.replaced[weights] = Quantization(scales.astype(np.float32), factor.zero_points, factor.axis)


def is_wide(g: Context) -> bool:
    """Whether numbers are float64: 24 bits are too few to round results of int16 as integers are. Products stay integers."""
    return g.result().dtype == "int16" and g.operator.name not in (*_WITH_SHORT_MULTIPLIERS, "FULLY_CONNECTED")


def _all_same(given: Sequence[Quantization]) -> bool:
    return all(given[0].same(other) for other in given[1:])


def dequantize(g: Context, value: Value, how: Quantization) -> Value:
    """The numbers that integers stand for."""
    scales, zero_points = _parameters(g, value.dtype, how)
    return g.call("qnn.dequantize", value, scales, zero_points, axis=how.axis or 0, out_dtype=g.real)


def quantize(g: Context, value: Value, how: Quantization, dtype: str) -> Value:
    """The integers that stand for numbers, rounded to the nearest, saturated."""
    scales, zero_points = _parameters(g, dtype, how)
    return g.call("qnn.quantize", g.cast(value, g.real), scales, zero_points, out_dtype=dtype, axis=how.axis or 0, away=g.away)


def by_numbers(g: Context, x: Value, compute: Callable[[Value], Value]) -> Value:
    """What is computed of the numbers that the first input stands for, as integers where the output is quantized."""
    given, wanted = quantization(g.tensor(0)), quantization(g.result())
    found = compute(x if given is None else dequantize(g, x, given))
    return found if wanted is None else quantize(g, found, wanted, g.result().dtype)


def to_units(g: Context, value: Value, unit: float, ratio: float) -> Value:
    """Numbers as multiples of ``unit``, as fixed point rounds products with ``ratio``."""
    moved_by = float(lost(np.asarray(ratio)))
    steps = g.call("multiply", value, g.scalar(1 / unit, value))
    moved = g.call("add", steps, g.call("multiply", g.call("sign", value), g.scalar(moved_by, value))) if moved_by else steps
    return g.call("multiply", g.call("round" if moved_by else "round_away", moved), g.scalar(unit, value))


def nearest(how: Quantization, number: float) -> float:
    """The number nearest to ``number`` that an integer stands for: bounds are rounded without regard to fixed point."""
    steps = np.float64(np.float32(number) / how.scales[0])
    return float(np.copysign(np.floor(np.abs(steps) + 0.5), steps) * np.float64(how.scales[0]))


def requantized(g: Context, value: Value, given: Quantization | None, wanted: Quantization | None, dtype: str) -> Value:
    """Integers with one quantization as those with another."""
    if given is None or wanted is None or given.same(wanted) and value.dtype == dtype:
        return value
    return quantize(g, dequantize(g, value, given), wanted, dtype)


def bias(g: Context, position: int, value: Value | None, *factors: int) -> Value | None:
    """A bias as float32: integers are multiples of their scales, or of the product of those of the inputs ``factors``."""
    tensor = g.tensor(position)
    if value is None or tensor is None or not dtypes.is_integer(value.dtype):
        return value
    how = None if set(factors) & set(g.replaced) else tensor.quantization
    if how is None:
        given = [g.quantization(k) for k in factors]
        if not all(given):
            return g.cast(value, "float32")
        scales = _scales_of_product(g, given)
        axis = 0 if np.size(scales) > 1 else None
        how = Quantization(np.asarray(scales, np.float32), np.zeros(np.size(scales), np.int64), axis)
    if how.axis is not None and value.shape != (how.scales.size,):
        raise g.invalid(f"bias: got {value.type} with {how.scales.size} scales; expected one for each element")
    known = value.constant
    if known is not None:
        return g.constant((known.astype(np.float64) * how.scales.astype(np.float64)).astype(np.float32))
    scale = g.constant(how.scales if how.axis is not None else how.scales[0], "float32")
    return g.call("multiply", g.cast(value, "float32"), scale)


def _parameters(g: Context, dtype: str, how: Quantization) -> tuple[Value, Value | None]:
    low, high = dtypes.integer_range(dtype)
    if not (np.isfinite(how.scales) & (how.scales > 0)).all() or ((how.zero_points < low) | (how.zero_points > high)).any():
        raise g.invalid(f"got scales {how.scales[:4]} and zero points {how.zero_points[:4]}; expected positive scales, and zero "
                        f"points of {dtype}")
    zero_points = None if how.is_symmetric else how.zero_points
    if how.axis is None:
        return g.constant(how.scales[0], g.real), None if zero_points is None else g.constant(int(zero_points[0]), dtype)
    return g.constant(how.scales, g.real), None if zero_points is None else g.constant(zero_points, dtype)
