"""A scope with the tensors of a program that writes in place, makes views and has variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from forge import dtypes
from forge.dims import Dim
from forge.errors import ImportModelError
from forge.frontends.scope import S
from forge.frontends.state.cells import Cell
from forge.frontends.state.sizes import SizeScope
from forge.ir.functions.states import State
from forge.ir.nodes import Value
from forge.ir.types import TensorType


@dataclass(eq=False, repr=False)
class MemoryScope(SizeScope[S]):
    """Tensors of a program by their names, as cells that may share memory; sizes and numbers as of any `SizeScope`.

    Attributes:
        cells: of tensors.
        lazy: weights that nothing has read yet -> what makes their values.
    """

    cells: dict[str, Cell] = field(default_factory=dict)
    lazy: dict[str, Callable[[], Value]] = field(default_factory=dict)

    def names_of(self, cell: Cell) -> list[str]:
        """What the program calls the tensor of a cell."""
        outer = self.parent.names_of(cell) if self.parent is not None and self.graph is self.parent.graph else []
        return [name for name, found in self.cells.items() if found is cell] + outer

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

    def result(self, name: str) -> Dim | Value:
        """The number or the value of the tensor called ``name``."""
        return self.number(name) if self.has_number(name) else self.cell(name).read()

    def variable(self, label: str, initial: np.ndarray) -> Value:
        """The value before a call of what is kept between calls: an input of main that is a state."""
        value = self.graph.add_input(TensorType(initial.shape, dtypes.canonical(initial.dtype)), label)
        self.graph.states[label] = State(None, initial)
        return value
