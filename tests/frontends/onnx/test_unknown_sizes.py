"""Sizes that an operator needs to be equal and that only the run knows: they are taken for equal, and checked when it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import forge
from forge.errors import ForgeError, ImportModelError
from tests.frontends.onnx.support import assert_same, example, model, onnxruntime_outputs


def bytes_like(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 255, shape).astype(np.uint8)


def indices(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape) % 2


IMAGES = "float[n, c, h, w] x"
SCALES = {"s": np.abs(example(1, 3)) + 0.5}
Case = tuple[str, dict[str, Any], list[np.ndarray], list[np.ndarray]]
CASES: dict[str, Case] = {  # graph, weights, inputs that fit, inputs that do not
    "Conv": (
        f"g ({IMAGES}) => (float[n, m, a, b] y) {{ y = Conv(x, w, b) }}", {"w": example(1, 4, 3, 3, 3), "b": example(2, 4)},
        [example(0, 2, 3, 5, 5)], [example(0, 2, 4, 5, 5)],
    ),
    "Conv of one channel": (
        f"g ({IMAGES}) => (float[n, m, a, b] y) {{ y = Conv(x, w) }}", {"w": example(1, 4, 3, 3, 3)},
        [example(0, 2, 3, 5, 5)], [example(0, 2, 1, 5, 5)],
    ),
    "Conv in groups": (
        f"g ({IMAGES}) => (float[n, m, a, b] y) {{ y = Conv<group = 2>(x, w) }}", {"w": example(1, 4, 3, 3, 3)},
        [example(0, 2, 6, 5, 5)], [example(0, 2, 3, 5, 5)],
    ),
    "Conv after Reshape": (
        "g (float[n, k] x, int64[4] s) => (float[n, m, a, b] y) { r = Reshape(x, s)  y = Conv(r, w) }",
        {"w": example(1, 4, 3, 3, 3)}, [example(0, 2, 75), np.array([2, 3, 5, 5])], [example(0, 2, 75), np.array([2, 5, 5, 3])],
    ),
    "ConvTranspose": (
        f"g ({IMAGES}) => (float[n, m, a, b] y) {{ y = ConvTranspose(x, w, b) }}",
        {"w": example(1, 3, 4, 3, 3), "b": example(2, 4)}, [example(0, 1, 3, 4, 4)], [example(0, 1, 2, 4, 4)],
    ),
    "QLinearConv": (
        "g (uint8[n, c, h, w] x) => (uint8[n, m, a, b] y) { y = QLinearConv(x, s, z, w, s, z, s, z) }",
        {"w": bytes_like(1, 4, 3, 3, 3), "s": np.float32(0.1), "z": np.uint8(3)}, [bytes_like(0, 1, 3, 4, 4)],
        [bytes_like(0, 1, 4, 4, 4)],
    ),
    "LSTM": (
        "g (float[s, b, f] x) => (float[s, d, b, h] y) { y, h, c = LSTM<hidden_size = 2>(x, w, r) }",
        {"w": example(1, 1, 8, 3), "r": example(2, 1, 8, 2)}, [example(0, 4, 2, 3)], [example(0, 4, 2, 5)],
    ),
    "LSTM with a state": (
        "g (float[s, b, 3] x, float[d, q, e] h0) => (float[s, d, b, h] y) { y, h, c = LSTM<hidden_size = 2>(x, w, r, , , h0) }",
        {"w": example(1, 1, 8, 3), "r": example(2, 1, 8, 2)}, [example(0, 4, 2, 3), example(3, 1, 2, 2)],
        [example(0, 4, 2, 3), example(3, 1, 3, 2)],
    ),
    "GRU": (
        "g (float[s, b, f] x) => (float[s, d, b, h] y) { y, h = GRU<hidden_size = 2>(x, w, r) }",
        {"w": example(1, 1, 6, 3), "r": example(2, 1, 6, 2)}, [example(0, 4, 2, 3)], [example(0, 4, 2, 2)],
    ),
    "RNN": (
        "g (float[s, b, f] x) => (float[s, d, b, h] y) { y, h = RNN<hidden_size = 2>(x, w, r) }",
        {"w": example(1, 1, 2, 3), "r": example(2, 1, 2, 2)}, [example(0, 4, 2, 3)], [example(0, 4, 2, 1)],
    ),
    "Col2Im": (
        "g (float[n, c, l] x) => (float[n, m, a, b] y) { y = Col2Im(x, s, k) }", {"s": np.array([4, 4]), "k": np.array([2, 2])},
        [example(0, 1, 8, 9)], [example(0, 1, 8, 8)],
    ),
    "ScatterElements": (
        "g (float[n, c] x, int64[k, l] i, float[p, q] u) => (float[n, c] y) { y = ScatterElements<axis = 1>(x, i, u) }", {},
        [example(0, 3, 4), indices(3, 1), example(1, 3, 1)], [example(0, 3, 4), indices(3, 1), example(1, 3, 2)],
    ),
    "ScatterND": (
        "g (float[n, c] x, int64[k, 1] i, float[p, q] u) => (float[n, c] y) { y = ScatterND(x, i, u) }", {},
        [example(0, 3, 4), indices(2, 1), example(1, 2, 4)], [example(0, 3, 4), indices(2, 1), example(1, 2, 3)],
    ),
    "BatchNormalization": (
        "g (float[n, c, h] x) => (float[n, c, h] y) { y = BatchNormalization(x, s, s, s, s) }", SCALES,
        [example(0, 2, 3, 4)], [example(0, 2, 4, 4)],
    ),
    "InstanceNormalization": (
        "g (float[n, c, h] x) => (float[n, c, h] y) { y = InstanceNormalization(x, s, s) }", SCALES,
        [example(0, 2, 3, 4)], [example(0, 2, 4, 4)],
    ),
    "GroupNormalization": (
        "g (float[n, c, h] x) => (float[n, c, h] y) { y = GroupNormalization<num_groups = 3>(x, s, s) }", SCALES,
        [example(0, 2, 3, 4)], [example(0, 2, 6, 4)],
    ),
    "QuantizeLinear": (
        "g (float[n, c] x) => (uint8[n, c] y) { y = QuantizeLinear<axis = 1>(x, s, z) }",
        {**SCALES, "z": np.array([1, 2, 3], np.uint8)}, [example(0, 2, 3)], [example(0, 2, 4)],
    ),
    "MatMul": (
        "g (float[n, c] x) => (float[n, m] y) { y = MatMul(x, w) }", {"w": example(1, 3, 4)},
        [example(0, 2, 3)], [example(0, 2, 1)],
    ),
    "Concat": (
        "g (float[n, c] x) => (float[m, 3] y) { y = Concat<axis = 0>(x, w) }", {"w": example(1, 2, 3)},
        [example(0, 2, 3)], [example(0, 2, 1)],
    ),
    "Einsum": (
        'g (float[n, c] x, float[d, m] z) => (float[n, m] y) { y = Einsum<equation = "ij,jk->ik">(x, z) }', {},
        [example(0, 2, 3), example(1, 3, 2)], [example(0, 2, 3), example(1, 4, 2)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_sizes_that_must_be_equal_are_checked_at_run_time(name: str) -> None:
    text, weights, fitting, others = CASES[name]
    proto = model(text, **weights)
    ir = forge.from_onnx(proto)
    (expected,) = onnxruntime_outputs(proto, *fitting)
    for run in (ir.get_inference_function(), ir.get_inference_function("reference")):
        np.testing.assert_allclose(run(*fitting), expected, rtol=1e-4, atol=1e-4)
        with pytest.raises((ForgeError, ValueError)):  # the latter by NumPy, where the interpreter asks it
            run(*others)


def test_the_error_names_node_and_sizes() -> None:
    text, weights, _, others = CASES["Conv"]
    function = forge.from_onnx(model(text, **weights)).get_inference_function()
    with pytest.raises(ForgeError, match=r"node Conv_0 \(broadcast_to\): a dimension c is not 3"):
        function(*others)


def test_sizes_that_certainly_differ_are_refused_when_importing() -> None:
    text, weights, _, _ = CASES["Conv"]
    with pytest.raises(ImportModelError, match=r"Conv_0.*channels of data .*; got 4; expected 3"):
        forge.from_onnx(model(text, **weights), shape={"x": (None, 4, None, None)})


@pytest.mark.parametrize(("declared", "shape", "rank"), [
    ("", (1, 1, 1), 0),
    ("", (2, 1, 1), None),
    ("n, k", (1, 1, 5), 2),
    ("n, k", (2, 1, 5), 2),
])  # fmt: skip
def test_squeeze_without_axes_has_the_declared_rank(declared: str, shape: tuple[int, ...], rank: int | None) -> None:
    proto = model(f"g (float[n, 1, k] x) => (float[{declared}] y) {{ y = Squeeze(x) }}")
    if not declared:
        proto.graph.output[0].type.tensor_type.shape.SetInParent()
    call = forge.from_onnx(proto).get_inference_function()
    if rank is None:
        with pytest.raises(ForgeError, match=r"dimension n, which decides the rank of .*; expected 1 to 1"):
            call(example(0, *shape))
    else:
        assert np.asarray(call(example(0, *shape))).ndim == rank


def test_squeeze_without_axes_or_rank_fails_where_the_rank_would_depend_on_a_size() -> None:
    proto = model("g (float[n, 1, k] x) => (float y) { s = Squeeze(x)  y = ReduceSum<keepdims = 0>(s) }")
    call = forge.from_onnx(proto).get_inference_function()
    np.testing.assert_allclose(call(np.ones((2, 1, 3), np.float32)), 6)
    with pytest.raises(ForgeError, match=r"dimension n, which decides the rank of .*; expected 2 or more"):
        call(np.ones((1, 1, 3), np.float32))
    mixed = model("g (float[n, 1, k] x) => (float[m] y) { y = Squeeze(x) }")
    with pytest.raises(ForgeError, match="as many axes of symbolic size as become fewer"):
        forge.from_onnx(mixed)


@pytest.mark.parametrize("ascending", [0, 1])
@pytest.mark.parametrize(("sizes", "axis"), [("a, b, c", 0), ("a, b, c", 1), ("a, b, c", -1), ("6, 2, 40", 0), ("6, b, 40", -1)])
def test_the_number_of_different_slices_is_a_size(sizes: str, axis: int, ascending: int) -> None:
    proto = model(f"""
        g (float[{sizes}] x) => (float[k, l, m] z, int64[p] i, int64[q] j, int64[r] n, int64[3] s) {{
            y, i, j, n = Unique<axis = {axis}, sorted = {ascending}>(x)
            s = Shape(y)
            ones = ConstantOfShape<value = float[1] {{1.0}}>(s)
            z = Add(y, ones)
        }}""")
    x = np.round(example(3, 6, 2, 40) / 3).take(np.random.default_rng(0).integers(0, (6, 2, 40)[axis], (6, 2, 40)[axis]), axis)
    expected = onnxruntime_outputs(proto, x)
    ir = forge.from_onnx(proto)
    for run in (ir.get_inference_function(), ir.get_inference_function("reference")):
        assert_same(run(x), expected)
