"""Batch normalisation with constant parameters goes into the weights before it.

``nn.batch_norm(nn.conv2d(%x, w), ...)`` --> ``nn.bias_add(nn.conv2d(%x, scale * w), shift)`` with
``scale = gamma / sqrt(variance + epsilon)`` and ``shift = beta - mean * scale``; behind other operators, or where more than the
normalisation uses the convolution: ``add(multiply(%x, scale), shift)``.
"""

from __future__ import annotations

import numpy as np

from forge import dtypes
from forge.ir.nodes import Graph, Node, Value
from forge.passes.base import PassContext
from forge.passes.rewriting import before, live_nodes, on_all_graphs, replace
from forge.passes.weighted import find_weighted, rebuild


def run(graph: Graph, context: PassContext) -> int:
    return on_all_graphs(graph, _fold)


def _fold(graph: Graph) -> int:
    return sum(_fold_node(graph, node) for node in live_nodes(graph) if node.op == "nn.batch_norm")


def _fold_node(graph: Graph, node: Node) -> int:
    data, *parameters = node.operands
    assert data is not None
    constants = [p.constant for p in parameters if p is not None and p.constant is not None]
    if len(constants) != len(parameters):
        return 0
    scale, shift = scale_and_shift(node, constants)
    axis = node.attributes["axis"] % data.rank
    found = find_weighted(graph, data)
    if found is not None and found.axis == axis:
        value = rebuild(graph, node, found, scale, shift)
    else:
        value = _affine(graph, node, data, axis, scale, shift)
    return int(replace(graph, node, value))


def scale_and_shift(node: Node, parameters: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The normalisation as ``scale * x + shift``, in float64."""
    gamma, beta, mean, variance = (p.astype(np.float64) for p in parameters)
    attributes = node.attributes
    scale = 1.0 / np.sqrt(variance + attributes["epsilon"])
    if attributes["scale"]:
        scale = gamma * scale
    shift = -mean * scale
    return scale, shift + beta if attributes["center"] else shift


def _affine(graph: Graph, node: Node, data: Value, axis: int, scale: np.ndarray, shift: np.ndarray) -> Value:
    builder = before(graph, node)
    shape = (-1, *[1] * (data.rank - 1 - axis))
    as_type = dtypes.numpy_dtype(data.dtype)
    factor, offset = (builder.constant(v.astype(as_type).reshape(shape)) for v in (scale, shift))
    return builder.call("add", builder.call("multiply", data, factor), offset)
