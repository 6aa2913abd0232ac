"""Names of nodes, their sub-graphs, and what they use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx


def node_names(nodes: Sequence[onnx.NodeProto]) -> list[str]:
    """Names of the nodes of one graph. A node without one is called by its operator and position, as no other node is."""
    taken = {node.name for node in nodes}
    names = []
    for index, node in enumerate(nodes):
        name = node.name or f"{node.op_type}_{index}"
        while not node.name and name in taken:
            name += "_"
        names.append(name)
    return names


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Graphs among the node's attributes."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def used_names(node: onnx.NodeProto) -> Iterator[str]:
    """Names of values of its graph that a node uses."""
    yield from (name for name in node.input if name)
    for graph in subgraphs(node):
        yield from free_names(graph)


def free_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Names that a sub-graph takes from the graphs around it."""
    own = {i.name for i in graph.input} | {i.name for i in graph.initializer}
    own.update(s.values.name for s in graph.sparse_initializer)
    own.update(output for node in graph.node for output in node.output)
    used = [name for node in graph.node for name in used_names(node)]
    yield from (name for name in [*used, *(o.name for o in graph.output)] if name not in own)
