"""Graphs with operators that cannot be compiled, cut there: these run eagerly, what lies between is compiled."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.split_module import split_module

from forge.errors import ForgeError, OpAttributeUnimplemented, OpNotImplemented
from forge.frontends.support import MISSING
from forge.frontends.torch.captured import Given, captured_program
from forge.frontends.torch.exported import source_line, target_name
from forge.frontends.torch.steps import used_operators
from forge.options import CompileOptions
from forge.torch.compiled import Call, CompiledGraph


def compiled_where_possible(module: GraphModule, given: Sequence[Given], options: CompileOptions, where: str) -> Call | None:
    """``module`` with the parts that can be compiled in native code; a warning lists the operators that run eagerly.

    Returns:
        None: nothing can be compiled; the warning says why.
    """
    refused = _missing(module, given, where)
    while True:
        try:
            found = _cut(module, given, options, where, refused) if refused else CompiledGraph(module, given, options, where)
        except OpAttributeUnimplemented as error:
            if not error.operator or error.operator in refused:
                _warn_of(error)
                return None
            refused = {*refused, error.operator}
        except ForgeError as error:
            _warn_of(error)
            return None
        else:
            if refused:
                warnings.warn(_listing(module, refused, where), stacklevel=2)
            return found


def _warn_of(error: ForgeError) -> None:
    warnings.warn(f"all of a graph runs eagerly: {error}", stacklevel=3)


def _missing(module: GraphModule, given: Sequence[Given], where: str) -> set[str]:
    """Names of the operators without a converter."""
    try:
        program = captured_program(module, given, [], where).program
    except OpNotImplemented:
        return set()
    return {f"{use.domain or 'aten'}.{use.op}" for use in used_operators(program) if use.how == MISSING}


def _is_refused(node: Node, refused: set[str]) -> bool:
    return node.op == "call_function" and target_name(node.target) in refused


def _listing(module: GraphModule, refused: set[str], where: str) -> str:
    lines = []
    for node in (n for n in module.graph.nodes if _is_refused(n, refused)):
        source = source_line(node.meta.get("stack_trace") or "")
        lines.append(f"{target_name(node.target)} (node {node.name!r}{', ' + source if source else ''})")
    return f"{where}: {len(lines)} operators run eagerly: {'; '.join(lines)}"


def _cut(module: GraphModule, given: Sequence[Given], options: CompileOptions, where: str, refused: set[str]) -> Call:
    parts = _numbered_parts(module, refused)
    cut = split_module(module, module, lambda node: parts[node], keep_original_order=True)
    names = {node.name: item for node, item in zip((n for n in module.graph.nodes if n.op == "placeholder"), given)}
    for node in [n for n in cut.graph.nodes if n.op == "call_module"]:
        part = cut.get_submodule(str(node.target))
        assert isinstance(part, GraphModule)
        if any(_is_refused(inner, refused) for inner in part.graph.nodes):
            continue
        inputs = [names.get(n.name, Given(n.name)) for n in part.graph.nodes if n.op == "placeholder"]
        setattr(cut, str(node.target), _Part(CompiledGraph(part, inputs, options, where)))
    cut.recompile()

    def call(*arguments: Any) -> Sequence[Any]:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):  # casts are operators of the graph
            return cut(*arguments)  # type: ignore[no-any-return]

    return call


def _numbered_parts(module: GraphModule, refused: set[str]) -> dict[Node, int]:
    """The part of each node, in order: those that are refused are parts of their own."""
    found: dict[Node, int] = {}
    number, last_refused = 0, False
    for node in module.graph.nodes:
        now = _is_refused(node, refused)
        if node.op == "call_function" and now != last_refused:
            number, last_refused = number + 1, now
        found[node] = number
    return found


class _Part(torch.nn.Module):  # type: ignore[misc]
    """Compiled code in the place of a part of a graph."""

    def __init__(self, compiled: CompiledGraph) -> None:
        super().__init__()
        self._compiled = compiled
        self._returns_one = not compiled.returns_sequence

    def forward(self, *arguments: Any) -> Any:
        results = self._compiled(*arguments)
        return results[0] if self._returns_one else tuple(results)
