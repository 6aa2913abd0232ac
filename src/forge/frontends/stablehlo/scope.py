"""Values in scope while a module is converted: tensors, and what is not a tensor: tuples and tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from forge import dims
from forge.dims import Dim
from forge.errors import ImportModelError
from forge.frontends.scope import ImportState
from forge.frontends.stablehlo import module as stablehlo
from forge.frontends.stablehlo.module import StablehloModule
from forge.frontends.state.sizes import SizeScope, sources_of
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.nodes import Value
from forge.ir.shapes import known_dims
from forge.ops.core.composer import Composer

Structure = Value | tuple["Structure", ...] | None
"""A tensor, a tuple of structures, or None for a token."""


def leaves(structures: Sequence[Structure]) -> list[Value]:
    """Tensors of structures, in order."""
    found: list[Value] = []
    for structure in structures:
        if isinstance(structure, tuple):
            found += leaves(structure)
        elif structure is not None:
            found.append(structure)
    return found


@dataclass(kw_only=True)
class StablehloState(ImportState):
    """What is the same for the whole import of one module.

    Attributes:
        convert_operations: converts operations into the graph of a scope.
        producers: of values of the module.
        names: of values of the module, each its own.
        main: the graph of the function.
        outfed: what the function gives to the host beside its results.
    """

    source: StablehloModule
    main: Graph
    convert_operations: Callable[[StablehloScope, Sequence[stablehlo.Operation]], None]
    producers: dict[stablehlo.Value, stablehlo.Operation] = field(default_factory=dict)
    names: dict[stablehlo.Value, str] = field(default_factory=dict)
    outfed: list[Value] = field(default_factory=list)
    _numbers: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.producers.update((result, operation) for operation in self.source.operations() for result in operation.results)

    def name(self, value: stablehlo.Value) -> str:
        """What a value is called here: the operation that gives it, and a number."""
        if value not in self.names:
            producer = self.producers.get(value)
            stem = value.name or "argument" if producer is None else producer.name.rpartition(".")[2]
            self.names[value] = f"{stem}_{self._numbers[stem]}"
            self._numbers[stem] += 1
        return self.names[value]


@dataclass(eq=False, repr=False)
class StablehloScope(SizeScope[StablehloState]):
    """Values of a module.

    Attributes:
        structures: tuples and tokens, by name.
        by_element: operations on scalars are converted for all elements of tensors at once.
        sizes: values of the parent that are sizes -> those computed in this graph.
    """

    structures: dict[str, Structure] = field(default_factory=dict)
    by_element: bool = False
    sizes: dict[Value, Value] = field(default_factory=dict)

    def producer(self, value: stablehlo.Value) -> stablehlo.Operation | None:
        """The operation that gives a value of the module; None for an argument."""
        return self.state.producers.get(value)

    def put(self, value: stablehlo.Value, structure: Structure) -> None:
        """Binds a value of the module."""
        name = self.state.name(value)
        if isinstance(structure, Value):
            self.define(name, structure)
        else:
            self.structures[name] = structure

    def get(self, value: stablehlo.Value) -> Structure:
        """What stands for a value of the module.

        Raises:
            ImportModelError: nothing defines it.
        """
        name = self.state.name(value)
        scope: StablehloScope | None = self
        while scope is not None:
            if name in scope.structures:
                return self._brought(scope, scope.structures[name])
            scope = scope.parent
        return self.lookup(name)

    def _brought(self, home: StablehloScope, structure: Structure) -> Structure:
        if isinstance(structure, tuple):
            return tuple(self._brought(home, part) for part in structure)
        if structure is None or home is self or self.parent is None:
            return structure
        outer = self.parent._brought(home, structure)
        return self.capture(outer) if isinstance(outer, Value) and self.graph is not self.parent.graph else outer

    def capture(self, outer: Value) -> Value:
        """As of any scope; sizes are computed again, so that they are known in this graph, too."""
        if outer in self.sizes:
            return self.sizes[outer]
        if outer not in self.captures and outer.constant is None and outer.rank <= 1:
            known = known_dims(outer)
            if known is not None and known.size and all(self._has_source(name) for name in dims.symbols(*known.flat)):
                self.sizes[outer] = self._sizes(tuple(known.flat), outer)
                return self.sizes[outer]
        return super().capture(outer)

    def _sizes(self, sizes: Sequence[Dim], like: Value) -> Value:
        g = Composer(Builder(self.graph))
        values = [self.size(g, size) for size in sizes]
        if like.rank == 0:
            return g.cast(values[0], like.dtype)
        return g.cast(g.call("concatenate", *(g.reshape(v, (1,)) for v in values), axis=0), like.dtype)

    def _has_source(self, symbol: str) -> bool:
        return bool(self._own_sources(symbol)) or self.parent is not None and self.parent._has_source(symbol)

    def _own_sources(self, symbol: str) -> list[tuple[Value, int]]:
        return sources_of(symbol, self.graph.inputs)

    def source(self, symbol: str) -> tuple[Value, int]:
        """As of any scope, of inputs where one has it, else of what was computed here."""
        own = self._own_sources(symbol)
        if not own and (self.parent is None or not self.parent._has_source(symbol)):
            own = sources_of(symbol, (value for node in self.graph.nodes for value in node.results))
        if own:
            return own[0]
        if self.parent is None:
            raise ImportModelError(f"size {symbol!r} is read as a number, and nothing has it; expected an input that has it")
        value, axis = self.parent.source(symbol)
        return (value if self.graph is self.parent.graph else super().capture(value)), axis
