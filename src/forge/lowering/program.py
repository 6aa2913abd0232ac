"""From a graph to a program: kernels, each once, and the entry that calls them in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from forge import dims, te
from forge.tir.program import Program, TensorSpec
from forge.dims import DimExpr
from forge.errors import CompileError
from forge.ir.nodes import Graph, Node, Value
from forge.ir.types import TensorType
from forge.lowering.build import build_function, group_symbols
from forge.lowering.groups import Group, form_groups, is_scalar_constant
from forge.lowering.memory import MemoryPlan, materialise_outputs, plan_memory
from forge.target import Target
from forge.tir.stmt import Address, CallKernel, Function, Stmt, seq

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class LoweredProgram:
    """``groups[i]`` runs as ``steps[i]``, the name of a function of ``program``."""

    program: Program
    weights: tuple[tuple[int, np.ndarray], ...]
    groups: tuple[Group, ...]
    steps: tuple[str, ...]
    plan: MemoryPlan


def lower_graph(graph: Graph, name: str, target: Target, fuse: bool = True, progress: Progress | None = None) -> LoweredProgram:
    """Lowers ``graph``, which is changed where outputs need copies.

    Raises:
        CompileError: an operator or type has no native code; the message names the node.
    """
    _check_inputs(graph)
    names = graph.output_names
    materialise_outputs(graph)
    groups = form_groups(graph, fuse)
    plan = plan_memory(graph, groups)
    functions: dict[str, Function] = {}
    steps: list[str] = []
    calls: list[Stmt] = []
    for step, group in enumerate(groups):
        if progress is not None:
            progress("lower", step, len(groups))
        function = _function(group, functions, target, plan)
        steps.append(function.name)
        calls.append(_call(group, function, plan))
    symbols = _input_symbols(graph)
    _check_symbols(groups, symbols)
    program = Program(
        name=name,
        functions=tuple(functions.values()),
        entry=seq(calls),
        arena_size=te.dim(plan.arena_size),
        symbols=tuple(te.symbol_var(s) for s in symbols),
        inputs=tuple(_spec(v, v.name) for v in graph.inputs),
        outputs=tuple(map(_spec, graph.outputs, names)),
        weights_size=plan.weights_size,
        cpu_features=target.features,
    )
    return LoweredProgram(program, tuple(plan.weights), tuple(groups), tuple(steps), plan)


def _check_inputs(graph: Graph) -> None:
    for value in [*graph.inputs, *graph.outputs]:
        if not isinstance(value.type, TensorType) or value.type.dtype == "string":
            raise CompileError(f"compile: value %{value.name}: got {value.type}; expected a tensor of numbers")


def _function(group: Group, functions: dict[str, Function], target: Target, plan: MemoryPlan) -> Function:
    key = signature(group, plan)
    if key not in functions:
        functions[key] = build_function(group, f"k{len(functions)}_{_slug(group)}", target, plan.alignment)
    return functions[key]


def _slug(group: Group) -> str:
    names = "_".join(n.op.removeprefix("nn.") for n in [group.anchor, *group.epilogue])
    return re.sub(r"[^A-Za-z0-9_]", "_", names)[:48]


def signature(group: Group, plan: MemoryPlan) -> str:
    """Text that is equal for groups whose kernels are the same code."""
    numbers: dict[Value, str] = {v: f"e{k}:{v.type}:{plan.alignment(v)}" for k, v in enumerate(group.external_operands())}
    parts = []
    for number, node in enumerate(group.nodes):
        operands = [_operand_key(v, numbers) for v in node.operands]
        role = "anchor" if node is group.anchor else ""
        parts.append(f"{node.op}{role}({', '.join(operands)}){node.attrs!r}")
        for value in node.results:
            numbers[value] = f"n{number}.{value.index}:{value.type}"
    parts.extend(f"out{plan.alignment(v)}" for v in group.sink.results)
    return "; ".join(parts)


def _operand_key(value: Value | None, numbers: dict[Value, str]) -> str:
    if value is None:
        return "-"
    if value not in numbers and is_scalar_constant(value):
        assert value.constant is not None
        return f"{value.type}={value.constant.reshape(()).item()!r}"
    return numbers[value]


def _call(group: Group, function: Function, plan: MemoryPlan) -> Stmt:
    addresses = [_address(v, plan) for v in [*group.external_operands(), *group.sink.results]]
    return CallKernel(function.name, tuple(addresses), tuple(te.symbol_var(s) for s in group_symbols(group)))


def _address(value: Value, plan: MemoryPlan) -> Address:
    location = plan.location(value)
    return Address((location.base, location.index), te.dim(location.offset))


def _spec(value: Value, name: str) -> TensorSpec:
    return TensorSpec(name, value.dtype, te.shape_of(value.shape))


def _input_symbols(graph: Graph) -> list[str]:
    """Symbols that stand alone as an input's dimension (they are bound there), in order.

    Raises:
        CompileError: an input's dimension uses a symbol that no input binds.
    """
    bound: dict[str, None] = {}
    used: dict[str, Value] = {}
    for value in graph.inputs:
        for d in value.shape:
            if isinstance(d, DimExpr) and dims.symbols(d) == [str(d)]:
                bound[str(d)] = None
            for s in dims.symbols(d):
                used.setdefault(s, value)
    for s, value in used.items():
        if s not in bound:
            raise CompileError(f"compile: input %{value.name}: symbol {s!r} of {value.type} is no plain dimension of any input")
    return list(bound)


def _check_symbols(groups: Sequence[Group], known: Sequence[str]) -> None:
    for group in groups:
        for s in group_symbols(group):
            if s not in known:
                raise CompileError(
                    f"compile: node {_label(group.anchor)}: the size {s!r} is known only after earlier operators have run; "
                    "data-dependent sizes have no native code yet; run it with target='reference'"
                )


def _label(node: Node) -> str:
    return f"{node.name or '%' + node.results[0].name} ({node.op})"
