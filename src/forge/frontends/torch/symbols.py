"""Sizes as torch writes them: expressions of sympy, as its ``srepr`` spells them. Nothing is evaluated but the functions here."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType

from forge import dims
from forge.dims import Dim
from forge.errors import ImportModelError

MAX_TEXT = 20_000
MAX_INT = 1 << 62


def parse(text: str) -> Dim:
    """The size that ``text`` stands for: ``Add(Symbol('s0', integer=True), Integer(1))``. Symbols keep torch's names.

    Raises:
        ImportModelError: it is too long, or no arithmetic on integers.
    """
    try:
        if len(text) > MAX_TEXT:
            raise _unknown(text)
        return _size(ast.parse(text, mode="eval").body, text)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise _unknown(text) from error


def _unknown(text: str) -> ImportModelError:
    return ImportModelError(f"size {text[:200]!r}: expected integers and symbols; export the model with fixed sizes")


def _size(node: ast.expr, text: str) -> Dim:
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) <= MAX_INT:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_size(node.operand, text)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise _unknown(text)
    if node.func.id == "Symbol":
        return dims.symbol(_name(node, text))
    function = _FUNCTIONS.get(node.func.id)
    if function is None or not node.args:
        raise _unknown(text)
    return function([_size(argument, text) for argument in node.args])


def _name(node: ast.Call, text: str) -> str:
    if len(node.args) == 1 and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
        return node.args[0].value
    raise _unknown(text)


def _power(values: Sequence[Dim]) -> Dim:
    base, exponent = values
    if not isinstance(exponent, int) or not 0 <= exponent <= dims.MAX_DEGREE:
        raise ValueError("power")
    return dims.product([base] * exponent)


_FUNCTIONS: Mapping[str, Callable[[Sequence[Dim]], Dim]] = MappingProxyType({
    "Integer": lambda v: v[0],
    "Add": lambda v: reduce(lambda a, b: a + b, v),
    "Mul": dims.product,
    "Max": lambda v: reduce(dims.maximum, v),
    "Min": lambda v: reduce(dims.minimum, v),
    "Mod": lambda v: dims.floormod(v[0], v[1]),
    "PythonMod": lambda v: dims.floormod(v[0], v[1]),
    "FloorDiv": lambda v: dims.floordiv(v[0], v[1]),
    "CleanDiv": lambda v: dims.floordiv(v[0], v[1]),
    "CeilDiv": lambda v: dims.ceildiv(v[0], v[1]),
    "PowByNatural": _power,
    "Pow": _power,
})
