"""Reads tensor expressions, makes them of Python functions, and places them over operands."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, NoReturn

from forge.errors import OptionError
from forge.tir import expr as E
from forge.tir.expr import Axis, Expr, Tensor, Var
from forge.tir.rewrite import Rewriter
from forge.tir.text import writer
from forge.tir.text.bounds import Facts, check, is_outside
from forge.tir.text.source import (
    Constants,
    Source,
    called,
    extents_of,
    parameters_of,
    parse_function,
    statements_of,
    text_of,
)
from forge.tir.text.values import REDUCTIONS, Scope, Values, bind, size_names
from forge.tir.visit import free_variables, nodes

MAX_STAGES: Final = 256


@dataclass(frozen=True, eq=False)
class Expression:
    """A tensor expression: what `read_expression` reads. ``print`` shows its text.

    Attributes:
        name: of the function.
        parameters: placeholders, in order.
        scalars: numbers that are given with each use.
        sizes: names that shapes bind, in order.
        stages: the computed tensors, each after those that it reads.
        results: some of the stages.
    """

    name: str
    parameters: tuple[Tensor, ...]
    scalars: tuple[Var, ...]
    sizes: tuple[Var, ...]
    stages: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    order: tuple[Tensor | Var, ...] = field(repr=False)  # all parameters

    @cached_property
    def text(self) -> str:
        """In the form in which it is stored; reading it gives this expression."""
        return writer.expression_text(self)

    def __str__(self) -> str:
        return self.text

    def over(self, operands: Sequence[Tensor], sizes: Mapping[Var, Expr]) -> dict[Tensor, Tensor]:
        """The stages over other placeholders, by stage; reads that may be out of bounds are moved into them.

        ``sizes``: what the sizes and numbers are.
        """
        placed = dict(zip(self.parameters, operands, strict=True))
        for stage in self.stages:
            placed[stage] = _placed(stage, placed, sizes, self.scalars)
        return placed


@lru_cache(maxsize=256)
def read_expression(text: str) -> Expression:
    """The expression that ``text`` is; equal texts give one object.

    Raises:
        ParseError: it is none; the message has line, column and a caret.
    """
    return parse_expression(text)


def parse_expression(text: str, constants: Constants | None = None) -> Expression:
    """As `read_expression`; ``constants`` are names of numbers outside of the text."""
    source, function = parse_function(text, "expression", constants)
    return _Reader(source).expression(function)


def expression_of(function: Callable[..., Any], *tensors: Tensor, name: str = "", scalars: Sequence[Var] = ()) -> Expression:
    """The expression that ``function`` of tensors computes: it is called once with ``tensors``, which are placeholders.

    It returns a tensor or a sequence of tensors, made by ``te.compute``. Sizes are the variables in the shapes of ``tensors``.

    Raises:
        OptionError: it returns something else, or computes with what expressions do not have.
    """
    computed = function(*tensors, *scalars)
    results = (computed,) if isinstance(computed, Tensor) else tuple(computed) if isinstance(computed, list | tuple) else ()
    label = name or getattr(function, "__name__", "")
    if not results or not all(isinstance(t, Tensor) and t.body is not None for t in results):
        raise OptionError(f"te.expression {label!r}: the function returned {computed!r}; expected tensors that te.compute made")
    stages = _stages(results, tensors, label)
    shaped = [e for t in (*tensors, *stages) for e in t.shape]
    sizes = tuple(v for v in dict.fromkeys(x for e in shaped for x in nodes(e) if isinstance(x, Var)) if v not in scalars)
    made = Expression(_identifier(label), tuple(tensors), tuple(scalars), sizes, stages, results, (*tensors, *scalars))
    return read_expression(made.text)


def _identifier(name: str) -> str:
    return name if name.isidentifier() and not name.startswith("__") else "expression"


def _stages(results: Sequence[Tensor], placeholders: Sequence[Tensor], label: str) -> tuple[Tensor, ...]:
    """All computed tensors, each after those that it reads; not recursive."""
    done: dict[Tensor, None] = {}
    pending = list(reversed(results))
    opened: set[Tensor] = set()
    while pending:
        tensor = pending[-1]
        if tensor.body is None and tensor not in placeholders:
            raise OptionError(f"te.expression {label!r}: reads the placeholder {tensor.name}, which is not among its operands")
        if tensor in opened or tensor.body is None:
            pending.pop()
            if tensor.body is not None:
                done[tensor] = None
            continue
        opened.add(tensor)
        pending.extend(t for x in nodes(tensor.body) if isinstance(x, E.Read) and (t := x.tensor) not in opened)
    if len(done) > MAX_STAGES:
        raise OptionError(f"te.expression {label!r}: got {len(done)} computed tensors; expected at most {MAX_STAGES}")
    return tuple(done)


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.values = Values(source)

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        self.source.fail(node, message)

    def expression(self, function: ast.FunctionDef) -> Expression:
        declared = parameters_of(self.source, function, "Tensor")
        scope: Scope = {}
        scalars, sizes, order = [], [], list[Tensor | Var]()
        for p in declared:
            if p.shape is None:
                scalars.append(E.var(p.name))
                bind(self.source, p.node, scope, p.name, scalars[-1])
        for name in size_names(self.source, [p.shape for p in declared], {p.name for p in declared}):
            sizes.append(E.var(name))
            bind(self.source, function, scope, name, sizes[-1])
        shapes = dict(scope)
        for p in declared:
            if p.shape is None:
                order.append(scope[p.name])
                continue
            tensor = Tensor(p.name, tuple(self.values.extent(e, shapes) for e in p.shape), p.dtype)
            bind(self.source, p.node, scope, p.name, tensor)
            order.append(tensor)
        parameters = tuple(p for p in order if isinstance(p, Tensor))
        *body, last = statements_of(self.source, function)
        if len(body) > 2 * MAX_STAGES:
            self.fail(function, f"got {len(body)} statements; expected at most {2 * MAX_STAGES}")
        if not isinstance(last, ast.Return) or last.value is None:
            self.fail(last, "the last statement; expected 'return C'")
        stages = [t for s in body if (t := self._statement(s, scope)) is not None]
        results = self._results(last, scope)
        return Expression(function.name, parameters, tuple(scalars), tuple(sizes), tuple(stages), results, tuple(order))

    def _results(self, node: ast.AST, scope: Scope) -> tuple[Tensor, ...]:
        value = node.value if isinstance(node, ast.Return) else None
        parts = list(value.elts) if isinstance(value, ast.Tuple | ast.List) else [value]
        results = [scope.get(p.id) if isinstance(p, ast.Name) else None for p in parts]
        if not results or not all(isinstance(r, Tensor) and r.body is not None for r in results):
            self.fail(node, "got other results; expected names of computed tensors")
        return tuple(r for r in results if isinstance(r, Tensor))

    def _statement(self, node: ast.stmt, scope: Scope) -> Tensor | None:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            call, name = called(node.value), node.targets[0].id
            if call is not None and call[0] == "reduce_axis":
                bind(self.source, node, scope, name, self._axis(node, name, call[1], scope))
                return None
            if call is not None and call[0] == "compute":
                tensor = self._compute(node, name, call[1], scope)
                bind(self.source, node, scope, name, tensor)
                return tensor
        self.fail(node, "got another statement; expected 'r = reduce_axis(n)', 'C = compute(shape, lambda ...)' or return")

    def _axis(self, node: ast.AST, name: str, arguments: list[ast.expr], scope: Scope) -> Axis:
        arguments = [a for a in arguments if text_of(a) is None]
        ends = list(arguments[0].elts) if len(arguments) == 1 and isinstance(arguments[0], ast.Tuple) else arguments
        if len(ends) == 2 and isinstance(ends[0], ast.Constant) and ends[0].value == 0:
            del ends[0]
        if len(ends) != 1:
            self.fail(node, "got other arguments; expected reduce_axis(n) or reduce_axis((0, n))")
        return Axis(E.var(name), self._size(ends[0], scope))

    def _size(self, node: ast.expr, scope: Scope) -> Expr:
        """A size, which reads no tensor."""
        size = self.values.extent(node, scope)
        allowed = {v for v in scope.values() if isinstance(v, Var)}
        if any(isinstance(x, E.Read) for x in nodes(size)) or not free_variables(size) <= allowed:
            self.fail(node, "a size; expected numbers, sizes of operands, and arithmetic of them")
        if any(not isinstance(x, E.Const | E.Var | E.Binary) for x in nodes(size)):
            self.fail(node, "a size; expected + - * // % min max of sizes and numbers")
        return size

    def _compute(self, node: ast.Assign, name: str, arguments: list[ast.expr], scope: Scope) -> Tensor:
        arguments = [a for a in arguments if text_of(a) is None]
        body = arguments[1] if len(arguments) == 2 else None
        if not isinstance(body, ast.Lambda):
            self.fail(node, "compute: got other arguments; expected compute((n, m), lambda i, j: value)")
        shape = tuple(self._size(e, scope) for e in extents_of(self.source, arguments[0]))
        names = [a.arg for a in body.args.args]
        a = body.args
        if len(names) != len(shape) or a.vararg or a.kwarg or a.kwonlyargs or a.defaults or a.posonlyargs:
            self.fail(body, f"compute: got a lambda of {len(names)} axes; expected {len(shape)}")
        inner = {n: v for n, v in scope.items() if not isinstance(v, Axis)}
        axes = tuple(E.var(n) for n in names)
        for axis_name, axis in zip(names, axes):
            bind(self.source, body, inner, axis_name, axis)
        value = self._body(body.body, inner, scope)
        tensor = Tensor(name, shape, value.dtype, axes, value)
        self._check_reads(tensor, scope)
        return tensor

    def _body(self, node: ast.expr, inner: Scope, scope: Scope) -> Expr:
        """A value, or a reduction of one."""
        reduction = self._reduction(node)
        if reduction is None:
            return self.values.scalar(node, inner)
        name, operand, over = reduction
        parts = list(over.elts) if isinstance(over, ast.Tuple | ast.List) else [over]
        axes = []
        for part in parts:
            axis = scope.get(part.id) if isinstance(part, ast.Name) else None
            if not isinstance(axis, Axis) or axis in axes:
                self.fail(part, "axis; expected names of reduce_axis, each once")
            bind(self.source, part, inner, part.id if isinstance(part, ast.Name) else "", axis)
            axes.append(axis)
        own = [Axis(E.var(a.var.name), a.extent) for a in axes]
        for part, axis in zip(parts, own):
            inner[part.id if isinstance(part, ast.Name) else ""] = axis
        value = self.values.scalar(operand, inner)
        if (value.dtype == "bool") != (REDUCTIONS[name] in ("and", "or")):
            self.fail(node, f"{name} of {value.dtype}; expected {'a bool' if value.dtype != 'bool' else 'numbers'}")
        return E.Reduce(value.dtype, 1, REDUCTIONS[name], value, tuple(own))

    def _reduction(self, node: ast.expr) -> tuple[str, ast.expr, ast.expr] | None:
        call = called(node)
        if call is None or call[0] not in REDUCTIONS or set(call[2]) - {"axis"}:
            return None
        name, arguments, keywords = call
        if len(arguments) == 1 and "axis" in keywords:
            return name, arguments[0], keywords["axis"]
        return (name, arguments[0], arguments[1]) if len(arguments) == 2 and name not in ("min", "max") else None

    def _check_reads(self, tensor: Tensor, scope: Scope) -> None:
        assert tensor.body is not None
        facts = facts_of(tensor, {v: v for v in scope.values() if isinstance(v, Var)}, ())
        for x in nodes(tensor.body):
            axis = is_outside(facts, x.tensor, x.indices) if isinstance(x, E.Read) else None
            if isinstance(x, E.Read) and axis is not None:
                index, extent = (writer.value_text(e) for e in (x.indices[axis], x.tensor.shape[axis]))
                self.fail(self.values.position.get(x, ast.Pass()),
                          f"{x.tensor.name}: axis {axis}: index {index} is out of bounds; expected 0 to {extent} - 1")


def facts_of(tensor: Tensor, sizes: Mapping[Var, Expr], numbers: Sequence[Var]) -> Facts:
    """What holds at every point of a computed tensor, of sizes and numbers that may be known."""
    assert tensor.axes is not None
    facts = Facts()
    for variable, value in sizes.items():
        facts.add_parameter(variable, value, variable in numbers)
    for axis, extent in zip(tensor.axes, tensor.shape):
        facts.add_loop(axis, E.const(0), extent)
    if isinstance(tensor.body, E.Reduce):
        for own in tensor.body.axes:
            facts.add_loop(own.var, E.const(0), own.extent)
    return facts


def _placed(stage: Tensor, placed: Mapping[Tensor, Tensor], sizes: Mapping[Var, Expr], numbers: Sequence[Var]) -> Tensor:
    """``stage`` over other tensors and sizes, with reads in bounds."""
    assert stage.axes is not None and stage.body is not None
    resize = Rewriter(lambda x: sizes.get(x) if isinstance(x, Var) else None)
    shape, body = tuple(map(resize, stage.shape)), stage.body
    axes = tuple(E.var(a.name) for a in stage.axes)
    bound: dict[Var, Expr] = {**sizes, **dict(zip(stage.axes, axes))}
    inner = tuple[Axis, ...]()
    if isinstance(body, E.Reduce):
        inner = tuple(Axis(E.var(a.var.name), resize(a.extent)) for a in body.axes)
        bound.update({a.var: own.var for a, own in zip(body.axes, inner)})
    facts = facts_of(stage, sizes, numbers)

    def rule(x: Expr) -> Expr | None:
        if isinstance(x, Var):
            return bound.get(x)
        if isinstance(x, E.Read):
            return placed[x.tensor][tuple(map(rewrite, check(facts, x.tensor.shape, x.indices).indices))]
        return None

    rewrite = Rewriter(rule)
    if isinstance(body, E.Reduce):
        return Tensor(stage.name, shape, stage.dtype, axes, E.Reduce(body.dtype, 1, body.kind, rewrite(body.x), inner))
    return Tensor(stage.name, shape, stage.dtype, axes, rewrite(body))
