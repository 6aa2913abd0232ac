"""Which reductions go over sliding windows: the axes along which these lie, and where there are data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from forge import dtypes, loops
from forge.loops import Loop
from forge.schedule.access import OTHER, analyse, collapse, pattern
from forge.schedule.algebra import ZERO, Algebra, Poly, number
from forge.schedule.guards import GuardedReads
from forge.schedule.simplify import IndexSimplifier, renaming
from forge.schedule.stages import Reduction
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Expr, Var
from forge.tir.rewrite import map_expressions
from forge.tir.stmt import Stmt
from forge.tir.visit import free_variables

# Axes after the last window axis have at most this many elements in all.
MAX_TAIL: Final = 64


@dataclass(frozen=True, eq=False)
class Pair:
    """Reduction axis ``tap`` of windows along ``axis``: their places are ``axis * stride + tap * dilation``, coprime numbers."""

    axis: Loop
    tap: Loop
    stride: int
    dilation: int

    @property
    def reach(self) -> int:
        """Places under one window."""
        return (steps_of(self.tap) - 1) * self.dilation + 1

    def at(self, place: Expr) -> dict[Var, Expr]:
        """Returns values of axis and tap with which ``axis * stride + tap * dilation`` is ``place``; they may be out of range."""
        inverse = pow(self.stride, -1, self.dilation)
        return {self.axis.var: place * inverse, self.tap.var: place * ((1 - inverse * self.stride) // self.dilation)}


@dataclass(frozen=True)
class Bound:
    """``factor * tap + rest >= 0``; of the tap of the last pair: of the place under it."""

    tap: Loop
    factor: int
    rest: Poly

    def limits(self, algebra: Algebra) -> tuple[Expr | None, Expr | None]:
        """Returns the first number that keeps it, or the one after the last."""
        rest = algebra.expr(self.rest)
        if self.factor > 0:
            return (E.const(self.factor - 1) - rest) // self.factor, None
        return None, rest // -self.factor + 1


@dataclass(frozen=True, eq=False)
class Problem:
    """``value`` reduced over all taps within ``bounds``, for ``outer``, the axis of ``pair``, and ``tail``.

    ``rows`` are the taps but that of ``pair``, which is None where vectors lie along ``tail``.
    """

    reduction: Reduction
    outer: tuple[Loop, ...]
    pair: Pair | None
    pairs: tuple[Pair, ...]
    tail: Loop | None
    rows: tuple[Loop, ...]
    bounds: tuple[Bound, ...]
    value: Expr
    body: Stmt


def find_windows(target: Target, axes: Sequence[Loop], r: Reduction, body: Stmt, algebra: Algebra) -> Problem | None:
    """Returns the windows of ``r``; None of other reductions, and of windows that neither overlap nor overhang."""
    if any(tap.static is None for tap in r.axes) or dtypes.is_complex(r.result.dtype):
        return None
    guard, simplify = GuardedReads(target, algebra), IndexSimplifier(algebra)
    single = renaming({axis.var: E.const(0) for axis in (*axes, *r.axes) if axis.static == 1})
    axes, body = [axis for axis in axes if axis.static != 1], map_expressions(body, single)
    found = guard.unguarded(single(r.value), r.kind)
    if found is None or not {axis.var for axis in axes} <= free_variables(r.value):
        return None
    inside, value = found[0], simplify.expr(found[1])
    taps = [tap for tap in r.axes if tap.static != 1]
    pairs = _pairs(value, inside, axes, taps, algebra)
    if not pairs or not inside and all(pair.reach <= pair.stride for pair in pairs):
        return None
    pair: Pair | None = max(pairs, key=lambda pair: axes.index(pair.axis))
    assert pair is not None
    place = axes.index(pair.axis)
    if math.prod(axis.static or MAX_TAIL + 1 for axis in axes[place + 1 :]) > MAX_TAIL:
        pair, place = None, len(axes) - 2
    body = simplify.stmt(map_expressions(body, guard))
    accesses = analyse((value,), (body,), algebra)
    accesses = replace(accesses, value_uses=accesses.value_uses.union(*map(algebra.variables, inside)))
    outer, tail = (collapse(part, accesses, algebra) for part in (axes[:place], axes[place + 1 :]))
    rename, simplify = renaming({**outer.substitution, **tail.substitution}), IndexSimplifier(algebra)
    value, body = simplify.expr(rename(value)), simplify.stmt(map_expressions(body, rename))
    bounds = [_bound(q, taps, pair, tail.loops, algebra) for q in inside]
    if len(tail.loops) > 1 or None in bounds or pair is None and not _is_contiguous(value, tail.loops, algebra):
        return None
    around = outer.loops if pair is not None else (*outer.loops, axes[place])
    rows = tuple(tap for tap in taps if pair is None or tap is not pair.tap)
    kept = tuple(bound for bound in bounds if bound is not None)
    return Problem(r, around, pair, tuple(pairs), tail.loops[0] if tail.loops else None, rows, kept, value, body)


def _pairs(value: Expr, inside: Iterable[Poly], axes: Sequence[Loop], taps: Sequence[Loop], algebra: Algebra) -> list[Pair]:
    """Taps and the axes along which windows are placed: those of the most similar steps, where sizes are numbers."""
    accesses = analyse((value,), (), algebra)
    places = [*(item.index for item in accesses.items), *inside]
    pairs = []
    for tap in taps:
        found = [_pair(places, axis, tap, algebra) for axis in axes if accesses.value_uses.isdisjoint({axis.var, tap.var})]
        pairs += sorted((pair for pair in found if pair is not None), key=lambda pair: max(pair.stride, pair.dilation))[:1]
    return pairs


def _pair(places: Sequence[Poly], axis: Loop, tap: Loop, algebra: Algebra) -> Pair | None:
    """The pair of ``axis`` and ``tap`` if all ``places`` depend on both in one ratio, and some place lies under two windows."""
    ratio: tuple[int, int] | None = None
    for place in places:
        a, b = algebra.coefficient(place, axis.var), algebra.coefficient(place, tap.var)
        if a == b == ZERO:
            continue
        if a is None or b is None or not len(a.terms) == len(b.terms) == 1 or a.terms[0][0] != b.terms[0][0]:
            return None
        (_, stride), (_, dilation) = a.terms[0], b.terms[0]
        divisor = math.gcd(stride, dilation)
        own = abs(stride) // divisor, abs(dilation) // divisor
        if stride * dilation < 0 or ratio not in (None, own):
            return None
        ratio = own
    if ratio is None or axis.static is not None and (axis.static - 1) * ratio[0] < ratio[1]:
        return None
    return Pair(axis, tap, *ratio)


def _bound(q: Poly, taps: Sequence[Loop], pair: Pair | None, tail: Sequence[Loop], algebra: Algebra) -> Bound | None:
    """Condition ``q >= 0`` as a bound of the one tap that it depends on."""
    used = [tap for tap in taps if tap.var in algebra.variables(q)]
    step = algebra.coefficient(q, used[0].var) if len(used) == 1 else None
    if step is None or step.constant is None:
        return None
    (tap,), factor = used, step.constant
    rest = q - step * algebra.poly(tap.var)
    if pair is not None and tap is pair.tap:
        factor //= pair.dilation
        rest = rest - number(factor * pair.stride) * algebra.poly(pair.axis.var)
        return None if algebra.variables(rest) & set(algebra.extents) else Bound(tap, factor, rest)
    inner = {axis.var for axis in (*tail, *(() if pair is None else (pair.axis,)))}
    return Bound(tap, factor, rest) if inner.isdisjoint(algebra.variables(rest)) else None


def _is_contiguous(value: Expr, tail: Sequence[Loop], algebra: Algebra) -> bool:
    """Whether vectors along ``tail`` are loaded whole."""
    return len(tail) == 1 and all(pattern(s) != OTHER for s in analyse((value,), (), algebra).strides(algebra, tail[0].var))


def steps_of(tap: Loop) -> int:
    """Returns the steps of a window along an axis."""
    return loops.known(tap.extent, "schedule: the extent of a window")
