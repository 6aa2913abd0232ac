"""Ranges, running sums, blocks, windows, spectra and other operators on whole tensors."""

from __future__ import annotations

import numpy as np

from forge.compose.bits import bitcast as bits_as
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
    """The shape that tensors of two shapes are broadcast to."""
    ranks = [v.shape[0] for v in (first, second)]
    if not all(isinstance(size, int) for size in ranks):
        raise g.unsupported("shapes of ranks that are known at run time only; expected known ones")
    longer = max(size for size in ranks if isinstance(size, int))
    ones = [g.constant(np.ones(longer - size), v.dtype) for size, v in zip(ranks, (first, second)) if isinstance(size, int)]
    a, b = (g.call("concatenate", one, v, axis=0) for one, v in zip(ones, (first, second)))
    return g.call("where", g.call("equal", a, g.scalar(1, a)), b, a)


@converts("BITCAST")
@takes_integers
def bitcast(g: Context, x: Value) -> Value:
    dtype = g.result().dtype
    width = {name: np.dtype(name).itemsize for name in (x.dtype, dtype)}
    if width[x.dtype] < width[dtype]:
        return g.call("squeeze", bits_as(g, x, dtype), axis=(x.rank - 1,))
    if width[x.dtype] > width[dtype]:
        return bits_as(g, g.call("expand_dims", x, axis=x.rank), dtype)
    return bits_as(g, x, dtype)


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
    """Numbers as integers between ``min`` and ``max`` can say them; the range is moved so that 0 is one of them."""
    low, high = float(narrow_range), 2.0**num_bits - 1
    scale = np.float32((np.float32(max) - np.float32(min)) / np.float32(high - low))
    if not num_bits or scale <= 0:
        raise g.invalid(f"got {num_bits} bits between {min} and {max}; expected a range")
    zero = np.float32(low) - np.float32(min) / scale
    zero = np.float32(np.clip(np.floor(zero + np.float32(0.5)), low, high))
    least, most = (np.float32((bound - zero) * scale) for bound in (low, high))
    inside = g.call("clip", x, a_min=float(least), a_max=float(most))
    steps = g.call("multiply", g.call("subtract", inside, g.scalar(float(least), x)), g.scalar(float(np.float32(1) / scale), x))
    whole = g.call("floor", g.call("add", steps, g.scalar(0.5, x)))
    return g.call("add", g.call("multiply", whole, g.scalar(float(scale), x)), g.scalar(float(least), x))


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
