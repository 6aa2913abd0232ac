"""Quantized models as TensorRT takes them."""

from __future__ import annotations

import numpy as np
import pytest

from forge.errors import OptionError
from forge.ir.builder import Builder
from forge.ir.interp import run_graph
from forge.ir.types import TensorType
from forge.quantization.places.symmetric import check_symmetric, real_biases, scales_in, scales_of
from tests.quantization.nets import record, samples, small_net


def test_biases_become_real() -> None:
    module = record(symmetric=True, bias_correction=False).module
    (before,) = run_graph(module.main, [samples()[0]])
    assert real_biases(module.main) == 3
    assert not [n for n in module.main.nodes if n.op == "constant" and n.result.dtype == "int32" and n.result.rank == 1]
    np.testing.assert_allclose(run_graph(module.main, [samples()[0]])[0], before, rtol=1e-5)
    check_symmetric(module.main)


def test_zero_points_are_refused() -> None:
    with pytest.raises(OptionError, match=r"is_tensorrt: .* got quantized values of uint8"):
        check_symmetric(record(activation_dtype="uint8").module.main)


def test_scales_are_those_of_the_extremes() -> None:
    ir = small_net()
    ir.calibrate(samples())
    found = scales_of(ir.mod, "minmax")
    (x,) = ir.mod.main.inputs
    assert found[x] == pytest.approx(np.abs(samples()).max() / 127, rel=1e-5)


def test_moved_values_have_the_scale_of_their_source() -> None:
    b = Builder()
    x = b.input(TensorType((2, 3), "float32"), "x")
    scale = b.constant(np.float32(0.25))
    real = b.call("qnn.dequantize", b.call("qnn.quantize", x, scale, out_dtype="int8"), scale)
    moved = b.call("transpose", x, axes=(1, 0))
    graph = b.output(real, moved)
    found = scales_in(graph)
    assert found[x] == found[moved] == 0.25 and real not in found
