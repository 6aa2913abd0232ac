"""ONNX models with complex tensors, which the standard has for operators that move elements."""

from __future__ import annotations

import numpy as np
import pytest

from forge.driver import compile_module
from forge.frontends.onnx import import_model
from tests.frontends.onnx.support import evaluate, model

MOVES = """g (complex64[2,4] x, bool[2,6] m) => (complex64[2,6] y, complex64[2] z, int64[2] s) {
    c = Concat <axis=0> (x, k)
    t = Transpose <perm=[1,0]> (c)
    r = Reshape (t, shape)
    p = Identity (r)
    w = Where (m, r, one)
    y = Tile (w, times)
    z = Gather <axis=1> (p, place)
    s = Shape (r)
}"""


def given(count: int, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(count)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)


@pytest.mark.parametrize("compiled", [False, True])
def test_movement(compiled: bool) -> None:
    constant = given(1, 1, 4)
    proto = model(MOVES, k=constant, shape=np.array([2, 6]), one=np.array(1 - 2j, np.complex64), times=np.array([1, 1]),
                  place=np.array(3))
    x, mask = given(2, 2, 4), np.arange(12).reshape(2, 6) % 3 == 0
    rows = np.concatenate([x, constant]).T.reshape(2, 6)
    expected = [np.where(mask, rows, np.complex64(1 - 2j)), rows[:, 3], np.array([2, 6])]
    module = import_model(proto)
    results = compile_module(module, use_cache=False).runtime()(x, mask) if compiled else evaluate(module, x, mask)
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == wanted.dtype
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_symbolic_sizes_and_scatter(dtype: str) -> None:
    graph = f"""g ({dtype}[n,3] x, {dtype}[2,3] u) => ({dtype}[n,3] y, {dtype}[a,b] p) {{
        y = ScatterND (x, i, u)
        p = Pad (y, pads)
    }}"""
    proto = model(graph, i=np.array([[0], [2]]), pads=np.array([1, 0, 0, 2]))
    x, updates = (given(k, *shape).astype(dtype) for k, shape in ((3, (5, 3)), (4, (2, 3))))
    result, padded = compile_module(import_model(proto), use_cache=False).runtime()(x, updates)
    x[[0, 2]] = updates
    np.testing.assert_array_equal(result, x)
    np.testing.assert_array_equal(padded, np.pad(x, ((1, 0), (0, 2))))
