"""Reads values: from Python's syntax to expressions, with types checked."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any, Final, NoReturn

import ml_dtypes

from forge import dtypes
from forge.tir import expr as E
from forge.tir.expr import Expr, Tensor
from forge.tir.text.source import DTYPES, Source, called, checked_dtype, text_of

Number = int | float | bool
Operand = Expr | Number
Scope = dict[str, Any]
"""What names stand for: variables, tensors, reduction axes."""

FLOAT_CALLS: Final = {
    name: E.INTRINSICS[name]
    for name in (
        "floor", "ceil", "trunc", "round", "sqrt", "rsqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin",
        "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "pow", "fmod", "atan2",
        "sigmoid", "silu", "gelu", "gelu_tanh", "mish", "softplus", "isnan", "isinf", "fma",
    )
}
INTEGER_CALLS: Final = ("popcount", "clz")
INTEGER_OPERATIONS: Final = ("truncdiv", "truncmod")
REDUCTIONS: Final = {"sum": "sum", "prod": "prod", "max": "max", "min": "min", "all": "and", "any": "or"}
RESERVED: Final = frozenset({
    *FLOAT_CALLS, *INTEGER_CALLS, *INTEGER_OPERATIONS, *REDUCTIONS, *DTYPES, "abs", "select", "inf", "nan", "range", "grid",
    "parallel", "vectorized", "unrolled", "local", "compute", "reduce_axis", "Buffer", "Tensor",
})  # fmt: skip
"""Names that mean something, and that nothing else may be called by."""

_ALIASES = {
    "power": "pow", "nearbyint": "round", "if_then_else": "select", "Select": "select", "where": "select", "product": "prod",
    "Cast": "cast", "floordiv": "//", "floormod": "%", "shift_left": "<<", "shift_right": ">>", "fabs": "abs",
}
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "floormod",
    ast.LShift: "shl", ast.RShift: "shr", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
}
_SYMBOLS = {"//": "floordiv", "%": "floormod", "<<": "shl", ">>": "shr"}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}
_FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": lambda a, b: float(a) / float(b) if b else math.nan, "floordiv": lambda a, b: a // b if b else 0,
    "floormod": lambda a, b: a % b if b else 0, "min": min, "max": max,
}
_KINDS: dict[str, Callable[[str], bool]] = {
    "floats": dtypes.is_float, "integers": dtypes.is_integer,
    "numbers": lambda t: t != "bool", "integers or bools": lambda t: t == "bool" or dtypes.is_integer(t),
}
_ACCEPTS = {
    "add": "numbers", "sub": "numbers", "mul": "numbers", "min": "numbers", "max": "numbers", "div": "floats",
    "floordiv": "integers", "floormod": "integers", "truncdiv": "integers", "truncmod": "integers", "shl": "integers",
    "shr": "integers", "and": "integers or bools", "or": "integers or bools", "xor": "integers or bools",
}
_HINTS = {"div": "; divide integers with //", "floordiv": "; divide floats with /", "floormod": "; use fmod for floats"}


class Values:
    """Reads values of one text. ``position`` says where each read of a tensor stands."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.position: dict[E.Read, ast.AST] = {}

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        self.source.fail(node, message)

    def value(self, node: ast.expr, scope: Scope) -> Operand:
        """The value of ``node``; numbers without a type stay numbers of Python."""
        match node:
            case ast.Constant(value=bool() | int() | float() as number):
                return self._number(node, number)
            case ast.Name(id=name):
                return self._named(node, name, scope)
            case ast.Subscript():
                return self._read(node, scope)
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(node, op, self.value(operand, scope))
            case ast.BinOp(op=ast.Pow(), left=left, right=right):
                return self._call_intrinsic(node, "pow", [self.value(left, scope), self.value(right, scope)])
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _BINARY:
                return self.binary(node, _BINARY[type(op)], self.value(left, scope), self.value(right, scope))
            case ast.Compare():
                return self._compare(node, scope)
            case ast.BoolOp(op=op, values=values):
                conditions = [self.condition(v, scope) for v in values]
                result = conditions[0]
                for other in conditions[1:]:
                    result = E.logical_and(result, other) if isinstance(op, ast.And) else E.binary("or", result, other)
                return result
            case ast.IfExp(test=test, body=body, orelse=otherwise):
                return self._select(node, self.condition(test, scope), self.value(body, scope), self.value(otherwise, scope))
            case ast.Call():
                return self._call(node, scope)
        self.fail(node, "got syntax that values do not have; expected numbers, names, A[i], operators and calls")

    def typed(self, node: ast.AST, x: Operand, dtype: str) -> Expr:
        """``x`` as an expression of ``dtype``."""
        if isinstance(x, Expr):
            if x.dtype != dtype:
                self.fail(node, f"got {x.dtype}; expected {dtype}; convert it: {dtype}(...)")
            return x
        if dtype == "bool":
            if not isinstance(x, bool):
                self.fail(node, f"got the number {x}; expected a bool")
        elif isinstance(x, bool):
            self.fail(node, f"got {x}; expected a number of type {dtype}")
        elif dtypes.is_integer(dtype):
            low, high = dtypes.integer_range(dtype)
            if not isinstance(x, int) or not low <= x <= high:
                self.fail(node, f"got the number {x}; expected an integer of type {dtype}, {low} to {high}")
        return E.const(x, dtype)

    def scalar(self, node: ast.expr, scope: Scope) -> Expr:
        """A value that has a type; floats without one are float32, integers int64."""
        x = self.value(node, scope)
        if isinstance(x, Expr):
            return x
        return self.typed(node, x, "bool" if isinstance(x, bool) else "float32" if isinstance(x, float) else "int64")

    def index(self, node: ast.expr, scope: Scope) -> Expr:
        """An integer of type int64; other integers are converted."""
        x = self.value(node, scope)
        if isinstance(x, Expr) and dtypes.is_integer(x.dtype):
            return E.cast(x, E.INDEX)
        return self.typed(node, x, E.INDEX)

    def condition(self, node: ast.expr, scope: Scope) -> Expr:
        return self.typed(node, self.value(node, scope), "bool")

    def indices(self, node: ast.Subscript, tensor: Tensor, scope: Scope) -> tuple[Expr, ...]:
        parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(parts) != tensor.ndim:
            self.fail(node, f"{tensor.name}: got {len(parts)} indices; expected {tensor.ndim}")
        return tuple(self.index(part, scope) for part in parts)

    def tensor(self, node: ast.Subscript, scope: Scope) -> Tensor:
        """The tensor whose element ``node`` is."""
        name = node.value.id if isinstance(node.value, ast.Name) else None
        found = None if name is None else scope.get(name)
        if not isinstance(found, Tensor):
            known = ", ".join(n for n, v in scope.items() if isinstance(v, Tensor))
            got = "something" if name is None else repr(name)
            self.fail(node, f"got {got} with an index; expected one of: {known or 'nothing'}")
        assert isinstance(found, Tensor)
        return found

    def extent(self, node: ast.expr, scope: Scope) -> Expr:
        """A size: texts are names of sizes."""
        name = text_of(node)
        return self.index(node if name is None else ast.copy_location(ast.Name(name), node), scope)

    def _number(self, node: ast.AST, number: Number) -> Number:
        if not isinstance(number, float) and abs(number) >= 1 << 64:
            self.fail(node, "got a number of more than 64 bits")
        return number

    def _named(self, node: ast.AST, name: str, scope: Scope) -> Operand:
        found = scope.get(name)
        if isinstance(found, Tensor) and found.ndim == 0:
            return self._noted(node, found, ())
        if isinstance(found, Expr):
            return found
        if isinstance(found, E.Axis):
            return found.var
        if found is not None:
            self.fail(node, f"{name!r} is a tensor; expected its element, {name}[...]")
        if name in ("inf", "nan"):
            return float(name)
        if name in self.source.constants:
            return self._number(node, self.source.constants[name])
        self.fail(node, f"unknown name {name!r}; expected a parameter, a size, or what is assigned above")

    def _read(self, node: ast.Subscript, scope: Scope) -> Expr:
        tensor = self.tensor(node, scope)
        return self._noted(node, tensor, () if _is_empty(node.slice) else self.indices(node, tensor, scope))

    def _noted(self, node: ast.AST, tensor: Tensor, indices: tuple[Expr, ...]) -> Expr:
        read = E.Read(tensor.dtype, 1, tensor, indices)
        self.position[read] = node
        return read

    def _unary(self, node: ast.AST, op: ast.unaryop, x: Operand) -> Operand:
        if isinstance(op, ast.Not):
            return E.logical_not(self.typed(node, x, "bool"))
        if isinstance(op, ast.Invert):
            expr = x if isinstance(x, Expr) else self.typed(node, x, E.INDEX)
            self._require(node, "xor", expr.dtype)
            return E.logical_not(expr) if expr.dtype == "bool" else E.binary("xor", expr, E.const(-1, expr.dtype))
        if isinstance(x, bool) or isinstance(x, Expr) and x.dtype == "bool":
            self.fail(node, "got a bool; expected a number")
        if isinstance(op, ast.UAdd):
            return x
        return E.negate(x) if isinstance(x, Expr) else -x

    def unified(self, node: ast.AST, *operands: Operand) -> tuple[Expr, ...]:
        """Operands as expressions of one type."""
        types = list(dict.fromkeys(x.dtype for x in operands if isinstance(x, Expr)))
        if len(types) > 1:
            self.fail(node, f"got {' and '.join(types)}; expected one type; convert one: {types[0]}(...)")
        if not types:
            is_float = any(isinstance(x, float) for x in operands)
            types = ["bool" if isinstance(operands[0], bool) else "float32" if is_float else "int64"]
        return tuple(self.typed(node, x, types[0]) for x in operands)

    def binary(self, node: ast.AST, op: str, a: Operand, b: Operand) -> Operand:
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            return self._folded(node, op, a, b)
        x, y = self.unified(node, a, b)
        self._require(node, op, x.dtype)
        return E.logical_and(x, y) if op == "and" and x.dtype == "bool" else E.binary(op, x, y)

    def _folded(self, node: ast.AST, op: str, a: Number, b: Number) -> Operand:
        if op not in _FOLDS or isinstance(a, bool) or isinstance(b, bool):
            x, y = self.unified(node, a, b)
            self._require(node, op, x.dtype)
            return E.binary(op, x, y)
        try:
            result: Number = _FOLDS[op](a, b)
        except OverflowError:
            self.fail(node, "got numbers whose result is too large")
        return self._number(node, result)

    def _require(self, node: ast.AST, op: str, dtype: str) -> None:
        accepts = _ACCEPTS[op]
        if not _KINDS[accepts](dtype):
            self.fail(node, f"{op} of {dtype}; expected {accepts}{_HINTS.get(op, '')}")

    def _compare(self, node: ast.Compare, scope: Scope) -> Expr:
        items = [self.value(x, scope) for x in (node.left, *node.comparators)]
        result: Expr | None = None
        for op, a, b in zip(node.ops, items, items[1:]):
            if type(op) not in _COMPARE:
                self.fail(node, "got 'is' or 'in'; expected a comparison")
            one = E.compare(_COMPARE[type(op)], *self.unified(node, a, b))
            result = one if result is None else E.logical_and(result, one)
        assert result is not None
        return result

    def _select(self, node: ast.AST, condition: Expr, a: Operand, b: Operand) -> Expr:
        return E.select(condition, *self.unified(node, a, b))

    def _call(self, node: ast.Call, scope: Scope) -> Operand:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "astype" and len(node.args) == 1 and not node.keywords:
            return self._cast(node, self.value(node.func.value, scope), text_of(node.args[0]) or "")
        found = called(node)
        if found is None or found[2]:
            self.fail(node, "got a call of no known function, or keywords; expected an intrinsic, min, max, select or a type")
        name, arguments, _ = found
        name = _ALIASES.get(name, name)
        if name == "cast" and len(arguments) == 2:
            first, second = sorted(arguments, key=lambda a: text_of(a) is not None)
            return self._cast(node, self.value(first, scope), text_of(second) or "")
        if name in ("min_value", "max_value", "infinity") and len(arguments) == 1:
            return self._extreme(node, name, text_of(arguments[0]) or "")
        return self.apply(node, name, [self.value(a, scope) for a in arguments])

    def apply(self, node: ast.AST, name: str, x: list[Operand]) -> Operand:
        """A function of values."""
        if name in DTYPES and len(x) == 1:
            return self._cast(node, x[0], name)
        if name in ("min", "max") and len(x) > 1:
            result = x[0]
            for other in x[1:]:
                result = self.binary(node, name, result, other)
            return result
        if name in (*INTEGER_OPERATIONS, *_SYMBOLS) and len(x) == 2:
            return self.binary(node, _SYMBOLS.get(name, name), *self.unified(node, *x))
        if name == "select" and len(x) == 3:
            return self._select(node, self.typed(node, x[0], "bool"), x[1], x[2])
        if name == "abs" and len(x) == 1:
            (expr,) = self.unified(node, *x)
            self._require(node, "add", expr.dtype)
            return E.call("abs", expr)
        return self._call_intrinsic(node, name, x)

    def _call_intrinsic(self, node: ast.AST, name: str, x: list[Operand]) -> Expr:
        count = 1 if name in INTEGER_CALLS else FLOAT_CALLS.get(name)
        if count is None:
            known = ", ".join(sorted({*FLOAT_CALLS, *INTEGER_CALLS, *INTEGER_OPERATIONS, "abs", "min", "max", "select"}))
            self.fail(node, f"unknown function {name[:40]!r}; expected one of {known}, or an element type")
        if len(x) != count:
            self.fail(node, f"{name}: got {len(x)} arguments; expected {count}")
        arguments = self.unified(node, *(float(v) if type(v) is int and name in FLOAT_CALLS else v for v in x))
        accepts = "integers" if name in INTEGER_CALLS else "floats"
        if not _KINDS[accepts](arguments[0].dtype):
            self.fail(node, f"{name} of {arguments[0].dtype}; expected {accepts}")
        return E.call(name, *arguments)

    def _cast(self, node: ast.AST, x: Operand, dtype: str) -> Expr:
        checked_dtype(self.source, node, dtype)
        if isinstance(x, Expr):
            return E.cast(x, dtype)
        return self.typed(node, x, dtype)

    def _extreme(self, node: ast.AST, name: str, dtype: str) -> Expr:
        checked_dtype(self.source, node, dtype)
        if dtype == "bool":
            self.fail(node, f"{name} of bool; expected a type of numbers")
        if dtypes.is_integer(dtype):
            return E.const(dtypes.integer_range(dtype)[name != "min_value"], dtype)
        largest = math.inf if name == "infinity" else float(ml_dtypes.finfo(dtypes.numpy_dtype(dtype)).max)  # type: ignore[no-untyped-call]
        return E.const(-largest if name == "min_value" else largest, dtype)


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Tuple) and not node.elts


def bind(source: Source, node: ast.AST, scope: Scope, name: str, value: Tensor | Expr | E.Axis) -> None:
    """Gives ``value`` a name that nothing has."""
    if name in scope or name in RESERVED or name.startswith("__"):
        source.fail(node, f"{name[:40]!r} is the name of something else here; expected a name of its own")
    scope[name] = value


def size_names(source: Source, shapes: list[tuple[ast.expr, ...] | None], taken: set[str]) -> list[str]:
    """Names that stand alone as an extent, in order."""
    found: dict[str, None] = {}
    for extent in (e for shape in shapes if shape is not None for e in shape):
        name = text_of(extent) or (extent.id if isinstance(extent, ast.Name) else None)
        if name is not None and name not in taken and name not in source.constants:
            if not name.isidentifier():
                source.fail(extent, f"size {name[:40]!r}; expected a name")
            found[name] = None
    return list(found)
