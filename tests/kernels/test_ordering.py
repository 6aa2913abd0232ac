"""The first k of rows of any length and contents, against a stable sort; rows in lexicographic order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from forge import dims
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.types import TensorType
from forge.ops.sort.sort import stable_order
from tests import guard
from tests.schedule.support import TARGETS

RNG = np.random.default_rng(0)
WILD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -np.nan], np.float32)


def clustered(n: int) -> np.ndarray:
    """The largest ones are all in a few groups of elements that lie a power of two apart."""
    x = RNG.normal(size=n)
    x[::128] += 100
    return x


CONTENTS: dict[str, Callable[[int], np.ndarray]] = {
    "normal": lambda n: RNG.normal(size=n),
    "ties": lambda n: RNG.integers(-2, 3, n),
    "equal": np.zeros,
    "rising": np.arange,
    "falling": lambda n: np.arange(n)[::-1],
    "wild": lambda n: RNG.choice(WILD, n),
    "mostly wild": lambda n: np.where(RNG.random(n) < 0.9, np.nan, RNG.normal(size=n)),
    "clustered": clustered,
}


def first(dtype: str, rows: dims.Dim, length: dims.Dim, k: int, ascending: bool, axis: int) -> Graph:
    builder = Builder()
    shape = (rows, length) if axis == 1 else (length, rows)
    values = builder.call_multi("topk", builder.input(TensorType(shape, dtype), "x"), k=k, is_ascend=ascending, axis=axis)
    return builder.output(*values)


def check(graph: Graph, target: str, arrays: list[np.ndarray], k: int, ascending: bool, axis: int) -> None:
    compiled = compile_module(Module(graph), check_options(target), use_cache=False)
    for x in arrays:
        order = np.take(stable_order(x, axis, ascending), np.arange(k), axis=axis)
        values, positions = guard.run(compiled, graph, [x])
        np.testing.assert_array_equal(positions, order)
        np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis))


@TARGETS
@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize("k", [1, 5, 43, 100])
def test_contents_of_long_rows(target: str, k: int, ascending: bool) -> None:
    graph = first("float32", 2, 2053, k, ascending, 1)
    rows = [np.stack([make(2053), make(2053)]).astype(np.float32) for make in CONTENTS.values()]
    check(graph, target, rows, k, ascending, 1)


@TARGETS
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("k", [1, 43, 86])
def test_lengths_known_at_run_time_only(target: str, k: int, axis: int) -> None:
    graph = first("float32", dims.symbol("rows"), dims.symbol("length"), k, False, axis)
    arrays = [RNG.normal(size=(3, n)).round(1).astype(np.float32) for n in (k, k + 1, 127, 128, 129, 256, 257, 1009, 4097)]
    arrays = [a if axis == 1 else np.ascontiguousarray(a.T) for a in [*arrays, np.zeros((0, 300), np.float32)]]
    check(graph, target, arrays, k, False, axis)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "float16", "float64"])
def test_element_types(dtype: str) -> None:
    graph = first(dtype, 2, 1009, 70, False, 1)
    if dtype.startswith("float"):
        x = RNG.normal(size=(2, 1009)).astype(dtype)
    else:
        x = RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (2, 1009), dtype, endpoint=True)
    check(graph, "llvm -mcpu=x86-64-v3", [x, np.full_like(x, x.min()), np.full_like(x, x.max())], 70, False, 1)


@pytest.mark.parametrize("length", [1, 33, 65, 128, 129, 257, 4096, 8400, 16384, 16385])
def test_whole_rows_of_lengths_known_at_run_time_only(length: int) -> None:
    builder = Builder()
    order = builder.call("argsort", builder.input(TensorType((dims.symbol("n"),), "float32"), "x"), axis=0)
    graph = builder.output(order)
    compiled = compile_module(Module(graph), check_options("llvm"), use_cache=False)
    x = RNG.normal(size=length).round(2).astype(np.float32)
    (got,) = guard.run(compiled, graph, [x])
    np.testing.assert_array_equal(got, np.argsort(x, kind="stable"))


@TARGETS
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "float16"])
def test_rows_in_lexicographic_order(target: str, dtype: str) -> None:
    builder = Builder()
    rows = builder.input(TensorType((dims.symbol("rows"), dims.symbol("columns")), dtype), "x")
    graph = builder.output(builder.call("argsort_rows", rows))
    compiled = compile_module(Module(graph), check_options(target), use_cache=False)
    for shape in ((1, 9), (50, 1), (33, 7), (40, 16), (29, 67), (3, 0), (0, 3)):
        x = RNG.integers(0, 2, shape).astype(dtype)
        x[:, : shape[1] // 2] = 1  # equal in front, so that columns after it decide
        if dtype.startswith("float") and shape[0] > 20:
            x[::3, shape[1] // 3] = np.nan
            x[1::3, -1] = -0.0
        (order,) = guard.run(compiled, graph, [x])
        np.testing.assert_array_equal(order, np.lexsort(x.T[::-1]) if shape[1] else np.arange(shape[0]))
