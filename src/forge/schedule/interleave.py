"""Stores that step along the vector axis by the extent of a short axis next to it: vectors are interleaved in registers.

``for o: for i in 2: A[2 * o + i] = f(o, i)``  -->  ``A[2 * o : 2 * (o + L)] = interleave(f(o : o + L, 0), f(o : o + L, 1))``
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from forge.loops import Loop, Vectorizer, bound, known, memory_sizes, tail_mask
from forge.schedule.access import OTHER, UNIT, Accesses, pattern
from forge.schedule.algebra import Algebra
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.rewrite import substitute
from forge.tir.stmt import Stmt, Store, seq, store
from forge.tir.visit import nodes

# The short axis has at most this extent.
MAX_SHORT: Final = 8
# Of elements of at most two bytes, of which a vector holds more than a square tile has columns (`schedule.transpose`).
MAX_SHORT_OF_NARROW: Final = 16


def interleaved_axes(loops: Sequence[Loop], body: Stmt, accesses: Accesses, algebra: Algebra) -> tuple[Loop, Loop] | None:
    """Returns (vector axis, short axis): a store steps by 1 along the latter, and whole vectors of it lie side by side.

    Loads must be contiguous, or of one element, along the vector axis; masks are known for each place of the short axis.
    """
    if not isinstance(body, Store) or body.mask is not None or body.value.dtype == "string":
        return None
    place = algebra.poly(body.index)
    most = MAX_SHORT_OF_NARROW if max(memory_sizes(body)) <= 2 else MAX_SHORT
    for short in loops:
        if short.static is None or not 2 <= short.static <= most or pattern(algebra.coefficient(place, short.var)) != UNIT:
            continue
        for axis in loops:
            step = algebra.coefficient(place, axis.var)
            if axis is short or axis.assumed < 4 or step != algebra.poly(short.extent):
                continue
            strides = accesses.strides(algebra, axis.var)
            if all(item.node is None or _is_known(item.node.mask, short) and pattern(s) != OTHER
                   for item, s in zip(accesses.items, strides)):
                return axis, short
    return None


def _is_known(mask: Expr | None, short: Loop) -> bool:
    """Whether a mask, if there is one, depends on the place along the short axis only."""
    return mask is None or {x for x in nodes(mask) if isinstance(x, E.Var)} == {short.var}


def interleaved_store(body: Store, axis: Loop, short: Loop, extent: Expr, at: Expr, lanes: int, mask: Expr | None) -> Stmt:
    """Returns all elements of the short axis for ``lanes`` elements of ``axis`` from ``at``, of ``extent`` in all."""
    count = known(short.extent, "schedule: the extent of interleaved vectors")
    if lanes == 1:
        return seq(*(_scalar(body, {axis.var: at, short.var: E.const(k)}) for k in range(count)))
    parts: list[Stmt] = []
    values = []
    for k in range(count):
        value = Vectorizer(axis.var, at, lanes, mask).expr(substitute(body.value, {short.var: E.const(k)}))
        values.append(bound(E.broadcast(value, lanes), parts))
    first = substitute(body.index, {axis.var: at, short.var: E.const(0)})
    for number, vector in enumerate(interleave(values, parts)):
        own = None if mask is None else tail_mask(E.const(number * lanes), (extent - at) * count, lanes)
        parts.append(store(body.buffer, E.ramp(first + number * lanes, 1, lanes), vector, own))
    return seq(*parts)


def _scalar(body: Store, values: dict[E.Var, Expr]) -> Stmt:
    return store(body.buffer, substitute(body.index, values), substitute(body.value, values))


def interleave(vectors: Sequence[Expr], parts: list[Stmt]) -> list[Expr]:
    """Returns ``[a0 b0 a1 b1 ...]`` of ``[a0 a1 ...], [b0 b1 ...]``, as vectors of the same lanes; for any number of vectors.

    Appends what binds intermediate vectors to ``parts``.
    """
    count, lanes = len(vectors), vectors[0].lanes
    if count == 1:
        return list(vectors)
    if count % 2 == 0:
        mixed: list[Expr] = []
        for a, b in zip(interleave(vectors[0::2], parts), interleave(vectors[1::2], parts)):
            for start in (0, lanes // 2):
                order = [start + k // 2 + (lanes if k % 2 else 0) for k in range(lanes)]
                mixed.append(bound(_shuffle(a, b, order), parts))
        return mixed
    return [_gathered(vectors, number, parts) for number in range(count)]


def _gathered(vectors: Sequence[Expr], number: int, parts: list[Stmt]) -> Expr:
    """Vector ``number`` of the result, taken together from all ``vectors`` one after the other."""
    count, lanes = len(vectors), vectors[0].lanes
    places = [divmod(number * lanes + k, count) for k in range(lanes)]
    result = vectors[0]
    for source in range(1, count):
        kept = [row if source == 1 else k for k, (row, _) in enumerate(places)]
        order = [lanes + row if owner == source else keep for keep, (row, owner) in zip(kept, places)]
        result = bound(_shuffle(result, vectors[source], order), parts)
    return result


def _shuffle(a: Expr, b: Expr, order: Sequence[int]) -> Expr:
    return E.call("shuffle", a, b, *(E.const(k) for k in order), lanes=len(order))
