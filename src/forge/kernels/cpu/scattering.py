"""Writing by index: scatter_elements and scatter_nd; collecting indices: argwhere.

The operand is copied to the result, then the updates are applied one after the other, in row-major order, so that
equal indices give what the operator says. Indices are counted from the end if negative, then moved into the bounds, or, with
attribute out_of_range "drop", nothing is written for those out of range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forge import dtypes
from forge.loops import Loop, nest
from forge.loops.contract import KernelCall, Reader, kernel
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Function, If, Let, Stmt, seq, store


def _combine(reduction: str, old: Expr, new: Expr) -> Expr:
    if reduction == "update":
        return new
    return E.binary(reduction, old, new)


def _bounded(index: Expr, extent: Expr) -> Expr:
    wide = E.cast(index, "int64")
    wrapped = E.select(wide < 0, wide + extent, wide) if dtypes.is_signed(index.dtype) else wide
    return E.binary("max", E.binary("min", wrapped, extent - 1), E.const(0))


def _in_range(index: Expr, extent: Expr) -> Expr:
    wide = E.cast(index, "int64")
    return E.logical_and(wide >= 0, wide < extent)


def _loops(shape: Sequence[Expr], name: str) -> list[Loop]:
    return [Loop(E.var(f"{name}{k}"), extent) for k, extent in enumerate(shape)]


def _copied(call: KernelCall, data: Reader) -> Stmt:
    loops = _loops(data.shape, "c")
    indices = tuple(x.var for x in loops)
    return nest(loops, call.results[0].write(indices, data.read(indices)))


def _apply(out: Buffer, target: Sequence[Expr], update: Expr, reduction: str) -> Stmt:
    place = E.var("place")
    value = E.Var(out.dtype, 1, "value")
    combined = _combine(reduction, E.load(out, place), update)
    return seq(Let(place, out.offset(*target)), Let(value, combined), store(out, place, value))


Target = Callable[[Reader, Reader, Sequence[Expr]], tuple[dict[int, Expr], Sequence[Expr]]]
"""(data, indices, place of an update) -> the indices that the operand gives, by dimension; those of the other dimensions."""


def _scatter(call: KernelCall, reduction: str, target: Target) -> Function:
    data, indices, updates = call.readers
    out = call.buffers[-1]
    loops = _loops(updates.shape, "u")
    at = tuple(x.var for x in loops)
    given, own = target(data, indices, at)
    rest = iter(own)
    place = [_bounded(given[k], extent) if k in given else next(rest) for k, extent in enumerate(data.shape)]
    step = _apply(out, place, updates.read(at), reduction)
    if call.attrs.out_of_range == "drop":
        inside: Expr = E.const(True, "bool")
        for k, index in given.items():
            inside = E.logical_and(inside, _in_range(index, data.shape[k]))
        step = If(inside, step)
    return call.function(seq(_copied(call, data), _unless_empty(data.shape, nest(loops, step))))


def _unless_empty(shape: Sequence[Expr], body: Stmt) -> Stmt:
    """Nothing can be written into a tensor without elements."""
    for extent in shape:
        if isinstance(extent, E.Const):
            body = body if extent.value else seq()
        else:
            body = If(extent > 0, body)
    return body


@kernel("scatter_elements", complex_numbers=True)
def scatter_elements(call: KernelCall) -> Function:
    """Family of ``scatter_elements``: operands data, indices, updates; attributes axis, reduction, out_of_range."""
    data = call.readers[0]
    axis = call.attrs.axis % len(data.shape)
    return _scatter(call, call.attrs.reduction, lambda data, indices, at: ({axis: indices.read(at)}, _without(at, axis)))


def _without(at: Sequence[Expr], axis: int) -> Sequence[Expr]:
    return [x for k, x in enumerate(at) if k != axis]


@kernel("scatter_nd", complex_numbers=True)
def scatter_nd(call: KernelCall) -> Function:
    """Family of ``scatter_nd``: operands data, indices with the index tuple along the first dimension, updates;
    attributes mode, out_of_range.
    """

    def target(data: Reader, indices: Reader, at: Sequence[Expr]) -> tuple[dict[int, Expr], Sequence[Expr]]:
        outer = len(indices.shape) - 1
        depth = int(indices.shape[0].value)  # type: ignore[attr-defined]
        return {k: indices.read((E.const(k), *at[:outer])) for k in range(depth)}, at[outer:]

    return _scatter(call, call.attrs.mode, target)


@kernel("argwhere")
def argwhere(call: KernelCall) -> Function:
    """Family of ``argwhere``: operand condition (bool); rows of indices are written as they are found, at most as many as fit."""
    condition = call.readers[0]
    out, found = call.buffers[-1], Buffer("found", "int64", (E.const(1),), scope="local")
    zero, row = E.const(0), E.var("row")
    loops = _loops(condition.shape, "i")
    indices = [x.var for x in loops]
    hit = E.logical_and(condition.read(tuple(indices)), row < out.shape[0])
    stores = [store(out, out.offset(row, k), x) for k, x in enumerate(indices)]
    step = seq(Let(row, E.load(found, zero)), If(hit, seq(*stores, store(found, zero, row + 1))))
    return call.function(seq(Allocate(found), store(found, zero, zero), nest(loops, step)))
