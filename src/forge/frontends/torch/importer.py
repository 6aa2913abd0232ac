"""From a program to a module of the graph IR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from forge import dims, dtypes, ops  # noqa: F401
from forge.dims import Dim, DimExpr
from forge.errors import ImportModelError, OpAttributeUnimplemented, OpNotImplemented
from forge.frontends.convert import located
from forge.frontends.converter import Converter
from forge.frontends.registry import as_list
from forge.frontends.scope import name_nodes
from forge.frontends.state.cells import Cell
from forge.frontends.state.strides import overlaps, same_layout, shares
from forge.frontends.state.writes import Memories, assign, module_of
from forge.frontends.support import check_supported
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.core.strided import put_back_where_changed, shared
from forge.frontends.torch.converters.core.views import (
    ALIASES,
    HIDDEN_VIEWS,
    MAYBE_VIEWS,
    OVERLAPPING,
    READ_ONLY_VIEWS,
    REBINDS,
    SAME_OR_COPY,
    SHARING,
    STRIDED,
    VIEWS,
    WRITES,
    put_back,
)
from forge.frontends.torch.corrections import advice, corrected
from forge.frontends.torch.inputs import add_inputs, keep_checks
from forge.frontends.torch.overloads import functional, without_out
from forge.frontends.torch.program import Program, Ref, ScalarMeta, Step, TensorMeta, Weight, label_weights, refs
from forge.frontends.torch.registry import REGISTRY, key
from forge.frontends.torch.scope import TorchScope, TorchState
from forge.frontends.torch.steps import destinations, is_number, lookup, needed_steps, used_operators
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Node, Value
from forge.ir.types import TensorType


def import_program(program: Program, keep_params_as_input: bool = False) -> Module:
    """The module of a program.

    Args:
        keep_params_as_input: parameters are inputs after the program's own, with their values in ``Module.params``.

    Raises:
        OpNotImplemented: operators have no converter, all listed; ImportModelError: the program is invalid.
    """
    with located(program.where):
        check_supported(used_operators(program), REGISTRY)
        state = TorchState(size=len(program.steps), freeze_params=not keep_params_as_input, convert_steps=convert_steps)
        scope = TorchScope(Graph(name="main"), state, {})
        written = written_tensors(program)
        _check_memory(program, written)
        add_inputs(scope, program)
        label_weights(program)
        for name, weight in program.weights.items():
            scope.lazy[name] = partial(_weight, scope, weight, name in written)
        convert_steps(scope, program.steps, program)
        keep_checks(scope, program)
        return _finished(scope, program, written)


def convert_steps(scope: TorchScope, steps: Sequence[Step], program: Program) -> None:
    """Converts steps in order into the scope's graph.

    Raises:
        ForgeError: one cannot be converted; the message names node, operator and the line of Python.
    """
    program = corrected(program)
    for step in needed_steps(steps, program):
        try:
            with located(_Place(step)):
                scope.state.count_node()
                convert_step(scope, step, program)
        except OpAttributeUnimplemented as error:
            error.operator = error.operator or step.target
            raise


def convert_step(scope: TorchScope, step: Step, program: Program) -> None:
    metas = [program.metas.get(name) for name in step.outputs]
    if is_number(step, program):
        for name, meta in zip(step.outputs, metas):
            assert isinstance(meta, ScalarMeta) and meta.size is not None
            scope.numbers[name] = scope.resolved(meta.size)
        return
    row = lookup(step.target)
    if row is None:
        raise OpNotImplemented(f"operator {step.target} has no converter")
    g, start = Context(scope, step, [scope.meta(meta) for meta in metas], program), len(scope.graph.nodes)
    written = destinations(step)
    is_out = written and not step.mutates and without_out(key(step.target)[1])
    given = dict(list(step.arguments.items())[: -len(written)]) if is_out else step.arguments
    results = as_list(run_converter(g, row, {name: _resolved(g, value) for name, value in given.items()}))
    if len(results) < len([name for name in step.outputs if name]):
        raise ImportModelError(f"its converter gave {len(results)} results; expected {len(step.outputs)}")
    if step.mutates:
        count = len(step.outputs)
        if len(results) != count + len(written):
            raise ImportModelError(
                f"its converter gave {len(results)} results; expected {count}, and then new values of the tensors that it "
                f"writes: {', '.join(step.mutates)}")
        for name, result in zip(written, results[count:]):
            _write(scope, g, name, result, None)
    elif written:
        for index, (name, result) in enumerate(zip(written, results)):
            _write(scope, g, name, result, index)
        return
    producers: dict[Node, str] = {}
    for index, (name, result) in enumerate(zip(step.outputs, results)):
        if name and result is not None:
            producers.update(_define(scope, g, step, index, name, result, program))
    name_nodes(scope.graph.nodes.before(None, len(scope.graph.nodes) - start), producers, g.name)


def run_converter(g: Context, row: Converter, arguments: Mapping[str, Any]) -> Any:
    """Calls a converter with a step's arguments: tensors by the names of its parameters, else in order."""
    operands: list[Any] = [None] * len(row.operands)
    attributes: dict[str, Any] = {}
    free = [k for k, name in enumerate(row.operands) if name not in arguments]
    for name, value in arguments.items():
        if name in row.attributes or name in REGISTRY.ignored:
            attributes[name] = tuple(value) if isinstance(value, list) else value
        elif name in row.operands:
            operands[row.operands.index(name)] = value
        elif free:
            operands[free.pop(0)] = value
        elif row.max_operands is None:
            operands.append(value)
        else:
            attributes[name] = value
    while len(operands) > row.min_operands and operands and operands[-1] is None:
        operands.pop()
    return REGISTRY.convert(row, g, operands, attributes)


def _resolved(g: Context, argument: Any) -> Any:
    """An argument with values of the graph and parts of the program in the place of references."""
    scope = g.scope
    if isinstance(argument, Ref):
        if argument.name in g.program.parts:
            return g.program.parts[argument.name]
        return scope.number(argument.name) if scope.has_number(argument.name) else scope.cell(argument.name).read()
    if isinstance(argument, DimExpr):
        bound = scope.all_symbols()
        if unknown := [name for name in dims.symbols(argument) if name not in bound]:
            raise ImportModelError(f"size {unknown[0]!r} is used but nothing before defines it; the program is invalid")
        return scope.resolved(argument)
    return [_resolved(g, item) for item in argument] if isinstance(argument, list | tuple) else argument


def _define(scope: TorchScope, g: Context, step: Step, index: int, name: str, result: Any, program: Program) -> dict[Node, str]:
    """Binds a result; what makes it, with its name, where it had none."""
    meta = program.metas.get(name)
    if isinstance(meta, ScalarMeta):
        scope.numbers[name] = _number(scope, g, meta, result, program)
        return {}
    if not isinstance(result, Value):
        raise ImportModelError(f"its converter gave {type(result).__name__}; expected a tensor")
    if isinstance(meta, TensorMeta):
        _check_type(meta, result, program)
        scope.bind_symbols(meta.shape, result)
        result = scope.with_sizes(g, result, meta.shape)
    scope.note_sizes(result)
    is_new = result.producer is not None and not result.name
    if is_new:
        result.name = scope.unique(name)
    scope.cells[name] = _cell(scope, g, step, index, result, program)
    return {result.producer: result.name} if is_new and result.producer is not None else {}


def _check_type(meta: TensorMeta, value: Value, program: Program) -> None:
    """A converter that gives another type than torch is wrong."""
    sizes = zip(meta.shape, value.shape) if isinstance(value.type, TensorType) and value.rank == len(meta.shape) else None
    if value.dtype != meta.dtype or sizes is None or any(dims.is_static(a, b) and a != b for a, b in sizes):
        stated = f"{meta.dtype}{[str(d) for d in meta.shape]}"
        raise ImportModelError(f"its converter gave {value.type}; torch says {stated}{advice(program)}")


def _number(scope: TorchScope, g: Context, meta: ScalarMeta, result: Dim | Value, program: Program) -> Dim | Value:
    """A number that is computed from data; where torch takes it for a size, so does the graph."""
    name = None if meta.size is None else dims.symbol_name(meta.size)
    if name is None or name in scope.all_symbols() or not isinstance(result, Value):
        return result
    number = g.cast(result, "int64")
    size = scope.counted(g, number)
    if not any(isinstance(m, TensorMeta) and name in dims.symbols(*m.shape) for m in program.metas.values()):
        size = size - scope.counted(g, g.call("negative", number))  # no size: it may be negative
    scope.symbols[name] = size
    return size


_STRIDES = (
    "it reads a tensor after an in-place operator wrote to another that may share its memory, or not, as strides say; "
    "supported: writes through views that always share it; export the model with run_decompositions()")


def _cell(scope: TorchScope, g: Context, step: Step, index: int, result: Value, program: Program) -> Cell:
    """A tensor with memory of its own, or one that shares it with the first argument."""
    first = next(iter(step.arguments.values()), None)
    if not isinstance(first, Ref) or first.name in program.parts or scope.has_number(first.name):
        return Cell(result)
    base = scope.cell(first.name)
    target = _viewing(step)
    if target in ALIASES:
        return base
    if target in STRIDED:
        at = STRIDED[target](g, {name: _resolved(g, value) for name, value in step.arguments.items()})
        return Cell(result, base, unsure=_STRIDES) if at is None else Cell(result, *shared(g, at), overlaps=at.overlaps)
    old, new = (m if isinstance(m, TensorMeta) else None for m in map(program.metas.get, (first.name, step.outputs[index])))
    if target in SAME_OR_COPY:
        is_same = base.read() is result and not step.arguments.get("copy") and same_layout(old, new) is not False
        return base if is_same else Cell(result)
    if target in MAYBE_VIEWS:
        is_view = MAYBE_VIEWS[target](old, new)
        if is_view is None:
            is_reshaped = MAYBE_VIEWS[target] is shares
            return base if is_reshaped and base.read() is result else Cell(result, base, unsure=_STRIDES)
        if not is_view:
            return Cell(result)
        return Cell(result, base, lambda value: g.reshape(value, result.shape), lambda before, now: g.reshape(now, before.shape))
    if target not in VIEWS and target not in READ_ONLY_VIEWS and target not in OVERLAPPING:
        return Cell(result)
    row = lookup(target)
    assert row is not None
    names = list(step.arguments)
    rest = {name: _resolved(g, step.arguments[name]) for name in names[1:]}

    def remake(value: Value) -> Value:
        return as_list(run_converter(g, row, {names[0]: value, **rest}))[index]  # type: ignore[return-value]

    if target in OVERLAPPING:
        return Cell(result, base, remake, lambda old, new: put_back_where_changed(g, old, new, remake), overlaps=True)
    if target not in VIEWS:
        return Cell(result, base, remake, unsure=_STRIDES)
    return Cell(result, base, remake, lambda old, new: put_back(g, target, old, new, rest, index))


def _viewing(step: Step) -> str:
    """What a step does to its first argument: one that changes which elements a tensor has, in place, makes a view of it."""
    domain, op = key(step.target)
    return f"aten.{functional(op)}" if step.target in REBINDS and step.target not in STRIDED and not domain else step.target


def _write(scope: TorchScope, g: Context, name: str, result: Any, index: int | None) -> None:
    """A result of an operator becomes the value of the tensor called ``name``, and result ``index`` is that tensor."""
    cell = scope.cell(name)
    _check_places(scope, g, name, cell)
    before = cell.read()
    meta = g.metas[index] if index is not None and index < len(g.metas) else None
    if isinstance(meta, TensorMeta) and 0 in before.shape and 0 not in meta.shape:
        # torch gives memory to a tensor without elements that is to hold a result
        cell = Cell(g.cast(g.tensor(result), before.dtype))
    elif isinstance(meta, TensorMeta) and (len(meta.shape) != before.rank or any(map(dims.different, meta.shape, before.shape))):
        raise g.unsupported(
            f"it changes the shape of {name!r}, which holds its result, from {list(map(str, before.shape))} to "
            f"{list(map(str, meta.shape))}; supported: tensors of its shape, and those without elements")
    else:
        assign(g, cell, g.tensor(result))
    for output in g.step.outputs[index : index + 1] if index is not None else ():
        scope.cells[output] = cell


def _check_places(scope: TorchScope, g: Context, name: str, cell: Cell) -> None:
    """Raises OpAttributeUnimplemented: elements that it writes share a place, and may become different."""
    meta = scope.meta(g.program.metas.get(name))
    is_apart = isinstance(meta, TensorMeta) and meta.strides is not None and not overlaps(meta.shape, meta.strides)
    is_one_number = functional(key(g.step.target)[1]) in ("fill.Scalar", "fill.Tensor", "zero.default")
    if cell.may_overlap and not is_apart and not is_one_number:
        raise g.unsupported(
            f"it writes to {name!r}, whose elements may share memory; supported: writes to tensors that do not overlap, and of "
            "one number to all elements; clone it before")


def written_tensors(program: Program) -> set[str]:
    """Names of the inputs and weights whose memory the program writes."""
    memories = Memories()
    memories.write(program.mutations)
    for step in program.steps:
        _follow(memories, step)
    return {name for name in memories.written if name in program.weights or name in program.metas}


def hidden_views(program: Program) -> set[str]:
    """Operators that may have given views without saying so, of memory that the program writes."""
    memories = Memories()
    members: list[tuple[str, set[str]]] = []
    for step in program.steps:
        given = [name for argument in step.arguments.values() for name in refs(argument)]
        if step.target in HIDDEN_VIEWS and (len(given) == 1 or step.target != "aten.einsum.default"):
            members.append((step.target, {step.name, *map(memories.root, given)}))
            memories.share(step.outputs, step.name)
        else:
            _follow(memories, step)
    return {target for target, names in members if names & memories.written}


def _follow(memories: Memories, step: Step) -> None:
    """Notes what a step writes, and in whose memory its results lie."""
    condition, also = WRITES.get(step.target, ("", ()))
    if not condition or step.arguments.get(condition):
        memories.write(name for argument in also for name in refs(step.arguments.get(argument)))
    written = destinations(step)
    memories.write(written)
    if not step.mutates:
        for output, name in zip(step.outputs, written):
            memories.share([output], name)
    first = next(iter(step.arguments.values()), None)
    if isinstance(first, Ref) and (step.target in SHARING or step.target in REBINDS):
        memories.share(step.outputs, first.name)


def _check_memory(program: Program, written: set[str]) -> None:
    """Raises OpAttributeUnimplemented: weights share memory in the model, and the program writes to one of them."""
    used = {name for step in program.steps for argument in step.arguments.values() for name in refs(argument)}
    used.update(name for _, result in program.results for name in refs(result))
    for name in sorted(written & program.weights.keys()):
        array = program.weights[name].read()
        for other in sorted(used & program.weights.keys() - {name}):
            if np.may_share_memory(array, program.weights[other].read()):
                first, second = (program.weights[n].label for n in (name, other))
                raise OpAttributeUnimplemented(
                    f"it writes to {first!r}, which shares memory with {second!r}; supported: buffers with memory of their own; "
                    "register a clone, or one buffer of which the other is a view in forward")


def _weight(scope: TorchScope, weight: Weight, is_written: bool) -> Value:
    array = weight.read()
    label = weight.label
    if is_written:
        return scope.variable(label, array)
    if weight.is_parameter and not scope.state.freeze_params:
        value = scope.graph.add_input(TensorType(array.shape, dtypes.canonical(array.dtype)), label)
        scope.state.params[label] = array
        scope.parameters[label] = value
        scope.weights[label] = weight.read
        return value
    return Builder(scope.graph).constant(array, name=scope.unique(label))


def _finished(scope: TorchScope, program: Program, written: set[str]) -> Module:
    results = [(label, _result(scope, program, result)) for label, result in program.results if _is_kept(result)]
    after: list[tuple[str, Value]] = []
    for name, label in [*((i.name, i.label) for i in program.inputs), *((n, w.label) for n, w in program.weights.items())]:
        if name in written and (name in scope.cells or name in program.mutations):
            after.append((label, scope.cell(program.mutations.get(name, name)).read()))
            scope.cell(name)
    return module_of(scope, results, after)


def _is_kept(result: Any) -> bool:
    """Whether a result is a tensor or a number; others, such as None, are none of a module."""
    return isinstance(result, Ref | bool | int | float)


def _result(scope: TorchScope, program: Program, result: Any) -> Value:
    if not isinstance(result, Ref):
        return Builder(scope.graph).constant(np.asarray(result))
    found = scope.result(result.name)
    g = Context(scope, Step("output", "output", {}, ()), [], program)
    return found if isinstance(found, Value) else scope.size(g, found)


@dataclass(frozen=True)
class _Place:
    """A step as messages name it."""

    step: Step

    def __str__(self) -> str:
        source = f", {self.step.source}" if self.step.source else ""
        return f"node {self.step.name!r} ({self.step.target}{source})"
