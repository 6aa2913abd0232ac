"""Values in scope while a program is converted, and what the symbols of its sizes are in the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from forge import dims
from forge.dims import Dim, DimExpr, Operation, Symbol
from forge.errors import ImportModelError
from forge.frontends.scope import ImportState, Scope
from forge.frontends.torch.memory import Cell
from forge.frontends.torch.program import Meta, Program, ScalarMeta, Step, TensorMeta
from forge.ir.nodes import Value
from forge.ir.types import TensorType

if TYPE_CHECKING:
    from forge.frontends.torch.context import Context


@dataclass(kw_only=True)
class TorchState(ImportState):
    """What is the same for the whole import of one program.

    Attributes:
        convert_steps: converts steps of a program into the graph of a scope.
    """

    convert_steps: Callable[[TorchScope, Sequence[Step], Program], None]


@dataclass(eq=False, repr=False)
class TorchScope(Scope[TorchState]):
    """Tensors of a program by their names, as cells that may share memory; numbers that it computes, as sizes or values.

    Attributes:
        cells: of tensors.
        numbers: computed numbers: sizes, or values of rank 0.
        symbols: torch's symbols -> sizes of the graph.
        sources: symbols of the graph -> a value and the axis along which it has that size.
        counts: symbols of the graph -> values of rank 0 that they are made of.
        lazy: weights that nothing has read yet -> what makes their values.
    """

    cells: dict[str, Cell] = field(default_factory=dict)
    numbers: dict[str, Dim | Value] = field(default_factory=dict)
    symbols: dict[str, Dim] = field(default_factory=dict)
    sources: dict[str, tuple[Value, int]] = field(default_factory=dict)
    counts: dict[str, Value] = field(default_factory=dict)
    lazy: dict[str, Callable[[], Value]] = field(default_factory=dict)

    def size(self, g: Context, size: Dim) -> Value:
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

    def _atom(self, g: Context, atom: Symbol | Operation) -> Value:
        if isinstance(atom, Symbol):
            counted = self.count(atom.name)
            if counted is not None:
                return counted
            value, axis = self.source(atom.name)
            return g.extent(value, axis)
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
        """A value of this graph that has a symbol as the size of an axis.

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

    def meta(self, meta: Meta) -> Meta:
        """``meta`` with sizes of the graph."""
        if isinstance(meta, TensorMeta):
            strides = None if meta.strides is None else tuple(map(self.resolved, meta.strides))
            return TensorMeta(meta.dtype, tuple(map(self.resolved, meta.shape)), strides, self.resolved(meta.offset))
        if isinstance(meta, ScalarMeta) and meta.size is not None:
            return ScalarMeta(meta.kind, self.resolved(meta.size))
        return meta

    def bind_symbols(self, meta: TensorMeta, value: Value) -> None:
        """Binds torch's symbols that are new in ``meta`` to sizes of ``value``."""
        for expected, size in zip(meta.shape, value.shape):
            name = dims.symbol_name(expected)
            if name is not None and name not in self.all_symbols():
                self.symbols[name] = size

    def names_of(self, cell: Cell) -> list[str]:
        """What the program calls the tensor of a cell."""
        outer = self.parent.names_of(cell) if self.parent is not None and self.graph is self.parent.graph else []
        return [name for name, found in self.cells.items() if found is cell] + outer

    def has_number(self, name: str) -> bool:
        return name in self.numbers or (self.parent is not None and self.parent.has_number(name))

    def number(self, name: str) -> Dim | Value:
        """The number called ``name``: a size, or a value of rank 0."""
        if name not in self.numbers and self.parent is not None:
            found = self.parent.number(name)
            self.numbers[name] = self.brought(found) if isinstance(found, Value) else found
        return self.numbers[name]

    def cell(self, name: str) -> Cell:
        """The tensor called ``name``.

        Raises:
            ImportModelError: nothing defines it.
        """
        if name in self.cells:
            return self.cells[name]
        make = self.lazy.pop(name, None)
        if make is not None:
            self.cells[name] = Cell(make())
            return self.cells[name]
        if self.parent is not None:
            outer = self.parent.cell(name)
            self.cells[name] = outer if self.graph is self.parent.graph else Cell(self.capture(outer.read()))
            return self.cells[name]
        raise ImportModelError(f"value {name!r} is used but nothing defines it; the program is invalid")


_OPERATORS: dict[str, Any] = {"floordiv": "floor_divide", "floormod": "floor_mod", "min": "minimum", "max": "maximum"}
