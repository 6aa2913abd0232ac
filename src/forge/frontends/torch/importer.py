"""From a program to a module of the graph IR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from forge import dims, dtypes, ops  # noqa: F401
from forge.dims import Dim, DimExpr
from forge.errors import ImportModelError, OpNotImplemented
from forge.frontends.convert import finished, located
from forge.frontends.converter import Converter
from forge.frontends.inputs import DimensionNames
from forge.frontends.registry import as_list
from forge.frontends.support import CONVERTER, MISSING, Use, check_supported
from forge.frontends.torch import converters
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.core.views import (
    ALIASES,
    MAYBE_VIEWS,
    READ_ONLY_VIEWS,
    SAME_OR_COPY,
    SHARING,
    VIEWS,
    WRITES,
    put_back,
)
from forge.frontends.torch.memory import Cell
from forge.frontends.torch.program import Program, Ref, ScalarMeta, Step, TensorMeta, Weight, refs
from forge.frontends.torch.registry import REGISTRY, key
from forge.frontends.torch.scope import TorchScope, TorchState
from forge.ir.builder import Builder
from forge.ir.functions.states import State
from forge.ir.nodes import Graph, Module, Value
from forge.ir.types import TensorType

_SAYINGS = ("_assert_tensor_metadata", "sym_constrain_range_for_size", "sym_constrain_range", "_assert_scalar",
            "_linalg_check_errors")
IGNORED = frozenset(f"aten.{name}.default" for name in _SAYINGS)
"""Steps that say what types and sizes say already, or what the model promises of its data."""

PYTHON = frozenset({"operator", "math", "torch", "builtins"})
"""Where functions of numbers come from."""

converters.load_all()


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
        written = _written(program)
        _add_inputs(scope, program)
        for name, weight in program.weights.items():
            scope.lazy[name] = partial(_weight, scope, weight, name in written)
        convert_steps(scope, program.steps, program)
        return _finished(scope, program, written)


def used_operators(program: Program) -> list[Use]:
    """The operators of a program and its parts, and what converts each."""
    found: dict[str, Use] = {}
    for part in _parts(program):
        for step in needed_steps(part.steps, part):
            how = CONVERTER if is_number(step, part) or lookup(step.target) else MISSING
            domain, op = key(step.target)
            at = f"{step.name}, {step.source}" if step.source else step.name
            found.setdefault(step.target, Use(domain, op, 0, how, at)).count += 1
    return list(found.values())


def _parts(program: Program) -> list[Program]:
    return [program, *(inner for part in program.parts.values() for inner in _parts(part))]


def lookup(target: str) -> Converter | None:
    """The converter of a step; that of an in-place operator is the one of the operator."""
    domain, op = key(target)
    return REGISTRY.lookup(domain, functional(op), 1) or REGISTRY.lookup(domain, op, 1)


def functional(op: str) -> str:
    """An operator without the mark of in-place ones: ``add_.Tensor`` is ``add.Tensor``."""
    name, _, overload = op.partition(".")
    if name.startswith("__i") and name.endswith("__") and name != "__invert__":
        return f"__{name[3:]}.{overload}"
    return f"{name[:-1]}.{overload}" if overload and name.endswith("_") and not name.endswith("__") else op


def writes(step: Step) -> bool:
    """Whether a step writes to its first argument."""
    _, op = key(step.target)
    return functional(op) != op


def is_number(step: Step, program: Program) -> bool:
    """Whether a step computes a number whose value torch's sizes say; one that an operator reads from a tensor is new."""
    metas = [program.metas.get(name) for name in step.outputs]
    if not metas or not all(isinstance(m, ScalarMeta) and m.size is not None for m in metas):
        return False
    return step.target.partition(".")[0] in PYTHON or lookup(step.target) is None


def needed_steps(steps: Sequence[Step], program: Program) -> list[Step]:
    """The steps but for those that only say something, and idle numbers; results that nothing reads have no name."""
    read = {name for _, result in program.results for name in refs(result)}.union(program.mutations.values())
    kept: list[Step] = []
    for step in reversed(steps):
        if step.target in IGNORED or _is_idle(step, program) and not read.intersection(step.outputs):
            continue
        unread = len(step.outputs) > 1 and not read.issuperset(step.outputs)
        kept.append(replace(step, outputs=tuple(n if n in read else "" for n in step.outputs)) if unread else step)
        read.update(name for argument in step.arguments.values() for name in refs(argument))
    return kept[::-1]


def _is_idle(step: Step, program: Program) -> bool:
    """Whether a step does nothing but compute numbers of sizes."""
    metas = [program.metas.get(name) for name in step.outputs]
    return bool(metas) and step.target.partition(".")[0] in PYTHON and all(isinstance(m, ScalarMeta) for m in metas)


def convert_steps(scope: TorchScope, steps: Sequence[Step], program: Program) -> None:
    """Converts steps in order into the scope's graph.

    Raises:
        ForgeError: one cannot be converted; the message names node, operator and the line of Python.
    """
    for step in needed_steps(steps, program):
        with located(_Place(step)):
            scope.state.count_node()
            convert_step(scope, step, program)


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
    g = Context(scope, step, [scope.meta(meta) for meta in metas], program)
    results = as_list(run_converter(g, row, {name: _resolved(g, value) for name, value in step.arguments.items()}))
    if len(results) < len([name for name in step.outputs if name]):
        raise ImportModelError(f"its converter gave {len(results)} results; expected {len(step.outputs)}")
    if writes(step):
        _write(scope, g, step, results[0])
        return
    for index, (name, result) in enumerate(zip(step.outputs, results)):
        if name and result is not None:
            _define(scope, g, step, index, name, result, program)


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


def _define(scope: TorchScope, g: Context, step: Step, index: int, name: str, result: Any, program: Program) -> None:
    meta = program.metas.get(name)
    if isinstance(meta, ScalarMeta):
        scope.numbers[name] = _number(scope, g, meta, result)
        return
    if not isinstance(result, Value):
        raise ImportModelError(f"its converter gave {type(result).__name__}; expected a tensor")
    if isinstance(meta, TensorMeta):
        _check_type(meta, result)
        scope.bind_symbols(meta, result)
        result = _as_torch_says(scope, g, meta, result)
    scope.note_sizes(result)
    if result.producer is not None and not result.name:
        result.name = scope.unique(name)
        result.producer.name = result.producer.name or result.name
    scope.cells[name] = _cell(scope, g, step, index, result, program)


def _check_type(meta: TensorMeta, value: Value) -> None:
    """A converter that gives another type than torch is wrong."""
    sizes = zip(meta.shape, value.shape) if isinstance(value.type, TensorType) and value.rank == len(meta.shape) else None
    if value.dtype != meta.dtype or sizes is None or any(dims.is_static(a, b) and a != b for a, b in sizes):
        raise ImportModelError(f"its converter gave {value.type}; torch says {meta.dtype}{[str(d) for d in meta.shape]}")


def _as_torch_says(scope: TorchScope, g: Context, meta: TensorMeta, value: Value) -> Value:
    """``value`` with the sizes that torch states, where they are not provably its own: that they are is checked at run time."""
    stated = [scope.resolved(size) for size in meta.shape]
    if all(map(dims.equal, value.shape, stated)):
        return value
    known = scope.known_symbols(stated)
    shape = tuple(own if not ok or dims.equal(own, size) else size for own, size, ok in zip(value.shape, stated, known))
    return value if shape == value.shape else g.call("broadcast_to", value, shape=shape, exact=True)


def _number(scope: TorchScope, g: Context, meta: ScalarMeta, result: Dim | Value) -> Dim | Value:
    """A number that is computed from data; where torch takes it for a size, so does the graph."""
    name = None if meta.size is None else dims.symbol_name(meta.size)
    if name is None or name in scope.all_symbols() or not isinstance(result, Value):
        return result
    number = g.cast(result, "int64")
    size: Dim = g.count(number).shape[0]
    symbol = dims.symbol_name(size)
    if symbol is not None:
        scope.counts[symbol] = number
    scope.symbols[name] = size
    return size


def _cell(scope: TorchScope, g: Context, step: Step, index: int, result: Value, program: Program) -> Cell:
    """A tensor with memory of its own, or one that shares it with the first argument."""
    first = next(iter(step.arguments.values()), None)
    if not isinstance(first, Ref) or first.name in program.parts or scope.has_number(first.name):
        return Cell(result)
    base = scope.cell(first.name)
    is_same = base.read() is result and not step.arguments.get("copy") and step.target != "aten.contiguous.default"
    if step.target in ALIASES or is_same and step.target in SAME_OR_COPY | MAYBE_VIEWS:
        return base
    if step.target in MAYBE_VIEWS:
        return Cell(result, base)
    if step.target not in VIEWS and step.target not in READ_ONLY_VIEWS:
        return Cell(result)
    row = lookup(step.target)
    assert row is not None
    names = list(step.arguments)
    rest = {name: _resolved(g, step.arguments[name]) for name in names[1:]}

    def remake(value: Value) -> Value:
        return as_list(run_converter(g, row, {names[0]: value, **rest}))[index]  # type: ignore[return-value]

    if step.target not in VIEWS:
        return Cell(result, base, remake)
    return Cell(result, base, remake, lambda old, new: put_back(g, step.target, old, new, rest, index))


def _write(scope: TorchScope, g: Context, step: Step, result: Any) -> None:
    """What an in-place operator computed becomes the value of its first argument."""
    first = next(iter(step.arguments.values()))
    cell = scope.cell(first.name)
    before = cell.read()
    value = g.cast(result, before.dtype)
    if value.shape != before.shape:
        value = g.call("broadcast_to", value, shape=before.shape)
    cell.write(value)
    for name in step.outputs:
        scope.cells[name] = cell


def _written(program: Program) -> set[str]:
    """Names of the inputs and weights whose memory the program writes."""
    roots: dict[str, str] = {}
    found = set(program.mutations)
    for step in program.steps:
        also = WRITES.get(step.target, ()) if step.arguments.get("training") else ()
        found.update(name for argument in also for name in refs(step.arguments.get(argument)))
        first = next(iter(step.arguments.values()), None)
        if not isinstance(first, Ref):
            continue
        root = roots.get(first.name, first.name)
        if writes(step):
            found.add(root)
        if writes(step) or step.target in SHARING:
            roots.update(dict.fromkeys(step.outputs, root))
    return {name for name in found if name in program.weights or name in program.metas}


def _add_inputs(scope: TorchScope, program: Program) -> None:
    tensors = [i for i in program.inputs if not i.is_constant]
    checked: set[str] = set()
    lone = _name_symbols(scope, program)
    for item in tensors:
        meta = program.metas[item.name]
        if isinstance(meta, ScalarMeta):
            dtype = {"int": "int64", "float": "float32", "bool": "bool"}[meta.kind]
            value = scope.graph.add_input(TensorType((), dtype), item.label)
            scope.numbers[item.name] = value
            continue
        assert isinstance(meta, TensorMeta)
        shape = tuple(map(scope.resolved, meta.shape))
        own = tuple(lone.get((item.name, axis), size) for axis, size in enumerate(shape))
        value = scope.graph.add_input(TensorType(own, meta.dtype), scope.unique(item.label))
        scope.note_sizes(value)
        value = _checked(scope, program, meta, value, checked)
        if own != shape:
            value = Builder(scope.graph).call("broadcast_to", value, shape=shape, exact=True)
        scope.cells[item.name] = Cell(value)


def _checked(scope: TorchScope, program: Program, meta: TensorMeta, value: Value, checked: set[str]) -> Value:
    """An input whose sizes are within the bounds that the program was exported for; symbols in ``checked`` are, already.

    A least size of 2 is no bound: torch sets it where the program was not made for 0 and 1, and lets these pass all the same.
    """
    for axis, size in enumerate(meta.shape):
        symbol, factor, offset = dims.linear(size) or ("", 0, 0)
        low, high = program.bounds.get(symbol, (None, None))
        if symbol in checked or factor < 1 or isinstance(value.shape[axis], int):
            continue
        least = low * factor + offset if low is not None and low > 2 else 0
        most = None if high is None else high * factor + offset
        if least or most is not None:
            checked.add(symbol)
            label = str(value.shape[axis])
            value = Builder(scope.graph).call("check_size", value, axis=axis, least=least, most=most, label=label)
    return value


def _name_symbols(scope: TorchScope, program: Program) -> dict[tuple[str, int], Dim]:
    """Sizes of inputs have the user's names, else those of the first input and axis that have them.

    Returns:
        Axes, by input, whose size is the only one that says what a symbol of torch is, as 2*h: they are symbols of their own.
    """
    labels = DimensionNames(program.symbol_names.values())
    scope.symbols.update(program.sizes)
    metas = [(item, program.metas.get(item.name)) for item in program.inputs]
    sizes = [(item, axis, d) for item, m in metas if isinstance(m, TensorMeta) for axis, d in enumerate(m.shape)]
    for item, axis, size in sizes:
        name = dims.symbol_name(size)
        if name is not None and name not in scope.symbols:
            label = program.symbol_names.get(name)
            scope.symbols[name] = labels.symbol(label) if label else labels.unknown(f"{item.label}_dim{axis}")
    lone: dict[tuple[str, int], Dim] = {}
    for item, axis, size in sizes:
        name, factor, offset = dims.linear(size) or ("", 0, 0)
        if factor > 0 and name not in scope.symbols:
            own = labels.unknown(f"{item.label}_dim{axis}")
            lone[item.name, axis] = own
            scope.symbols[name] = dims.floordiv(own - offset, factor)
    return lone


def _weight(scope: TorchScope, weight: Weight, is_written: bool) -> Value:
    array = weight.read()
    label = weight.label
    if is_written and weight.is_buffer or is_written and weight.is_parameter:
        value = scope.graph.add_input(TensorType(array.shape, dtypes.canonical(array.dtype)), label)
        scope.graph.states[label] = State(None, array)
        return value
    if weight.is_parameter and not scope.state.freeze_params:
        value = scope.graph.add_input(TensorType(array.shape, dtypes.canonical(array.dtype)), label)
        scope.state.params[label] = array
        scope.parameters[label] = value
        scope.weights[label] = weight.read
        return value
    return Builder(scope.graph).constant(array, name=scope.unique(label))


def _finished(scope: TorchScope, program: Program, written: set[str]) -> Module:
    names, values = [], []
    for label, result in program.results:
        if isinstance(result, Ref):
            names.append(label)
            values.append(_result(scope, program, result.name))
        elif isinstance(result, bool | int | float):
            names.append(label)
            values.append(Builder(scope.graph).constant(np.asarray(result)))
    taken = set(names)
    changed: list[tuple[str, int]] = []
    for name in [*(i.name for i in program.inputs), *program.weights]:
        if name in written and (name in scope.cells or name in program.mutations):
            after = scope.cell(program.mutations.get(name, name)).read()
            weight = program.weights.get(name)
            label = weight.label if weight else next(i.label for i in program.inputs if i.name == name)
            changed.append((label, len(values)))
            scope.cell(name)
            values.append(after)
            names.append(_unused(f"{label}_after", taken))
    scope.graph.outputs = values
    states = dict(scope.graph.states)
    for label, number in changed:
        if label in states:
            states[label] = State(number, states[label].initial)
        else:
            scope.graph.donated[label] = number
    scope.graph.states = states
    return finished(scope, names)


def _result(scope: TorchScope, program: Program, name: str) -> Value:
    if scope.has_number(name):
        number = scope.number(name)
        step = Step("output", "output", {}, ())
        return number if isinstance(number, Value) else scope.size(Context(scope, step, [], program), number)
    return scope.cell(name).read()


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


@dataclass(frozen=True)
class _Place:
    """A step as messages name it."""

    step: Step

    def __str__(self) -> str:
        source = f", {self.step.source}" if self.step.source else ""
        return f"node {self.step.name!r} ({self.step.target}{source})"
