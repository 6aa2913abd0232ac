"""What ``IRModule`` can be asked."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from forge.dims import Dim
from forge.errors import InvalidGraphError
from forge.ir.edits import journal
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Node, Value
from forge.ir.quantised import is_quantised
from forge.ir.saved import hashing
from forge.ir.types import TensorType
from forge.ir.verifier import verify
from forge.passes import partition, partition_for_tensorrt

if TYPE_CHECKING:
    from forge.view import Plot

MARK = "explained"
"""The last origin of the copy of a node whose way through a compilation is asked for."""


class Queries:
    """Properties of a module, and its text and pictures."""

    _module: Module

    @property
    def mod(self) -> Module:
        """The module; prints as text without types."""
        return self._module

    @property
    def typed_mod(self) -> Module:
        """The module after verification; prints as text with types.

        Raises:
            InvalidGraphError: it breaks a rule of the IR.
        """
        return self._verified().with_types()

    def _verified(self) -> Module:
        """The module, after verifying it: nodes and values can be changed directly."""
        verify(self._module)
        return self._module

    def explain(self, node: Node | Value | str) -> str:
        """Which rules led to a node of ``main``, and what the rules of a compilation do with it: replace it, or why not.

        Args:
            node: it, its result, or a name (see `Graph.find`).

        Raises:
            InvalidGraphError: it is not in ``main``, or the module breaks a rule of the IR.
        """
        from forge.driver import check_options, optimized_graph

        found = self.main.find(node) if isinstance(node, str) else node.producer if isinstance(node, Value) else node
        nodes = [*self._verified().main.nodes]
        if found is None or found not in nodes:
            raise InvalidGraphError(f"explain: got {node!r}; expected a node of main, its result or a name")
        marked = self._module.copy()
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

    def script(self) -> str:
        """The module as text with types, as it prints; contents of constants are left out.

        Raises:
            InvalidGraphError: it breaks a rule of the IR.
        """
        return str(self.typed_mod)

    @property
    def graphs(self) -> dict[str, Graph]:
        """All graphs by name: public functions, and those that they call."""
        return self._module.graphs

    def __getitem__(self, name: str) -> Graph:
        """The graph of that name: ``ir["main"].attrs``.

        Raises:
            KeyError: there is none; those that there are are listed.
        """
        if name not in self.graphs:
            raise KeyError(f"got {name!r}; expected one of {', '.join(self.graphs)}")
        return self.graphs[name]

    @property
    def main(self) -> Graph:
        """The function ``main`` or, where there is none, the first public one; what has no name of a function is about it."""
        return self._module.main

    @property
    def functions(self) -> list[str]:
        """Names of the functions that users call, ``main`` first."""
        return list(self._module.public)

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def subgraph_count(self) -> int:
        """Graphs other than ``main``."""
        return len(self.graphs) - 1

    @property
    def params(self) -> dict[str, np.ndarray]:
        """Weights that are not frozen into the graph, by input name."""
        return self._module.params

    @property
    def operators(self) -> dict[str, int]:
        """How often each operator occurs, regions included, the most frequent first."""
        counts = Counter(n.op for g in self.graphs.values() for n in g.walk() if n.op != "constant")
        return dict(counts.most_common())

    @property
    def input_nodes(self) -> list[Value]:
        """The model's inputs; states, and those that ``params`` binds, are left out.

        They answer what nodes are asked, so that a walk may begin here: ``op`` is "input", ``succ`` lists the nodes that use one.
        """
        return [v for v in self.main.inputs if v.name not in self.params and v.name not in self.main.states]

    @property
    def input_count(self) -> int:
        return len(self.input_nodes)

    @property
    def input_names(self) -> list[str]:
        return [v.name for v in self.input_nodes]

    @property
    def input_shapes(self) -> list[tuple[Dim, ...] | None]:
        """Shapes; symbolic dimensions print as their expression. None for a sequence, an optional or a tensor of unknown rank."""
        return [_shape(v) for v in self.input_nodes]

    @property
    def input_dtypes(self) -> list[str]:
        """Element types; where ``input_shapes`` gives None, the type's text: ``Sequence[Tensor[(n), float32]]``."""
        return [_dtype(v) for v in self.input_nodes]

    @property
    def output_node(self) -> Node:
        """The node of the first output.

        Raises:
            InvalidGraphError: there is no output, or the first one is an input.
        """
        producer = self.main.outputs[0].producer if self.main.outputs else None
        if producer is None:
            raise InvalidGraphError("output_node: no node produces the first output; expected an output that is not an input")
        return producer

    @property
    def state_names(self) -> list[str]:
        """Names of the tensors that a session keeps from one call to the next."""
        return list(dict.fromkeys(name for graph in self._module.public.values() for name in graph.states))

    @property
    def output_nodes(self) -> list[Value]:
        """The model's outputs; those that replace states are left out."""
        return list(self._outputs().values())

    def _outputs(self) -> dict[str, Value]:
        kept = {state.output for state in self.main.states.values()}
        return {name: v for k, (name, v) in enumerate(zip(self.main.output_names, self.main.outputs)) if k not in kept}

    @property
    def output_count(self) -> int:
        return len(self._outputs())

    @property
    def output_names(self) -> list[str]:
        return list(self._outputs())

    @property
    def output_shapes(self) -> list[tuple[Dim, ...] | None]:
        """As ``input_shapes``."""
        return [_shape(v) for v in self.output_nodes]

    @property
    def output_dtypes(self) -> list[str]:
        """As ``input_dtypes``."""
        return [_dtype(v) for v in self.output_nodes]

    @property
    def is_quantized(self) -> bool:
        """Whether the model converts numbers to few bits or back, or sums products of integers of 8 bits or fewer."""
        return any(is_quantised(n) for g in self.graphs.values() for n in g.walk())

    @property
    def is_tensorrt(self) -> bool:
        """Whether the model is partitioned for TensorRT: a function is marked for it."""
        marks = [graph.attributes.get(partition.COMPILER) for graph in self.graphs.values()]
        return partition_for_tensorrt.BACKEND in marks

    @property
    def fingerprint(self) -> str:
        """A digest of structure, names and contents: equal for identical models, in every process."""
        return hashing.fingerprint(self._verified())

    def __hash__(self) -> int:
        """Of the structure, without names and what was trained; see `forge.ir.saved.hashing`."""
        return hashing.structural_hash(self._verified())

    def __eq__(self, other: object) -> bool:
        """Equality of the structural hash; `fingerprint` compares names and contents, too."""
        return isinstance(other, Queries) and hash(self) == hash(other)

    def __iter__(self) -> Iterator[Node]:
        """The nodes of ``main`` in topological order."""
        return iter(self.main)

    def __str__(self) -> str:
        return str(self.mod)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{v.name}: {v.type}" for v in self.input_nodes)
        outputs = ", ".join(str(v.type) for v in self.output_nodes)
        return f"<forge.IRModule ({inputs}) -> ({outputs}); {sum(self.operators.values())} operators>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self.mod))}</pre>"

    def plot(self, graph: str = "main", max_nodes: int = 200) -> Plot:
        """A picture of one graph, which notebooks show; ``plot().save("graph.svg")`` writes it.

        Groups stay closed where more than ``max_nodes`` boxes would be seen. ``forge view`` makes a page to search and open.

        Raises:
            OptionError: there is no such graph, or its outermost boxes alone are more than ``max_nodes``.
        """
        from forge.view import plot

        return plot(self._module, graph, max_nodes)


def _shape(value: Value) -> tuple[Dim, ...] | None:
    return value.shape if isinstance(value.type, TensorType) else None


def _dtype(value: Value) -> str:
    return value.dtype if isinstance(value.type, TensorType) else str(value.type)
