"""Operators on strings: each is one call of a C routine of the runtime (``forge_strings.h``), with its sizes as numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forge import dtypes
from forge.loops import product
from forge.loops.contract import KernelCall, Reader, kernel
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import CallRoutine, Function


@dataclass(frozen=True)
class Routine:
    """``operands`` of the operator, from the front, are passed, then all results, then the numbers that ``scalars`` gives."""

    name: str | Callable[[KernelCall], str]
    operands: int
    scalars: Callable[[KernelCall], Sequence[Expr]]


def _count(call: KernelCall, position: int = 0) -> Expr:
    return product(call.readers[position].shape)


def _rows(call: KernelCall, position: int) -> Expr:
    return call.readers[position].shape[0]


def _maxsplit(call: KernelCall) -> Expr:
    return E.const(-1 if call.attrs.maxsplit is None else call.attrs.maxsplit)


def _ngram_numbers(call: KernelCall) -> list[Expr]:
    data, attrs = call.readers[0], call.attrs
    limits = (attrs.min_length, attrs.max_length, attrs.max_skip, attrs.size)
    return [product(data.shape[:-1]), data.shape[-1], *(_rows(call, k) for k in (1, 2, 3)), *map(E.const, limits)]


ROUTINES: dict[str, Routine] = {
    "string.unpack": Routine("forge_string_unpack", 1, lambda c: [product(c.results[0].shape), _count(c)]),
    "string.concat": Routine("forge_string_concat", 2, lambda c: [_count(c)]),
    "string.equal": Routine("forge_string_equal", 2, lambda c: [_count(c), E.const(0)]),
    "string.not_equal": Routine("forge_string_equal", 2, lambda c: [_count(c), E.const(1)]),
    "string.most_parts": Routine("forge_string_most_parts", 2, lambda c: [_count(c), _maxsplit(c)]),
    "string.split": Routine("forge_string_split", 2, lambda c: [_count(c), c.results[0].shape[-1], _maxsplit(c)]),
    "string.count_words": Routine("forge_string_count_words", 3, lambda c: [_count(c), _rows(c, 1), _rows(c, 2)]),
    "string.normalize": Routine("forge_string_normalize", 4, lambda c: [
        _count(c), *(_rows(c, k) for k in (1, 2, 3)), c.results[0].shape[-1]]),
    "string.lookup": Routine("forge_string_lookup", 2, lambda c: [_count(c), _rows(c, 1)]),
    "string.rank": Routine("forge_string_rank", 1, lambda c: [_count(c)]),
    "ngram_counts": Routine("forge_ngram_counts", 4, _ngram_numbers),
    "string.from_number": Routine(
        lambda c: f"forge_string_from_{c.readers[0].dtype}",
        1,
        lambda c: [_count(c), *([E.const(c.attrs.digits)] if c.readers[0].dtype == "float64" else [])],
    ),
    "string.to_number": Routine(
        lambda c: f"forge_string_to_{c.attrs.dtype}",
        1,
        lambda c: [_count(c), *map(E.const, dtypes.integer_range(c.attrs.within) if c.attrs.dtype == "int64" else ())],
    ),
    "string.regex_full_match": Routine("forge_string_match", 2, lambda c: [_count(c), _count(c, 1)]),
}


@kernel("strings")
def strings(call: KernelCall) -> Function:
    """Calls the runtime's function for the operator that ``call`` names."""
    routine = ROUTINES[call.operator]
    buffers = [_buffer(call.readers[k]) for k in range(routine.operands)]
    results = call.buffers[len(call.buffers) - len(call.results) :]
    name = routine.name if isinstance(routine.name, str) else routine.name(call)
    return call.function(CallRoutine(name, (*buffers, *results), tuple(routine.scalars(call))))


def _buffer(reader: Reader) -> Buffer:
    assert reader.buffer is not None, "operands of opaque operators are in memory"
    return reader.buffer
