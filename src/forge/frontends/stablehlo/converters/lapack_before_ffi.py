"""Routines of LAPACK as jax called them up to 0.4: ``lapack_dgetrf``, with numbers as operands before the matrices, and memory
that they work in as results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forge import dtypes
from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.converters import lapack
from forge.frontends.stablehlo.registry import CUSTOM_CALL, converts
from forge.ir.nodes import Value


@dataclass(frozen=True)
class _Call:
    """One routine.

    Attributes:
        count: operands before the matrices.
        numbers: those that mean something, by position.
        convert: gives the results, of these numbers and the matrices.
        first: results before them that are memory, of real and of complex matrices.
    """

    count: int
    numbers: tuple[int, ...]
    convert: Callable[..., Sequence[Value]]
    first: tuple[int, int] = (0, 0)


def _triangle(lower: int) -> int:
    return ord("L" if lower else "U")


def _with_success(g: Context, results: Sequence[Value], a: Value) -> list[Value]:
    return [*results, g.filled(0, "int32", a.shape[:-2])]


def _singular_values(g: Context, full: int, wanted: int, a: Value) -> list[Value]:
    return lapack.gesdd(g, a, mode=ord("N" if not wanted else "A" if full else "S"))


def _schur(g: Context, mode: int, sort: int, a: Value) -> list[Value]:
    form, vectors, *values, count, left = lapack.gees(g, a, mode=mode, sort=sort)
    memory = [g.filled(0, g.result_type(1).dtype, g.shape(1))] if dtypes.is_complex(a.dtype) else []
    return [form, *memory, *values, vectors, count, left]


_CALLS = {
    "getrf": _Call(3, (), lapack.getrf),
    "geqrf": _Call(4, (), lambda g, a: _with_success(g, lapack.geqrf(g, a), a)),
    "geqp3": _Call(4, (), lambda g, a, fixed: _with_success(g, lapack.geqp3(g, a, fixed), a)),
    "orgqr": _Call(5, (), lambda g, a, tau: _with_success(g, [lapack.orgqr(g, a, tau)], a)),
    "potrf": _Call(3, (0,), lambda g, lower, a: lapack.potrf(g, a, uplo=_triangle(lower))),
    "gesdd": _Call(6, (0, 1), _singular_values),
    "syevd": _Call(3, (0,), lambda g, lower, a: lapack.syevd(g, a, uplo=_triangle(lower), mode=ord("V"))),
    "geev": _Call(4, (2, 3), lambda g, left, right, a: lapack.geev(g, a, compute_left=left, compute_right=right), (3, 2)),
    "gees": _Call(4, (2, 3), _schur),
    "gehrd": _Call(6, (1, 2), lambda g, low, high, a: lapack.gehrd(g, a, low=low, high=high)),
    "sytrd": _Call(5, (1,), lambda g, lower, a: lapack.sytrd(g, a, uplo=_triangle(lower))),
}
_OF_COMPLEX = {"orgqr": "ungqr", "syevd": "heevd", "sytrd": "hetrd"}


def _converter(call: _Call) -> Callable[..., list[Value]]:
    def convert(g: Context, *operands: Value) -> list[Value]:
        if len(operands) <= call.count:
            raise g.invalid(f"got {len(operands)} operands; expected {call.count} numbers and matrices")
        numbers = [g.required_ints(operands[k], f"operand {k}")[0] for k in call.numbers]
        matrices = operands[call.count:]
        before = call.first[dtypes.is_complex(matrices[0].dtype)]
        results = list(call.convert(g, *numbers, *matrices))
        places = [*range(before), *range(before + len(results), len(g.operation.results))]
        memory = [g.filled(0, g.result_type(k).dtype, g.shape(k)) for k in places]
        return [*memory[:before], *results, *memory[before:]]

    return convert


for _name, _call in _CALLS.items():
    for _letter in "sdcz":
        _routine = _OF_COMPLEX.get(_name, _name) if _letter in "cz" else _name
        converts(f"lapack_{_letter}{_routine}", domain=CUSTOM_CALL)(_converter(_call))


@converts("blas_strsm", domain=CUSTOM_CALL)
@converts("blas_dtrsm", domain=CUSTOM_CALL)
@converts("blas_ctrsm", domain=CUSTOM_CALL)
@converts("blas_ztrsm", domain=CUSTOM_CALL)
def trsm(g: Context, *operands: Value) -> Value:
    if len(operands) != 10:
        raise g.invalid(f"got {len(operands)} operands; expected 8 numbers and 2 matrices")
    left, lower, transposed, unit = (g.required_ints(operands[k], f"operand {k}")[0] for k in range(4))
    if not g.is_full_of(operands[7], 1):
        raise g.unsupported("a factor of the right side is not supported; expected 1")
    return lapack.trsm(
        g, *operands[8:], side=ord("L" if left else "R"), uplo=_triangle(lower), trans_x=ord("NTC"[transposed % 3]),
        diag=ord("U" if unit else "N"))
