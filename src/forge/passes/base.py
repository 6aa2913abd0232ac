"""What a graph pass is.

A pass is a function ``run(graph, options) -> int`` in a module of its own; the file's name is the pass's name in dumps, on the
command line and in documentation. It edits the graph in place, keeps it valid, and returns how many changes it made.
"""

from __future__ import annotations

from typing import Protocol

from forge.ir.nodes import Graph
from forge.options import CompileOptions


class GraphPass(Protocol):
    """``run`` of a pass module."""

    def __call__(self, graph: Graph, options: CompileOptions) -> int: ...
