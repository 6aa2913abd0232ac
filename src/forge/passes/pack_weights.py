"""Matrix products with constant weights get them packed in panels as wide as the target's kernels read them.

``nn.dense(%x, w)`` --> ``nn.contrib_dense_pack(%x, p)`` with ``p[n // b, k, n % b] = w[n, k]`` and zeros beyond w's last row;
bfloat16 in pairs of k, ``p[n // b, k // 2, n % b, k % 2]``, where k is even and the target multiplies pairs.
With one row: ``sum(multiply(%x, w[0]), axis=-1, keepdims=True)``, whose vectors lie along k.
With a weight that is not constant: ``nn.matmul(%x, %w, transpose_b=True)``.
"""

from __future__ import annotations

import math

import numpy as np

from forge import dtypes
from forge.ir.nodes import Graph, Node, Value
from forge.kernels.choose import dense_panel
from forge.ops.packed.pairs import paired
from forge.passes.base import PassContext
from forge.passes.rewriting import before, live_nodes, on_all_graphs, replace
from forge.target.blocking import dots_of_pairs


def run(graph: Graph, context: PassContext) -> int:
    def pack(graph: Graph) -> int:
        nodes = (node for node in live_nodes(graph) if node.op == "nn.dense")
        return sum(_pack_node(graph, node, context) for node in nodes)

    return on_all_graphs(graph, pack)


def _pack_node(graph: Graph, node: Node, context: PassContext) -> int:
    data, weight = node.operands
    assert data is not None and weight is not None
    if data.dtype != weight.dtype or not dtypes.is_float(data.dtype):
        return 0
    array = weight.constant
    if array is None:
        return _as_matmul(graph, node, data, weight)
    if array.size == 0:
        return 0
    if array.shape[0] == 1 and data.dtype in ("float32", "float64") and node.result.dtype == data.dtype:
        return _as_sum(graph, node, data, array)
    units, depth = array.shape
    rows = math.prod(d if isinstance(d, int) else 0 for d in data.shape[:-1])
    packed = pack_panels(array, dense_panel(context.target, data.dtype, units, rows, depth))
    if data.dtype == "bfloat16" and packed.shape[1] % 2 == 0 and dots_of_pairs(context.target):
        packed = paired(packed)
    builder = before(graph, node)
    constant = builder.constant(packed, name=weight.name)
    value = builder.call("nn.contrib_dense_pack", data, constant, name=node.name, units=units,
                         out_dtype=node.attributes["out_dtype"])
    return int(replace(graph, node, value))


def _as_sum(graph: Graph, node: Node, data: Value, weight: np.ndarray) -> int:
    builder = before(graph, node)
    products = builder.call("multiply", data, builder.constant(np.ascontiguousarray(weight[0])))
    return int(replace(graph, node, builder.call("sum", products, axis=(data.rank - 1,), keepdims=True, name=node.name)))


def _as_matmul(graph: Graph, node: Node, data: Value, weight: Value) -> int:
    if data.rank < 2:
        return 0
    attributes = {"out_dtype": node.attributes["out_dtype"], "transpose_b": True}
    return int(replace(graph, node, before(graph, node).call("nn.matmul", data, weight, name=node.name, **attributes)))


def pack_panels(weight: np.ndarray, panel: int) -> np.ndarray:
    """``weight[N, K]`` as ``[ceil(N / panel), K, panel]``, zero beyond row N."""
    units, depth = weight.shape
    padded = np.zeros((-(-units // panel) * panel, depth), weight.dtype)
    padded[:units] = weight
    return np.ascontiguousarray(padded.reshape(-1, panel, depth).transpose(0, 2, 1))
