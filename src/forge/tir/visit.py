"""Walks over expressions and statements: what they consist of, what they use, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from forge.tir import expr as tir
from forge.tir import stmt

LONG_INTRINSICS = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh", "atan2", "erf", "pow", "sigmoid", "silu", "gelu", "gelu_tanh",
    "mish", "softplus",
})
"""Intrinsics that take about a dozen instructions or more."""

_DIVISIONS = frozenset({"div", "truncdiv", "truncmod", "floordiv", "floormod", "fmod", "sqrt", "rsqrt"})
_MANY_OPERATIONS = 12


def nodes(*roots: tir.Expr, children: Callable[[tir.Expr], Sequence[tir.Expr]] = tir.children) -> Iterator[tir.Expr]:
    """Every distinct expression under ``roots`` once, each before its children; not recursive.

    ``children`` says where to go on, for walks that leave something out.
    """
    seen: set[int] = set()
    stack = [*reversed(roots)]
    while stack:
        x = stack.pop()
        if id(x) not in seen:
            seen.add(id(x))
            yield x
            stack.extend(reversed(children(x)))


def computed(*roots: tir.Expr) -> Iterator[tir.Expr]:
    """Every distinct expression that is computed on data: ``nodes`` without the indices and masks of loads."""
    return nodes(*roots, children=lambda x: () if isinstance(x, tir.Load) else tir.children(x))


def free_variables(*roots: tir.Expr) -> set[tir.Var]:
    """The variables in expressions."""
    return {x for x in nodes(*roots) if isinstance(x, tir.Var)}


def statements(body: stmt.Stmt) -> Iterator[stmt.Stmt]:
    """``body`` and every statement inside it, outer before inner."""
    yield body
    for inner in inner_statements(body):
        yield from statements(inner)


def inner_statements(s: stmt.Stmt) -> tuple[stmt.Stmt, ...]:
    """The statements directly inside ``s``."""
    match s:
        case stmt.Seq(body=body):
            return body
        case stmt.For(body=inner):
            return (inner,)
        case stmt.If(then=then, otherwise=otherwise):
            return (then,) if otherwise is None else (then, otherwise)
    return ()


_OWN_EXPRESSIONS: dict[type[stmt.Stmt], Callable[[Any], Iterable[tir.Expr | None]]] = {
    stmt.For: attrgetter("begin", "extent"),
    stmt.Store: attrgetter("index", "value", "mask"),
    stmt.If: lambda s: (s.condition,),
    stmt.Prefetch: lambda s: (s.index,),
    stmt.Tiles: attrgetter("values"),
    stmt.Allocate: attrgetter("buffer.shape"),
    **dict.fromkeys((stmt.Let, stmt.Evaluate), lambda s: (s.value,)),
    **dict.fromkeys((stmt.LoadSymbol, stmt.Timestamp), lambda s: (s.address.offset,)),
    stmt.CallRoutine: attrgetter("scalars"),
    stmt.CallExtern: lambda s: (
        *(a for a in s.arguments if isinstance(a, tir.Expr)), *(extent for t in s.tensors for extent in t.shape)),
    stmt.CallKernel: lambda s: (*(a.offset for a in s.buffers), *s.scalars),
    stmt.AllocateMemory: attrgetter("size.bytes", "size.estimate"),
    stmt.AllocateOutput: lambda s: (*s.shape, s.size.bytes, s.size.estimate),
    stmt.RunControl: lambda s: (
        *(part.address.offset for part in (*s.operands, *s.results) if part.address is not None),
        *(x for part in (*s.operands, *s.results) for x in part.shape or ()),
    ),
}


def own_expressions(s: stmt.Stmt) -> tuple[tir.Expr, ...]:
    """The expressions that ``s`` itself holds, not those of inner statements."""
    held = _OWN_EXPRESSIONS.get(type(s))
    return () if held is None else tuple(x for x in held(s) if x is not None)


def roots(body: stmt.Stmt) -> Iterator[tir.Expr]:
    """The expressions that statements of ``body`` hold, without those inside them."""
    for s in statements(body):
        yield from own_expressions(s)


def stores(body: stmt.Stmt) -> Iterator[stmt.Store]:
    """All stores in ``body``."""
    return (s for s in statements(body) if isinstance(s, stmt.Store))


def expressions(body: stmt.Stmt) -> Iterator[tir.Expr]:
    """Every expression node under ``body``, the last of a statement first; a node shared inside one statement is met once."""
    for s in statements(body):
        yield from nodes(*reversed(own_expressions(s)), children=lambda x: tir.children(x)[::-1])


def free_names(body: stmt.Stmt) -> tuple[list[tir.Var], list[tir.Buffer]]:
    """Variables and buffers that ``body`` uses but does not itself bind, in order of first use."""
    used_vars, used_buffers = dict[tir.Var, None](), dict[tir.Buffer, None]()
    for x in expressions(body):
        if isinstance(x, tir.Var):
            used_vars[x] = None
        elif isinstance(x, tir.Load):
            used_buffers[x.buffer] = None
    bound: set[tir.Var | tir.Buffer] = set()
    for s in statements(body):
        match s:
            case stmt.For(var=var) | stmt.Let(var=var) | stmt.LoadSymbol(var=var):
                bound.add(var)
            case stmt.Allocate(buffer=buffer):
                bound.add(buffer)
            case stmt.Store(buffer=buffer) | stmt.Prefetch(buffer=buffer):
                used_buffers[buffer] = None
            case stmt.Tiles(buffer=tir.Buffer() as buffer):
                used_buffers[buffer] = None
            case stmt.CallRoutine(buffers=buffers):
                used_buffers.update(dict.fromkeys(buffers))
            case stmt.CallExtern(tensors=tensors):
                used_buffers.update(dict.fromkeys(t.buffer for t in tensors))
    return [v for v in used_vars if v not in bound], [b for b in used_buffers if b not in bound]


def is_costly(x: tir.Expr) -> bool:
    """Whether computing ``x`` again takes longer than reading it from memory: it divides, or has many operations."""
    operations = [e for e in computed(x) if isinstance(e, tir.Binary | tir.Compare | tir.Select | tir.Call)]
    names = {e.op if isinstance(e, tir.Binary) else e.name for e in operations if isinstance(e, tir.Binary | tir.Call)}
    return len(operations) >= _MANY_OPERATIONS or not names.isdisjoint(_DIVISIONS | LONG_INTRINSICS)
