"""Runs the entry of a program with the interpreter of loops, and counts what its kernels store."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from forge import dtypes
from forge.backends.compiled import CompiledModel
from forge.tir import stmt
from forge.tir.expr import Buffer, Expr, Var
from forge.tir.interpret import Array, Interpreter
from tests.guard import shared_pairs

Memory = dict[tuple[str, int], np.ndarray]


class _Counting(Interpreter):
    """Counts the bytes that are stored in ``parameters``: what lies on the stack counts for nothing."""

    def __init__(self, buffers: dict[Buffer, Array], bound: dict[Var, Array]) -> None:
        super().__init__(buffers, bound)
        self.parameters = set(buffers)
        self.stored = dict.fromkeys(buffers, 0)

    def _store(self, s: stmt.Store) -> None:
        super()._store(s)
        if s.buffer in self.parameters:
            _, active = self._places(s.buffer, s.index, s.mask)
            self.stored[s.buffer] += int(active.sum()) * dtypes.itemsize(s.buffer.dtype)


def run(
    compiled: CompiledModel, inputs: Sequence[np.ndarray], symbols: Mapping[str, int], room: int = 0
) -> tuple[list[np.ndarray], dict[str, int]]:
    """Outputs, and the bytes stored in each kind of memory: input, output and arena; what is shared counts as input.

    Args:
        compiled: a model of one function without control flow, from main.
        inputs: of it.
        symbols: the sizes.
        room: bytes that shared memory has more than the output needs.
    """
    assert compiled.lowered is not None
    lowered = compiled.lowered
    program = lowered.library.programs[0]
    bound = {v: np.array([symbols[v.name]]) for v in program.symbols}
    sizes = Interpreter({}, dict(bound))
    shapes = [[int(sizes.value(d)[0]) for d in spec.dims] for spec in program.outputs]
    for binding in program.arena_bindings:
        sizes.statement(binding)
    weights, arena = np.frombuffer(compiled.weights.tobytes(), np.uint8), np.zeros(_number(sizes, program.arena_size), np.uint8)
    memory: Memory = {("weights", 0): weights, ("arena", 0): arena}
    memory |= {("input", k): np.frombuffer(a.tobytes(), np.uint8).copy() for k, a in enumerate(inputs)}
    pairs = shared_pairs(program)
    for k, (spec, shape) in enumerate(zip(program.outputs, shapes, strict=True)):
        block = np.zeros(math.prod(shape) * dtypes.itemsize(spec.dtype) + (room if k in pairs else 0), np.uint8)
        if k in pairs:
            old = memory["input", pairs[k]]
            block[: len(old)] = old
            memory["input", pairs[k]] = block
        memory["output", k] = block
    stored = dict.fromkeys(("input", "output", "arena"), 0)
    functions = {f.name: f for f in lowered.library.functions}
    entry = program.entry
    for call in entry.body if isinstance(entry, stmt.Seq) else (entry,):
        if call in program.arena_bindings:
            continue
        assert isinstance(call, stmt.CallKernel)
        for kind, count in _call(functions[call.name], call, memory, sizes).items():
            stored[kind] += count
    results = [_array(memory["output", k], shape, spec.dtype) for k, (spec, shape) in enumerate(zip(program.outputs, shapes))]
    return results, stored


def _array(block: np.ndarray, shape: Sequence[int], dtype: str) -> np.ndarray:
    size = math.prod(shape) * dtypes.itemsize(dtype)
    return block[:size].view(dtypes.numpy_dtype(dtype)).reshape(shape)


def _number(sizes: Interpreter, x: Expr) -> int:
    return int(sizes.value(x)[0])


def _call(function: stmt.Function, call: stmt.CallKernel, memory: Memory, sizes: Interpreter) -> dict[str, int]:
    bound = {v: sizes.value(x) for v, x in zip(function.scalars, call.scalars, strict=True)}
    known = Interpreter({}, dict(bound))
    arrays = {}
    for buffer, address in zip(function.buffers, call.buffers, strict=True):
        block = memory[address.base][_number(sizes, address.offset) :]
        arrays[buffer] = _array(block, [_number(known, e) for e in buffer.shape], buffer.dtype).reshape(-1)
    interpreter = _Counting(arrays, bound)
    with np.errstate(all="ignore"):
        interpreter.statement(function.body)
    counts: dict[str, int] = {}
    given = [block for (kind, _), block in memory.items() if kind == "input"]
    for buffer, address in zip(function.buffers, call.buffers):
        kind = "input" if any(block is memory[address.base] for block in given) else address.base[0]
        counts[kind] = counts.get(kind, 0) + interpreter.stored[buffer]
    return {kind: count for kind, count in counts.items() if count}
