"""Writes in place that torch loses when it takes a program apart.

Some operators give their operand, or a view of it, and their schemas do not say so: ``type_as``, ``atleast_1d``, idle
``dropout``. Where torch removes writes, it may take such a result for a copy: what is written to one is not seen in the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Graph, Node

Memories = dict[int, int]
"""The memories that a node's tensors lie in -> the node that made what torch takes for one memory."""


def loses_writes(exported: ExportedProgram) -> bool:
    """Whether a tensor is read after a write to its memory through what torch may take for another memory."""
    graphs = [module.graph for module in exported.graph_module.modules() if hasattr(module, "graph")]
    return any(_loses_writes(graph) for graph in graphs)


def _loses_writes(graph: Graph) -> bool:
    found: dict[Node, Memories] = {}
    roots: dict[int, int] = {}
    made: set[tuple[int, int]] = set()
    stale: set[tuple[int, int]] = set()
    for number, node in enumerate(graph.nodes):
        written = [m for operand in _written(node) for m in found[operand].items()]
        read = [m for operand in node.all_input_nodes for m in found[operand].items()]
        if stale.intersection(read):
            return True
        known = dict([*read, *written])
        if _is_idle_dropout(node):
            roots.update((storage, m) for storage in _storages(node) for m in list(known)[:1])
        memories = {roots.get(s, s) for s in _storages(node)}
        found[node] = {m: number if _may_give_operands(node) else known.get(m, number) for m in memories}
        made.update(found[node].items())
        if written:
            stale.update(m for m in made.difference(written, found[node].items()) if m[0] in dict(written))
    return any(stale.intersection(found[node].items()) for node in graph.nodes if node.op == "placeholder")


def _storages(node: Node) -> Iterator[int]:
    """The memories of a node's tensors, as torch's export has them."""
    import torch
    from torch.utils import _pytree as pytree

    for value in map(without_batch, pytree.tree_leaves(node.meta.get("val"))):
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            yield value.untyped_storage()._cdata


def without_batch(value: Any) -> Any:
    """Of a tensor in a function over a batch, the tensor that has all of the batch."""
    import torch
    from torch._C._functorch import get_unwrapped, is_batchedtensor

    while isinstance(value, torch.Tensor) and is_batchedtensor(value):
        value = get_unwrapped(value)
    return value


def _schema(node: Node) -> Any:
    return getattr(node.target, "_schema", None)


def _may_give_operands(node: Node) -> bool:
    """Whether results of a node that lie in the memory of operands do so without the schema's word."""
    schema = _schema(node)
    return schema is not None and any(result.alias_info is None for result in schema.returns)


def _is_idle_dropout(node: Node) -> bool:
    """Whether a node gives its operand, though torch's export has a memory for the result."""
    name = getattr(_schema(node), "name", "")
    return name.startswith("aten::") and name.endswith("dropout") and not (node.args[1] and node.args[2])


def _written(node: Node) -> list[Node]:
    """The operands that a node writes."""
    from torch.fx import Node
    from torch.utils import _pytree as pytree

    schema = _schema(node)
    if schema is None or not schema.is_mutable:
        return []
    given = {a.name: value for a, value in zip(schema.arguments, node.args)} | node.kwargs
    values = [given.get(a.name) for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    return [value for value in pytree.tree_leaves(values) if isinstance(value, Node)]
