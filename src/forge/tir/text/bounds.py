"""What is known of indices: ranges of loop variables and conditions, from which bounds are proven.

Values are polynomials over names: of sizes, which are 0 to ``MAX_SIZE``, of loop variables, and of what cannot be followed, of
which only a range is known. A polynomial is followed while no term of it can overflow, so that what holds for integers holds for
int64.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from forge import dims, dtypes
from forge.dims import Dim, DimExpr
from forge.errors import InvalidGraphError
from forge.tir import expr as E
from forge.tir.expr import Expr, Tensor, Var

MAX_SIZE: Final = (1 << 31) - 1
"""Of an extent; those who use programs refuse larger ones."""
_MAX_VALUE: Final = 1 << 62
_MAX_TERMS: Final = 32
_MAX_CONDITIONS: Final = 16
_MAX_STEPS: Final = 400
_FACTS: dict[str, Callable[[Dim, Dim], tuple[Dim, ...]]] = {
    "ge": lambda a, b: (a - b,), "le": lambda a, b: (b - a,), "gt": lambda a, b: (a - b - 1,), "lt": lambda a, b: (b - a - 1,),
    "eq": lambda a, b: (a - b, b - a), "ne": lambda a, b: (),
}
"""What a comparison says: each of these is at least 0."""
_OPPOSITE = {"ge": "lt", "le": "gt", "gt": "le", "lt": "ge", "eq": "ne", "ne": "eq"}
_BOTH = {("max", False), ("min", True)}
"""Of which operands a bound must hold: of both, for a factor with this sign; else of any."""


@dataclass(frozen=True)
class Range:
    """Of a variable: the least and the greatest value, and what no value is beyond in size."""

    low: Dim
    high: Dim
    largest: int
    order: int = 0  # inner variables have greater ones


@dataclass
class Facts:
    """What holds at one place of a program. `inside` begins with what holds outside."""

    values: dict[Var, Dim] = field(default_factory=dict)
    ranges: dict[str, Range] = field(default_factory=dict)
    extremes: dict[str, tuple[str, Dim, Dim]] = field(default_factory=dict)  # names of min and max of two values
    quotients: dict[str, tuple[Dim, int]] = field(default_factory=dict)  # names of values divided by a number
    operations: dict[tuple[str, str, str], Dim] = field(default_factory=dict)  # what is known by a name of its own
    conditions: tuple[Dim, ...] = ()  # each is at least 0
    counter: Iterator[int] = field(default_factory=itertools.count)
    budget: int = 0

    def inside(self) -> Facts:
        return replace(self, values=dict(self.values), ranges=dict(self.ranges), extremes=dict(self.extremes),
                       quotients=dict(self.quotients), operations=dict(self.operations))

    def add_size(self, variable: Var) -> None:
        """A size: never negative."""
        self.values[variable] = dims.symbol(f"size{next(self.counter)}")

    def add_number(self, variable: Var) -> None:
        """A number that is given with a use."""
        self.values[variable] = self._fresh(-MAX_SIZE, MAX_SIZE, MAX_SIZE)

    def add_parameter(self, variable: Var, value: Expr, is_number: bool) -> None:
        """A size, or a number, that is ``value`` with this use."""
        if isinstance(value, E.Const) and isinstance(value.value, int):
            self.values[variable] = value.value
        elif is_number:
            self.add_number(variable)
        else:
            self.add_size(variable)

    def add_loop(self, variable: Var, begin: Expr, extent: Expr) -> None:
        """A variable from ``begin`` on; where it stands there is at least one iteration."""
        low, count = self.value(begin), self.value(extent)
        last = None if low is None or count is None else self._checked(low + count - 1)
        if low is None or count is None or last is None:
            return
        self.values[variable] = self._fresh(low, last, self._largest(low) + self._largest(count))
        self._assume(count - 1)

    def add_let(self, variable: Var, value: Expr) -> None:
        known = self.value(value) if dtypes.is_integer(value.dtype) else None
        if known is not None:
            self.values[variable] = known

    def assume(self, condition: Expr, holds: bool = True) -> None:
        """Takes over what ``condition`` says of integers."""
        match condition:
            case E.Binary(op="and", a=a, b=b, dtype="bool") if holds:
                self.assume(a)
                self.assume(b)
            case E.Binary(op="or", a=a, b=b, dtype="bool") if not holds:
                self.assume(a, False)
                self.assume(b, False)
            case E.Compare(op="eq", a=a, b=E.Const(dtype="bool", value=False)):
                self.assume(a, not holds)
            case E.Compare(op=op, a=a, b=b) if dtypes.is_integer(a.dtype):
                x, y = self.value(a), self.value(b)
                if x is not None and y is not None:
                    for fact in _FACTS[op if holds else _OPPOSITE[op]](x, y):
                        self._assume(fact)

    def _assume(self, fact: Dim) -> None:
        if isinstance(fact, DimExpr) and len(self.conditions) < _MAX_CONDITIONS:
            self.conditions += (fact,)

    def value(self, x: Expr) -> Dim | None:
        """``x`` as a polynomial; None where it cannot be followed."""
        try:
            return self._followed(x)
        except InvalidGraphError:
            return None

    def _followed(self, x: Expr) -> Dim | None:
        match x:
            case E.Const(dtype=E.INDEX, value=int(number)):
                return self._checked(number)
            case E.Var() if x in self.values:
                return self.values[x]
            case E.Binary(dtype=E.INDEX, op=op, a=a, b=b):
                p, q = self._followed(a), self._followed(b)
                found = None if q is None or p is None else self._operation(op, p, q)
                return self._fresh(*dtypes.integer_range(E.INDEX), 1 << 63) if found is None else found
            case E.Cast(dtype=E.INDEX, x=inner) if dtypes.is_integer(inner.dtype):
                return self._followed(inner)
        if dtypes.is_integer(x.dtype) and x.dtype != "uint64":
            low, high = dtypes.integer_range(x.dtype)
            return self._fresh(low, high, max(-low, high))
        return None

    def _operation(self, op: str, a: Dim, b: Dim) -> Dim | None:
        if op in ("add", "sub", "mul"):
            return self._checked(a * b if op == "mul" else a + b if op == "add" else a - b)
        key = (op, str(a), str(b))
        if key not in self.operations:
            made = self._named(op, a, b)
            if made is None:
                return None
            self.operations[key] = made
        return self.operations[key]

    def _named(self, op: str, a: Dim, b: Dim) -> Dim | None:
        """A new name for an operation."""
        if op == "floormod":
            return self._fresh(0, b - 1, self._largest(b)) if self.is_positive(b) else None
        if op == "floordiv" and isinstance(b, int) and b > 0 and self._checked(a * b) is not None:
            return self._quotient(a, b)
        return self._extreme(op, a, b) if op in ("min", "max") else None

    def _quotient(self, a: Dim, b: int) -> Dim:
        low, high, largest = self.end(a, lowest=True), self.end(a, lowest=False), self._largest(a)
        if low is None and self.is_at_least_0(a):
            low = 0
        made = self._fresh(-largest if low is None else low // b, largest if high is None else high // b, largest)
        self.quotients[str(dims.symbol_name(made))] = (a, b)
        return made

    def _extreme(self, op: str, a: Dim, b: Dim) -> Dim:
        largest = max(self._largest(a), self._largest(b))
        made = self._fresh(-largest, largest, largest)
        self.extremes[str(dims.symbol_name(made))] = (op, a, b)
        return made

    def _fresh(self, low: Dim, high: Dim, largest: int) -> DimExpr:
        order = next(self.counter)
        self.ranges[f"v{order}"] = Range(low, high, largest, order)
        return dims.symbol(f"v{order}")

    def _checked(self, p: Dim) -> Dim | None:
        """``p``, unless it has many terms or may overflow."""
        if isinstance(p, DimExpr) and len(p.terms) > _MAX_TERMS:
            return None
        return p if self._largest(p) < _MAX_VALUE else None

    def _largest(self, p: Dim) -> int:
        """What ``p`` is never beyond in size, whatever the order in which it is computed."""
        if isinstance(p, int):
            return abs(p)
        sizes = [
            abs(c) * math.prod(self.ranges[n].largest if (n := str_name(a)) in self.ranges else MAX_SIZE for a in monomial)
            for monomial, c in p.terms
        ]
        return sum(sizes)

    def is_positive(self, p: Dim) -> bool:
        return self.is_at_least_0(p - 1)

    def is_at_least_0(self, p: Dim) -> bool:
        """Whether ``p`` is provably never negative here, with little work."""
        self.budget = _MAX_STEPS
        try:
            return self._follows(p, 2)
        except InvalidGraphError:
            return False

    def _follows(self, p: Dim, conditions: int) -> bool:
        """Whether ``p`` is never negative, by at most so many of the conditions."""
        if self._is_sum_of_positive(p):
            return True
        if not conditions or isinstance(p, int):
            return False
        names = set(dims.symbols(p))
        related = [fact for fact in self.conditions if not names.isdisjoint(dims.symbols(fact))]
        return any(self._follows(p - fact, conditions - 1) for fact in related)

    def _is_sum_of_positive(self, p: Dim) -> bool:
        """By the ranges of variables, inner ones first."""
        self.budget -= 1
        if isinstance(p, int):
            return p >= 0
        if self.budget < 0:
            return False
        inner = self._innermost(p)
        parts = None if inner is None else split(p, inner)
        if inner is None or parts is None:
            return inner is None and self._sizes_at_least_0(p)
        factor, rest = parts
        rises = self._is_sum_of_positive(factor)
        if not rises and not self._is_sum_of_positive(-factor):
            return False
        if inner in self.extremes:
            op, *operands = self.extremes[inner]
            needed = all if (op, rises) in _BOTH else any
            return needed(self._is_sum_of_positive(factor * x + rest) for x in operands)
        if inner in self.quotients and isinstance(factor, int):
            dividend, divisor = self.quotients[inner]  # divisor * quotient is between these two
            end = dividend - (divisor - 1) if rises else dividend
            if self._is_sum_of_positive(factor * end + divisor * rest + (divisor - 1)):
                return True
        own = self.ranges[inner]
        return self._is_sum_of_positive(factor * (own.low if rises else own.high) + rest)

    def _innermost(self, p: Dim) -> str | None:
        return max((n for n in dims.symbols(p) if n in self.ranges), key=lambda n: self.ranges[n].order, default=None)

    def _sizes_at_least_0(self, p: DimExpr) -> bool:
        """Whether a polynomial of sizes is never negative: those known to be positive are taken for 1 more than something."""
        known = [found for fact in self.conditions if (found := dims.linear(fact)) is not None]
        names = [n for n, factor, constant in known if factor == -constant == 1 and n not in self.ranges]
        positive: dict[str, Dim] = {n: dims.symbol(n) + 1 for n in names}
        shifted = dims.substitute(p, positive)
        return all(c >= 0 for _, c in shifted.terms) if isinstance(shifted, DimExpr) else shifted >= 0

    def end(self, p: Dim, lowest: bool) -> int | None:
        """A number that ``p`` is never below, or never above; None where none is known."""
        if isinstance(p, int):
            return p
        inner = self._innermost(p)
        if inner is None:
            return 0 if lowest and self._sizes_at_least_0(p) else None
        factor, rest = split(p, inner) or (p, 0)
        if not isinstance(factor, int) or inner in self.extremes:
            return None
        own = self.ranges[inner]
        return self.end(factor * (own.low if (factor > 0) == lowest else own.high) + rest, lowest)


def str_name(atom: dims.Atom) -> str:
    return atom.name if isinstance(atom, dims.Symbol) else ""


def split(p: Dim, name: str) -> tuple[Dim, Dim] | None:
    """``(a, b)`` with ``p = a * name + b``, neither of which has ``name``; None where there are none."""
    factor: Dim = 0
    rest: Dim = 0
    for monomial, coefficient in () if isinstance(p, int) else p.terms:
        others = [a for a in monomial if str_name(a) != name]
        term = coefficient * dims.product(dims.of_atom(a) for a in others)
        if len(others) == len(monomial):
            rest = rest + term
        elif len(others) == len(monomial) - 1:
            factor = factor + term
        else:
            return None
    return factor, p if isinstance(p, int) else rest


@dataclass(frozen=True)
class Checked:
    """Indices that are in bounds.

    Attributes:
        indices: those, moved where it must be.
        inside: whether those before were in bounds; None: they provably are.
        exists: whether the tensor has elements; None: it has.
        moved: axes along which indices may have moved.
    """

    indices: tuple[Expr, ...]
    inside: Expr | None
    exists: Expr | None
    moved: tuple[int, ...]


def check(facts: Facts, shape: Sequence[Expr], indices: Sequence[Expr]) -> Checked:
    """``indices`` moved into the bounds, axis by axis, where they are not provably there."""
    placed, inside, exists, moved = [], list[Expr](), list[Expr](), []
    for axis, (extent, index) in enumerate(zip(shape, indices, strict=True)):
        size, place = facts.value(extent), facts.value(index)
        above = place is None or not facts.is_at_least_0(place)
        below = place is None or size is None or not facts.is_at_least_0(size - 1 - place)
        if above:
            inside.append(E.compare("ge", index, 0))
        if below:
            inside.append(E.compare("lt", index, extent))
        if (above or below) and (size is None or not facts.is_positive(size)):
            exists.append(E.compare("gt", extent, 0))
        if below:
            index = E.binary("min", index, extent - 1)
        if above or below:
            index = E.binary("max", index, 0)
            moved.append(axis)
        placed.append(index)
    return Checked(tuple(placed), _all(inside), _all(exists), tuple(moved))


def _all(conditions: Sequence[Expr]) -> Expr | None:
    result: Expr | None = None
    for condition in conditions:
        result = condition if result is None else E.logical_and(result, condition)
    return result


def is_outside(facts: Facts, tensor: Tensor, indices: Sequence[Expr]) -> int | None:
    """An axis whose index is out of bounds wherever this is reached; None: there may be none."""
    for axis, (extent, index) in enumerate(zip(tensor.shape, indices, strict=True)):
        size, place = facts.value(extent), facts.value(index)
        if place is None or size is None:
            continue
        outside = facts.is_at_least_0(-1 - place) or facts.is_at_least_0(place - size)
        if outside and not any(facts.is_at_least_0(-1 - fact) for fact in facts.conditions):  # which would never hold
            return axis
    return None
