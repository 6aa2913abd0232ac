"""Puts ``qnn.quantize`` and ``qnn.dequantize`` around what is computed with integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dtypes
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.retype import infer_again
from forge.ops.core.product import Product
from forge.ops.nn.matmul import Dense, Matmul
from forge.quantization.observed.ranges import MIN_SCALE, AffineCodes
from forge.quantization.places.layers import FloatLayer, Sites, layer_of, moves, reads_rounded
from forge.quantization.weights.codes import QuantizedWeight, quantized_weight

MAX_BIAS = 1 << 30
"""Codes of biases of int32 are no larger, so that sums have room."""


@dataclass
class Insertion:
    """Conversions that are put into a graph.

    Attributes:
        codes: of values that are rounded, by value.
        weights: of layers, by layer.
        biases: element type of biases.
    """

    graph: Graph
    sites: Sites
    codes: Mapping[Value, AffineCodes]
    weights: Mapping[FloatLayer, QuantizedWeight]
    biases: str = "int32"

    def __post_init__(self) -> None:
        self._layers = {layer.node for layer in self.sites.of}

    def run(self) -> None:
        """Changes the graph."""
        biases = {layer: bias for layer in self.weights if (bias := bias_of(layer)) is not None}
        for value, codes in self.codes.items():
            self._round(value, codes)
        for layer, weight in self.weights.items():
            self._replace(layer.node, 1, weight)
        for layer, (user, position) in biases.items():
            found = self._bias(layer, user.operands[position])
            if found is not None:
                self._replace(user, position, found)
        self.graph.sort()

    def _round(self, value: Value, codes: AffineCodes) -> None:
        readers = [(user, position) for user, position in value.uses if self._reads(user)]
        builder = after(self.graph, value)
        parameters = [builder.constant(np.float32(codes.scale)), builder.constant(np.asarray(codes.zero, codes.dtype))]
        if codes.zero == 0:
            parameters.pop()
        whole = builder.call("qnn.quantize", value, *parameters, out_dtype=codes.dtype, name=_named(value, "quantized"))
        real = builder.call("qnn.dequantize", whole, *parameters, name=_named(value, "dequantized"))
        for user, position in readers:
            user.set_operand(position, real)

    def _reads(self, user: Node) -> bool:
        """Layers that are not quantized read real numbers; so do moves that lead to none."""
        if user in self._layers:
            return True
        if moves(user) or user.op == "concatenate":
            return any(self._reads(n) for n in user.succ)
        return reads_rounded(user) and layer_of(user) is None

    def _replace(self, node: Node, position: int, codes: QuantizedWeight) -> None:
        """Puts codes in the place of a constant operand."""
        builder, old = Builder(self.graph, node, node.location), node.operands[position]
        arrays = [codes.codes, codes.scale] + ([] if codes.zero is None else [codes.zero])
        names = ["" if old is None else old.name, "", ""]
        constants = [builder.constant(array, name=name) for array, name in zip(arrays, names)]
        node.set_operand(position, builder.call("qnn.dequantize", *constants, axis=codes.axis))

    def _bias(self, layer: FloatLayer, bias: Value | None) -> QuantizedWeight | None:
        """Codes for a bias; None: it stays real, as int32 does not hold it or the data have no scale that is known."""
        if bias is None or bias.constant is None:
            return None
        if self.biases != "int32":
            return quantized_weight(bias.constant, 0, self.biases, per_channel=False)
        values = self.sites.of.get(layer, [[]])[0]
        data = self.codes.get(values[0]) if values else None
        return None if data is None else whole_bias(bias.constant, data.scale * self.weights[layer].scale)


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


def bias_of(layer: FloatLayer) -> tuple[Node, int] | None:
    """Finds the node that alone reads a layer and adds a constant for each channel, and the place of this operand."""
    product: Product[Any] | None = None if layer.weight is None else Product.of(layer.node)
    return None if product is None else product.bias()


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
