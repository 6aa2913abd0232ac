"""Kernels that work row by row, where memory holds rows in blocks: normalization and softmax after blocked convolutions."""

from __future__ import annotations

import numpy as np
import pytest

from forge import dtypes
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.types import TensorType
from tests.schedule.support import TARGETS


def graph(op: str, channels: int, block: int, dtype: str, back: bool) -> Graph:
    """Rows of channels out of a blocked layout, and back into it."""
    b = Builder()
    x = b.input(TensorType((2, -(-channels // block), 5, 7, block), dtype), "x")
    planes = b.call("layout_transform", x, src_layout=f"NCHW{block}c", dst_layout="NCHW", channels=channels)
    y = b.call("transpose", planes, axes=(0, 2, 3, 1))
    if op == "nn.softmax":
        y = b.call(op, y, axis=-1)
    else:
        rng = np.random.default_rng(channels)
        parameters = [b.constant(rng.standard_normal(channels).astype(np.float32)) for _ in range(2)]
        y = b.call("cast", b.call("nn.layer_norm", b.call("cast", y, dtype="float32"), *parameters), dtype=dtype)
    if back:
        y = b.call("layout_transform", b.call("transpose", y, axes=(0, 3, 1, 2)), src_layout="NCHW", dst_layout=f"NCHW{block}c")
    return b.output(y)


@TARGETS
@pytest.mark.parametrize("op", ["nn.softmax", "nn.layer_norm"])
@pytest.mark.parametrize(("channels", "block"), [(48, 16), (208, 16), (40, 16), (24, 8), (24, 4), (5008, 16), (16, 16)])
@pytest.mark.parametrize(("dtype", "back"), [("float32", False), ("float32", True), ("bfloat16", False)])
def test_rows_in_blocks(target: str, op: str, channels: int, block: int, dtype: str, back: bool) -> None:
    module = Module(graph(op, channels, block, dtype, back))
    rng = np.random.default_rng(3)
    (value,) = module.main.inputs
    x = (rng.standard_normal(value.shape) * 3 + 1).astype(dtypes.numpy_dtype(dtype))
    (want,) = run_graph(module.main, [x])
    got = np.asarray(compile_module(module, check_options(target, opt_level=3)).runtime()(x))
    tolerance = 2e-5 if dtype == "float32" else 2**-7
    np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=tolerance, atol=tolerance)
