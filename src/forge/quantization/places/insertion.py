"""Puts ``qnn.quantize`` and ``qnn.dequantize`` around what is computed with integers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from forge import dtypes
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.retype import infer_again
from forge.ops.nn.matmul import Dense, Matmul
from forge.passes.matching import operand
from forge.quantization.observed.ranges import MIN_SCALE, AffineCodes
from forge.quantization.places.layers import FloatLayer, Sites, layer_of, moves, reads_rounded
from forge.quantization.weights.codes import QuantizedWeight, quantized_weight

MAX_BIAS = 1 << 30
"""Codes of biases of int32 are no larger, so that sums have room."""


def convert(
    graph: Graph, sites: Sites, codes: Mapping[Value, AffineCodes], weights: Mapping[FloatLayer, QuantizedWeight],
    bias_dtype: str = "int32",
) -> None:
    """Puts conversions into a graph.

    Args:
        codes: of values that are rounded, by value.
        weights: of layers, by layer.
        bias_dtype: element type of biases; one of int32 stays real where that does not hold it or no scale of data is known.
    """
    layers = {layer.node for layer in sites.of}
    biases = {layer: bias for layer in weights if (bias := layer.product.bias()) is not None}
    for value, chosen in codes.items():
        _round(graph, value, chosen, layers)
    for layer, weight in weights.items():
        _replace(graph, layer.node, 1, weight)
    for layer, (user, position) in biases.items():
        array = np.asarray(operand(user, position).constant)
        values = sites.of.get(layer, [[]])[0]
        data = codes.get(values[0]) if values else None
        if bias_dtype != "int32":
            _replace(graph, user, position, quantized_weight(array, 0, bias_dtype, per_channel=False))
        elif data is not None and (whole := whole_bias(array, data.scale * weights[layer].scale)) is not None:
            _replace(graph, user, position, whole)
    graph.sort()


def _round(graph: Graph, value: Value, codes: AffineCodes, layers: Collection[Node]) -> None:
    readers = [(user, position) for user, position in value.uses if _reads(user, layers)]
    builder = after(graph, value)
    parameters = [builder.constant(np.float32(codes.scale))]
    if codes.zero:
        parameters.append(builder.constant(np.asarray(codes.zero, codes.dtype)))
    whole = builder.call("qnn.quantize", value, *parameters, out_dtype=codes.dtype, name=_named(value, "quantized"))
    real = builder.call("qnn.dequantize", whole, *parameters, name=_named(value, "dequantized"))
    for user, position in readers:
        user.set_operand(position, real)


def _reads(user: Node, layers: Collection[Node]) -> bool:
    """Layers that are not quantized read real numbers; so do moves that lead to none."""
    if user in layers:
        return True
    if moves(user) or user.op == "concatenate":
        return any(_reads(n, layers) for n in user.succ)
    return reads_rounded(user) and layer_of(user) is None


def _replace(graph: Graph, node: Node, position: int, codes: QuantizedWeight) -> None:
    """Puts codes in the place of a constant operand."""
    builder = Builder(graph, node, node.location)
    constants = [builder.constant(codes.codes, name=operand(node, position).name), builder.constant(codes.scale)]
    if codes.zero is not None:
        constants.append(builder.constant(codes.zero))
    node.set_operand(position, builder.call("qnn.dequantize", *constants, axis=codes.axis))


def _named(value: Value, suffix: str) -> str:
    return f"{value.name}_{suffix}" if value.name else ""


def after(graph: Graph, value: Value) -> Builder:
    """Returns a builder that inserts after the node that makes ``value``."""
    nodes = list(graph.nodes)
    place = -1 if value.producer is None else nodes.index(value.producer)
    before = nodes[place + 1] if place + 1 < len(nodes) else None
    return Builder(graph, before, "" if value.producer is None else value.producer.location)


def put_after(graph: Graph, value: Value, make: Callable[[Builder, Value], Value]) -> Value:
    """Puts what ``make`` builds of ``value`` between it and all that read it, under its name."""
    readers = list(value.uses)
    made = make(after(graph, value), value)
    for user, position in readers:
        user.set_operand(position, made)
    graph.outputs = [made if v is value else v for v in graph.outputs]
    made.name, value.name = value.name, ""
    return made


def whole_bias(array: np.ndarray, scale: np.ndarray) -> QuantizedWeight | None:
    """Returns a bias in steps of the sums that it is added to; None: 32 bits do not hold it."""
    units = np.rint(array.astype(np.float64) / scale)
    if np.any(np.abs(units) > MAX_BIAS):
        return None
    return QuantizedWeight(units.astype(np.int32), np.asarray(scale, np.float32), None, 0)


def round_at_run_time(graph: Graph, layer: FloatLayer, dtype: str) -> None:
    """Rounds the data of ``layer`` by the range that they have in the call: each row, of dense layers, or all together."""
    node = layer.node
    builder = Builder(graph, node, node.location)
    data = layer.inputs[0]
    if Dense.of(node) is None and Matmul.of(node) is None:
        node.set_operand(0, _by_range(builder, data, dtype, None))
        return
    shape = node.result.shape
    rows = builder.call("reshape", data, newshape=(-1, data.shape[-1]))
    node.set_operand(0, _by_range(builder, rows, dtype, 0))
    infer_again(node)
    put_after(graph, node.result, lambda builder, rows: builder.call("reshape", rows, newshape=shape))


def _by_range(builder: Builder, data: Value, dtype: str, axis: int | None) -> Value:
    """``data`` rounded to codes for the range that they have, for each index along ``axis``."""
    others = tuple(k for k in range(data.rank) if k != axis)
    zero, tiny = (builder.constant(np.float32(v)) for v in (0, MIN_SCALE))
    low = builder.call("minimum", builder.call("min", data, axis=others), zero)
    high = builder.call("maximum", builder.call("max", data, axis=others), zero)
    least, most = dtypes.integer_range(dtype)
    is_signed = least < 0
    size = builder.call("maximum", builder.call("negative", low), high) if is_signed else builder.call("subtract", high, low)
    scale = builder.call("maximum", builder.call("multiply", size, builder.constant(np.float32(1 / most))), tiny)
    parameters = [scale]
    if not is_signed:
        place = builder.call("round", builder.call("divide", builder.call("negative", low), scale))
        parameters.append(builder.call("cast", builder.call("clip", place, a_min=0, a_max=most), dtype=dtype))
    along = -1 if axis is None else axis
    whole = builder.call("qnn.quantize", data, *parameters, axis=along, out_dtype=dtype)
    return builder.call("qnn.dequantize", whole, *parameters, axis=along)
