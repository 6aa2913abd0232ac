"""What ``IRModule`` is asked at some length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge.errors import InvalidGraphError
from forge.ir.edits import journal
from forge.ir.nodes import Node, Value

if TYPE_CHECKING:
    from forge.module import IRModule
    from forge.view import Plot

MARK = "explained"
"""The last origin of the copy of a node whose way through a compilation is asked for."""


def explain(ir: IRModule, node: Node | Value | str) -> str:
    """Which rules led to a node of ``main``, and what the rules of a compilation do with it: replace it, or why not.

    Args:
        node: it, its result, or a name (see `Graph.find`).

    Raises:
        InvalidGraphError: it is not in ``main``, or the module breaks a rule of the IR.
    """
    from forge.driver import check_options, optimized_graph

    found = ir.main.find(node) if isinstance(node, str) else node.producer if isinstance(node, Value) else node
    nodes = [*ir._verified().main.nodes]
    if found is None or found not in nodes:
        raise InvalidGraphError(f"explain: got {node!r}; expected a node of main, its result or a name")
    marked = ir._module.copy()
    inner = marked.main.nodes[nodes.index(found)]
    inner.origin = (*inner.origin, MARK)
    with journal.recorded() as kept:
        optimized_graph(marked, check_options())
    lines = [f"{found.label}: made by {', '.join(found.origin) or 'no rule'}"]
    for attempt in (a for a in kept.attempts if a.node.origin[-1:] == (MARK,)):
        made = ", ".join(n.op for n in attempt.made) or "other values"
        done = f"replaced it by {made}" + ("; its rounding moved, unless exact is set" if attempt.moves_rounding else "")
        lines.append(f"{attempt.stage}: {attempt.rule}: {attempt.reason or done}")
    return "\n".join(lines)


def plot(ir: IRModule, graph: str = "main", max_nodes: int = 200) -> Plot:
    """A picture of one graph, which notebooks show; ``plot().save("graph.svg")`` writes it.

    Groups stay closed where more than ``max_nodes`` boxes would be seen. ``forge view`` makes a page to search and open.

    Raises:
        OptionError: there is no such graph, or its outermost boxes alone are more than ``max_nodes``.
    """
    from forge.view import plot

    return plot(ir._module, graph, max_nodes)
