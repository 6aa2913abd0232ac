"""Weights of few bits, which tile registers multiply by more than one row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from forge import dtypes
from forge.driver import check_options
from forge.driver.compiler import compile_module
from forge.ir.graph import Module
from forge.ir.interp import run_graph
from forge.kernels.layouts import CpuLayouts
from forge.ops.packed.blocks import DenseBlocksAttrs, packed_codes, plain_rows, plain_weight
from forge.target import Target
from forge.tir import expr as E
from forge.tir import interpret
from tests.codegen.compiled import build
from tests.kernels.case import Case, Spec
from tests.kernels.emulated_tiles import EMULATED, without
from tests.kernels.in_tiles import expect, targets
from tests.kernels.support import run
from tests.kernels.test_dense_blocks import in_panels
from tests.passes.test_pack_blocks import product

pytestmark = pytest.mark.usefixtures("products")
RNG = np.random.default_rng(29)
TARGETS = targets("bfloat16")
SIZES = [(1, 64, 100, 32), (2, 64, 17, 16), (16, 128, 32, 64), (17, 256, 45, 128), (33, 96, 100, 48), (300, 1120, 40, 32),
         (3, 12544, 17, 12544)]
"""Rows, depth, units and the size of a block."""
CODES = [(2, True), (4, False), (4, True), (8, False), (8, True)]
"""Bits, and whether there are zero points."""


class Problem:
    """Random data and ``count`` weights, of which ``index`` chooses one for each row (None: there is one)."""

    def __init__(self, dtype: str, size: tuple[int, int, int, int], code: tuple[int, bool], target: str,
                 index: Sequence[int] | None = None, count: int = 3) -> None:
        (rows, depth, units, block), (bits, zeros) = size, code
        panel, lead = CpuLayouts(Target.parse(target)).blocks_panel(units), () if index is None else (count,)
        self.attrs, self.index, quantized = DenseBlocksAttrs(units, bits, block), index, dtype == "int8"
        self.data = RNG.integers(-127, 128, (rows, depth)).astype(np.int8) if quantized else RNG.standard_normal((rows, depth))
        self.data = self.data.astype(dtypes.numpy_dtype(dtype))
        self.steps = RNG.uniform(0.01, 0.1, (rows, depth // block)).astype(np.float32) if quantized else None
        parts = list[list[np.ndarray]]()
        for _ in range(count if lead else 1):
            codes, zero = (RNG.integers(0, 1 << bits, (units, n), np.uint8) for n in (depth, depth // block))
            scale = RNG.uniform(0.01, 0.1, (units, depth // block)).astype(np.float32)
            parameters = [in_panels(v, panel) for v in (scale, zero)[: 1 + zeros]]
            parts.append([packed_codes(codes, bits, panel), *parameters])
        self.weights = [[*part, *[None] * (3 - len(part))] for part in parts]
        held = [np.stack(part) if lead else part[0] for part in zip(*parts)]
        chosen = [] if index is None else [np.array(index, np.int64)]
        self.operands = [v for v in (self.data, self.steps, *held) if v is not None] + chosen
        specs = [None if v is None else Spec(v.shape, dtypes.canonical(v.dtype))
                 for v in (self.data, self.steps, *held, *[None] * (3 - len(held)), *chosen)]
        family = "dense_blocks_pack" if index is None else "indexed_blocks_pack"
        self.case = Case(family, specs, Spec((rows, units)), vars(self.attrs))

    def run(self, target: str) -> np.ndarray:
        return run(self.case, self.operands, target)

    def check(self, found: np.ndarray) -> None:
        """Compares with exact sums, by the size of the products."""
        rows = plain_rows(self.attrs, self.data, self.steps).astype(np.float64)
        real = [plain_weight(self.attrs, *weight).astype(np.float64) for weight in self.weights]
        for row, value, k in zip(rows, found, [0] * len(rows) if self.index is None else self.index):
            weight = real[k] if 0 <= k < len(real) else np.zeros_like(real[0])
            assert np.all(np.abs(value - row @ weight) <= len(row) * 2.0**-23 * (np.abs(row) @ np.abs(weight)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("size", SIZES)
def test_integers(size: tuple[int, int, int, int], code: tuple[int, bool], target: str, products: Callable[[], int]) -> None:
    problem = Problem("int8", size, code, target)
    found = problem.run(target)
    expect(products, target, size[0] > 1)
    problem.check(found)
    np.testing.assert_array_equal(found, problem.run(without(target)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("size", SIZES)
def test_bfloat16(size: tuple[int, int, int, int], code: tuple[int, bool], target: str, products: Callable[[], int]) -> None:
    """Differences between codes and zero points are exact in bfloat16, so that results are as good as those of float32."""
    problem = Problem("bfloat16", size, code, target)
    problem.check(problem.run(target))
    expect(products, target, size[0] > 1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("dtype", "block"), [("float32", 32), ("int8", 8)])
def test_what_vectors_multiply(dtype: str, block: int, target: str, products: Callable[[], int]) -> None:
    """Numbers of float32, which stay as they are, and short blocks."""
    problem = Problem(dtype, (17, 64, 40, block), (4, True), target)
    np.testing.assert_array_equal(problem.run(target), problem.run(without(target)))
    expect(products, target, False)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
def test_any_number_of_rows(dtype: str, target: str, products: Callable[[], int]) -> None:
    """One row, whose products vectors add, and more."""
    whole = Problem(dtype, (300, 64, 45, 32), (4, True), target)
    known, count = whole.case, E.var("rows")
    specs = [replace(s, shape=(count, *s.shape[1:])) if k < 2 and s is not None else s for k, s in enumerate(known.operands)]
    case = replace(known, operands=specs, result=replace(known.result, shape=(count, whole.attrs.units)), symbols=(count,))
    kernels, counts = [build(case.function(t), t) for t in (target, without(target))], [products()]
    for rows in (1, 2, 16, 17, 33, 300):
        given = [np.ascontiguousarray(v[:rows]) if len(v) == 300 else v for v in whole.operands]
        results = np.full((2, rows, whole.attrs.units), np.nan, np.float32)
        for kernel, result in zip(kernels, results):
            kernel(*given, result, rows)
        counts.append(products())
        whole.check(results[0])
        if dtype == "int8" or rows == 1:
            np.testing.assert_array_equal(*results)
    assert EMULATED not in target or (np.diff(counts) > 0).tolist() == [False, True, True, True, True, True]


RUNS = {
    "one row": [1], "a row for each": [2, 0], "no weight": [-1, 3, 3], "sorted": [0] * 13 + [1] + [2] * 40,
    "several blocks of rows": [*RNG.integers(0, 3, 9), *[1] * 400, *RNG.integers(-1, 4, 50)],
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
@pytest.mark.parametrize("index", RUNS.values(), ids=RUNS)
def test_indexed(index: list[int], dtype: str, target: str, products: Callable[[], int]) -> None:
    """Runs of more than one row with the same index are in tile registers."""
    problem = Problem(dtype, (len(index), 64, 70, 32), (4, True), target, index)
    found = problem.run(target)
    expect(products, target, len(index) > 3)
    problem.check(found)
    if dtype == "int8":
        np.testing.assert_array_equal(found, problem.run(without(target)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
def test_interpreted(dtype: str, target: str) -> None:
    """No element outside of a buffer is read or written, and the loops mean what they should."""
    problem = Problem(dtype, (19, 64, 20, 16 if dtype == "int8" else 8), (4, True), target)
    meaning = np.zeros((19, 20), np.float32)
    interpret.run(problem.case.function(target), [*problem.operands, meaning])
    problem.check(meaning)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("options", [{"rounds": True, "zeros": True}, {"data": "bfloat16"}], ids=["int8", "bfloat16"])
def test_a_graph(options: dict[str, object], target: str, products: Callable[[], int]) -> None:
    graph = product(rows=(20,), **options)  # type: ignore[arg-type]
    x = RNG.standard_normal(graph.inputs[0].shape).astype(dtypes.numpy_dtype(graph.inputs[0].dtype))
    want = run_graph(graph, [x])[0].astype(np.float64)
    compiled = compile_module(Module(graph), check_options(target), use_cache=False)
    error = np.abs(np.asarray(compiled.runtime()(x)).astype(np.float64) - want).max()
    assert error <= (1e-5 if "rounds" in options else 2e-2) * np.abs(want).max()
    expect(products, target)
