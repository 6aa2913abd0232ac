"""From a program to statements over flat buffers, in which nothing leaves its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from forge.tir import expr as E
from forge.tir import stmt as S
from forge.tir import visit
from forge.tir.expr import Buffer, Expr, Tensor, Var
from forge.tir.rewrite import Rewriter
from forge.tir.stmt import Stmt
from forge.tir.text.bounds import Facts, check
from forge.tir.text.programs import Program
from forge.tir.text.syntax import Declare, Write

Read = Callable[[Sequence[Expr], Expr | None], Expr]
"""An element at indices, and under a mask: without it, there may be none."""


@dataclass(frozen=True)
class Place:
    """Where the elements of a parameter are read, and where they are written: None where none are."""

    read: Read
    buffer: Buffer | None


def place(buffer: Buffer) -> Place:
    """A parameter that is a buffer."""
    return Place(lambda indices, mask: E.load(buffer, buffer.offset(*indices), mask), buffer)


def lower(program: Program, places: Mapping[Tensor, Place], sizes: Mapping[Var, Expr], fresh: Sequence[Tensor] = ()) -> Stmt:
    """The statements of ``program``.

    Args:
        program: what to lower.
        places: of its parameters.
        sizes: what its sizes and numbers are.
        fresh: parameters without contents before: zeros where the program does not write them first.
    """
    return _Lowering(program, places, sizes).run(fresh)


def binding(program_shapes: Sequence[Sequence[Expr]], shapes: Sequence[Sequence[Expr]]) -> dict[Var, Expr]:
    """What the sizes that stand alone in shapes of parameters are, for operands of these shapes."""
    found: dict[Var, Expr] = {}
    for declared, actual in zip(program_shapes, shapes):
        for extent, size in zip(declared, actual):
            if isinstance(extent, Var):
                found.setdefault(extent, size)
    return found


class _Lowering:
    def __init__(self, program: Program, places: Mapping[Tensor, Place], sizes: Mapping[Var, Expr]) -> None:
        self.program = program
        self.places = dict(places)
        self.sizes = sizes
        self.known = {v: x for v, x in sizes.items() if isinstance(x, E.Const)}

    def run(self, fresh: Sequence[Tensor]) -> Stmt:
        facts = Facts()
        for variable, value in self.sizes.items():
            facts.add_parameter(variable, value, variable in self.program.scalars)
        lets = [S.Let(v, x) for v, x in self.sizes.items() if v not in self.known]
        empty = [self._zeros(t) for t in fresh if not writes_first(parts_of(self.program.body), t, facts)]
        return S.seq(*lets, *empty, self._statement(self.program.body, facts))

    def _zeros(self, tensor: Tensor) -> Stmt:
        buffer = self.places[tensor].buffer
        assert buffer is not None
        count: Expr = E.const(1)
        for extent in buffer.shape:
            count = count * extent
        i = E.var("i")
        return S.loop(i, count, S.store(buffer, i, E.const(0, buffer.dtype)))

    def _statement(self, s: Stmt, facts: Facts, following: Sequence[Stmt] = ()) -> Stmt:
        match s:
            case S.Seq(body=body):
                return S.seq(*(self._statement(part, facts, body[k + 1 :]) for k, part in enumerate(body)))
            case S.For(var=variable, begin=begin, extent=extent, body=body, kind=kind):
                inner = facts.inside()
                inner.add_loop(variable, begin, extent)
                return S.For(variable, self._value(begin, facts), self._value(extent, facts), self._statement(body, inner), kind)
            case S.If(condition=condition, then=then, otherwise=otherwise):
                branches: list[Stmt | None] = []
                for part, holds in ((then, True), (otherwise, False)):
                    inner = facts.inside()
                    inner.assume(condition, holds)
                    branches.append(None if part is None else self._statement(part, inner))
                assert branches[0] is not None
                return S.If(self._value(condition, facts), branches[0], branches[1])
            case S.Let(var=variable, value=value):
                facts.add_let(variable, value)
                return S.Let(variable, self._value(value, facts))
            case Declare(tensor=tensor):
                return self._declare(tensor, facts, following)
            case Write(tensor=tensor, indices=indices, value=value):
                return self._write(tensor, indices, value, facts)
        raise TypeError(f"{type(s).__name__} is not a statement of programs")

    def _declare(self, tensor: Tensor, facts: Facts, following: Sequence[Stmt]) -> Stmt:
        buffer = Buffer(tensor.name, tensor.dtype, tensor.shape, scope="local")
        self.places[tensor] = place(buffer)
        zeros = [] if writes_first(following, tensor, facts) else [self._zeros(tensor)]
        return S.seq(S.Allocate(buffer), *zeros)

    def _write(self, tensor: Tensor, indices: Sequence[Expr], value: Expr, facts: Facts) -> Stmt:
        buffer = self.places[tensor].buffer
        assert buffer is not None
        checked = check(facts, tensor.shape, indices)
        target = [self._value(i, facts) for i in indices]
        stored = S.store(buffer, buffer.offset(*target), self._value(value, facts))
        return stored if checked.inside is None else S.If(self._value(checked.inside, facts), stored)

    def _value(self, x: Expr, facts: Facts) -> Expr:
        def rule(e: Expr) -> Expr | None:
            if isinstance(e, Var):
                return self.known.get(e)
            if isinstance(e, E.Read):
                checked = check(facts, e.tensor.shape, e.indices)
                exists = None if checked.exists is None else rewrite(checked.exists)
                if isinstance(exists, E.Const):
                    if not exists.value:
                        return E.const(0, e.dtype)
                    exists = None
                return self.places[e.tensor].read([rewrite(i) for i in checked.indices], exists)
            return None

        rewrite = Rewriter(rule)
        return rewrite(x)


def writes_first(body: Sequence[Stmt], tensor: Tensor, facts: Facts) -> bool:
    """Whether ``body`` provably writes every element of ``tensor`` before it reads it."""
    return _first_write(body, tensor, facts, {}) is not None


def _first_write(
    body: Sequence[Stmt], tensor: Tensor, facts: Facts, loops: Mapping[Var, Expr]
) -> tuple[Expr, ...] | None:
    """Where the nest that writes ``tensor`` first writes it: at each index once. None: it may leave or read some.

    In the ``loops`` around it, which have these extents, what follows may read only what the same iteration has written.
    """
    position = next((k for k, part in enumerate(body) if _mentions(part, tensor)), len(body))
    indices: tuple[Expr, ...] | None = None
    match body[position] if position < len(body) else None:
        case Write() as write if write.tensor is tensor and _covers(write, facts, loops):
            indices = write.indices
        case S.For(var=variable, begin=begin, extent=extent, body=inner) if E.is_const(begin, 0):
            own = facts.inside()
            own.add_loop(variable, begin, extent)
            indices = _first_write(parts_of(inner), tensor, own, {**loops, variable: extent})
    if indices is None or not loops:
        return indices
    kept = {axis: i for axis, i in enumerate(indices) if i in loops}
    later = [x for part in body[position + 1 :] for x in _reads(part, tensor)]
    return indices if all(x.indices[axis] is i for x in later for axis, i in kept.items()) else None


def _covers(write: Write, facts: Facts, loops: Mapping[Var, Expr]) -> bool:
    """Whether ``loops`` around ``write``, which all run, write each element."""
    covering = []
    for index, extent in zip(write.indices, write.tensor.shape):
        if isinstance(index, Var) and index in loops and _equal(loops[index], extent, facts):
            covering.append(index)
        elif not (E.is_const(index, 0) and E.is_const(extent, 1)):
            return False
    idle = [extent for variable, extent in loops.items() if variable not in covering]
    runs = all(isinstance(e, E.Const) and isinstance(e.value, int) and e.value > 0 for e in idle)
    return runs and len(set(covering)) == len(covering) and not _reads(write, write.tensor)


def _equal(a: Expr, b: Expr, facts: Facts) -> bool:
    x, y = facts.value(a), facts.value(b)
    return x is not None and x == y


def _reads(s: Stmt, tensor: Tensor) -> list[E.Read]:
    values = [x for part in visit.statements(s) for x in own_values(part)]
    return [x for x in visit.nodes(*values) if isinstance(x, E.Read) and x.tensor is tensor]


def _mentions(s: Stmt, tensor: Tensor) -> bool:
    written = any(isinstance(part, Write) and part.tensor is tensor for part in visit.statements(s))
    return written or bool(_reads(s, tensor))


def own_values(s: Stmt) -> tuple[Expr, ...]:
    """The values that ``s`` itself holds."""
    return (*s.indices, s.value) if isinstance(s, Write) else visit.own_expressions(s)


def parts_of(s: Stmt) -> Sequence[Stmt]:
    """The statements that ``s`` consists of."""
    return s.body if isinstance(s, S.Seq) else (s,)
