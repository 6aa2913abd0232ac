"""Which layers of a quantized model are quantized, and what of the float model they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forge.ir.builder import Builder
from forge.ir.graph import Module
from forge.ir.interp import evaluate
from forge.ir.nodes import Node, Value
from forge.ir.op import Category
from forge.ops.core.product import Product
from forge.ops.quantized.quantize import Dequantize, Quantize
from forge.passes.matching import operand
from forge.quantization.places.insertion import round_at_run_time
from forge.quantization.places.layers import layer_of, sources
from forge.quantization.places.products import is_recurrent, node_again, products


@dataclass(frozen=True, eq=False)
class LayerPair:
    """A product of the float model, and the same in the quantized one.

    Attributes:
        number: among the products of either model.
        data: positions of the operands that are known at run time only and rounded; of recurrent layers, of the input.
    """

    number: int
    real: Node
    quantized: Node
    data: tuple[int, ...]

    @property
    def is_recurrent(self) -> bool:
        return is_recurrent(self.real)

    @property
    def label(self) -> str:
        return self.real.label

    @property
    def name(self) -> str:
        """The name that `quantize` takes in ``exclude``."""
        return self.real.shown_name

    @property
    def weight(self) -> np.ndarray | None:
        """The weight in the float model; None: both operands are data."""
        return None if 1 in self.data else operand(self.real, 1).constant

    @property
    def rounded_weight(self) -> np.ndarray | None:
        """The real numbers that the codes of the quantized model stand for."""
        return None if 1 in self.data else constant_of(operand(self.quantized, 1))

    @property
    def results(self) -> tuple[Value, Value]:
        """The results with their biases, in the real and in the quantized model; of recurrent layers, at each step."""
        if self.is_recurrent:
            return self.real.results[0], self.quantized.results[0]
        return biased(self.real, self.real.result), biased(self.quantized, self.quantized_result)

    @property
    def quantized_result(self) -> Value:
        """The result of the quantized layer, which may compute rows, in the shape of the real one."""
        result = self.quantized.result
        readers = [node for node, _ in result.uses]
        is_moved = len(readers) == 1 and readers[0].op == "reshape" and readers[0].result.shape == self.real.result.shape
        return readers[0].result if is_moved else result


def value_name(value: Value) -> str:
    """Returns the name of a value, else that of its node, else what it is."""
    made = value.producer
    return value.name or (made.shown_name if made is not None and len(made.results) == 1 else value.label)


def pairs_of(real: Module, quantized: Module) -> list[LayerPair]:
    """Returns the layers that are quantized in one of two modules, which have the same products in the same order."""
    found = []
    for number, (node, other) in enumerate(zip(products(real.main), products(quantized.main), strict=True)):
        layer = layer_of(node)
        if layer is not None and _has_codes(other) and not _has_codes(node):
            found.append(LayerPair(number, node, other, layer.data))
        elif is_recurrent(node) and not is_recurrent(other):
            found.append(LayerPair(number, node, other, (0,)))
    return found


def _has_codes(node: Node) -> bool:
    return all(v is not None and dequantized(v) is not None for v in node.operands[:2])


def dequantized(value: Value) -> Dequantize | None:
    """Returns what made real numbers of codes, before the moves that lead to ``value``."""
    return Dequantize.of(next((v.producer for v in sources(value)), None))


def constant_of(value: Value) -> np.ndarray | None:
    """Returns the array that ``value`` is in every call, where a dequantization of constants or a constant makes it."""
    node = value.producer
    if value.constant is not None or node is None:
        return value.constant
    operands = [None if v is None else v.constant for v in node.operands]
    if node.op_def.category is not Category.QUANTIZATION or any(a is None for a in operands):
        return None
    return np.asarray(evaluate(node, operands, {}, lambda *_: [])[0])


def biased(node: Node, result: Value) -> Value:
    """Returns the result of a product, with its bias if it has one."""
    found = bias_of(node, result)
    return result if found is None else found[0].result


def bias_of(node: Node, result: Value) -> tuple[Node, int] | None:
    """Finds the node that alone reads the result of a product and adds a constant for each channel, and its operand's place."""
    product = Product[Any].of(node)
    return None if product is None else product.bias(result, constant_of)


def rounded(builder: Builder, pair: LayerPair, position: int, data: Value) -> Value:
    """Rounds ``data``, which the real layer reads at ``position``, as the quantized layer does."""
    found = dequantized(operand(pair.quantized, position))
    whole = None if found is None else Quantize.of(found.data.producer)
    assert found is not None and whole is not None
    if whole.scale.constant is None:
        return _rounded_by_range(builder, pair, data, whole.result.dtype)
    codes = node_again(builder, whole.node, {"data": data}).result
    return node_again(builder, found.node, {"data": codes}).result


def _rounded_by_range(builder: Builder, pair: LayerPair, data: Value, dtype: str) -> Value:
    """As `round_at_run_time` does it, before a layer whose result nothing reads."""
    made = product(builder, pair, data, builder.constant(pair.weight)).producer
    layer = None if made is None else layer_of(made)
    assert layer is not None
    round_at_run_time(builder.graph, layer, dtype)
    return builder.call("reshape", operand(layer.node), newshape=data.shape)


def product(builder: Builder, pair: LayerPair, data: Value, other: Value) -> Value:
    """Inserts the layer of two operands, without its bias."""
    return builder.node(pair.real.op_def, [data, other], pair.real.attributes).result
