"""Reads the text form that ``printer`` writes, and the subset of Relay's own text that has a meaning here.

Grammar::

    module    = function* metadata?
    function  = "def" GLOBAL "(" parameters ")" ("->" types)? body
    body      = "{" (VARIABLE "=" call ";")* result "}"
    result    = call | operand | "(" operand ("," operand)* ","? ")"
    call      = (OPERATOR | GLOBAL) "(" operand* (NAME "=" attribute)* ")" regions? notes?
    regions   = "{" NAME "=" "fn" "(" parameters ")" ("->" types)? body ("," ...)* "}"
    operand   = VARIABLE ("." INT)? | literal | "meta" "[" NAME "]" "[" INT "]" | "None" | call
    notes     = "/*" ("ty=" types | "name=" STRING | "results=" STRINGS)* "*/"

A variable is the longest name in scope: ``%input.1`` is a parameter if there is one of that name, else result 1 of ``%input``.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.dims import Dim
from forge.errors import ForgeError, ParseError
from forge.ir import types as T
from forge.ir.builder import Builder
from forge.ir.lexer import Source, Token, tokenize
from forge.ir.nodes import Graph, Module, Value
from forge.ir.op import is_operator, unknown_operator
from forge.ir.text import DTYPE_OF

MAX_DEPTH = 64
_METADATA = "#[metadata]"


def parse_module(text: str, constants: Sequence[np.ndarray] | None = None) -> Module:
    """The module that ``text`` describes.

    Args:
        constants: arrays for ``meta[relay.Constant][k]``; None: those of the text's ``#[metadata]`` section.

    Raises:
        ParseError: line, column and a caret show where the text goes wrong.
    """
    body, _, trailer = text.partition(_METADATA)
    if body.startswith("#[version"):
        body = " " * (body.index("]") + 1) + body[body.index("]") + 1 :]
    arrays = list(constants) if constants is not None else _read_metadata(trailer)
    return _Parser(Source(body), arrays).module()


def parse_type(text: str) -> T.Type:
    """The type that ``text`` names, as in ``Tensor[(n, 3), float32]``.

    Raises:
        ParseError: it is no type.
    """
    parser = _Parser(Source(text), [])
    found = parser.type()
    if parser.token.kind != "end":
        raise parser.error("got more text behind the type; expected its end")
    return found


def _read_metadata(text: str) -> list[np.ndarray]:
    if not text.strip():
        return []
    try:
        entries = json.loads(text)["relay.Constant"]
        return [_decode(e["dtype"], e["shape"], e["data"]) for e in entries]
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise ParseError(f"metadata: {error}; expected the JSON that print_module(metadata=True) writes") from error


def _decode(dtype: str, shape: list[int], data: str) -> np.ndarray:
    if dtype not in dtypes.NAMES or dtype == "string" or any(not isinstance(d, int) or d < 0 for d in shape):
        raise ValueError(f"constant of dtype {dtype!r} and shape {shape}")
    return np.frombuffer(base64.b64decode(data, validate=True), dtypes.numpy_dtype(dtype)).reshape(shape)


class _Scope:
    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.values: dict[str, list[Value]] = {}


class _Parser:
    def __init__(self, source: Source, constants: Sequence[np.ndarray]) -> None:
        self.source = source
        self.constants = constants
        self.tokens = list(tokenize(source))
        self.position = 0
        self.depth = 0
        self.calls: list[tuple[Token, str]] = []

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def advance(self) -> Token:
        token = self.token
        self.position = min(self.position + 1, len(self.tokens) - 1)
        return token

    def at(self, text: str) -> bool:
        return self.token.text == text and self.token.kind in ("punctuation", "name", "endnote", "note")

    def accept(self, text: str) -> bool:
        if self.at(text):
            self.advance()
            return True
        return False

    def expect(self, text: str) -> Token:
        if not self.at(text):
            raise self.error(f"got {self.token.text or 'the end of the text'!r}; expected {text!r}")
        return self.advance()

    def expect_kind(self, kind: str, what: str) -> Token:
        if self.token.kind != kind:
            raise self.error(f"got {self.token.text or 'the end of the text'!r}; expected {what}")
        return self.advance()

    def error(self, message: str, token: Token | None = None) -> ParseError:
        return self.source.error((token or self.token).start, message)

    def module(self) -> Module:
        module = Module()
        module.graphs.clear()
        while self.token.kind != "end":
            self.expect("def")
            name = _unquote(self.expect_kind("global", "the name of a function, as in @main").text)
            if name in module.graphs:
                raise self.error(f"function @{name} is defined twice")
            module.graphs[name] = self.function(name)
        if "main" not in module.graphs:
            raise self.error("the text has no function @main")
        return module

    def function(self, name: str = "") -> Graph:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"functions nest deeper than {MAX_DEPTH}")
        graph = Graph(name=name)
        scope = _Scope(Builder(graph))
        self.expect("(")
        while not self.accept(")"):
            self.parameter(graph, scope)
            if not self.at(")"):
                self.expect(",")
        if self.accept("->"):
            self.type_list()
        self.body(scope)
        self.depth -= 1
        return graph

    def parameter(self, graph: Graph, scope: _Scope) -> None:
        if self.token.kind == "name":
            key = self.advance().text
            self.expect("=")
            graph.attributes[key] = self.attribute()
            return
        token = self.expect_kind("variable", "a parameter, as in %x: float32")
        name = _unquote(token.text)
        if name in scope.values:
            raise self.error(f"parameter %{name} is defined twice", token)
        self.expect(":")
        scope.values[name] = [graph.add_input(self.type(), name)]

    def body(self, scope: _Scope) -> None:
        self.expect("{")
        while self.token.kind == "variable" and self.tokens[self.position + 1].text == "=":
            token = self.advance()
            name = _unquote(token.text)
            if name in scope.values:
                raise self.error(f"%{name} is defined twice", token)
            self.expect("=")
            scope.values[name] = self.expression(scope)
            self.expect(";")
        scope.builder.output(*self.result(scope))
        self.expect("}")

    def result(self, scope: _Scope) -> list[Value]:
        if not self.accept("("):
            return self.expression(scope)
        values: list[Value] = []
        while not self.accept(")"):
            values.extend(self.expression(scope))
            if not self.at(")"):
                self.expect(",")
        return values

    def expression(self, scope: _Scope) -> list[Value]:
        """A call, which may have several results, or a single operand."""
        if self.token.kind == "name" and self.token.text not in ("True", "False", "None", "meta"):
            return self.call(scope)
        if self.token.kind == "global":
            return self.call(scope)
        value = self.operand(scope)
        if value is None:
            raise self.error("None is no value")
        return [value]

    def operand(self, scope: _Scope) -> Value | None:
        token = self.token
        if token.kind == "variable":
            self.advance()
            return self.resolve(scope, token)
        if token.kind in ("int", "float") or token.text in ("True", "False"):
            self.advance()
            return scope.builder.constant(self.literal(token))
        if self.accept("None"):
            return None
        if self.accept("meta"):
            return scope.builder.constant(self.meta_constant())
        if token.kind in ("name", "global"):
            results = self.call(scope)
            if len(results) != 1:
                raise self.error(f"a call with {len(results)} results cannot be an operand; bind it and use .0, .1, ...", token)
            return results[0]
        raise self.error(f"got {token.text or 'the end of the text'!r}; expected a variable, a literal, a call or None")

    def resolve(self, scope: _Scope, token: Token) -> Value:
        name = _unquote(token.text)
        number = None
        if self.token.kind == "float" and self.token.text.startswith(".") and self.token.text[1:].isdigit():
            number = self.advance().text[1:]
        elif name not in scope.values:
            name, _, number = name.rpartition(".")
        results = scope.values.get(name)
        if results is None:
            raise self.error(f"{token.text} is not defined here", token)
        if number is None:
            if len(results) != 1:
                raise self.error(f"%{name} has {len(results)} results; expected %{name}.0, ...", token)
            return results[0]
        if not number.isdigit() or int(number) >= len(results):
            raise self.error(f"%{name} has {len(results)} results; got .{number}", token)
        return results[int(number)]

    def literal(self, token: Token) -> np.ndarray:
        text = token.text
        if text in ("True", "False"):
            return np.asarray(text == "True")
        for suffix in sorted(DTYPE_OF, key=len, reverse=True):
            if suffix and text.endswith(suffix) and not text.removesuffix(suffix).endswith(("e", "E")):
                return self.typed_literal(token, text.removesuffix(suffix), DTYPE_OF[suffix])
        if token.kind == "float":
            return self.typed_literal(token, text, "float32")
        return self.typed_literal(token, text, "int32" if -(2**31) <= int(text) < 2**31 else "int64")

    def typed_literal(self, token: Token, digits: str, dtype: str) -> np.ndarray:
        if dtypes.is_float(dtype):
            return np.asarray(float(digits), dtypes.numpy_dtype(dtype))
        low, high = dtypes.integer_range(dtype)
        if not low <= int(digits) <= high:
            raise self.error(f"{digits} does not fit {dtype}", token)
        return np.asarray(int(digits), dtypes.numpy_dtype(dtype))

    def meta_constant(self) -> np.ndarray:
        self.expect("[")
        kind = self.expect_kind("name", "relay.Constant")
        if kind.text != "relay.Constant":
            raise self.error(f"got meta[{kind.text}]; expected meta[relay.Constant]", kind)
        self.expect("]")
        self.expect("[")
        token = self.expect_kind("int", "the number of a constant")
        number = int(token.text)
        if not 0 <= number < len(self.constants):
            raise self.error(f"constant {number} is missing; the text came with {len(self.constants)} constants", token)
        self.expect("]")
        return self.constants[number]

    def call(self, scope: _Scope) -> list[Value]:
        token = self.advance()
        operands: list[Value | None] = []
        attributes: dict[str, Any] = {}
        name = token.text
        if token.kind == "global":
            name, attributes = "call", {"function": _unquote(token.text)}
        elif not is_operator(name):
            raise self.error(unknown_operator(name), token)
        self.expect("(")
        while not self.accept(")"):
            if self.token.kind == "name" and self.tokens[self.position + 1].text == "=":
                key = self.advance().text
                self.expect("=")
                attributes[key] = self.attribute()
            else:
                operands.append(self.operand(scope))
            if not self.at(")"):
                self.expect(",")
        regions = self.regions() if self.at("{") else []
        result_types, node_name, result_names = self.notes()
        return self.build(scope, token, name, operands, attributes, regions, result_types, node_name, result_names)

    def build(
        self, scope: _Scope, token: Token, name: str, operands: list[Value | None], attributes: dict[str, Any],
        regions: list[Graph], result_types: list[T.Type] | None, node_name: str, result_names: list[str],
    ) -> list[Value]:
        try:
            node = scope.builder.node(name, operands, attributes, regions, node_name, result_names)
        except ParseError:
            raise
        except (ForgeError, TypeError, ValueError) as error:
            raise self.error(str(error), token) from error
        if result_types is not None:
            if len(result_types) != len(node.results):
                raise self.error(f"{len(result_types)} types for {len(node.results)} results", token)
            for value, declared in zip(node.results, result_types):
                value.type = self.declared_type(value.type, declared, token)
        return node.results

    def declared_type(self, inferred: T.Type, declared: T.Type, token: Token) -> T.Type:
        """The declared type, which may name fresh symbols as it likes but must otherwise agree."""
        if isinstance(inferred, T.TensorType) and isinstance(declared, T.TensorType):
            same_rank = len(inferred.shape) == len(declared.shape) and inferred.dtype == declared.dtype
            if not same_rank or any(dims.is_static(a, b) and a != b for a, b in zip(inferred.shape, declared.shape)):
                raise self.error(f"declared type {declared}; inferred {inferred}", token)
        elif type(inferred) is not type(declared):
            raise self.error(f"declared type {declared}; inferred {inferred}", token)
        return declared

    def regions(self) -> list[Graph]:
        self.expect("{")
        found = []
        while not self.accept("}"):
            self.expect_kind("name", "the name of a region")
            self.expect("=")
            self.expect("fn")
            found.append(self.function())
            if not self.at("}"):
                self.expect(",")
        return found

    def notes(self) -> tuple[list[T.Type] | None, str, list[str]]:
        result_types: list[T.Type] | None = None
        name, results = "", []
        while self.token.kind == "note":
            self.advance()
            while self.token.kind != "endnote":
                key = self.expect_kind("name", "ty=, name= or results=").text
                self.expect("=")
                if key == "ty":
                    result_types = self.type_list()
                elif key == "name":
                    name = self.string()
                else:
                    results = [str(v) for v in self.attribute()]
            self.advance()
        return result_types, name, results

    def string(self) -> str:
        return str(json.loads(self.expect_kind("string", "a string").text))

    def attribute(self) -> Any:
        token = self.token
        if token.kind == "string":
            return self.string()
        if token.text in ("True", "False", "None") and token.kind == "name":
            self.advance()
            return {"True": True, "False": False, "None": None}[token.text]
        if token.kind == "float":
            self.advance()
            return float(token.text.rstrip("f").removesuffix("f16").removesuffix("f64"))
        if self.accept("["):
            items = []
            while not self.accept("]"):
                items.append(self.attribute())
                if not self.at("]"):
                    self.expect(",")
            return tuple(items)
        return self.dim()

    def dim(self) -> Dim:
        """An integer expression over symbols, up to the next comma or bracket that closes."""
        start = self.token
        depth = 0
        while not (depth == 0 and self.token.text in (",", ")", "]")) and self.token.kind not in ("end", "endnote", "note"):
            depth += {"(": 1, ")": -1}.get(self.token.text, 0)
            self.advance()
        text = self.source.text[start.start : self.token.start]
        try:
            return dims.parse(text)
        except ParseError as error:
            raise self.error(str(error), start) from error

    def type_list(self) -> list[T.Type]:
        if not self.accept("("):
            return [self.type()]
        found = []
        while not self.accept(")"):
            found.append(self.type())
            if not self.at(")"):
                self.expect(",")
        return found

    def type(self) -> T.Type:
        token = self.expect_kind("name", "a type, as in Tensor[(1, 3), float32]")
        nested: dict[str, Callable[[T.Type], T.Type]] = {"Sequence": T.SequenceType, "Optional": T.OptionalType}
        if token.text in nested:
            self.expect("[")
            element = self.type()
            self.expect("]")
            return nested[token.text](element)
        if token.text == "Object":
            self.expect("[")
            name = self.expect_kind("name", "the name of a kind of object").text
            self.expect("]")
            return T.ObjectType(name)
        if token.text == "Tensor":
            return self.tensor_type()
        return T.TensorType((), self.dtype(token))

    def tensor_type(self) -> T.Type:
        self.expect("[")
        if self.accept("?"):
            self.expect(",")
            unranked = T.UnrankedType(self.dtype(self.expect_kind("name", "a dtype")))
            self.expect("]")
            return unranked
        self.expect("(")
        shape: list[Dim] = []
        while not self.accept(")"):
            shape.append(self.dim())
            if not self.at(")"):
                self.expect(",")
        self.expect(",")
        dtype = self.dtype(self.expect_kind("name", "a dtype"))
        self.expect("]")
        return T.TensorType(tuple(shape), dtype)

    def dtype(self, token: Token) -> str:
        if token.text not in dtypes.NAMES:
            raise self.error(f"unknown dtype {token.text!r}; expected one of {', '.join(dtypes.NAMES)}", token)
        return token.text


def _unquote(text: str) -> str:
    body = text[1:]
    return str(json.loads(body)) if body.startswith('"') else body
