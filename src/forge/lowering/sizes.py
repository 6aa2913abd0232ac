"""The sizes of a kernel that are known at run time only: numbered symbols for what dimensions of the graph consist of.

Kernels know nothing of how sizes depend on each other but where one is a sum of products of others: ``(h + 7) // 8`` and
``(w + 7) // 8`` are ``s0`` and ``s1`` of one kernel, and ``(h + 15) // 16`` is ``s0`` of another call of the same. Of a kernel
that calls with other numbers of channels share, these are symbols too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from forge import dims
from forge.dims import Atom, Dim, DimExpr
from forge.ir import attributes
from forge.ir import types as T
from forge.ir.attributes import Record
from forge.ir.nodes import Node, Value
from forge.ir.types import TensorType, Type
from forge.loops.contract import Variant
from forge.lowering.groups import Group


class Sizes:
    """Symbols by what they stand for, numbered in the order in which they are asked for.

    Attributes:
        numbers: symbols of what calls of one ``Variant`` differ in.
        presence: of an operand that calls may leave out, the symbol that is 1 where it is there, else 0.
    """

    def __init__(self) -> None:
        self.numbers: tuple[DimExpr, ...] = ()
        self.presence: dict[Value, DimExpr] = {}
        self._values: list[Dim] = []
        self._symbols: dict[Atom, DimExpr] = {}
        self._extents: dict[Value, dict[int, DimExpr]] = {}
        self._joined: dict[Value, tuple[DimExpr, DimExpr]] = {}
        self._attributes: dict[Node, Record] = {}

    @property
    def values(self) -> tuple[Dim, ...]:
        """The sizes that the symbols stand for, in their order."""
        return tuple(self._values)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(_name(k) for k in range(len(self._values)))

    def typical(self, values: Mapping[str, int]) -> dict[str, int]:
        """Returns the value that cost models assume for each symbol, given typical values of the graph's."""
        return {name: dims.typical(size, values) for name, size in zip(self.names, self.values)}

    def vary(self, group: Group, variant: Variant) -> None:
        """Makes symbols of the numbers of ``variant``, the one of the anchor of ``group``, before all others.

        What the anchor's epilogue reads and computes has the extents of its result, or 1, as they are broadcast.
        """
        self.numbers = tuple(self._new(number) for number in variant.numbers)
        anchor = group.anchor
        self._attributes[anchor] = dataclasses.replace(anchor.attrs, **dict.fromkeys(variant.attributes))
        if variant.joined is not None:
            self._join([*(v for v in anchor.operands if v is not None), anchor.result], variant.joined)
        others = [n for n in group.nodes if n is not anchor]
        around = [v for n in others for v in (*n.operands, *n.results) if v is not None]
        for (position, axis), k in variant.extents.items():
            value = anchor.operands[position] if position < len(anchor.operands) else anchor.result
            assert value is not None
            self._extents.setdefault(value, {})[axis] = self.numbers[k]
            if value is anchor.result:
                for other in around:
                    aligned = axis + other.rank - value.rank
                    if aligned >= 0 and other.shape[aligned] == value.shape[axis]:
                        self._extents.setdefault(other, {})[aligned] = self.numbers[k]

    def _join(self, values: Sequence[Value], axis: int) -> None:
        """Makes one axis of those of ``values`` before ``axis``, which are as long in all of them, and one of the others."""
        before = self._new(dims.product(values[0].shape[:axis]))
        self._joined = {value: (before, self._new(dims.product(value.shape[axis:]))) for value in values}
        self.numbers = (before, *(self._joined[value][1] for value in values))

    def make_optional(self, operand: Value) -> None:
        """Lets calls leave out ``operand``."""
        self.presence[operand] = self._new(1)

    def leave_out(self) -> None:
        """Leaves out the operand that is optional in the group of which the kernel is built."""
        self._new(0)

    def of_dim(self, dim: Dim) -> Dim:
        """Returns ``dim`` in the kernel's symbols."""
        if isinstance(dim, int):
            return dim
        for atom in dims.atoms(dim):
            if atom not in self._symbols:
                self._symbols[atom] = self._new(dims.of_atom(atom))
        return dims.replace_atoms(dim, self._symbols)

    def of_type(self, value: Value) -> Type:
        """Returns the type of ``value``."""
        return self.of_tensor(value) if value in self._extents or value in self._joined else T.map_dims(value.type, self.of_dim)

    def of_tensor(self, value: Value) -> TensorType:
        """Returns the type of ``value``, a tensor."""
        own, type_ = self._extents.get(value, {}), value.tensor_type
        if value in self._joined:
            return TensorType(self._joined[value], type_.dtype)
        return TensorType(tuple(own.get(axis) or self.of_dim(d) for axis, d in enumerate(type_.shape)), type_.dtype)

    def of_attributes(self, node: Node) -> Record:
        """Returns the attributes of ``node``."""
        return attributes.map_dims(self._attributes.get(node, node.attrs), self.of_dim)

    def _new(self, value: Dim) -> DimExpr:
        self._values.append(value)
        return dims.symbol(_name(len(self._values) - 1))


def _name(number: int) -> str:
    return f"s{number}"
