"""Attributes and types of MLIR's builtin dialect in bytecode: those that portable artifacts have beside VHLO's: locations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from forge.frontends.stablehlo import elements
from forge.frontends.stablehlo.bytecode.tables import Decoding
from forge.frontends.stablehlo.module import FunctionType, Opaque, OpaqueType, QuantizedType, Symbol, TensorType, TupleType, Type
from forge.frontends.stablehlo.spelling import COMPLEX_TYPES, ELEMENT_TYPES, MAX_RANK


@dataclass(frozen=True)
class QuantizedElement(OpaqueType):
    """An element type that is quantized."""

    quantized: QuantizedType


class Location(Opaque):
    """A location, by what messages say of it."""


def element_type(kind: Type) -> str:
    """Forge's name of an element type; "" for others."""
    text = kind.text if isinstance(kind, OpaqueType) else ""
    if text.startswith("complex<"):
        return COMPLEX_TYPES.get(ELEMENT_TYPES.get(text[8:-1], ""), "")
    return ELEMENT_TYPES.get(text, "")


def number(item: Decoding, kind: Type) -> Any:
    """An integer or float, of the type before it."""
    dtype = element_type(kind)
    if dtype == "bool":
        return bool(item.integer(1))
    if not dtype or dtype.startswith("complex"):
        item.fail(f"got a number of type {kind}; expected an integer or float")
    if "int" not in dtype:
        size = elements.numpy_type(dtype).itemsize
        return elements.from_bits([item.integer(8 * size) & ((1 << 8 * size) - 1)], dtype, item.fail).item()
    bits = int(dtype.partition("int")[2])
    value = item.integer(bits)
    return value & ((1 << bits) - 1) if dtype.startswith("u") else value


def tensor(item: Decoding, element: Type, shape: list[int], encoding: Any = None) -> Type:
    """A ranked tensor; negative sizes are those that are not known."""
    if len(shape) > MAX_RANK:
        item.fail(f"got a tensor of rank {len(shape)}; expected at most {MAX_RANK}")
    sizes = tuple(None if size < 0 else size for size in shape)
    quantized = element.quantized if isinstance(element, QuantizedElement) else None
    dtype = quantized.storage if quantized else element_type(element)
    if not dtype:
        item.fail(f"got a tensor of {element}; expected an element type, one of: {', '.join(ELEMENT_TYPES)}")
    bounds = encoding.get("bounds") if isinstance(encoding, dict) else None
    if encoding is not None and (not isinstance(bounds, list) or len(bounds) != len(sizes)):
        item.fail("got a tensor with an encoding that is not known; expected bounds of its sizes")
    return TensorType(sizes, dtype, tuple(bounds) if bounds is not None else None, quantized)


def location(item: Decoding) -> str:
    found = item.attribute()
    return found.text if isinstance(found, Location) else ""


def _named_location(item: Decoding) -> Location:
    """One with a name: jax puts ``sort:`` around ``jit(f)/sort``."""
    name, child = item.name(), location(item)
    return Location(child if name.endswith(":") and child else name or child)


def _call_site(item: Decoding) -> Location:
    callee, caller = location(item), location(item)
    return Location(callee or caller)


def _file_location(item: Decoding) -> Location:
    name, line, _ = item.name(), item.varint(), item.varint()
    return Location(f"{name}:{line}")


def _file_range(item: Decoding) -> Location:
    name, numbers = item.name(), item.list(item.varint)
    return Location(f"{name}:{numbers[0] if numbers else 0}")


def _fused(item: Decoding) -> Location:
    return Location(next((text for text in item.list(lambda: location(item)) if text), ""))


def _fused_with_metadata(item: Decoding) -> Location:
    found = _fused(item)
    item.attribute()
    return found


def _string_with_type(item: Decoding) -> str:
    found = item.string()
    item.type()
    return found


def _symbol(item: Decoding) -> Symbol:
    names = [item.name(), *item.list(item.name)]
    return Symbol("::".join(names))


def _dense_array(item: Decoding) -> list[Any]:
    kind = item.type()
    size = item.count()
    values = elements.from_bytes(item.blob(), TensorType((size,), element_type(kind) or "int64"), item.fail)
    return list(values.tolist())


def dense(item: Decoding) -> Any:
    """Elements of a tensor."""
    kind = _tensor_type(item)
    return elements.from_bytes(item.blob(), kind, item.fail)


def _resource(item: Decoding) -> Any:
    kind, index = _tensor_type(item), item.varint()
    found = item.tables.resources[index] if index < len(item.tables.resources) else None
    if found is None:
        item.fail(f"got resource {index}, which has no contents in this file")
    return elements.from_bytes(found, kind, item.fail)


def _tensor_type(item: Decoding) -> TensorType:
    kind = item.type()
    if not isinstance(kind, TensorType):
        item.fail(f"got elements of type {kind}; expected a tensor")
    return kind


_ATTRIBUTES: dict[int, Callable[[Decoding], Any]] = {
    0: Decoding.attributes,
    1: Decoding.dictionary,
    2: Decoding.string,
    3: _string_with_type,
    4: lambda item: Symbol(item.name()),
    5: _symbol,
    6: Decoding.type,
    7: lambda item: True,
    8: lambda item: number(item, item.type()),
    9: lambda item: number(item, item.type()),
    10: _call_site,
    11: _file_location,
    12: _fused,
    13: _fused_with_metadata,
    14: _named_location,
    15: lambda item: Location(""),
    16: _resource,
    17: _dense_array,
    18: dense,
    22: _file_range,
}


def _integer_type(item: Decoding) -> OpaqueType:
    value = item.varint()
    return OpaqueType(f"{('', 's', 'u', '')[value & 3]}i{value >> 2}")


def _encoded_tensor(item: Decoding) -> Type:
    encoding = item.attribute()
    shape = item.signed_list()
    return tensor(item, item.type(), shape, encoding)


def _tensor(item: Decoding) -> Type:
    shape = item.signed_list()
    return tensor(item, item.type(), shape)


_TYPES: dict[int, Callable[[Decoding], Type]] = {
    0: _integer_type,
    1: lambda item: OpaqueType("index"),
    2: lambda item: FunctionType(tuple(item.types()), tuple(item.types())),
    3: lambda item: OpaqueType("bf16"),
    4: lambda item: OpaqueType("f16"),
    5: lambda item: OpaqueType("f32"),
    6: lambda item: OpaqueType("f64"),
    9: lambda item: OpaqueType(f"complex<{text_of(item)}>"),
    12: lambda item: OpaqueType("none"),
    13: _tensor,
    14: _encoded_tensor,
    15: lambda item: TupleType(tuple(item.types())),
}


def text_of(item: Decoding) -> str:
    """The text of an element type."""
    kind = item.type()
    if not isinstance(kind, OpaqueType):
        item.fail(f"got {kind}; expected an element type")
    return kind.text


def attribute(item: Decoding) -> Any:
    code = item.varint()
    if code not in _ATTRIBUTES:
        item.fail(f"got attribute {code} of the builtin dialect; expected one of: {', '.join(map(str, _ATTRIBUTES))}")
    return _ATTRIBUTES[code](item)


def kind(item: Decoding) -> Type:
    code = item.varint()
    if code not in _TYPES:
        item.fail(f"got type {code} of the builtin dialect; expected one of: {', '.join(map(str, _TYPES))}")
    return _TYPES[code](item)
