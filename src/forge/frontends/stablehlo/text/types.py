"""Types in text."""

from __future__ import annotations

import re
from typing import Any

from forge.frontends.stablehlo.module import FunctionType, OpaqueType, QuantizedType, TensorType, TokenType, TupleType, Type
from forge.frontends.stablehlo.spelling import COMPLEX_TYPES, ELEMENT_TYPES, MAX_RANK
from forge.frontends.stablehlo.text.lexer import Lexer

_TENSOR = re.compile(r"tensor<((?:(?:\d{1,18}|\?)x)*+)(\w++)>")
_SHAPE = re.compile(r"tensor\s*+<\s*+((?:(?:\d{1,18}|\?)\s*+x\s*+)*+)(?!\d)")
_SCALAR = re.compile(r"(?:[us]?i\d{1,8}|b?f\d\w*|tf32|index|none)\Z")
_OTHERS = ("memref", "vector")
_TOKENS = ("!stablehlo.token", "!mhlo.token")


class TypeReader(Lexer):
    """Reads types."""

    def __init__(self, text: str, where: str) -> None:
        self.tensors: dict[str, Type] = {}
        self.type_aliases: dict[str, Type] = {}
        super().__init__(text, where)

    def attribute(self) -> Any:
        raise NotImplementedError

    def type(self) -> Type:
        """The type that the reader is at."""
        if self.token == "tensor":
            return self._tensor()
        self.enter()
        found = self._other_type()
        self.leave()
        return found

    def at_type(self) -> bool:
        """Whether the token begins a type."""
        if self.kind == "word":
            return self.token in ("tensor", "tuple", "complex", *_OTHERS) or _SCALAR.match(self.token) is not None
        return self.kind == "type" or self.at("(")

    def types(self) -> list[Type]:
        """Types with commas between them, one at least."""
        found = [self.type()]
        while self.accept(","):
            found.append(self.type())
        return found

    def type_or_types(self) -> list[Type]:
        """One type, or several in parentheses."""
        return self._enclosed() if self.at("(") else [self.type()]

    def function_type(self) -> FunctionType:
        """``(A, B) -> C``."""
        inputs = self._enclosed()
        self.expect("->")
        return FunctionType(tuple(inputs), tuple(self.type_or_types()))

    def _enclosed(self) -> list[Type]:
        self.expect("(")
        if self.accept(")"):
            return []
        found = self.types()
        self.expect(")")
        return found

    def _other_type(self) -> Type:
        if self.kind == "type":
            return self._dialect_type()
        if self.at("("):
            return self.function_type()
        if self.kind != "word":
            self.unexpected("a type")
        if self.accept("tuple"):
            self.expect("<")
            elements = [] if self.at(">") else self.types()
            self.expect(">")
            return TupleType(tuple(elements))
        if self.token in ("complex", *_OTHERS):
            return OpaqueType(self.balanced())
        if not _SCALAR.match(self.token):
            self.unexpected("a type")
        return OpaqueType(self.take())

    def _dialect_type(self) -> Type:
        if self.token in _TOKENS:
            self.take()
            return TokenType()
        if self.token[1:] in self.type_aliases:
            return self.type_aliases[self.alias()]
        if "." not in self.token and self.text[self.stop : self.stop + 1] != "<":
            self.fail(f"type alias {self.token} is not defined before it is used")
        return OpaqueType(self.balanced())

    def _tensor(self) -> Type:
        found = _TENSOR.match(self.text, self.start)
        if found is None:
            return self._general_tensor()
        if (known := self.tensors.get(found[0])) is None:
            if found[2] not in ELEMENT_TYPES:
                self.fail(f"{found[0]}: got element type {found[2]!r}; expected one of: {', '.join(ELEMENT_TYPES)}")
            known = self.tensors[found[0]] = TensorType(self._shape(found[1]), ELEMENT_TYPES[found[2]])
        self.jump(found.end())
        return known

    def _shape(self, text: str) -> tuple[int | None, ...]:
        sizes = [size.strip() for size in text.split("x")[:-1]]
        if len(sizes) > MAX_RANK:
            self.fail(f"got a tensor of rank {len(sizes)}; expected at most {MAX_RANK}")
        return tuple(None if size == "?" else int(size) for size in sizes)

    def _general_tensor(self) -> Type:
        found = _SHAPE.match(self.text, self.start)
        if found is None or self.text[found.end() : found.end() + 1] == "*":
            return OpaqueType(self.balanced())
        shape = self._shape(found[1])
        self.jump(found.end())
        dtype, quantized = self.element_type()
        bounds = None
        if self.accept(","):
            bounds = self._bounds(len(shape))
        self.expect(">")
        return TensorType(shape, dtype, bounds, quantized)

    def element_type(self) -> tuple[str, QuantizedType | None]:
        """The element type of a tensor, and how its integers stand for numbers."""
        if self.accept("complex"):
            self.expect("<")
            part, _ = self.element_type() if not self.at("complex") else ("", None)
            self.expect(">")
            if part not in COMPLEX_TYPES:
                self.fail("got a complex type; expected one of: complex<f32>, complex<f64>")
            return COMPLEX_TYPES[part], None
        if self.token.startswith("!") and self.token[1:] in self.type_aliases:
            known = self.type_aliases[self.take()[1:]]
            return self._element_of_alias(known)
        if self.token == "!quant.uniform":
            quantized = self._quantized()
            return quantized.storage, quantized
        if self.kind != "word" or self.token not in ELEMENT_TYPES:
            self.unexpected(f"an element type, one of: {', '.join(ELEMENT_TYPES)}")
        return ELEMENT_TYPES[self.take()], None

    def _element_of_alias(self, known: Type) -> tuple[str, QuantizedType | None]:
        """An alias names an element type by its text."""
        if not isinstance(known, OpaqueType) or known.text.startswith("!") and known.text[1:] in self.type_aliases:
            self.fail("got an alias of another type; expected one of an element type")
        reader = TypeReader(known.text, self.where)
        return reader.element_type()

    def _bounds(self, rank: int) -> tuple[int | None, ...] | None:
        encoding = self.attribute()
        bounds = encoding.get("bounds") if isinstance(encoding, dict) else None
        if not isinstance(bounds, list) or len(bounds) != rank:
            self.fail(f"got an encoding of a tensor that is not known; expected #stablehlo.bounds<...> of {rank} sizes")
        return tuple(bounds)

    def _quantized(self) -> QuantizedType:
        """``!quant.uniform<i8<-127:127>:f32:1, {0.1:2, 0.2:3}>``."""
        self.take()
        self.expect("<")
        storage = self.take_kind("word", "the type of quantized integers, such as i8 or u8")
        dtype = ELEMENT_TYPES.get(f"ui{storage[1:].lstrip('i')}" if storage.startswith("u") else storage)
        if dtype is None or "int" not in dtype or storage == "index":
            self.fail(f"got quantized integers of type {storage!r}; expected one such as i8 or u8")
        bits, signed = int(dtype.partition("int")[2]), not dtype.startswith("u")
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        if self.accept("<"):
            low = self.integer()
            self.expect(":")
            high = self.integer()
            self.expect(">")
        self.expect(":")
        expressed, _ = self.element_type()
        axis = None
        if self.accept(":"):
            axis = self.integer()
        self.expect(",")
        pairs = self._scales() if axis is not None else [self._scale()]
        self.expect(">")
        return QuantizedType(dtype, expressed, tuple(s for s, _ in pairs), tuple(z for _, z in pairs), axis, low, high)

    def _scales(self) -> list[tuple[float, int]]:
        self.expect("{")
        pairs = [self._scale()]
        while self.more("}"):
            pairs.append(self._scale())
        return pairs

    def _scale(self) -> tuple[float, int]:
        token = self.take_kind("number", "a scale")
        if len(token) > 400 or "x" in token:
            self.fail(f"got {token[:40]}; expected a scale such as 0.5")
        return float(token), self.integer() if self.accept(":") else 0
