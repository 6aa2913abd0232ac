"""Reads the text form that ``printer`` writes, and the subset of Relay's own text that has a meaning here.

Grammar (``cursor`` has attributes, types and notes)::

    module    = version? function* metadata?
    function  = "def" GLOBAL "(" parameters ")" ("->" types)? body
    parameters = (("state" | "donated")? VARIABLE (":" type)? ("=" literal)? | NAME "=" attribute),*
    body      = "{" (VARIABLE "=" expression ";")* result "}"
    result    = expression | "(" ((VARIABLE "=")? expression),* ")"
    expression = call | operand
    call      = (OPERATOR | GLOBAL) "(" (operand | NAME "=" attribute),* ")" regions? notes
    regions   = "{" (NAME "=" "fn" "(" parameters ")" ("->" types)? body),* "}"
    operand   = VARIABLE ("." INT)? | literal notes | "meta" "[" "relay.Constant" "]" "[" INT "]" notes | "None" | call

``X,*`` stands for any number of X with commas between. A variable is the longest name in scope: ``%input.1`` is a parameter if
there is one of that name, else result 1 of ``%input``. A result ``%k = ...`` replaces the state or the donated parameter ``%k``;
a state that is not read has no parameter, or one with an initial value in place of the type. Functions may stand in any order;
they do not call themselves.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import json
import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from forge import dtypes
from forge.errors import ForgeError, ParseError
from forge.ir import attributes as attributes_of
from forge.ir import types as T
from forge.ir.arrays import from_bytes
from forge.ir.builder import Builder
from forge.ir.call import CALL, result_types
from forge.ir.functions.states import State
from forge.ir.graph import Graph, Module
from forge.ir.nodes import CONSTANT, Node, Value
from forge.ir.op import OpDef, get_op, is_operator, unknown_operator
from forge.ir.text import DTYPE_OF, name_text
from forge.ir.text.cursor import Cursor, Notes
from forge.ir.text.lexer import Source, Token

_METADATA = re.compile(r"^#\[metadata\]", re.MULTILINE)
_VERSION = re.compile(r"\A\s*#\[version[^\]\n]*\]")
_WORDS = ("True", "False", "None", "meta")
_INT = re.compile(r"(-?[0-9]+)([iu][0-9]+)?")


class UnknownOperator(ParseError):
    """The text uses an operator that is not registered."""


class MissingConstant(ParseError):
    """The text refers to a constant that did not come with it."""


def has_metadata(text: str) -> bool:
    """Whether the text holds its constants itself, in a ``#[metadata]`` section."""
    return _METADATA.search(text) is not None


def parse_module(text: str, constants: Sequence[np.ndarray] | None = None) -> Module:
    """The module that ``text`` describes.

    Args:
        constants: arrays for ``meta[relay.Constant][k]``; None: those of the text's ``#[metadata]`` section.

    Raises:
        ParseError: line, column and a caret show where the text goes wrong; UnknownOperator, MissingConstant: what it lacks.
    """
    trailer = _METADATA.search(text)
    body = text[: trailer.start()] if trailer else text
    body = _VERSION.sub(lambda version: re.sub(r"[^\n]", " ", version[0]), body)
    if constants is None:
        constants = _read_metadata(text, trailer.start()) if trailer else []
    return _Parser(body, constants).module()


def _read_metadata(text: str, start: int) -> list[np.ndarray]:
    """The constants of a metadata section, which begins at ``start``."""
    source, expected = Source(text), "expected the JSON that print_module(metadata=True) writes"
    try:
        entries = json.loads(text[start:].removeprefix("#[metadata]"))["relay.Constant"]
        enumerated = list(enumerate(entries))
    except json.JSONDecodeError as error:
        raise source.error(start + len("#[metadata]") + error.pos, f"metadata: {error.msg}; {expected}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise source.error(start, f"metadata: {error!r}; {expected}") from error
    arrays = []
    for number, entry in enumerated:
        try:
            arrays.append(from_bytes(base64.b64decode(entry["data"], validate=True), entry["dtype"], entry["shape"]))
        except (ValueError, KeyError, TypeError, binascii.Error) as error:
            raise source.error(start, f"metadata: constant {number}: {error!r}; {expected}") from error
    return arrays


class _Scope:
    """Names inside one function or region. Keys are the names as they are printed; ``symbols`` are defined so far."""

    def __init__(self, graph: Graph, symbols: Collection[str]) -> None:
        self.builder = Builder(graph)
        self.symbols = set(symbols)
        self.values: dict[str, list[Value]] = {}
        self.constants: dict[tuple[int, str], Value] = {}


class _Parser(Cursor):
    def __init__(self, text: str, constants: Sequence[np.ndarray]) -> None:
        super().__init__(text)
        self.constants = constants
        self.functions: dict[str, Graph] = {}
        self.ends: dict[str, int] = {}
        self.starts = self._starts()
        self.active: list[str] = []

    def _starts(self) -> dict[str, int]:
        """Where each function's parameters begin."""
        starts: dict[str, int] = {}
        for position, token in enumerate(self.tokens[:-1]):
            following = self.tokens[position + 1]
            if token.kind == "name" and token.text == "def" and following.kind == "global":
                name = self.name_of(following)
                if name in starts:
                    raise self.error(f"function @{name} is defined twice", following)
                starts[name] = position + 2
        return starts

    def module(self) -> Module:
        module = Module()
        module.graphs.clear()
        while self.token.kind != "end":
            self.expect("def")
            name = self.name_of(self.expect_kind("global", "the name of a function, as in @main"))
            module.graphs[name] = self.named_function(name)
            self.position = self.ends[name]
        if not module.public:
            raise self.error("the text has no function @main, and none with public=True")
        return module

    def named_function(self, name: str) -> Graph:
        """The function, read now unless a call has needed it before."""
        if name not in self.functions:
            position, self.position = self.position, self.starts[name]
            self.active.append(name)
            self.functions[name] = self.function(name)
            self.active.pop()
            self.ends[name], self.position = self.position, position
        return self.functions[name]

    def function(self, name: str = "", outside: Collection[str] = ()) -> Graph:
        """A function, or a region in whose text the symbols ``outside`` have a meaning."""
        graph = Graph(name=name)
        scope = _Scope(graph, outside)
        with self.nested():
            self.expect("(")
            self.listed(")", lambda: self.parameter(graph, scope))
            token, known = self.token, set(scope.symbols)
            declared = self.types() if self.accept("->") else None
            self.body(scope)
            self.check_outputs(graph, declared, known, token)
        return graph

    def check_outputs(self, graph: Graph, declared: list[T.Type] | None, known: Collection[str], token: Token) -> None:
        types = [v.type for v in graph.outputs]
        if declared is not None and (len(declared) != len(types) or T.mismatch(declared, types, known)):
            listed = [", ".join(map(str, t)) or "nothing" for t in (declared, types)]
            raise self.error(f"declared to return {listed[0]}; returns {listed[1]}", token)

    def parameter(self, graph: Graph, scope: _Scope) -> None:
        is_role = self.token.text in ("state", "donated") and self.tokens[self.position + 1].kind == "variable"
        role = self.advance().text if is_role else ""
        if self.token.kind == "name":
            key = self.advance()
            self.expect("=")
            if key.text in graph.attributes:
                raise self.error(f"attribute {key.text} is given twice", key)
            graph.attributes[key.text] = self.attribute()
            return
        token = self.expect_kind("variable", "a parameter, as in %x: float32")
        name = self.name_of(token)
        if role == "donated":
            graph.donated[name] = -1
        is_read = role != "state" or not self.at("=")
        if is_read:
            self.expect(":")
            value = graph.add_input(self.type(), name)
            scope.symbols.update(T.symbols(value.type))
            self.define(scope, token, [value])
        if role == "state":
            graph.states[name] = State(initial=self.array() if self.accept("=") else None)

    def define(self, scope: _Scope, token: Token, values: list[Value]) -> None:
        key = self.key_of(token)
        if key in scope.values:
            raise self.error(f"{token.text} is defined twice", token)
        scope.values[key] = values

    def key_of(self, token: Token) -> str:
        return name_text(self.name_of(token)) if token.text[1] == '"' else token.text[1:]

    def body(self, scope: _Scope) -> None:
        self.expect("{")
        while self.token.kind == "variable" and self.tokens[self.position + 1].text == "=":
            token = self.advance()
            self.expect("=")
            values = self.expression(scope)
            self.expect(";")
            self.define(scope, token, values)
            if len(values) == 1 and not values[0].name and not token.text[1:].isdigit():
                values[0].name = self.name_of(token)
        scope.builder.output(*self.result(scope))
        self.expect("}")

    def result(self, scope: _Scope) -> list[Value]:
        if not self.accept("("):
            return self.expression(scope)
        found: list[Value] = []

        def item() -> None:
            if self.token.kind == "variable" and self.tokens[self.position + 1].text == "=":
                self.replaced(scope.builder.graph, self.advance(), len(found))
                self.expect("=")
            found.extend(self.expression(scope))

        self.listed(")", item)
        return found

    def replaced(self, graph: Graph, token: Token, output: int) -> None:
        """Notes that an output takes the place of a donated input or a state."""
        name = self.name_of(token)
        if name in graph.donated:
            graph.donated[name] = output
        else:
            graph.states[name] = State(output, graph.states[name].initial if name in graph.states else None)

    def expression(self, scope: _Scope) -> list[Value]:
        """A call, which may have several results, or a single operand."""
        if self.token.kind == "global" or (self.token.kind == "name" and self.token.text not in _WORDS):
            return self.call(scope)
        token = self.token
        value = self.operand(scope)
        if value is None:
            raise self.error("None is not a value", token)
        return [value]

    def operand(self, scope: _Scope) -> Value | None:
        token = self.token
        if token.kind == "variable":
            self.advance()
            return self.resolve(scope, token)
        if self.at_literal():
            self.advance()
            return self.constant(scope, self.literal(token))
        if self.accept("None"):
            return None
        if self.accept("meta"):
            return self.meta_constant(scope)
        if token.kind in ("name", "global"):
            results = self.call(scope)
            if len(results) != 1:
                raise self.error(f"a call with {len(results)} results cannot be an operand; bind it and use .0, .1, ...", token)
            return results[0]
        raise self.unexpected("a variable, a literal, a call or None")

    def resolve(self, scope: _Scope, token: Token) -> Value:
        name, number = self.key_of(token), ""
        if token.text[1] == '"' and re.fullmatch(r"\.[0-9]+", self.token.text):
            number = self.advance().text[1:]
        elif name not in scope.values:
            name, _, number = name.rpartition(".")
        results = scope.values.get(name)
        if results is None:
            raise self.error(_undefined(token.text, self.key_of(token), scope), token)
        if number == "" and len(results) == 1:
            return results[0]
        valid = [str(k) for k in range(len(results))]
        if number not in valid:
            raise self.error(f"%{name} has {len(results)} results; got {token.text}; expected %{name}.0, ...", token)
        return results[valid.index(number)]

    def constant(self, scope: _Scope, array: np.ndarray) -> Value:
        notes = self.notes()
        return scope.builder.constant(array, name=notes.name)

    def at_literal(self) -> bool:
        return self.token.kind in ("int", "float") or (self.token.kind == "name" and self.token.text in ("True", "False"))

    def array(self) -> np.ndarray:
        """A literal, or an array that comes with the text."""
        if self.at_literal():
            return self.literal(self.advance())
        if not self.accept("meta"):
            raise self.unexpected("a literal or meta[relay.Constant]")
        return self.constants[self.meta_number()]

    def literal(self, token: Token) -> np.ndarray:
        if token.kind == "name":
            return np.asarray(token.text == "True")
        if token.kind == "float":
            value, suffix = self.number(token)
            return self.float_literal(token, value, DTYPE_OF[suffix or "f"])
        match = _INT.fullmatch(token.text)
        assert match is not None
        number = int(match[1]) if len(match[1]) <= 21 else 1 << 64
        default = "int32" if -(1 << 31) <= number < 1 << 31 else "int64"
        dtype = DTYPE_OF[match[2]] if match[2] else default
        low, high = dtypes.integer_range(dtype)
        if not low <= number <= high:
            raise self.error(f"{token.text[:40]} does not fit {dtype}", token)
        return np.asarray(number, dtypes.numpy_dtype(dtype))

    def float_literal(self, token: Token, value: float, dtype: str) -> np.ndarray:
        with np.errstate(over="ignore"):
            array = np.asarray(value, dtypes.numpy_dtype(dtype))
        if np.isinf(array) and not np.isinf(value):
            raise self.error(f"{token.text[:40]} does not fit {dtype}", token)
        return array

    def meta_number(self) -> int:
        """The number of an array that comes with the text."""
        self.expect("[")
        kind = self.expect_kind("name", "relay.Constant")
        if kind.text != "relay.Constant":
            raise self.error(f"got meta[{kind.text}]; expected meta[relay.Constant]", kind)
        self.expect("]")
        self.expect("[")
        token = self.expect_kind("int", "the number of a constant")
        number = int(token.text) if token.text.isdigit() and len(token.text) < 10 else len(self.constants)
        if number >= len(self.constants):
            missing = f"constant {token.text[:40]} is missing; the text came with {len(self.constants)} constants"
            expected = "expected them in a #[metadata] section or, for a file of IRModule.save, beside it"
            raise MissingConstant(str(self.error(f"{missing}; {expected}", token)))
        self.expect("]")
        return number

    def meta_constant(self, scope: _Scope) -> Value:
        number, name = self.meta_number(), self.notes().name
        if (number, name) not in scope.constants:
            scope.constants[number, name] = scope.builder.constant(self.constants[number], name=name)
        return scope.constants[number, name]

    def call(self, scope: _Scope) -> list[Value]:
        token = self.advance()
        if token.kind == "name" and (token.text in (CONSTANT.name, CALL.name) or not is_operator(token.text)):
            raise UnknownOperator(str(self.error(unknown_operator(token.text), token)))
        operands: list[Value | None] = []
        attributes: dict[str, Any] = {}
        self.expect("(")
        with self.nested():
            self.listed(")", lambda: self.argument(scope, operands, attributes))
            regions = self.regions(scope, token) if self.at("{") else []
        notes = self.notes()
        try:
            return self.apply(scope, token, operands, attributes, regions, notes).results
        except ParseError:
            raise
        except ForgeError as error:
            raise self.error(str(error), token) from error

    def argument(self, scope: _Scope, operands: list[Value | None], attributes: dict[str, Any]) -> None:
        if not self.at_keyword():
            operands.append(self.operand(scope))
            return
        key = self.advance()
        self.expect("=")
        if key.text in attributes:
            raise self.error(f"attribute {key.text} is given twice", key)
        attributes[key.text] = self.attribute()

    def apply(
        self,
        scope: _Scope,
        token: Token,
        operands: list[Value | None],
        attributes: dict[str, Any],
        regions: list[Graph],
        notes: Notes,
    ) -> Node:
        op_def: OpDef[Any] = CALL if token.kind == "global" else get_op(token.text)
        if token.kind == "global":
            if attributes or regions:
                raise self.error("a function takes neither attributes nor regions", token)
            attributes = self.call_attributes(scope, token, operands, notes)
        try:
            node = scope.builder.node(op_def, operands, attributes, regions, notes.name, notes.results)
        except ParseError as error:  # of a program that an attribute has as text
            raise self.error(f"{op_def.name}: {error}", token) from error
        node.location = notes.place
        undefined = [s for s in attributes_of.symbols(node.attrs) if s not in scope.symbols and op_def is not CALL]
        if undefined:
            raise self.error(f"{op_def.name}: an attribute uses the symbol {undefined[0]}, which no earlier value defines", token)
        if len(notes.results) > len(node.results):
            raise self.error(f"{len(notes.results)} names for {len(node.results)} results", token)
        for value, declared in zip(node.results, self.declared(scope, token, notes, [v.type for v in node.results])):
            value.type = declared
            scope.symbols.update(T.symbols(declared))
        return node

    def call_attributes(self, scope: _Scope, token: Token, operands: list[Value | None], notes: Notes) -> dict[str, Any]:
        name = self.name_of(token)
        if name not in self.starts:
            raise self.error(f"function @{name} is not defined; the text defines: {', '.join(self.starts)}", token)
        if name in self.active:
            raise self.error(f"function @{name} calls itself through {' -> '.join('@' + n for n in self.active)}", token)
        results = result_types(name, self.named_function(name), operands)
        return {"function": name, "results": self.declared(scope, token, notes, list(results))}

    def declared(self, scope: _Scope, token: Token, notes: Notes, inferred: list[T.Type]) -> list[T.Type]:
        """The declared types if there are any: they may name fresh symbols as they like but must otherwise agree."""
        if notes.types is None:
            return inferred
        if len(notes.types) != len(inferred):
            raise self.error(f"{len(notes.types)} types for {len(inferred)} results", token)
        wrong = T.mismatch(notes.types, inferred, scope.symbols)
        if wrong:
            raise self.error(f"declared type {wrong[0]}; inferred {wrong[1]}", token)
        return notes.types

    def regions(self, scope: _Scope, token: Token) -> list[Graph]:
        def region() -> tuple[str, Graph]:
            label = self.expect_kind("name", "the name of a region").text
            self.expect("=")
            self.expect("fn")
            return label, self.function(outside=scope.symbols)

        self.expect("{")
        found = self.listed("}", region)
        labels = [label for label, _ in found]
        expected = list(get_op(token.text).regions) if token.kind == "name" else []
        if labels != expected:
            raise self.error(f"got regions {', '.join(labels) or 'none'}; expected {', '.join(expected) or 'none'}", token)
        return [graph for _, graph in found]


def _undefined(text: str, key: str, scope: _Scope) -> str:
    near = difflib.get_close_matches(key, scope.values, 3)
    return f"{text} is not defined here" + (f"; did you mean {' or '.join('%' + n for n in near)}" if near else "")
