"""Symbolic dimensions: integer expressions over named sizes, in a canonical form.

A dimension (``Dim``) is an ``int`` or a ``DimExpr``: a sum of products of atoms with integer coefficients. An atom is a
``Symbol`` or an opaque operation (floordiv, floormod, min, max) on dimensions. Two dimensions with equal canonical forms are
equal for all values of their symbols; nothing is claimed about the others. Symbols stand for sizes: they are never negative.

``str`` gives text that ``parse`` reads back: ``2*n + 1``, ``(n + 3) // 4``, ``min(n, 8)``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Union

from forge.errors import ParseError


@dataclass(frozen=True)
class Symbol:
    """A named size."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Operation:
    """An opaque operation of two dimensions; ``op`` is one of floordiv, floormod, min, max."""

    op: str
    a: Dim
    b: Dim

    def __str__(self) -> str:
        if self.op in ("min", "max"):
            return f"{self.op}({self.a}, {self.b})"
        sign = "//" if self.op == "floordiv" else "%"
        return f"({_grouped(self.a)} {sign} {_grouped(self.b)})"


Atom = Union[Symbol, Operation]
Monomial = tuple[Atom, ...]  # sorted by text, repeated for powers; () is the constant term


@dataclass(frozen=True)
class DimExpr:
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
        return _collect(
            (tuple(sorted(m + n, key=str)), c * d) for m, c in _terms(self) for n, d in _terms(other)
        )

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return floormod(self, other)

    def __rmod__(self, other: Dim) -> Dim:
        return floormod(other, self)

    @cached_property
    def _text(self) -> str:
        parts = []
        for monomial, coefficient in self.terms:
            factors = [str(a) for a in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = "-" if coefficient < 0 else "+"
            parts.append(f" {sign} {'*'.join(factors)}")
        text = "".join(parts)
        return text[3:] if text.startswith(" + ") else "-" + text[3:]

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


Dim = Union[int, DimExpr]


def symbol(name: str) -> DimExpr:
    """The dimension that is just the symbol ``name``."""
    return DimExpr((((Symbol(name),), 1),))


def is_static(*dims: Dim) -> bool:
    """Whether all of ``dims`` are plain integers."""
    return all(isinstance(d, int) for d in dims)


def equal(a: Dim, b: Dim) -> bool:
    """Whether ``a`` and ``b`` are provably equal."""
    return a == b or (not is_static(a, b) and a - b == 0)


def different(a: Dim, b: Dim) -> bool:
    """Whether ``a`` and ``b`` provably differ for all values of their symbols."""
    difference = a - b
    low, high = bounds(difference)
    return (low is not None and low > 0) or (high is not None and high < 0)


def floordiv(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b else 0
    if b == 1:
        return a
    quotient = _exact_quotient(a, b)
    if quotient is not None:
        return quotient
    if isinstance(b, int) and b > 1:
        whole, rest = _split_by(a, b)
        if whole != 0:
            return whole + floordiv(rest, b)
    return _atom(Operation("floordiv", a, b))


def floormod(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a % b if b else 0
    if b == 1 or _exact_quotient(a, b) is not None:
        return 0
    if isinstance(b, int) and b > 1:
        a = _split_by(a, b)[1]
        if isinstance(a, int):
            return a % b
    return _atom(Operation("floormod", a, b))


def minimum(a: Dim, b: Dim) -> Dim:
    return _extremum("min", a, b)


def maximum(a: Dim, b: Dim) -> Dim:
    return _extremum("max", a, b)


def ceildiv(a: Dim, b: Dim) -> Dim:
    return floordiv(a + b - 1, b)


def product(dims: Iterable[Dim]) -> Dim:
    result: Dim = 1
    for d in dims:
        result = result * d
    return result


def symbols(*dims: Dim) -> list[str]:
    """Names of the symbols in ``dims``, in order of first appearance."""
    found: dict[str, None] = {}
    for d in dims:
        for monomial, _ in _terms(d):
            for atom in monomial:
                names = [atom.name] if isinstance(atom, Symbol) else symbols(atom.a, atom.b)
                found.update(dict.fromkeys(names))
    return list(found)


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """``dim`` with symbols replaced; symbols that ``values`` lacks stay."""
    if isinstance(dim, int):
        return dim
    total: Dim = 0
    for monomial, coefficient in dim.terms:
        term: Dim = coefficient
        for atom in monomial:
            term = term * _substitute_atom(atom, values)
        total = total + term
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


def bounds(dim: Dim) -> tuple[int | None, int | None]:
    """Lower and upper bound of ``dim`` over all sizes, None where unbounded or unknown."""
    low: int | None = 0
    high: int | None = 0
    for monomial, coefficient in _terms(dim):
        a, b = _monomial_bounds(monomial)
        if coefficient < 0:
            a, b = b, a
        low = None if low is None or a is None else low + coefficient * a
        high = None if high is None or b is None else high + coefficient * b
    return low, high


def parse(text: str) -> Dim:
    """Reads what ``str`` writes (integers, names, + - * // %, min, max, parentheses).

    Raises:
        ParseError: ``text`` is something else.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ParseError(f"dimension: {text!r} is not an integer expression; expected e.g. '2*n + 1'") from error
    return _from_ast(tree, text)


_BINARY: dict[type[ast.operator], Callable[[Dim, Dim], Dim]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: floordiv,
    ast.Mod: floormod,
}


def _from_ast(node: ast.expr, text: str) -> Dim:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            return symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -1 * _from_ast(operand, text)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_from_ast(left, text), _from_ast(right, text))
        case ast.Call(func=ast.Name(id=("min" | "max") as name), args=[a, b], keywords=[]):
            return _extremum(name, _from_ast(a, text), _from_ast(b, text))
    raise ParseError(f"dimension: {text!r} is not an integer expression; expected + - * // % min max of names and integers")


def _terms(dim: Dim) -> tuple[tuple[Monomial, int], ...]:
    return (((), dim),) if isinstance(dim, int) else dim.terms


def _collect(terms: Iterable[tuple[Monomial, int]]) -> Dim:
    total: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    kept = [(m, c) for m, c in total.items() if c]
    if not kept:
        return 0
    if len(kept) == 1 and kept[0][0] == ():
        return kept[0][1]
    kept.sort(key=lambda term: (-len(term[0]), [str(a) for a in term[0]]))
    return DimExpr(tuple(kept))


def _atom(atom: Atom) -> DimExpr:
    return DimExpr((((atom,), 1),))


def _grouped(dim: Dim) -> str:
    text = str(dim)
    return text if " " not in text or (text.startswith("(") and len(_terms(dim)) == 1) else f"({text})"


def _exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """``a / b`` where ``b`` is one product that divides every term of ``a``."""
    if len(_terms(b)) != 1:
        return 1 if a == b else None
    ((divisor, factor),) = _terms(b)
    if factor == 0:
        return None
    quotient: list[tuple[Monomial, int]] = []
    for monomial, coefficient in _terms(a):
        rest = list(monomial)
        for atom in divisor:
            if atom not in rest:
                return None
            rest.remove(atom)
        if coefficient % factor:
            return None
        quotient.append((tuple(rest), coefficient // factor))
    return _collect(quotient)


def _split_by(a: Dim, b: int) -> tuple[Dim, Dim]:
    """``(q, r)`` with ``a == q * b + r``, moving whole multiples of ``b`` into ``q``."""
    whole = _collect((m, c // b) for m, c in _terms(a))
    return whole, a - whole * b


def _extremum(op: str, a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b) if op == "min" else max(a, b)
    low, high = bounds(a - b)
    if low is not None and low >= 0:
        return b if op == "min" else a
    if high is not None and high <= 0:
        return a if op == "min" else b
    a, b = sorted((a, b), key=str)
    return _atom(Operation(op, a, b))


def _substitute_atom(atom: Atom, values: Mapping[str, Dim]) -> Dim:
    if isinstance(atom, Symbol):
        return values.get(atom.name, _atom(atom))
    a, b = substitute(atom.a, values), substitute(atom.b, values)
    if atom.op in ("min", "max"):
        return _extremum(atom.op, a, b)
    return floordiv(a, b) if atom.op == "floordiv" else floormod(a, b)


def _monomial_bounds(monomial: Monomial) -> tuple[int | None, int | None]:
    low: int | None = 1
    high: int | None = 1
    for atom in monomial:
        a, b = _atom_bounds(atom)
        if a is None or a < 0 or low is None:
            return None, None
        low, high = low * a, None if high is None or b is None else high * b
    return low, high


def _atom_bounds(atom: Atom) -> tuple[int | None, int | None]:
    if isinstance(atom, Symbol):
        return 0, None
    (low_a, high_a), (low_b, high_b) = bounds(atom.a), bounds(atom.b)
    if atom.op == "floormod" and isinstance(atom.b, int) and atom.b > 0:
        return 0, atom.b - 1
    if atom.op == "floordiv" and isinstance(atom.b, int) and atom.b > 0:
        return (None if low_a is None else low_a // atom.b), (None if high_a is None else high_a // atom.b)
    if atom.op == "max":
        lows = [x for x in (low_a, low_b) if x is not None]
        return (max(lows) if lows else None), (None if high_a is None or high_b is None else max(high_a, high_b))
    if atom.op == "min":
        highs = [x for x in (high_a, high_b) if x is not None]
        return (None if low_a is None or low_b is None else min(low_a, low_b)), (min(highs) if highs else None)
    return None, None
