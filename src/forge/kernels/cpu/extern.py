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
            reader = next(readers)
            buffer, stored = in_memory(reader, f"number{len(arguments)}")
            arguments.append(ExternTensor(buffer, reader.shape, reader.dtype))
            before += stored
        elif isinstance(argument, dict):
            arguments.append(call.dim(attrs.sizes[argument["size"]]))
        elif isinstance(argument, str):
            arguments.append(argument)
        else:
            arguments.append(E.const(argument, "float64" if isinstance(argument, float) else E.INDEX))
    arguments += [ExternTensor(buffer, writer.shape, writer.dtype) for buffer, writer in zip(results, call.results)]
    return call.function(seq(*before, CallExtern(attrs.function, tuple(arguments), call.place)))


def in_memory(reader: Reader, name: str) -> tuple[Buffer, list[Stmt]]:
    """Returns a buffer with an operand, and the statements that store it there: a constant of one element lies nowhere else."""
    if reader.buffer is not None:
        return reader.buffer, []
    buffer = Buffer(name, reader.dtype, (E.const(1),), scope="local")
    number = reader.read([E.const(0)] * len(reader.shape))
    return buffer, [Allocate(buffer), store(buffer, 0, number)]
