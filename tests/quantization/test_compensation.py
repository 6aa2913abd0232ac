"""Weights that are rounded so that their errors make up for one another."""

from __future__ import annotations

import numpy as np
import pytest

import forge
from forge.driver.compilation import bind_params
from forge.ir.graph import Module
from forge.quantization.chosen.scheme import QuantizationScheme
from forge.quantization.observed import gram
from forge.quantization.places.layers import FloatLayer, layers_of
from forge.quantization.quantize import weight_of
from forge.quantization.weights.codes import QuantizedWeight
from forge.quantization.weights.compensation import compensated_weights
from forge.quantization.weights.rounding import energy
from tests.quantization.nets import OPTIONS

RNG = np.random.default_rng(0)
SMOOTH = np.cumsum(RNG.standard_normal((24, 1, 8, 12, 12)), axis=-1).astype(np.float32)
"""Neighbours are alike, as in images: what one column of a weight loses, others can make up for."""
FRESH = [{"x": x} for x in np.cumsum(RNG.standard_normal((16, 1, 8, 12, 12)), axis=-1).astype(np.float32)]
LAYERS = {
    "convolution": "nn.conv2d(%x, %w, padding=[1, 1])",
    "groups": "nn.conv2d(%x, %w, groups=2)",
    "transposed": "nn.matmul(reshape(%x, newshape=[-1, 12]), %w, transpose_b=True)",
    "product": "nn.matmul(reshape(%x, newshape=[-1, 12]), %w)",
    "dense": "nn.dense(reshape(%x, newshape=[-1, 12]), %w)",
}
SHAPES = {"convolution": (6, 8, 3, 3), "groups": (6, 4, 3, 3), "transposed": (6, 12), "product": (12, 6), "dense": (6, 12)}


def network(kind: str) -> forge.IRModule:
    shape = SHAPES[kind]
    text = f"def @main(%x: Tensor[(1, 8, 12, 12), float32], %w: Tensor[{shape}, float32]) {{ {LAYERS[kind]} }}"
    ir = forge.IRModule(text, {"w": np.random.default_rng(1).standard_normal(shape).astype(np.float32)})
    ir.calibrate(list(SMOOTH))
    return ir


def rounded(kind: str) -> tuple[Module, dict[FloatLayer, QuantizedWeight]]:
    """The module with its weight as a constant, and that to the nearest codes."""
    module = network(kind).mod.copy()
    bind_params(module.main)
    return module, {layer: weight_of(layer, QuantizationScheme()) for layer in layers_of(module.main)}


def by_row(layer: FloatLayer, array: np.ndarray) -> np.ndarray:
    assert layer.axis is not None
    return np.moveaxis(array, layer.axis, 0).reshape(array.shape[layer.axis], -1)


def results(ir: forge.IRModule) -> np.ndarray:
    run = ir.get_inference_function()
    return np.stack([run(sample) for sample in FRESH])


def loss(kind: str, options: dict[str, object]) -> list[float]:
    """Of the results on samples that calibration has not seen, by rounding to the nearest and with GPTQ."""
    real = network(kind)
    expected, found = results(real), []
    for gptq in (False, True):
        made = real.copy()
        made.quantize(gptq=gptq, check=False, bias_correction=False, **options)
        assert made.is_quantized
        found.append(float(np.square(results(made) - expected).sum()))
    return found


@pytest.mark.parametrize("options", [{}, {"per_channel": True}, {"kernel_dtype": "uint8"}, {"quant_type": "dynamic"}], ids=str)
@pytest.mark.parametrize("kind", [kind for kind in LAYERS if kind != "groups"])  # which have no kernel for integers
def test_results_are_nearer(kind: str, options: dict[str, object]) -> None:
    plain, better = loss(kind, options)
    assert better < 0.99 * plain


@pytest.mark.parametrize("kind", LAYERS)
def test_weights_lose_less(kind: str) -> None:
    """Steps stay, and codes are within three of the nearest ones'."""
    module, nearest = rounded(kind)
    told: list[tuple[str, int, int]] = []
    found = compensated_weights(module, nearest, [{"x": x} for x in SMOOTH], OPTIONS, lambda *step: told.append(step))
    assert told == [("round weights", 1, 1)]
    ((layer, better),) = found.items()
    plain = nearest[layer]
    assert better.scale is plain.scale and better.zero is plain.zero and better.codes.dtype == plain.codes.dtype
    assert np.abs(better.codes.astype(int) - plain.codes).max() in (1, 2, 3)
    assert np.abs(better.codes.astype(int)).max() <= 127
    matrices = gram.gram_matrices(module, [layer], FRESH, OPTIONS)[layer]
    losses = [energy(by_row(layer, w.real - np.asarray(layer.node.operands[1].constant)), matrices) for w in (plain, better)]
    assert losses[1] < 0.8 * losses[0]


@pytest.mark.parametrize("samples", [SMOOTH[:1], RNG.standard_normal(SMOOTH.shape).astype(np.float32)])
def test_weights_stay_nearest(samples: np.ndarray) -> None:
    """One sample leaves none to judge; and of white noise, columns cannot make up for one another."""
    module, nearest = rounded("dense")
    assert not compensated_weights(module, nearest, [{"x": x} for x in samples], OPTIONS)
