"""What the stages of the compiler work on."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from forge import external
from forge.backends.compiled import CompiledModel
from forge.driver.artifact import Draft
from forge.errors import CompileError
from forge.external import LinkedCode
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.retype import check_param, sizes_of_params, substitute_in_graph
from forge.ir.saved import hashing
from forge.lowering.memory import MemoryPlan
from forge.lowering.program import GroupedGraph, LoweredLibrary, LoweredProgram, Lowering
from forge.ops.control.external import external_functions, missing
from forge.options import CompileOptions
from forge.progress import Progress


@dataclass
class FunctionStages:
    """What the stages make of one function: each changes the graph, or adds to the rest.

    Attributes:
        graph: a copy of the function, in which ``params`` are constants, and symbols in their shapes are numbers.
    """

    name: str
    graph: Graph
    grouped: GroupedGraph = field(init=False)
    plan: MemoryPlan = field(init=False)
    lowered: LoweredProgram = field(init=False)


@dataclass
class Compilation:
    """What stages work on.

    Attributes:
        module: the user's; not changed.
        name: what messages call ``main``; other functions have their own names there.
        draft: the artifact in the making; None: nothing is linked.
        profile: the code notes when each of its kernels ended, in one more output.
        quick: LLVM optimizes as little as it can.
        progress: called with phase, number done, number in all.
        llvm: names and LLVM IR of the kernels and, at the end, of the entries.
        seconds: by phase.
    """

    module: Module
    options: CompileOptions
    name: str = "main"
    draft: Draft | None = None
    profile: bool = False
    quick: bool = False
    progress: Progress = lambda phase, done, total: None
    lowering: Lowering = field(init=False)
    lowered: LoweredLibrary = field(init=False)
    llvm: list[tuple[str, str]] = field(init=False)
    compiled: CompiledModel = field(init=False)
    artifact: Path = field(init=False)
    seconds: dict[str, float] = field(default_factory=dict)

    @functools.cached_property
    def identity(self) -> hashing.Identity:
        """The module's; all of its weights are read."""
        return hashing.identify(self.module)

    @functools.cached_property
    def external(self) -> LinkedCode:
        """The user's functions that the module calls.

        Raises:
            CompileError: no code has a function, or several have; or what has it is not object code for the target.
        """
        called = dict.fromkeys(name for graph in self.module.graphs.values() for name in external_functions(graph))
        if not called:
            return LinkedCode()
        codes = self.module.external_modules or external.in_use()
        names = list(external.names_of(codes))
        for name in called:
            if names.count(name) != 1:
                problem = f"call_extern: {names.count(name)} external modules have the function {name!r}; expected one"
                raise CompileError(problem if name in names else missing(name))
        needed = [code for code in codes if not called.keys().isdisjoint(code.names)]
        objects = tuple(code.object_code(self.options.target) for code in needed)
        return LinkedCode(objects, tuple(called), tuple(option for code in needed for option in code.link_options))

    @functools.cached_property
    def functions(self) -> list[FunctionStages]:
        """The public functions of the module, ``main`` first.

        Raises:
            InvalidGraphError: ``params`` names no input, or its arrays do not fit.
        """
        return [FunctionStages(name, bound(graph)) for name, graph in self.module.public.items()]

    @property
    def graph(self) -> Graph:
        """Of the first function."""
        return self.functions[0].graph


def bound(function: Graph) -> Graph:
    """A copy of ``function``, in which ``params`` are constants, and symbols in their shapes are numbers.

    Raises:
        InvalidGraphError: ``params`` names no input, or its arrays do not fit.
    """
    graph = function.copy()
    bind_params(graph)
    return graph


def bind_params(graph: Graph) -> None:
    """Makes ``params`` constants, in place. Raises InvalidGraphError as `bound`."""
    inputs = {v.name: v for v in graph.inputs}
    first = graph.nodes[0] if graph.nodes else None
    for name, array in graph.params.items():
        check_param(graph, name, array)
    sizes = sizes_of_params(graph)
    if sizes:
        substitute_in_graph(graph, sizes)
    for name, array in graph.params.items():
        value = inputs[name]
        graph.replace_uses(value, Builder(graph, before=first).constant(array, name=name))
        graph.inputs.remove(value)
    graph.params = {}


def of_graphs(graphs: Mapping[str, Graph], options: CompileOptions) -> Compilation:
    """A compilation of copies of ``graphs``, by name, for stages that are run one by one; ``params`` become constants."""
    compilation = Compilation(Module(), options)
    compilation.functions = [FunctionStages(name, bound(graph)) for name, graph in graphs.items()]
    return compilation
