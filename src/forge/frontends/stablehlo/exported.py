"""What ``jax.export`` writes: a flatbuffer around a portable artifact, with shapes and names of inputs and results."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from forge.errors import ImportModelError
from forge.frontends.scope import MAX_NESTING
from forge.frontends.stablehlo.bytecode import read_bytecode
from forge.frontends.stablehlo.module import StablehloModule
from forge.frontends.stablehlo.spelling import MAX_RANK

_NAME, _IN_TREE, _INPUTS, _OUT_TREE, _RESULTS, _DEVICES_SHORT = 1, 2, 3, 4, 5, 6
_PLATFORMS, _MODULE, _CONVENTION, _KEPT, _DEVICES = 9, 13, 14, 15, 18
_UNIQUE, _INPUT_INDICES, _RESULT_INDICES = 19, 22, 23
_LEAF, _NONE, _TUPLE, _LIST, _DICTIONARY, _CUSTOM = range(6)
_DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128", "bfloat16", "int4", "uint4", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float0", "float8_e4m3", "float8_e3m4", "float8_e8m0fnu", "float4_e2m1fn",
    "key<fry>", "key<rbg>", "key<unsafe_rbg>")


@dataclass(frozen=True)
class Array:
    """An input or a result.

    Attributes:
        name: where it is in what the function takes or gives: ``args[0]['w']``, ``result[1]``.
        shape: sizes; text, such as ``b`` or ``2*b + 1``, where they are known at run time only.
        dtype: Forge's name of the element type; others are jax's (``key<fry>``).
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str


@dataclass(frozen=True)
class Exported:
    """A function that jax exported.

    Attributes:
        inputs: all of the function; ``kept`` has those that its module takes, in order.
        convention: the version of how the module is called: from 9 on, as its ``main`` says.
    """

    module: StablehloModule
    name: str
    inputs: tuple[Array, ...]
    results: tuple[Array, ...]
    kept: tuple[int, ...]
    platforms: tuple[str, ...]
    convention: int
    devices: int


def read_exported(data: bytes | memoryview, where: str) -> Exported:
    """The function that ``jax.export`` serialized.

    Raises:
        ImportModelError: the data are damaged, or something else.
    """
    buffer = _Buffer(memoryview(data).cast("B"), where)
    table = _Table(buffer, buffer.number("<I", 0))
    artifact = table.bytes(_MODULE)
    if artifact is None:
        raise ImportModelError(f"{where}: has no module; expected what jax.export.Exported.serialize writes")
    inputs = _arrays(table, _INPUTS, _INPUT_INDICES, _names(table.table(_IN_TREE), ""))
    results = _arrays(table, _RESULTS, _RESULT_INDICES, _names(table.table(_OUT_TREE), "result"))
    kept = table.numbers(_KEPT, "H")
    if any(index >= len(inputs) for index in kept):
        raise ImportModelError(f"{where}: keeps inputs {kept}; expected some of {len(inputs)}")
    return Exported(
        read_bytecode(artifact, where), table.string(_NAME), inputs, results, kept, tuple(table.strings(_PLATFORMS)),
        table.scalar(_CONVENTION, "<H"), table.scalar(_DEVICES, "<I") or table.scalar(_DEVICES_SHORT, "<H"))


def _arrays(table: _Table, each: int, indices: int, names: list[str]) -> tuple[Array, ...]:
    """Inputs or results: in new files each is one of a list without repetitions."""
    unique = [_array(entry) for entry in table.tables(_UNIQUE)]
    places = table.numbers(indices, "I")
    if any(place >= len(unique) for place in places):
        raise ImportModelError(f"{table.buffer.where}: got arrays {places}; expected some of {len(unique)}")
    found = [unique[place] for place in places] if places else [_array(entry) for entry in table.tables(each)]
    if len(found) != len(names):
        where = table.buffer.where
        raise ImportModelError(f"{where}: got {len(found)} inputs or results; expected {len(names)}, as their tree says")
    return tuple(Array(name, shape, dtype) for name, (shape, dtype) in zip(names, found))


def _array(entry: _Table) -> tuple[tuple[int | str, ...], str]:
    sizes = list(entry.strings(1))
    dtype = entry.scalar(2, "<b")
    if len(sizes) > MAX_RANK or not 0 <= dtype < len(_DTYPES):
        raise ImportModelError(f"{entry.buffer.where}: got an array of rank {len(sizes)}, type {dtype}; expected known ones")
    return tuple(int(size) if size.isdecimal() and len(size) < 19 else size for size in sizes), _DTYPES[dtype]


def _names(tree: _Table | None, prefix: str) -> list[str]:
    """Names of the leaves of a tree. That of inputs is a tuple of positional arguments beside a dictionary of others."""
    if tree is None:
        return []
    if prefix:
        return list(_leaves(tree, prefix, 0))
    names: list[str] = []
    for kind, child in zip(("args", ""), tree.tables(1)):
        for key, argument in _children(child):
            names += _leaves(argument, f"{kind}{key}" if kind else key.strip("[']"), 0)
    return names


def _leaves(tree: _Table, name: str, depth: int) -> Iterator[str]:
    if depth > MAX_NESTING:
        raise ImportModelError(f"{tree.buffer.where}: inputs or results are nested more than {MAX_NESTING} deep")
    kind = tree.scalar(0, "<b")
    if kind == _LEAF:
        yield name
    elif kind != _NONE:
        for key, child in _children(tree):
            yield from _leaves(child, f"{name}{key}", depth + 1)


def _children(tree: _Table) -> Iterator[tuple[str, _Table]]:
    names = list(tree.strings(2)) if tree.scalar(0, "<b") == _DICTIONARY else []
    for index, child in enumerate(tree.tables(1)):
        yield (f"[{names[index]!r}]" if index < len(names) else f"[{index}]"), child


class _Buffer:
    """A flatbuffer. Tables that refer to one another could stand for more than there are bytes: each visit counts."""

    def __init__(self, data: memoryview, where: str) -> None:
        self.data = data
        self.where = where
        self.visits = 0

    def number(self, kind: str, place: int) -> int:
        if not 0 <= place <= len(self.data) - struct.calcsize(kind):
            raise ImportModelError(
                f"{self.where}: is damaged, or nothing that jax.export wrote: got an offset to byte {place}, behind its "
                f"{len(self.data)} bytes")
        value: int = struct.unpack_from(kind, self.data, place)[0]
        return value


class _Table:
    """A table of a flatbuffer. Fields that are missing are empty or zero."""

    def __init__(self, buffer: _Buffer, place: int) -> None:
        buffer.visits += 1
        if buffer.visits > len(buffer.data):
            raise ImportModelError(f"{buffer.where}: is damaged: has more tables than bytes")
        self.buffer = buffer
        self.place = place
        self.fields = place - buffer.number("<i", place)
        self.size = buffer.number("<H", self.fields)

    def _field(self, index: int) -> int:
        """Where a field is; 0 if it is missing."""
        at = 4 + 2 * index
        offset = self.buffer.number("<H", self.fields + at) if at + 2 <= self.size else 0
        return self.place + offset if offset else 0

    def scalar(self, index: int, kind: str) -> int:
        at = self._field(index)
        return self.buffer.number(kind, at) if at else 0

    def _vector(self, index: int, size: int) -> tuple[int, int]:
        """Where the elements of a vector begin, and how many there are."""
        at = self._field(index)
        if not at:
            return 0, 0
        begin = at + self.buffer.number("<I", at)
        count = self.buffer.number("<I", begin)
        if count * size > len(self.buffer.data) - begin - 4:
            raise ImportModelError(f"{self.buffer.where}: is damaged: got a list of {count}, behind its end")
        return begin + 4, count

    def bytes(self, index: int) -> memoryview | None:
        begin, count = self._vector(index, 1)
        return self.buffer.data[begin : begin + count] if begin else None

    def string(self, index: int) -> str:
        return str(self.bytes(index) or b"", "utf-8", "surrogateescape")

    def numbers(self, index: int, kind: str) -> tuple[int, ...]:
        begin, count = self._vector(index, struct.calcsize(kind))
        return struct.unpack_from(f"<{count}{kind}", self.buffer.data, begin)

    def _references(self, index: int) -> Iterator[int]:
        begin, count = self._vector(index, 4)
        for at in range(begin, begin + 4 * count, 4):
            yield at + self.buffer.number("<I", at)

    def strings(self, index: int) -> Iterator[str]:
        for at in self._references(index):
            count = self.buffer.number("<I", at)
            if count > len(self.buffer.data) - at - 4:
                raise ImportModelError(f"{self.buffer.where}: is damaged: got text of {count} bytes, behind its end")
            yield str(self.buffer.data[at + 4 : at + 4 + count], "utf-8", "surrogateescape")

    def tables(self, index: int) -> Iterator[_Table]:
        for at in self._references(index):
            yield _Table(self.buffer, at)

    def table(self, index: int) -> _Table | None:
        at = self._field(index)
        return _Table(self.buffer, at + self.buffer.number("<I", at)) if at else None
