"""Reads loop programs."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, NoReturn

from forge import dims, dtypes
from forge.dims import Dim
from forge.tir import expr as E
from forge.tir import stmt as S
from forge.tir.expr import Expr, Tensor, Var
from forge.tir.stmt import Stmt
from forge.tir.text import writer
from forge.tir.text.bounds import Facts, check, is_outside, split
from forge.tir.text.source import (
    Constants,
    Source,
    called,
    checked_dtype,
    extents_of,
    parameters_of,
    parse_function,
    statements_of,
    text_of,
)
from forge.tir.text.syntax import Declare, Write
from forge.tir.text.values import Scope, Values, bind, size_names
from forge.tir.visit import nodes, statements

MAX_LOCAL_BYTES: Final = 1 << 16
MAX_UNROLLED: Final = 1 << 12
"""Statements inside unrolled loops, each as often as it is written out."""
MAX_LANES: Final = 64

LOOPS: Final = {
    "range": "serial", "serial": "serial", "parallel": "parallel", "vectorized": "vectorized", "unrolled": "unrolled",
    "unroll": "unrolled",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Program:
    """A loop program: what `read_program` reads. ``print`` shows its text; called with arrays it is run, by an interpreter.

    Attributes:
        name: of the function.
        parameters: its buffers, in order.
        scalars: numbers that are given with each use.
        sizes: names that shapes bind, in order.
        body: statements; accesses have an index for each axis.
    """

    name: str
    parameters: tuple[Tensor, ...]
    scalars: tuple[Var, ...]
    sizes: tuple[Var, ...]
    body: Stmt
    order: tuple[Tensor | Var, ...] = field(repr=False)  # all parameters

    @cached_property
    def text(self) -> str:
        """In the form in which it is stored; reading it gives this program."""
        return writer.program_text(self)

    @cached_property
    def written(self) -> tuple[bool, ...]:
        """Of each buffer, whether the program may write to it."""
        targets = {s.tensor for s in statements(self.body) if isinstance(s, Write)}
        return tuple(p in targets for p in self.parameters)

    def __call__(self, *arguments: Any) -> None:
        """Runs it on NumPy arrays, which it changes, and numbers: one for each parameter, in order.

        Raises:
            OptionError: an argument does not fit its parameter.
        """
        from forge.tir.text.running import run_on

        run_on(self, arguments)

    def __str__(self) -> str:
        return self.text


@lru_cache(maxsize=256)
def read_program(text: str) -> Program:
    """The program that ``text`` is; equal texts give one object.

    Raises:
        ParseError: it is none; the message has line, column and a caret.
    """
    return parse_program(text)


def parse_program(text: str, constants: Constants | None = None) -> Program:
    """As `read_program`; ``constants`` are names of numbers outside of the text."""
    source, function = parse_function(text, "program", constants)
    return _Reader(source).program(function)


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.values = Values(source)
        self.local_bytes = 0
        self.unrolled = 1
        self.written_out = 0
        self.variables: set[str] = set()

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        self.source.fail(node, message)

    def program(self, function: ast.FunctionDef) -> Program:
        declared = parameters_of(self.source, function, "Buffer")
        scope: Scope = {}
        facts = Facts()
        scalars, sizes = [], []
        for p in declared:
            if p.shape is None:
                scalars.append(E.var(p.name))
                bind(self.source, p.node, scope, p.name, scalars[-1])
                facts.add_number(scalars[-1])
        for name in size_names(self.source, [p.shape for p in declared], {p.name for p in declared}):
            sizes.append(E.var(name))
            bind(self.source, function, scope, name, sizes[-1])
            facts.add_size(sizes[-1])
        order: list[Tensor | Var] = []
        shapes = dict(scope)
        for p in declared:
            if p.shape is None:
                order.append(scope[p.name])
                continue
            tensor = Tensor(p.name, tuple(self.values.extent(e, shapes) for e in p.shape), p.dtype)
            bind(self.source, p.node, scope, p.name, tensor)
            order.append(tensor)
        parameters = tuple(p for p in order if isinstance(p, Tensor))
        if not parameters:
            self.fail(function, "got no buffer; expected at least one parameter with a shape")
        body = statements_of(self.source, function)
        self.variables = _assigned_again(body)
        statement = self._block(body, scope, facts)
        return Program(function.name, parameters, tuple(scalars), tuple(sizes), statement, tuple(order))

    def _block(self, body: Sequence[ast.stmt], scope: Scope, facts: Facts) -> Stmt:
        """Statements in a scope of their own."""
        scope, facts = dict(scope), facts.inside()
        return S.seq(*(self._statement(s, scope, facts) for s in body))

    def _statement(self, node: ast.stmt, scope: Scope, facts: Facts) -> Stmt:
        self.written_out += self.unrolled if self.unrolled > 1 else 0
        if self.written_out > MAX_UNROLLED:
            self.fail(node, f"got more than {MAX_UNROLLED} statements that unrolled loops write out; use range")
        match node:
            case ast.For(orelse=[]):
                return self._loop(node, scope, facts)
            case ast.If(test=test, body=body, orelse=orelse):
                condition = self.values.condition(test, scope)
                self._check_reads(facts, condition)
                then, otherwise = facts.inside(), facts.inside()
                then.assume(condition)
                otherwise.assume(condition, holds=False)
                rest = self._block(orelse, scope, otherwise) if orelse else None
                return S.If(condition, self._block(body, scope, then), rest)
            case ast.Assign(targets=[target], value=value):
                return self._assign(node, target, value, scope, facts)
            case ast.AugAssign(target=ast.Name() | ast.Subscript() as target, op=op, value=value):
                read = ast.copy_location(ast.BinOp(target, op, value), node)
                return self._assign(node, target, read, scope, facts)
            case ast.Pass():
                return S.Seq(())
        self.fail(node, f"got {type(node).__name__}, which programs do not have; expected for, if, pass or an assignment")

    def _loop(self, node: ast.For, scope: Scope, facts: Facts) -> Stmt:
        call = called(node.iter)
        kind = LOOPS.get(call[0]) if call else None
        if call is None or call[2] or kind is None and call[0] != "grid":
            self.fail(node, f"got another loop; expected one over {', '.join(LOOPS)} or grid")
        targets = list(node.target.elts) if isinstance(node.target, ast.Tuple) else [node.target]
        ranges = [(a,) for a in call[1]] if call[0] == "grid" else [tuple(call[1])]
        if len(ranges) == 1 and len(ranges[0]) == 1 and isinstance(ranges[0][0], ast.Tuple):
            ranges = [tuple(ranges[0][0].elts)]
        names = [t.id for t in targets if isinstance(t, ast.Name)]
        if len(names) != len(targets) or len(names) != len(ranges) or not all(1 <= len(r) <= 2 for r in ranges):
            expected = "expected 'for i in range(n)', 'range(a, b)' or 'for i, j in grid(n, m)'"
            self.fail(node, f"got names and extents that do not fit; {expected}")
        return self._loops(node, kind or "serial", list(zip(names, ranges)), scope, facts)

    def _loops(
        self, node: ast.For, kind: str, loops: list[tuple[str, tuple[ast.expr, ...]]], scope: Scope, facts: Facts
    ) -> Stmt:
        if not loops:
            return self._block(node.body, scope, facts)
        (name, ends), *others = loops
        first = self.values.index(ends[0], scope) if len(ends) == 2 else E.const(0)
        last = self.values.index(ends[-1], scope)
        self._check_reads(facts, first, last)
        extent = last - first
        scope, facts, variable = dict(scope), facts.inside(), E.var(name)
        bind(self.source, node, scope, name, variable)
        facts.add_loop(variable, first, extent)
        before = self.unrolled
        if kind in ("unrolled", "vectorized"):
            self._check_constant(node, kind, extent)
        body = self._loops(node, kind, others, scope, facts)
        self.unrolled = before
        if kind in ("parallel", "vectorized"):
            self._check_independent(node, kind, variable, body, facts)
        return S.For(variable, first, extent, body, kind)

    def _check_constant(self, node: ast.For, kind: str, extent: Expr) -> None:
        count = extent.value if isinstance(extent, E.Const) else None
        if not isinstance(count, int):
            self.fail(node, f"{kind}: got an extent that is known at run time only; expected a number")
        if kind == "vectorized" and count > MAX_LANES:
            self.fail(node, f"vectorized: got {count} iterations; expected at most {MAX_LANES}; split the loop")
        self.unrolled *= max(1, count)

    def _assign(self, node: ast.stmt, target: ast.expr, value: ast.expr, scope: Scope, facts: Facts) -> Stmt:
        if isinstance(target, ast.Subscript):
            tensor = self.values.tensor(target, scope)
            empty = isinstance(target.slice, ast.Tuple) and not target.slice.elts
            indices = () if empty else self.values.indices(target, tensor, scope)
            return self._write(node, tensor, indices, value, scope, facts)
        if not isinstance(target, ast.Name):
            self.fail(node, "got several targets; expected one name, or one element")
        call = called(value)
        if call is not None and call[0] in ("local", "alloc_buffer"):
            return self._local(node, target.id, call, scope)
        if target.id not in self.variables:
            known = self.values.scalar(value, scope)
            self._check_reads(facts, known)
            variable = E.var(target.id, known.dtype)
            bind(self.source, node, scope, target.id, variable)
            facts.add_let(variable, known)
            return S.Let(variable, known)
        found = scope.get(target.id)
        if isinstance(found, Tensor) and found.ndim == 0:
            return self._write(node, found, (), value, scope, facts)
        first = self.values.scalar(value, scope)
        self._check_reads(facts, first)
        tensor = self._declared(node, target.id, (), first.dtype, scope)
        return S.seq(Declare(tensor), Write(tensor, (), first))

    def _write(
        self, node: ast.stmt, tensor: Tensor, indices: tuple[Expr, ...], value: ast.expr, scope: Scope, facts: Facts
    ) -> Stmt:
        stored = self.values.typed(value, self.values.value(value, scope), tensor.dtype)
        self._check_reads(facts, stored, *indices)
        self._check_inside(node, tensor, indices, facts)
        return Write(tensor, indices, stored)

    def _local(self, node: ast.stmt, name: str, call: tuple[str, list[ast.expr], dict[str, ast.expr]], scope: Scope) -> Stmt:
        _, arguments, keywords = call
        keywords = {k: v for k, v in keywords.items() if k != "scope"}
        arguments = [*arguments, *keywords.values()]
        dtype = text_of(arguments[1]) if len(arguments) == 2 and set(keywords) <= {"dtype"} else None
        if dtype is None:
            self.fail(node, "got other arguments; expected local((4, 4), \"float32\")")
        shape = tuple(self.values.extent(e, scope) for e in extents_of(self.source, arguments[0]))
        if not all(isinstance(e, E.Const) and isinstance(e.value, int) and e.value >= 0 for e in shape):
            self.fail(node, "got a size that is known at run time only; expected numbers: local memory lies on the stack")
        return Declare(self._declared(node, name, shape, checked_dtype(self.source, node, str(dtype)), scope))

    def _declared(self, node: ast.stmt, name: str, shape: tuple[Expr, ...], dtype: str, scope: Scope) -> Tensor:
        tensor = Tensor(name, shape, dtype)
        size = dtypes.itemsize(dtype)
        for extent in shape:
            assert isinstance(extent, E.Const) and isinstance(extent.value, int)
            size *= extent.value
        self.local_bytes += size
        if self.local_bytes > MAX_LOCAL_BYTES:
            self.fail(node, f"got {self.local_bytes} bytes of local memory; expected at most {MAX_LOCAL_BYTES}")
        bind(self.source, node, scope, name, tensor)
        return tensor

    def _check_reads(self, facts: Facts, *roots: Expr) -> None:
        for x in nodes(*roots):
            if isinstance(x, E.Read):
                self._check_inside(self.values.position.get(x, ast.Pass()), x.tensor, x.indices, facts)

    def _check_inside(self, node: ast.AST, tensor: Tensor, indices: tuple[Expr, ...], facts: Facts) -> None:
        axis = is_outside(facts, tensor, indices)
        if axis is not None:
            index, extent = (writer.value_text(x) for x in (indices[axis], tensor.shape[axis]))
            self.fail(node, f"{tensor.name}: axis {axis}: index {index} is out of bounds; expected 0 to {extent} - 1")

    def _check_independent(self, node: ast.For, kind: str, variable: Var, body: Stmt, facts: Facts) -> None:
        """No iteration may access what another one writes."""
        shared = _Accesses(variable)
        shared.collect(body, facts.inside())
        for tensor in shared.conflicts():
            expected = f"an index, in bounds and the same in all accesses of it here, that differs for each {variable.name}"
            got = f"iterations may access elements of {tensor.name} that others write"
            self.fail(node, f"{kind}: {got}; expected {expected}; use range")


@dataclass
class _Access:
    tensor: Tensor
    places: tuple[Dim | None, ...]
    facts: Facts
    moved: tuple[int, ...]  # axes along which it is not provably in bounds


class _Accesses:
    """Accesses of a loop over ``variable``, with what is known where they stand."""

    def __init__(self, variable: Var) -> None:
        self.variable = variable
        self.found: list[_Access] = []
        self.written: dict[Tensor, None] = {}
        self.own: set[Tensor] = set()
        self.first_inner = 0
        self.name = ""

    def collect(self, s: Stmt, facts: Facts) -> None:
        if not self.name:
            place = facts.value(self.variable)
            self.name = "" if place is None else dims.symbol_name(place) or ""
            self.first_inner = facts.ranges[self.name].order + 1 if self.name in facts.ranges else 0
        match s:
            case S.Seq(body=body):
                for part in body:
                    self.collect(part, facts)
            case S.For(var=variable, begin=begin, extent=extent, body=body):
                self._read(facts, begin, extent)
                inner = facts.inside()
                inner.add_loop(variable, begin, extent)
                self.collect(body, inner)
            case S.If(condition=condition, then=then, otherwise=otherwise):
                self._read(facts, condition)
                for branch, holds in ((then, True), (otherwise, False)):
                    if branch is not None:
                        inner = facts.inside()
                        inner.assume(condition, holds)
                        self.collect(branch, inner)
            case S.Let(var=variable, value=value):
                self._read(facts, value)
                facts.add_let(variable, value)
            case Write(tensor=tensor, indices=indices, value=value):
                self._read(facts, value, *indices)
                self.written[tensor] = None
                self._note(facts, tensor, indices)
            case Declare(tensor=tensor):
                self.own.add(tensor)

    def _read(self, facts: Facts, *roots: Expr) -> None:
        for x in nodes(*roots):
            if isinstance(x, E.Read):
                self._note(facts, x.tensor, x.indices)

    def _note(self, facts: Facts, tensor: Tensor, indices: tuple[Expr, ...]) -> None:
        places = tuple(map(facts.value, indices))
        self.found.append(_Access(tensor, places, facts.inside(), check(facts, tensor.shape, indices).moved))

    def conflicts(self) -> list[Tensor]:
        """Tensors of which iterations may access what others write."""
        return [t for t in self.written if t not in self.own and not any(map(self._tells_apart, [t] * t.ndim, range(t.ndim)))]

    def _tells_apart(self, tensor: Tensor, axis: int) -> bool:
        """Whether different iterations have different indices along ``axis``: factor * variable + a rest that is smaller."""
        accesses = [a for a in self.found if a.tensor is tensor]
        places = [a.places[axis] for a in accesses if axis not in a.moved]
        parts = [None if place is None else split(place, self.name) for place in places]
        known = [p for p in parts if p is not None]
        if len(known) != len(accesses):
            return False
        factor = known[0][0]
        if any(p[0] != factor for p in known) or self._is_inner(factor, accesses[0].facts):
            return False
        first = known[0][1]
        same = all(p[1] == first for p in known) and not self._is_inner(first, accesses[0].facts)
        if isinstance(factor, int) and factor and same:
            return True
        return all(
            a.facts.is_at_least_0(rest) and a.facts.is_at_least_0(factor - 1 - rest)
            for a, (_, rest) in zip(accesses, known)
        )

    def _is_inner(self, place: Dim, facts: Facts) -> bool:
        """Whether ``place`` has what the loop binds, or begins with it."""
        return isinstance(place, int) is False and any(
            name in facts.ranges and facts.ranges[name].order >= self.first_inner for name in dims.symbols(place)
        )


def _assigned_again(body: Sequence[ast.stmt]) -> set[str]:
    """Names that are assigned more than once: variables of one element."""
    counts: dict[str, int] = {}
    for node in (n for s in body for n in ast.walk(s)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
        for target in targets:
            if isinstance(target, ast.Name):
                counts[target.id] = counts.get(target.id, 0) + (2 if isinstance(node, ast.AugAssign) else 1)
    return {name for name, count in counts.items() if count > 1}
