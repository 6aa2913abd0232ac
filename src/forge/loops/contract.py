"""The kernel contract: what a kernel family is given, and what it returns.

A family is a function ``build(call: KernelCall) -> tir.Function`` registered under the name that operators put in ``kernel``.
It never sees graphs or operators' classes; it gets the types, the attributes and, per operand and result, functions at the
level of expressions:

- ``Reader.read(indices, mask=None)``: the value at logical indices. An index may be a ``Ramp``: the result is then a vector (a
  contiguous vector load where the innermost index has stride 1). Prologues (element-wise producers that were fused) are inside.
  A false mask lane is not read and gives 0 from memory (the prologue is still applied to it).
- ``Writer.write(indices, value, mask=None)``: a statement that applies the epilogue (element-wise consumers that were fused:
  bias, activation, residual ...) to ``value`` and stores the result(s) at logical indices. The innermost index may be a
  ``Ramp``. It must be called exactly once per element of the result, with the finished value.

So there are no flags like has_bias or relu in a kernel. Indices out of the logical shape are never passed without a mask.
``Reader.buffer`` is the plain row-major buffer when there is no prologue (else None): kernels that pack, prefetch or form
their own addresses use it; ``buffer.alignment`` is the known alignment of the base.

Symbolic extents are ordinary expressions (variables of the function's scalars). A family may emit several guarded variants
inside one function (``If`` on an extent). Vector width, register count, caches and rates come from ``call.target``.
Parallelism: the outermost loop of the body has kind ``parallel``, or loops within a serial one do where that leaves threads idle
(see tir.stmt); the family chooses what they run over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from forge import dims
from forge.errors import CompileError
from forge.loops.values import known
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, Var
from forge.tir.rewrite import substitute
from forge.tir.stmt import Function, Stmt
from forge.tir.tensor import dim

SHARED_LEVEL: Final = 1
"""LLVM's level of passes for code that calls share. Above it they take a quarter more time, and at 3 write out loops for each
outcome of a condition on sizes; what register tiles consist of is the same."""


@dataclass(frozen=True)
class Reader:
    """Reads elements of an operand, as its prologue gives them."""

    shape: tuple[Expr, ...]
    dtype: str
    read: Callable[..., Expr]  # (indices: Sequence[Expr], mask: Expr | None = None) -> Expr
    buffer: Buffer | None

    @property
    def memory(self) -> Buffer:
        """The memory that is read as it is.

        Raises:
            CompileError: there is a prologue.
        """
        if self.buffer is None:
            raise CompileError("kernel: an operand that is read as it lies in memory has a prologue; expected none")
        return self.buffer


@dataclass(frozen=True)
class Writer:
    """Writes elements of a result, through its epilogue."""

    shape: tuple[Expr, ...]
    dtype: str  # of the value that the kernel hands to write (before the epilogue)
    write: Callable[..., Stmt]  # (indices: Sequence[Expr], value: Expr, mask: Expr | None = None) -> Stmt
    buffer: Buffer | None = None  # where there is no epilogue
    joins: bool = False  # axes 2 to -2 may be taken as one: indices of 0, but for the last of them, which counts all their places


@dataclass(frozen=True)
class KernelCall:
    """Describes one call of a kernel family: operands, results, attributes, and what the code may assume."""

    name: str  # of the function to build
    operator: str
    attrs: Any
    operands: tuple[Reader | None, ...]
    results: tuple[Writer, ...]
    buffers: tuple[Buffer, ...]  # parameters of the function, in order
    scalars: tuple[Var, ...]  # symbolic dimensions, in order
    target: Target
    in_place: bool = False  # the result has the elements of operand 0 already, which is not read: only what differs is written
    sizes: Mapping[str, int] = field(default_factory=dict)  # what cost models assume for symbols; others are dims.TYPICAL
    overwrites: bool = False  # an operand lies in the memory of the result: no element may be computed again
    place: str = ""  # of the node in the model, where its operator ``says_place``
    numbers: tuple[Expr, ...] = ()  # those of the family's ``Variant``, where calls share one

    @property
    def readers(self) -> tuple[Reader, ...]:
        """The operands that are there: all of them, unless one may be left out."""
        return tuple(o for o in self.operands if o is not None)

    def operand(self, number: int) -> Reader | None:
        """Returns an operand that may be left out; the last ones also by a call that ends before them."""
        return self.operands[number] if number < len(self.operands) else None

    def typical(self, extent: Expr) -> int:
        """Returns what cost models assume for an extent, which may be known at run time only."""
        values: dict[Var, Expr] = {v: E.const(self.sizes.get(v.name, dims.TYPICAL)) for v in self.scalars}
        return known(substitute(extent, values), f"{self.name}: an extent")

    def dim(self, size: dims.Dim) -> Expr:
        """Returns a dimension among the attributes."""
        return dim(size)

    def function(self, body: Stmt, shared_level: int = SHARED_LEVEL) -> Function:
        """Makes the kernel; ``shared_level``: LLVM's level of passes where calls share it."""
        return Function(self.name, self.buffers, self.scalars, body, most_optimized=shared_level if self.numbers else 3)


class KernelFamily(Protocol):
    """Builds the function of a call."""

    def __call__(self, call: KernelCall) -> Function: ...


@dataclass(frozen=True)
class Variant:
    """The facts that the code of a call depends on, of a family whose calls share code where only ``numbers`` differ.

    The family builds it for a call whose ``numbers`` are expressions: variables that each call gives a value.

    Attributes:
        key: equal for calls of the same code.
        numbers: of this call.
        extents: the index in ``numbers`` of each extent that differs, by operand and axis; the result comes after all operands.
        attributes: names of attributes that repeat ``numbers``; they are None in the call that the code is built from.
        joined: the axis such that in each operand and the result all before it are one axis, and so are it and all after it, in
            the call that the code is built from. Their extents are the numbers: of the first, then of the second of each.
    """

    key: str
    numbers: tuple[int, ...]
    extents: Mapping[tuple[int, int], int]
    attributes: tuple[str, ...] = ()
    joined: int | None = None


FAMILIES: dict[str, KernelFamily] = {}
"""Those of the CPU, by name."""

VARIANTS: dict[str, Callable[[KernelCall], Variant | None]] = {}
"""Of families some of whose calls share code: those for which this gives a variant."""

COMPLEX_FAMILIES: set[str] = set()
"""Families that work on complex numbers too: they move elements, or add and multiply them."""


def kernel(
    name: str, complex_numbers: bool = False, variant: Callable[[KernelCall], Variant | None] | None = None
) -> Callable[[KernelFamily], KernelFamily]:
    """Registers a kernel family; ``complex_numbers``: one for complex operands too; ``variant``: see VARIANTS."""

    def add(family: KernelFamily) -> KernelFamily:
        if name in FAMILIES:
            raise ValueError(f"kernel family {name!r} is registered already")
        FAMILIES[name] = family
        if complex_numbers:
            COMPLEX_FAMILIES.add(name)
        if variant is not None:
            VARIANTS[name] = variant
        return family

    return add
