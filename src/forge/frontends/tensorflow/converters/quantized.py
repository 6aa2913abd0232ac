"""Numbers rounded as integers can say them, and quantized constants."""

from __future__ import annotations

import numpy as np

from forge import dtypes
from forge.compose import fake_quantization
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts, refuse
from forge.ir.nodes import Value
from forge.ops.core.term import Term

for _name in (
    "QuantizeV2", "QuantizedAdd", "QuantizedAvgPool", "QuantizedBatchNormWithGlobalNormalization", "QuantizedBiasAdd",
    "QuantizedConcat", "QuantizedConv2D", "QuantizedMatMul", "QuantizedMaxPool", "QuantizedMul", "QuantizedRelu",
    "QuantizedRelu6",
    "QuantizedReshape", "QuantizedResizeBilinear", "QuantizeDownAndShrinkRange", "Requantize", "RequantizationRange",
):
    refuse(_name, "integer arithmetic of TensorFlow 1, whose ranges are computed with the data; quantize the float model instead")


@converts("FakeQuantWithMinMaxArgs")
def fake_quant_args(
    g: Context, x: Value, *, min: float = -6.0, max: float = 6.0, num_bits: int = 8, narrow_range: bool = False  # noqa: A002
) -> Value:
    return _fake(g, x, g.constant(min, "float32"), g.constant(max, "float32"), num_bits, narrow_range)


@converts("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant_vars(
    g: Context, x: Value, low: Value, high: Value, *, num_bits: int = 8, narrow_range: bool = False
) -> Value:
    """A range for all, or one for each number along the last axis."""
    return _fake(g, x, low, high, num_bits, narrow_range)


def _fake(g: Context, x: Value, low: Value, high: Value, bits: int, narrow: bool) -> Value:
    if not 2 <= bits <= 16:
        raise g.invalid(f"num_bits: got {bits}; expected 2 to 16")
    return fake_quantization.between(g, x, low, high, bits, narrow)


@converts("QuantizeAndDequantize")
def quantize_and_dequantize(
    g: Context, x: Value, *, signed_input: bool = True, num_bits: int = 8, range_given: bool = False, input_min: float = 0.0,
    input_max: float = 0.0,
) -> Value:
    low, high = (g.constant(v, x.dtype) for v in (input_min, input_max))
    return _rounded(g, x, low, high, signed_input, num_bits, range_given, "HALF_TO_EVEN", False, -1)


@converts("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4")
def quantize_and_dequantize_v2(
    g: Context, x: Value, low: Value, high: Value, *, signed_input: bool = True, num_bits: int = 8, range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN", narrow_range: bool = False, axis: int = -1,
) -> Value:
    return _rounded(g, x, low, high, signed_input, num_bits, range_given, round_mode, narrow_range, axis)


@converts("QuantizeAndDequantizeV3")
def quantize_and_dequantize_v3(
    g: Context, x: Value, low: Value, high: Value, bits: Value, *, signed_input: bool = True, range_given: bool = True,
    narrow_range: bool = False, axis: int = -1,
) -> Value:
    count = g.one_int(bits, "num_bits")
    return _rounded(g, x, low, high, signed_input, count, range_given, "HALF_TO_EVEN", narrow_range, axis)


def _rounded(
    g: Context, x: Value, low: Value, high: Value, signed: bool, bits: int, is_given: bool, round_mode: str, narrow: bool,
    axis: int,
) -> Value:
    """Multiples of a scale, with which the range, by default that of the numbers, fits the integers."""
    if round_mode not in ("HALF_TO_EVEN", "HALF_UP") or not 1 <= bits < 63:
        raise g.invalid(f"got round_mode {round_mode!r} and num_bits {bits}; expected HALF_TO_EVEN or HALF_UP, and 1 to 62")
    least = -(2.0 ** (bits - 1)) + narrow if signed else 0.0
    most = 2.0 ** (bits - 1) - 1 if signed else 2.0**bits - 1
    place = None if axis == -1 else g.axis(axis, x.rank)
    shape = tuple(x.shape[k] if k == place else 1 for k in range(x.rank)) if place is not None else ()
    if is_given:
        first, last = (Term(g, g.reshape(v, shape)) for v in (low, high))
    else:
        axes = tuple(k for k in range(x.rank) if k != place)
        first, last = (Term(g, g.reshape(g.call(op, x, axis=axes) if axes else x, shape)) for op in ("min", "max"))
    huge = float(np.finfo(np.float32 if dtypes.bits(x.dtype) <= 32 else np.float64).max)
    from_first, from_last = ((end * bound > 0).where(bound / end, huge) for end, bound in ((first, least), (last, most)))
    by_first = from_first < from_last
    scale = by_first.where(from_first, from_last)
    step = by_first.where(first / least if least else first * 0, last / most)
    data = Term(g, x)
    if is_given:
        data = data.maximum(by_first.where(first, step * least)).minimum(by_first.where(step * most, last))
    units = data * scale
    whole = (units + 0.5).floor() if round_mode == "HALF_UP" else Term(g, g.call("round", units.value))
    return (whole * step).value


@converts("Dequantize")
def dequantize(
    g: Context, x: Value, low: Value, high: Value, *, mode: str = "MIN_COMBINED", narrow_range: bool = False, axis: int = -1,
    dtype: str = "float32",
) -> Value:
    """Integers of a range; MIN_COMBINED and MIN_FIRST lay its ends on the least and greatest, SCALED 0 on 0."""
    if axis != -1:
        raise g.unsupported(f"axis: got {axis}; expected one range for all")
    least, most = dtypes.integer_range(x.dtype)
    data, first, last = Term(g, g.cast(x, "float32")), Term(g, g.reshape(low, ())), Term(g, g.reshape(high, ()))
    if mode == "SCALED":
        scale = last / float(most)
        scale = scale.maximum(first / float(least + narrow_range)) if least else scale
        return (data * scale).cast(dtype).value
    if mode not in ("MIN_COMBINED", "MIN_FIRST"):
        raise g.invalid(f"mode: got {mode!r}; expected MIN_COMBINED, MIN_FIRST or SCALED")
    step = (last - first) / float(most - least)
    if mode == "MIN_FIRST":
        first = Term(g, g.call("round_away", (first / step).value)) * step
        return ((data - float(least)) * step + first).cast(dtype).value
    half = (most - least + 1) / 2 if least else 0.0
    return ((data + half) * step + first).cast(dtype).value
