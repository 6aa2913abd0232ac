"""Attributes in text."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from forge.frontends.stablehlo import elements
from forge.frontends.stablehlo.module import Opaque, OpaqueType, Symbol, TensorType
from forge.frontends.stablehlo.spelling import ELEMENT_TYPES, STRUCTURES, structure
from forge.frontends.stablehlo.text.dense import literal
from forge.frontends.stablehlo.text.types import TypeReader

_DIALECTS = ("stablehlo", "mhlo", "chlo")
_STRING = re.compile(r'\s*+"')
_ENUM = re.compile(r"<\s*+(?:\w++\s++)?+(\w++)\s*+>")
_OTHERS = ("affine_map", "affine_set", "strided", "sparse", "opaque", "distinct")
_SPATIAL = {"input": ("b", "f"), "kernel": ("i", "o"), "output": ("b", "f")}
_FIELDS = {
    "input": ("input_batch_dimension", "input_feature_dimension"),
    "kernel": ("kernel_input_feature_dimension", "kernel_output_feature_dimension"),
    "output": ("output_batch_dimension", "output_feature_dimension")}  # fmt: skip


class AttributeReader(TypeReader):
    """Reads attributes."""

    def __init__(self, text: str, where: str, resources: dict[str, bytes] | None = None) -> None:
        self.resources = resources or {}
        self.attribute_aliases: dict[str, Any] = {}
        super().__init__(text, where)

    def location(self) -> tuple[str, ...]:
        """``loc(...)``, by what it says."""
        raise NotImplementedError

    def attribute(self) -> Any:
        """The attribute that the reader is at."""
        self.enter()
        found = self._attribute()
        self.leave()
        return found

    def _attribute(self) -> Any:
        if self.kind == "string":
            return self._string()
        if self.kind == "number":
            return self._number()
        if self.kind == "attribute":
            return self._dialect_attribute()
        if self.kind == "symbol":
            return self._symbol()
        if self.at("["):
            return self.array()
        if self.at("{"):
            return self.dictionary()
        if self.accept("?"):
            return None
        if self.kind == "word":
            return self._keyword()
        return self.type()

    def _keyword(self) -> Any:
        if self.token in ("true", "false"):
            value = self.take() == "true"
            if self.accept(":"):
                self.type()
            return value
        if self.accept("unit"):
            return True
        if self.token in ("dense", "dense_resource"):
            return self.elements()[0]
        if self.token == "array":
            return self._dense_array()
        if self.token == "loc":
            return next(iter(self.location()), "")
        if self.token in _OTHERS:
            return Opaque(self.balanced())
        if self.at_type():
            return self.type()
        self.unexpected("an attribute")

    def _string(self) -> str:
        value = self.string()
        if self.accept(":"):
            self.type()
        return value

    def _symbol(self) -> Symbol:
        names = [self.symbol_name()]
        while self.accept("::"):
            names.append(self.symbol_name())
        return Symbol("::".join(names))

    def _number(self) -> Any:
        token = self.take()
        kind = ""
        if self.accept(":"):
            given = self.type()
            kind = ELEMENT_TYPES.get(given.text, "") if isinstance(given, OpaqueType) else ""
            if not kind:
                self.fail(f"got the number {token[:40]} of another type; expected one of integers or floats")
        return self.number(token, kind or ("float64" if "." in token else "int64"))

    def number(self, token: str, dtype: str) -> Any:
        """A number of an element type; floats may be given by their bits."""
        if len(token) > 400:
            self.fail("got a number of more than 400 digits")
        is_integer = "int" in dtype or dtype == "bool"
        if is_integer and "." in token:
            self.fail(f"got {token[:40]}; expected an integer")
        value = int(token, 16) if "x" in token else float(token) if "." in token else int(token)
        if is_integer:
            return value if dtype == "int64" and -1 << 63 <= value < 1 << 63 else self._one(elements.from_numbers, value, dtype)
        return self._one(elements.from_bits if "x" in token else elements.from_numbers, value, dtype)

    def _one(self, make: Any, value: Any, dtype: str) -> Any:
        return make([value], dtype, self.fail).item()

    def array(self) -> list[Any]:
        """``[a, b]``."""
        self.expect("[")
        if self.accept("]"):
            return []
        found = [self.attribute()]
        while self.more("]"):
            found.append(self.attribute())
        return found

    def integers(self) -> list[int]:
        """``[1, 2]``, quickly."""
        self.expect("[")
        if self.accept("]"):
            return []
        found = [self.integer()]
        while self.more("]"):
            found.append(self.integer())
        return found

    def dictionary(self) -> dict[str, Any]:
        """``{a = 1, b}``."""
        self.expect("{")
        found: dict[str, Any] = {}
        if self.accept("}"):
            return found
        while True:
            name = self.string() if self.kind == "string" else self.take_kind("word", "the name of an attribute")
            if name in found:
                self.fail(f"attribute {name!r} is given twice")
            found[name] = self.attribute() if self.accept("=") else True
            if not self.more("}"):
                return found

    def elements(self) -> tuple[np.ndarray[Any, Any], TensorType]:
        """``dense<...> : tensor<...>``, or the name of a resource that has the bytes; and the type."""
        if self.token == "dense_resource":
            return self._resource()
        self.expect("dense")
        if not self.at("<"):
            self.unexpected("'<'")
        if not _STRING.match(self.text, self.stop):
            contents = literal(self)
            given = self._type_of_elements()
            return contents.array(given, self), given
        self.take()
        token = self.take_kind("string", "elements")
        self.expect(">")
        given = self._type_of_elements()
        return elements.from_bytes(self.hexadecimal(token), given, self.fail), given

    def _type_of_elements(self) -> TensorType:
        self.expect(":")
        given = self.type()
        if not isinstance(given, TensorType):
            self.fail(f"got elements of type {given}; expected a tensor of numbers")
        return given

    def hexadecimal(self, token: str) -> bytes:
        """The bytes of ``"0x..."``."""
        if not token.startswith('"0x'):
            self.fail("got a string; expected bytes in hexadecimal, \"0x...\"")
        try:
            return bytes.fromhex(token[3:-1])
        except ValueError:
            self.fail("got a string that is not hexadecimal; expected bytes, \"0x...\"")

    def _resource(self) -> tuple[np.ndarray[Any, Any], TensorType]:
        self.take()
        self.expect("<")
        name = self.string() if self.kind == "string" else self.take_kind("word", "the name of a resource")
        self.expect(">")
        given = self._type_of_elements()
        if name not in self.resources:
            self.fail(f"resource {name!r} has no contents in this text; expected it in the section {{-# dialect_resources #-}}")
        return elements.from_bytes(self.resources[name], given, self.fail), given

    def _dense_array(self) -> list[Any]:
        """``array<i64: 1, 2>``."""
        self.take()
        self.expect("<")
        dtype, _ = self.element_type()
        found: list[Any] = []
        if self.accept(">"):
            return found
        self.expect(":")
        while True:
            if self.token in ("true", "false"):
                found.append(self.take() == "true")
            else:
                found.append(self.number(self.take_kind("number", "a number"), dtype))
            if not self.more(">"):
                return found

    def _dialect_attribute(self) -> Any:
        dialect, _, mnemonic = self.token[1:].partition(".")
        if not mnemonic and dialect in self.attribute_aliases:
            return self.attribute_aliases[self.alias()]
        if dialect in _DIALECTS:
            return self._own_attribute(mnemonic)
        if not mnemonic and self.text[self.stop : self.stop + 1] != "<":
            self.fail(f"attribute alias {self.token} is not defined before it is used")
        return Opaque(self.balanced())

    def _own_attribute(self, mnemonic: str) -> Any:
        """``#stablehlo<precision DEFAULT>``, ``#stablehlo.gather<...>``."""
        if mnemonic in STRUCTURES:
            self.take()
            return self.structure(mnemonic)
        if mnemonic == "bounds":
            self.take()
            self.expect("<")
            bounds = [self.attribute()]
            while self.more(">"):
                bounds.append(self.attribute())
            return {"bounds": bounds}
        if found := _ENUM.match(self.text, self.stop):
            self.jump(found.end())
            return found[1]
        return Opaque(self.balanced())

    def structure(self, mnemonic: str) -> dict[str, Any]:
        """``<name = value, ...>``: the fields of a structure."""
        self.expect("<")
        if mnemonic == "conv" and not self.accept("raw"):
            numbers = self.convolution_dimensions()
            self.expect(">")
            return numbers
        fields: dict[str, Any] = {}
        while not self.accept(">"):
            name = self.take_kind("word", "the name of a field")
            if name not in STRUCTURES[mnemonic] or name in fields:
                self.fail(f"#{mnemonic}: got field {name!r}; expected each of these once: {', '.join(STRUCTURES[mnemonic])}")
            self.expect("=")
            fields[name] = self.attribute()
            if not self.accept(",") and not self.at(">"):
                self.unexpected("',' or '>'")
        return structure(mnemonic, fields, self.fail)

    def convolution_dimensions(self) -> dict[str, Any]:
        """``[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]``."""
        fields = self._convolution_part("input")
        if not self.accept("x"):  # which lexes with what follows: "x["
            self.unexpected("'x'")
        fields |= self._convolution_part("kernel")
        self.expect("->")
        return structure("conv", fields | self._convolution_part("output"), self.fail)

    def _convolution_part(self, part: str) -> dict[str, Any]:
        self.expect("[")
        places: dict[str, int] = {}
        while True:
            name = self.take()
            if name in places or not (name.isdigit() or name == "?" or name in _SPATIAL[part]):
                self.fail(f"got dimension {name!r} of the {part}; expected {', '.join(_SPATIAL[part])} and numbers, each once")
            places[name] = len(places)
            if not self.more("]"):
                break
        spatial = [places.get(str(index)) for index in range(len(places) - 2)]
        if None in spatial or any(name not in places for name in _SPATIAL[part]):
            self.fail(f"got dimensions {', '.join(places)} of the {part}; expected {', '.join(_SPATIAL[part])} and 0, 1, ...")
        first, second = (places[name] for name in _SPATIAL[part])
        return {_FIELDS[part][0]: first, _FIELDS[part][1]: second, f"{part}_spatial_dimensions": spatial}
