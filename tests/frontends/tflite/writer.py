"""Writes TFLite models, by the same tables as the reader (`forge.frontends.tflite.schema`); needs no other package.

    graph = Graph()
    x = graph.input((1, 4), "int8", scale=0.5, zero_point=3)
    y = graph.tensor((1, 4), "int8", scale=0.25)
    graph.op("ADD", [x, graph.constant(ONES, scale=0.1)], [y], fused_activation_function="RELU")
    graph.outputs = [y]
    data = model(graph)

`encoded` is the layer below: any table of the schema, from a dictionary of its fields.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forge import dtypes
from forge.frontends.tflite.schema import BUILTIN_OPERATORS, ENUMERATIONS, IDENTIFIER, TABLES, UNIONS, VERSION, Field

_STORED = {
    "bool": "?", "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q",
    "f32": "f", "f64": "d"}
_ALIGNED = 16
"""What the schema asks for of the contents of tensors."""
_OLD_CODES = 127
"""Operators from this number on do not fit into the older field."""
_OPTIONS = {
    "AVERAGE_POOL_2D": "Pool2D", "MAX_POOL_2D": "Pool2D", "L2_POOL_2D": "Pool2D", "MAXIMUM": "MaximumMinimum",
    "MINIMUM": "MaximumMinimum", "L2_NORMALIZATION": "L2Norm", "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNN", "SUM": "Reducer",
    "MEAN": "Reducer", "REDUCE_PROD": "Reducer", "REDUCE_MAX": "Reducer", "REDUCE_MIN": "Reducer", "REDUCE_ANY": "Reducer",
    "REDUCE_ALL": "Reducer", "MULTINOMIAL": "Random", "RANDOM_UNIFORM": "Random", "RANDOM_STANDARD_NORMAL": "Random",
    "CONV_3D_TRANSPOSE": "Conv3D",
}
"""Tables of options that are not called as their operators."""


@dataclass(eq=False)
class Tensor:
    """A tensor of a graph.

    Attributes:
        contents: numbers, or texts (as an array of objects); None for what is computed.
        scale, zero_point: of a quantized tensor: one, or one for each index along ``axis``.
        signature: the shape with -1 for sizes that are known at run time only.
        details: the table of another kind of quantization, by its name.
        sparsity: the fields of ``SparsityParameters``; ``contents`` are what is stored then, in one dimension.
    """

    shape: tuple[int, ...]
    dtype: str
    contents: np.ndarray | None = None
    scale: float | Sequence[float] | None = None
    zero_point: int | Sequence[int] = 0
    axis: int = 0
    name: str = ""
    is_variable: bool = False
    signature: Sequence[int] | None = None
    sparsity: Mapping[str, Any] | None = None
    details: tuple[str, Mapping[str, Any]] | None = None


@dataclass
class Operator:
    """An operator; ``options`` are the fields of its table."""

    name: str
    inputs: list[Tensor | None]
    outputs: list[Tensor]
    options: dict[str, Any]
    custom_options: bytes = b""
    version: int = 1
    intermediates: list[Tensor] = field(default_factory=list)


@dataclass
class Graph:
    """A subgraph."""

    name: str = "main"
    tensors: list[Tensor] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)

    def tensor(self, shape: Sequence[int], dtype: str = "float32", **more: Any) -> Tensor:
        """One that an operator computes, or a variable."""
        more.setdefault("name", f"tensor_{len(self.tensors)}")
        self.tensors.append(Tensor(tuple(shape), dtype, **more))
        return self.tensors[-1]

    def input(self, shape: Sequence[int], dtype: str = "float32", **more: Any) -> Tensor:
        self.inputs.append(self.tensor(shape, dtype, **more))
        return self.inputs[-1]

    def constant(self, contents: Any, dtype: str | None = None, **more: Any) -> Tensor:
        array = np.asarray(contents)
        if dtype is None:
            dtype = "string" if array.dtype.kind in "OUS" else dtypes.canonical(array.dtype)
        return self.tensor(more.pop("shape", array.shape), dtype, contents=array, **more)

    def op(
        self, name: str, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor], /, *, version: int = 1,
        custom_options: bytes = b"", intermediates: Sequence[Tensor] = (), **options: Any,
    ) -> Sequence[Tensor]:
        """An operator: a builtin one, or a custom one by its own name. Its outputs."""
        self.operators.append(Operator(name, list(inputs), list(outputs), options, custom_options, version, list(intermediates)))
        return outputs


def model(
    *graphs: Graph, signatures: Mapping[str, tuple[int, Mapping[str, Tensor], Mapping[str, Tensor]]] | None = None,
    metadata: Mapping[str, bytes] | None = None, behind: bool = False, identifier: bytes = IDENTIFIER, version: int = VERSION,
) -> bytes:
    """The file of a model.

    Args:
        signatures: by their names: the number of a graph, and its inputs and outputs by names.
        behind: contents of tensors are behind the flatbuffer, as in models of more than 2 GB.
    """
    buffers: list[bytes] = [b""]
    codes: list[tuple[str, int]] = []
    subgraphs = [_subgraph(graph, buffers, codes) for graph in graphs]
    entries = []
    for key, (number, given, results) in (signatures or {}).items():
        sides = [
            [{"name": name, "tensor_index": graphs[number].tensors.index(one)} for name, one in side.items()]
            for side in (given, results)]
        entries.append({"signature_key": key, "subgraph_index": number, "inputs": sides[0], "outputs": sides[1]})
    described = []
    for name, data in (metadata or {}).items():
        buffers.append(data)
        described.append({"name": name, "buffer": len(buffers) - 1})
    root: dict[str, Any] = {
        "version": version, "operator_codes": [_code(*code) for code in codes], "subgraphs": subgraphs,
        "buffers": [{"data": np.frombuffer(data, np.uint8)} if data else {} for data in buffers],
        "metadata": described or None, "signature_defs": entries or None,
    }
    return _with_data_behind(root, buffers, identifier) if behind else encoded("Model", root, identifier)


def _with_data_behind(root: dict[str, Any], buffers: Sequence[bytes], identifier: bytes) -> bytes:
    """A file whose buffers follow the flatbuffer, whose size does not depend on where they are."""

    def written(start: int) -> bytes:
        root["buffers"], at = [], start
        for data in buffers:
            root["buffers"].append({"offset": at, "size": len(data)} if data else {})
            at += -(-len(data) // _ALIGNED) * _ALIGNED
        return encoded("Model", root, identifier)

    start = -(-len(written(_ALIGNED)) // _ALIGNED) * _ALIGNED
    whole = bytearray(written(start).ljust(start, b"\0"))
    for data in buffers:
        whole += data.ljust(-(-len(data) // _ALIGNED) * _ALIGNED, b"\0")
    return bytes(whole)


def _subgraph(graph: Graph, buffers: list[bytes], codes: list[tuple[str, int]]) -> dict[str, Any]:
    numbers = {id(one): k for k, one in enumerate(graph.tensors)}

    def places(tensors: Sequence[Tensor | None]) -> list[int]:
        return [-1 if one is None else numbers[id(one)] for one in tensors]

    operators = []
    for operator in graph.operators:
        code = operator.name, operator.version
        if code not in codes:
            codes.append(code)
        entry: dict[str, Any] = {
            "opcode_index": codes.index(code), "inputs": places(operator.inputs), "outputs": places(operator.outputs),
            "intermediates": places(operator.intermediates) or None, **options_of(operator.name, operator.options)}
        if operator.custom_options:
            entry["custom_options"] = np.frombuffer(operator.custom_options, np.uint8)
        operators.append(entry)
    return {
        "tensors": [_tensor(one, buffers) for one in graph.tensors], "inputs": places(graph.inputs),
        "outputs": places(graph.outputs), "operators": operators, "name": graph.name}


def options_of(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The field of an operator that has its options, if it has any."""
    wanted = _OPTIONS.get(name, name.replace("_", "")).lower() + "options"
    for union, member in (("BuiltinOptions", "builtin_options"), ("BuiltinOptions2", "builtin_options2")):
        table = next((table for table in UNIONS[union] if table.lower() == wanted), None)
        if table is not None:
            return {member: (table, options)}
    if options:
        raise ValueError(f"{name} has no options; got {list(options)}")
    return {}


def _code(name: str, version: int) -> dict[str, Any]:
    number = BUILTIN_OPERATORS.index(name if name in BUILTIN_OPERATORS else "CUSTOM")
    entry = {"deprecated_builtin_code": min(number, _OLD_CODES), "builtin_code": number, "version": version}
    return entry if name in BUILTIN_OPERATORS else {**entry, "custom_code": name}


def _tensor(tensor: Tensor, buffers: list[bytes]) -> dict[str, Any]:
    number = 0
    if tensor.contents is not None:
        buffers.append(stored(tensor.contents, tensor.dtype))
        number = len(buffers) - 1
    entry: dict[str, Any] = {
        "shape": list(tensor.shape), "type": tensor.dtype, "buffer": number, "name": tensor.name,
        "is_variable": tensor.is_variable, "sparsity": tensor.sparsity, "shape_signature": tensor.signature, "has_rank": True}
    if tensor.scale is not None or tensor.details is not None:
        scales = np.atleast_1d(np.asarray(() if tensor.scale is None else tensor.scale, np.float32))
        zeros = np.broadcast_to(np.asarray(tensor.zero_point, np.int64), scales.shape)
        entry["quantization"] = {
            "scale": scales, "zero_point": zeros, "quantized_dimension": tensor.axis, "details": tensor.details}
    return entry


def stored(contents: np.ndarray, dtype: str) -> bytes:
    """The buffer of a tensor."""
    if dtype == "string":
        texts = [text if isinstance(text, bytes) else str(text).encode() for text in contents.reshape(-1)]
        places = np.cumsum([8 + 4 * len(texts), *map(len, texts)]).astype("<i4")
        return np.int32(len(texts)).tobytes() + places.tobytes() + b"".join(texts)
    bits = dtypes.bits(dtype)
    if bits >= 8:
        return contents.astype(dtypes.numpy_dtype(dtype)).tobytes()
    each = 8 // bits
    low = (contents.reshape(-1).astype(np.int8).view(np.uint8)) & ((1 << bits) - 1)
    rows = np.pad(low, (0, -low.size % each)).reshape(-1, each)
    return np.bitwise_or.reduce(rows << (bits * np.arange(each, dtype=np.uint8)), axis=1).astype(np.uint8).tobytes()


def encoded(table: str, values: Mapping[str, Any], identifier: bytes = IDENTIFIER) -> bytes:
    """A flatbuffer: the table of the schema whose fields have ``values``; those that are absent or None are left out."""
    writer = _Writer()
    writer.data += bytes(4) + identifier
    writer.refer(0, writer.table(table, values))
    return bytes(writer.data)


class _Writer:
    """Tables, each before what it refers to."""

    def __init__(self) -> None:
        self.data = bytearray()

    def refer(self, at: int, to: int) -> None:
        struct.pack_into("<I", self.data, at, to - at)

    def _align(self, size: int, after: int = 0) -> None:
        self.data += bytes(-(len(self.data) + after) % size)

    def table(self, name: str, values: Mapping[str, Any]) -> int:
        fields = {one.name: one for one in TABLES.get(name, ())}
        unknown = set(values) - set(fields)
        if unknown:
            raise ValueError(f"{name}: got {sorted(unknown)}; expected fields of {sorted(fields)}")
        inline: list[tuple[int, str, Any]] = []  # slot, form, number or what to refer to
        for key, value in values.items():
            if value is not None:
                inline += self._parts(fields[key], value)
        slots = max((slot for slot, _, _ in inline), default=-1) + 1
        self._align(4, after=2 * slots)
        description = len(self.data)
        self.data += bytes(4 + 2 * slots)
        start = len(self.data)
        self.data += struct.pack("<i", start - description)
        later = []
        for slot, form, value in sorted(inline, key=lambda part: -struct.calcsize(part[1])):
            self._align(struct.calcsize("<" + form))
            struct.pack_into("<H", self.data, description + 4 + 2 * slot, len(self.data) - start)
            if isinstance(value, _Later):
                later.append((len(self.data), value))
            self.data += struct.pack("<" + form, 0 if isinstance(value, _Later) else value)
        struct.pack_into("<HH", self.data, description, 4 + 2 * slots, len(self.data) - start)
        for at, value in later:
            self.refer(at, self._written(value.field, value.value))
        return start

    def _parts(self, one: Field, value: Any) -> list[tuple[int, str, Any]]:
        """What a table has in itself of a field."""
        if one.is_vector or one.kind == "string":
            return [(one.slot, "I", _Later(one, value))]
        if one.kind in UNIONS:
            names = UNIONS[one.kind]
            inner = Field(one.name, 0, value[0])
            return [(one.slot, "B", names.index(value[0])), (one.slot + 1, "I", _Later(inner, value[1]))]
        if one.kind in ENUMERATIONS:
            kind, names = ENUMERATIONS[one.kind]
            number = names.index(value) if isinstance(value, str) else int(value)
            return [] if number == one.default else [(one.slot, _STORED[kind], number)]
        if one.kind in _STORED:
            return [] if value == one.default else [(one.slot, _STORED[one.kind], value)]
        return [(one.slot, "I", _Later(one, value))]

    def _written(self, one: Field, value: Any) -> int:
        """Where what a field refers to has been written."""
        if not one.is_vector and one.kind != "string":
            return self.table(one.kind, value)
        if one.kind == "string" and not one.is_vector:
            text = value.encode()
            self._align(4)
            at = len(self.data)
            self.data += struct.pack("<I", len(text)) + text + b"\0"
            return at
        if one.kind in _STORED:
            elements = np.asarray(value, np.dtype("<" + _STORED[one.kind]) if one.kind != "bool" else np.uint8)
            self._align(_ALIGNED if one.name == "data" else max(4, elements.itemsize), after=4)
            at = len(self.data)
            self.data += struct.pack("<I", elements.size) + elements.tobytes()
            return at
        self._align(4)
        at = len(self.data)
        self.data += struct.pack("<I", len(value)) + bytes(4 * len(value))
        for k, entry in enumerate(value):
            self.refer(at + 4 + 4 * k, self.table(one.kind, entry))
        return at


@dataclass(frozen=True)
class _Later:
    """What is written after the table that refers to it."""

    field: Field
    value: Any
