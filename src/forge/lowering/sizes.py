"""The sizes of a kernel that are known at run time only: numbered symbols for what dimensions of the graph consist of.

Kernels know nothing of how sizes depend on each other but where one is a sum of products of others: ``(h + 7) // 8`` and
``(w + 7) // 8`` are ``s0`` and ``s1`` of one kernel, and ``(h + 15) // 16`` is ``s0`` of another call of the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from forge import dims
from forge.dims import Atom, Dim, DimExpr
from forge.ir import attributes
from forge.ir import types as T
from forge.ir.attributes import Record
from forge.ir.types import TensorType, Type


class Sizes:
    """Symbols by what they stand for, numbered in the order in which they are asked for."""

    def __init__(self) -> None:
        self._symbols: dict[Atom, DimExpr] = {}

    @property
    def values(self) -> tuple[Dim, ...]:
        """What the symbols stand for, in their order."""
        return tuple(map(dims.of_atom, self._symbols))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(_name(k) for k in range(len(self._symbols)))

    def typical(self, values: Mapping[str, int]) -> dict[str, int]:
        """What cost models assume for each symbol, for these typical values of the graph's."""
        return {name: dims.typical(size, values) for name, size in zip(self.names, self.values)}

    def of_dim(self, dim: Dim) -> Dim:
        """``dim`` in the kernel's symbols."""
        for atom in dims.atoms(dim):
            if atom not in self._symbols:
                self._symbols[atom] = dims.symbol(_name(len(self._symbols)))
        return dims.replace_atoms(dim, self._symbols)

    def of_type(self, type_: Type) -> Type:
        return T.map_dims(type_, self.of_dim)

    def of_tensor(self, type_: TensorType) -> TensorType:
        return TensorType(tuple(map(self.of_dim, type_.shape)), type_.dtype)

    def of_attributes(self, record: Record) -> Record:
        return attributes.map_dims(record, self.of_dim)


def _name(number: int) -> str:
    return f"s{number}"
