"""A TFLite model as the file has it: subgraphs of operators on numbered tensors, with their buffers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from forge import dtypes
from forge.errors import ImportModelError, OpNotImplemented
from forge.frontends.tflite.flatbuffer import Reader, Table
from forge.frontends.tflite.schema import BUILTIN_OPERATORS, IDENTIFIER, VERSION
from forge.frontends.tflite.sparse import dense

CUSTOM = "CUSTOM"
DELEGATE_CODE = 127
"""Stands in the old field of operator codes for those that do not fit into it."""
MAX_RANK = 8
T = TypeVar("T")


@dataclass(frozen=True)
class Quantization:
    """What the integers of a tensor stand for: ``(integer - zero_point) * scale``.

    Attributes:
        scales, zero_points: one, or one for each index along ``axis``; with a ``block_size``, one for each block of this many
            elements along the last axis, in the shape of the tensor but for this axis.
    """

    scales: np.ndarray
    zero_points: np.ndarray
    axis: int | None = None
    block_size: int = 0

    @property
    def is_symmetric(self) -> bool:
        return not self.zero_points.any()

    def same(self, other: Quantization | None) -> bool:
        """Whether equal integers stand for equal numbers."""
        return (
            other is not None and self.axis == other.axis and self.block_size == other.block_size
            and np.array_equal(self.scales, other.scales) and np.array_equal(self.zero_points, other.zero_points))


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor of a subgraph.

    Attributes:
        name: as the file calls it.
        shape: None where the size is known at run time only.
        dtype: of Forge, or "resource" or "variant".
        is_variable: it keeps what an operator leaves in it from one run to the next.
        contents: reads its elements; None for what operators compute.
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: str
    quantization: Quantization | None
    is_variable: bool
    contents: Callable[[], np.ndarray] | None


@dataclass(frozen=True, eq=False)
class Operator:
    """An operator, with the numbers of its tensors, -1 for absent ones.

    Attributes:
        domain: "" for builtin operators, "custom" for others.
        attributes: its options.
        custom_options: what a custom operator has in the place of options, as FlexBuffers as a rule.
        intermediates: tensors that say with which precision parts of the result are computed.
    """

    domain: str
    name: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, Any]
    custom_options: bytes = b""
    intermediates: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Subgraph:
    name: str
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[Operator, ...]

    @cached_property
    def _producers(self) -> dict[int, Operator]:
        return {number: operator for operator in self.operators for number in operator.outputs}

    def producer(self, number: int) -> Operator | None:
        """The operator that gives a tensor."""
        return self._producers.get(number)


@dataclass(frozen=True)
class Signature:
    """A function that a model offers: names of inputs and outputs -> numbers of tensors of a subgraph."""

    key: str
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    subgraph: int


@dataclass(frozen=True, eq=False)
class TfliteModel:
    subgraphs: tuple[Subgraph, ...]
    signatures: tuple[Signature, ...] = ()
    metadata: Mapping[str, bytes] = field(default_factory=dict)

    @cached_property
    def size(self) -> int:
        """Operators in all subgraphs."""
        return sum(len(graph.operators) for graph in self.subgraphs)


def read_model(data: bytes | memoryview) -> TfliteModel:
    """The model that a file has.

    Raises:
        ImportModelError: it is damaged, or of another kind or version; OpNotImplemented: it has something that is not supported.
    """
    if bytes(data[4:8]) != IDENTIFIER:
        raise ImportModelError(f"got bytes that begin with {bytes(data[:8])!r}; expected a TFLite model, with 'TFL3' at byte 4")
    root = Reader(data).root("Model")
    if root["version"] != VERSION:
        raise ImportModelError(f"got version {root['version']} of the schema; expected {VERSION}; convert the model again")
    return _Model(memoryview(data), root).read()


class _Model:
    def __init__(self, data: memoryview, root: Table) -> None:
        self.data, self.root = data, root
        self.buffers: Sequence[Table] = root["buffers"] or ()
        self.codes = [_code(entry) for entry in root["operator_codes"] or ()]

    def read(self) -> TfliteModel:
        subgraphs = tuple(self._subgraph(k, entry) for k, entry in enumerate(self.root["subgraphs"] or ()))
        if not subgraphs:
            raise ImportModelError("got no subgraphs; expected one or more; the model is invalid")
        metadata = {entry["name"]: bytes(self._buffer(entry["buffer"], "metadata")) for entry in self.root["metadata"] or ()}
        signatures = [self._signature(entry, subgraphs) for entry in self.root["signature_defs"] or ()]
        return TfliteModel(subgraphs, tuple(signatures), metadata)

    def _signature(self, entry: Table, subgraphs: Sequence[Subgraph]) -> Signature:
        place = entry["subgraph_index"]
        where = f"signature {entry['signature_key']!r}"
        graph = _at(subgraphs, place, f"{where}: subgraph")
        inputs, outputs = (
            {one["name"]: one["tensor_index"] for one in entry[side] or ()} for side in ("inputs", "outputs"))
        for number in (*inputs.values(), *outputs.values()):
            _at(graph.tensors, number, f"{where}: tensor")
        return Signature(entry["signature_key"], inputs, outputs, place)

    def _subgraph(self, position: int, entry: Table) -> Subgraph:
        where = f"subgraph {position}"
        tensors = tuple(self._tensor(k, one) for k, one in enumerate(entry["tensors"] or ()))
        operators = tuple(self._operator(one, len(tensors), f"{where}, operator {k}")
                          for k, one in enumerate(entry["operators"] or ()))
        inputs, outputs = (_numbers(entry[side], len(tensors), f"{where}, {side}") for side in ("inputs", "outputs"))
        if -1 in outputs:
            raise ImportModelError(f"{where}: got an absent output; expected a tensor; the model is invalid")
        return Subgraph(entry["name"], tensors, inputs, outputs, operators)

    def _operator(self, entry: Table, tensors: int, where: str) -> Operator:
        domain, name, version = _at(self.codes, entry["opcode_index"], f"{where}: operator code")
        inputs, outputs, between = (
            _numbers(entry[side], tensors, f"{where}, {side}") for side in ("inputs", "outputs", "intermediates"))
        options = entry["builtin_options"] or entry["builtin_options2"]
        given = {key: _plain(value) for key, value in options[1].items() if value is not None} if options else {}
        return Operator(domain, name, version, inputs, outputs, given, self._custom_options(entry, where), between)

    def _custom_options(self, entry: Table, where: str) -> bytes:
        if entry["large_custom_options_size"]:
            begin, size = entry["large_custom_options_offset"], entry["large_custom_options_size"]
            return bytes(self._behind(begin, size, f"{where}: options"))
        options = entry["custom_options"]
        return b"" if options is None else options.tobytes()

    def _behind(self, begin: int, size: int, where: str) -> memoryview:
        """Bytes of the file that are behind the flatbuffer."""
        if begin + size > len(self.data):
            raise ImportModelError(
                f"{where}: got bytes {begin} to {begin + size}; the file has {len(self.data)}; download it again")
        return self.data[begin : begin + size]

    def _buffer(self, number: int, where: str) -> memoryview:
        entry = _at(self.buffers, number, f"{where}: buffer")
        if entry["offset"] > 1:
            return self._behind(entry["offset"], entry["size"], where)
        found = entry["data"]
        return memoryview(b"") if found is None else memoryview(found)

    def _tensor(self, position: int, entry: Table) -> Tensor:
        where = f"tensor {position}, {entry['name'][:200]!r}"
        if entry["external_buffer"]:
            raise OpNotImplemented(f"{where}: its data are in another file; expected a model in one file; convert it again")
        shape = [int(size) for size in (entry["shape"] if entry["shape"] is not None else ())]
        signature = entry["shape_signature"]
        if len(shape) > MAX_RANK or min(shape, default=0) < 0 and signature is None:
            raise ImportModelError(f"{where}: got the shape {shape}; expected at most {MAX_RANK} sizes; the model is invalid")
        open_ = shape if signature is None or len(signature) != len(shape) else signature.tolist()
        sizes = tuple(size if own >= 0 and size >= 0 else None for size, own in zip(shape, open_))
        dtype = entry["type"]
        buffer = self._buffer(entry["buffer"], where) if entry["buffer"] or not entry["is_variable"] else memoryview(b"")
        contents = None
        if len(buffer) and dtype not in ("resource", "variant"):
            contents = _Contents(buffer, tuple(shape), dtype, entry["sparsity"], where)
        return Tensor(
            entry["name"], sizes, dtype, _quantization(entry["quantization"], shape, where), entry["is_variable"], contents)


@dataclass(frozen=True)
class _Contents:
    """Reads the elements of a tensor out of its buffer.

    Raises:
        ImportModelError: the buffer does not fit.
    """

    buffer: memoryview
    shape: tuple[int, ...]
    dtype: str
    sparsity: Table | None
    where: str

    def __call__(self) -> np.ndarray:
        if self.sparsity is not None:
            return dense(self._elements, self.shape, self.sparsity, self.where)
        return self._elements(math.prod(self.shape)).reshape(self.shape)

    def _elements(self, count: int) -> np.ndarray:
        if self.dtype == "string":
            return _strings(self.buffer, count, self.where)
        dtype, bits = dtypes.numpy_dtype(self.dtype), dtypes.bits(self.dtype)
        size = -(-count * bits // 8) if bits < 8 else count * dtype.itemsize
        if len(self.buffer) < size:
            raise ImportModelError(
                f"{self.where}: got a buffer of {len(self.buffer)} bytes; expected {size}; the model is damaged")
        if bits >= 8:
            return np.frombuffer(self.buffer, dtype, count)
        return _unpacked(np.frombuffer(self.buffer, np.uint8, size), bits)[:count].astype(np.int8).astype(dtype)


def _unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """Signed integers of fewer than eight bits, the lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    high = np.uint8(8 - bits)
    return ((packed[:, None] >> shifts) << high).reshape(-1).view(np.int8) >> np.int8(high)


def _strings(buffer: memoryview, count: int, where: str) -> np.ndarray:
    """A count, the offsets of texts and of their end, and the texts."""
    known = int(np.frombuffer(buffer, "<i4", 1)[0]) if len(buffer) >= 4 else -1
    if known != count or len(buffer) < 8 + 4 * count:
        raise ImportModelError(f"{where}: got a buffer of {known} texts; expected {count}; the model is damaged")
    offsets = np.frombuffer(buffer, "<i4", count + 1, 4).tolist()
    if any(not 0 <= a <= b <= len(buffer) for a, b in pairwise(offsets)):
        raise ImportModelError(
            f"{where}: got texts at {offsets[:8]}; expected places in {len(buffer)} bytes; the model is damaged")
    found = np.empty(count, object)
    found[:] = [bytes(buffer[a:b]).decode("utf-8", "surrogateescape") for a, b in pairwise(offsets)]
    return found


def _code(entry: Table) -> tuple[str, str, int]:
    """Domain, name and version of an operator."""
    number = max(entry["builtin_code"], entry["deprecated_builtin_code"])
    if not 0 <= number < len(BUILTIN_OPERATORS):
        raise OpNotImplemented(
            f"got builtin operator {number}; expected one below {len(BUILTIN_OPERATORS)}; the model is newer than this")
    name = BUILTIN_OPERATORS[number]
    return ("custom", entry["custom_code"], entry["version"]) if name == CUSTOM else ("", name, entry["version"])


def _quantization(entry: Table | None, shape: Sequence[int], where: str) -> Quantization | None:
    if entry is None:
        return None
    if entry["details"] is not None:
        raise OpNotImplemented(f"{where}: its quantization is a {entry['details'][0]}; expected scales for the tensor or an axis")
    scales = entry["scale"]
    if scales is None or not scales.size:
        return None
    zeros = entry["zero_point"]
    zero_points = np.zeros(scales.size, np.int64) if zeros is None or not zeros.size else zeros.astype(np.int64)
    if zero_points.size == 1:
        zero_points = np.broadcast_to(zero_points, scales.shape)
    axis = entry["quantized_dimension"]
    several = scales.size > 1
    if zero_points.size != scales.size or several and (not 0 <= axis < len(shape) or shape[axis] != scales.size):
        raise ImportModelError(
            f"{where}: got {scales.size} scales and {zero_points.size} zero points along axis {axis} of {list(shape)}; expected "
            "one, or one for each index; the model is invalid")
    return Quantization(scales, zero_points, axis if several else None)


def _plain(value: Any) -> Any:
    return tuple(value.tolist()) if isinstance(value, np.ndarray) else value


def _numbers(given: np.ndarray | None, tensors: int, where: str) -> tuple[int, ...]:
    found = () if given is None else tuple(given.tolist())
    if any(not -1 <= number < tensors for number in found):
        raise ImportModelError(f"{where}: got tensors {found[:8]}; expected numbers below {tensors}; the model is invalid")
    return found


def _at(entries: Sequence[T], number: int, what: str) -> T:
    if not 0 <= number < len(entries):
        raise ImportModelError(f"{what}: got number {number}; expected one below {len(entries)}; the model is invalid")
    return entries[number]


def operators(model: TfliteModel) -> Iterator[Operator]:
    """Operators of all subgraphs."""
    for graph in model.subgraphs:
        yield from graph.operators
