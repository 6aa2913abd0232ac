"""Writing by index: scatter_elements and scatter_nd; collecting indices: argwhere.

The operand is copied to the result, unless that lies in its memory. Then the updates are applied one after the other, in
row-major order, so that equal indices give what the operator says. Indices are counted from the end if negative, then moved into
the bounds, or, with attribute out_of_range "drop", nothing is written for those out of range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forge import dtypes
from forge.loops import Cell, axes, clamped, guard, known, nest, places
from forge.loops.contract import KernelCall, Reader, kernel
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Function, If, Let, Stmt, seq, store


def _bounded(index: Expr, extent: Expr) -> Expr:
    wide = E.cast(index, "int64")
    wrapped = E.select(wide < 0, wide + extent, wide) if dtypes.is_signed(index.dtype) else wide
    return clamped(wrapped, extent)


def _in_range(index: Expr, extent: Expr) -> Expr:
    wide = E.cast(index, "int64")
    return E.logical_and(wide >= 0, wide < extent)


Target = Callable[[Reader, Reader, Sequence[Expr]], tuple[dict[int, Expr], Sequence[Expr]]]
"""(data, indices, place of an update) -> the indices that the operand gives, by dimension; those of the other dimensions."""


def _scatter(call: KernelCall, reduction: str, target: Target) -> Function:
    data, indices, updates = call.readers
    out = call.buffers[-1]
    loops = axes(updates.shape)
    at = places(loops)
    given, own = target(data, indices, at)
    rest = iter(own)
    place = [_bounded(given[k], extent) if k in given else next(rest) for k, extent in enumerate(data.shape)]
    step = _apply(out, place, updates.read(at), reduction)
    if call.attrs.out_of_range == "drop":
        inside: Expr = E.const(True, "bool")
        for k, index in given.items():
            inside = E.logical_and(inside, _in_range(index, data.shape[k]))
        step = If(inside, step)
    body = nest(loops, step)
    for extent in data.shape:  # nothing can be written into a tensor without elements
        body = guard(extent > 0, body)
    if not call.in_place:
        elements = axes(data.shape)
        body = seq(nest(elements, call.results[0].write(places(elements), data.read(places(elements)))), body)
    return call.function(body)


def _apply(out: Buffer, target: Sequence[Expr], update: Expr, reduction: str) -> Stmt:
    place = E.var("place")
    value = E.Var(out.dtype, 1, "value")
    combined = update if reduction == "update" else E.binary(reduction, E.load(out, place), update)
    return seq(Let(place, out.offset(*target)), Let(value, combined), store(out, place, value))


@kernel("scatter_elements", complex_numbers=True)
def scatter_elements(call: KernelCall) -> Function:
    """Family of ``scatter_elements``: operands data, indices, updates; attributes axis, reduction, out_of_range."""
    data = call.readers[0]
    axis = call.attrs.axis % len(data.shape)

    def target(data: Reader, indices: Reader, at: Sequence[Expr]) -> tuple[dict[int, Expr], Sequence[Expr]]:
        return {axis: indices.read(at)}, [x for k, x in enumerate(at) if k != axis]

    return _scatter(call, call.attrs.reduction, target)


@kernel("scatter_nd", complex_numbers=True)
def scatter_nd(call: KernelCall) -> Function:
    """Family of ``scatter_nd``: operands data, indices with the index tuple along the first dimension, updates;
    attributes mode, out_of_range.
    """

    def target(data: Reader, indices: Reader, at: Sequence[Expr]) -> tuple[dict[int, Expr], Sequence[Expr]]:
        outer = len(indices.shape) - 1
        depth = known(indices.shape[0], "scatter_nd: the length of an index")
        return {k: indices.read((E.const(k), *at[:outer])) for k in range(depth)}, at[outer:]

    return _scatter(call, call.attrs.mode, target)


@kernel("argwhere")
def argwhere(call: KernelCall) -> Function:
    """Family of ``argwhere``: operand condition (bool); rows of indices are written as they are found, at most as many as fit."""
    condition = call.readers[0]
    out, found, row = call.buffers[-1], Cell("found"), E.var("row")
    loops = axes(condition.shape)
    indices = places(loops)
    hit = E.logical_and(condition.read(indices), row < out.shape[0])
    stores = [store(out, out.offset(row, k), x) for k, x in enumerate(indices)]
    step = seq(Let(row, found.value), If(hit, seq(stores, found.set(row + 1))))
    return call.function(seq(found.start(0), nest(loops, step)))
