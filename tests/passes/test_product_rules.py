"""Contractions of one term become multiplications."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge import dims
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Module
from forge.ir.types import TensorType
from forge.passes import canonicalize
from tests.passes.checks import check


@pytest.mark.parametrize(("op", "shape", "weight", "options", "after"), [
    ("nn.conv2d", (2, 6, 5, 7), (6, 1, 1, 1), {"groups": 6}, ["multiply"]),
    ("nn.conv2d", (2, 6, 5, 7), (6, 1, 1, 1), {"groups": 6, "strides": (2, 3)}, ["strided_slice", "multiply"]),
    ("nn.conv2d", (2, 1, 5, 7), (9, 1, 1, 1), {"strides": (2, 2), "dilation": (3, 3)}, ["strided_slice", "multiply"]),
    ("nn.conv1d", (2, 1, 5), (9, 1, 1), {"strides": (2,)}, ["strided_slice", "multiply"]),
    ("nn.conv3d", (1, 3, 2, 4, 5), (3, 1, 1, 1, 1), {"groups": 3}, ["multiply"]),
    ("nn.conv2d", (2, 6, 5, 7), (6, 1, 1, 1), {"groups": 6, "padding": (0, 1, 0, 0)}, ["nn.conv2d"]),
    ("nn.conv2d", (2, 6, 5, 7), (12, 1, 1, 1), {"groups": 6}, ["nn.conv2d"]),
    ("nn.conv2d", (2, 6, 5, 7), (4, 6, 1, 1), {}, ["nn.conv2d"]),
    ("nn.conv2d", (2, 6, 5, 7), (6, 1, 1, 3), {"groups": 6}, ["nn.conv2d"]),
    ("nn.conv2d", ("n", 1, "h", 7), (9, 1, 1, 1), {}, ["multiply"]),
    ("nn.conv2d", ("n", 1, "h", 7), (9, 1, 1, 1), {"strides": (2, 2)}, ["nn.conv2d"]),
    ("nn.dense", (4, 3, 1), (5, 1), {}, ["multiply"]),
    ("nn.dense", (4, 3, 2), (5, 2), {}, ["nn.dense"]),
    ("nn.matmul", (4, 3, 1), (2, 1, 1, 5), {}, ["multiply"]),
    ("nn.matmul", (4, 1, 3), (5, 1), {"transpose_a": True, "transpose_b": True}, ["multiply"]),
    ("nn.matmul", (4, 1, 0), (5, 1), {"transpose_a": True, "transpose_b": True}, ["multiply"]),
    ("nn.matmul", (4, 1, 3), (0, 1), {"transpose_a": True, "transpose_b": True}, ["multiply"]),
    ("nn.matmul", (4, 1, 3), (3, 5), {}, ["nn.matmul"]),
    ("nn.batch_matmul", ("n", 3, 1), (1, 1, "n"), {}, ["multiply"]),
])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_contractions_of_one_term(
    op: str, shape: tuple[Any, ...], weight: tuple[Any, ...], options: dict[str, Any], after: list[str], dtype: str
) -> None:
    b = Builder()
    types = (TensorType(tuple(dims.symbol(d) if isinstance(d, str) else d for d in s), dtype) for s in (shape, weight))
    x, w = (b.input(type_, name) for type_, name in zip(types, "xw"))
    graph = b.output(b.call(op, x, w, **options))
    check(canonicalize.run, graph, symbols={"n": 3, "h": 4}, tolerance=1e-3 if dtype == "float16" else 1e-6)
    expected = after if dtype != "int32" else [op.replace("batch_matmul", "matmul")]
    assert [node.op for node in graph.nodes if node.op != "reshape"] == expected


@pytest.mark.parametrize(("dtype", "attributes", "value", "convolution", "padding"), [
    ("float32", {"pad_width": ((0, 0), (0, 0), (1, 2), (0, 3))}, 0, {}, (1, 0, 2, 3)),
    ("float32", {"pad_width": ((0, 0), (0, 0), (1, 2), (0, 3))}, None, {"padding": (1, 2), "strides": (2, 1)}, (2, 2, 3, 5)),
    ("float16", {"pad_width": ((0, 0), (1, 2), (0, 3), (0, 0))}, 0, {
        "data_layout": "NHWC", "kernel_layout": "HWIO", "padding": (1, 2, 3, 4)}, (2, 2, 5, 7)),
    ("float32", {"pad_width": ((0, 0), (1, 0), (1, 1), (0, 0))}, 0, {}, None),  # channels
    ("float32", {"pad_width": ((1, 0), (0, 0), (1, 1), (0, 0))}, 0, {}, None),  # images
    ("float32", {"pad_width": ((0, 0), (0, 0), (2, -1), (0, 0))}, 0, {}, None),
    ("float32", {"pad_width": ((0, 0), (0, 0), (2, 1), (0, 0))}, 1, {}, None),
    ("float32", {"pad_width": ((0, 0), (0, 0), (1, 1), (0, 0)), "pad_mode": "edge"}, None, {}, None),
    ("int32", {"pad_width": ((0, 0), (0, 0), (1, 1), (0, 0))}, 0, {}, None),
])
def test_padding_becomes_that_of_the_convolution(
    dtype: str, attributes: dict[str, Any], value: int | None, convolution: dict[str, Any], padding: tuple[int, ...] | None
) -> None:
    b = Builder()
    x = b.input(TensorType((dims.symbol("n"), 6, 7, 6), dtype), "x")
    given = () if value is None else (b.constant(np.array(value, dtype)),)
    padded = b.call("nn.pad", x, *given, **attributes)
    channels = padded.shape[3 if convolution.get("data_layout") == "NHWC" else 1]
    sizes = (3, 2, channels, 4) if "kernel_layout" in convolution else (4, channels, 3, 2)
    graph = b.output(b.call("nn.conv2d", padded, b.input(TensorType(sizes, dtype), "w"), **convolution))
    check(canonicalize.run, graph, symbols={"n": 2}, tolerance=1e-2 if dtype == "float16" else 1e-6)
    assert len(graph.select("nn.pad")) == (padding is None)
    assert padding is None or graph.select("nn.conv2d")[0].attrs.padding == padding


@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64", "llvm -mcpu=x86-64-v3", "llvm"])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (3, 4)])
def test_between_blocked_convolutions(strides: tuple[int, int], target: str) -> None:
    rng = np.random.default_rng(0)
    first, middle, last = (rng.standard_normal(s).astype(np.float32) for s in ((20, 3, 3, 3), (20, 1, 1, 1), (7, 20, 3, 3)))
    b = Builder()
    x = b.input(TensorType((1, 3, 19, 23), "float32"), "x")
    y = b.call("nn.relu", b.call("nn.conv2d", x, b.constant(first)))
    z = b.call("nn.relu", b.call("nn.conv2d", y, b.constant(middle), groups=20, strides=strides))
    module = Module(b.output(b.call("nn.conv2d", z, b.constant(last))))
    image = rng.standard_normal((1, 3, 19, 23)).astype(np.float32)
    plain, best = (compile_module(module, check_options(target, opt_level=k)).runtime()(image) for k in (0, 3))
    np.testing.assert_allclose(np.asarray(best), np.asarray(plain), rtol=1e-4, atol=1e-4)
