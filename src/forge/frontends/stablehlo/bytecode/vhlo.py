"""Attributes and types of VHLO, the versioned StableHLO that portable artifacts are written in. Their codes never change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forge.frontends.stablehlo import spelling
from forge.frontends.stablehlo.bytecode import builtin
from forge.frontends.stablehlo.bytecode.tables import Decoding
from forge.frontends.stablehlo.module import (
    FunctionType,
    Opaque,
    OpaqueType,
    QuantizedType,
    TokenType,
    TupleType,
    Type,
)


def _enumeration(*names: str) -> Callable[[Decoding], str]:
    def read(item: Decoding) -> str:
        value = item.varint()
        if value >= len(names) or not names[value]:
            item.fail(f"got value {value} of an enumeration; expected one of: {', '.join(filter(None, names))}")
        return names[value]

    return read


def _boolean(item: Decoding) -> bool:
    value = item.varint()
    if value > 1:
        item.fail(f"got the boolean {value}; expected 0 or 1")
    return bool(value)


def _alias(item: Decoding) -> dict[str, Any]:
    return {
        "output_tuple_indices": item.signed_list(), "operand_index": item.signed(), "operand_tuple_indices": item.signed_list()}


def _result_accuracy(item: Decoding) -> dict[str, Any]:
    fields = {"atol": item.double(), "rtol": item.double(), "ulps": item.signed(), "mode": item.attribute()}
    return spelling.structure("result_accuracy", fields, item.fail)


def _sub_axis(item: Decoding) -> Opaque:
    before, size = item.signed(), item.signed()
    return Opaque(f"({before}){size}")


def _axis(item: Decoding) -> Opaque:
    name, part = item.name(), item.attribute() if item.varint() else None
    return Opaque(f"#stablehlo.axis_ref<name = {name!r}{f', sub_axis_info = {part}' if part else ''}>")


def _axes(item: Decoding) -> Opaque:
    mesh, axes = item.attribute(), item.attribute()
    return Opaque(f"#stablehlo.replica_group_mesh_axes<mesh = {mesh}, axes = {axes}>")


def _mesh_axis(item: Decoding) -> Opaque:
    name, size = item.name(), item.signed()
    return Opaque(f"#stablehlo.mesh_axis<name = {name!r}, size = {size}>")


def _mesh(item: Decoding) -> Opaque:
    axes, devices = item.attribute(), item.optional()
    return Opaque(f"#stablehlo.mesh<axes = {axes}, device_ids = {devices}>")


_ATTRIBUTES: dict[int, Callable[[Decoding], Any]] = {
    1: Decoding.attributes,
    2: _boolean,
    3: _enumeration("EQ", "NE", "GE", "GT", "LE", "LT"),
    4: _enumeration("NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"),
    5: Decoding.varint,  # the version of a custom call's interface, a number in StableHLO
    6: Decoding.dictionary,
    7: _enumeration("FFT", "IFFT", "RFFT", "IRFFT"),
    8: lambda item: builtin.number(item, item.type()),
    9: lambda item: builtin.number(item, item.type()),
    10: _alias,
    11: _enumeration("DEFAULT", "HIGH", "HIGHEST"),
    12: _enumeration("DEFAULT", "THREE_FRY", "PHILOX"),
    13: _enumeration("", "UNIFORM", "NORMAL"),
    14: Decoding.string,
    15: builtin.dense,
    16: _enumeration("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
    17: Decoding.type,
    18: lambda item: {"bounds": [None if size < 0 else size for size in item.signed_list()]},
    19: _enumeration("DEFAULT", "HIGHEST", "TOLERANCE"),
    20: _result_accuracy,
    21: _sub_axis,
    22: _axis,
    23: _axes,
    24: _mesh_axis,
    25: _mesh,
}


def _quantized(item: Decoding) -> builtin.QuantizedElement:
    flags, storage, expressed = item.varint(), item.type(), item.type()
    scale, zero_point = item.double(), item.signed()
    return _quantized_element(item, flags, storage, expressed, ((scale,), (zero_point,), None))


def _quantized_along_axis(item: Decoding) -> builtin.QuantizedElement:
    flags, storage, expressed, axis = item.varint(), item.type(), item.type(), item.varint()
    low, high = item.signed(), item.signed()
    scales, zero_points = item.list(item.double), item.list(item.signed)
    if len(scales) != len(zero_points):
        item.fail(f"got {len(scales)} scales and {len(zero_points)} zero points of a quantized type; expected as many")
    return _quantized_element(item, flags, storage, expressed, (tuple(scales), tuple(zero_points), axis), (low, high))


def _quantized_element(
    item: Decoding, flags: int, storage: Type, expressed: Type, numbers: tuple[tuple[float, ...], tuple[int, ...], int | None],
    limits: tuple[int, int] | None = None,
) -> builtin.QuantizedElement:
    low, high = limits or (item.signed(), item.signed())
    integers = builtin.element_type(storage).removeprefix("u")
    floats = builtin.element_type(expressed)
    if not integers.startswith("int") or not floats:
        item.fail(f"got a quantized type of {storage} for {expressed}; expected integers for floats")
    kind = QuantizedType(integers if flags & 1 else f"u{integers}", floats, *numbers, low, high)
    return builtin.QuantizedElement(f"!quant.uniform<{kind}>", kind)


def _tensor(item: Decoding) -> Type:
    shape = item.signed_list()
    return builtin.tensor(item, item.type(), shape)


def _encoded_tensor(item: Decoding) -> Type:
    encoding = item.attribute()
    shape = item.signed_list()
    return builtin.tensor(item, item.type(), shape, encoding)


def _buffer(item: Decoding) -> Type:
    shape = item.signed_list()
    return OpaqueType(f"memref<{''.join(f'{size}x' for size in shape)}{builtin.text_of(item)}>")


_NAMES = {
    0: "i1", 2: "bf16", 3: "f16", 4: "f32", 5: "f64", 6: "f8E4M3FN", 7: "f8E5M2", 9: "index", 10: "i4", 11: "i8", 12: "i16",
    13: "i32", 14: "i64", 15: "ui4", 16: "ui8", 17: "ui16", 18: "ui32", 19: "ui64", 27: "f8E4M3FNUZ", 28: "f8E5M2FNUZ",
    29: "f8E4M3B11FNUZ", 31: "i2", 32: "ui2", 33: "none", 34: "tf32", 35: "f8E4M3", 36: "f8E3M4", 37: "f4E2M1FN",
    38: "f6E2M3FN", 39: "f6E3M2FN", 40: "f8E8M0FNU", 26: "!shape.witness",
}  # fmt: skip
"""Types without parts."""
_TYPES: dict[int, Callable[[Decoding], Type]] = {
    1: lambda item: OpaqueType(f"complex<{builtin.text_of(item)}>"),
    8: lambda item: FunctionType(tuple(item.types()), tuple(item.types())),
    20: _tensor,
    21: _encoded_tensor,
    22: lambda item: TokenType(),
    23: lambda item: TupleType(tuple(item.types())),
    24: _quantized,
    25: lambda item: OpaqueType(f"tensor<*x{builtin.text_of(item)}>"),
    30: _quantized_along_axis,
    41: _buffer,
    42: lambda item: OpaqueType(f"!stablehlo.future<{', '.join(map(spelling.type_text, item.types()))}>"),
}


def attribute(item: Decoding) -> Any:
    code = item.varint()
    if code not in _ATTRIBUTES:
        item.fail(f"got attribute {code} of VHLO, which is not known; expected a version of StableHLO up to 1.20")
    return _ATTRIBUTES[code](item)


def kind(item: Decoding) -> Type:
    code = item.varint()
    if code in _NAMES:
        return OpaqueType(_NAMES[code])
    if code not in _TYPES:
        item.fail(f"got type {code} of VHLO, which is not known; expected a version of StableHLO up to 1.20")
    return _TYPES[code](item)
