"""Blocks of space that become a batch, and permutations of layouts."""

from __future__ import annotations

from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts
from forge.ir.nodes import Value


def _pairs(g: Context, value: Value, what: str) -> tuple[tuple[int, int], ...]:
    found = g.required_ints(value, what)
    if min(found, default=0) < 0:
        raise g.invalid(f"{what}: got {found}; expected 0 or more")
    return tuple(zip(found[::2], found[1::2]))


@converts("SpaceToBatchND")
def space_to_batch_nd(g: Context, x: Value, block: Value, paddings: Value) -> Value:
    sizes = g.required_ints(block, "block_shape")
    return g.call("nn.space_to_batch_nd", x, block_shape=sizes, paddings=_pairs(g, paddings, "paddings"))


@converts("SpaceToBatch")
def space_to_batch(g: Context, x: Value, paddings: Value, *, block_size: int) -> Value:
    return g.call("nn.space_to_batch_nd", x, block_shape=(block_size,) * 2, paddings=_pairs(g, paddings, "paddings"))


@converts("BatchToSpaceND")
def batch_to_space_nd(g: Context, x: Value, block: Value, crops: Value) -> Value:
    return g.call("nn.batch_to_space_nd", x, block_shape=g.required_ints(block, "block_shape"), crops=_pairs(g, crops, "crops"))


@converts("BatchToSpace")
def batch_to_space(g: Context, x: Value, crops: Value, *, block_size: int) -> Value:
    return g.call("nn.batch_to_space_nd", x, block_shape=(block_size,) * 2, crops=_pairs(g, crops, "crops"))


def _order(g: Context, src_format: str, dst_format: str) -> list[int]:
    """Where each axis of one layout is in the other one."""
    if sorted(src_format) != sorted(dst_format) or len(set(src_format)) != len(src_format):
        raise g.invalid(f"got the layouts {src_format!r} and {dst_format!r}; expected the same letters, each once")
    return [src_format.index(letter) for letter in dst_format]


@converts("DataFormatVecPermute")
def data_format_vec_permute(g: Context, x: Value, *, src_format: str = "NHWC", dst_format: str = "NCHW") -> Value:
    """Numbers, or pairs of them, for each axis, or for each spatial one."""
    size = x.shape[0]
    if not isinstance(size, int):
        raise g.unsupported(f"got {x.type}; expected a known number of axes")
    if size == len(src_format) - 2:
        src_format, dst_format = ("".join(c for c in text if c not in "NC") for text in (src_format, dst_format))
    order = _order(g, src_format, dst_format)
    return g.call("take", x, g.constant(order, "int64"), axis=0)


@converts("DataFormatDimMap")
def data_format_dim_map(g: Context, x: Value, *, src_format: str = "NHWC", dst_format: str = "NCHW") -> Value:
    """Numbers of axes; those below 0 count from the end."""
    order = _order(g, dst_format, src_format)
    return g.call("take", g.constant(order, x.dtype), x, axis=0)


@converts("Empty")
def empty(g: Context, shape: Value, *, dtype: str, init: bool = False) -> Value:
    """Zeros, also where any contents would do."""
    known = g.dims(shape)
    zero = g.constant(0, dtype)
    return g.call("full", zero, g.cast(shape, "int64")) if known is None else g.call("full", zero, shape=known)
