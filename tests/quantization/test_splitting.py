"""``IRModule.split_tensors``: equal results, smaller errors with one scale for a weight."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import forge
from forge.quantization.splitting import best_split, splits
from forge.quantization.weights import quantised_weight
from tests.quantization.models import Net, cnn


def conv_chain() -> forge.IRModule:
    """The first layer can make channels twice; a depthwise layer and pools are on their way."""
    net = Net(3, 8, 8)
    first = net.call("nn.relu", net.conv(net.x, 8))
    pooled = net.call("nn.max_pool2d", net.conv(first, 8, groups=8), pool_size=(2, 2), strides=(2, 2))
    return net.module(net.conv(pooled, 4, outliers=(1,)))


def dense_chain() -> forge.IRModule:
    net = Net(8)
    return net.module(net.dense(net.call("nn.relu", net.dense(net.x, 8)), 4, outliers=(3,)))


def of_input() -> forge.IRModule:
    """Nothing can make the channels of an input twice: they are copied."""
    net = Net(40, 6, 6)
    return net.module(net.conv(net.x, 4, outliers=(2,)))


NETS: dict[str, tuple[Callable[[], forge.IRModule], bool]] = {
    "convolutions": (conv_chain, False), "dense layers": (dense_chain, False), "input": (of_input, True)}


@pytest.mark.parametrize("name", NETS)
def test_results_are_equal_and_errors_smaller(name: str) -> None:
    make, copies = NETS[name]
    real, split = make(), make()
    split.split_tensors()
    assert ("take" in split.operators) == copies
    (shape,) = real.input_shapes
    assert shape is not None
    data = np.random.default_rng(3).standard_normal([64, *shape[1:]]).astype(np.float32)
    expected = real.get_inference_function("reference")(data)
    np.testing.assert_allclose(split.get_inference_function("reference")(data), expected, rtol=1e-4, atol=1e-5)
    errors = []
    for ir in (real, split):
        ir.quantize(calib_data=[data], equalize=False, bias_correction=False, check=False)
        errors.append(np.square(ir.get_inference_function("reference")(data) - expected).sum())
    assert errors[1] < errors[0]


def test_rounded_parts_add_up() -> None:
    """A split channel is rounded as finely as the others."""
    weight = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    weight[:, 2] *= 6
    found = best_split(weight, 1)
    assert found is not None
    split, left = found
    assert left < 0.5
    real = split.joined(quantised_weight(split.weight(weight, 1), 1, "int8", per_channel=False).real, 1)
    assert np.abs(real - weight).max() <= 0.51 * split.step
    np.testing.assert_allclose(split.joined(split.weight(weight, 1), 1), weight, atol=1e-6)
    assert len(list(splits(weight, 1))) == 1


def test_what_has_no_outliers_stays() -> None:
    ir = cnn()
    before = ir.operators
    ir.split_tensors()
    assert ir.operators == before
    assert ir.is_split_tensors


def test_the_mark_is_kept(tmp_path: Path) -> None:
    ir = conv_chain()
    ir.split_tensors()
    ir.save(tmp_path / "m.forge")
    assert ir.copy().is_split_tensors
    assert forge.load(tmp_path / "m.forge").is_split_tensors
    ir.reload()
    assert not ir.is_split_tensors


def test_refusals() -> None:
    ir = dense_chain()
    with pytest.raises(ValueError, match="force: got 1"):
        ir.split_tensors(force=1)  # type: ignore[arg-type]
    ir.calibrate([np.ones((2, 8), np.float32)])
    with pytest.raises(ValueError, match=r"is calibrated.*force=True"):
        ir.split_tensors()
    assert ir.is_calibrated
    ir.quantize(check=False)
    with pytest.raises(ValueError, match="is quantised"):
        ir.split_tensors(force=True)
