"""The inputs of a graph: names of their sizes, and checks of what the program assumes of these."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims
from forge.dims import Dim
from forge.errors import ImportModelError
from forge.frontends.inputs import DimensionNames
from forge.frontends.state.cells import Cell
from forge.frontends.torch.context import Context
from forge.frontends.torch.guards import Condition, conditions
from forge.frontends.torch.program import Program, Ref, ScalarMeta, Step, TensorMeta, refs
from forge.frontends.torch.scope import TorchScope
from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.ops.shape.check_size import CheckSize


def add_inputs(scope: TorchScope, program: Program) -> None:
    tensors = [i for i in program.inputs if not i.is_constant]
    checked: set[str] = set()
    assumed = _assumed(program)
    lone = _name_symbols(scope, program)
    _unify(scope, assumed)
    for item in tensors:
        meta = program.metas[item.name]
        if isinstance(meta, ScalarMeta):
            dtype = {"int": "int64", "float": "float32", "bool": "bool"}[meta.kind]
            value = scope.graph.add_input(TensorType((), dtype), scope.unique(item.label))
            scope.numbers[item.name] = _as_size(scope, program, meta, value)
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
    _add_checks(scope, program, assumed)


def _as_size(scope: TorchScope, program: Program, meta: ScalarMeta, value: Value) -> Dim | Value:
    """An integer that is given, as a size where torch takes it for one that no tensor has."""
    name = None if meta.size is None else dims.symbol_name(meta.size)
    if name is None or name in scope.symbols:
        return value
    g = Context(scope, Step(name, "size", {}, ()), [], program)
    size: Dim = g.count(value).shape[0]
    scope.counts[dims.symbol_name(size) or ""] = value
    scope.symbols[name] = size
    return size


def _assumed(program: Program) -> list[Condition]:
    """What torch assumed of sizes, in its symbols, but for what their bounds say."""

    def size_of(name: str, axis: int) -> Dim | None:
        meta = program.metas.get(name)
        return meta.shape[axis] if isinstance(meta, TensorMeta) and -len(meta.shape) <= axis < len(meta.shape) else None

    found = [condition for text in program.guards for condition in conditions(text, size_of)]
    return [condition for condition in found if not _is_implied(condition, program)]


def _is_implied(condition: Condition, program: Program) -> bool:
    """Whether the bounds of symbols say it; sizes of 0 and 1 pass where torch takes 2 for the least, as in `_checked`."""
    name, factor, offset = dims.linear(condition.size) or ("", 0, 0)
    least, most = program.bounds.get(name, (None, None))
    low, high = dims.bounds(condition.size)
    if factor > 0 and least is not None:
        low = least * factor + offset
    if factor > 0 and most is not None:
        high = most * factor + offset
    if factor < 0:
        low = None if most is None else most * factor + offset
        high = None if least is None else least * factor + offset
    return (condition.least is None or low is not None and low >= condition.least) and (
        condition.most is None or high is not None and high <= condition.most)


def _unify(scope: TorchScope, assumed: Sequence[Condition]) -> None:
    """Gives symbols that are assumed equal one name, and those of which one value is assumed that value."""
    for size, least, most in assumed:
        if least is None or least != most:
            continue
        fixed = dims.solve(size, least)
        names = dims.symbols(size)
        if fixed is not None:
            scope.symbols[fixed[0]] = fixed[1]
        elif least == 0 and len(names) == 2 and size in (one := dims.symbol(names[0]) - dims.symbol(names[1]), -one):
            first, second = (scope.symbols.get(name) for name in names)
            if isinstance(second, int):
                scope.symbols[names[0]] = second
            elif first is not None:
                scope.symbols[names[1]] = first


def _add_checks(scope: TorchScope, program: Program, assumed: Sequence[Condition]) -> None:
    """Checks what is assumed of sizes, on an input that the program reads.

    Raises:
        ImportModelError: what the user fixes contradicts it.
    """
    inputs = [item.name for item in program.inputs if item.name in scope.cells]
    read = {name for step in program.steps for argument in step.arguments.values() for name in refs(argument)}
    for condition in assumed:
        size = scope.resolved(condition.size)
        low, high = dims.bounds(size)
        least, most = condition.least, condition.most
        if (least is None or low is not None and low >= least) and (most is None or high is not None and high <= most):
            continue
        if isinstance(size, int):
            raise ImportModelError(f"torch assumed sizes with which {condition.size} is {least} to {most}; got {size}")
        label = str(size)
        cell = scope.cells[next((name for name in inputs if name in read), inputs[0])]
        if least is None:
            size, least, most = -size, -most if most is not None else 0, None
        cell.write(Builder(scope.graph).call(
            "check_size", cell.read(), axis=0, size=size, least=least, most=most, label=label))


def keep_checks(scope: TorchScope, program: Program) -> None:
    """Bounds of inputs that nothing reads are checked, too."""
    g = Context(scope, Step("bounds", "bounds", {}, ()), [], program)
    results = {scope.cell(r.name).read() for _, r in program.results if isinstance(r, Ref) and not scope.has_number(r.name)}
    for item in program.inputs:
        value = scope.cells[item.name].read() if item.name in scope.cells else None
        while value is not None and not value.uses and value not in results and (check := CheckSize.of(value.producer)):
            value, bounds = check.data, check.attrs
            size = scope.size(g, value.shape[bounds.axis] if bounds.size is None else bounds.size)
            fits = g.call("greater_equal", size, g.constant(bounds.least, "int64"))
            if bounds.most is not None:
                fits = g.call("logical_and", fits, g.call("less_equal", size, g.constant(bounds.most, "int64")))
            g.call("check", fits, message=f"dimension {bounds.label} is out of bounds; expected {check.expected}")


def _checked(scope: TorchScope, program: Program, meta: TensorMeta, value: Value, checked: set[str]) -> Value:
    """An input whose sizes are within the bounds that the program was exported for; symbols in ``checked`` are, already.

    A least size of 2 is not a bound: torch sets it where the program was not made for 0 and 1, and lets these pass all the same.
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
