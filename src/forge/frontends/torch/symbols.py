"""Sizes as torch writes them: expressions of sympy, as its ``srepr`` spells them. Nothing is evaluated but the functions here."""

from __future__ import annotations

import ast
import hashlib
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType

from forge import dims
from forge.dims import Dim
from forge.errors import ImportModelError
from forge.frontends.state.ratios import Ratio, floor, trunc

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
    if node.func.id in ROUNDED and any(map(_is_real, ast.walk(node))):
        return dims.symbol(f"{node.func.id}_{hashlib.sha256(ast.unparse(node).encode()).hexdigest()[:16]}")
    if node.func.id in _ROUNDING and len(node.args) == 1:
        return _ROUNDING[node.func.id](_ratio(node.args[0], text))
    function = _FUNCTIONS.get(node.func.id)
    if function is None or not node.args:
        raise _unknown(text)
    return function([_size(argument, text) for argument in node.args])


ROUNDED = frozenset({"FloorToInt", "TruncToInt", "CeilToInt", "RoundToInt"})
"""Functions of floating-point numbers that are known when the model runs; their results are symbols of their own."""


def is_rounded(symbol: str) -> bool:
    """Whether a symbol stands for such a result."""
    return symbol.partition("_")[0] in ROUNDED


def _is_real(node: ast.AST) -> bool:
    """Whether a part of an expression is a symbol of floating-point numbers."""
    is_symbol = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Symbol"
    return is_symbol and any(keyword.arg == "real" for keyword in node.keywords)  # type: ignore[attr-defined]


_ROUNDING: Mapping[str, Callable[[Ratio], Dim]] = MappingProxyType({"FloorToInt": floor, "TruncToInt": trunc})


def _ratio(node: ast.expr, text: str) -> Ratio:
    """What torch computes of sizes in float64."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        name, arguments = node.func.id, node.args
        if name == "Float" and isinstance(arguments[0], ast.Constant) and isinstance(arguments[0].value, str):
            return Ratio.of(float(arguments[0].value))
        if name == "ToFloat":
            return Ratio(_size(arguments[0], text))
        if name in ("Mul", "Add"):
            return reduce({"Mul": operator.mul, "Add": operator.add}[name], (_ratio(part, text) for part in arguments))
        if name in ("IntTrueDiv", "FloatTrueDiv") and len(arguments) == 2:
            return _ratio(arguments[0], text) / _ratio(arguments[1], text)
    return Ratio(_size(node, text))


def _name(node: ast.Call, text: str) -> str:
    is_text = len(node.args) == 1 and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
    if is_text and not _is_real(node):
        return str(node.args[0].value)  # type: ignore[attr-defined]
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
