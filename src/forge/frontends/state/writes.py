"""Writes of a program: which memory it writes, and what holds other contents after a call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from forge.frontends.convert import finished
from forge.frontends.scope import Scope
from forge.frontends.state.cells import Cell
from forge.ir.functions.states import State
from forge.ir.graph import Module
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer


class Memories:
    """The tensors in whose memory others lie, and which of these are written, found before a program is converted.

    Attributes:
        written: tensors that were made with memory which is written.
    """

    def __init__(self) -> None:
        self.written: set[str] = set()
        self._roots: dict[str, str] = {}

    def root(self, name: str) -> str:
        """The tensor that was made with the memory of another."""
        return self._roots.get(name, name)

    def share(self, names: Iterable[str], of: str) -> None:
        """``names`` lie in the memory of ``of``."""
        self._roots.update(dict.fromkeys(names, self.root(of)))

    def write(self, names: Iterable[str]) -> None:
        self.written.update(map(self.root, names))


def assign(g: Composer, cell: Cell, value: Value) -> None:
    """Writes ``value`` to a tensor, in the type and with the sizes of this."""
    before = cell.read()
    value = g.cast(value, before.dtype)
    cell.write(value if value.shape == before.shape else g.call("broadcast_to", value, shape=before.shape))


def module_of(scope: Scope[Any], results: Sequence[tuple[str, Value]], after: Sequence[tuple[str, Value]]) -> Module:
    """The module of a converted program, of which ``scope`` is that of main.

    Args:
        results: outputs, by what the model calls them.
        after: what variables and inputs that were written hold after a call, by their names as inputs of main: variables become
            states, inputs are donated.
    """
    names = [name for name, _ in results]
    taken = set(names)
    scope.graph.outputs = [value for _, value in (*results, *after)]
    states = dict(scope.graph.states)
    for number, (label, _) in enumerate(after, len(results)):
        names.append(_unused(f"{label}_after", taken))
        if label in states:
            states[label] = State(number, states[label].initial)
        else:
            scope.graph.donated[label] = number
    scope.graph.states = states
    return finished(scope, names)


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
