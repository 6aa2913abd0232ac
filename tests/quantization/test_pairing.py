"""Layers of a quantized model next to those of the float one."""

from __future__ import annotations

import numpy as np

from forge.ir.builder import Builder
from forge.ir.interp import run_graph
from forge.ir.types import TensorType
from forge.quantization.places.pairing import constant_of, pairs_of, rounded, value_name
from tests.quantization.nets import record


def test_pairs_have_the_weights_of_both() -> None:
    made = record(exclude="fc")
    pairs = pairs_of(made.real, made.module)
    assert [pair.number for pair in pairs] == [0, 1] and [pair.name for pair in pairs] == ["conv0", "conv1"]
    for pair in pairs:
        assert pair.weight is not None and pair.rounded_weight is not None
        step = np.abs(pair.weight).max() / 127
        lost = np.abs(pair.rounded_weight - pair.weight).max()
        assert 0.4 * step < lost < 3 * step
        assert [v.producer.op for v in pair.results if v.producer is not None] == ["nn.bias_add"] * 2


def test_constants_are_found_behind_conversions() -> None:
    b = Builder()
    codes, scale = np.array([-3, 0, 5], np.int8), np.float32(0.5)
    value = b.call("qnn.dequantize", b.constant(codes), b.constant(scale))
    x = b.input(TensorType((3,), "float32"), "x")
    np.testing.assert_array_equal(constant_of(value), [-1.5, 0, 2.5])
    assert constant_of(x) is None and constant_of(b.call("negative", value)) is None
    assert value_name(x) == "x"


def test_data_are_rounded_as_the_layer_does() -> None:
    made = record()
    pair = pairs_of(made.real, made.module)[0]
    b = Builder()
    x = b.input(TensorType((1, 3, 8, 8), "float32"), "x")
    graph = b.output(rounded(b, pair, 0, x))
    data = np.random.default_rng(3).uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)
    (found,) = run_graph(graph, [data])
    dequantize = pair.quantized.operands[0].producer  # type: ignore[union-attr]
    scale = float(dequantize.operands[1].constant)  # type: ignore[union-attr, arg-type]
    zero = 0 if len(dequantize.operands) < 3 else int(dequantize.operands[2].constant)  # type: ignore[union-attr, arg-type]
    expected = (np.clip(np.rint(data / np.float32(scale)) + zero, -128, 127) - zero) * scale
    np.testing.assert_allclose(found, expected, rtol=1e-5)
