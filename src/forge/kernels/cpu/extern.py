"""Calls of the user's functions: operands, numbers and results in the order of the function's parameters."""

from __future__ import annotations

import json

from forge.loops.contract import KernelCall, kernel
from forge.tir import expr as E
from forge.tir.stmt import CallExtern, ExternArgument, ExternTensor, Function


@kernel("extern")
def extern(call: KernelCall) -> Function:
    """One call, with everything in memory."""
    attrs, readers = call.attrs, iter(call.readers)
    results = call.buffers[len(call.buffers) - len(call.results) :]
    arguments: list[ExternArgument] = []
    for argument in json.loads(attrs.arguments) if attrs.arguments else [None] * len(call.readers):
        if argument is None:
            reader = next(readers)
            assert reader.buffer is not None, "operands of opaque operators are in memory"
            arguments.append(ExternTensor(reader.buffer, reader.shape, reader.dtype))
        elif isinstance(argument, dict):
            arguments.append(call.dim(attrs.sizes[argument["size"]]))
        else:
            arguments.append(argument if isinstance(argument, str) else E.const(argument, "float64" if isinstance(
                argument, float) else E.INDEX))  # fmt: skip
    arguments += [ExternTensor(buffer, writer.shape, writer.dtype) for buffer, writer in zip(results, call.results)]
    return call.function(CallExtern(attrs.function, tuple(arguments)))
