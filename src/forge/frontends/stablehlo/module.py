"""A StableHLO module as data: what the readers of text and bytecode make, and what the importer converts.

Both readers give the same: names of operations are those of StableHLO, CHLO and func (``stablehlo.add``), whatever version of
VHLO a file has; attributes are Python's values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class QuantizedType:
    """Integers that stand for numbers: ``scale * (integer - zero_point)``.

    Attributes:
        storage: the element type of the integers, ``int8``.
        expressed: that of the numbers, ``float32``.
        scales, zero_points: one each, or one for each index along ``axis``.
        low, high: the smallest and largest integer.
    """

    storage: str
    expressed: str
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None
    low: int
    high: int


@dataclass(frozen=True)
class TensorType:
    """A ranked tensor.

    Attributes:
        shape: sizes; None where one is known at run time only.
        dtype: Forge's name of the element type: ``float32``, ``bool``, ``int4``, ``bfloat16``, ``complex64``, ``float8_e4m3fn``;
            of a quantized tensor that of its integers.
        bounds: largest sizes of those that are not known, where the type has some.
        quantized: how integers stand for numbers.
    """

    shape: tuple[int | None, ...]
    dtype: str
    bounds: tuple[int | None, ...] | None = None
    quantized: QuantizedType | None = None


@dataclass(frozen=True)
class TokenType:
    """That of tokens, which order side effects."""


@dataclass(frozen=True)
class TupleType:
    elements: tuple[Type, ...]


@dataclass(frozen=True)
class FunctionType:
    inputs: tuple[Type, ...]
    results: tuple[Type, ...]


@dataclass(frozen=True)
class OpaqueType:
    """A type of another dialect, by its text."""

    text: str


Type = TensorType | TokenType | TupleType | FunctionType | OpaqueType


@dataclass(frozen=True)
class Symbol:
    """A reference to a function, ``@main``."""

    name: str


@dataclass(frozen=True)
class Opaque:
    """An attribute of another dialect (``#sdy.sharding<...>``), by its text."""

    text: str


@dataclass(eq=False)
class Value:
    """An argument of a block, or a result of an operation.

    Attributes:
        name: what the file calls it, without ``%``.
        location: of an argument, where it comes from: jax says what its function calls it, ``params['w']``.
    """

    type: Type
    name: str = ""
    location: str = ""


@dataclass(eq=False)
class Block:
    arguments: list[Value] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)

    @property
    def results(self) -> list[Value]:
        """What its terminator (``stablehlo.return``, ``func.return``) gives."""
        return self.operations[-1].operands if self.operations else []


@dataclass(eq=False)
class Operation:
    """One operation.

    Attributes:
        name: ``stablehlo.add``, ``chlo.erf``, ``func.call``, ``stablehlo.return``.
        operands: values that are defined before it, here or in a block around.
        attributes: by name. Integers and floats are ``int`` and ``float``, enumerations ``str`` (``"GE"``), unit attributes True,
            arrays lists, dense elements ``numpy.ndarray`` (splats expanded lazily: `numpy.broadcast_to`), structures
            (``#stablehlo.gather<...>``) dictionaries by the names of their fields, types `Type`, references `Symbol`, and those
            of other dialects `Opaque`. Attributes that have their defaults are left out, whether the file has them or not.
        regions: each is one block.
        location: where it comes from, for messages: ``jit(f)/dot_general``, or a file and a line; "" where nothing is said.
    """

    name: str
    operands: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    regions: list[Block] = field(default_factory=list)
    location: str = ""


@dataclass(eq=False)
class Function:
    """A function of a module.

    Attributes:
        argument_attributes, result_attributes: of each argument and result, such as ``jax.result_info`` and
            ``tf.aliasing_output``.
    """

    name: str
    body: Block
    results: Sequence[Type] = ()
    is_public: bool = True
    argument_attributes: list[dict[str, Any]] = field(default_factory=list)
    result_attributes: list[dict[str, Any]] = field(default_factory=list)
    location: str = ""


@dataclass(eq=False)
class StablehloModule:
    """A module.

    Attributes:
        name: what it is called, or "".
        version: of StableHLO, which a portable artifact says: (1, 15, 0); None in text.
    """

    name: str = ""
    functions: dict[str, Function] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    version: tuple[int, int, int] | None = None

    def operations(self) -> Iterator[Operation]:
        """All operations, those of regions after the one that has them."""
        pending = [operation for function in self.functions.values() for operation in reversed(function.body.operations)]
        while pending:
            operation = pending.pop()
            yield operation
            pending += [inner for block in reversed(operation.regions) for inner in reversed(block.operations)]
