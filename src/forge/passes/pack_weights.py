"""Matrix products with constant weights get them packed in panels as wide as the target's kernels read them.

``nn.dense(%x, w)`` --> ``nn.contrib_dense_pack(%x, p)`` with ``p[n // b, k, n % b] = w[n, k]`` and zeros beyond w's last row;
bfloat16 and float16 in pairs of k, ``p[n // b, k // 2, n % b, k % 2]``, where k is even and the target multiplies pairs; int8
that multiplies int16 in pairs, and so that which multiplies uint8 or, where the target adds four products of bytes at once, in
fours, ``p[n // b, k // 4, n % b, k % 4]``.
With one row: ``sum(multiply(%x, w[0]), axis=-1, keepdims=True)``, whose vectors lie along k.
With a weight that is not constant: ``nn.matmul(%x, %w, transpose_b=True)``.

Codes of int8 that recurrent layers multiply their states with get panels for each gate (``forge.ops.nn.recurrent_codes``), in
groups as above, and the sums of their rows; for states of float64 one by one. So does bfloat16, without sums, where tile
registers multiply the states of several rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from forge import dims, dtypes
from forge.backend import DirectConvolution, Layouts
from forge.ir.constants.joined import joined
from forge.ir.edits.rewrite import Declined, Rule, RuleBuilder, rewrite
from forge.ir.functions.typical import typical_sizes
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ops.nn.recurrent_codes import centred, packed
from forge.ops.packed.pairs import MULTIPLE, paired
from forge.options import CompileOptions
from forge.passes.matching import operand
from forge.passes.split_recurrent import LAYERS, has_rows

MAX_OF_PARTS = 2.0**32
"""The largest magnitude in a weight that is multiplied in parts: products with data of up to 2^64, and their sums, are finite."""

SMALL_UNIT = 2.0**-78
"""Units whose largest weight is below it keep all parts. Of others, subnormal ones are left out: they are 2^-48 of that."""

PARTS: dict[str | int, int] = {"6": 3, "3": 2}
"""Parts of a float32, by the number of their products that are added."""

WHOLE = ("uint8", "int16")
"""Data that kernels multiply by weights of int8."""


def run(graph: Graph, options: CompileOptions) -> int:
    """Returns the number of products and recurrent layers that read packed weights now."""
    parts, given = PARTS.get(options.float32_products, 0), dict(options.typical)
    return rewrite(graph, [
        Rule("multiply_parts", ("nn.dense",), partial(_in_parts, options.layouts, parts, given)),
        Rule("multiply_parts", ("nn.contrib_conv2d_NCHWc",), partial(
            _convolution_in_parts, options.layouts, parts, typical_sizes(graph, given))),
        Rule("pack_weights", ("nn.dense",), partial(_packed, options.layouts)),
        Rule("pack_recurrent", LAYERS, partial(_packed_layer, options.layouts)),
    ])


def _in_parts(
    layouts: Layouts, count: int, sizes: Mapping[str, int], builder: RuleBuilder, node: Node
) -> Value | Declined | None:
    """A product of float32 with weights in ``count`` parts. Symbols other than those of ``sizes`` may be 1.

    One row waits for weights, of which parts have more bytes, and a text of unknown length is a single token as often as not.
    """
    data, array = operand(node), _float32_weight(node)
    if count == 0 or array is None:
        return None
    (units, depth), rows = array.shape, dims.product(data.shape[:-1])
    least = dims.evaluate(rows, {name: sizes.get(name, 1) for name in dims.symbols(rows)})
    found = _faster_parts(array, (0,), count, layouts.multiplies_parts(units, least, depth, count))
    if not isinstance(found, list):
        return found
    panel = layouts.dense_panel("bfloat16", units, _rows(data), depth)
    packed_parts = np.stack([paired(np.concatenate(pack_panels(part, panel))) for part in found])
    constant = builder.constant(packed_parts, name=operand(node, 1).name)
    return builder.call(
        "nn.contrib_dense_parts_pack", data, constant, name=node.name, units=units, out_dtype=node.attrs.out_dtype)


def _convolution_in_parts(
    layouts: Layouts, count: int, typical: Mapping[str, int], builder: RuleBuilder, node: Node
) -> Value | Declined | None:
    """A convolution of float32 with weights in ``count`` parts, where these are faster for ``typical`` sizes."""
    data, array, attrs = operand(node), _float32_weight(node), node.attrs
    if count == 0 or array is None:
        return None
    if array.shape[-2] % 2:
        return None
    images, _, height, width, _ = (max(1, dims.typical(size, typical)) for size in node.result.shape)
    taps, strides, dilation = ((int(a), int(b)) for a, b in (array.shape[2:4], attrs.strides, attrs.dilation))
    wanted = DirectConvolution(images, attrs.in_channels, attrs.channels, height, width, taps, strides, dilation)
    found = _faster_parts(array, (0, -1), count, layouts.convolves_parts(wanted, count))
    if not isinstance(found, list):
        return found
    constant = builder.constant(np.stack([paired(part) for part in found]), name=operand(node, 1).name)
    return builder.call("nn.contrib_conv2d_parts_NCHWc", data, constant, name=node.name, **node.attributes)


def _float32_weight(node: Node) -> np.ndarray | None:
    """The constant weight of a product of float32 alone."""
    array = operand(node, 1).constant
    alike = array is not None and operand(node).dtype == array.dtype == node.result.dtype == "float32"
    return array if alike and array is not None and array.size else None


def _faster_parts(
    array: np.ndarray, units: Sequence[int], count: int, is_faster: bool | None
) -> list[np.ndarray] | Declined | None:
    """The parts of a weight, where their products are faster; None where nothing multiplies these quickly."""
    if is_faster is None:
        return None
    if not is_faster:
        return Declined("multiply-adds are estimated to be faster")
    return parts_of(array, units, count) or Declined(
        "the weight has numbers above 2^32, or units of numbers so small that parts would be subnormal")


def _rows(data: Value) -> int:
    """Rows of the left operand of a product; 0: not known."""
    return math.prod(d if isinstance(d, int) else 0 for d in data.shape[:-1])


def _packed(layouts: Layouts, builder: RuleBuilder, node: Node) -> Value | Declined:
    data, weight = operand(node), operand(node, 1)
    array, out_dtype = weight.constant, node.attrs.out_dtype
    integers = data.dtype in WHOLE and (weight.dtype, node.result.dtype) == ("int8", "int32")
    if not integers and (data.dtype != weight.dtype or not dtypes.is_float(data.dtype)):
        return Declined("data and weight are not of one floating-point type, or uint8 or int16 and int8")
    if array is None:
        if data.rank < 2:
            return Declined("the weight is not constant, and the data are a vector")
        return builder.call("nn.matmul", data, weight, name=node.name, out_dtype=out_dtype, transpose_b=True)
    if array.size == 0:
        return Declined("the weight is empty")
    if array.shape[0] == 1 and data.dtype in ("float32", "float64") and node.result.dtype == data.dtype:
        products = builder.call("multiply", data, builder.constant(np.ascontiguousarray(array[0])))
        return builder.call("sum", products, axis=(data.rank - 1,), keepdims=True, name=node.name)
    units, depth = array.shape
    if integers and depth % MULTIPLE:
        return Declined(f"the depth is not a multiple of {MULTIPLE}")
    rows = _rows(data)
    panels = pack_panels(array, layouts.dense_panel(data.dtype, units, rows, depth))
    group = layouts.group_size(data.dtype, weight.dtype, tiles=rows != 1)
    if group > 1 and depth % group == 0:
        panels = [paired(panel, group) for panel in panels]
    constant = joined(builder, panels, name=weight.name)
    return builder.call("nn.contrib_dense_pack", data, constant, name=node.name, units=units, out_dtype=out_dtype)


def _packed_layer(layouts: Layouts, builder: RuleBuilder, node: Node) -> Sequence[Value] | Declined | None:
    op = node.op_def
    given = dict(zip([o.name for o in op.operands], op.arguments(node.operands)))
    r, zero, dynamic = given["r"], given["r_zero_point"], op.rounds_data(node.attrs)
    pairs = layouts.filled_group("bfloat16") if has_rows(node) else 1
    if r is None or r.rank != 3 or r.dtype != "int8" and (r.dtype != "bfloat16" or pairs == 1):
        return None
    if r.constant is None or given["w"] is not None or zero is not None and zero.constant is None:
        return Declined("the weights are not constant, or the products of the input are not taken out")
    if zero is not None and not dynamic:
        return Declined("the weights have zero points")
    _, rows, hidden = r.constant.shape
    gates = rows // hidden
    codes = r.dtype == "int8"
    group = layouts.recurrent_group(node.results[0].dtype, hidden, dynamic) if codes else pairs
    parts = packed(r.constant, gates, layouts.recurrent_panel(hidden), group, layouts.recurrent_steps(hidden, group))
    sums = {}
    if codes and group > 1:
        whole = centred(r.constant, None if zero is None else zero.constant)
        sums = {"r_sums": builder.constant(whole.sum(axis=2).astype(np.int32))}
    given |= {"r": builder.constant(parts, name=r.name), **sums}
    return builder.call_multi(node.op, *given.values(), name=node.name, **node.attributes)


def parts_of(array: np.ndarray, units: Sequence[int], count: int) -> list[np.ndarray] | None:
    """Returns arrays of bfloat16 that add up to ``array`` of float32: three exactly, but for what `SMALL_UNIT` says, two nearly.

    None where parts would be infinite, or subnormal and not small next to others of the same place along the axes ``units``.
    """
    kind, rest, found = dtypes.numpy_dtype("bfloat16"), array, list[np.ndarray]()
    magnitudes = np.abs(array)
    if not magnitudes.max() <= MAX_OF_PARTS:
        return None
    others = tuple(axis for axis in range(array.ndim) if axis not in [u % array.ndim for u in units])
    is_large = magnitudes.max(axis=others, keepdims=True) >= SMALL_UNIT
    for _ in range(count):
        part = rest.astype(kind).astype(np.float32)
        rest = rest - part
        is_lost = (part != 0) & (np.abs(part) < np.finfo(np.float32).tiny)
        if (is_lost & ~is_large).any():
            return None
        found.append(np.where(is_lost, 0, part).astype(kind))
    is_left = (rest != 0) & ~(is_large & (np.abs(rest) < np.finfo(np.float32).tiny))
    return found if count < 3 or not is_left.any() else None


def pack_panels(weight: np.ndarray, panel: int) -> list[np.ndarray]:
    """Returns ``weight[N, K]`` as ``[ceil(N / panel), K, panel]``, zero beyond row N: a view of whole panels, and the rest."""
    units, depth = weight.shape
    whole = units - units % panel
    parts = [weight[:whole].reshape(-1, panel, depth)] if whole else []
    if whole < units:
        parts.append(np.zeros((1, panel, depth), weight.dtype))
        parts[-1][0, : units - whole] = weight[whole:]
    return [part.transpose(0, 2, 1) for part in parts]
