"""What torch assumed of sizes while it exported a program: it computes what the module does only where this holds.

Torch writes each assumption as an expression of Python, such as ``L['x'].size()[0] % 2 == 0``. Nothing is evaluated but the
functions here.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import NamedTuple, NoReturn

from forge import dims
from forge.dims import Dim
from forge.errors import ImportModelError
from forge.frontends.state.ratios import Ratio, floor, trunc

MAX_TEXT = 20_000
SizeOf = Callable[[str, int], Dim | None]
"""The size of an input, by its name, along an axis; None where the program has none."""


class Condition(NamedTuple):
    """``size`` is ``least`` to ``most``."""

    size: Dim
    least: int | None
    most: int | None


def conditions(text: str, size_of: SizeOf) -> list[Condition]:
    """The conditions on sizes that an assumption consists of.

    Raises:
        ImportModelError: it is of another form.
    """
    try:
        if len(text) > MAX_TEXT:
            raise ValueError("text")
        return _Reader(text, size_of).conditions(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ImportModelError(_message(text)) from error


def _message(text: str) -> str:
    return (
        f"torch assumed {text[:200]!r} while it exported the model; expected comparisons of sizes, of products, quotients, least "
        "and largest of them; export the model with fixed sizes")


class _Reader:
    def __init__(self, text: str, size_of: SizeOf) -> None:
        self.text = text
        self.size_of = size_of

    def fail(self) -> NoReturn:
        raise ImportModelError(_message(self.text))

    def conditions(self, node: ast.expr) -> list[Condition]:
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            return [found for part in node.values for found in self.conditions(part)]
        if isinstance(node, ast.BoolOp):
            parts = [self.conditions(part) for part in node.values]
            if all(len(part) == 1 and part[0].least == part[0].most == 0 for part in parts):  # one of these sizes is 0
                return [Condition(dims.product(part[0].size for part in parts), 0, 0)]
            self.fail()
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            found = _COMPARISONS.get(type(node.ops[0]))
            if found is not None:
                a, b = self.number(node.left), self.number(node.comparators[0])
                if a.is_exact and b.is_exact:
                    return [found(a.value * b.divisor - b.value * a.divisor)]
        self.fail()

    def number(self, node: ast.expr) -> Ratio:
        """A number, or an expression of sizes."""
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return Ratio.of(value)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Ratio.of(-1) * self.number(operand)
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _ARITHMETIC:
                return _ARITHMETIC[type(op)](self.number(left), self.number(right))
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in _FUNCTIONS and arguments:
                return _FUNCTIONS[name](*map(self.number, arguments))
            case ast.Call(func=ast.Attribute(value=ast.Name(id="math"), attr="floor" | "trunc" as name), args=[argument]):
                return Ratio({"floor": floor, "trunc": trunc}[name](self.number(argument)))
            case ast.Subscript(
                value=ast.Call(func=ast.Attribute(value=source, attr="size"), args=[]), slice=ast.Constant(int(axis))):
                size = self.size_of(self.name(source), axis)
                if size is not None:
                    return Ratio(size)
        self.fail()

    def name(self, node: ast.expr) -> str:
        """The input that ``L['x'][0]`` is: ``x_0``."""
        keys = []
        while isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            keys.append(str(node.slice.value))
            node = node.value
        if not isinstance(node, ast.Name) or node.id != "L" or not keys:
            self.fail()
        return "_".join(keys[::-1])


def _integers(function: Callable[[Dim, Dim], Dim]) -> Callable[[Ratio, Ratio], Ratio]:
    return lambda a, b: Ratio(function(a.integer(), b.integer()))


def _extremum(function: Callable[[Dim, Dim], Dim]) -> Callable[..., Ratio]:
    return lambda *values: Ratio(reduce(function, (value.integer() for value in values)))


def _power(base: Dim, exponent: Dim) -> Dim:
    if not isinstance(exponent, int) or not 0 <= exponent <= dims.MAX_DEGREE:
        raise ValueError("power")
    return dims.product([base] * exponent)


_ARITHMETIC: Mapping[type[ast.operator], Callable[[Ratio, Ratio], Ratio]] = MappingProxyType({
    ast.Add: operator.add,
    ast.Sub: lambda a, b: a + Ratio.of(-1) * b,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: _integers(dims.floordiv),
    ast.Mod: _integers(dims.floormod),
    ast.Pow: _integers(_power),
})
_FUNCTIONS: Mapping[str, Callable[..., Ratio]] = MappingProxyType({
    "min": _extremum(dims.minimum),
    "max": _extremum(dims.maximum),
    "float": lambda value: value,
    "Mod": _integers(dims.floormod),
    "PythonMod": _integers(dims.floormod),
    "FloorDiv": _integers(dims.floordiv),
    "CleanDiv": _integers(dims.floordiv),
})
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Dim], Condition]] = MappingProxyType({
    ast.Eq: lambda difference: Condition(difference, 0, 0),
    ast.GtE: lambda difference: Condition(difference, 0, None),
    ast.Gt: lambda difference: Condition(difference, 1, None),
    ast.LtE: lambda difference: Condition(difference, None, 0),
    ast.Lt: lambda difference: Condition(difference, None, -1),
    ast.NotEq: lambda difference: Condition(difference * difference, 1, None),
})
