"""Walking over statements: the expressions, variables and buffers that they use."""

from __future__ import annotations

from collections.abc import Iterator

from forge.tir import expr as tir
from forge.tir import stmt


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


def own_expressions(s: stmt.Stmt) -> tuple[tir.Expr, ...]:
    """The expressions that ``s`` itself holds, not those of inner statements."""
    match s:
        case stmt.For(begin=begin, extent=extent):
            return (begin, extent)
        case stmt.Store(index=index, value=value, mask=mask):
            return (index, value) if mask is None else (index, value, mask)
        case stmt.Prefetch(index=index):
            return (index,)
        case stmt.If(condition=condition):
            return (condition,)
        case stmt.Let(value=value) | stmt.Evaluate(value=value):
            return (value,)
        case stmt.CallKernel(buffers=buffers, scalars=scalars):
            return (*(address.offset for address in buffers), *scalars)
        case stmt.CallRoutine(scalars=scalars):
            return scalars
        case stmt.Allocate(buffer=buffer):
            return buffer.shape
        case stmt.LoadSymbol(address=address) | stmt.Timestamp(address=address):
            return (address.offset,)
        case stmt.AllocateMemory(size=size):
            return (size.bytes, size.estimate)
        case stmt.AllocateOutput(shape=shape, size=size):
            return (*shape, size.bytes, size.estimate)
        case stmt.RunControl(operands=operands, results=results):
            offsets = [o.address.offset for o in operands if o.address is not None]
            wanted = [x for r in results for x in r.shape or () if x is not None]
            return (*offsets, *(x for o in operands for x in o.shape), *wanted)
    return ()


def expressions(body: stmt.Stmt) -> Iterator[tir.Expr]:
    """Every expression node under ``body``; a node shared inside one statement is met once."""
    for s in statements(body):
        seen: set[tir.Expr] = set()
        pending = list(own_expressions(s))
        while pending:
            x = pending.pop()
            if x not in seen:
                seen.add(x)
                yield x
                pending.extend(tir.children(x))


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
            case stmt.CallRoutine(buffers=buffers):
                used_buffers.update(dict.fromkeys(buffers))
    return [v for v in used_vars if v not in bound], [b for b in used_buffers if b not in bound]
