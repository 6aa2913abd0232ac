"""Operators that apply parts of the program: branches, loops and scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from forge.dims import Dim
from forge.errors import ImportModelError
from forge.frontends.prune import prune
from forge.frontends.scope import Region, merged_captures
from forge.frontends.state.cells import Cell
from forge.frontends.torch.context import Context
from forge.frontends.torch.program import Program, Ref, ScalarMeta, Weight
from forge.frontends.torch.registry import converts
from forge.frontends.torch.scope import TorchScope
from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.types import TensorType

_HIGHER = "higher_order"

Convert = Callable[[Context, list[Value]], Sequence[Any]]
"""Of the context in a region, and the region's own inputs."""


def inlined(g: Context, part: Program, arguments: Sequence[Any]) -> list[Any]:
    """The results of a part, converted into the graph at hand; the arguments are values and sizes of this graph."""
    if len(arguments) != len(part.inputs):
        raise ImportModelError(f"{part.where}: got {len(arguments)} arguments; expected {len(part.inputs)}")
    scope = g.scope.inlined(f"{g.scope.prefix}{g.name}/")
    for item, argument in zip(part.inputs, arguments):
        if isinstance(argument, Value) and not isinstance(part.metas.get(item.name), ScalarMeta):
            scope.cells[item.name] = Cell(argument)
        else:
            scope.numbers[item.name] = argument
    for name, weight in part.weights.items():
        scope.lazy[name] = partial(_constant, scope, weight)
    scope.state.convert_steps(scope, part.steps, part)
    if written := next((i.name for i in part.inputs if i.name in scope.cells and scope.cells[i.name].version), None):
        raise g.unsupported(f"{part.where} writes to {written!r}; supported: branches and bodies of loops that write to no input")
    return [_result(scope, result) for _, result in part.results]


def _constant(scope: TorchScope, weight: Weight) -> Value:
    return Builder(scope.graph).constant(weight.read(), name=scope.unique(weight.label))


def _result(scope: TorchScope, result: Any) -> Any:
    if not isinstance(result, Ref):
        return result
    return scope.number(result.name) if scope.has_number(result.name) else scope.cell(result.name).read()


def _brought(g: Context, values: Sequence[Any]) -> list[Any]:
    """``values`` of the graph around a region in the region."""
    return [g.scope.brought(v) if isinstance(v, Value) else v for v in values]


def _region(g: Context, name: str, types: Sequence[TensorType], convert: Convert) -> Region:
    """A closed region with inputs of ``types``; what else it reads is captured."""
    scope = g.scope.nested(name)
    inner = Context(scope, g.step, g.metas, g.program)
    inputs = [scope.graph.add_input(t, scope.unique(f"{name}_{k}")) for k, t in enumerate(types)]
    for value in inputs:
        scope.note_sizes(value)
    scope.graph.outputs = [inner.tensor(v) for v in convert(inner, inputs)]
    prune(scope.graph)
    return Region(scope.graph, list(scope.captures))


@converts("cond", domain=_HIGHER)
def cond(g: Context, pred: Any, true: Program, false: Program, operands: Sequence[Any] = ()) -> list[Any]:
    """A branch that is known to be taken is converted in place."""
    known = g.array(pred) if isinstance(pred, Value) else pred
    if isinstance(known, bool | np.ndarray):
        return inlined(g, true if bool(known) else false, operands)
    branches = [
        _region(g, name, [], lambda inner, _, part=part: inlined(inner, part, _brought(inner, operands)))  # type: ignore[misc]
        for name, part in (("true", true), ("false", false))
    ]
    captured = merged_captures(branches)
    regions = [branch.with_captures(captured, 0) for branch in branches]
    return g.multi("if", g.reshape(g.tensor(pred, "bool"), ()), *captured, regions=regions)


@converts("while_loop", domain=_HIGHER)
def while_loop(
    g: Context, condition: Program, body: Program, carried: Sequence[Any], others: Sequence[Any] = ()
) -> list[Value]:
    first = [g.tensor(v) for v in carried]
    types = [v.tensor_type for v in first]

    def goes_on(at: Context, values: Sequence[Value]) -> Value:
        return at.reshape(at.tensor(inlined(at, condition, [*values, *_brought(at, others)])[0], "bool"), ())

    def convert(inner: Context, inputs: list[Value]) -> Sequence[Value]:
        found = inlined(inner, body, [*inputs[2:], *_brought(inner, others)])
        results = [_fitted(inner, inner.tensor(v, t.dtype), t) for v, t in zip(found, types, strict=True)]
        return [goes_on(inner, results), *results]

    start = goes_on(g, first)
    region = _region(g, "body", [TensorType((), "int64"), TensorType((), "bool"), *types], convert)
    regions = [region.with_captures(region.captured, 2 + len(first))]
    return g.multi("loop", None, start, *first, *region.captured, regions=regions, num_carried=len(first))


def _fitted(g: Context, value: Value, wanted: TensorType) -> Value:
    """``value`` with the sizes of ``wanted``, which it has at run time."""
    return value if value.shape == wanted.shape else g.call("broadcast_to", value, shape=wanted.shape, exact=True)


@converts("scan", domain=_HIGHER)
def scan(g: Context, combine: Program, init: Sequence[Any], xs: Sequence[Value], others: Sequence[Any] = ()) -> list[Value]:
    """The last states, then what every step gives, along a new first axis."""
    states = [g.tensor(v) for v in init]
    types = [v.tensor_type for v in states]
    slices = [TensorType(x.shape[1:], x.dtype) for x in xs]

    def convert(inner: Context, inputs: list[Value]) -> Sequence[Value]:
        found = [inner.tensor(v) for v in inlined(inner, combine, [*inputs, *_brought(inner, others)])]
        after = [_fitted(inner, inner.cast(v, t.dtype), t) for v, t in zip(found, types)]
        return [*after, *found[len(after) :]]

    region = _region(g, "step", [*types, *slices], convert)
    regions = [region.with_captures(region.captured, len(types) + len(slices))]
    return g.multi("scan", *states, *xs, *region.captured, regions=regions, num_states=len(states), num_scan_inputs=len(xs))


@converts("map_impl", domain=_HIGHER)
def map_(g: Context, body: Program, xs: Sequence[Value], others: Sequence[Any] = ()) -> list[Value]:
    return scan(g, body, [], xs, others)


@converts("associative_scan", domain=_HIGHER)
def associative_scan(g: Context, combine: Program, xs: Sequence[Value], others: Sequence[Any] = ()) -> list[Value]:
    """In order: every result is of the one before and the next slice."""
    types = [TensorType(x.shape[1:], x.dtype) for x in xs]
    first = [g.reshape(_rows(g, x, 0, 1), t.shape) for x, t in zip(xs, types)]

    def convert(inner: Context, inputs: list[Value]) -> Sequence[Value]:
        found = inlined(inner, combine, [*inputs, *_brought(inner, others)])
        after = [_fitted(inner, inner.tensor(v, t.dtype), t) for v, t in zip(found, types, strict=True)]
        return [*after, *after]

    region = _region(g, "step", [*types, *types], convert)
    regions = [region.with_captures(region.captured, 2 * len(types))]
    rest = [_rows(g, x, 1, x.shape[0]) for x in xs]
    found = g.multi("scan", *first, *rest, *region.captured, regions=regions, num_states=len(xs), num_scan_inputs=len(xs))
    return [g.call("concatenate", g.call("expand_dims", a, axis=0), b, axis=0) for a, b in zip(first, found[len(xs) :])]


def _rows(g: Context, value: Value, begin: Dim, end: Dim) -> Value:
    return g.call("strided_slice", value, begin=(begin,), end=(end,), strides=(1,), axes=(0,))
