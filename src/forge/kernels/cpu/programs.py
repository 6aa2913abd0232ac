"""Loop programs that users write."""

from __future__ import annotations

from forge.errors import CompileError
from forge.loops import Vectorizer, product
from forge.loops.contract import KernelCall, Reader, kernel
from forge.tir import expr as E
from forge.tir import visit
from forge.tir.expr import Buffer, Tensor
from forge.tir.rewrite import map_parts
from forge.tir.stmt import Allocate, For, Function, Stmt, loop, seq, store
from forge.tir.text import read_program
from forge.tir.text.lower import Place, binding, lower, place


@kernel("tensor_program")
def tensor_program(call: KernelCall) -> Function:
    """Family of ``tensor_program``: any operands and results; attributes program, sizes, in_place."""
    program = read_program(call.attrs.program)
    in_place = call.attrs.in_place or (-1,) * len(call.results)
    new = iter(program.parameters[len(call.readers) :])
    places: dict[Tensor, Place] = {p: Place(r.read, None) for p, r in zip(program.parameters, call.readers)}
    shapes = [r.shape for r in call.readers]
    copies, fresh = list[Stmt](), list[Tensor]()
    for writer, target in zip(call.results, in_place):
        buffer = writer.buffer
        assert buffer is not None, "opaque operators have no epilogue"
        parameter = next(new) if target == -1 else program.parameters[target]
        places[parameter] = place(buffer)
        if target == -1:
            fresh.append(parameter)
            shapes.append(writer.shape)
        elif not call.in_place:
            copies.append(_copy(call.readers[target], buffer))
    sizes = dict(zip(program.scalars, map(call.dim, call.attrs.sizes)))
    sizes.update(binding([p.shape for p in program.parameters], shapes))
    return call.function(seq(*copies, _vectorized(lower(program, places, sizes, fresh))))


def _copy(source: Reader, target: Buffer) -> Stmt:
    """``target[...] = source[...]``"""
    if source.buffer is None:
        return store(target, 0, source.read([E.const(0)] * len(source.shape)))
    i = E.var("i")
    return loop(i, product(source.shape), store(target, i, E.load(source.buffer, i)))


def _vectorized(s: Stmt) -> Stmt:
    """``s`` with loops of kind vectorized as vectors; those with branches or local memory inside stay loops."""
    s = map_parts(s, lambda x: x, _vectorized)
    if not isinstance(s, For) or s.kind != "vectorized":
        return s
    lanes = s.extent.value if isinstance(s.extent, E.Const) else 0
    shares = any(isinstance(inner, Allocate) for inner in visit.statements(s.body))  # memory that each iteration has for itself
    if isinstance(lanes, int) and lanes > 1 and lanes & (lanes - 1) == 0 and not shares:
        try:
            return Vectorizer(s.var, s.begin, lanes).stmt(s.body)
        except CompileError:  # a branch, or the bound of a loop, depends on the variable
            pass
    return loop(s.var, s.extent, s.body, begin=s.begin)
