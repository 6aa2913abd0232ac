"""Operators that move elements."""

from __future__ import annotations

from forge.compose import slices, tuples
from forge.compose.axes import split_sizes
from forge.compose.slices import Masks, sliced
from forge.frontends.tflite import quantized
from forge.frontends.tflite.context import Context
from forge.frontends.tflite.converters.activations import activated
from forge.frontends.tflite.list_writes import list_write
from forge.frontends.tflite.registry import converts, moves, takes_integers
from forge.ir.nodes import Value


@converts("RESHAPE")
@moves
def reshape(g: Context, x: Value, shape: Value | None = None, *, new_shape: tuple[int, ...] = ()) -> Value:
    if shape is None:
        return g.call("reshape", x, newshape=new_shape, allowzero=True)
    known = g.dims(shape)
    return g.call("reshape", x, g.cast(shape, "int64")) if known is None else g.call("reshape", x, newshape=known, allowzero=True)


@converts("SQUEEZE")
@moves
def squeeze(g: Context, x: Value, *, squeeze_dims: tuple[int, ...] = ()) -> Value:
    axes = [g.axis(axis, x.rank) for axis in squeeze_dims] or [k for k, size in enumerate(x.shape) if size == 1]
    return g.call("squeeze", x, axis=tuple(sorted(set(axes)))) if axes else x


@converts("EXPAND_DIMS")
@moves
def expand_dims(g: Context, x: Value, axis: Value) -> Value:
    (place,) = g.required_ints(axis, "axis")
    return g.call("expand_dims", x, axis=g.axis(place, x.rank + 1))


@converts("TRANSPOSE")
@moves
def transpose(g: Context, x: Value, permutation: Value) -> Value:
    order = [g.axis(axis, x.rank) for axis in g.required_ints(permutation, "permutation")]
    if sorted(order) != list(range(x.rank)):
        raise g.invalid(f"permutation: got {order}; expected the axes of {x.type}")
    return g.moved(x, order)


@converts("CONCATENATION")
@takes_integers
def concatenation(g: Context, *inputs: Value, axis: int = 0, fused_activation_function: str = "NONE") -> Value:
    wanted, dtype = quantized.stated(g.result()), g.result().dtype
    is_plain = axis == 0 and fused_activation_function == "NONE"
    written = list_write(g.scope.tensors, g.operator) if is_plain else None
    if written is not None and inputs[1].rank:
        whole, place = (g.scope.get(number) for number in written)
        if whole is not None and place is not None and place.dtype != "string":
            zeros = [g.constant(0, "int64")] * (whole.rank - 1)
            start = g.call("concatenate", *(g.reshape(g.cast(v, "int64"), (1,)) for v in (place, *zeros)), axis=0)
            return g.call("dynamic_update_slice", whole, inputs[1], start)
    parts = [quantized.requantized(g, v, quantized.stated(g.tensor(k)), wanted, dtype) for k, v in enumerate(inputs)]
    return activated(g, g.call("concatenate", *parts, axis=axis), fused_activation_function)


@converts("PACK")
@moves
def pack(g: Context, *inputs: Value, values_count: int = 0, axis: int = 0) -> Value:
    if len(inputs) == 1:
        place = g.axis(axis, inputs[0].rank + 1)
        return g.reshape(inputs[0], (*inputs[0].shape[:place], 1, *inputs[0].shape[place:]))
    return g.call("stack", *inputs, axis=axis)


@converts("UNPACK")
@moves
def unpack(g: Context, x: Value, *, num: int = 0, axis: int = 0) -> list[Value]:
    place = g.axis(axis, x.rank)
    if not num:
        return []
    return [g.call("squeeze", part, axis=(place,)) for part in g.multi("split", x, indices_or_sections=num, axis=place)]


@converts("SPLIT")
@moves
def split(g: Context, axis: Value, x: Value, *, num_splits: int = 0) -> list[Value]:
    (place,) = g.required_ints(axis, "axis")
    return g.multi("split", x, indices_or_sections=num_splits, axis=g.axis(place, x.rank))


@converts("SPLIT_V")
@moves
def split_v(g: Context, x: Value, sizes: Value, axis: Value, *, num_splits: int = 0) -> list[Value]:
    (place,) = g.required_ints(axis, "axis")
    return split_sizes(g, x, g.required_ints(sizes, "sizes"), g.axis(place, x.rank))


@converts("PAD")
@moves
def pad(g: Context, x: Value, paddings: Value) -> Value:
    return _padded(g, x, paddings, None)


@converts("PADV2")
@moves
def pad_v2(g: Context, x: Value, paddings: Value, value: Value) -> Value:
    return _padded(g, x, paddings, value)


def _padded(g: Context, x: Value, paddings: Value, value: Value | None, mode: str = "constant") -> Value:
    """Without a value, the padding is 0, which is the zero point where integers stand for numbers."""
    if value is None:
        how = quantized.stated(g.tensor(0)) if x.dtype == g.result().dtype and not x.dtype.startswith("float") else None
        value = g.constant(0 if how is None else int(how.zero_points[0]), x.dtype)
    fill, widths = g.reshape(value, ()), g.dims(paddings)
    if widths is None:
        return g.call("nn.pad", x, fill, g.cast(paddings, "int64"), pad_width=None, pad_mode=mode)
    if len(widths) != 2 * x.rank or any(isinstance(n, int) and n < 0 for n in widths):
        raise g.invalid(f"paddings: got {widths}; expected a pair of sizes for each of {x.rank} axes")
    return g.call("nn.pad", x, fill, pad_width=tuple(zip(widths[::2], widths[1::2])), pad_mode=mode)


@converts("MIRROR_PAD")
@moves
def mirror_pad(g: Context, x: Value, paddings: Value, *, mode: str = "REFLECT") -> Value:
    return _padded(g, x, paddings, None, mode.lower())


@converts("SLICE")
@moves
def slice_(g: Context, x: Value, begin: Value, size: Value) -> Value:
    return sliced(g, x, begin, size)


@converts("STRIDED_SLICE")
@moves
def strided_slice(
    g: Context, x: Value, begin: Value, end: Value, strides: Value, *, masks: Masks, offset: bool = False
) -> Value:
    return slices.strided_slice(g, x, begin, end, strides, masks, offset=offset)


@converts("TILE")
@moves
def tile(g: Context, x: Value, multiples: Value) -> Value:
    known = g.dims(multiples)
    return g.call("tile", x, g.cast(multiples, "int64")) if known is None else g.call("tile", x, reps=known)


@converts("BROADCAST_TO")
@moves
def broadcast_to(g: Context, x: Value, shape: Value) -> Value:
    known = g.dims(shape)
    return g.call("broadcast_to", x, g.cast(shape, "int64")) if known is None else g.broadcast(x, known)


@converts("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")
@moves
def depth_to_space(g: Context, x: Value, *, block_size: int = 0) -> Value:
    op = "nn.depth_to_space" if g.operator.name == "DEPTH_TO_SPACE" else "nn.space_to_depth"
    return g.call(op, x, block_size=block_size, layout="NHWC")


@converts("SHAPE")
@takes_integers
def shape_of(g: Context, x: Value, *, out_type: str = "float32") -> Value:
    return g.call("shape_of", x, dtype=g.result().dtype)


@converts("REVERSE_V2")
@moves
def reverse(g: Context, x: Value, axis: Value) -> Value:
    for place in g.axes_of(axis, x.rank):
        x = g.call("reverse", x, axis=place)
    return x


@converts("FILL")
@moves
def fill(g: Context, shape: Value, value: Value) -> Value:
    return tuples.filled(g, shape, value)
