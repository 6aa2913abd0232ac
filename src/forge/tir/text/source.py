"""From text to one checked Python function: limits, positions of errors, parameters."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn

from forge.errors import ParseError

MAX_TEXT: Final = 1 << 16
MAX_DEPTH: Final = 64
"""Of syntax inside each other."""
MAX_NODES: Final = 1 << 15
MAX_PARAMETERS: Final = 64
MAX_RANK: Final = 16

DTYPES: Final = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64",
)
PREFIXES: Final = ("T", "te", "tir")
"""Modules whose names may stand in front of what this language has."""

Constants = Mapping[str, int | float | bool]


@dataclass(frozen=True)
class Source:
    """The text that is read, for messages."""

    lines: Sequence[str]
    what: str  # "program" or "expression"
    constants: Constants = field(default_factory=dict)

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        """Raises ParseError with line, column and a caret."""
        raise self.error(getattr(node, "lineno", 1), getattr(node, "col_offset", 0), message)

    def error(self, line: int, column: int, message: str) -> ParseError:
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        column = len(text.encode()[:column].decode(errors="ignore"))
        start = max(0, column - 60)
        shown = text[start : start + 120]
        return ParseError(f"{self.what}: line {line}, column {column + 1}: {message}\n  {shown}\n  {' ' * (column - start)}^")


def parse_function(text: str, what: str, constants: Constants | None = None) -> tuple[Source, ast.FunctionDef]:
    """The only function in ``text``.

    Raises:
        ParseError: it is too long or too deep, is not Python, or holds anything else.
    """
    if len(text) > MAX_TEXT:
        raise ParseError(f"{what}: got {len(text)} characters; expected at most {MAX_TEXT}")
    source = Source(text.split("\n"), what, constants or {})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError as error:
        raise source.error(error.lineno or 1, max(0, (error.offset or 1) - 1), f"no Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        expected = f"expected one function, nested at most {MAX_DEPTH} deep"
        raise ParseError(f"{what}: got text that Python cannot read; {expected}") from None
    _check_size(source, tree)
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        source.fail(tree.body[0] if tree.body else tree, "got something else; expected one function, 'def name(...):'")
    function = tree.body[0]
    if not all(isinstance(d, ast.Name | ast.Attribute) for d in function.decorator_list):
        source.fail(function.decorator_list[0], "got a decorator with arguments; expected none, or a name")
    a = function.args
    if a.vararg or a.kwarg or a.kwonlyargs or a.defaults or a.posonlyargs:
        source.fail(function, "got defaults, * or **; expected parameters with an annotation each")
    if len(a.args) > MAX_PARAMETERS:
        source.fail(function, f"got {len(a.args)} parameters; expected at most {MAX_PARAMETERS}")
    return source, function


def _check_size(source: Source, tree: ast.AST) -> None:
    """Level by level, so that nothing here is as deep as the text."""
    level, depth, count = [tree], 0, 0
    while level:
        depth, count = depth + 1, count + len(level)
        if depth > MAX_DEPTH + 4:
            source.fail(level[0], f"nested more than {MAX_DEPTH} deep; name parts of it")
        if count > MAX_NODES:
            source.fail(level[0], f"got more than {MAX_NODES} parts; split it")
        level = [child for node in level for child in ast.iter_child_nodes(node)]


def name_of(node: ast.AST) -> str | None:
    """The name that ``node`` is, without the module of TVM in front of it; None: it is none."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in PREFIXES:
        return node.attr
    return None


def called(node: ast.AST) -> tuple[str, list[ast.expr], dict[str, ast.expr]] | None:
    """Name, arguments and keywords of a call; None: it is not a call of a name."""
    if not isinstance(node, ast.Call) or any(isinstance(a, ast.Starred) for a in node.args):
        return None
    name, keywords = name_of(node.func), {k.arg: k.value for k in node.keywords}
    return None if name is None or None in keywords else (name, node.args, {k: v for k, v in keywords.items() if k is not None})


def text_of(node: ast.AST | None) -> str | None:
    """The text that a literal is."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def statements_of(source: Source, function: ast.FunctionDef) -> list[ast.stmt]:
    """The body without a docstring."""
    body = list(function.body)
    if isinstance(body[0], ast.Expr) and text_of(body[0].value) is not None:
        del body[0]
    return body


@dataclass(frozen=True)
class Declared:
    """A parameter: a tensor's shape and element type, or a number (no shape)."""

    node: ast.arg
    name: str
    shape: tuple[ast.expr, ...] | None
    dtype: str


def parameters_of(source: Source, function: ast.FunctionDef, kind: str) -> list[Declared]:
    """The parameters, where those with elements are a ``kind``: Buffer or Tensor."""
    return [_parameter(source, a, kind) for a in function.args.args]


def _parameter(source: Source, argument: ast.arg, kind: str) -> Declared:
    expected = f'expected {kind}[(n, m), "float32"], or int64 for a number'
    annotation = argument.annotation
    quoted = text_of(annotation)
    if quoted is not None:
        try:
            annotation = ast.parse(quoted, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            source.fail(argument, f"annotation {quoted[:40]!r}; {expected}")
        for part in ast.walk(annotation):
            ast.copy_location(part, argument)
    if annotation is None:
        source.fail(argument, f"parameter {argument.arg!r} has no annotation; {expected}")
    call = called(annotation)
    if (name_of(annotation) or (call[0] if call and not call[1] else "")) in ("int64", "int32", "int"):
        return Declared(argument, argument.arg, None, "int64")
    parts: list[ast.expr] = []
    if isinstance(annotation, ast.Subscript) and name_of(annotation.value) == kind:
        parts = list(annotation.slice.elts) if isinstance(annotation.slice, ast.Tuple) else []
    elif call and call[0] == kind:
        parts = [*call[1], *call[2].values()] if set(call[2]) <= {"dtype"} else []
    dtype = text_of(parts[1]) or name_of(parts[1]) if len(parts) == 2 else None
    if dtype is None:
        source.fail(annotation, f"parameter {argument.arg!r}; {expected}")
    return Declared(argument, argument.arg, extents_of(source, parts[0]), checked_dtype(source, parts[1], dtype))


def extents_of(source: Source, node: ast.expr) -> tuple[ast.expr, ...]:
    """The extents of a shape."""
    extents = tuple(node.elts) if isinstance(node, ast.Tuple | ast.List) else (node,)
    if len(extents) > MAX_RANK:
        source.fail(node, f"got {len(extents)} axes; expected at most {MAX_RANK}")
    return extents


def checked_dtype(source: Source, node: ast.AST, dtype: str) -> str:
    if dtype not in DTYPES:
        source.fail(node, f"element type {dtype[:40]!r}; expected one of {', '.join(DTYPES)}")
    return dtype
