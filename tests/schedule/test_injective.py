"""Injective loop nests against NumPy: odd sizes, strides, layouts, symbols; memory ends at an inaccessible page."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from forge import dtypes, te
from forge.tir import expr as E
from forge.tir import stmt as S
from forge.tir import visit
from tests.schedule.support import TARGETS, function_for, run, truth

RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def placeholder(array: np.ndarray, name: str = "x") -> te.Tensor:
    return te.placeholder(array.shape, str(array.dtype), name)


def check(
    results: list[te.Tensor], inputs: dict[te.Tensor, np.ndarray], target: str, symbols: dict[str, int] | None = None
) -> None:
    with np.errstate(all="ignore"):
        expected = truth(results, inputs, symbols)
    for got, want in zip(run(results, inputs, target, symbols), expected):
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=1e-6, atol=1e-6)


@TARGETS
@pytest.mark.parametrize("shape", [(), (1,), (5,), (16,), (63,), (1000,), (3, 5, 77), (2, 1, 9), (0, 4), (40, 17)])
def test_elementwise(target: str, shape: tuple[int, ...]) -> None:
    a, b = normal(*shape), normal(*shape)
    x, y = placeholder(a), placeholder(b, "y")
    check([te.compute(shape, lambda *i: te.call("abs", x[i]) * 2.0 + y[i])], {x: a, y: b}, target)


@TARGETS
@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("sizes", [(1, 1), (2, 5), (3, 16), (2, 77), (0, 3), (3, 0)])
def test_axes_that_sizes_divide(target: str, more: int, sizes: tuple[int, int]) -> None:
    """Tiles, and ``more`` elements of one more: where the last one is not whole, or a size is 0, nothing may be assumed."""
    h, w = te.symbol_var("h"), te.symbol_var("w")
    x = te.placeholder((2, h, w), "float32")
    if more and 0 in sizes:
        sizes = (1, 1)
    result = te.compute((2, 2 * h, 3 * w + more), lambda c, i, j: x[c, i % h, j % w] * 2.0)
    check([result], {x: normal(2, *sizes)}, target, dict(zip("hw", sizes, strict=True)))


def test_rows_of_tiles_are_copied_in_vectors() -> None:
    h, w = te.symbol_var("h"), te.symbol_var("w")
    x = te.placeholder((2, h, w), "float32")
    result = te.compute((2, 2 * h, 2 * w), lambda c, i, j: x[c, i % h, j % w])
    function = function_for([x], [result], "llvm -mcpu=x86-64-v3", [h, w])
    loads = [e for e in visit.expressions(function.body) if isinstance(e, E.Load)]
    assert loads and all(isinstance(e.index, E.Ramp) for e in loads)


@pytest.mark.parametrize("symbolic", [True, False])
def test_planes_of_padding_read_nothing(symbolic: bool) -> None:
    """Not even lanes that are off: where no memory is, they take hundreds of cycles."""
    symbols = [te.symbol_var("h"), te.symbol_var("w")] if symbolic else []
    h, w = symbols or (te.const(40), te.const(40))
    x = te.placeholder((4, h, w), "float32")

    def padded(c: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        inside = te.logical_and(c >= 2, c < 6)
        return te.select(inside, x[te.clamp(c - 2, te.const(4)), i, j], te.const(0.0, "float32"))

    function = function_for([x], [te.compute((8, h, w), padded)], "llvm -mcpu=x86-64-v4", symbols)
    masks = [e.mask for e in visit.expressions(function.body) if isinstance(e, E.Load) and e.mask is not None]
    assert not any(isinstance(e, E.Broadcast) and e.x.dtype == "bool" for e in visit.nodes(*masks))


@TARGETS
@pytest.mark.parametrize("other", [(5, 1), (1, 77), (1,), (3, 1, 1), (3, 5, 1), (77,)])
def test_broadcasting(target: str, other: tuple[int, ...]) -> None:
    a, b = normal(3, 5, 77), normal(*other)
    x, y = placeholder(a), placeholder(b, "y")
    check([te.compute(a.shape, lambda *i: x[i] - te.broadcast_read(y, i))], {x: a, y: b}, target)


@TARGETS
@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("int8", "float32"),
        ("float32", "int8"),
        ("uint8", "int64"),
        ("float16", "float32"),
        ("bool", "float64"),
        ("float64", "float32"),
        ("int32", "bool"),
        ("bfloat16", "bfloat16"),
    ],
)
def test_dtypes(target: str, source: str, result: str) -> None:
    a = np.clip(normal(3, 37) * 40, 0, 100).astype(dtypes.numpy_dtype(source))
    x = te.placeholder(a.shape, source)
    check([te.compute(a.shape, lambda *i: te.cast(x[i], result))], {x: a}, target)


@TARGETS
@pytest.mark.parametrize("shape", [(64, 48), (70, 50), (3, 100), (100, 3), (1, 9), (16, 16), (17, 33)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
def test_transposition(target: str, shape: tuple[int, int], dtype: str) -> None:
    a = (normal(*shape) * 50).astype(dtype)
    x = placeholder(a)
    check([te.compute(shape[::-1], lambda i, j: x[j, i] + x[j, i])], {x: a}, target)


@TARGETS
def test_a_transposed_operand_beside_a_straight_one(target: str) -> None:
    a, b, c = normal(40, 19), normal(19, 40), normal(40)
    x, y, z = placeholder(a), placeholder(b, "y"), placeholder(c, "z")
    check([te.compute((19, 40), lambda i, j: x[j, i] * y[i, j] + z[j])], {x: a, y: b, z: c}, target)


@TARGETS
@pytest.mark.parametrize("channels", [3, 16, 24, 40])
def test_blocked_layouts(target: str, channels: int) -> None:
    blocks = -(-channels // 16)
    a, b = normal(2, blocks, 5, 7, 16), normal(2, channels, 5, 7)
    x, y = placeholder(a), placeholder(b)
    check([te.compute(b.shape, lambda n, c, h, w: x[n, c // 16, h, w, c % 16])], {x: a}, target)

    def blocked(n: te.Expr, o: te.Expr, h: te.Expr, w: te.Expr, i: te.Expr) -> te.Expr:
        return y[n, te.clamp(o * 16 + i, te.const(channels)), h, w]

    check([te.compute(a.shape, blocked)], {y: b}, target)


@TARGETS
def test_reshapes_divide_indices(target: str) -> None:
    a = normal(6, 8, 10)
    x = placeholder(a)

    def unflattened(i: te.Expr, j: te.Expr) -> te.Expr:
        flat = i * 60 + j
        return x[flat // 80, (flat // 10) % 8, flat % 10] * 2.0

    check([te.compute((8, 60), unflattened)], {x: a}, target)
    check([te.compute((10, 48), lambda i, j: x[j // 8, j % 8, i])], {x: a}, target)
    check([te.compute((7, 5), lambda i, j: x[(i * 5 + j) // 7, (i * 5 + j) % 7, (i + j) % 3])], {x: a}, target)


@TARGETS
def test_merged_heads(target: str) -> None:
    a = normal(3, 20, 16)
    x = placeholder(a)
    check([te.compute((20, 48), lambda s, d: x[d // 16, s, d % 16])], {x: a}, target)


@TARGETS
def test_strides_gathers_and_reversals(target: str) -> None:
    a, places = normal(9, 60), RNG.integers(0, 9, 21)
    x, p = placeholder(a), placeholder(places, "p")
    check([te.compute((9, 30), lambda i, j: x[i, j * 2])], {x: a}, target)
    check([te.compute((9, 60), lambda i, j: x[i, te.const(59) - j])], {x: a}, target)
    check([te.compute((21, 60), lambda i, j: x[p[i], j])], {x: a, p: places}, target)
    check([te.compute((60, 21), lambda j, i: x[p[i], j])], {x: a, p: places}, target)


@TARGETS
def test_padding_and_positions(target: str) -> None:
    a = normal(5, 11)
    x = placeholder(a)

    def padded(i: te.Expr, j: te.Expr) -> te.Expr:
        inside = te.logical_and(te.logical_and(i >= 1, i < 6), te.logical_and(j >= 2, j < 13))
        return te.select(inside, x[te.clamp(i - 1, te.const(5)), te.clamp(j - 2, te.const(11))], te.const(7.0, "float32"))

    check([te.compute((8, 16), padded)], {x: a}, target)
    check([te.compute((4, 37), lambda i, j: te.cast(i * 3 + j, "float32"))], {}, target)


@TARGETS
@pytest.mark.parametrize("sizes", [(3, 5), (1, 1), (100, 77), (2, 3000), (0, 7), (70, 16)])
def test_symbolic_sizes(target: str, sizes: tuple[int, int]) -> None:
    n, m = te.symbol_var("n"), te.symbol_var("m")
    a, b = normal(*sizes), normal(sizes[1])
    x, y = te.placeholder((n, m), "float32"), te.placeholder((m,), "float32")
    symbols = {"n": sizes[0], "m": sizes[1]}
    check([te.compute((n, m), lambda i, j: x[i, j] * 2.0)], {x: a}, target, symbols)
    check([te.compute((n, m), lambda i, j: x[i, j] + y[j])], {x: a, y: b}, target, symbols)
    check([te.compute((m, n), lambda i, j: x[j, i] * 2.0)], {x: a}, target, symbols)


@TARGETS
def test_several_results(target: str) -> None:
    a = normal(7, 30)
    x = placeholder(a)
    halves = [te.compute((7, 15), lambda i, j, k=k: x[i, j + 15 * k] * 2.0) for k in range(2)]
    uneven = [te.compute((7, 10), lambda i, j: x[i, j]), te.compute((7, 20), lambda i, j: x[i, j + 10])]
    check(halves, {x: a}, target)
    check(uneven, {x: a}, target)


def loops_of(function: S.Function) -> list[S.For]:
    return [s for s in visit.statements(function.body) if isinstance(s, S.For)]


def test_contiguous_axes_become_one_loop() -> None:
    x = te.placeholder((8, 12, 50), "float32")
    function = function_for([x], [te.compute(x.shape, lambda *i: x[i] * 2.0)], "llvm -mcpu=x86-64")
    assert len(loops_of(function)) == 1


def test_small_loops_stay_on_one_thread() -> None:
    def kinds(n: int) -> set[str]:
        x = te.placeholder((n, 64), "float32")
        y = te.placeholder((64,), "float32")
        function = function_for([x, y], [te.compute(x.shape, lambda i, j: x[i, j] + y[j])], "llvm -mcpu=x86-64")
        return {s.kind for s in loops_of(function)}

    assert kinds(10) == {"serial"}
    assert "parallel" in kinds(100_000)


def test_a_large_flat_loop_is_cut_for_threads() -> None:
    n = te.symbol_var("n")
    for extent in (1 << 22, n):
        x = te.placeholder((extent,), "float32")
        symbols = [n] if extent is n else []
        doubled = te.compute(x.shape, lambda i, x=x: x[i] * 2.0)
        function = function_for([x], [doubled], "llvm -mcpu=x86-64", symbols)
        assert isinstance(function.body, S.For)
        assert function.body.kind == "parallel"
        assert function.body.grain is not None


@TARGETS
@pytest.mark.parametrize(("count", "dtype"), [
    *((count, dtype) for count in range(2, 9) for dtype in ("float32", "int8", "float64", "bool")),
    (13, "int8"), (16, "int8"), (16, "int16"), (16, "float32"),
])
def test_interleaved_stores(target: str, count: int, dtype: str) -> None:
    """Stores that step by the extent of a short axis, of lengths with and without a rest."""
    for length in (4, 16, 37, 130):
        parts = [(RNG.standard_normal((3, length)) * 50).astype(dtype) for _ in range(count)]
        sources = [placeholder(p, f"x{k}") for k, p in enumerate(parts)]

        def body(r: te.Expr, o: te.Expr, i: te.Expr, sources: list[te.Tensor] = sources) -> te.Expr:
            value = sources[0][r, o]
            for k, source in enumerate(sources[1:], 1):
                value = te.select(i.eq(k), source[r, o], value)
            return value

        check([te.compute((3, length, count), body)], dict(zip(sources, parts)), target)


@TARGETS
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize(("channels", "block"), [(1, 4), (3, 4), (5, 8), (7, 8), (13, 16)])
def test_blocks_with_padding_are_interleaved(target: str, dtype: str, channels: int, block: int) -> None:
    """As images of few channels are, which a block of channels holds."""
    x = (RNG.standard_normal((2, channels, 5, 37)) * 50).astype(dtype)
    source = placeholder(x, "x")

    def body(n: te.Expr, y: te.Expr, i: te.Expr, c: te.Expr) -> te.Expr:
        return te.select(c < channels, source[n, te.clamp(c, te.const(channels)), y, i], te.const(0, dtype))

    check([te.compute((2, 5, 37, block), body)], {source: x}, target)


@TARGETS
def test_repeated_elements_of_symbolic_length(target: str) -> None:
    a = normal(5, 50)
    n, m = te.symbol_var("n"), te.symbol_var("m")
    x = te.placeholder((n, m), "float32", "x")
    repeated = te.compute((n, m, 2), lambda r, o, i: x[r, o])
    check([repeated], {x: a}, target, {"n": 5, "m": 50})


@TARGETS
@pytest.mark.parametrize("sizes", [(1, 1), (2, 2), (3, 17), (5, 18), (2, 40)])
@pytest.mark.parametrize("symbolic", [True, False])
def test_pictures_of_twice_the_size(target: str, sizes: tuple[int, int], symbolic: bool) -> None:
    """Each element with its neighbours before and after, which the ends lack, in rows and columns."""
    a = normal(3, *sizes)
    h, w = (te.symbol_var("h"), te.symbol_var("w")) if symbolic else (te.const(size) for size in sizes)
    x = te.placeholder((3, h, w), "float32", "x")

    def body(c: te.Expr, y: te.Expr, i: te.Expr, z: te.Expr, j: te.Expr) -> te.Expr:
        return x[c, te.clamp(y + i * 2 - 1, h), te.clamp(z + j * 2 - 1, w)] * 0.25 + x[c, y, z] * 0.75

    check([te.compute((3, h, 2, w, 2), body)], {x: a}, target, dict(zip("hw", sizes)) if symbolic else {})


def test_repeated_elements_are_interleaved_in_registers() -> None:
    x = te.placeholder((64, 32), "float32", "x")
    function = function_for([x], [te.compute((64, 32, 2), lambda r, o, i: x[r, o])], "llvm -mcpu=x86-64-v3")
    stored = [s for s in visit.statements(function.body) if isinstance(s, S.Store)]
    assert stored and all(s.index.lanes == 8 for s in stored)


def test_bytes_of_sixteen_channels_are_interleaved_in_whole_vectors() -> None:
    x = te.placeholder((16, 128), "uint8", "x")
    function = function_for([x], [te.compute((128, 16), lambda i, c: x[c, i])], "llvm -mcpu=x86-64-v4")
    stored = [s for s in visit.statements(function.body) if isinstance(s, S.Store)]
    assert stored and all(s.index.lanes == 64 for s in stored)


@TARGETS
@pytest.mark.parametrize("shape", [(0, 3), (3, 5), (7, 9), (5, 33), (4, 64), (3, 77)])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "float32"])
def test_functions_of_bytes_are_tables(target: str, shape: tuple[int, int], dtype: str) -> None:
    """Instructions permute lanes of a table where they can, also under a mask."""
    codes, entries = RNG.integers(0, 256, shape).astype("uint8"), (RNG.standard_normal(256) * 50).astype(dtype)
    x, table = placeholder(codes), placeholder(entries, "table")
    check([te.compute(shape, lambda i, j: table[te.cast(x[i, j], "int64")])], {x: codes, table: entries}, target)
    n, m = te.symbol_var("n"), te.symbol_var("m")
    y = te.placeholder((n, m), "uint8", "y")
    looked_up = te.compute((n, m), lambda i, j: table[te.cast(y[i, j], "int64")])
    check([looked_up], {y: codes, table: entries}, target, dict(zip("nm", shape)))


def test_what_indices_are_loaded_from_becomes_one_loop() -> None:
    def kinds(x: te.Tensor, place: Callable[[te.Expr, te.Expr], tuple[te.Expr, te.Expr]]) -> int:
        table = te.placeholder((256, 50), "float32", "table")
        result = te.compute((8, 50), lambda i, j: table[place(i, j)])
        return len(loops_of(function_for([x, table], [result], "llvm -mcpu=x86-64")))

    both, rows = te.placeholder((8, 50), "uint8"), te.placeholder((8,), "uint8")
    assert kinds(both, lambda i, j: (te.cast(both[i, j], "int64"), te.const(0))) == 1
    assert kinds(rows, lambda i, j: (te.cast(rows[i], "int64"), j)) == 2


def test_copies_of_whole_vectors_are_not_interleaved() -> None:
    """LLVM 22 fails at level 0 on what interleaves eight broadcast elements: this is one load and one store."""
    x = te.placeholder((8,), "float32", "x")
    function = function_for([x], [te.compute((14, 8), lambda o, i: x[i])], "llvm -mcpu=x86-64-v3")
    (stored,) = [s for s in visit.statements(function.body) if isinstance(s, S.Store)]
    assert isinstance(stored.value, E.Load) and stored.value.index.lanes == 8


@TARGETS
@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 1), (3, 0), (0, 20), (17, 40), (200, 1)])
@pytest.mark.parametrize("length", [1, 30, 100])
def test_the_interior_of_padding(target: str, before: int, after: int, length: int) -> None:
    a = normal(4, length)
    x = placeholder(a)

    def body(r: te.Expr, i: te.Expr) -> te.Expr:
        row, column = r - 1, i - before
        inside = te.logical_and(te.logical_and(row >= 0, row < 4), te.logical_and(column >= 0, column < length))
        return te.select(inside, x[te.clamp(row, te.const(4)), te.clamp(column, te.const(length))], te.const(7.0, "float32"))

    check([te.compute((6, before + length + after), body)], {x: a}, target)


def test_whole_vectors_inside_of_padding_have_no_mask() -> None:
    x = te.placeholder((1000,), "float32", "x")

    def body(i: te.Expr) -> te.Expr:
        inside = te.logical_and(i - 1 >= 0, i - 1 < 1000)
        return te.select(inside, x[te.clamp(i - 1, te.const(1000))], te.const(0.0, "float32"))

    function = function_for([x], [te.compute((1002,), body)], "llvm -mcpu=x86-64-v3")
    loops = [s for s in visit.statements(function.body) if isinstance(s, S.For)]
    inner = [s for loop_ in loops for s in visit.statements(loop_.body) if isinstance(s, S.Store)]
    assert inner and not any(isinstance(s.value, E.Select) for s in inner)
