"""What a graph pass is.

A pass is ``run(graph, options) -> int`` in a module of its own; the file's name is the pass's name in dumps, on the
command line and in documentation. It edits the graph in place, keeps it valid, and returns how many changes it made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from forge.ir.edits.rewrite import Rule, on_all_graphs, rewrite
from forge.ir.graph import Graph
from forge.options import CompileOptions

GraphPass = Callable[[Graph, CompileOptions], int]


def rewriting(*rules: Rule) -> GraphPass:
    """Returns the pass that applies ``rules``, of one operator earlier ones first; ``exact`` drops what moves roundings."""
    exact = tuple(r for r in rules if not r.moves_rounding)
    return lambda graph, options: rewrite(graph, exact if options.exact else rules)


def on_each_graph(visit: Callable[[Graph], int]) -> GraphPass:
    """Returns the pass that does ``visit`` with a graph and with the regions of its nodes, innermost first."""
    return lambda graph, options: on_all_graphs(graph, visit)


def rules_of(module: str) -> list[Rule]:
    """Returns the rules that are defined in a module, in their order."""
    return [found for found in vars(sys.modules[module]).values() if isinstance(found, Rule)]
