"""Operators that move elements, and those that make tensors of sizes."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims
from forge.compose import axes, slices
from forge.compose.axes import split_sizes
from forge.compose.checks import check_that
from forge.compose.linalg import conjugate
from forge.compose.slices import Masks
from forge.errors import option
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts
from forge.ir.nodes import Value


@converts("Reshape")
def reshape(g: Context, x: Value, shape: Value) -> Value:
    known = g.dims(shape)
    return g.call("reshape", x, g.cast(shape, "int64")) if known is None else g.call("reshape", x, newshape=known, allowzero=True)


@converts("Squeeze")
def squeeze(g: Context, x: Value, *, squeeze_dims: tuple[int, ...] = ()) -> Value:
    """All axes of size 1 where none are listed; those of unknown sizes are of another one."""
    axes = [g.axis(axis, x.rank) for axis in squeeze_dims]
    if not axes:
        axes = [k for k, size in enumerate(x.shape) if size == 1]
        for k, size in enumerate(x.shape):
            if not isinstance(size, int):
                message = f"axis {k} has size 1; expected another one, as the result has the axis; fix it with {option('shape=')}"
                check_that(g, g.call("not_equal", g.extent(x, k), g.constant(1, "int64")), message)
    return g.call("squeeze", x, axis=tuple(sorted(set(axes)))) if axes else x


@converts("ExpandDims")
def expand_dims(g: Context, x: Value, axis: Value) -> Value:
    return g.call("expand_dims", x, axis=g.axis(g.one_int(axis, "axis"), x.rank + 1))


@converts("Transpose", "ConjugateTranspose")
def transpose(g: Context, x: Value, permutation: Value) -> Value:
    order = [g.axis(axis, x.rank) for axis in g.required_ints(permutation, "permutation")]
    if sorted(order) != list(range(x.rank)):
        raise g.invalid(f"permutation: got {order}; expected the axes of {x.type}")
    return g.moved(conjugate(g, x) if g.node.op == "ConjugateTranspose" else x, order)


def _joined(g: Context, values: Sequence[Value], axis: Value) -> Value:
    return g.call("concatenate", *values, axis=g.axis(g.one_int(axis, "axis"), values[0].rank))


@converts("ConcatV2")
def concat_v2(g: Context, *inputs: Value) -> Value:
    return _joined(g, inputs[:-1], inputs[-1])


@converts("Concat")
def concat(g: Context, axis: Value, *inputs: Value) -> Value:
    return _joined(g, inputs, axis)


@converts("Pack")
def pack(g: Context, *inputs: Value, axis: int = 0) -> Value:
    if len(inputs) == 1:
        return g.call("expand_dims", inputs[0], axis=g.axis(axis, inputs[0].rank + 1))
    return g.call("stack", *inputs, axis=axis)


@converts("ParallelConcat")
def parallel_concat(g: Context, *inputs: Value) -> Value:
    return g.call("concatenate", *inputs, axis=0)


@converts("Unpack", outputs="output*num")
def unpack(g: Context, x: Value, *, num: int, axis: int = 0) -> list[Value]:
    place = g.axis(axis, x.rank)
    if not num:
        return []
    return [g.call("squeeze", part, axis=(place,)) for part in g.multi("split", x, indices_or_sections=num, axis=place)]


@converts("Split", outputs="output*num_split")
def split(g: Context, axis: Value, x: Value, *, num_split: int) -> list[Value]:
    return g.multi("split", x, indices_or_sections=num_split, axis=g.axis(g.one_int(axis, "axis"), x.rank))


@converts("SplitV", outputs="output*num_split")
def split_v(g: Context, x: Value, sizes: Value, axis: Value, *, num_split: int) -> list[Value]:
    place = g.axis(g.one_int(axis, "axis"), x.rank)
    known = g.dims(sizes)
    if known is None or len(known) != num_split:
        raise g.unsupported("the sizes of parts are computed at run time; expected known ones")
    return split_sizes(g, x, known, place)


@converts("Pad", "PadV2")
def pad(g: Context, x: Value, paddings: Value, value: Value | None = None) -> Value:
    widths = g.dims(paddings)
    if widths is None or len(widths) != 2 * x.rank:
        raise g.unsupported("paddings are computed at run time; expected known ones, a pair for each axis")
    fill = g.constant(0, x.dtype) if value is None else g.reshape(value, ())
    return g.call("nn.pad", x, fill, pad_width=tuple(zip(widths[::2], widths[1::2])))


@converts("MirrorPad")
def mirror_pad(g: Context, x: Value, paddings: Value, *, mode: str) -> Value:
    widths = g.required_ints(paddings, "paddings")
    kinds = {"REFLECT": "reflect", "SYMMETRIC": "symmetric"}
    return g.call("nn.pad", x, pad_width=tuple(zip(widths[::2], widths[1::2])), pad_mode=kinds[mode])


@converts("Slice")
def slice_(g: Context, x: Value, begin: Value, size: Value) -> Value:
    return slices.sliced(g, x, begin, size)


@converts("StridedSlice")
def strided_slice(g: Context, x: Value, begin: Value, end: Value, strides: Value, *, masks: Masks) -> Value:
    return slices.strided_slice(g, x, begin, end, strides, masks)


@converts("Tile")
def tile(g: Context, x: Value, multiples: Value) -> Value:
    known = g.dims(multiples)
    return g.call("tile", x, g.cast(multiples, "int64")) if known is None else g.call("tile", x, reps=known)


@converts("BroadcastTo")
def broadcast_to(g: Context, x: Value, shape: Value) -> Value:
    known = g.dims(shape)
    return g.call("broadcast_to", x, g.cast(shape, "int64")) if known is None else g.broadcast(x, known)


@converts("BroadcastArgs")
def broadcast_args(g: Context, a: Value, b: Value) -> Value:
    return axes.broadcast_shapes(g, a, b)


@converts("Shape")
def shape_of(g: Context, x: Value, *, out_type: str = "int32") -> Value:
    return g.call("shape_of", x, dtype=out_type)


@converts("ShapeN", outputs="output*N")
def shape_n(g: Context, *inputs: Value, out_type: str = "int32") -> list[Value]:
    return [g.call("shape_of", x, dtype=out_type) for x in inputs]


@converts("Size")
def size_of(g: Context, x: Value, *, out_type: str = "int32") -> Value:
    return g.cast(g.size(dims.product(x.shape)), out_type)


@converts("Rank")
def rank_of(g: Context, x: Value) -> Value:
    return g.constant(x.rank, "int32")


@converts("ReverseV2")
def reverse(g: Context, x: Value, axis: Value) -> Value:
    for place in g.axes_of(axis, x.rank):
        x = g.call("reverse", x, axis=place)
    return x


@converts("Reverse")
def reverse_v1(g: Context, x: Value, flags: Value) -> Value:
    known = g.array(flags)
    if known is None:
        raise g.unsupported("axes are computed at run time; expected a constant")
    for axis, is_reversed in enumerate(known.reshape(-1)):
        x = g.call("reverse", x, axis=axis) if is_reversed else x
    return x


@converts("ReverseSequence")
def reverse_sequence(g: Context, x: Value, lengths: Value, *, seq_dim: int, batch_dim: int = 0) -> Value:
    return g.call("reverse_sequence", x, lengths, seq_axis=g.axis(seq_dim, x.rank), batch_axis=g.axis(batch_dim, x.rank))


@converts("Fill")
def fill(g: Context, shape: Value, value: Value) -> Value:
    known = g.dims(shape)
    return g.call("full", value, g.cast(shape, "int64")) if known is None else g.call("full", value, shape=known)


@converts("Range")
def range_(g: Context, start: Value, limit: Value, delta: Value) -> Value:
    return g.call("arange", start, limit, delta)


@converts("LinSpace")
def lin_space(g: Context, start: Value, stop: Value, count: Value) -> Value:
    number = g.one_int(count, "num")
    if number == 1:
        return g.reshape(start, (1,))
    steps = g.cast(g.count(g.constant(number, "int64"), number), start.dtype)
    step = g.call("divide", g.call("subtract", stop, start), g.scalar(number - 1, start))
    return g.call("add", start, g.call("multiply", steps, step))


@converts("DepthToSpace", "SpaceToDepth")
def depth_to_space(g: Context, x: Value, *, block_size: int, data_format: str = "NHWC") -> Value:
    op = "nn.depth_to_space" if g.node.op == "DepthToSpace" else "nn.space_to_depth"
    return g.call(op, x, block_size=block_size, layout=data_format)
