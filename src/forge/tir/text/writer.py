"""Writes programs and expressions as text, in one form: reading it gives what was written."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from forge import dtypes
from forge.errors import OptionError
from forge.tir import expr as E
from forge.tir import stmt as S
from forge.tir.expr import Expr, Tensor, Var
from forge.tir.stmt import Stmt
from forge.tir.text.source import MAX_DEPTH, MAX_TEXT
from forge.tir.text.syntax import Declare, Write
from forge.tir.text.values import FLOAT_CALLS, INTEGER_CALLS, INTEGER_OPERATIONS, REDUCTIONS, RESERVED

if TYPE_CHECKING:
    from forge.tir.text.expressions import Expression
    from forge.tir.text.programs import Program

_OPERATORS: Final[dict[str, type[ast.operator]]] = {
    "add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "div": ast.Div, "floordiv": ast.FloorDiv, "floormod": ast.Mod,
    "shl": ast.LShift, "shr": ast.RShift, "and": ast.BitAnd, "or": ast.BitOr, "xor": ast.BitXor,
}
_COMPARE: Final[dict[str, type[ast.cmpop]]] = {
    "eq": ast.Eq, "ne": ast.NotEq, "lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE,
}
_KINDS = {"serial": "range"}
_REDUCTION_NAMES = {kind: name for name, kind in REDUCTIONS.items()}


def program_text(program: Program) -> str:
    """The text of a program."""
    return _Writer().program(program)


def expression_text(expression: Expression) -> str:
    """The text of an expression."""
    return _Writer().expression(expression)


def value_text(x: Expr) -> str:
    """A value by itself, for messages."""
    return ast.unparse(_Writer().value(x))


class _Writer:
    """Names are those of variables and tensors; of two that are seen at one place, the second gets a number."""

    def __init__(self) -> None:
        self.names: dict[Var | Tensor, str] = {}
        self.visible: set[str] = set()
        self.depth = 0
        self.room = MAX_TEXT // 2  # of parts: shared ones count each time they are written

    def name(self, thing: Var | Tensor) -> str:
        """The name of what is bound or seen here."""
        return self.names.get(thing) or self.bind(thing)

    def bind(self, thing: Var | Tensor) -> str:
        wanted = thing.name if thing.name.isidentifier() and thing.name not in RESERVED else f"{_word(thing.name)}_"
        name, number = wanted, 1
        while name in self.visible or name in RESERVED:
            number += 1
            name = f"{wanted}_{number}"
        self.visible.add(name)
        self.names[thing] = name
        return name

    def bind_parameters(self, order: Sequence[Tensor | Var], sizes: Sequence[Var]) -> None:
        """Parameters first, so that they keep their names; then the sizes."""
        for thing in (*order, *sizes):
            self.bind(thing)

    def parameters(self, order: Sequence[Tensor | Var], kind: str) -> str:
        return ", ".join(f"{self.name(p)}: {self._annotation(p, kind)}" for p in order)

    def _annotation(self, p: Tensor | Var, kind: str) -> str:
        return p.dtype if isinstance(p, Var) else f'{kind}[{self.shape(p.shape)}, "{p.dtype}"]'

    def shape(self, shape: Iterable[Expr]) -> str:
        return ast.unparse(ast.Tuple([self.value(e) for e in shape]))

    def program(self, program: Program) -> str:
        self.bind_parameters(program.order, program.sizes)
        head = f"def {program.name}({self.parameters(program.order, 'Buffer')}):"
        return _limited([head, *self.block(program.body, 1)])

    def block(self, body: Stmt, depth: int) -> list[str]:
        """Statements whose names are seen in them only."""
        visible = set(self.visible)
        lines = list(self.statement(body, depth))
        self.visible = visible
        return lines or [f"{'    ' * depth}pass"]

    def statement(self, s: Stmt, depth: int) -> Iterator[str]:
        indent = "    " * depth
        match s:
            case S.Seq(body=body):
                for part in body:
                    yield from self.statement(part, depth)
            case S.For(body=body):
                visible = set(self.visible)
                yield indent + self._loop(s)
                yield from self.block(body, depth + 1)
                self.visible = visible
            case S.If(condition=condition, then=then, otherwise=otherwise):
                yield f"{indent}if {self._text(condition)}:"
                yield from self.block(then, depth + 1)
                if otherwise is not None:
                    yield f"{indent}else:"
                    yield from self.block(otherwise, depth + 1)
            case S.Let(var=variable, value=value):
                text = self._text(value, typed=True)
                yield f"{indent}{self.bind(variable)} = {text}"
            case Declare(tensor=tensor):
                yield f'{indent}{self.bind(tensor)} = local({self.shape(tensor.shape)}, "{tensor.dtype}")'
            case Write(tensor=tensor, indices=indices, value=value):
                yield f"{indent}{ast.unparse(self._element(tensor, indices))} = {self._text(value)}"
            case _:
                raise OptionError(f"program: {type(s).__name__} has no text")

    def _loop(self, s: S.For) -> str:
        ends = [self.value(s.extent)] if E.is_const(s.begin, 0) else [self.value(s.begin), self.value(_end(s))]
        call = ast.Call(ast.Name(_KINDS.get(s.kind, s.kind)), ends, [])
        return f"for {self.bind(s.var)} in {ast.unparse(call)}:"

    def expression(self, expression: Expression) -> str:
        self.bind_parameters((*expression.parameters, *expression.scalars), expression.sizes)
        order = expression.order
        lines = [f"def {expression.name}({self.parameters(order, 'Tensor')}):"]
        for tensor in expression.stages:
            lines += self._stage(tensor)
        return _limited([*lines, f"    return {', '.join(self.name(t) for t in expression.results)}"])

    def _stage(self, tensor: Tensor) -> Iterator[str]:
        assert tensor.axes is not None and tensor.body is not None
        visible, body = set(self.visible), tensor.body
        lines = []
        if isinstance(body, E.Reduce):
            lines = [f"    {self.bind(a.var)} = reduce_axis({self._text(a.extent)})" for a in body.axes]
        kept = set(self.visible)
        shape = self.shape(tensor.shape)
        axes = ", ".join(self.bind(a) for a in tensor.axes)
        value = self._reduction(body) if isinstance(body, E.Reduce) else ast.unparse(self.value(body, typed=True))
        self.visible = kept
        yield from lines
        head = f"lambda {axes}" if axes else "lambda"
        yield f"    {self.bind(tensor)} = compute({shape}, {head}: {value})"
        self.visible |= visible

    def _reduction(self, body: E.Reduce) -> str:
        axes = ", ".join(self.name(a.var) for a in body.axes)
        axes = axes if len(body.axes) == 1 else f"({axes})"
        return f"{_REDUCTION_NAMES[body.kind]}({ast.unparse(self.value(body.x, typed=True))}, axis={axes})"

    def _text(self, x: Expr, typed: bool = False) -> str:
        return ast.unparse(self.value(x, typed))

    def _element(self, tensor: Tensor, indices: Sequence[Expr]) -> ast.expr:
        parts = [self.value(i) for i in indices]
        return ast.Subscript(ast.Name(self.name(tensor)), parts[0] if len(parts) == 1 else ast.Tuple(parts))

    def value(self, x: Expr, typed: bool = False, explicit: bool = False) -> ast.expr:
        """Syntax of ``x``; ``typed``: its type must be seen from it alone; ``explicit``: so that it is taken for no number."""
        self.room -= 1
        if self.room < 0:
            raise OptionError("own kernel: got an expression of which shared parts are written many times; expected at most "
                              f"{MAX_TEXT // 2} parts; store parts of it in tensors of their own")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise OptionError(f"own kernel: got an expression that is nested more than {MAX_DEPTH} deep; store parts of it")
        try:
            return self._syntax(x, typed, explicit)
        finally:
            self.depth -= 1

    def _syntax(self, x: Expr, typed: bool, explicit: bool) -> ast.expr:
        match x:
            case E.Const():
                return _literal(x, typed or explicit, explicit)
            case E.Var():
                return ast.Name(self.name(x))
            case E.Read(tensor=tensor, indices=indices):
                return self._element(tensor, indices)
            case E.Cast(x=inner):
                return _call(x.dtype, self.value(inner, explicit=True))
            case E.Compare(op="eq", a=a, b=E.Const(dtype="bool", value=False)):
                return ast.UnaryOp(ast.Not(), self.value(a))
            case E.Compare(op=op, a=a, b=b):
                return ast.Compare(self.value(a, explicit=_both(a, b)), [_COMPARE[op]()], [self.value(b)])
            case E.Binary(op=op, a=a, b=b):
                return self._binary(op, a, b)
            case E.Select(condition=condition, a=a, b=b):
                return ast.IfExp(self.value(condition, typed=True), self.value(a, _both(a, b)), self.value(b))
            case E.Call(name=name, args=args):
                return self._call(x, name, args)
        raise OptionError(f"own kernel: {_described(x)} has no text; expected what programs and expressions have")

    def _binary(self, op: str, a: Expr, b: Expr) -> ast.expr:
        if op in ("and", "or") and a.dtype == "bool":
            return ast.BoolOp(ast.And() if op == "and" else ast.Or(), [self.value(a), self.value(b)])
        parts = [self.value(a, explicit=_both(a, b)), self.value(b)]
        return ast.BinOp(parts[0], _OPERATORS[op](), parts[1]) if op in _OPERATORS else _call(op, *parts)

    def _call(self, x: Expr, name: str, args: Sequence[Expr]) -> ast.expr:
        if name not in (*FLOAT_CALLS, *INTEGER_CALLS, *INTEGER_OPERATIONS, "abs") or x.lanes != 1:
            raise OptionError(f"own kernel: intrinsic {name} has no text; expected one that works element by element")
        typed = all(isinstance(a, E.Const) for a in args)
        return _call(name, *(self.value(a, typed) for a in args))


def _both(a: Expr, b: Expr) -> bool:
    """Whether neither of two operands has a type that is seen from it."""
    return isinstance(a, E.Const) and isinstance(b, E.Const)


def _literal(x: E.Const, typed: bool, explicit: bool) -> ast.expr:
    value: Any = x.value
    if isinstance(value, float) and value != value:
        number: ast.expr = ast.Name("nan")
    elif isinstance(value, float) and math.isinf(value):
        number = ast.Name("inf")
        if value < 0:
            number = ast.UnaryOp(ast.USub(), number)
    elif not isinstance(value, bool) and (value < 0 or math.copysign(1, value) < 0):
        number = ast.UnaryOp(ast.USub(), ast.Constant(_short(-value, x.dtype)))
    else:
        number = ast.Constant(value if isinstance(value, bool) else _short(value, x.dtype))
    plain = not explicit and x.dtype in ("bool", "int64", "float32") or not typed
    return number if plain else _call(x.dtype, number)


def _short(value: int | float, dtype: str) -> int | float:
    """The float with the fewest digits that ``dtype`` rounds to ``value``."""
    if not dtypes.is_float(dtype) or dtype == "float64":
        return value
    short = float(str(dtypes.numpy_dtype(dtype).type(value)))
    return short if E.const(short, dtype).value == value else value


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name), list(arguments), [])


def _end(s: S.For) -> Expr:
    """Where a loop ends."""
    extent = s.extent
    if isinstance(extent, E.Binary) and extent.op == "sub" and _same(extent.b, s.begin):
        return extent.a
    return s.begin + extent


def _same(a: Expr, b: Expr) -> bool:
    return a is b or isinstance(a, E.Const) and isinstance(b, E.Const) and a.value == b.value


def _limited(lines: Sequence[str]) -> str:
    text = "\n".join(lines) + "\n"
    if len(text) > MAX_TEXT:
        raise OptionError(f"own kernel: got {len(text)} characters of text; expected at most {MAX_TEXT}")
    return text


def _word(name: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "x"


def _described(x: Expr) -> str:
    return "an inner reduction" if isinstance(x, E.Reduce) else type(x).__name__
