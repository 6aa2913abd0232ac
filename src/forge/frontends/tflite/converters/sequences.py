"""Ranges, running sums, blocks, windows, spectra and other operators on whole tensors."""

from __future__ import annotations

import numpy as np

from forge.compose.axes import broadcast_shapes
from forge.compose.bits import bitcast_elements
from forge.compose.fake_quantization import between
from forge.compose.spectral import fftn
from forge.frontends.tflite import quantized
from forge.frontends.tflite.context import Context
from forge.frontends.tflite.registry import converts, moves, takes_integers
from forge.ir.nodes import Value


@converts("RANGE")
def range_(g: Context, start: Value, limit: Value, delta: Value) -> Value:
    return g.call("arange", *(g.reshape(v, ()) for v in (start, limit, delta)))


@converts("RANK")
@takes_integers
def rank(g: Context, x: Value) -> Value:
    return g.constant(x.rank, g.result().dtype)


@converts("CUMSUM")
def cumulative_sum(g: Context, x: Value, axis: Value, *, exclusive: bool = False, reverse: bool = False) -> Value:
    (place,) = g.required_ints(axis, "axis")
    place = g.axis(place, x.rank)
    x = g.call("reverse", x, axis=place) if reverse else x
    found = g.call("cumsum", x, axis=place, exclusive=exclusive)
    return g.call("reverse", found, axis=place) if reverse else found


@converts("BROADCAST_ARGS")
@takes_integers
def broadcast_arguments(g: Context, first: Value, second: Value) -> Value:
    return broadcast_shapes(g, first, second)


@converts("BITCAST")
@takes_integers
def bitcast(g: Context, x: Value) -> Value:
    return bitcast_elements(g, x, g.result().dtype)


@converts("DENSIFY")
@takes_integers
def densify(g: Context, x: Value) -> Value:
    """Contents of sparse tensors are read as dense ones."""
    return x


@converts("DILATE")
@moves
def dilate(g: Context, x: Value, dilations: Value, padding: Value) -> Value:
    return g.call("nn.dilate", x, g.reshape(padding, ()), strides=g.required_ints(dilations, "dilations"))


@converts("SPACE_TO_BATCH_ND")
@moves
def space_to_batch(g: Context, x: Value, block: Value, paddings: Value) -> Value:
    how = quantized.quantization(g.tensor(0))
    is_integers = how is not None and not x.dtype.startswith("float")
    pad = float(how.zero_points[0]) if how is not None and is_integers else 0.0
    sizes, widths = g.required_ints(block, "block_shape"), _pairs(g, paddings, "paddings")
    return g.call("nn.space_to_batch_nd", x, block_shape=sizes, paddings=widths, pad_value=pad)


@converts("BATCH_TO_SPACE_ND")
@moves
def batch_to_space(g: Context, x: Value, block: Value, crops: Value) -> Value:
    return g.call("nn.batch_to_space_nd", x, block_shape=g.required_ints(block, "block_shape"), crops=_pairs(g, crops, "crops"))


def _pairs(g: Context, value: Value, what: str) -> tuple[tuple[int, int], ...]:
    found = g.required_ints(value, what)
    return tuple(zip(found[::2], found[1::2]))


@converts("COMPLEX_ABS")
def complex_abs(g: Context, x: Value) -> Value:
    return g.call("abs", x)


@converts("REAL", "IMAG")
def part(g: Context, x: Value) -> Value:
    return g.call(f"complex.{g.operator.name.lower()}", x)


@converts("RFFT2D")
def rfft_2d(g: Context, x: Value, lengths: Value) -> Value:
    return fftn(g, x, (x.rank - 2, x.rank - 1), g.required_ints(lengths, "fft_length"), onesided=True)


@converts("FAKE_QUANT")
def fake_quantize(
    g: Context, x: Value, *, min: float = 0.0, max: float = 0.0, num_bits: int = 0, narrow_range: bool = False  # noqa: A002
) -> Value:
    if not num_bits or np.float32(max) <= np.float32(min):
        raise g.invalid(f"got {num_bits} bits between {min} and {max}; expected a range")
    return between(g, x, g.constant(min, "float32"), g.constant(max, "float32"), num_bits, narrow_range)


_REDUCTIONS = {"ADD": "sum", "MUL": "prod", "MINIMUM": "min", "MAXIMUM": "max", "ALL": "all", "ANY": "any"}


@converts("REDUCE_WINDOW")
@takes_integers
def reduce_window(
    g: Context, x: Value, initial: Value, shape: Value, strides: Value, dilations: Value, *, reduce_function: str = "UNSUPPORTED"
) -> Value:
    if reduce_function not in _REDUCTIONS:
        raise g.invalid(f"reduce_function: got {reduce_function}; expected one of {', '.join(_REDUCTIONS)}")
    window, steps, holes = (g.required_ints(v, what) for v, what in (
        (shape, "window_shape"), (strides, "window_strides"), (dilations, "window_dilations")))
    return g.call(
        "reduce_window", x, g.reshape(initial, ()), reduction=_REDUCTIONS[reduce_function], window=window, strides=steps,
        window_dilation=holes)
