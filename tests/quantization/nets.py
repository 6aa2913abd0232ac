"""Small models with weights whose channels differ, and their samples."""

from __future__ import annotations

import numpy as np

import forge
from forge.ir import Builder, Module, TensorType
from forge.ir.nodes import Value
from forge.options import CompileOptions
from forge.quantization.chosen.scheme import QuantizationScheme
from forge.quantization.quantize import QuantizedModule, quantize

SIZE, WIDTH = 8, 8
OPTIONS = CompileOptions()
SCHEMES = {"static": {}, "dynamic": {"quant_type": "dynamic"}, "unsigned": {"activation_dtype": "uint8", "per_channel": True},
           "plain": {"bias_correction": False, "calib_method": "minmax"}}
NEAR = 0.3
"""dB: results next to ties are rounded to other codes."""


def small_net(convolutions: int = 2, name: str = "conv") -> forge.IRModule:
    """Convolutions with biases, a mean, and a dense layer."""
    rng = np.random.default_rng(0)
    b = Builder()
    value = b.input(TensorType((1, 3, SIZE, SIZE), "float32"), "x")
    for k in range(convolutions):
        value = _convolution(b, value, rng, f"{name}{k}")
    flat = b.call("reshape", b.call("mean", value, axis=(2, 3)), newshape=(1, WIDTH))
    weight, bias = (b.constant(rng.standard_normal(shape).astype(np.float32)) for shape in ((10, WIDTH), (10,)))
    product = b.call("nn.dense", flat, weight, units=10, name="fc")
    return forge.IRModule(Module(b.output(b.call("add", product, bias, name="out"))))


def _convolution(b: Builder, value: Value, rng: np.random.Generator, name: str) -> Value:
    depth = int(value.shape[1])
    spread = rng.lognormal(0, 1, (WIDTH, 1, 1, 1)) / np.sqrt(9 * depth)
    weight = (rng.standard_normal((WIDTH, depth, 3, 3)) * spread).astype(np.float32)
    product = b.call("nn.conv2d", value, b.constant(weight), channels=WIDTH, kernel_size=(3, 3), padding=(1, 1), name=name)
    return b.call("nn.relu", b.call("nn.bias_add", product, b.constant(rng.standard_normal(WIDTH).astype(np.float32)), axis=1))


def samples(count: int = 4) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((count, 1, 3, SIZE, SIZE)).astype(np.float32)


def record(ir: forge.IRModule | None = None, **arguments: object) -> QuantizedModule:
    """What ``quantize`` would keep of a calibrated module."""
    ir = small_net() if ir is None else ir
    ir.calibrate(samples())
    scheme = QuantizationScheme.of(**arguments)
    return quantize(ir.mod, scheme, OPTIONS)
