"""TensorFlow's protocol buffer messages, of which a model's files consist, without TensorFlow.

They are in a pool of their own, so that importing TensorFlow, before or later, does not clash. Fields that an importer does not
read are left out; readers skip what they do not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory, text_format

from forge.errors import ImportModelError

_PACKAGE = "forge.tensorflow"
_MESSAGES = """
GraphDef: node=1*NodeDef library=2.FunctionDefLibrary versions=4.VersionDef
VersionDef: producer=1.int32
NodeDef: name=1.string op=2.string input=3*string attr=5%AttrValue
AttrValue: list=1?ListValue s=2?bytes i=3?int64 f=4?float b=5?bool type=6?DataType shape=7?TensorShapeProto tensor=8?TensorProto placeholder=9?string func=10?NameAttrList
ListValue: s=2*bytes i=3*int64 f=4*float b=5*bool type=6*DataType shape=7*TensorShapeProto tensor=8*TensorProto func=9*NameAttrList
NameAttrList: name=1.string attr=2%AttrValue
TensorShapeProto: dim=2*Dim unknown_rank=3.bool
Dim: size=1.int64 name=2.string
TensorProto: dtype=1.DataType tensor_shape=2.TensorShapeProto tensor_content=4.bytes float_val=5*float double_val=6*double int_val=7*int32 string_val=8*bytes scomplex_val=9*float int64_val=10*int64 bool_val=11*bool dcomplex_val=12*double half_val=13*int32 uint32_val=16*uint32 uint64_val=17*uint64 float8_val=18.bytes
FunctionDefLibrary: function=1*FunctionDef
FunctionDef: signature=1.OpDef node_def=3*NodeDef ret=4%string control_ret=6%string arg_attr=7#ArgAttrs
ArgAttrs: attr=1%AttrValue
OpDef: name=1.string input_arg=2*ArgDef output_arg=3*ArgDef
ArgDef: name=1.string type=3.DataType type_attr=4.string number_attr=5.string type_list_attr=6.string
SavedModel: saved_model_schema_version=1.int64 meta_graphs=2*MetaGraphDef
MetaGraphDef: meta_info_def=1.MetaInfoDef graph_def=2.GraphDef saver_def=3.SaverDef signature_def=5%SignatureDef object_graph_def=7.SavedObjectGraph
MetaInfoDef: tags=4*string tensorflow_version=5.string
SaverDef: filename_tensor_name=1.string restore_op_name=3.string
SignatureDef: inputs=1%TensorInfo outputs=2%TensorInfo method_name=3.string
TensorInfo: name=1?string dtype=2.DataType tensor_shape=3.TensorShapeProto
SavedObjectGraph: nodes=1*SavedObject
SavedObject: children=1*ObjectReference variable=7?SavedVariable
ObjectReference: node_id=1.int32 local_name=2.string
SavedVariable: name=6.string
TrackableObjectGraph: nodes=1*TrackableObject
TrackableObject: children=1*ObjectReference attributes=2*SerializedTensor
SerializedTensor: name=1.string checkpoint_key=3.string
BundleHeaderProto: num_shards=1.int32 endianness=2.int32
BundleEntryProto: dtype=1.DataType shape=2.TensorShapeProto shard_id=3.int32 offset=4.int64 size=5.int64 slices=7*TensorSliceProto
TensorSliceProto: extent=1*Extent
Extent: start=1.int64
"""  # noqa: E501
"""A message a line: fields as name=number, how often (. once, ? once as one of several, * many, % by text, # by number), type."""

DTYPES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string", 8: "complex64", 9: "int64",
    10: "bool", 11: "int8", 12: "uint8", 13: "int32", 14: "bfloat16", 15: "int16", 16: "uint16", 17: "uint16", 18: "complex128",
    19: "float16", 20: "resource", 21: "variant", 22: "uint32", 23: "uint64", 24: "float8_e5m2", 25: "float8_e4m3fn",
    29: "int4", 30: "uint4",
}
"""Element types by their numbers; 11, 12, 13, 15 and 16 are integers to which quantized operators give a meaning."""
_REFERENCE = 100
"""What numbers of types that stand for a variable have in addition."""
_DTYPE_NAMES = {
    0: "INVALID", 1: "FLOAT", 2: "DOUBLE", 3: "INT32", 4: "UINT8", 5: "INT16", 6: "INT8", 7: "STRING", 8: "COMPLEX64", 9: "INT64",
    10: "BOOL", 11: "QINT8", 12: "QUINT8", 13: "QINT32", 14: "BFLOAT16", 15: "QINT16", 16: "QUINT16", 17: "UINT16",
    18: "COMPLEX128", 19: "HALF", 20: "RESOURCE", 21: "VARIANT", 22: "UINT32", 23: "UINT64", 24: "FLOAT8_E5M2",
    25: "FLOAT8_E4M3FN", 29: "INT4", 30: "UINT4",
}
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Field.TYPE_STRING, "bytes": _Field.TYPE_BYTES, "int32": _Field.TYPE_INT32, "int64": _Field.TYPE_INT64,
    "uint32": _Field.TYPE_UINT32, "uint64": _Field.TYPE_UINT64, "float": _Field.TYPE_FLOAT, "double": _Field.TYPE_DOUBLE,
    "bool": _Field.TYPE_BOOL, "DataType": _Field.TYPE_ENUM,
}


def dtype_of(number: int) -> str:
    """The element type of a number, of a variable of it too.

    Raises:
        ImportModelError: there is none that Forge has.
    """
    found = DTYPES.get(number - _REFERENCE if number > _REFERENCE else number)
    if found is None:
        raise ImportModelError(f"element type number {number}: is not supported; expected one of: {', '.join(DTYPES.values())}")
    return found


def message_of(kind: str) -> Any:
    """An empty message."""
    return _classes()[kind]()


def parse(kind: str, data: bytes | memoryview, what: str) -> Any:
    """A message.

    Raises:
        ImportModelError: ``data`` are none.
    """
    found = message_of(kind)
    try:
        found.ParseFromString(bytes(data))
    except (message.DecodeError, ValueError) as error:
        raise ImportModelError(f"got bytes that are not a {what}: {error}; check that the file is whole") from error
    return found


def parse_text(kind: str, text: str, what: str) -> Any:
    """A message from its text form.

    Raises:
        ImportModelError: the text is none.
    """
    found = message_of(kind)
    try:
        text_format.Parse(text, found, allow_unknown_field=True)
    except (text_format.ParseError, ValueError, RecursionError) as error:
        raise ImportModelError(f"got text that is not a {what}: {error}; check that the file is whole") from error
    return found


@cache
def _classes() -> dict[str, type[Any]]:
    file = descriptor_pb2.FileDescriptorProto(name="forge/tensorflow.proto", package=_PACKAGE, syntax="proto3")
    names = file.enum_type.add(name="DataType")
    for number, name in _DTYPE_NAMES.items():
        names.value.add(name=f"DT_{name}", number=number)
    for number, name in _DTYPE_NAMES.items():
        if number:
            names.value.add(name=f"DT_{name}_REF", number=number + _REFERENCE)
    for line in _MESSAGES.strip().splitlines():
        name, _, fields = line.partition(": ")
        _describe(file.message_type.add(name=name), fields.split())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {m.name: pool.FindMessageTypeByName(f"{_PACKAGE}.{m.name}") for m in file.message_type}
    return {name: message_factory.GetMessageClass(described) for name, described in found.items()}


def _describe(described: descriptor_pb2.DescriptorProto, fields: list[str]) -> None:
    for name, number, times, kind in _parts(fields):
        label = _Field.LABEL_REPEATED if times in "*%#" else _Field.LABEL_OPTIONAL
        field = described.field.add(name=name, number=number, label=label)
        if times == "?":
            if not described.oneof_decl:
                described.oneof_decl.add(name="value")
            field.oneof_index = 0
        if times in "%#":
            entry = described.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
            entry.options.map_entry = True
            key = _Field.TYPE_STRING if times == "%" else _Field.TYPE_UINT32
            entry.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL, type=key)
            _type(entry.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL), kind)
            field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{described.name}.{entry.name}"
        else:
            _type(field, kind)


def _parts(fields: list[str]) -> Iterator[tuple[str, int, str, str]]:
    for text in fields:
        name, _, rest = text.partition("=")
        digits = len(rest) - len(rest.lstrip("0123456789"))
        yield name, int(rest[:digits]), rest[digits], rest[digits + 1 :]


def _type(field: descriptor_pb2.FieldDescriptorProto, kind: str) -> None:
    field.type = _SCALARS.get(kind, _Field.TYPE_MESSAGE)
    if kind not in _SCALARS or kind == "DataType":
        field.type_name = f".{_PACKAGE}.{kind}"
