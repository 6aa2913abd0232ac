"""Operators that TensorFlow has no kernel for any more, beside what they are other names of, and those that draw numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import forge
from forge.frontends.tensorflow.registry import REGISTRY
from tests.frontends.tensorflow.writer import Graph

HOW = pytest.mark.parametrize("how", [("reference",), ()], ids=["reference", "compiled"])


def results(op: str, operands: list[np.ndarray | str], how: tuple[str, ...], outputs: int = 1,
            **attributes: Any) -> list[np.ndarray]:
    """What a node gives for operands; those whose values matter to its converter are constants."""
    graph = Graph()
    names, inputs = [], []
    for operand in operands:
        if isinstance(operand, str) or operand.dtype.kind in "iu" and operand.ndim < 2:
            names.append(graph.constant(np.asarray(operand)))
        else:
            names.append(graph.placeholder(str(operand.dtype), operand.shape))
            inputs.append(operand)
    graph.node(op, names, "node", **attributes)
    wanted = ["node", *(f"node:{k}" for k in range(1, outputs))]
    found: Any = forge.from_tensorflow(graph.data(), outputs=wanted).get_inference_function(*how)(*inputs)
    return [np.asarray(one) for one in (found if isinstance(found, list | tuple) else [found])]


def matrices(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)


GOOD = matrices(2, 3, 3) @ matrices(2, 3, 3).transpose(0, 2, 1) + np.eye(3, dtype=np.float32)


@HOW
@pytest.mark.parametrize(("old", "new", "operands"), [
    ("AccumulateNV2", "AddN", [matrices(2, 3), matrices(2, 3)]), ("BatchCholesky", "Cholesky", [GOOD]),
    ("BatchMatrixBandPart", "MatrixBandPart", [GOOD, np.array(1), np.array(0)]),
    ("BatchMatrixDeterminant", "MatrixDeterminant", [GOOD]), ("BatchMatrixInverse", "MatrixInverse", [GOOD]),
    ("BatchMatrixSolve", "MatrixSolve", [GOOD, matrices(2, 3, 2)]),
    ("BatchMatrixTriangularSolve", "MatrixTriangularSolve", [GOOD, matrices(2, 3, 2)]),
    *((op, "Identity", [matrices(2, 3)]) for op in (
        "DebugGradientIdentity", "DebugIdentity", "DebugIdentityV2", "DebugIdentityV3", "DeepCopy", "RefIdentity",
        "OptimizationBarrier", "XlaSharding", "_EagerConst")),
], ids=lambda value: value if isinstance(value, str) else "")
def test_other_names(how: tuple[str, ...], old: str, new: str, operands: list[np.ndarray]) -> None:
    for one, other in zip(results(old, operands, how), results(new, operands, how), strict=True):  # type: ignore[arg-type]
        np.testing.assert_array_equal(one, other)


@HOW
def test_top_k_of_a_number_that_is_known(how: tuple[str, ...]) -> None:
    x = np.array([[3, 1, 2], [5, 6, 6]], np.float32)
    values, places = results("TopK", [x], how, 2, k=2)
    np.testing.assert_array_equal(values, [[3, 2], [6, 6]])
    np.testing.assert_array_equal(places, np.array([[0, 2], [1, 2]], np.int32))


@HOW
def test_quantize_and_dequantize_of_known_ranges(how: tuple[str, ...]) -> None:
    (found,) = results("QuantizeAndDequantize", [np.array([-1, 0.1, 0.5, 3], np.float32)], how, range_given=True, input_min=-1.0,
                       input_max=127 / 128)
    np.testing.assert_array_equal(found, np.array([-128, 13, 64, 127], np.float32) / 128)


@HOW
def test_fused_depthwise_convolution(how: tuple[str, ...]) -> None:
    x, weight, bias = matrices(1, 5, 5, 3), matrices(3, 3, 3, 2), matrices(6)
    options: dict[str, Any] = {"strides": (1, 1, 1, 1), "padding": "SAME"}
    (plain,) = results("DepthwiseConv2dNative", [x, weight], how, **options)
    (found,) = results("_FusedDepthwiseConv2dNative", [x, weight, bias], how, fused_ops=("BiasAdd", "Relu"), **options)
    np.testing.assert_allclose(found, np.maximum(plain + bias, 0), rtol=1e-6, atol=1e-6)


SHAPE = np.array([50, 400], np.int32)


@HOW
@pytest.mark.parametrize(("op", "mean", "deviation", "bounds"), [
    ("RandomUniform", 0.5, 12**-0.5, (0, 1)), ("RandomStandardNormal", 0.0, 1.0, (-6, 6)),
    ("TruncatedNormal", 0.0, 0.8796, (-2, 2)),
])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_distributions(
    how: tuple[str, ...], op: str, mean: float, deviation: float, bounds: tuple[float, float], dtype: str
) -> None:
    (found,) = results(op, [SHAPE], how, dtype=dtype, seed=1, seed2=2)
    (other,) = results(op, [SHAPE], how, dtype=dtype, seed=1, seed2=3)
    assert found.shape == (50, 400) and found.dtype == dtype and (found != other).mean() > 0.9
    wide = found.astype(np.float64)
    assert abs(wide.mean() - mean) < 0.03 and abs(wide.std() - deviation) < 0.03
    assert bounds[0] <= wide.min() and wide.max() <= bounds[1]


@HOW
def test_random_integers(how: tuple[str, ...]) -> None:
    (found,) = results("RandomUniformInt", [SHAPE, np.array(-3, np.int32), np.array(5, np.int32)], how, seed=1)
    assert found.dtype == np.int32 and set(found.ravel().tolist()) == set(range(-3, 5))
    assert np.bincount(found.ravel() + 3).min() > 20000 / 8 * 0.9


@HOW
def test_shuffled(how: tuple[str, ...]) -> None:
    x = matrices(300, 2)
    (found,) = results("RandomShuffle", [x], how, seed=1)
    assert (found != x).any()
    np.testing.assert_array_equal(found[np.lexsort(found.T)], x[np.lexsort(x.T)])


@HOW
def test_multinomial(how: tuple[str, ...]) -> None:
    logits = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.9, 1e-9]], np.float32))
    (found,) = results("Multinomial", [logits, np.array(4000, np.int32)], how, seed=1, output_dtype="int32")
    shares = np.stack([np.bincount(one, minlength=3) for one in found]) / 4000
    np.testing.assert_allclose(shares, np.exp(logits), atol=0.04)


FIRST = {2: (0, 3, 1, 2), 3: (0, 4, 1, 2, 3)}
"""By the number of spatial axes: channels before them."""
LAYOUTS = [
    ("Conv2D", (2, 7, 8, 6), (3, 2, 3, 4), {"strides": (1, 1, 2, 1), "dilations": (1, 2, 1, 1), "padding": "SAME"}),
    ("Conv2D", (2, 7, 8, 3), (3, 2, 3, 4), {
        "strides": (1, 2, 1, 1), "padding": "EXPLICIT", "explicit_paddings": (0, 0, 1, 2, 0, 3, 0, 0)}),
    ("Conv3D", (1, 4, 5, 6, 2), (2, 3, 3, 2, 3), {"strides": (1, 1, 2, 1, 1), "padding": "SAME"}),
    ("DepthwiseConv2dNative", (2, 7, 8, 3), (3, 2, 3, 2), {"strides": (1, 2, 2, 1), "padding": "SAME"}),
    ("DepthwiseConv2dNative", (2, 9, 8, 3), (3, 3, 3, 1), {
        "strides": (1, 1, 1, 1), "dilations": (1, 2, 3, 1), "padding": "VALID"}),
    ("MaxPool", (2, 7, 8, 3), None, {"ksize": (1, 3, 2, 1), "strides": (1, 2, 1, 1), "padding": "SAME"}),
    ("AvgPool", (2, 7, 8, 3), None, {"ksize": (1, 3, 2, 1), "strides": (1, 2, 1, 1), "padding": "SAME"}),
    ("MaxPool3D", (1, 4, 5, 6, 2), None, {"ksize": (1, 2, 3, 2, 1), "strides": (1, 2, 1, 2, 1), "padding": "VALID"}),
    ("AvgPool3D", (1, 4, 5, 6, 2), None, {"ksize": (1, 2, 3, 2, 1), "strides": (1, 2, 1, 2, 1), "padding": "SAME"}),
]


@HOW
@pytest.mark.parametrize("op, shape, kernel, attributes", LAYOUTS)
def test_channels_first(
    how: tuple[str, ...], op: str, shape: tuple[int, ...], kernel: tuple[int, ...] | None, attributes: dict[str, Any]
) -> None:
    """TensorFlow has no kernels for CPUs of this layout: the results are those of the other one."""
    order = FIRST[len(shape) - 2]
    letters = "DHW"[5 - len(shape) :]
    moved = {name: _by_axis(value, order) if isinstance(value, tuple) else value for name, value in attributes.items()}
    x, weights = matrices(*shape), [] if kernel is None else [matrices(*kernel)]
    (last,) = results(op, [x, *weights], how, data_format=f"N{letters}C", **attributes)
    (first,) = results(op, [np.transpose(x, order), *weights], how, data_format=f"NC{letters}", **moved)
    np.testing.assert_allclose(first, np.transpose(last, order), atol=1e-5)


def _by_axis(numbers: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of axes, one or two for each, in another order of these."""
    each = len(numbers) // len(order)
    return tuple(numbers[each * axis + k] for axis in order for k in range(each))


@HOW
def test_dilated_depthwise_convolution(how: tuple[str, ...]) -> None:
    """TensorFlow has no kernel for it: a kernel with zeros between its taps gives the same."""
    x, weight = matrices(2, 9, 8, 3), matrices(3, 2, 3, 2)
    wide = np.zeros((5, 4, 3, 2), np.float32)
    wide[::2, ::3] = weight
    (found,) = results("DepthwiseConv2dNative", [x, weight], how, strides=(1, 1, 1, 1), dilations=(1, 2, 3, 1), padding="VALID")
    (wanted,) = results("DepthwiseConv2dNative", [x, wide], how, strides=(1, 1, 1, 1), padding="VALID")
    np.testing.assert_allclose(found, wanted, atol=1e-5)


SEED = np.array([7, -12345678901])
BOUNDS = (np.array(-3), np.array(1000))


@HOW
@pytest.mark.parametrize(("op", "dtype"), [
    ("StatelessRandomUniform", "float32"), ("StatelessRandomUniform", "float64"), ("StatelessRandomNormal", "float32"),
    ("StatelessRandomUniformInt", "int64"), ("StatelessRandomUniformFullInt", "int32"),
])
def test_random_numbers_of_open_sizes(how: tuple[str, ...], op: str, dtype: str) -> None:
    """They are those of the same sizes when these are known, which are TensorFlow's own (``cases/random.py``)."""
    bounds = BOUNDS if op == "StatelessRandomUniformInt" else ()
    graph = Graph()
    shape = graph.node("Shape", [graph.placeholder("float32", [-1, 3])], "shape", T="float32", out_type="int32")
    graph.node(op, [shape, *map(graph.constant, (SEED, *bounds))], "node", dtype=dtype)
    run = forge.from_tensorflow(graph.data(), outputs=["node"]).get_inference_function(*how)
    for size in (1, 5, 4, 0):
        (wanted,) = results(op, [np.array([size, 3], np.int32), SEED, *bounds], how, dtype=dtype)
        found = np.asarray(run(np.zeros((size, 3), np.float32)))
        # Logarithms and sines of other vectors are rounded otherwise.
        tolerance = 1e-6 if op == "StatelessRandomNormal" else 0
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance, strict=True)


@pytest.mark.parametrize("op", ["DecodeJpeg", "RegexReplace", "XlaDot", "PyFunc", "StatelessTruncatedNormal", "_MklConv2D"])
def test_refused_by_name(op: str) -> None:
    graph = Graph()
    graph.node(op, [graph.placeholder("float32", [1])], "node")
    with pytest.raises(forge.OpNotImplemented, match=f"tensorflow.{op}.*\n*.*{REGISTRY.refusal('', op)[:20]}"):
        forge.from_tensorflow(graph.data())


@pytest.mark.parametrize("op, attributes", [
    ("AudioSpectrogram", {"window_size": 1 << 30, "stride": 1}), ("AudioSpectrogram", {"window_size": 4, "stride": 0}),
    ("Mfcc", {"filterbank_channel_count": 1 << 30}), ("Mfcc", {"dct_coefficient_count": 1 << 30}),
    ("Mfcc", {"upper_frequency_limit": float("inf")}), ("Mfcc", {"upper_frequency_limit": 10.0}),
])
def test_sizes_of_spectra_are_checked(op: str, attributes: dict[str, Any]) -> None:
    shape = (100, 1) if op == "AudioSpectrogram" else (1, 5, 65)
    operands: list[np.ndarray | str] = [matrices(*shape)] if op == "AudioSpectrogram" else [
        matrices(*shape), np.array(16000, np.int32)]
    with pytest.raises(forge.ForgeError, match="; expected"):
        results(op, operands, (), **attributes)
