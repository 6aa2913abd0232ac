"""Loops: serial, parallel, unrolled and vectorized ones with masked tails, and nests of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from forge import dims
from forge.loops.cost import PARALLEL_MULTIPLY_ADDS, PARALLEL_WORK
from forge.loops.values import bind, ceildiv, next_power_of_two, product, static, tail_mask
from forge.tir import expr as E
from forge.tir.expr import Expr, ExprLike, Var
from forge.tir.stmt import If, Let, Stmt, loop, seq

# In costs, a symbolic extent counts as this many.
ASSUMED_EXTENT: Final = 1024

Body = Callable[[Expr], Stmt]
"""index -> statement"""

VectorBody = Callable[[Expr, int, "Expr | None"], Stmt]
"""(first element, lanes, mask) -> statement; with one lane there is no mask."""

GroupBody = Callable[[Expr, int, "Expr | None", int], Stmt]
"""(first element, lanes, mask, count) -> statement for ``count`` consecutive vectors; a mask comes with one vector."""


@dataclass(frozen=True, eq=False)
class Loop:
    """An axis of a loop nest: ``var`` runs over ``range(extent)``."""

    var: Var
    extent: Expr

    @property
    def static(self) -> int | None:
        return static(self.extent)

    @property
    def assumed(self) -> int:
        """The extent as a number, for costs."""
        return ASSUMED_EXTENT if self.static is None else self.static

    def lanes(self, most: int) -> int:
        """Returns the lanes of vectors along it: at most ``most``, and no more than cover it."""
        return min(most, next_power_of_two(self.assumed))


def axes(shape: Sequence[Expr], name: str = "i") -> list[Loop]:
    """Makes a loop over each dimension of ``shape``."""
    return [Loop(E.var(f"{name}{k}"), extent) for k, extent in enumerate(shape)]


def places(loops: Sequence[Loop]) -> list[Expr]:
    """Returns the variables of ``loops``, as indices."""
    return [axis.var for axis in loops]


def rows_along(shape: Sequence[Expr], axis: int) -> tuple[list[Loop], Callable[[Expr], tuple[Expr, ...]]]:
    """Makes loops over the rows of an array along ``axis``, and what gives the indices of an element of a row."""
    loops = axes([extent for k, extent in enumerate(shape) if k != axis])
    outer = places(loops)
    return loops, lambda place: (*outer[:axis], place, *outer[axis:])


def ravel(loops: Sequence[Loop]) -> Expr:
    """Returns the number of an iteration of ``loops``."""
    number: Expr = E.const(0)
    for axis in loops:
        number = number * axis.extent + axis.var
    return number


def blocks(extent: Expr, size: ExprLike, name: str = "b") -> tuple[Loop, Expr, Expr]:
    """Makes a loop over blocks of ``size`` elements of ``extent``; the first element of a block, and how many it has."""
    block = Loop(E.var(name), ceildiv(extent, size))
    start = block.var * size
    return block, start, E.binary("min", E.as_expr(size), extent - start)


def serial(name: str, extent: ExprLike, body: Body, begin: ExprLike = 0) -> Stmt:
    """Makes a serial loop; one iteration of known extent needs none."""
    if E.is_const(E.as_expr(extent), 1):
        return body(E.as_expr(begin))
    index = E.var(name)
    return loop(index, extent, body(index), "serial", begin)


def unroll(name: str, extent: int, body: Body) -> Stmt:
    """Makes ``body`` for each index below ``extent``, written out by code generation."""
    if extent == 1:
        return body(E.const(0))
    index = E.var(name)
    return loop(index, extent, body(index), "unrolled")


def unroll_by(name: str, extent: ExprLike, factor: int, body: Body) -> Stmt:
    """Makes a serial loop with ``factor`` indices in one iteration; what is left over follows."""
    extent = E.as_expr(extent)
    known = static(extent)
    if known is not None and known <= factor:
        return unroll(name, known, body)
    whole = extent // factor

    def chunk(outer: Expr) -> Stmt:
        let, base = bind(f"{name}_base", outer * factor)
        return seq(let, unroll(name, factor, lambda inner: body(base + inner)))

    main = serial(f"{name}_outer", whole, chunk)
    if _is_multiple(extent, factor):
        return main
    if known is not None:
        rest, begin = known % factor, known - known % factor
        return seq(main, unroll(name, rest, lambda inner: body(inner + begin)))
    return seq(main, serial(name, extent - whole * factor, body, whole * factor))


def _is_multiple(x: Expr, factor: int) -> bool:
    """Whether ``x`` says itself that it is a multiple of ``factor``."""
    match x:
        case E.Const(value=int(value)):
            return value % factor == 0
        case E.Binary(op="mul", a=a, b=b):
            return _is_multiple(a, factor) or _is_multiple(b, factor)
    return factor == 1


def parallel(extent: ExprLike, work: ExprLike, body: Body) -> Stmt:
    """Makes the outermost loop of a dense kernel; ``work`` is the number of multiply-adds of one iteration."""
    index = E.var("task")
    grain = E.binary("max", E.const(1), E.const(PARALLEL_MULTIPLY_ADDS) // E.binary("max", E.const(1), E.as_expr(work)))
    return loop(index, extent, body(index), "parallel", grain=grain)


def guard(condition: Expr, then: Stmt, otherwise: Stmt | None = None) -> Stmt:
    """Makes an ``If`` that is decided at once where the condition is constant."""
    if isinstance(condition, E.Const):
        return then if condition.value else (otherwise if otherwise is not None else seq())
    return If(condition, then, otherwise)


def each_vector(extent: ExprLike, lanes: int, body: Callable[[Expr, Expr | None], Stmt]) -> Stmt:
    """Runs ``body(indices, mask)`` over ``extent`` elements in vectors of ``lanes``; only the last, partial vector has a mask."""
    count = E.as_expr(extent)

    def vector(at: Expr, width: int, mask: Expr | None, _: int) -> Stmt:
        indices = E.ramp(at, 1, width)
        return body(indices, None if mask is None else indices < count)

    return group_loop(count, lanes, vector, 1, masked=True)


def vector_loop(
    extent: Expr, lanes: int, body: VectorBody, unroll: int = 1, masked: bool = True, begin: Expr | None = None,
    again: bool = False,
) -> Stmt:
    """Runs ``body`` over ``range(begin, begin + extent)`` in vectors.

    Full vectors, ``unroll`` at a time, then single ones, then what is left: under a mask, or in shorter vectors where
    ``masked`` is False. With ``again`` it may be done for an element twice: the last vector of an extent known at run time only
    ends with it.
    """

    def group(at: Expr, width: int, mask: Expr | None, count: int) -> Stmt:
        return seq(*(body(at + u * width, width, mask) for u in range(count)))

    return group_loop(extent, lanes, group, unroll, masked, begin, narrow=True, again=again)


def group_loop(
    extent: Expr, lanes: int, body: GroupBody, unroll: int, masked: bool, begin: Expr | None = None, narrow: bool = False,
    again: bool = False,
) -> Stmt:
    """Runs over vectors as ``vector_loop`` does, for bodies that handle ``unroll`` of them together.

    ``narrow``: what is left of a constant extent may use vectors of fewer lanes; else it has all lanes, or one.
    """
    start = E.const(0) if begin is None else begin
    step = lanes * unroll
    known = static(extent)
    if known is not None:
        return _static_group_loop(known, lanes, body, unroll, masked, start, narrow)
    if again and lanes > 1:
        return _overlapping_loop(extent, lanes, body, unroll, masked, start)
    parts = [_repeat(extent // step, step, start, lambda at: body(at, lanes, None, unroll))]
    done = (extent // step) * step
    if unroll > 1:
        parts.append(_repeat((extent - done) // lanes, lanes, start + done, lambda at: body(at, lanes, None, 1)))
        done = (extent // lanes) * lanes
    if lanes > 1 and not masked:
        parts.append(_repeat(extent - done, 1, start + done, lambda at: body(at, 1, None, 1)))
    elif lanes > 1:
        parts.append(If(done < extent, body(start + done, lanes, tail_mask(done, extent, lanes), 1)))
    return seq(*parts)


def _overlapping_loop(extent: Expr, lanes: int, body: GroupBody, unroll: int, masked: bool, start: Expr) -> Stmt:
    """Whole vectors, of which the last ends with ``extent``, if there are as many elements."""
    many = extent // (lanes * unroll) if unroll > 1 else E.const(0)
    done = many * (lanes * unroll)
    last = start + extent - lanes
    whole = [serial("v", ceildiv(extent - done, lanes),
                    lambda v: body(E.binary("min", start + done + v * lanes, last), lanes, None, 1))]
    if unroll > 1:
        whole.insert(0, _repeat(many, lanes * unroll, start, lambda at: body(at, lanes, None, unroll)))
    short: Stmt
    if masked:
        short = If(extent > 0, body(start, lanes, tail_mask(E.const(0), extent, lanes), 1))
    else:
        short = _repeat(extent, 1, start, lambda at: body(at, 1, None, 1))
    return If(extent >= lanes, seq(*whole), short)


def _static_group_loop(extent: int, lanes: int, body: GroupBody, unroll: int, masked: bool, start: Expr, narrow: bool) -> Stmt:
    step = lanes * unroll
    parts = [_repeat(E.const(extent // step), step, start, lambda at: body(at, lanes, None, unroll))] if extent >= step else []
    done = extent - extent % step
    if extent - done >= lanes:
        parts.append(body(start + done, lanes, None, (extent - done) // lanes))
        done = extent - extent % lanes
    if extent > done:
        parts.append(_static_tail(extent - done, lanes, start + done, body, masked, narrow))
    return seq(*parts)


def _static_tail(count: int, lanes: int, start: Expr, body: GroupBody, masked: bool, narrow: bool) -> Stmt:
    if masked:
        width = next_power_of_two(count) if narrow else lanes
        return body(start, width, None if width == count else tail_mask(E.const(0), E.const(count), width), 1)
    parts = []
    while count:
        width = 1 << (count.bit_length() - 1) if narrow else 1
        parts.append(body(start, width, None, 1))
        start, count = start + width, count - width
    return seq(*parts)


def _repeat(count: Expr, step: int, start: Expr, body: Body) -> Stmt:
    return serial("v", count, lambda v: body(start + v * step))


def nest(loops: Sequence[Loop], body: Stmt) -> Stmt:
    """Puts serial loops around ``body``, the first outermost."""
    for axis in reversed(loops):
        body = loop(axis.var, axis.extent, body)
    return body


def parallel_nest(loops: Sequence[Loop], body: Stmt, cost: Expr) -> Stmt:
    """Puts loops around ``body``, which costs ``cost`` each time; the outer ones are fused and run in parallel where that pays.

    ``for i: for j: body``  -->  ``parallel f in range(I * J): i = f // J; j = f % J; body``
    """
    total = static(product([*(axis.extent for axis in loops), cost]))
    if not loops or total is not None and total < 2 * PARALLEL_WORK:
        return nest(loops, body)
    outer = _parallel_prefix(loops)
    inner = nest(loops[outer:], body)
    work = product([*(axis.extent for axis in loops[outer:]), cost])
    fused = E.var("p")
    extent = product(axis.extent for axis in loops[:outer])
    if E.is_const(extent, 1):
        return nest(loops, body)
    return loop(fused, extent, seq(*_decode(fused, loops[:outer]), inner), "parallel", grain=_grain(work))


def _parallel_prefix(loops: Sequence[Loop]) -> int:
    """How many outer loops make enough iterations to share among threads."""
    for k in range(len(loops)):
        if likely_iterations(loops[: k + 1]) >= 128:
            return k + 1
    return len(loops)


def likely_iterations(loops: Sequence[Loop]) -> int:
    """Estimates the iterations of a nest, whose first axis is that of a batch if its extent is known at run time only."""
    return math.prod(_likely(axis.extent, dims.TYPICAL if k else 1) for k, axis in enumerate(loops))


def _likely(extent: Expr, unknown: int) -> int:
    """``extent`` where variables are ``unknown``; at least 1, unless it is known."""
    match extent:
        case E.Const():
            return int(extent.value)  # type: ignore[arg-type]
        case E.Binary(op=op, a=a, b=b) if op in E.INTEGER_FOLDS:
            return max(1, int(E.INTEGER_FOLDS[op](_likely(a, unknown), _likely(b, unknown))))
    return unknown


def _grain(work: Expr) -> Expr:
    known = static(work)
    if known is not None:
        return E.const(max(1, PARALLEL_WORK // max(1, known)))
    return E.const(PARALLEL_WORK) // E.binary("max", work, E.const(1)) + 1


def _decode(fused: Var, loops: Sequence[Loop]) -> list[Stmt]:
    """Binds the variables of ``loops`` to what iteration ``fused`` of their product stands for."""
    lets: list[Stmt] = []
    rest: Expr = fused
    for k in range(len(loops) - 1, 0, -1):
        lets.append(Let(loops[k].var, rest % loops[k].extent))
        rest = rest // loops[k].extent
    return [*lets, Let(loops[0].var, rest)]
