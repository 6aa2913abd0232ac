"""Puts ``qnn.quantize`` and ``qnn.dequantize`` around what is computed with integers."""

from __future__ import annotations

from collections.abc import Mapping
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
from forge.quantization.observed.ranges import MIN_SCALE, Codes
from forge.quantization.places.layers import Layer, Sites, layer_of, moves, reads_rounded
from forge.quantization.weights.codes import Weight

MAX_BIAS = 1 << 30
"""Codes of biases of int32 are no larger, so that sums have room."""


@dataclass
class Insertion:
    """What is put into a graph.

    Attributes:
        codes: of values that are rounded, by value.
        weights: of layers, by layer.
        biases: element type of biases.
    """

    graph: Graph
    sites: Sites
    codes: Mapping[Value, Codes]
    weights: Mapping[Layer, Weight]
    biases: str = "int32"

    def __post_init__(self) -> None:
        self._layers = {layer.node for layer in self.sites.of}

    def run(self) -> None:
        biases = {layer: bias for layer in self.weights if (bias := bias_of(layer)) is not None}
        for value, codes in self.codes.items():
            self._round(value, codes)
        for layer, weight in self.weights.items():
            self._replace_weight(layer, weight)
        for layer, (user, position) in biases.items():
            self._replace_bias(layer, user, position)
        self.graph.sort()

    def _round(self, value: Value, codes: Codes) -> None:
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

    def _replace_weight(self, layer: Layer, weight: Weight) -> None:
        builder = Builder(self.graph, layer.node, layer.node.location)
        old = layer.node.operands[1]
        name = "" if old is None else old.name
        layer.node.set_operand(1, builder.call("qnn.dequantize", *_constants(builder, weight, name), axis=weight.axis))

    def _replace_bias(self, layer: Layer, user: Node, position: int) -> None:
        bias, data = user.operands[position], self._codes_of(layer)
        if bias is None or bias.constant is None:
            return
        if self.biases == "int32":
            found = None if data is None else whole_bias(bias.constant, data.scale * self.weights[layer].scale)
        else:
            found = byte_bias(bias.constant, self.biases)
        if found is not None:
            builder = Builder(self.graph, user, user.location)
            user.set_operand(position, builder.call("qnn.dequantize", *_constants(builder, found, bias.name), axis=found.axis))

    def _codes_of(self, layer: Layer) -> Codes | None:
        """Of its data, if they have one scale that is known."""
        values = self.sites.of.get(layer, [[]])[0]
        return self.codes.get(values[0]) if values and layer in self.weights else None


def _named(value: Value, suffix: str) -> str:
    return f"{value.name}_{suffix}" if value.name else ""


def _constants(builder: Builder, weight: Weight, name: str) -> list[Value]:
    arrays = [weight.codes, weight.scale] + ([] if weight.zero is None else [weight.zero])
    return [builder.constant(array, name=name if k == 0 else "") for k, array in enumerate(arrays)]


def after(graph: Graph, value: Value) -> Builder:
    """Inserts after what makes ``value``."""
    nodes = list(graph.nodes)
    place = -1 if value.producer is None else nodes.index(value.producer)
    before = nodes[place + 1] if place + 1 < len(nodes) else None
    return Builder(graph, before, "" if value.producer is None else value.producer.location)


def bias_of(layer: Layer) -> tuple[Node, int] | None:
    """What alone reads the result of a layer with a constant weight, and adds a constant for each channel: node and operand."""
    product: Product[Any] | None = None if layer.weight is None else Product.of(layer.node)
    return None if product is None else product.bias()


def whole_bias(array: np.ndarray, scale: np.ndarray) -> Weight | None:
    """A bias in steps of the sums that it is added to; None: 32 bits do not hold it."""
    units = np.rint(array.astype(np.float64) / scale)
    if np.any(np.abs(units) > MAX_BIAS):
        return None
    return Weight(units.astype(np.int32), np.asarray(scale, np.float32), None, 0)


def byte_bias(array: np.ndarray, dtype: str) -> Weight:
    least, most = dtypes.integer_range(dtype)
    low, high = min(float(array.min()), 0.0), max(float(array.max()), 0.0)
    if least < 0:
        scale, zero = max(-low, high) / most, 0
    else:
        scale = (high - low) / most
        zero = int(np.rint(-low / max(scale, MIN_SCALE)))
    step = np.float32(max(scale, MIN_SCALE))
    codes = np.clip(np.rint(array / step) + zero, least, most).astype(dtype)
    return Weight(codes, np.asarray(step), np.asarray(zero, dtype) if zero else None, 0)


def round_at_run_time(graph: Graph, layer: Layer, dtype: str) -> None:
    """The data of ``layer`` get the range that they have in the call: each row, of dense layers, or all together."""
    node = layer.node
    builder = Builder(graph, node, node.location)
    data = layer.inputs[0]
    if Dense.of(node) is None and Matmul.of(node) is None:
        node.set_operand(0, _by_range(builder, data, dtype, None))
        return
    result = node.result
    readers, shape = list(result.uses), result.shape
    rows = builder.call("reshape", data, newshape=(-1, data.shape[-1]))
    node.set_operand(0, _by_range(builder, rows, dtype, 0))
    infer_again(node)
    whole = after(graph, result).call("reshape", result, newshape=shape)
    for user, position in readers:
        user.set_operand(position, whole)
    graph.outputs = [whole if v is result else v for v in graph.outputs]
    whole.name, result.name = result.name, ""


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
