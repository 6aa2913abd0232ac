"""Index algebra: integer expressions as canonical polynomials, with what is known about the ranges of variables.

A ``Poly`` is a sum of products of atoms with integer coefficients. An atom is a variable, or an operation that cannot be
expanded: ``floordiv``, ``min`` and ``max`` of polynomials, or any other expression (``opaque``). ``floormod(a, b)`` is
``a - b * floordiv(a, b)``, so that ``b * (a // b) + a % b`` cancels to ``a`` by itself.

Sizes (variables without a range) are taken to be at least 0. Facts are only used where they are proven: an index that cannot be
simplified stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import gcd

from forge.dims import collected, divided
from forge.loops import Loop
from forge.tir import expr as E
from forge.tir.expr import Expr, Var
from forge.tir.visit import free_variables

Monomial = tuple[int, ...]  # numbers of atoms, sorted; repeated for powers


@dataclass(frozen=True, slots=True)
class Poly:
    """A canonical sum of products; equal polynomials of one ``Algebra`` compare equal."""

    terms: tuple[tuple[Monomial, int], ...]

    @property
    def constant(self) -> int | None:
        """The value, if it is a plain number."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and self.terms[0][0] == () else None

    @property
    def only_adds(self) -> bool:
        """Whether no coefficient is negative: at least 0 where all atoms are."""
        return all(c >= 0 for _, c in self.terms)

    def __add__(self, other: Poly) -> Poly:
        return collect((*self.terms, *other.terms))

    def __neg__(self) -> Poly:
        return Poly(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Poly) -> Poly:
        return self + -other

    def __mul__(self, other: Poly) -> Poly:
        return collect((tuple(sorted(m + n)), c * d) for m, c in self.terms for n, d in other.terms)


ZERO = Poly(())


def number(value: int) -> Poly:
    """Returns the polynomial of a plain number."""
    return Poly((((), value),)) if value else ZERO


ONE = number(1)


def collect(terms: Iterable[tuple[Monomial, int]]) -> Poly:
    """Adds up the terms of equal monomials, and drops those that vanish."""
    return Poly(tuple(sorted(collected(terms))))


@dataclass(frozen=True, slots=True)
class Atom:
    """``kind``: var, floordiv, min, max or opaque; ``a`` and ``b`` are the operands of an operation."""

    kind: str
    expr: Expr | None
    a: Poly
    b: Poly
    variables: frozenset[Var]


@dataclass
class Algebra:
    """Polynomials over the variables of one function.

    ``extents`` maps a loop variable to its number of iterations: it runs over ``range(extent)``.
    """

    extents: dict[Var, Poly] = field(default_factory=dict)
    _atoms: list[Atom] = field(default_factory=list)
    _numbers: dict[object, int] = field(default_factory=dict)

    def declare(self, variable: Var, extent: Expr) -> None:
        """Says that ``variable`` runs over ``range(extent)``."""
        self.extents[variable] = self.poly(extent)

    def loop(self, name: str, extent: Expr) -> Loop:
        """Returns a loop whose variable is declared."""
        axis = Loop(E.var(name), extent)
        self.declare(axis.var, extent)
        return axis

    def loops(self, shape: Sequence[Expr]) -> list[Loop]:
        """Returns a loop over each dimension of ``shape``, all declared."""
        return [self.loop(f"i{k}", extent) for k, extent in enumerate(shape)]

    def poly(self, x: Expr) -> Poly:
        """Returns the canonical form of a scalar int64 expression."""
        match x:
            case E.Const(value=value):
                return number(int(value))  # type: ignore[arg-type]
            case E.Var():
                return self._atom(x, lambda: Atom("var", x, ZERO, ZERO, frozenset((x,))))
            case E.Binary(op=op, a=a, b=b):
                return self._binary(x, op, self.poly(a), self.poly(b))
        return self._opaque(x)

    def _binary(self, x: Expr, op: str, a: Poly, b: Poly) -> Poly:
        match op:
            case "add":
                return a + b
            case "sub":
                return a - b
            case "mul":
                return a * b
            case "floordiv":
                return self.floordiv(a, b)
            case "floormod":
                return a - b * self.floordiv(a, b) if self.positive(b) else self._opaque(x)
            case "min" | "max":
                return self._extremum(op, a, b)
        return self._opaque(x)

    def _opaque(self, x: Expr) -> Poly:
        return self._atom(x, lambda: Atom("opaque", x, ZERO, ZERO, frozenset(free_variables(x))))

    def _operation(self, kind: str, a: Poly, b: Poly) -> Poly:
        return self._atom((kind, a, b), lambda: Atom(kind, None, a, b, self.variables(a) | self.variables(b)))

    def _atom(self, key: object, make: Callable[[], Atom]) -> Poly:
        place = self._numbers.get(key)
        if place is None:
            place = self._numbers[key] = len(self._atoms)
            self._atoms.append(make())
        return Poly((((place,), 1),))

    def variables(self, p: Poly) -> frozenset[Var]:
        """Returns the variables that ``p`` depends on."""
        found: frozenset[Var] = frozenset()
        for monomial, _ in p.terms:
            for place in monomial:
                found |= self._atoms[place].variables
        return found

    def coefficient(self, p: Poly, variable: Var) -> Poly | None:
        """Returns what one step of ``variable`` adds to ``p``; None if ``p`` is not affine in it."""
        slope: list[tuple[Monomial, int]] = []
        for monomial, factor in p.terms:
            using = [place for place in monomial if variable in self._atoms[place].variables]
            if not using:
                continue
            if len(using) > 1 or self._atoms[using[0]].kind != "var":
                return None
            slope.append((tuple(place for place in monomial if place != using[0]), factor))
        return collect(slope)

    def divisors(self, p: Poly, variable: Var) -> set[Poly]:
        """Returns the divisors of ``variable`` itself inside ``p``: numbers greater than 1, and sizes."""
        found: set[Poly] = set()
        own = self.poly(variable)
        for monomial, _ in p.terms:
            for atom in (self._atoms[place] for place in monomial):
                if variable not in atom.variables or atom.kind in ("var", "opaque"):
                    continue
                if atom.kind == "floordiv" and atom.a == own and self.positive(atom.b):
                    found.add(atom.b)
                found |= self.divisors(atom.a, variable) | self.divisors(atom.b, variable)
        return found

    def floordiv(self, a: Poly, b: Poly) -> Poly:
        """Returns ``a // b`` for ``b > 0``."""
        if a.constant is not None and b.constant is not None:
            return number(a.constant // b.constant if b.constant else 0)
        if b.constant == 1:
            return a
        if not self.positive(b):
            return self._operation("floordiv", a, b)
        whole, rest = _divide(a, b)
        if rest == ZERO or self.within(rest, b):
            return whole
        return whole + self._reduced_division(rest, b)

    def _reduced_division(self, a: Poly, b: Poly) -> Poly:
        """``(g * p + l) // (g * q) == p // q`` where ``0 <= l < g``; ``(p // c) // q == p // (c * q)``."""
        for divisor in self._common_factors(a, b):
            quotient, rest = _divide(a, divisor)
            if rest == ZERO or self.within(rest, divisor):
                return self.floordiv(quotient, _divide(b, divisor)[0])
        inner = self._sole_division(a)
        if inner is not None and self.positive(inner.b):
            return self.floordiv(inner.a, inner.b * b)
        return self._operation("floordiv", a, b)

    def _sole_division(self, p: Poly) -> Atom | None:
        if len(p.terms) != 1 or p.terms[0][1] != 1 or len(p.terms[0][0]) != 1:
            return None
        atom = self._atoms[p.terms[0][0][0]]
        return atom if atom.kind == "floordiv" else None

    def _common_factors(self, a: Poly, b: Poly) -> list[Poly]:
        """Products greater than 1 that divide ``b`` and a term of ``a``, greatest number first."""
        if len(b.terms) != 1:
            return []
        monomial, factor = b.terms[0]
        found: dict[Poly, None] = {}
        for term, coefficient in a.terms:
            common = tuple((Counter(term) & Counter(monomial)).elements())
            divisor = Poly(((common, gcd(coefficient, factor)),))
            if divisor not in (ONE, b):
                found[divisor] = None
        return sorted(found, key=lambda p: (len(p.terms[0][0]), p.terms[0][1]), reverse=True)

    def _extremum(self, op: str, a: Poly, b: Poly) -> Poly:
        if self.nonnegative(a - b):
            return b if op == "min" else a
        if self.nonnegative(b - a):
            return a if op == "min" else b
        return self._operation(op, a, b)

    def within(self, p: Poly, b: Poly) -> bool:
        """Returns whether ``0 <= p < b`` is proven."""
        return self.nonnegative(p) and self.nonnegative(b - ONE - p)

    def positive(self, p: Poly) -> bool:
        """Returns whether ``p`` may be divided by: it is proven positive, or a product of sizes (unused when it is 0)."""
        if p.constant is not None:
            return p.constant > 0
        return all(c > 0 for _, c in p.terms) and self._is_size(p)

    def nonnegative(self, p: Poly) -> bool:
        """Returns whether ``p >= 0`` is proven for all values of its variables."""
        low = self._lowest(p)
        return low is not None and low.only_adds

    def _lowest(self, p: Poly) -> Poly | None:
        """A lower bound of ``p`` over its loop variables, in terms of sizes."""
        pending = [v for v in self.extents if v in self.variables(p)]
        for variable in reversed(pending):
            slope = self.coefficient(p, variable)
            if slope is None:
                return self._lowest_by_terms(p)
            if slope.only_adds and self._is_size(slope):
                lowest_at = ZERO
            elif (-slope).only_adds and self._is_size(slope):
                lowest_at = self.extents[variable] - ONE
            else:
                return None
            p = p + slope * (lowest_at - self.poly(variable))
        return p if self._is_size(p) else self._lowest_by_terms(p)

    def _lowest_by_terms(self, p: Poly) -> Poly | None:
        bounds = self.bounds(p)
        return number(bounds[0]) if bounds is not None else None

    def _is_size(self, p: Poly) -> bool:
        """Whether every atom is known to be at least 0 and depends on no loop variable."""
        return all(self._atom_is_size(self._atoms[place]) for m, _ in p.terms for place in m)

    def _atom_is_size(self, atom: Atom) -> bool:
        if atom.kind == "var":
            return atom.expr not in self.extents
        return atom.kind != "opaque" and all(p.only_adds and self._is_size(p) for p in (atom.a, atom.b))

    def least(self, p: Poly) -> Poly | None:
        """Returns ``p``, or a lower bound of it, without choices among numbers; None where there is none."""
        total = ZERO
        for monomial, coefficient in p.terms:
            choices = [limits for place in monomial if (limits := _chosen_numbers(self._atoms[place].expr)) is not None]
            if not choices:
                total = total + Poly(((monomial, coefficient),))
            elif len(monomial) == 1:
                total = total + number(min(coefficient * limit for limit in choices[0]))
            else:
                return None
        return total

    def bounds(self, p: Poly) -> tuple[int, int] | None:
        """Returns the smallest and largest value as numbers, where all ranges are known numbers."""
        low = high = 0
        for monomial, coefficient in p.terms:
            smallest = largest = coefficient
            for place in monomial:
                limits = self._atom_bounds(self._atoms[place])
                if limits is None:
                    return None
                corners = [x * y for x in (smallest, largest) for y in limits]
                smallest, largest = min(corners), max(corners)
            low, high = low + smallest, high + largest
        return low, high

    def _atom_bounds(self, atom: Atom) -> tuple[int, int] | None:
        if atom.kind == "var":
            assert isinstance(atom.expr, Var)
            extent = self.extents.get(atom.expr)
            limit = extent.constant if extent is not None else None
            return None if limit is None else (0, max(0, limit - 1))
        if atom.kind == "opaque":
            return None
        a, b = self.bounds(atom.a), self.bounds(atom.b)
        if a is None or b is None:
            return None
        if atom.kind == "floordiv":
            return (a[0] // b[0], a[1] // b[0]) if b[0] == b[1] and b[0] > 0 else None
        choose = min if atom.kind == "min" else max
        return choose(a[0], b[0]), choose(a[1], b[1])

    def expr(self, p: Poly, order: Sequence[Var] = ()) -> Expr:
        """Returns ``p`` as an expression; terms whose variables come last in ``order`` are added last."""
        depth = {v: k + 1 for k, v in enumerate(order)}
        total: Expr | None = None
        for monomial, coefficient in sorted(p.terms, key=lambda term: (self._depth(term[0], depth), term)):
            total = self._add_term(total, monomial, coefficient, order)
        return E.const(0) if total is None else total

    def _add_term(self, total: Expr | None, monomial: Monomial, coefficient: int, order: Sequence[Var]) -> Expr:
        term: Expr = E.const(1)
        for place in monomial:
            term = term * self._atom_expr(self._atoms[place], order)
        if total is not None and coefficient < 0:
            return total - term * -coefficient
        scaled = term * coefficient
        return scaled if total is None else total + scaled

    def _depth(self, monomial: Monomial, depth: dict[Var, int]) -> int:
        if not monomial:
            return 1000
        return max((depth.get(v, 0) for place in monomial for v in self._atoms[place].variables), default=0)

    def _atom_expr(self, atom: Atom, order: Sequence[Var]) -> Expr:
        if atom.expr is not None:
            return atom.expr
        return E.binary(atom.kind, self.expr(atom.a, order), self.expr(atom.b, order))


def _chosen_numbers(x: Expr | None) -> tuple[int, int] | None:
    """The smallest and the largest of the numbers that ``x`` chooses from."""
    if isinstance(x, E.Const):
        return int(x.value), int(x.value)  # type: ignore[arg-type]
    if not isinstance(x, E.Select):
        return None
    found = [_chosen_numbers(x.a), _chosen_numbers(x.b)]
    limits = [limit for pair in found if pair is not None for limit in pair]
    return None if None in found else (min(limits), max(limits))


def _divide(a: Poly, b: Poly) -> tuple[Poly, Poly]:
    """``(q, r)`` with ``a == q * b + r``: terms that ``b`` (one product) divides go to ``q``; numbers leave a rest in [0, b)."""
    if len(b.terms) != 1:
        return (ONE, ZERO) if a == b else (ZERO, a)
    divisor, factor = b.terms[0]
    quotient: list[tuple[Monomial, int]] = []
    for monomial, coefficient in a.terms:
        rest = divided(monomial, divisor)
        if rest is not None and (monomial == divisor or coefficient % factor == 0):
            quotient.append((rest, coefficient // factor))
    whole = collect(quotient)
    return whole, a - whole * b
