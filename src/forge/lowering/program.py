"""From a graph to a program: kernels, each once, and the entry that calls them in order."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from forge import dims, dtypes, te
from forge.dims import Dim
from forge.errors import CompileError
from forge.ir.functions.typical import typical_sizes
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.types import TensorType
from forge.lowering.arena import Arena
from forge.lowering.build import build_function
from forge.lowering.control import ControlStep, control_of, find_control, find_unranked_copies, legalize, run_control
from forge.lowering.groups import Group, form_groups
from forge.lowering.late import Definition, build_definition, find_definitions, size_of
from forge.lowering.memory import (
    ALIGNMENT,
    WEIGHT_ALIGNMENT,
    MemoryPlan,
    Step,
    WeightTable,
    materialize_outputs,
    plan_memory,
    readable_extents,
)
from forge.lowering.objects import check_types, copy_handle, fresh_symbols, is_handle_copy, object_spec, tensor_symbols
from forge.lowering.sharing import kept_for_updates, share_memory
from forge.lowering.signatures import Signature, sign_groups
from forge.lowering.states import StateTable
from forge.ops.core.strings import unpack_string_constants
from forge.progress import Progress
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Expr, Var
from forge.tir.library import Control, Library, Program, TensorSpec
from forge.tir.stmt import Address, AllocateMemory, AllocateOutput, CallKernel, FreeMemory, Function, Let, LoadSymbol, Stmt, seq

LARGEST_ARENA = float(1 << 62)
"""Bytes: what is below cannot have overflown."""


@dataclass(eq=False)
class HandleCopy:
    """A node that copies a sequence or an optional."""

    node: Node


Item = Group | Definition | ControlStep | HandleCopy


@dataclass(frozen=True, eq=False)
class GroupedGraph:
    """A graph as what its entry runs.

    Attributes:
        items: in order: groups, definitions of sizes, control flow.
        symbols: those that inputs bind.
        late: those that are known only during the run.
        names: of the outputs.
        followed: values in whose memory results lie, by those: see `sharing`.
        signatures: of the groups.
        typical: sizes for which kernels and the arena are planned.
    """

    graph: Graph
    groups: tuple[Group, ...]
    items: tuple[Item, ...]
    symbols: tuple[str, ...]
    late: tuple[str, ...]
    names: tuple[str, ...]
    followed: Mapping[Value, Value]
    signatures: Mapping[Group, Signature]
    typical: Mapping[str, int]


@dataclass(frozen=True)
class LoweredProgram:
    """``groups[i]`` runs as ``steps[i]``, the name of a function of ``program``.

    ``items`` is what the outermost entry runs, in order: groups, definitions of sizes, control flow.
    """

    program: Program
    groups: tuple[Group, ...]
    steps: tuple[str, ...]
    plan: MemoryPlan
    items: tuple[Item, ...] = ()


@dataclass(frozen=True)
class LoweredLibrary:
    """Functions over shared kernels and weights.

    Attributes:
        functions: of ``library.programs``, in their order.
        weights: byte offsets and contiguous arrays.
    """

    library: Library
    functions: tuple[LoweredProgram, ...]
    weights: tuple[tuple[int, np.ndarray], ...]


def lower_graph(graph: Graph, name: str, target: Target, fuse: bool = True, progress: Progress | None = None) -> LoweredProgram:
    """Lowers ``graph``, which is changed where outputs need copies.

    Raises:
        CompileError: an operator or type has no native code; the message names the node.
    """
    lowering = Lowering(target, fuse)
    grouped = lowering.group(graph)
    return lowering.lower(grouped, lowering.plan(grouped), name, progress)


class Lowering:
    """The state that functions and the programs of their regions share: kernels, weights and states."""

    def __init__(self, target: Target, fuse: bool, typical: Mapping[str, int] = MappingProxyType({})) -> None:
        self.target = target
        self.fuse = fuse
        self.typical = typical
        self.functions: dict[str, Function] = {}
        self.table = WeightTable()
        self.states = StateTable(self.table)

    def group(self, graph: Graph) -> GroupedGraph:
        """Returns ``graph`` in groups; it is changed where outputs need copies.

        Raises:
            CompileError: a type has no native code.
        """
        check_types([*graph.inputs, *[v for node in graph.nodes for v in node.results]])
        names = graph.output_names
        legalize(graph)
        unpack_string_constants(graph)
        symbols = _input_symbols(graph)
        fresh = fresh_symbols(graph, symbols)
        definitions = find_definitions(fresh)
        controls = find_control(fresh, symbols)
        late = [s for introduced in fresh.values() for s in introduced]
        materialize_outputs(graph, late)
        groups = form_groups(graph, self.fuse, [*kept_for_updates(graph), *(v for d in definitions for v in d.values)])
        copies = [HandleCopy(n) for n in graph.nodes if is_handle_copy(n)]
        controls += find_unranked_copies(graph, controls)
        items, followed = share_memory(graph, _in_order(graph, groups, definitions, [*controls, *copies], fresh), _step, late)
        groups = [item for item in items if isinstance(item, Group)]
        typical = typical_sizes(graph, self.typical)
        signatures = sign_groups(graph, groups, self.target, typical)
        return GroupedGraph(
            graph, tuple(groups), tuple(items), tuple(symbols), tuple(late), tuple(names), followed, signatures, typical)

    def plan(self, grouped: GroupedGraph) -> MemoryPlan:
        """Places values, and decides when memory is taken and given back."""
        steps = [_step(item) for item in grouped.items]
        return plan_memory(grouped.graph, steps, grouped.late, self.table, grouped.followed, grouped.typical)

    def lower(
        self, grouped: GroupedGraph, plan: MemoryPlan, name: str, progress: Progress | None = None, function: str = "main"
    ) -> LoweredProgram:
        """Returns the program of the function that users call ``function`` and messages ``name``.

        Raises:
            CompileError: an operator has no native code; the message names the node.
        """
        lowered = self._assemble(grouped, plan, name, progress)
        bindings = self.states.bind(grouped.graph, plan)
        program = dataclasses.replace(
            lowered.program, functions=tuple(self.functions.values()), weights_size=self.table.size,
            function=function, bindings=bindings)
        return dataclasses.replace(lowered, program=program)

    def library(self, functions: Sequence[LoweredProgram]) -> LoweredLibrary:
        """Returns all that was lowered."""
        programs = tuple(lowered.program for lowered in functions)
        library = Library(programs, tuple(self.states.specs.values()), weights_size=self.table.size)
        return LoweredLibrary(library, tuple(functions), tuple(self.table.entries))

    def lower_region(self, region: Graph, name: str) -> Program:
        """Returns the program of a region, without functions and weights: they are in that of the whole graph."""
        grouped = self.group(region)
        return self._assemble(grouped, self.plan(grouped), name).program

    def _assemble(self, grouped: GroupedGraph, plan: MemoryPlan, name: str, progress: Progress | None = None) -> LoweredProgram:
        assembler = _Assembler(grouped, plan, self, name)
        for number, item in enumerate(grouped.items):
            assembler.add(number, item)
            if progress is not None:
                progress("lower", number + 1, len(grouped.items))
        program = _program(grouped, assembler)
        return LoweredProgram(program, grouped.groups, tuple(assembler.steps), plan, grouped.items)


def _program(grouped: GroupedGraph, assembler: _Assembler) -> Program:
    graph, late, plan = grouped.graph, grouped.late, assembler.plan
    outputs, extra = _output_specs(graph, grouped.names, late)
    return Program(
        name=assembler.name,
        functions=(),
        entry=seq([*assembler.arena.bindings, *assembler.entry]),
        arena_size=_arena_size(plan, assembler.arena),
        arena_bindings=tuple(assembler.arena.bindings),
        symbols=tuple(te.symbol_var(s) for s in [*grouped.symbols, *late, *extra]),
        inputs=tuple(_spec(v, v.name) for v in graph.inputs),
        outputs=outputs,
        weights_size=0,
        cpu_features=assembler.lowering.target.machine_features,
        controls=tuple(assembler.controls),
        donated=_donated(graph),
    )


def _donated(graph: Graph) -> tuple[int | None, ...]:
    """For each output, the input whose memory it takes; empty where none does."""
    names = {number: name for name, number in graph.donated.items()}
    inputs = {value.name: number for number, value in enumerate(graph.inputs)}
    return tuple(inputs[names[k]] if k in names else None for k in range(len(graph.outputs))) if names else ()


class _ArenaLayout:
    """The offsets of the arena's parts, where they depend on symbols as variables that ``bindings`` compute."""

    def __init__(self, arena: Arena) -> None:
        self.bindings: list[Let] = []
        self._numbers: dict[Dim, Expr] = {}
        self.offsets, self.size = arena.layout(self._number, self._largest)

    def _number(self, size: Dim) -> Expr:
        if size not in self._numbers:
            self._numbers[size] = self._bound(te.dim(size))
        return self._numbers[size]

    def _largest(self, numbers: Sequence[Expr]) -> Expr:
        return self._bound(functools.reduce(lambda a, b: E.binary("max", a, b), numbers)) if numbers else E.const(0)

    def _bound(self, x: Expr) -> Expr:
        if isinstance(x, E.Const | Var):
            return x
        self.bindings.append(Let(E.var(f"arena{len(self.bindings)}"), x))
        return self.bindings[-1].var


def _arena_size(plan: MemoryPlan, layout: _ArenaLayout) -> Expr:
    """Bytes of the arena: its blocks, and after them what kernels may read of an empty tensor; -1 where they may be too many."""
    parts = len(plan.arena.parts)
    slack: Expr = E.const(0)
    largest: Expr = E.const(0.0, "float64")
    for type_ in plan.maybe_empty:
        readable: Expr = E.const(dtypes.itemsize(type_.dtype))
        estimate: Expr = E.const(float(dtypes.itemsize(type_.dtype)), "float64")
        for extent in readable_extents(type_.shape):
            at_least_1 = E.binary("max", te.dim(extent), 1)
            readable, estimate = readable * at_least_1, estimate * E.cast(at_least_1, "float64")
        size = te.dim(dims.product(type_.shape) * dtypes.itemsize(type_.dtype))
        slack, largest = E.binary("max", slack, readable - size), E.binary("max", largest, estimate)
    total = layout.size + (ALIGNMENT if parts else 0) + slack
    return E.select(largest * parts < LARGEST_ARENA, total, -1) if plan.maybe_empty else total


def _in_order(
    graph: Graph, groups: Sequence[Group], definitions: Sequence[Definition], others: Sequence[ControlStep | HandleCopy],
    fresh: Mapping[Node, tuple[str, ...]],
) -> list[Item]:
    """Groups at the place of their last node, others just before their node.

    What only checks sizes comes as soon as these are known: before anything is written to a memory that would be too small.
    """
    position = {node: k for k, node in enumerate(graph.nodes)}
    known = {symbol: position[node] for node, symbols in fresh.items() for symbol in symbols}
    keyed: list[tuple[int, int, Item]] = [
        (max((known[s] for s in d.read_symbols if s in known), default=-1), 1, d) for d in definitions if not d.symbols]
    keyed += [(position[g.sink], 1, g) for g in groups]
    keyed += [(position[d.node], 0, d) for d in [*(d for d in definitions if d.symbols), *others]]
    return [item for _, _, item in sorted(keyed, key=lambda k: k[:2])]


def _step(item: Item) -> Step:
    if isinstance(item, ControlStep):
        return Step(tuple(item.operands), tuple(item.node.results))
    if isinstance(item, HandleCopy):
        return Step(tuple(v for v in item.node.operands if v is not None), tuple(item.node.results))
    if isinstance(item, Definition):
        return Step(item.values, (item.slot,))
    return Step(tuple(item.external_operands()), tuple(item.sink.results))


class _Assembler:
    """Builds the kernels and the entry, step by step."""

    def __init__(self, grouped: GroupedGraph, plan: MemoryPlan, lowering: Lowering, name: str) -> None:
        self.grouped = grouped
        self.plan = plan
        self.lowering = lowering
        self.name = name
        self.functions = lowering.functions
        self.controls: list[Control] = []
        self.steps: list[str] = []
        self.entry: list[Stmt] = []
        self.arena = _ArenaLayout(plan.arena)

    def add(self, number: int, item: Item) -> None:
        if isinstance(item, Definition):
            self._define(item)
        elif isinstance(item, ControlStep):
            self._run_control(item)
        elif isinstance(item, HandleCopy):
            self._copy_handle(item.node)
        else:
            self._allocate(item.sink.results)
            function, symbols = self._function(item)
            self.steps.append(function.name)
            self._call(function, self.grouped.signatures[item].parameters(item), symbols)
        self.entry.extend(FreeMemory(k) for k, (_, last) in enumerate(self.plan.dynamic) if last == number)

    def _define(self, definition: Definition) -> None:
        function, scalars = build_definition(definition, f"d{len(self.functions)}_sizes")
        self.functions[function.name] = function
        self._call(function, [*definition.values, definition.slot], tuple(scalars))
        base = self._address(definition.slot)
        for k, symbol in enumerate(definition.symbols):
            self.entry.append(LoadSymbol(te.symbol_var(symbol), Address(base.base, base.offset + 8 * k)))

    def _copy_handle(self, node: Node) -> None:
        function = self.functions.setdefault("copy_handle", copy_handle())
        self._call(function, [v for v in (*node.operands, *node.results) if v is not None])

    def _run_control(self, step: ControlStep) -> None:
        labels = step.node.op_def.regions
        regions = [
            self.lowering.lower_region(region, f"{self.name}.{step.name}.{label}")
            for label, region in zip(labels, step.node.regions, strict=True)
        ]
        if step.node.op_def.destination_passing:
            self._allocate(step.node.results)
        self.entry.extend(run_control(step, len(self.controls), self.plan, self._address))
        self.controls.append(control_of(step, regions))

    def _allocate(self, results: Sequence[Value]) -> None:
        """Memory for those whose size is known only now."""
        for value in results:
            location = self.plan.location(value)
            if location.base == "dynamic":
                self.entry.append(AllocateMemory(location.index, size_of(value)))
            elif location.base == "output":
                output = self.grouped.graph.outputs[location.index]
                if not set(self.grouped.late).isdisjoint(tensor_symbols(output.type)):
                    self.entry.append(AllocateOutput(location.index, te.shape_of(output.shape), size_of(output)))

    def _function(self, group: Group) -> tuple[Function, tuple[Expr, ...]]:
        """The kernel of a group, and what it gets for its symbols."""
        signature = self.grouped.signatures[group]
        alignments = tuple(map(self._alignment, signature.parameters(group)))
        key = signature.key(group, alignments)
        if key not in self.functions:
            built = group if signature.template is None else signature.template.group
            own = self.grouped.signatures[built]
            aligned = {v: n for v, n in zip(own.parameters(built), alignments, strict=True) if isinstance(v, Value)}
            name, typical = f"k{len(self.functions)}_{_slug(built)}", self.grouped.typical
            self.functions[key] = build_function(built, name, self.lowering.target, aligned, own.sizes, typical)
        return self.functions[key], tuple(map(te.dim, signature.sizes.values))

    def _call(self, function: Function, values: Sequence[Value | np.ndarray], scalars: tuple[Expr, ...] = ()) -> None:
        self.entry.append(CallKernel(function.name, tuple(map(self._address, values)), scalars))

    def _alignment(self, value: Value | np.ndarray) -> int:
        return WEIGHT_ALIGNMENT if isinstance(value, np.ndarray) else self.plan.alignment(value)

    def _address(self, value: Value | np.ndarray) -> Address:
        if isinstance(value, np.ndarray):
            return Address(("weights", 0), E.const(self.lowering.table.place([value])))
        location = self.plan.location(value)
        if location.base == "arena":
            return Address(("arena", 0), self.arena.offsets[location.index])
        return Address((location.base, location.index), E.const(location.offset))


def _slug(group: Group) -> str:
    names = "_".join(n.op.removeprefix("nn.") for n in [group.anchor, *group.epilogue])
    return re.sub(r"[^A-Za-z0-9_]", "_", names)[:48]


def _spec(value: Value, name: str, shape: Sequence[Dim] | None = None) -> TensorSpec:
    if not isinstance(value.type, TensorType):
        return object_spec(value.type, name)
    return TensorSpec(name, value.dtype, te.shape_of(value.shape if shape is None else shape))


def _output_specs(graph: Graph, names: Sequence[str], late: Sequence[str]) -> tuple[tuple[TensorSpec, ...], list[str]]:
    """Specs of the outputs; an extent that depends on late symbols is given as a symbol of its own, which no input binds."""
    extra: list[str] = []

    def told(number: int, axis: int, extent: Dim) -> Dim:
        names = dims.symbols(extent)
        if set(late).isdisjoint(names) or dims.symbol_name(extent) is not None:
            return extent
        extra.append(f"output_{number}_dim_{axis}_of_{len(late)}")
        return dims.symbol(extra[-1])

    specs = []
    for number, (value, name) in enumerate(zip(graph.outputs, names)):
        extents = value.shape if isinstance(value.type, TensorType) else ()
        specs.append(_spec(value, name, [told(number, axis, extent) for axis, extent in enumerate(extents)]))
    return tuple(specs), extra


def _input_symbols(graph: Graph) -> list[str]:
    """Symbols that stand alone as an input's dimension (they are bound there), in order.

    Raises:
        CompileError: an input's dimension uses a symbol that no input binds.
    """
    bound: dict[str, None] = {}
    used: dict[str, Value] = {}
    for value in (v for v in graph.inputs if isinstance(v.type, TensorType)):
        for d in value.shape:
            name = dims.symbol_name(d)
            if name is not None:
                bound[name] = None
            for s in dims.symbols(d):
                used.setdefault(s, value)
    for s, value in used.items():
        if s not in bound:
            raise CompileError(f"compile: input %{value.name}: symbol {s!r} of {value.type} is not a dimension of any input")
    return list(bound)
