"""Matrix products of run-time operands against NumPy, on odd sizes, at every vector width."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from forge.errors import CompileError
from forge.kernels.cpu import matmul
from forge.loops.contract import Reader
from forge.tir import expr as E
from tests.codegen.compiled import build
from tests.kernels.case import Case, Spec
from tests.kernels.support import assert_close, guarded, run, targets_here

RNG = np.random.default_rng(11)

SHAPES = {
    "square": ((33, 33), (33, 33)),
    "row": ((1, 70), (70, 45)),
    "row and whole tiles": ((1, 40), (40, 256)),
    "row and many columns": ((3, 1, 600), (3, 600, 301)),
    "column": ((50, 19), (19, 1)),
    "depth one": ((9, 1), (1, 20)),
    "scalar": ((1, 1), (1, 1)),
    "in place": ((2, 21, 24), (2, 24, 64)),
    "batched": ((3, 13, 40), (3, 40, 27)),
    "broadcast": ((2, 1, 10, 17), (5, 17, 33)),
    "shared right": ((4, 6, 20), (20, 48)),
}


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def swapped(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2])


def truth(a: np.ndarray, b: np.ndarray, transpose_a: bool, transpose_b: bool) -> np.ndarray:
    left, right = a.astype(np.float64), b.astype(np.float64)
    return np.matmul(left.swapaxes(-1, -2) if transpose_a else left, right.swapaxes(-1, -2) if transpose_b else right)


def product_case(a: tuple[object, ...], b: tuple[object, ...], result: tuple[object, ...], transpose_a: bool = False,
                 transpose_b: bool = False, **options: object) -> Case:
    return Case("matmul", [Spec(a), Spec(b)], Spec(result), {"transpose_a": transpose_a, "transpose_b": transpose_b}, **options)


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, False), (True, False), (False, True)])
def test_matches_numpy(target: str, name: str, transpose_a: bool, transpose_b: bool) -> None:
    a, b = SHAPES[name]
    x, y = normal(*(swapped(a) if transpose_a else a)), normal(*(swapped(b) if transpose_b else b))
    want = truth(x, y, transpose_a, transpose_b)
    got = run(product_case(x.shape, y.shape, want.shape, transpose_a, transpose_b), [x, y], target)
    assert_close(got, want, a[-1])


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("transpose_b", [False, True])
def test_depth_in_parts(target: str, transpose_b: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "PANEL_BYTES", 1 << 10)
    monkeypatch.setattr(matmul, "PART_DEPTH", 24)
    x, y = normal(21, 131), normal(*((35, 131) if transpose_b else (131, 35)))
    want = truth(x, y, False, transpose_b)
    assert_close(run(product_case(x.shape, y.shape, want.shape, False, transpose_b), [x, y], target), want, 131)


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("transpose_b", [False, True])
def test_symbolic_sizes(target: str, transpose_b: bool) -> None:
    batch, m, k, n = (E.var(name) for name in ("batch", "m", "k", "n"))
    case = product_case((batch, m, k), (batch, n, k) if transpose_b else (batch, k, n), (batch, m, n), False, transpose_b,
                        symbols=(batch, m, k, n))
    kernel = build(case.function(target), target)
    rows_and_depths = [(2, rows, depth, 37) for rows in range(10) for depth in (0, 5, 513)]
    for sizes in [(1, 1, 1, 1), (2, 7, 30, 19), (1, 1, 600, 50), (3, 1, 31, 300), (3, 33, 17, 64), (1, 300, 512, 5),
                  *rows_and_depths]:
        bs, rows, depth, columns = sizes
        x, y = normal(bs, rows, depth), normal(*((bs, columns, depth) if transpose_b else (bs, depth, columns)))
        result = guarded(np.full((bs, rows, columns), 3, np.float32))
        kernel(guarded(x), guarded(y), result, *sizes)
        if rows and depth:
            assert_close(result, truth(x, y, False, transpose_b), depth)
        else:
            assert not result.any()


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("transpose_b", [False, True])
def test_prologues_and_epilogue(target: str, transpose_b: bool) -> None:
    x, y, bias = normal(2, 19, 40), normal(*((2, 37, 40) if transpose_b else (2, 40, 37))), normal(37)
    case = product_case(x.shape, y.shape, (2, 19, 37), False, transpose_b, extras=[Spec((37,))],
                        prologues={0: lambda v: v * 0.5 + 1.0, 1: lambda v: E.binary("max", v, 0.0)},
                        epilogue=lambda v, extra: v + extra(0))
    want = truth(x * np.float32(0.5) + 1, np.maximum(y, 0), False, transpose_b) + bias
    assert_close(run(case, [x, y, bias], target), want, 40)


@pytest.mark.parametrize("target", targets_here())
def test_operands_seen_through_a_transposition(target: str) -> None:
    """Heads that lie between sequence and features, as attention has them: read in place, packed without gathers."""
    x, y = normal(2, 11, 3, 20), normal(2, 14, 3, 20)  # batch, sequence, head, feature
    call = product_case(x.shape, y.shape, (2, 3, 11, 14), transpose_b=True).call(target)

    def heads(reader: Reader) -> Reader:
        b, s, h, d = reader.shape
        return Reader((b, h, s, d), reader.dtype, lambda i, mask=None: reader.read([i[0], i[2], i[1], i[3]], mask), None)

    seen = dataclasses.replace(call, operands=tuple(heads(r) for r in call.operands if r is not None))
    assert not matmul._plan(seen).staged
    result = guarded(np.zeros((2, 3, 11, 14), np.float32))
    build(matmul.matmul(seen), target)(guarded(x), guarded(y), result)
    assert_close(result, np.einsum("bshd,bthd->bhst", x.astype(np.float64), y.astype(np.float64)), 20)


@pytest.mark.parametrize(
    ("dtype", "result"), [("float64", "float64"), ("int8", "int32"), ("int64", "int64"), ("float16", "float32")])
def test_other_dtypes(dtype: str, result: str) -> None:
    for transpose_b in (False, True):
        x = RNG.integers(-5, 6, (9, 21)).astype(dtype)
        y = RNG.integers(-5, 6, (30, 21) if transpose_b else (21, 30)).astype(dtype)
        case = Case("matmul", [Spec(x.shape, dtype), Spec(y.shape, dtype)], Spec((9, 30), result),
                    {"transpose_a": False, "transpose_b": transpose_b})
        np.testing.assert_array_equal(run(case, [x, y], "llvm"), truth(x, y, False, transpose_b))


def test_vectors_are_refused() -> None:
    with pytest.raises(CompileError, match="rank 2"):
        product_case((4,), (4, 5), (5,)).function("llvm")
