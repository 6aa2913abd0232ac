"""A scope with the sizes of a program: what its symbols are in the graph, and numbers that it computes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from forge import dims
from forge.dims import Dim, DimExpr, Operation, Symbol
from forge.errors import ImportModelError
from forge.frontends.scope import S, Scope
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.ops.core.composer import Composer


@dataclass(eq=False, repr=False)
class SizeScope(Scope[S]):
    """Symbols and computed numbers of a program.

    Attributes:
        numbers: computed numbers by their names: sizes, or values of rank 0.
        symbols: the program's symbols -> sizes of the graph.
        sources: symbols of the graph -> a value and the axis along which it has that size.
        counts: symbols of the graph -> values of rank 0 that they are made of.
    """

    numbers: dict[str, Dim | Value] = field(default_factory=dict)
    symbols: dict[str, Dim] = field(default_factory=dict)
    sources: dict[str, tuple[Value, int]] = field(default_factory=dict)
    counts: dict[str, Value] = field(default_factory=dict)

    def size(self, g: Composer, size: Dim) -> Value:
        """``size`` as a tensor of rank 0 and type int64."""
        if not isinstance(size, DimExpr):
            return g.constant(size, "int64")
        total: Value | None = None
        for monomial, coefficient in size.terms:
            term = g.constant(coefficient, "int64") if coefficient != 1 or not monomial else None
            for atom in monomial:
                factor = self._atom(g, atom)
                term = factor if term is None else g.call("multiply", term, factor)
            assert term is not None
            total = term if total is None else g.call("add", total, term)
        assert total is not None
        return total

    def _atom(self, g: Composer, atom: Symbol | Operation) -> Value:
        if isinstance(atom, Symbol):
            counted = self.count(atom.name)
            if counted is not None:
                return counted
            value, axis = self.source(atom.name)
            extent = g.extent(value, axis)
            linear = dims.linear(value.shape[axis])
            assert linear is not None
            _, factor, constant = linear
            less = g.call("subtract", extent, g.constant(constant, "int64")) if constant else extent
            return less if factor == 1 else g.call("floor_divide", less, g.constant(factor, "int64"))
        a, b = self.size(g, atom.a), self.size(g, atom.b)
        return g.call(_OPERATORS[atom.op], a, b)

    def brought(self, outer: Value) -> Value:
        """A value of the parent scope in this graph."""
        return outer if self.parent is None or self.graph is self.parent.graph else self.capture(outer)

    def count(self, symbol: str) -> Value | None:
        """The number that a symbol is made of, where the program has computed it."""
        if symbol not in self.counts and self.parent is not None and (found := self.parent.count(symbol)) is not None:
            self.counts[symbol] = self.brought(found)
        return self.counts.get(symbol)

    def source(self, symbol: str) -> tuple[Value, int]:
        """A value of this graph that has a symbol, or a symbol times a number and a number, as the size of an axis.

        Raises:
            ImportModelError: none is known.
        """
        if symbol in self.sources:
            return self.sources[symbol]
        if self.parent is not None:
            value, axis = self.parent.source(symbol)
            self.sources[symbol] = (self.brought(value), axis)
            return self.sources[symbol]
        raise ImportModelError(f"size {symbol!r} is read as a number, and no tensor has it; expected an input that has it")

    def note_sizes(self, value: Value) -> None:
        """Remembers which sizes of ``value`` are symbols."""
        if isinstance(value.type, TensorType):
            for axis, size in enumerate(value.shape):
                name = dims.symbol_name(size)
                if name is not None:
                    self.sources.setdefault(name, (value, axis))

    def resolved(self, size: Dim) -> Dim:
        """A size of the program as one of the graph; symbols that nothing has bound stay."""
        return dims.substitute(size, self.all_symbols()) if isinstance(size, DimExpr) else size

    def all_symbols(self) -> dict[str, Dim]:
        return self.symbols if self.parent is None else {**self.parent.all_symbols(), **self.symbols}

    def known_symbols(self, sizes: Sequence[Dim]) -> list[bool]:
        """Which of ``sizes``, as `resolved` gives them, have only symbols of the graph."""
        own = {name for size in self.all_symbols().values() for name in dims.symbols(size)}
        return [own.issuperset(dims.symbols(size)) for size in sizes]

    def bind_symbols(self, shape: Sequence[Dim], value: Value) -> None:
        """Binds symbols of the program that are new in ``shape`` to sizes of ``value``."""
        for expected, size in zip(shape, value.shape):
            name = dims.symbol_name(expected)
            if name is not None and name not in self.all_symbols():
                self.symbols[name] = size

    def with_sizes(self, g: Composer, value: Value, shape: Sequence[Dim]) -> Value:
        """``value`` with the sizes that the program states, where they are not provably its own: the run checks that they are."""
        stated = [self.resolved(size) for size in shape]
        if all(map(dims.equal, value.shape, stated)):
            return value
        known = self.known_symbols(stated)
        sizes = tuple(own if not ok or dims.equal(own, size) else size for own, size, ok in zip(value.shape, stated, known))
        return value if sizes == value.shape else g.call("broadcast_to", value, shape=sizes, exact=True)

    def counted(self, g: Composer, number: Value) -> Dim:
        """A number of type int64 as a size; 0 for a negative one."""
        size: Dim = g.count(number).shape[0]
        symbol = dims.symbol_name(size)
        if symbol is not None:
            self.counts[symbol] = g.call("maximum", number, g.constant(0, "int64"))
        return size

    def has_number(self, name: str) -> bool:
        return name in self.numbers or (self.parent is not None and self.parent.has_number(name))

    def number(self, name: str) -> Dim | Value:
        """The number called ``name``: a size, or a value of rank 0."""
        if name not in self.numbers and self.parent is not None:
            found = self.parent.number(name)
            self.numbers[name] = self.brought(found) if isinstance(found, Value) else found
        return self.numbers[name]



_OPERATORS: dict[str, Any] = {"floordiv": "floor_divide", "floormod": "floor_mod", "min": "minimum", "max": "maximum"}


def sources_of(symbol: str, values: Iterable[Value]) -> list[tuple[Value, int]]:
    """Those of ``values``, and their axes, whose sizes say what ``symbol`` is."""
    return [
        (value, axis)
        for value in values if isinstance(value.type, TensorType)
        for axis, size in enumerate(value.shape)
        if (found := dims.linear(size)) is not None and found[0] == symbol]
