"""Contractions and convolutions, with any dimension numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forge import dims, dtypes
from forge.dims import Dim
from forge.frontends.stablehlo import quantized
from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.converters.windows import windows_along
from forge.frontends.stablehlo.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.broadcast import for_product

Ints = tuple[int, ...]


def _alike(g: Context, lhs: Value, rhs: Value, dtype: str) -> tuple[Value, Value, str]:
    """Operands whose types a product takes, and its ``out_dtype``, for a result of type ``dtype``."""
    integers = dtypes.is_integer(lhs.dtype) and dtypes.is_integer(rhs.dtype)
    if lhs.dtype != rhs.dtype and not (integers and dtypes.is_integer(dtype)):
        lhs, rhs = g.cast(lhs, dtype), g.cast(rhs, dtype)
    return lhs, rhs, "" if lhs.dtype == rhs.dtype == dtype else dtype


@converts("dot_general")
def dot_general(
    g: Context, lhs: Value, rhs: Value, *, dot_dimension_numbers: Mapping[str, Sequence[int]], precision_config: Any = None,
    algorithm: Any = None,
) -> Value:
    numbers = dot_dimension_numbers
    return contraction(
        g, lhs, rhs, numbers["lhs_batching_dimensions"], numbers["rhs_batching_dimensions"],
        numbers["lhs_contracting_dimensions"], numbers["rhs_contracting_dimensions"])


@converts("dot")
def dot(g: Context, lhs: Value, rhs: Value, *, precision_config: Any = None) -> Value:
    return contraction(g, lhs, rhs, (), (), (lhs.rank - 1,), (0,))


@converts("einsum")
@converts("unary_einsum")
def einsum(g: Context, *operands: Value, einsum_config: str, precision_config: Any = None) -> Value:
    return g.call("einsum", *operands, equation=einsum_config)


def contraction(
    g: Context, lhs: Value, rhs: Value, lhs_batch: Sequence[int], rhs_batch: Sequence[int], lhs_summed: Sequence[int],
    rhs_summed: Sequence[int],
) -> Value:
    """Sums of products over pairs of dimensions; dimensions of the result: batches, the other ones of lhs, those of rhs."""
    if len(lhs_batch) != len(rhs_batch) or len(lhs_summed) != len(rhs_summed):
        raise g.invalid("batching and contracting dimensions: got unequal numbers of those of lhs and rhs; expected pairs")
    lhs, rhs, out = _alike(g, lhs, rhs, g.result_type().dtype)
    rows = [k for k in range(lhs.rank) if k not in (*lhs_batch, *lhs_summed)]
    columns = [k for k in range(rhs.rank) if k not in (*rhs_batch, *rhs_summed)]
    shape = [*(lhs.shape[k] for k in (*lhs_batch, *rows)), *(rhs.shape[k] for k in columns)]
    if not lhs_summed:
        return _outer(g, lhs, rhs, (*lhs_batch, *rows), (*rhs_batch, *columns), len(lhs_batch), out)
    a, transpose_a = _matrices(g, lhs, lhs_batch, rows, lhs_summed, keeps_rows=bool(rows) and not lhs_batch)
    b, transpose_b = _matrices(g, rhs, rhs_batch, rhs_summed, columns)
    if not transpose_a and not transpose_b:
        a, b = for_product(g.builder, a, b)
    return g.reshape(g.call("nn.matmul", a, b, out_dtype=out, transpose_a=transpose_a, transpose_b=transpose_b), shape)


def _matrices(
    g: Context, value: Value, batch: Sequence[int], first: Sequence[int], second: Sequence[int], keeps_rows: bool = False
) -> tuple[Value, bool]:
    """``value`` as matrices in its last two dimensions, and whether they are transposed, rather than moved in memory.

    With ``keeps_rows`` the dimensions that are rows, if they are not transposed, stay as they are.
    """
    order, swapped = (*batch, *first, *second), (*batch, *second, *first)
    transposed = order != tuple(range(value.rank)) and swapped == tuple(range(value.rank))
    moved = value if transposed else g.moved(value, order)
    sides = [second, first] if transposed else [first, second]
    if keeps_rows and not transposed:
        batch, sides = first, [second]
    sizes = [dims.product(value.shape[k] for k in side) for side in sides]
    return g.reshape(moved, [*(value.shape[k] for k in batch), *sizes]), transposed


def _outer(
    g: Context, lhs: Value, rhs: Value, lhs_order: Sequence[int], rhs_order: Sequence[int], batch: int, out: str
) -> Value:
    a, b = g.moved(lhs, lhs_order), g.moved(rhs, rhs_order)
    dtype = out or a.dtype
    a = g.reshape(g.cast(a, dtype), (*a.shape, *[1] * (b.rank - batch)))
    b = g.reshape(g.cast(b, dtype), (*b.shape[:batch], *[1] * (lhs.rank - batch), *b.shape[batch:]))
    return g.call("logical_and" if dtype == "bool" else "multiply", a, b)


@converts("convolution")
def convolution(
    g: Context, lhs: Value, rhs: Value, *, dimension_numbers: Mapping[str, Any], feature_group_count: int = 1,
    batch_group_count: int = 1, window_strides: Ints | None = None, padding: Any = None, lhs_dilation: Ints | None = None,
    rhs_dilation: Ints | None = None, window_reversal: tuple[bool, ...] | None = None, precision_config: Any = None,
) -> Value:
    count = lhs.rank - 2
    widths = padding or ((0, 0),) * count
    return convolved(
        g, lhs, rhs, dimension_numbers, feature_group_count, batch_group_count, window_strides or (1,) * count, widths,
        lhs_dilation or (1,) * count, rhs_dilation or (1,) * count, window_reversal or (False,) * count)


@converts("dynamic_conv")
def dynamic_conv(
    g: Context, lhs: Value, rhs: Value, padding: Value, *, dimension_numbers: Mapping[str, Any], feature_group_count: int = 1,
    batch_group_count: int = 1, window_strides: Ints | None = None, lhs_dilation: Ints | None = None,
    rhs_dilation: Ints | None = None, window_reversal: tuple[bool, ...] | None = None, precision_config: Any = None,
) -> Value:
    count = lhs.rank - 2
    flat = g.dims(padding)
    if flat is None:
        raise g.unsupported("padding is computed at run time, of more than sizes; expected expressions of sizes")
    return convolved(
        g, lhs, rhs, dimension_numbers, feature_group_count, batch_group_count, window_strides or (1,) * count,
        tuple(zip(flat[::2], flat[1::2])), lhs_dilation or (1,) * count, rhs_dilation or (1,) * count,
        window_reversal or (False,) * count)


def convolved(
    g: Context, lhs: Value, rhs: Value, numbers: Mapping[str, Any], groups: int, batch_groups: int, strides: Ints,
    padding: Sequence[tuple[Dim, Dim]], input_dilation: Ints, dilation: Ints, reversal: Sequence[bool],
) -> Value:
    """A convolution with any dimension numbers."""
    places = {side: _places(numbers, side) for side in ("input", "kernel", "output")}
    if sorted(places["input"]) != list(range(lhs.rank)) or sorted(places["kernel"]) != list(range(rhs.rank)):
        raise g.invalid(f"dimension_numbers: got {dict(numbers)} for {lhs.type} and {rhs.type}; expected each dimension once")
    if 0 in g.result_type().shape:
        sizes = {places["output"][0]: dims.floordiv(lhs.shape[places["input"][0]], batch_groups),
                 places["output"][1]: rhs.shape[places["kernel"][0]]}
        for k, of_axis in enumerate(zip(strides, input_dilation, dilation)):
            along, taps = (value.shape[places[side][2 + k]] for side, value in (("input", lhs), ("kernel", rhs)))
            sizes[places["output"][2 + k]] = windows_along(along, taps, *of_axis, *padding[k])
        return g.filled(0, g.result_type().dtype, [sizes[axis] for axis in range(lhs.rank)])
    spatial = lhs.rank - 2
    if not 0 < spatial <= 3:
        raise g.unsupported(f"got {spatial} spatial dimensions; expected 1 to 3")
    back: Sequence[int] = ()
    if g.computes_numbers and all(quantized.quantization(value.type) for value in g.operation.operands[:2]):
        lhs, rhs, back = quantized.moved(g, lhs, places["input"]), quantized.moved(g, rhs, places["kernel"]), places["output"]
        places = dict.fromkeys(places, tuple(range(lhs.rank)))  # integers are multiplied in this layout
    taps = places["kernel"][2:]
    rhs = _reversed(g, rhs, [axis for axis, backwards in zip(taps, reversal) if backwards])
    if groups == batch_groups == 1 and all(n == 1 for n in strides) and any(n > 1 for n in input_dilation):
        transposed = _transposed(g, lhs, rhs, places, padding, input_dilation, dilation)
        if transposed is not None:
            return transposed
    lhs = _dilated(g, lhs, places["input"][2:], input_dilation)
    lhs, padding = _cut(g, lhs, places["input"][2:], padding)
    layout = _layout("NC", places["input"])
    if batch_groups > 1:
        lhs, layout = _batches_as_features(g, lhs, places["input"], batch_groups)
        groups = batch_groups
    lhs, rhs, out = _alike(g, lhs, rhs, g.result_type().dtype)
    letters = _layout("NC", places["output"])
    found = g.call(
        f"nn.conv{spatial}d", lhs, rhs, strides=strides, dilation=dilation, groups=groups,
        padding=(*(before for before, _ in padding), *(after for _, after in padding)),
        **_numbers(rhs, places["kernel"]), data_layout=layout, kernel_layout=_layout("OI", places["kernel"]),
        out_layout="" if letters == layout else letters, out_dtype=out)
    return g.moved(found, [back.index(axis) for axis in range(found.rank)]) if back else found


def _numbers(kernel: Value, places: Ints) -> dict[str, Any]:
    """Sizes of the kernel that are known."""
    channels, sizes = kernel.shape[places[0]], tuple(kernel.shape[axis] for axis in places[2:])
    known = {"channels": channels} if isinstance(channels, int) else {}
    return {**known, "kernel_size": sizes} if dims.is_static(*sizes) else known


def _places(numbers: Mapping[str, Any], side: str) -> Ints:
    """Where batches and features, or output and input features, are, and then the spatial dimensions."""
    heads = ("output_feature", "input_feature") if side == "kernel" else ("batch", "feature")
    return (*(numbers[f"{side}_{head}_dimension"] for head in heads), *numbers[f"{side}_spatial_dimensions"])


def _layout(heads: str, places: Ints) -> str:
    letters = heads + "DHW"[5 - len(places):]
    return "".join(letters[places.index(axis)] for axis in range(len(places)))


def _transposed(
    g: Context, lhs: Value, rhs: Value, places: Mapping[str, Ints], padding: Sequence[tuple[Dim, Dim]], strides: Ints,
    dilation: Ints,
) -> Value | None:
    """A convolution of dilated data as the transposed one with these strides; None where its padding is wider than its kernel.

    Taps are in the other order, and the padding is what the kernel reaches beyond: ``(size - 1) * dilation - padding``.
    """
    taps = places["kernel"][2:]
    reach = [(rhs.shape[axis] - 1) * step for axis, step in zip(taps, dilation)]
    edges = [(n - before, n - after) for n, (before, after) in zip(reach, padding)]
    if not all(isinstance(n, int) for pair in edges for n in pair) or any(before < 0 for before, _ in edges):
        return None
    lhs, rhs, out = _alike(g, lhs, rhs, g.result_type().dtype)
    if not dtypes.is_float(lhs.dtype):
        return None
    layout, letters = _layout("NC", places["input"]), _layout("NC", places["output"])
    return g.call(
        f"nn.conv{len(taps)}d_transpose", lhs, _reversed(g, rhs, taps), strides=strides, dilation=dilation,
        padding=(*(before for before, _ in edges), *(max(after, 0) for _, after in edges)),
        output_padding=tuple(max(-after, 0) for _, after in edges), **_numbers(rhs, places["kernel"]),
        data_layout=layout, kernel_layout=_layout("OI", places["kernel"]),
        out_layout="" if letters == layout else letters, out_dtype=out)


def _reversed(g: Context, value: Value, axes: Sequence[int]) -> Value:
    for axis in axes:
        value = g.call("reverse", value, axis=axis)
    return value


def _dilated(g: Context, value: Value, axes: Sequence[int], dilation: Ints) -> Value:
    if all(n == 1 for n in dilation):
        return value
    gaps = dict(zip(axes, dilation))
    return g.call("nn.dilate", value, strides=tuple(gaps.get(axis, 1) for axis in range(value.rank)))


def _cut(
    g: Context, value: Value, axes: Sequence[int], padding: Sequence[tuple[Dim, Dim]]
) -> tuple[Value, Sequence[tuple[Dim, Dim]]]:
    """``value`` without what negative padding removes, and the rest of the padding."""
    removed = {axis: tuple(min(n, 0) if isinstance(n, int) else 0 for n in pair) for axis, pair in zip(axes, padding)}
    if not any(n for pair in removed.values() for n in pair):
        return value, padding
    widths = tuple(removed.get(axis, (0, 0)) for axis in range(value.rank))
    kept = [(max(a, 0) if isinstance(a, int) else a, max(b, 0) if isinstance(b, int) else b) for a, b in padding]
    return g.call("nn.pad", value, g.scalar(0, value), pad_width=widths), kept


def _batches_as_features(g: Context, value: Value, places: Ints, groups: int) -> tuple[Value, str]:
    """Groups of batches as groups of features; and the layout of the result: batches, features, spatial dimensions."""
    moved = g.moved(value, places)
    batch, features, *spatial = moved.shape
    split = g.reshape(moved, (groups, dims.floordiv(batch, groups), features, *spatial))
    order = (1, 0, *range(2, split.rank))
    joined = g.reshape(g.moved(split, order), (dims.floordiv(batch, groups), groups * features, *spatial))
    return joined, _layout("NC", tuple(range(joined.rank)))


@converts("ragged_dot", domain="chlo")
def ragged_dot(
    g: Context, lhs: Value, rhs: Value, group_sizes: Value, *, ragged_dot_dimension_numbers: Mapping[str, Sequence[int]],
    precision_config: Any = None,
) -> Value:
    """Groups of neighbours along a dimension of lhs, each of which is multiplied by a matrix of its own, or summed by itself."""
    numbers = ragged_dot_dimension_numbers
    if len(numbers["lhs_ragged_dimensions"]) != 1 or len(numbers["rhs_group_dimensions"]) > 1:
        raise g.invalid(
            f"ragged_dot_dimension_numbers: got {dict(numbers)}; expected one ragged dimension, and at most one of groups")
    batch, summed = tuple(numbers["lhs_batching_dimensions"]), tuple(numbers["lhs_contracting_dimensions"])
    rhs_batch, rhs_summed = tuple(numbers["rhs_batching_dimensions"]), tuple(numbers["rhs_contracting_dimensions"])
    (ragged,), group = numbers["lhs_ragged_dimensions"], tuple(numbers["rhs_group_dimensions"])
    if ragged in batch:
        return contraction(g, lhs, rhs, batch, rhs_batch, summed, rhs_summed)
    if bool(group) == (ragged in summed):
        raise g.invalid("rhs_group_dimensions: expected one where the ragged dimension is a free one of lhs, and else none")
    if (lhs.rank, rhs.rank, ragged, summed, group, rhs_summed) == (2, 3, 0, (1,), (0,), (1,)) and dtypes.is_float(lhs.dtype):
        return _of_experts(g, lhs, rhs, group_sizes)
    parts = _in_groups(g, lhs, group_sizes, batch, ragged)
    batch, summed = (tuple(axis + 1 for axis in axes) for axes in (batch, summed))
    if group:
        return contraction(g, parts, rhs, batch, rhs_batch, (0, *summed), (*group, *rhs_summed))
    found = contraction(g, parts, rhs, batch, rhs_batch, summed, rhs_summed)
    place = len(batch)
    return g.moved(found, (place, *range(place), *range(place + 1, found.rank)))


def _ends(g: Context, group_sizes: Value) -> Value:
    return g.multi("cumsum", g.cast(group_sizes, "int64"), axis=group_sizes.rank - 1)[0]


def _of_experts(g: Context, lhs: Value, rhs: Value, group_sizes: Value) -> Value:
    """Rows of lhs by the matrices of their groups; rows after all groups give 0."""
    ends, row = _ends(g, group_sizes), g.count(g.extent(lhs, 0), lhs.shape[0])
    group = g.call("searchsorted", ends, row, right=True)
    last = g.call("subtract", g.extent(group_sizes, 0), g.constant(1, "int64"))
    found = g.call("nn.indexed_matmul", lhs, rhs, g.call("minimum", group, last))
    inside = g.call("less", group, g.extent(group_sizes, 0))
    chosen = g.call("where", g.reshape(inside, (lhs.shape[0], 1)), found, g.constant(0, found.dtype))
    return g.cast(chosen, g.result_type().dtype)


def _in_groups(g: Context, lhs: Value, group_sizes: Value, batch: Sequence[int], ragged: int) -> Value:
    """lhs once for each group, which is the first dimension, with zeros in the place of what belongs to others."""
    count, size = group_sizes.shape[-1], lhs.shape[ragged]
    if group_sizes.rank not in (1, 1 + len(batch)):
        raise g.unsupported(f"group_sizes: got {group_sizes.type}; expected a size for each group, or for each of each batch")
    with_batch = group_sizes.rank > 1
    shape = [lhs.shape[k] if with_batch and k in batch else 1 for k in range(lhs.rank)]
    ends = _ends(g, group_sizes)
    begins = g.call("subtract", ends, g.cast(group_sizes, "int64"))
    to_front = (group_sizes.rank - 1, *range(group_sizes.rank - 1))
    first, last = (g.reshape(_in_order(g, g.moved(v, to_front), batch), (count, *shape)) for v in (begins, ends))
    places = g.reshape(g.count(g.extent(lhs, ragged), size), [size if k == ragged else 1 for k in range(lhs.rank)])
    inside = g.call("logical_and", g.call("greater_equal", places, first), g.call("less", places, last))
    return g.call("where", inside, g.reshape(lhs, (1, *lhs.shape)), g.constant(0, lhs.dtype))


def _in_order(g: Context, value: Value, batch: Sequence[int]) -> Value:
    """Batches, which come after the groups, in the order in which lhs has them."""
    return value if value.rank == 1 else g.moved(value, (0, *(1 + k for k in sorted(range(len(batch)), key=lambda k: batch[k]))))
