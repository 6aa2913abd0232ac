"""Interiors, stretched operands and repeated elements of symbolic sizes: right at both ends, of every size, on guarded memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from forge import te
from forge.te import Expr, Tensor
from forge.tir import expr as E
from forge.tir import stmt as S
from forge.tir import visit
from tests.schedule.support import TARGETS, function_for, run, truth

RNG = np.random.default_rng(7)


def check(result: Tensor, inputs: dict[Tensor, np.ndarray], target: str, symbols: dict[str, int]) -> None:
    np.testing.assert_array_equal(run([result], inputs, target, symbols)[0], truth([result], inputs, symbols)[0])


def data(*shape: int) -> np.ndarray:
    return RNG.integers(-99, 99, shape).astype(np.float32)


def constant(x: Tensor, i: Sequence[Expr], before: int) -> Expr:
    places = [k - before for k in i]
    inside: Expr = te.const(True, "bool")
    for place, extent in zip(places, x.shape):
        inside = te.logical_and(inside, te.logical_and(place >= 0, place < extent))
    return te.select(inside, x[tuple(te.clamp(p, e) for p, e in zip(places, x.shape))], te.const(7.0, "float32"))


def edge(x: Tensor, i: Sequence[Expr], before: int) -> Expr:
    return x[tuple(te.clamp(k - before, e) for k, e in zip(i, x.shape))]


def reflect(x: Tensor, i: Sequence[Expr], before: int) -> Expr:
    at = []
    for k, extent in zip(i, x.shape):
        place = k - before
        once = te.select(place >= 0, te.select(place < extent, place, extent * 2 - 2 - place), place * -1)
        at.append(te.select(te.const(before + 3) <= extent, once, te.clamp(place, extent)))
    return x[tuple(at)]


@TARGETS
@pytest.mark.parametrize("element", [constant, edge, reflect])
@pytest.mark.parametrize(("before", "after"), [(3, 3), (0, 2), (20, 1)])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 30), (40, 7), (5, 100)])
@pytest.mark.sampled(4)
def test_ends(target: str, element: Callable[..., Expr], before: int, after: int, sizes: tuple[int, int]) -> None:
    h, w = te.symbol_var("h"), te.symbol_var("w")
    x = te.placeholder((h, w), "float32")
    result = te.compute((h + (before + after), w + (before + after)), lambda *i: element(x, i, before))
    check(result, {x: data(*sizes)}, target, {"h": sizes[0], "w": sizes[1]})


@TARGETS
@pytest.mark.parametrize("element", [constant, edge])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 30), (40, 7)])
@pytest.mark.parametrize("block", [16, 4])
def test_ends_of_rows_of_blocks(target: str, element: Callable[..., Expr], sizes: tuple[int, int], block: int) -> None:
    h, w = te.symbol_var("h"), te.symbol_var("w")
    x = te.placeholder((2, h, w, block), "float32")

    def body(c: Expr, i: Expr, j: Expr, k: Expr) -> Expr:
        places = [i - 2, j - 2]
        inside: Expr = te.const(True, "bool")
        for place, extent in zip(places, (h, w)):
            inside = te.logical_and(inside, te.logical_and(place >= 0, place < extent))
        read = x[c, te.clamp(places[0], h), te.clamp(places[1], w), k]
        return te.select(inside, read, te.const(3.0, "float32")) if element is constant else read

    check(te.compute((2, h + 4, w + 4, block), body), {x: data(2, *sizes, block)}, target, {"h": sizes[0], "w": sizes[1]})


@TARGETS
@pytest.mark.parametrize("taps", [3, 16])
@pytest.mark.parametrize("length", [1, 5, 100])
@pytest.mark.parametrize("symbolic", [True, False])
def test_ends_that_depend_on_an_inner_axis(target: str, taps: int, length: int, symbolic: bool) -> None:
    n = te.symbol_var("n") if symbolic else length
    x = te.placeholder((2, n), "float32")
    extent = x.shape[1]

    def body(c: Expr, i: Expr, k: Expr) -> Expr:
        place = i + k - 1
        inside = te.logical_and(place >= 0, place < extent)
        return te.select(inside, x[c, te.clamp(place, extent)], te.const(0.0, "float32"))

    check(te.compute((2, extent, taps), body), {x: data(2, length)}, target, {"n": length} if symbolic else {})


def test_single_elements_at_the_ends_of_symbolic_rows_are_no_vectors() -> None:
    h, w = te.symbol_var("h"), te.symbol_var("w")
    x = te.placeholder((16, h, w), "float32")
    function = function_for([x], [te.compute((18, h + 2, w + 2), lambda *i: edge(x, i, 1))], "llvm -mcpu=x86-64-v4", [h, w])
    assert sum(isinstance(s, S.Store) and s.index.lanes == 1 for s in visit.statements(function.body)) == 2


@TARGETS
@pytest.mark.parametrize(("before", "after"), [(1, 1), (0, 2), (20, 1), (3, 40)])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 30), (2, 16)])
def test_ends_of_whole_rows(target: str, before: int, after: int, sizes: tuple[int, int]) -> None:
    h, w = te.symbol_var("h"), te.symbol_var("w")
    x = te.placeholder((16, h, w), "float32")
    more = before + after
    result = te.compute((16 + more, h + more, w + more), lambda *i: edge(x, i, before))
    check(result, {x: data(16, *sizes)}, target, {"h": sizes[0], "w": sizes[1]})


def test_whole_vectors_of_symbolic_length_have_no_mask() -> None:
    n = te.symbol_var("n")
    x = te.placeholder((n,), "float32")
    function = function_for([x], [te.compute((n + 2,), lambda i: constant(x, [i], 1))], "llvm -mcpu=x86-64-v3", [n])
    inner = [s for s in visit.statements(function.body) if isinstance(s, S.Store) and s.index.lanes == 8]
    assert any(isinstance(s.value, E.Load) and s.value.mask is None for s in inner)


@TARGETS
@pytest.mark.parametrize(
    "sizes",
    [(3, 40, 3, 40), (3, 40, 1, 1), (1, 1, 5, 70), (3, 1, 1, 33), (1, 33, 4, 1), (1, 1, 1, 1), (2, 5000, 2, 1)],
)
def test_operands_that_are_perhaps_stretched(target: str, sizes: tuple[int, int, int, int]) -> None:
    a, b, c, d = (te.symbol_var(name) for name in "abcd")
    x, y = te.placeholder((a, b), "float32"), te.placeholder((c, d), "float32")
    shape = (te.binary("max", a, c), te.binary("max", b, d))

    def body(i: Expr, j: Expr) -> Expr:
        return x[te.clamp(i, a), te.clamp(j, b)] + y[te.clamp(i, c), te.clamp(j, d)]

    inputs = {x: data(*sizes[:2]), y: data(*sizes[2:])}
    check(te.compute(shape, body), inputs, target, dict(zip("abcd", sizes)))


def test_operands_that_are_not_stretched_are_read_as_one_vector() -> None:
    a, b, c, d = (te.symbol_var(name) for name in "abcd")
    x, y = te.placeholder((a, b), "float32"), te.placeholder((c, d), "float32")
    shape = (te.binary("max", a, c), te.binary("max", b, d))
    result = te.compute(shape, lambda i, j: x[te.clamp(i, a), te.clamp(j, b)] + y[te.clamp(i, c), te.clamp(j, d)])
    function = function_for([x, y], [result], "llvm -mcpu=x86-64-v3", [a, b, c, d])
    chosen = next(s for s in visit.statements(function.body) if isinstance(s, S.If))
    found = [s for s in visit.statements(chosen.then) if isinstance(s, S.Store) and s.index.lanes == 8]
    assert found and all(isinstance(e.index, E.Ramp) for s in found for e in visit.nodes(s.value) if isinstance(e, E.Load))


@TARGETS
@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (3, 40), (17, 64)])
@pytest.mark.parametrize("factor", [2, 3, 4])
def test_weighted_repeats(target: str, sizes: tuple[int, int], factor: int) -> None:
    """What resizing by a whole factor is made of: neighbours and weights that depend on the place among repeats."""
    h, w = te.symbol_var("h"), te.symbol_var("w")
    x = te.placeholder((2, h, w), "float32")

    def along(y: Tensor, axis: int) -> Tensor:
        shape = [e * factor if k == axis else e for k, e in enumerate(y.shape)]

        def body(*i: Expr) -> Expr:
            place, part = i[axis] // factor, i[axis] % factor
            shift = te.select(part.eq(0), te.const(-1), te.const(0))
            weight = te.select(part.eq(0), te.const(2.0, "float32"), te.const(4.0, "float32"))
            reads = (y[(*i[:axis], te.clamp(place + shift + k, y.shape[axis]), *i[axis + 1 :])] for k in (0, 1))
            first, second = reads
            return first * weight + second

        return te.compute(shape, body)

    check(along(along(x, 1), 2), {x: data(2, *sizes)}, target, {"h": sizes[0], "w": sizes[1]})


def test_repeats_of_symbolic_length_are_interleaved() -> None:
    w = te.symbol_var("w")
    x = te.placeholder((64, w), "float32")
    function = function_for([x], [te.compute((64, w * 2), lambda c, i: x[c, i // 2])], "llvm -mcpu=x86-64-v3", [w])
    stored = [s for s in visit.statements(function.body) if isinstance(s, S.Store)]
    assert stored and all(s.index.lanes == 8 for s in stored)
