"""Branches and loops of formats whose bodies are functions that are called with tensors and with handles.

A handle is whatever a converter passes on that is not a tensor: it leads to a variable, say. What leads to what is known while a
model is converted, so handles are in no graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

from forge.frontends.context import ImportContext
from forge.frontends.counted_loops import as_scan, counted
from forge.frontends.prune import prune
from forge.frontends.scope import Region, merged_captures
from forge.frontends.state.variables import VariableScope
from forge.frontends.widening import widened_region
from forge.ir.nodes import Value
from forge.ir.types import TensorType, Type

Operand = Any
"""A value, a handle, or None where an optional tensor is absent."""


class ControlContext(ImportContext):
    """A context that can be made again for a graph inside of its own."""

    scope: VariableScope[Any]

    def inside(self, scope: Any) -> Self:
        """The context of the same node in another scope."""
        raise NotImplementedError


G = TypeVar("G", bound=ControlContext)
Run = Callable[[G, Any, Sequence[Operand]], list[Operand]]
"""The results of a function, which is converted in place."""


def build_region(g: G, types: Sequence[Type], build: Callable[[G, list[Value]], Sequence[Value]]) -> Region:
    """A closed region with inputs of ``types``, whose results ``build`` makes of them."""
    scope = g.scope.nested(g.name, f"{g.name}/")
    inputs = [scope.graph.add_input(type_, scope.unique(f"argument_{k}")) for k, type_ in enumerate(types)]
    scope.graph.outputs = list(build(g.inside(scope), inputs))
    prune(scope.graph)
    return Region(scope.graph, list(scope.captures))


def brought(inner: ControlContext, operand: Operand) -> Operand:
    """An operand of the graph around, in the graph inside of it."""
    return inner.scope.capture(operand) if isinstance(operand, Value) else operand


def choose(
    g: G, index: Value, branches: Sequence[Any], operands: Sequence[Operand], run: Run[G], written: Sequence[str], first: int = 0
) -> list[Operand]:
    """The results of one of two functions for a bool, or of that whose number ``index`` is, else of the last one.

    Args:
        written: labels of variables that any of them may write.
        first: number of the first of the branches.
    """
    known = g.array(index)
    if known is not None or len(branches) == 1:
        last = len(branches) - 1
        number = 0 if known is None else int(known.reshape(-1)[0]) - first if index.dtype != "bool" else int(not known.any())
        return run(g, branches[number if 0 <= number < last else last], operands)
    condition = index if index.dtype == "bool" else g.call("equal", index, g.scalar(first, index))
    like: list[Operand] = []

    def region(some: Sequence[Any], begin: int) -> Region:
        def build(inner: G, _: list[Value]) -> list[Value]:
            number = inner.scope.capture(index) if len(some) > 1 else index
            like[:] = choose(inner, number, some, [brought(inner, v) for v in operands], run, written, begin)
            return [*(v for v in like if isinstance(v, Value)), *(inner.scope.variable(label) for label in written)]

        return build_region(g, [], build)

    regions = [region(branches[:1], first), region(branches[1:], first + 1)]
    captured = merged_captures(regions)
    graphs = [r.with_captures(captured, 0) for r in regions]
    return _after(g, like, g.multi("if", g.reshape(condition, ()), *captured, regions=graphs), written)


def _after(g: ControlContext, like: Sequence[Operand], values: Sequence[Value], written: Sequence[str]) -> list[Operand]:
    """``values`` in the places of tensors; the last ones are those of variables."""
    for label, value in zip(written, values[len(values) - len(written) :]):
        g.scope.set_variable(label, value)
    found = iter(values)
    return [next(found) if isinstance(v, Value) else v for v in like]


def repeat(
    g: G, operands: Sequence[Operand], condition: Any, body: Any, run: Run[G], written: Sequence[str], kept: Sequence[bool]
) -> list[Operand]:
    """The last values of ``operands``, which ``body`` makes of those before while ``condition`` holds of them.

    Args:
        written: labels of variables that any of both may write.
        kept: operands that the body gives as they were.
    """
    carries = [isinstance(v, Value) and not same for v, same in zip(operands, kept)]
    starts = [v for v, is_carried in zip(operands, carries) if is_carried]
    starts += [g.scope.variable(label) for label in written]
    goes_on = _flag(g, run(g, condition, operands))

    def build(types: Sequence[Type]) -> Region:
        def again(inner: G, arguments: list[Value]) -> list[Value]:
            carried = iter(arguments[2:])
            around = [next(carried) if c else brought(inner, v) for v, c in zip(operands, carries)]
            for label in written:
                inner.scope.set_variable(label, next(carried))
            results = run(inner, body, around)
            if [isinstance(v, Value) for v in results] != [isinstance(v, Value) for v in operands]:
                raise g.invalid("the body gives tensors in the place of handles, or handles in that of tensors")
            flag = _flag(inner, run(inner, condition, results))
            after = [v for v, is_carried in zip(results, carries) if is_carried]
            return [flag, *after, *(inner.scope.variable(label) for label in written)]

        return build_region(g, [TensorType((), "int64"), TensorType((), "bool"), *types], again)

    region = widened_region(build, [v.type for v in starts], 1)
    loop = counted(region, starts)
    if loop is not None:
        values = as_scan(g, g.scope, loop)
    else:
        own = region.with_captures(region.captured, 2 + len(starts))
        values = g.multi("loop", None, goes_on, *starts, *region.captured, regions=[own], num_carried=len(starts))
    found = iter(_after(g, starts[: len(starts) - len(written)], values, written))
    return [next(found) if c else v for v, c in zip(operands, carries)]


def _flag(g: ControlContext, results: Sequence[Operand]) -> Value:
    """The result of a condition."""
    if len(results) != 1 or not isinstance(results[0], Value) or results[0].dtype != "bool":
        raise g.invalid("the condition does not give one bool")
    return g.reshape(results[0], ())
