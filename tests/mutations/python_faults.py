"""Changes of one line of Python, found in its syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

_COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "in": "not in", "not in": "in",
                "is": "is not", "is not": "is"}
_OPERATORS = {"+": "-", "-": "+", "//": "%", "%": "//", "*": "+", "/": "*", "<<": ">>", ">>": "<<", "&": "|", "|": "&"}
_OTHER_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum",
                "floor": "ceil", "ceil": "floor", "argmin": "argmax", "argmax": "argmin", "issubset": "issuperset",
                "zeros": "ones", "ones": "zeros", "amin": "amax", "amax": "amin", "startswith": "endswith"}
_SYMMETRIC = ("isinstance", "getattr", "min", "max", "gcd", "zip")
_SAYS = re.compile(
    r"error|warn|message|refuse|unsupported|reject|describe|explain|^(say|log|repr|__repr__|__str__|cast|TypeVar)$", re.I)
"""Names of functions that make messages, and of those whose calls do not compute."""
_SPEED = re.compile(r"cost|speed|seconds|heuristic|estimate|cycles|budget|worth|faster|profit|progress", re.IGNORECASE)
"""Names of functions and constants that decide how fast code is."""


@dataclass(frozen=True)
class Change:
    """Text between two columns (in characters) of a line (from 0) that is replaced."""

    kind: str
    line: int
    start: int
    end: int
    text: str


class _Source:
    """Lines of a module, addressed by the positions of its syntax tree, which count bytes of UTF-8."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()

    def column(self, line: int, offset: int) -> int:
        return len(self.lines[line - 1].encode()[:offset].decode())

    def span(self, first: ast.expr, last: ast.expr) -> tuple[int, int, int] | None:
        """Line (from 0), start and end of what reaches from one node to another; None if it is on several lines."""
        if first.lineno != last.end_lineno or last.end_col_offset is None:
            return None
        return first.lineno - 1, self.column(first.lineno, first.col_offset), self.column(first.lineno, last.end_col_offset)

    def text(self, node: ast.expr) -> str | None:
        found = self.span(node, node)
        return None if found is None else self.lines[found[0]][found[1] : found[2]]

    def between(self, left: ast.expr, right: ast.expr) -> tuple[int, int, int] | None:
        """What is between two nodes on one line, without brackets and blanks."""
        if left.end_lineno != right.lineno or left.end_col_offset is None:
            return None
        start, end = self.column(right.lineno, left.end_col_offset), self.column(right.lineno, right.col_offset)
        part = self.lines[right.lineno - 1][start:end]
        inner = part.strip(" ()")
        start += part.find(inner)
        return (right.lineno - 1, start, start + len(inner)) if inner else None


def changes(text: str) -> list[Change]:
    """All changes of a module, but for those of messages, types, names and what is known to decide on speed alone."""
    source = _Source(text)
    return [change for node in _computing(ast.parse(text)) for rule in _RULES for change in rule(source, node)]


def _computing(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that compute something, from the outside in."""
    for child in _parts(node):
        if not _skipped(child):
            yield child
            yield from _computing(child)


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """Children, but for decorators and type hints."""
    left_out = {"annotation", "returns", "decorator_list", "type_params", "bases"}
    for name, value in ast.iter_fields(node):
        if name not in left_out:
            yield from (child for child in (value if isinstance(value, list) else [value]) if isinstance(child, ast.AST))


def _skipped(node: ast.AST) -> bool:
    match node:
        case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return bool(_SAYS.search(name) or _SPEED.search(name))
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name == "__all__" or bool(_SPEED.search(name))
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return bool(_SAYS.search(name))
    return False


def _comparison(source: _Source, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Compare):
        yield from _in_chain(source, "comparison", [node.left, *node.comparators], _COMPARISONS)


def _boolean(source: _Source, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BoolOp):
        yield from _in_chain(source, "and, or", node.values, {"and": "or", "or": "and"})


def _arithmetic(source: _Source, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BinOp) and not any(_is_text(side) for side in (node.left, node.right)):
        yield from _in_chain(source, "arithmetic", [node.left, node.right], _OPERATORS)


def _is_text(node: ast.expr) -> bool:
    """Whether there is no difference of it: of a text, or a list that is written out."""
    is_string = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_string or isinstance(node, ast.JoinedStr | ast.List | ast.Tuple)


def _in_chain(source: _Source, kind: str, parts: list[ast.expr], others: dict[str, str]) -> Iterator[Change]:
    for left, right in pairwise(parts):
        place = source.between(left, right)
        if place is not None:
            line, start, end = place
            other = others.get(source.lines[line][start:end])
            if other:
                yield Change(kind, line, start, end, other)


def _constant(source: _Source, node: ast.AST) -> Iterator[Change]:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, bool | int):
        return
    place, value = source.span(node, node), node.value
    if place is None:
        return
    if isinstance(value, bool):
        yield Change("True, False", *place, str(not value))
    elif source.text(node) == str(value):
        yield Change("constant", *place, str(value + 1))
        if value > 0:
            yield Change("constant", *place, str(value - 1))


def _condition(source: _Source, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.If | ast.While | ast.IfExp) and not isinstance(node.test, ast.Compare):
        test = node.test
        inner = test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else None
        place, text = source.span(test, test), source.text(inner or test)
        if place is not None and text is not None:
            yield Change("condition", *place, text if inner else f"not ({text})")


def _half_condition(source: _Source, node: ast.AST) -> Iterator[Change]:
    """One part of a condition that has several is left out."""
    if isinstance(node, ast.BoolOp) and len(node.values) > 1:
        place = source.span(node, node)
        texts = [source.text(value) for value in node.values]
        if place is not None and None not in texts:
            word = " and " if isinstance(node.op, ast.And) else " or "
            for k in range(len(texts)):
                yield Change("condition left out", *place, word.join(t for j, t in enumerate(texts) if j != k and t))


def _call(source: _Source, node: ast.AST) -> Iterator[Change]:
    if not isinstance(node, ast.Call):
        return
    name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""
    place = source.span(node.func, node.func)
    if name in _OTHER_NAMES and place is not None:
        line, _, end = place
        yield Change("other function", line, end - len(name), end, _OTHER_NAMES[name])
    for first, second in pairwise(node.args):
        place, texts = source.span(first, second), (source.text(first), source.text(second))
        alike = type(first) is type(second) and not isinstance(first, ast.Starred)
        if alike and place is not None and texts[0] != texts[1] and name not in _SYMMETRIC:
            yield Change("order of arguments", *place, f"{texts[1]}, {texts[0]}")
    yield from _keywords(source, node)


def _keywords(source: _Source, node: ast.Call) -> Iterator[Change]:
    """A keyword argument after another argument is left out."""
    parts: list[ast.expr] = [*node.args, *(keyword.value for keyword in node.keywords)]
    for k in range(max(len(node.args), 1), len(parts)):
        before, value = parts[k - 1], parts[k]
        if node.keywords[k - len(node.args)].arg is not None and before.end_lineno == value.end_lineno:
            place = source.span(before, value)
            if place is not None:
                yield Change("argument left out", *place, source.text(before) or "")


def _slice(source: _Source, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Slice):
        for bound in (node.lower, node.upper):
            place = None if bound is None else source.span(bound, bound)
            if place is not None and not isinstance(bound, ast.Constant):
                yield Change("slice", *place, f"{source.lines[place[0]][place[1] : place[2]]} + 1")


def _collection(source: _Source, node: ast.AST) -> Iterator[Change]:
    """One string of a set, tuple or list is left out: an element type, an attribute, an operator."""
    if isinstance(node, ast.Set | ast.Tuple | ast.List) and len(node.elts) > 2:
        for before, element in pairwise(node.elts):
            place = source.span(before, element)
            text = isinstance(element, ast.Constant) and isinstance(element.value, str)
            if text and place is not None:
                yield Change("element left out", *place, source.text(before) or "")


def _statement(source: _Source, node: ast.AST) -> Iterator[Change]:
    """A statement is left out: a call, an assignment in place, an early return, the end of a round of a loop."""
    dropped = isinstance(node, ast.AugAssign | ast.Continue | ast.Break) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
    if dropped and isinstance(node, ast.stmt) and node.lineno == node.end_lineno:
        line = source.lines[node.lineno - 1]
        yield Change("statement left out", node.lineno - 1, len(line) - len(line.lstrip()), len(line.rstrip()), "pass")


def _return(source: _Source, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.If) and len(node.body) == 1 and isinstance(node.body[0], ast.Return) and not node.orelse:
        early = node.body[0]
        if early.lineno == early.end_lineno:
            line = source.lines[early.lineno - 1]
            yield Change("early return left out", early.lineno - 1, len(line) - len(line.lstrip()), len(line.rstrip()), "pass")


_RULES: tuple[Callable[[_Source, ast.AST], Iterator[Change]], ...] = (
    _comparison, _boolean, _arithmetic, _constant, _condition, _half_condition, _call, _slice, _collection, _statement, _return)
