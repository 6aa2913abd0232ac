"""Constants of strings: characters lie in the weights, addresses are found at run time.

``constant of ["ab", "c"]``  -->  ``string.unpack(constant of bytes, shape=(2,))``
"""

from __future__ import annotations

from forge.ir.builder import Builder
from forge.ir.nodes import Graph
from forge.ops.core.strings import packed


def unpack_string_constants(graph: Graph) -> None:
    """Puts ``string.unpack`` in the place of every string constant of ``graph``, not of its regions."""
    for node in list(graph.nodes):
        value = node.results[0] if node.op == "constant" else None
        if value is None or value.constant is None or value.dtype != "string":
            continue
        builder = Builder(graph, before=node)
        fresh = builder.call("string.unpack", builder.constant(packed(value.constant)), shape=value.constant.shape)
        graph.replace_uses(value, fresh)
        graph.remove(node)
