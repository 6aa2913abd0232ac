"""The products of a recurrent layer's input with constant weights become one matrix product over all steps.

``nn.lstm(%x, w, %r, ...)`` --> ``nn.lstm(nn.dense(%x, w), None, %r, ...)`` with the directions of w one below the other; a w of
bfloat16 beside float32 is multiplied with the rounded %x and the products stay float32.
"""

from __future__ import annotations

from forge.ir.nodes import Graph, Node
from forge.passes.base import PassContext
from forge.passes.rewriting import before, live_nodes, on_all_graphs, replace

LAYERS = ("nn.lstm", "nn.gru", "nn.rnn")


def run(graph: Graph, context: PassContext) -> int:
    return on_all_graphs(graph, lambda g: sum(_split(g, node) for node in live_nodes(g) if node.op in LAYERS))


def _split(graph: Graph, node: Node) -> int:
    x, w, *others = node.operands
    if x is None or w is None or w.constant is None:
        return 0
    builder = before(graph, node)
    rows = w.constant.reshape(-1, w.constant.shape[-1])
    same = w.dtype == x.dtype
    data = x if same else builder.call("cast", x, dtype=w.dtype)
    products = builder.call("nn.dense", data, builder.constant(rows, name=w.name), units=rows.shape[0],
                            out_dtype="" if same else x.dtype)
    results = builder.call_multi(node.op, products, None, *others, name=node.name, **node.attributes)
    return int(replace(graph, node, *results))
