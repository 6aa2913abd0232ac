"""Reductions against NumPy: along inner and outer axes, windows, chains, all kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from forge import schedule, te
from forge.errors import CompileError
from forge.tir import expr as E
from forge.tir import stmt as S
from forge.tir import visit
from tests.schedule.support import TARGETS, call_for, function_for, run, truth

RNG = np.random.default_rng(11)


def reduced(x: te.Tensor, axes: Sequence[int], kind: str) -> te.Tensor:
    own = {a: te.reduce_axis(x.shape[a], f"r{a}") for a in axes}
    kept = [a for a in range(x.ndim) if a not in own]

    def body(*i: te.Expr) -> te.Expr:
        at = dict(zip(kept, i)) | {a: r.var for a, r in own.items()}
        return te.reduce(kind, x[[at[a] for a in range(x.ndim)]], list(own.values()))

    return te.compute([x.shape[a] for a in kept], body, "reduced")


def check(
    results: list[te.Tensor],
    inputs: dict[te.Tensor, np.ndarray],
    target: str,
    symbols: dict[str, int] | None = None,
    rtol: float = 2e-5,
) -> None:
    wide = {t: a.astype(np.float64) if a.dtype == np.float32 else a for t, a in inputs.items()}
    for got, want in zip(run(results, inputs, target, symbols), truth(results, wide, symbols)):
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=1e-5)


@TARGETS
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((7, 130), (1,)),
        ((7, 130), (0,)),
        ((3, 5, 7, 7), (2, 3)),
        ((33, 17, 9), (1,)),
        ((40, 3), (1,)),
        ((3, 40), (0,)),
        ((4, 6, 50), (0, 2)),
        ((4, 6, 50), (0, 1, 2)),
        ((100,), (0,)),
        ((5, 1), (1,)),
        ((1, 9), (0,)),
        ((64, 256), (0,)),
        ((2, 700), (1,)),
    ],
)
def test_sums(target: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    a = RNG.uniform(0.5, 1.5, shape).astype(np.float32)
    x = te.placeholder(shape, "float32")
    check([reduced(x, axes, "sum")], {x: a}, target)


@TARGETS
@pytest.mark.parametrize("axes", [(0,), (1,)])
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("max", "float32"),
        ("min", "float32"),
        ("prod", "float32"),
        ("max", "int8"),
        ("min", "int64"),
        ("sum", "int32"),
        ("max", "uint8"),
        ("sum", "float64"),
        ("and", "bool"),
        ("or", "bool"),
    ],
)
def test_kinds(target: str, axes: tuple[int, ...], kind: str, dtype: str) -> None:
    a = RNG.uniform(-120, -1, (13, 21)) if dtype.startswith(("int", "float")) else RNG.uniform(0, 1.05, (13, 21))
    a = np.where(a < -118, -1, a) / 60 if kind == "prod" else a
    x = te.placeholder(a.shape, dtype)
    check([reduced(x, axes, kind)], {x: a.astype(dtype)}, target)


@TARGETS
@pytest.mark.parametrize("axes", [(0,), (1,)])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_nan_wins(target: str, axes: tuple[int, ...], kind: str) -> None:
    a = RNG.standard_normal((37, 41)).astype(np.float32)
    a[3, 40], a[36, 5] = np.nan, np.nan
    x = te.placeholder(a.shape, "float32")
    (got,) = run([reduced(x, axes, kind)], {x: a}, target)
    np.testing.assert_array_equal(got, (np.max if kind == "max" else np.min)(a, axis=axes))


@TARGETS
@pytest.mark.parametrize("sizes", [(3, 5), (100, 77), (1, 1), (30, 300)])
@pytest.mark.parametrize("axis", [0, 1])
def test_symbolic_normalization(target: str, sizes: tuple[int, int], axis: int) -> None:
    """Mean, variance and their use: three stages, in one loop nest."""
    n, m = te.symbol_var("n"), te.symbol_var("m")
    x = te.placeholder((n, m), "float32")
    count = te.cast((n, m)[axis], "float32")
    total = reduced(x, (axis,), "sum")
    r = te.reduce_axis((n, m)[axis], "s")

    def difference(i: te.Expr, at: te.Expr) -> te.Expr:
        return (x[i, at] if axis == 1 else x[at, i]) - total[i] / count

    squares = te.compute(total.shape, lambda i: te.reduce("sum", difference(i, r.var) * difference(i, r.var), [r]), "squares")
    variance = te.compute(total.shape, lambda i: squares[i] / count, "variance")

    def scaled(i: te.Expr, j: te.Expr) -> te.Expr:
        row, at = (i, j) if axis == 1 else (j, i)
        return difference(row, at) * te.call("sqrt", variance[row] + te.const(1.0, "float32"))

    a = RNG.standard_normal(sizes).astype(np.float32) + 2
    got = run([te.compute((n, m), scaled)], {x: a}, target, {"n": sizes[0], "m": sizes[1]})[0]
    wide = a.astype(np.float64)
    want = (wide - wide.mean(axis, keepdims=True)) * np.sqrt(wide.var(axis, keepdims=True) + 1)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@TARGETS
@pytest.mark.parametrize("stride", [1, 2])
def test_windows(target: str, stride: int) -> None:
    p, q = te.reduce_axis(3, "p"), te.reduce_axis(3, "q")
    out = (9 - 3) // stride + 1
    a, b = RNG.standard_normal((2, 3, 9, 9, 16)).astype(np.float32), RNG.standard_normal((2, 3, 9, 9)).astype(np.float32)
    x, y = te.placeholder(a.shape, "float32"), te.placeholder(b.shape, "float32")
    blocked = te.compute(
        (2, 3, out, out, 16), lambda n, c, i, j, k: te.reduce("max", x[n, c, i * stride + p.var, j * stride + q.var, k], [p, q])
    )
    plain = te.compute(
        (2, 3, out, out), lambda n, c, i, j: te.reduce("max", y[n, c, i * stride + p.var, j * stride + q.var], [p, q])
    )
    check([blocked], {x: a}, target)
    check([plain], {y: b}, target)


@TARGETS
@pytest.mark.parametrize(("channels", "size"), [(6, 9), (1, 5), (5, 20)])
def test_convolution(target: str, channels: int, size: int) -> None:
    a = RNG.standard_normal((2, channels, size, size)).astype(np.float32)
    b = RNG.standard_normal((12, channels, 3, 3)).astype(np.float32)
    x, w = te.placeholder(a.shape, "float32"), te.placeholder(b.shape, "float32")
    c, p, q = te.reduce_axis(channels, "c"), te.reduce_axis(3, "p"), te.reduce_axis(3, "q")
    y = te.compute(
        (2, 12, size - 2, size - 2),
        lambda n, f, i, j: te.reduce("sum", x[n, c.var, i + p.var, j + q.var] * w[f, c.var, p.var, q.var], [c, p, q]),
    )
    check([y], {x: a, w: b}, target)


@TARGETS
def test_elementwise_code_after_a_reduction(target: str) -> None:
    a = RNG.standard_normal((9, 50)).astype(np.float32)
    x = te.placeholder(a.shape, "float32")
    total = reduced(x, (1,), "sum")
    check([te.compute((9,), lambda i: te.call("abs", total[i]) / 50.0)], {x: a}, target)
    check([te.compute((9, 50), lambda i, j: x[i, j] - total[i])], {x: a}, target)


@TARGETS
def test_an_empty_reduction_gives_the_identity(target: str) -> None:
    n = te.symbol_var("n")
    x = te.placeholder((3, n), "float32")
    for kind, value in (("sum", 0), ("prod", 1), ("max", -np.inf), ("min", np.inf)):
        (got,) = run([reduced(x, (1,), kind)], {x: np.zeros((3, 0), np.float32)}, target, {"n": 0})
        np.testing.assert_array_equal(got, np.full(3, value))


def test_a_reduction_of_reductions_is_refused() -> None:
    x = te.placeholder((4, 5), "float32")
    rows = reduced(x, (1,), "sum")
    r = te.reduce_axis(4, "r")
    with pytest.raises(CompileError, match="decompose the operator"):
        function_for([x], [te.compute((2,), lambda i: te.reduce("max", rows[r.var], [r]))], "llvm -mcpu=x86-64")


@TARGETS
@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("shape", [(1 << 21,), (2, 1_500_003), (3, 700, 1001)])
def test_long_reductions_are_cut_for_threads(target: str, shape: tuple[int, ...], kind: str) -> None:
    data = RNG.integers(-3, 4, shape).astype(np.float32)
    x = te.placeholder(shape, "float32")
    axes = [te.reduce_axis(n) for n in shape[-2 if len(shape) == 3 else -1 :]]
    outer = shape[: len(shape) - len(axes)]
    result = te.compute(outer, lambda *i: te.reduce(kind, x[(*i, *(a.var for a in axes))], axes))
    function = function_for([x], [result], target)
    assert any(isinstance(s, S.For) and s.kind == "parallel" for s in visit.statements(function.body))
    expected = getattr(data, kind)(tuple(range(len(outer), len(shape))))
    np.testing.assert_array_equal(run([result], {x: data}, target)[0], expected)


@TARGETS
@pytest.mark.parametrize("n", [0, 1, 15, 1024, 16385, 100_003])
def test_sum_of_symbolic_size(target: str, n: int) -> None:
    data = RNG.integers(-3, 4, n).astype(np.float32)
    x, axis = te.placeholder((te.symbol_var("n"),), "float32"), te.reduce_axis(te.symbol_var("n"))
    result = te.compute((), lambda: te.reduce("sum", x[axis.var], [axis]))
    np.testing.assert_array_equal(run([result], {x: data}, target, {"n": n})[0], data.sum())


def test_elements_that_are_overwritten_are_reduced_once() -> None:
    """A last vector that begins before the one before it ends would read what that has stored."""
    n = te.symbol_var("n")
    x = te.placeholder((64, 4, n), "float32")
    row = te.reduce_axis(4)
    total = te.compute((64, n), lambda k, c: te.reduce("sum", x[k, row.var, c], [row]))
    call = call_for([x], [total], "llvm -mcpu=x86-64-v3", [n])

    def has_last_vector(overwrites: bool) -> bool:
        function = schedule.build(replace(call, overwrites=overwrites), [total], [x])
        stored = [s.index for s in visit.statements(function.body) if isinstance(s, S.Store) and s.buffer.name == "out0"]
        return any(isinstance(e, E.Binary) and e.op == "min" for e in visit.nodes(*stored))

    assert has_last_vector(False) and not has_last_vector(True)


@TARGETS
@pytest.mark.parametrize(("shape", "axes"), [((3, 5, 37), (0, 1, 2)), ((300, 7001), (0, 1)), ((7, 130), (1,))])
def test_independent_reductions_share_a_pass(shape: tuple[int, ...], axes: tuple[int, ...], target: str) -> None:
    """Also in chunks, where a sum is one of them, and where one needs the other and so a pass of its own."""
    x = te.placeholder(shape, "float32", "x")
    low, high, total = (reduced(x, axes, kind) for kind in ("min", "max", "sum"))
    own = [te.reduce_axis(shape[a], f"s{a}") for a in range(len(shape))]
    values = {x: RNG.standard_normal(shape).astype(np.float32)}
    check([low, high, total], values, target)
    both, one = ([s for s in visit.statements(function_for([x], results, target).body)
                  if isinstance(s, S.For) and s.kind != "unrolled"]
                 for results in ([low, high], [low]))
    assert len(both) == len(one)
    if len(axes) == len(shape):
        is_above = x[[o.var for o in own]] > low[()]
        above = te.compute([], lambda: te.reduce("sum", te.select(is_above, te.const(1.0), te.const(0.0)), own), "above")
        check([low, above, high], values, target)
