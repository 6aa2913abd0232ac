"""Types of values in the graph IR."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Union

import numpy as np

from forge import dims, dtypes
from forge.dims import Dim, DimExpr
from forge.errors import TypeInferenceError

MAX_ELEMENTS = (1 << 63) - 1
MAX_RANK = 64  # NumPy's


@dataclass(frozen=True)
class TensorType:
    """A tensor of known rank; ``shape`` entries are integers from 0 on or symbolic dimensions.

    Raises:
        TypeInferenceError: an unknown dtype, entries that are not sizes, more than ``MAX_RANK`` entries, or more elements than 64
            bits can count.
    """

    shape: tuple[Dim, ...]
    dtype: str

    def __post_init__(self) -> None:
        _check_dtype(self.dtype)
        if len(self.shape) > MAX_RANK:
            raise TypeInferenceError(f"tensor type: got {len(self.shape)} dimensions; expected at most {MAX_RANK}")
        object.__setattr__(self, "shape", tuple(map(_extent, self.shape)))
        count = 1
        for extent in self.shape:
            count *= max(extent, 1) if isinstance(extent, int) else 1
            if count > MAX_ELEMENTS:
                raise TypeInferenceError(f"tensor type: got shape {self.shape}; expected fewer than 2**63 elements")

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """Number of elements."""
        return dims.product(self.shape)

    @property
    def is_static(self) -> bool:
        return dims.is_static(*self.shape)

    def __str__(self) -> str:
        if not self.shape:
            return self.dtype
        return f"Tensor[({', '.join(str(d) for d in self.shape)}), {self.dtype}]"


@dataclass(frozen=True)
class UnrankedType:
    """A tensor of unknown rank: only an element of a sequence or a result of If.

    ``is_absent``: there is none; the element of a sequence that is known to be empty.
    """

    dtype: str
    is_absent: bool = False

    def __post_init__(self) -> None:
        _check_dtype(self.dtype)

    def __str__(self) -> str:
        return f"Tensor[{'none' if self.is_absent else '?'}, {self.dtype}]"


@dataclass(frozen=True)
class Container:
    """What holds values of one type."""

    element: Type

    def __str__(self) -> str:
        return f"{type(self).__name__.removesuffix('Type')}[{self.element}]"


@dataclass(frozen=True)
class SequenceType(Container):
    """A list of values of one type; the length is known at run time."""


@dataclass(frozen=True)
class OptionalType(Container):
    """A value or nothing."""


@dataclass(frozen=True)
class ObjectType:
    """Opaque state (a KV cache, an effect); ``name`` is an identifier."""

    name: str

    def __post_init__(self) -> None:
        if not (self.name.isascii() and self.name.isidentifier()):
            raise TypeInferenceError(f"object type: got name {self.name!r}; expected an identifier")

    def __str__(self) -> str:
        return f"Object[{self.name}]"


Type = Union[TensorType, UnrankedType, SequenceType, OptionalType, ObjectType]  # noqa: UP007 - the members are needed at run time

CLASSES = (TensorType, UnrankedType, SequenceType, OptionalType, ObjectType)


def _check_dtype(dtype: str) -> None:
    if dtype not in dtypes.NAMES:
        raise TypeInferenceError(f"tensor type: unknown dtype {dtype!r}; expected one of {', '.join(dtypes.NAMES)}")


def _extent(extent: Dim) -> Dim:
    if isinstance(extent, DimExpr):
        return extent
    if isinstance(extent, bool) or not isinstance(extent, int | np.integer) or extent < 0:
        raise TypeInferenceError(f"tensor type: got extent {extent!r}; expected an integer from 0 on or a symbolic dimension")
    return int(extent)


def map_dims(type_: Type, change: Callable[[DimExpr], Dim]) -> Type:
    """``type_`` with ``change`` of every symbolic dimension."""
    match type_:
        case TensorType(shape=shape, dtype=dtype) if not type_.is_static:
            return TensorType(tuple(d if isinstance(d, int) else change(d) for d in shape), dtype)
        case SequenceType() | OptionalType():
            return replace(type_, element=map_dims(type_.element, change))
    return type_


def substitute(type_: Type, values: Mapping[str, Dim]) -> Type:
    """``type_`` with symbols replaced."""
    return map_dims(type_, lambda d: dims.substitute(d, values))


def compatible(a: Type, b: Type) -> bool:
    """Equal, but for dimensions that may or may not be equal."""
    return same_form(a, b) and not any(dims.different(x, y) for x, y in dimension_pairs(a, b))


def mismatch(declared: Sequence[Type], inferred: Sequence[Type], known: Collection[str]) -> tuple[Type, Type] | None:
    """The first pair in which results of the types ``inferred`` cannot be declared so; None: all can.

    Dimensions must be provably equal, but symbols that are not ``known`` are the operator's own, and may have other names that
    are not known either. A symbol in the element of a sequence or optional is any size; its name does not matter.
    """
    if all(map(operator.eq, declared, inferred)):
        return None
    names: dict[str, Dim] = {}
    tensors = [(d, i) for d, i in zip(declared, inferred) if isinstance(d, TensorType) and isinstance(i, TensorType)]
    pairs = [pair for d, i in tensors for pair in zip(d.shape, i.shape)]
    for ours, theirs in sorted(pairs, key=lambda pair: dims.symbol_name(pair[1]) is None):
        new = [s for s in dims.symbols(ours) if s not in known and s not in map(dims.symbol_name, names.values())]
        old = [s for s in dims.symbols(theirs) if s not in known and s not in names]
        if len(new) == len(old):
            names.update(zip(old, map(dims.symbol, new)))
    return next(((d, i) for d, i in zip(declared, inferred) if not _agree(d, substitute(i, names))), None)


def _agree(a: Type, b: Type) -> bool:
    """Whether the types are equal, but for names of sizes of elements."""
    if a == b or isinstance(a, TensorType) or not same_form(a, b):
        return a == b
    return all(x == y or not (isinstance(x, int) or isinstance(y, int)) for x, y in dimension_pairs(a, b))


def dimension_pairs(a: Type, b: Type) -> Iterator[tuple[Dim, Dim]]:
    """Dimensions of two types at the same place."""
    match a, b:
        case TensorType(), TensorType():
            yield from zip(a.shape, b.shape)
        case Container(), Container() if type(a) is type(b):
            yield from dimension_pairs(a.element, b.element)


def same_form(a: Type, b: Type) -> bool:
    """Whether the types differ in dimensions only."""
    match a, b:
        case TensorType(), TensorType():
            return a.dtype == b.dtype and a.rank == b.rank
        case Container(), Container() if type(a) is type(b):
            return same_form(a.element, b.element)
    return a == b


def symbols(type_: Type) -> Iterator[str]:
    """Names of the symbols in ``type_``."""
    match type_:
        case TensorType(shape=shape):
            yield from dims.symbols(*shape)
        case Container():
            yield from symbols(type_.element)
