"""Branches and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forge.dims import Dim
from forge.frontends.counted_loops import as_scan, counted
from forge.frontends.scope import Region, merged_captures
from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.importer import build_region, converted_body, inline
from forge.frontends.stablehlo.module import Block
from forge.frontends.stablehlo.registry import converts
from forge.frontends.stablehlo.scope import StablehloScope, Structure, leaves
from forge.ir.nodes import Value
from forge.ir.types import TensorType


@converts("if")
def if_(g: Context, pred: Value) -> list[Structure]:
    return _branches(g, pred, [g.region(0)], [g.region(1)])


@converts("case")
def case(g: Context, index: Value) -> list[Structure]:
    return _case(g, index, 0, g.operation.regions)


def _case(g: Context, index: Value, first: int, blocks: Sequence[Block]) -> list[Structure]:
    """The results of the block that ``index``, counted from ``first`` on, says; of the last one, if it says none."""
    if not blocks:
        raise g.invalid("got no branches; expected one or more")
    known = g.ints(index)
    if len(blocks) == 1 or known is not None:
        position = known[0] - first if known is not None and 0 <= known[0] - first < len(blocks) else len(blocks) - 1
        return inline(g, blocks[position], [])
    if len(blocks) == 2:
        condition = g.call("equal", index, g.scalar(first, index))
        return _branches(g, condition, blocks[:1], blocks[1:])
    middle = len(blocks) // 2
    at = g.scalar(first + middle, index)
    low = g.call("less", index, at)
    if first == 0:  # negative ones mean the last block
        low = g.call("logical_and", low, g.call("greater_equal", index, g.scalar(0, index)))
    return _branches(g, low, blocks[:middle], blocks[middle:], index, first)


def _branches(
    g: Context, condition: Value, then: Sequence[Block], otherwise: Sequence[Block], index: Value | None = None, first: int = 0
) -> list[Structure]:
    known = g.array(condition)
    if known is not None and len(then) == len(otherwise) == 1:
        return inline(g, (then if known.reshape(-1)[0] else otherwise)[0], [])
    shapes: list[Structure] = []

    def build(blocks: Sequence[Block], first: int) -> Region:
        def results(scope: StablehloScope, _: list[Value]) -> Sequence[Value]:
            inner = Context(scope, g.operation, g.name)
            if len(blocks) == 1:
                found = converted_body(scope, blocks[0], [], "branch")
            else:
                assert index is not None
                found = _case(inner, scope.capture(index), first, blocks)
            shapes[:] = found
            return leaves(found)

        return build_region(g, [], results)

    regions = [build(then, first), build(otherwise, first + len(then))]
    captured = merged_captures(regions)
    graphs = [region.with_captures(captured, 0) for region in regions]
    values = g.multi("if", g.reshape(condition, ()), *captured, regions=graphs)
    return _structured(shapes, iter(values))


def _structured(like: Sequence[Structure], values: object) -> list[Structure]:
    """Structures as ``like`` whose tensors are ``values``."""
    found: list[Structure] = []
    for structure in like:
        if isinstance(structure, tuple):
            found.append(tuple(_structured(structure, values)))
        else:
            found.append(None if structure is None else next(values))  # type: ignore[call-overload]
    return found


@converts("while")
def while_(g: Context, *operand: Structure) -> list[Structure]:
    condition, body = g.region(0), g.region(1)
    if len(body.results) != len(operand) or len(body.arguments) != len(operand):
        raise g.invalid(f"got {len(body.results)} results of the body; expected {len(operand)}, as there are operands")
    kept = [body.results[k] is body.arguments[k] for k in range(len(operand))]
    carried = [v for v, same in zip(operand, kept) if not same]
    first = leaves(carried)
    starts = _flag(g, inline(g, condition, list(operand)))

    def build(scope: StablehloScope, inputs: list[Value]) -> Sequence[Value]:
        values = iter(_structured(carried, iter(inputs[2:])))
        around = [_captured(scope, v) if same else next(values) for v, same in zip(operand, kept)]
        results = converted_body(scope.inlined(scope.prefix), body, around, "body")
        inner = Context(scope, g.operation, g.name)
        changed = [r for r, same in zip(results, kept) if not same]
        types = [v.tensor_type for v in first]
        if [(v.dtype, v.rank) for v in leaves(changed)] != [(t.dtype, t.rank) for t in types]:
            raise g.invalid("the body gives values of other types than it gets; expected equal ones")
        ends = [inner.broadcast(v, t.shape) for v, t in zip(leaves(changed), types)]
        again = iter(_structured(carried, iter(ends)))
        goes_on = inline(inner, condition, [a if same else next(again) for a, same in zip(around, kept)])
        return [_flag(g, goes_on), *ends]

    types = [TensorType((), "int64"), TensorType((), "bool"), *(v.type for v in first)]
    region = build_region(g, types, build)
    loop = counted(region, first)
    if loop is not None:
        results = as_scan(g, g.scope, loop)
    else:
        graph = region.with_captures(region.captured, len(types))
        results = g.multi("loop", None, starts, *first, *region.captured, regions=[graph], num_carried=len(first))
    found = iter(_structured(carried, iter(results)))
    return [v if same else next(found) for v, same in zip(operand, kept)]


@converts("scan", domain="chlo")
def scan(g: Context, *operands: Value, dimension: int, is_reverse: bool = False, **attributes: Any) -> list[Value]:
    """The body for each slice of the inputs along a dimension: slices and what is carried give slices and what is carried."""
    body = g.region(0)
    count, carried, outputs, same = (_segments(g, f"{of}SegmentSizes")[k] for of in ("operand", "result") for k in (0, 1))
    fits = carried == same and len(operands) == len(body.arguments) == count + carried and len(body.results) == outputs + carried
    if not fits:
        raise g.invalid(f"got {len(operands)} operands and {len(body.results)} results of the body; expected {count} inputs with "
                        f"{carried} carried values, and {outputs} outputs with these")
    inputs, starts = operands[:count], operands[count:]
    if not count:
        raise g.unsupported("no inputs are not supported; expected one that says how many slices there are")
    types = [*(v.type for v in starts), *(TensorType(_without(v.shape, dimension), v.dtype) for v in inputs)]

    def build(scope: StablehloScope, values: list[Value]) -> Sequence[Value]:
        found = leaves(converted_body(scope, body, [*values[carried:], *values[:carried]], "body"))
        return [*found[outputs:], *found[:outputs]]

    region = build_region(g, types, build)
    graph = region.with_captures(region.captured, len(types))
    axes, directions = (dimension,), (int(is_reverse),)
    results = g.multi(
        "scan", *starts, *inputs, *region.captured, regions=[graph], num_states=carried, num_scan_inputs=count,
        input_axes=axes * count, input_directions=directions * count, output_axes=axes * outputs,
        output_directions=directions * outputs)
    return [*results[carried:], *results[:carried]]


def _segments(g: Context, name: str) -> tuple[int, int]:
    found = g.operation.attributes.get(name)
    sizes = [int(size) for size in found] if isinstance(found, list | tuple | np.ndarray) else []
    if len(sizes) != 2 or min(sizes) < 0:
        raise g.invalid(f"{name}: got {found}; expected two numbers")
    return sizes[0], sizes[1]


def _without(shape: Sequence[Dim], axis: int) -> tuple[Dim, ...]:
    return (*shape[:axis], *shape[axis + 1:])


def _flag(g: Context, results: Sequence[Structure]) -> Value:
    """What a condition gives."""
    found = results[0] if len(results) == 1 else None
    if not isinstance(found, Value) or found.dtype != "bool" or found.rank:
        raise g.invalid("the condition gives no bool of rank 0; expected one")
    return found


def _captured(scope: StablehloScope, structure: Structure) -> Structure:
    """A structure of the parent scope in this one."""
    if isinstance(structure, tuple):
        return tuple(_captured(scope, part) for part in structure)
    return None if structure is None else scope.capture(structure)
