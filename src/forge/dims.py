"""Symbolic dimensions: integer expressions over named sizes, in a canonical form.

A dimension (``Dim``) is an ``int`` or a ``DimExpr``: a sum of products of atoms with integer coefficients. An atom is a
``Symbol`` or an opaque operation (floordiv, floormod, min, max) on dimensions. Two dimensions with equal canonical forms are
equal for all values of their symbols; nothing is claimed about the others. Symbols stand for sizes: they are never negative.
``x // 0`` and ``x % 0`` are 0; where the divisor is symbolic, exact quotients are cancelled on the premise that it is not 0.

``str`` gives text that ``dims_text.parse`` reads back: ``2*n + 1``, ``((n + 3) // 4)``, ``min(8, n)``. A symbol may have any
name; one that is not an identifier is quoted: ``2*$"batch size"``. Expressions are bounded (terms, degree, nesting,
coefficients), so that no operation takes long: what exceeds the bounds raises InvalidGraphError.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial, reduce
from typing import TypeVar, Union

from forge.errors import InvalidGraphError

MAX_CHOICES = 16
"""Of which an expression may be the smallest or largest, to be brought into one form with others."""

MAX_TERMS = 1024
MAX_DEGREE = 32
MAX_NESTING = 32
MAX_COEFFICIENT = 1 << 96
MAX_TEXT = 20_000
MAX_NAME = 200
TYPICAL = 256
"""What a symbol is assumed to be, where that matters to speed only and nobody says."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_RESERVED = re.compile(r"min|max|True|False|None|meta|(?:inf|nan)(?:f|f16|bf16|f64)")  # other tokens of the text form


class _Canonical:
    """What equals others of its class by its text, as `_written` gives it."""

    @cached_property
    def _text(self) -> str:
        return self._written()

    def _written(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, self.__class__) and self._text == other._text)

    def __hash__(self) -> int:
        return hash(self._text)


@dataclass(frozen=True, eq=False)
class Symbol(_Canonical):
    """A named size."""

    name: str

    nesting = 0

    def _written(self) -> str:
        return self.name if is_identifier(self.name) else "$" + json.dumps(self.name, ensure_ascii=not self.name.isprintable())


@dataclass(frozen=True, eq=False)
class Operation(_Canonical):
    """An opaque operation of two dimensions; ``op`` is one of floordiv, floormod, min, max."""

    op: str
    a: Dim
    b: Dim

    def _written(self) -> str:
        if self.op in ("min", "max"):
            return f"{self.op}({self.a}, {self.b})"
        return f"({_grouped(self.a)} {'//' if self.op == 'floordiv' else '%'} {_grouped(self.b)})"

    @cached_property
    def nesting(self) -> int:
        """How many operations are inside each other, at most."""
        return 1 + max((atom.nesting for d in (self.a, self.b) for m, _ in _terms(d) for atom in m), default=0)


Atom = Union[Symbol, Operation]  # noqa: UP007 - the members are needed at run time
Monomial = tuple[Atom, ...]  # sorted by text, repeated for powers; () is the constant term


@dataclass(frozen=True, eq=False, repr=False)
class DimExpr(_Canonical):
    """A canonical sum of products that is not a plain number."""

    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: Dim) -> Dim:
        return _collect([*_terms(self), *_terms(other)])

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return self + (-1 * other)

    def __rsub__(self, other: Dim) -> Dim:
        return (self * -1) + other

    def __mul__(self, other: Dim) -> Dim:
        if isinstance(other, int):
            return _collect((m, c * other) for m, c in self.terms)
        if len(self.terms) * len(other.terms) > MAX_TERMS:
            raise too_large(f"a product of {len(self.terms)} and {len(other.terms)} terms")
        return _collect((tuple(sorted(m + n, key=str)), c * d) for m, c in self.terms for n, d in _terms(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return floormod(self, other)

    def __rmod__(self, other: Dim) -> Dim:
        return floormod(other, self)

    def _written(self) -> str:
        parts = []
        for monomial, coefficient in self.terms:
            factors = [str(a) for a in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = "-" if coefficient < 0 else "+"
            parts.append(f" {sign} {'*'.join(factors)}")
        text = "".join(parts)
        return text[3:] if text.startswith(" + ") else "-" + text[3:]

    __repr__ = _Canonical.__str__


Dim = Union[int, DimExpr]  # noqa: UP007 - the members are needed at run time


@cache
def symbol(name: str) -> DimExpr:
    """The dimension that is just the symbol ``name``.

    Raises:
        InvalidGraphError: it is empty, or longer than ``MAX_NAME``.
    """
    if not 0 < len(name) <= MAX_NAME:
        raise InvalidGraphError(f"dimension: {shown(name)} cannot name a symbol; expected 1 to {MAX_NAME} characters")
    _KNOWN.add(name)
    return of_atom(Symbol(name))


def of_atom(atom: Atom) -> DimExpr:
    """The dimension that is just ``atom``."""
    return DimExpr((((atom,), 1),))


def sole_atom(dim: Dim) -> Atom | None:
    """The atom that ``dim`` is; None when it is a number or a sum or product."""
    if isinstance(dim, int) or len(dim.terms) != 1:
        return None
    (monomial, coefficient) = dim.terms[0]
    return monomial[0] if coefficient == 1 and len(monomial) == 1 else None


def symbol_name(dim: Dim) -> str | None:
    """The name of the symbol that ``dim`` is; None when it is a number or an expression."""
    atom = sole_atom(dim)
    return atom.name if isinstance(atom, Symbol) else None


def is_identifier(name: str) -> bool:
    """Whether ``name`` is an identifier (ASCII) that means nothing else in the text form."""
    return bool(_NAME.match(name)) and not _RESERVED.fullmatch(name)


_KNOWN: set[str] = set()  # of all symbols so far
_COUNTER = itertools.count()


def fresh(prefix: str = "d") -> DimExpr:
    """A symbol whose name no other symbol has had in this process."""
    start = prefix[: MAX_NAME // 2]
    return symbol(next(name for k in _COUNTER if (name := f"{start}_{k}") not in _KNOWN))


def is_static(*dims: Dim) -> bool:
    """Whether all of ``dims`` are plain integers."""
    return all(isinstance(d, int) for d in dims)


def equal(a: Dim, b: Dim) -> bool:
    """Whether ``a`` and ``b`` are provably equal."""
    return a == b


def different(a: Dim, b: Dim) -> bool:
    """Whether ``a`` and ``b`` provably differ for all values of their symbols."""
    if is_static(a, b):
        return a != b
    low, high = bounds(a - b)
    return (low is not None and low > 0) or (high is not None and high < 0)


def floordiv(a: Dim, b: Dim) -> Dim:
    """``a / b`` rounded down; 0 where ``b`` is 0."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b else 0
    if a == 0 or b == 0:
        return 0
    quotient = _exact_quotient(a, b)
    if quotient is not None:
        return quotient
    if isinstance(b, int) and b > 1:
        whole, rest = _split_by(a, b)
        return whole + _small_floordiv(rest, b)
    return _atom(Operation("floordiv", a, b))


def floormod(a: Dim, b: Dim) -> Dim:
    """``a - a // b * b``; 0 where ``b`` is 0."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b if b else 0
    if a == 0 or b == 0 or _exact_quotient(a, b) is not None:
        return 0
    if isinstance(b, int) and b > 1:
        a = _split_by(a, b)[1]
        low, high = bounds(a)
        if isinstance(a, int) or (low is not None and low >= 0 and high is not None and high < b):
            return a
    return _atom(Operation("floormod", a, b))


def minimum(a: Dim, b: Dim) -> Dim:
    return _extremum("min", a, b)


def maximum(a: Dim, b: Dim) -> Dim:
    return _extremum("max", a, b)


def ceildiv(a: Dim, b: Dim) -> Dim:
    """``a / b`` rounded up, for ``b`` above 0."""
    return floordiv(a + b - 1, b)


def product(dims: Iterable[Dim]) -> Dim:
    return math.prod(dims)


OPERATIONS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "floordiv": floordiv,
    "floormod": floormod, "min": minimum, "max": maximum,
}  # fmt: skip


def symbols(*dims: Dim) -> list[str]:
    """Names of the symbols in ``dims``, in order of first appearance."""
    found: dict[str, None] = {}
    for d in dims:
        for monomial, _ in () if type(d) is int else _terms(d):
            for atom in monomial:
                names = [atom.name] if isinstance(atom, Symbol) else symbols(atom.a, atom.b)
                found.update(dict.fromkeys(names))
    return list(found)


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """``dim`` with symbols replaced, all at once; symbols that ``values`` lacks stay."""
    if isinstance(dim, int):
        return dim
    total: Dim = 0
    for monomial, coefficient in dim.terms:
        total = total + product([coefficient, *(_substitute_atom(atom, values) for atom in monomial)])
    return total


def evaluate(dim: Dim, values: Mapping[str, int]) -> int:
    """The number that ``dim`` is for these sizes.

    Raises:
        KeyError: a symbol has no value.
    """
    result = substitute(dim, values)
    if isinstance(result, int):
        return result
    raise KeyError(f"no value for {', '.join(symbols(result))} in {dim}")


def typical(dim: Dim, sizes: Mapping[str, int]) -> int:
    """The number that ``dim`` is for these typical sizes; other symbols are ``TYPICAL``."""
    return evaluate(dim, {name: sizes.get(name, TYPICAL) for name in symbols(dim)})


def atoms(dim: Dim) -> Iterator[Atom]:
    """Those that ``dim`` consists of; of an operation that may be negative, those of its operands."""
    for monomial, _ in _terms(dim):
        for atom in monomial:
            if isinstance(atom, Symbol) or (low := _operation_bounds(atom, None)[0]) is not None and low >= 0:
                yield atom
            else:
                yield from atoms(atom.a)
                yield from atoms(atom.b)


def replace_atoms(dim: Dim, values: Mapping[Atom, Dim]) -> Dim:
    """``dim`` with atoms replaced, all at once."""
    total: Dim = 0
    for monomial, coefficient in _terms(dim):
        factors = [values[a] if a in values else _with_atoms_replaced(a, values) for a in monomial]
        total = total + product([coefficient, *factors])
    return total


def _with_atoms_replaced(atom: Atom, values: Mapping[Atom, Dim]) -> Dim:
    if isinstance(atom, Symbol):
        return of_atom(atom)
    return OPERATIONS[atom.op](replace_atoms(atom.a, values), replace_atoms(atom.b, values))


def linear(dim: Dim) -> tuple[str, int, int] | None:
    """``(symbol, factor, constant)`` where ``dim`` is ``factor * symbol + constant``; None for anything else."""
    terms = dict(_terms(dim))
    constant = terms.pop((), 0)
    match list(terms.items()):
        case [((Symbol(name=name),), factor)]:
            return name, factor, constant
    return None


def solve(dim: Dim, size: int) -> tuple[str, int] | None:
    """``(symbol, value)`` with which ``dim`` is ``size``, where ``dim`` is linear in a single symbol.

    None: it is not, or no value from 0 on does it.
    """
    found = linear(dim)
    if found is None:
        return None
    name, factor, constant = found
    value, remainder = divmod(size - constant, factor)
    return (name, value) if remainder == 0 and value >= 0 else None


def bounds(dim: Dim, largest: int | None = None) -> tuple[int | None, int | None]:
    """Lower and upper bound of ``dim``, None where unbounded or unknown.

    Over all sizes; or over those where no size, and no product of sizes and of operations on sizes, is above ``largest``.
    """
    low: int | None = 0
    high: int | None = 0
    for monomial, coefficient in _terms(dim):
        a, b = _monomial_bounds(monomial, largest)
        if coefficient < 0:
            a, b = b, a
        low = None if low is None or a is None else low + coefficient * a
        high = None if high is None or b is None else high + coefficient * b
    return low, high


def is_int64(dim: Dim) -> bool:
    """Whether all numbers in ``dim`` are int64, the type in which native code evaluates it."""
    limit = 1 << 63
    return all(
        -limit <= coefficient < limit and all(isinstance(a, Symbol) or (is_int64(a.a) and is_int64(a.b)) for a in monomial)
        for monomial, coefficient in _terms(dim)
    )


def shown(text: str) -> str:
    """``text`` in a message."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def too_large(what: str) -> InvalidGraphError:
    """The error of an expression that exceeds a bound."""
    return InvalidGraphError(f"dimension: {what} exceeds what a dimension may be")


def _terms(dim: Dim) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(dim, DimExpr):
        return dim.terms
    if isinstance(dim, int):
        return (((), dim),)
    raise TypeError(f"dimension: got {dim!r} of type {type(dim).__name__}; expected an int or a DimExpr")


A = TypeVar("A")


def collected(terms: Iterable[tuple[tuple[A, ...], int]]) -> list[tuple[tuple[A, ...], int]]:
    """The sum of terms (monomials with coefficients) with each monomial once and no coefficient of 0."""
    total: dict[tuple[A, ...], int] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    return [(m, c) for m, c in total.items() if c]


def divided(monomial: tuple[A, ...], divisor: tuple[A, ...]) -> tuple[A, ...] | None:
    """The quotient of two products of atoms; None where ``divisor`` does not divide ``monomial``."""
    rest = list(monomial)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def _collect(terms: Iterable[tuple[Monomial, int]]) -> Dim:
    kept = collected(terms)
    if not kept:
        return 0
    if len(kept) == 1 and kept[0][0] == ():
        return kept[0][1]
    if len(kept) > MAX_TERMS or any(len(m) > MAX_DEGREE or abs(c) >= MAX_COEFFICIENT for m, c in kept):
        raise too_large("a sum of many terms, a high power or a large coefficient")
    kept.sort(key=lambda term: (-len(term[0]), [str(a) for a in term[0]]))
    return DimExpr(tuple(kept))


def _atom(atom: Operation) -> DimExpr:
    if atom.nesting > MAX_NESTING or len(str(atom)) > MAX_TEXT:
        raise too_large("an expression of many operations")
    return of_atom(atom)


def _grouped(dim: Dim) -> str:
    """``dim`` as an operand of ``//`` and ``%``."""
    if isinstance(dim, int):
        return str(dim) if dim >= 0 else f"({dim})"
    return f"({dim})" if sole_atom(dim) is None else str(dim)


def _exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """``q`` with ``a == q * b``, where ``q`` has one term or ``b`` has."""
    if b == 1 or a == b:
        return a if b == 1 else 1
    terms = _terms(b)
    if len(terms) == 1:
        return _term_quotient(_terms(a), terms[0])
    quotient = _term_quotient(_terms(a)[:1], terms[0])
    return quotient if quotient is not None and quotient * b == a else None


def _term_quotient(dividend: Iterable[tuple[Monomial, int]], divisor: tuple[Monomial, int]) -> Dim | None:
    """The sum ``dividend`` divided by one term, when that divides every term."""
    atoms, factor = divisor
    quotient: list[tuple[Monomial, int]] = []
    for monomial, coefficient in dividend:
        rest = divided(monomial, atoms)
        if rest is None or coefficient % factor:
            return None
        quotient.append((rest, coefficient // factor))
    return _collect(quotient)


def _split_by(a: Dim, b: int) -> tuple[Dim, Dim]:
    """``(q, r)`` with ``a == q * b + r``, moving whole multiples of ``b`` into ``q``."""
    whole = _collect((m, c // b) for m, c in _terms(a))
    return whole, a - whole * b


def _small_floordiv(a: Dim, b: int) -> Dim:
    """``a // b`` where the coefficients of ``a`` are in ``range(b)``."""
    low, high = bounds(a)
    if low is not None and high is not None and low // b == high // b:
        return low // b
    constant = dict(_terms(a)).get((), 0)
    match sole_atom(a - constant):
        case Operation(op="floordiv", a=inner, b=int(divisor)) if divisor > 0:
            return floordiv(inner + constant * divisor, divisor * b)  # (x // c + k) // b == (x + k*c) // (c*b)
    for op in ("min", "max"):
        choices = _choices(op, a)
        if 1 < len(choices) <= MAX_CHOICES:
            return reduce(partial(_extremum, op), [floordiv(choice, b) for choice in choices])
    return _atom(Operation("floordiv", a, b))


def _extremum(op: str, a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b) if op == "min" else max(a, b)
    choices = list(dict.fromkeys([*_choices(op, a), *_choices(op, b)]))
    if len(choices) > MAX_CHOICES:
        choices = [a, b]
    kept: list[Dim] = []
    for choice in choices:
        if not any(_settles(op, other, choice) for other in kept):
            kept = [*(other for other in kept if not _settles(op, choice, other)), choice]
    return reduce(lambda found, choice: _atom(Operation(op, *sorted((choice, found), key=str))), sorted(kept, key=str))


def _choices(op: str, dim: Dim) -> list[Dim]:
    """What ``dim`` is the largest or smallest of: ``2*a + 1`` and ``2*b + 1`` for ``2*max(a, b) + 1``."""
    constant = dict(_terms(dim)).get((), 0)
    match _terms(dim - constant):
        case (((Operation(op=name, a=a, b=b),), factor),) if name == op and factor > 0:
            return [factor * choice + constant for part in (a, b) for choice in _choices(op, part)]
    return [dim]


def _settles(op: str, a: Dim, b: Dim) -> bool:
    """Whether ``a`` is provably the extremum of ``a`` and ``b``."""
    match sole_atom(a), sole_atom(b):
        case Operation("floordiv", c, int(divisor)), Operation("floordiv", d, int(other)) if divisor == other > 0:
            a, b = c, d  # of quotients by one divisor, the dividends decide
    low, high = bounds(a - b)
    return high is not None and high <= 0 if op == "min" else low is not None and low >= 0


def _substitute_atom(atom: Atom, values: Mapping[str, Dim]) -> Dim:
    if isinstance(atom, Symbol):
        return values[atom.name] if atom.name in values else of_atom(atom)
    return OPERATIONS[atom.op](substitute(atom.a, values), substitute(atom.b, values))


def _monomial_bounds(monomial: Monomial, largest: int | None) -> tuple[int | None, int | None]:
    low: int | None = 1
    high: int | None = 1
    of_sizes = 0  # the largest factor bounded only by ``largest``, which bounds their product too: they count once
    for atom in monomial:
        a, b = (0, None) if isinstance(atom, Symbol) else _operation_bounds(atom, None)
        if b is None and largest is not None:
            (a, b) = (0, largest) if isinstance(atom, Symbol) else _operation_bounds(atom, largest)
            if b is not None and len(monomial) > 1:
                of_sizes, b = max(of_sizes, b), 1
        if a is None or a < 0 or low is None:
            return (a, b) if len(monomial) == 1 else (None, None)
        low, high = low * a, None if high is None or b is None else high * b
    return low, high if high is None else high * max(of_sizes, 1)


@lru_cache(1 << 14)
def _operation_bounds(atom: Operation, largest: int | None) -> tuple[int | None, int | None]:
    (low_a, high_a), (low_b, high_b) = bounds(atom.a, largest), bounds(atom.b, largest)
    lows, highs = ([x for x in pair if x is not None] for pair in ((low_a, low_b), (high_a, high_b)))
    if atom.op == "max":
        return max(lows, default=None), max(highs) if len(highs) == 2 else None
    if atom.op == "min":
        return min(lows) if len(lows) == 2 else None, min(highs, default=None)
    if low_b is None or low_b < 0:
        return None, None
    if atom.op == "floormod":
        return 0, None if high_b is None else max(high_b - 1, 0)
    if isinstance(atom.b, int):
        return (None if low_a is None else low_a // atom.b), (None if high_a is None else high_a // atom.b)
    return (0, None if high_a is None else high_a) if low_a is not None and low_a >= 0 else (None, None)
