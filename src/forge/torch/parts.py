"""A graph of ATen operators as native code, cut at what runs eagerly: random numbers, and what a fallback is allowed for.

Random numbers are drawn by PyTorch's own generator, so that ``torch.manual_seed`` means the same for compiled models.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.split_module import split_module

from forge import errors
from forge.errors import ForgeError, OpAttributeUnimplemented, OpNotImplemented
from forge.frontends.support import MISSING
from forge.frontends.torch.captured import Given, captured_program
from forge.frontends.torch.exported import source_line, target_name
from forge.frontends.torch.steps import used_operators
from forge.torch.compiled import Call, CompiledGraph, Settings


def compile_graph(module: GraphModule, given: Sequence[Given], settings: Settings) -> Call:
    """Native code of a graph.

    Raises:
        OpNotImplemented: operators have no native code, all listed; CompileError.
    """
    return _Parts(module, given, settings).compiled([])


def compile_with_fallback(module: GraphModule, given: Sequence[Given], settings: Settings) -> Call | None:
    """Native code where there is any; a warning lists the operators that run eagerly.

    Returns:
        None: nothing can be compiled; the warning says why.
    """
    parts = _Parts(module, given, settings)
    refused = _missing(module, given, settings.where)
    while True:
        nodes = [node for node in module.graph.nodes if node.op == "call_function" and target_name(node.target) in refused]
        try:
            found = parts.compiled(nodes)
        except ForgeError as error:
            operator = error.operator if isinstance(error, OpAttributeUnimplemented) else ""
            if not operator or operator in refused:
                errors.warn(f"all of a graph runs eagerly: {error}")
                return None
            refused = {*refused, operator}
        else:
            if nodes:
                errors.warn(f"{settings.where}: {len(nodes)} operators run eagerly: {_listing(nodes)}")
            return found


def _missing(module: GraphModule, given: Sequence[Given], where: str) -> set[str]:
    """Names of the operators without a converter."""
    try:
        program = captured_program(module, given, [], where).program
    except OpNotImplemented:
        return set()
    return {f"{use.domain or 'aten'}.{use.op}" for use in used_operators(program) if use.how == MISSING}


def _listing(nodes: Sequence[Node]) -> str:
    lines = []
    for node in nodes:
        source = source_line(node.meta.get("stack_trace") or "")
        lines.append(f"{target_name(node.target)} (node {node.name!r}{', ' + source if source else ''})")
    return "; ".join(lines)


_INACTIVE = {"train": False, "training": False, "dropout_p": 0, "dropout": 0, "p": 0}
"""Arguments with which operators that may draw random numbers draw none."""


def draws(node: Node) -> bool:
    """Whether a node draws random numbers."""
    if not isinstance(node.target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in node.target.tags:
        return False
    names = [argument.name for argument in node.target._schema.arguments]
    defaults = {a.name: a.default_value for a in node.target._schema.arguments if a.has_default_value()}
    given = {**defaults, **dict(zip(names, node.args)), **node.kwargs}
    return not any(name in given and given[name] == value for name, value in _INACTIVE.items())


@dataclass(frozen=True)
class _Parts:
    module: GraphModule
    given: Sequence[Given]
    settings: Settings

    def compiled(self, refused: Collection[Node]) -> Call:
        """Native code, but for nodes that are ``refused`` and those that draw random numbers.

        Raises:
            OpNotImplemented, CompileError.
        """
        eager = {*refused, *filter(draws, self.module.graph.nodes)}
        if not eager:
            return CompiledGraph(self.module, self.given, self.settings)
        numbers = self._numbers(eager)
        cut = split_module(self.module, self.module, numbers.__getitem__, keep_original_order=True)
        known = dict(zip((node.name for node in self.module.graph.nodes if node.op == "placeholder"), self.given))
        eager_parts = {f"submod_{numbers[node]}" for node in eager}
        for name in {str(node.target) for node in cut.graph.nodes if node.op == "call_module"} - eager_parts:
            part = cut.get_submodule(name)
            assert isinstance(part, GraphModule)
            inputs = [known.get(n.name, Given(n.name)) for n in part.graph.nodes if n.op == "placeholder"]
            setattr(cut, name, _Part(CompiledGraph(part, inputs, self.settings)))
        cut.recompile()

        def call(*arguments: Any) -> Any:
            with torch.no_grad(), torch.autocast("cpu", enabled=False):  # casts are operators of the graph
                return cut(*arguments)

        return call

    def _numbers(self, eager: Collection[Node]) -> dict[Node, int]:
        """The part of each node, in order; eager ones are in parts of their own."""
        found: dict[Node, int] = {}
        number, was_eager = 0, False
        for node in self.module.graph.nodes:
            is_eager = node in eager
            if node.op == "call_function" and is_eager != was_eager:
                number, was_eager = number + 1, is_eager
            found[node] = number
        return found


class _Part(torch.nn.Module):  # type: ignore[misc]
    """Native code in the place of a part of a graph."""

    def __init__(self, compiled: CompiledGraph) -> None:
        super().__init__()
        self._compiled = compiled

    def forward(self, *arguments: Any) -> Any:
        results = self._compiled(*arguments)
        return tuple(results) if self._compiled.returns_sequence else results[0]
