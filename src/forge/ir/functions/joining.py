"""Modules from functions of others."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Hashable, Iterator, Mapping

import numpy as np

from forge.errors import OptionError
from forge.ir.arrays import identity
from forge.ir.call import CALL
from forge.ir.constants.sampling import have_equal_bytes, sample
from forge.ir.graph import Graph, Module
from forge.ir.nodes import ConstantAttrs, Node


def join(modules: Mapping[str, Module]) -> Module:
    """One module in which ``main`` of each is the public function of that name. Arrays of equal contents become one.

    Functions that only others of their module call get the name of theirs in front: ``decode.layer``.

    Raises:
        OptionError: a module has several public functions.
    """
    joined = Module()
    joined.graphs.clear()
    joined.external_modules = tuple(dict.fromkeys(code for module in modules.values() for code in module.external_modules))
    arrays = _Arrays()
    for name, module in modules.items():
        if len(module.public) > 1:
            listed = ", ".join(module.public)
            raise OptionError(f"join: {name!r}: has the functions {listed}; expected one; select it with IRModule.function")
        (own,) = module.public
        renamed = {function: name if function == own else f"{name}.{function}" for function in module.graphs}
        for function, graph in module.graphs.items():
            copy = graph.copy()
            copy.name = renamed[function]
            joined.graphs[copy.name] = copy
            _rename_calls(copy, renamed)
            arrays.share(copy)
        _publish(joined.graphs[name], name)
    return joined


def _publish(graph: Graph, name: str) -> None:
    graph.attributes.pop("public", None)
    if name != "main":
        graph.attributes["public"] = True


def _rename_calls(graph: Graph, renamed: Mapping[str, str]) -> None:
    for node in graph.walk():
        if node.op_def is CALL:
            node.attrs = dataclasses.replace(node.attrs, function=renamed[node.attrs.function])


def select(module: Module, functions: Collection[str], where: str) -> Module:
    """A copy with only some of the public functions, and what they call.

    Raises:
        OptionError: there is no such public function; ``where`` begins the message.
    """
    unknown = [name for name in functions if name not in module.public]
    if unknown or not functions:
        got = repr(unknown[0]) if unknown else "none"
        raise OptionError(f"{where}: got {got}; expected some of: {', '.join(module.public)}")
    kept = dict.fromkeys(functions)
    for name in (pending := [*functions]):
        for callee in _called(module.graphs[name]):
            if callee not in kept:
                kept[callee] = None
                pending.append(callee)
    selected = Module()
    selected.external_modules = module.external_modules
    selected.graphs = {name: graph.copy() for name, graph in module.graphs.items() if name in kept}
    for name, graph in selected.graphs.items():
        if name not in functions:
            graph.attributes.pop("public", None)
    return selected


def _called(graph: Graph) -> Iterator[str]:
    return (node.attrs.function for node in graph.walk() if node.op_def is CALL)


class _Arrays:
    """Arrays by contents."""

    def __init__(self) -> None:
        self._known: dict[Hashable, list[np.ndarray]] = {}
        self._shared: dict[Hashable, np.ndarray] = {}

    def share(self, graph: Graph) -> None:
        """Replaces arrays in ``graph`` by equal ones that came before."""
        for node in graph.walk():
            if isinstance(node.attrs, ConstantAttrs):
                self._share_constant(node)
        graph.params = {name: self._first(array) for name, array in graph.params.items()}

    def _share_constant(self, node: Node) -> None:
        first = self._first(node.attrs.value)
        if first is not node.attrs.value:
            node.attrs = ConstantAttrs(first)

    def _first(self, array: np.ndarray) -> np.ndarray:
        """The first array of these contents."""
        if array.dtype == object or array.ndim == 0:
            return array
        key = identity(array)
        if key not in self._shared:
            candidates = self._known.setdefault(sample(array), [])
            first = next((other for other in candidates if have_equal_bytes(other, array)), None)
            if first is None:
                candidates.append(array)
            self._shared[key] = array if first is None else first
        return self._shared[key]
