"""Types of values in the graph IR."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Union

from forge import dims, dtypes
from forge.dims import Dim


@dataclass(frozen=True)
class TensorType:
    """A tensor of known rank; ``shape`` entries are integers or symbolic dimensions."""

    shape: tuple[Dim, ...]
    dtype: str

    def __post_init__(self) -> None:
        if self.dtype not in dtypes.NAMES:
            raise TypeError(f"tensor type: unknown dtype {self.dtype!r}; expected one of {', '.join(dtypes.NAMES)}")

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
    """A tensor of unknown rank: only an element of a sequence or a result of If."""

    dtype: str

    def __str__(self) -> str:
        return f"Tensor[?, {self.dtype}]"


@dataclass(frozen=True)
class SequenceType:
    """A list of values of one type; the length is known at run time."""

    element: Type

    def __str__(self) -> str:
        return f"Sequence[{self.element}]"


@dataclass(frozen=True)
class OptionalType:
    """A value or nothing."""

    element: Type

    def __str__(self) -> str:
        return f"Optional[{self.element}]"


@dataclass(frozen=True)
class ObjectType:
    """Opaque state (a KV cache, an effect)."""

    name: str

    def __str__(self) -> str:
        return f"Object[{self.name}]"


Type = Union[TensorType, UnrankedType, SequenceType, OptionalType, ObjectType]


def substitute(type_: Type, values: Mapping[str, Dim]) -> Type:
    """``type_`` with symbolic dimensions replaced."""
    match type_:
        case TensorType(shape=shape, dtype=dtype):
            return TensorType(tuple(dims.substitute(d, values) for d in shape), dtype)
        case SequenceType(element=element):
            return SequenceType(substitute(element, values))
        case OptionalType(element=element):
            return OptionalType(substitute(element, values))
    return type_


def symbols(type_: Type) -> Iterator[str]:
    """Names of the symbols in ``type_``."""
    match type_:
        case TensorType(shape=shape):
            yield from dims.symbols(*shape)
        case SequenceType(element=element) | OptionalType(element=element):
            yield from symbols(element)
