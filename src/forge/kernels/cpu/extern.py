"""Calls of the user's functions: operands, numbers and results in the order of the function's parameters."""

from __future__ import annotations

import json

from forge.loops.contract import KernelCall, Reader, kernel
from forge.tir import expr as E
from forge.tir.expr import Buffer
from forge.tir.stmt import Allocate, CallExtern, ExternArgument, ExternTensor, Function, Stmt, seq, store


@kernel("extern")
def extern(call: KernelCall) -> Function:
    """Calls the function, with everything in memory."""
    attrs, readers = call.attrs, iter(call.readers)
    results = call.buffers[len(call.buffers) - len(call.results) :]
    arguments: list[ExternArgument] = []
    before: list[Stmt] = []
    for argument in json.loads(attrs.arguments) if attrs.arguments else [None] * len(call.readers):
        if argument is None:
            tensor, stored = _operand(next(readers), f"number{len(arguments)}")
            arguments.append(tensor)
            before += stored
        elif isinstance(argument, dict):
            arguments.append(call.dim(attrs.sizes[argument["size"]]))
        elif isinstance(argument, str):
            arguments.append(argument)
        else:
            arguments.append(E.const(argument, "float64" if isinstance(argument, float) else E.INDEX))
    arguments += [ExternTensor(buffer, writer.shape, writer.dtype) for buffer, writer in zip(results, call.results)]
    return call.function(seq(*before, CallExtern(attrs.function, tuple(arguments), call.place)))


def _operand(reader: Reader, name: str) -> tuple[ExternTensor, list[Stmt]]:
    """A tensor in memory, and the statements that store it there: a constant of one element lies nowhere else."""
    if reader.buffer is not None:
        return ExternTensor(reader.buffer, reader.shape, reader.dtype), []
    buffer = Buffer(name, reader.dtype, (E.const(1),), scope="local")
    number = reader.read([E.const(0)] * len(reader.shape))
    return ExternTensor(buffer, reader.shape, reader.dtype), [Allocate(buffer), store(buffer, 0, number)]
