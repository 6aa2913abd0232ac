"""What a converter builds with: the graph at the node being converted, and what is known of its operands."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from forge.frontends.scope import ImportState, Scope
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer


class ImportContext(Composer):
    """Given to a converter as its first argument, one for each node of the model.

    Attributes:
        scope: names in scope at the node.
        name: what messages call the node.
        label: the name that the model itself gives it; may be empty.
        outputs: names of its outputs, empty where one is absent.
    """

    def __init__(
        self, scope: Scope[Any], name: str, outputs: Sequence[str], modules: Sequence[str] = (), label: str | None = None
    ) -> None:
        super().__init__(Builder(scope.graph, location="/".join([*modules, name])))
        self.scope = scope
        self.name = name
        self.outputs = outputs
        self.label = name if label is None else label

    @property
    def num_outputs(self) -> int:
        """Outputs that the node lists, absent ones in between included."""
        return len(self.outputs)

    def wants(self, index: int) -> bool:
        """Whether output ``index`` is named, that is, may be read."""
        return index < len(self.outputs) and bool(self.outputs[index])

    @property
    def runs_always(self) -> bool:
        return self.scope.parent is None

    def array(self, value: Value | None) -> np.ndarray | None:
        """The contents of ``value`` when they are known now, those of parameters included."""
        known = super().array(value)
        return self.scope.frozen_value(value) if known is None and value is not None else known


_open: weakref.WeakValueDictionary[str, ImportContext] = weakref.WeakValueDictionary()


def open_context() -> ImportContext:
    """What expressions that belong to no model are built with: all of them that are alive are in one graph."""
    found = _open.get("context")
    if found is None:
        found = _open["context"] = ImportContext(Scope(Graph(name="main"), ImportState(), {}), "expression", ())
    return found
