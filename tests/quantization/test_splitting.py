"""``split_tensors``: what it changes, what it leaves, and what it is good for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import forge
from forge.errors import OptionError
from forge.ir.nodes import Value
from forge.quantization.weights.codes import quantized_weight
from forge.quantization.weights.splitting import EXPANSION, MAX_LEFT, best_split, splits
from tests.quantization.models import TINY, Net, data


def chain(seed: int = 0) -> tuple[forge.IRModule, list[np.ndarray]]:
    """A convolution, a depthwise one with a pool, and one that has an outlier among its 24 channels."""
    net = Net(3, 8, 8, seed=seed)
    a = net.call("nn.relu", net.conv(net.x, 24))
    b = net.call("clip", net.conv(a, 24, groups=24), a_min=0.0, a_max=6.0)
    pooled = net.call("nn.max_pool2d", b, pool_size=(2, 2), strides=(2, 2))
    return net.module(net.conv(pooled, 8, 1, outliers=(5,))), net.samples()


def channels(ir: forge.IRModule) -> list[tuple[int, ...]]:
    return [n.operands[1].shape for n in ir if n.op in ("nn.conv2d", "nn.dense", "nn.matmul")]  # type: ignore[union-attr,misc]


def assert_equal_results(ir: forge.IRModule, other: forge.IRModule, x: np.ndarray, target: str = "reference") -> None:
    expected = ir.get_inference_function("reference")(x)
    size = np.abs(expected).max()
    np.testing.assert_allclose(other.get_inference_function(target)(x), expected, rtol=1e-5, atol=1e-6 * size)


@pytest.mark.parametrize("target", ["reference", "llvm"])
def test_layers_before_make_the_channels(target: str) -> None:
    ir, (x, _) = chain()
    split = ir.copy()
    split.split_tensors()
    assert channels(ir) == [(24, 3, 3, 3), (24, 1, 3, 3), (8, 24, 1, 1)]
    assert channels(split) == [(26, 3, 3, 3), (26, 1, 3, 3), (8, 26, 1, 1)]
    assert "take" not in split.operators
    assert split.main.select("nn.conv2d")[1].attributes["groups"] == 26
    assert_equal_results(ir, split, x, target)


def swish(net: Net, x: Value) -> Value:
    return net.call("multiply", x, net.call("sigmoid", x))


@pytest.mark.parametrize("activation", ["nn.relu", "nn.gelu", "swish", "scale"])
def test_dense_layers(activation: str) -> None:
    net = Net(10, seed=1)
    made = net.dense(net.x, 30)
    if activation == "scale":
        wide = net.call("multiply", made, net.weight(1, 30))
    else:
        wide = swish(net, made) if activation == "swish" else net.call(activation, made)
    ir = net.module(net.dense(wide, 6, outliers=(3, 7)))
    split = ir.copy()
    split.split_tensors()
    assert channels(split) == [(32, 10), (6, 32)]
    assert "take" not in split.operators
    assert_equal_results(ir, split, net.samples()[0])


def test_matmul_with_a_constant() -> None:
    net = Net(5, 10, seed=1)
    wide = net.call("nn.relu", net.call("nn.matmul", net.x, net.weight(10, 30)))
    last = net.rng.standard_normal((30, 6)).astype(np.float32)
    last[4] *= 9
    ir = net.module(net.call("nn.matmul", wide, net.builder.constant(last)))
    split = ir.copy()
    split.split_tensors()
    assert [n.operands[1].shape for n in split.main.select("nn.matmul")] == [(10, 32), (32, 6)]  # type: ignore[union-attr]
    assert_equal_results(ir, split, net.samples()[0])


@pytest.mark.parametrize("reader", ["output", "another layer", "softmax", "input"])
def test_channels_are_copied_where_others_read_them(reader: str) -> None:
    net = Net(60, seed=2)
    data_ = net.x if reader == "input" else net.call("nn.relu", net.dense(net.x, 60))
    data_ = net.call("nn.softmax", data_, axis=-1) if reader == "softmax" else data_
    outputs = [net.dense(data_, 6, outliers=(1,))]
    outputs += [data_] if reader == "output" else [net.dense(data_, 3)] if reader == "another layer" else []
    ir = net.module(*outputs)
    split = ir.copy()
    split.split_tensors()
    assert split.operators["take"] in (1, len(outputs))
    x = net.samples()[0]
    results = [m.get_inference_function("reference")(x) for m in (split, ir)]
    for got, expected in zip(*([r] if isinstance(r, np.ndarray) else r for r in results)):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_both_terms_of_a_sum_get_the_channels() -> None:
    net = Net(3, 6, 6, seed=3)
    total = net.call("nn.relu", net.call("add", net.conv(net.x, 24), net.conv(net.x, 24, 1)))
    ir = net.module(net.conv(total, 4, outliers=(9,)))
    split = ir.copy()
    split.split_tensors()
    assert channels(split) == [(26, 3, 3, 3), (26, 3, 1, 1), (4, 26, 3, 3)]
    assert_equal_results(ir, split, net.samples()[0])


@pytest.mark.parametrize("model", TINY)
@pytest.mark.parametrize("seed", range(3))
def test_results_stay(model: str, seed: int) -> None:
    ir = TINY[model](seed)
    split = ir.copy()
    split.split_tensors()
    assert split.is_split_tensors
    assert_equal_results(ir, split, data(model)[0])


def test_layers_without_outliers_and_groups_stay_as_they_are() -> None:
    net = Net(40, 6, 6)
    even = net.builder.constant(np.sign(net.rng.standard_normal((8, 40, 3, 3))).astype(np.float32))
    grouped = net.conv(net.call("nn.conv2d", net.x, even), 8, groups=2, outliers=(0,))
    ir = net.module(grouped)
    split = ir.copy()
    split.split_tensors()
    assert channels(split) == [(8, 40, 3, 3), (8, 4, 3, 3)]
    assert split.is_split_tensors


def test_quantized_models_are_refused() -> None:
    ir, samples = chain()
    ir.quantize(calib_data=samples)
    with pytest.raises(OptionError, match="quantized; expected float weights"):
        ir.split_tensors()


def test_statistics_are_kept_unless_forced() -> None:
    ir, samples = chain()
    ir.calibrate(samples)
    before = ir.fingerprint
    with pytest.raises(ValueError, match=r"calibrated.*force=True"):
        ir.split_tensors()
    assert (ir.fingerprint, ir.is_calibrated, ir.is_split_tensors) == (before, True, False)
    ir.split_tensors(force=True)
    assert (ir.is_calibrated, ir.is_split_tensors) == (False, True)
    with pytest.raises(ValueError, match="force"):
        ir.split_tensors(force="yes")  # type: ignore[arg-type]


def test_the_flag_goes_with_the_model(tmp_path: Path) -> None:
    ir, samples = chain()
    assert not ir.is_split_tensors
    split = ir.copy()
    split.split_tensors()
    again = split.copy()
    again.split_tensors()
    assert (again, again.fingerprint) == (split, split.fingerprint)
    for path in (tmp_path / "m.forge", tmp_path / "m.relay"):
        split.save(path)
        assert forge.load(path).is_split_tensors
        assert forge.load(path).fingerprint == split.fingerprint
    fixed = split.copy()
    fixed.set_batch_size(2)
    quantized = split.copy()
    quantized.quantize(calib_data=samples)
    assert fixed.is_split_tensors and quantized.is_split_tensors and split.function("main").is_split_tensors
    split.compile(output_path=tmp_path / "build")
    assert_equal_results(ir, split, samples[0], "llvm")


def test_reload_takes_it_back() -> None:
    ir, _ = chain()
    before = ir.fingerprint
    ir.split_tensors()
    assert ir.fingerprint != before
    ir.reload()
    assert (ir.fingerprint, ir.is_split_tensors) == (before, False)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("outliers", [(2,), (2, 3), (2, 3, 39)])
def test_parts_are_rounded_to_the_rounded_weight(axis: int, outliers: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    array = rng.standard_normal((12, 40)).astype(np.float32)
    array[:, outliers] *= 9
    array = array if axis == 1 else np.ascontiguousarray(array.T)
    found = best_split(array, axis)
    assert found is not None
    split, left = found
    made = split.weight(array, axis)
    assert made.shape[axis] <= np.ceil(40 * (1 + EXPANSION))
    np.testing.assert_allclose(split.joined(made, axis), array, rtol=0, atol=1e-6)
    codes = quantized_weight(made, axis, "int8", per_channel=False)
    np.testing.assert_allclose(codes.scale, split.step, rtol=1e-6)
    whole = np.abs(split.joined(codes.real, axis) / split.step - array / split.step)
    assert whole.max() <= 0.5 + 1e-3
    if len(outliers) < 3:
        assert left < MAX_LEFT


def test_a_channel_may_have_many_parts() -> None:
    array = np.random.default_rng(0).standard_normal((4, 60)).astype(np.float32)
    array[:, 7] *= 100
    *_, last = splits(array, 1)
    assert last.parts[7] == 4
    assert list(last.sources[-3:]) == [7, 7, 7]
    np.testing.assert_allclose(last.joined(last.weight(array, 1), 1), array, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("array", [np.zeros((3, 4)), np.full((3, 4), np.nan), np.zeros((3, 0)), np.ones((3, 4))])
def test_weights_with_nothing_to_gain(array: np.ndarray) -> None:
    found = best_split(array.astype(np.float32), 1)
    assert found is None or found[1] > MAX_LEFT


def test_errors_of_quantized_models_fall() -> None:
    errors = []
    for is_split in (False, True):
        net = Net(3, 8, 8, seed=4)
        a = net.call("nn.relu", net.conv(net.x, 24))
        ir = net.module(net.conv(a, 16, outliers=(5,)))
        x = net.samples()
        real = ir.get_inference_function()(x[0])
        if is_split:
            ir.split_tensors()
        ir.quantize(calib_data=x, bias_correction=False)
        errors.append(float(np.square(ir.get_inference_function()(x[0]) - real).mean()))
    assert errors[1] < 0.6 * errors[0]
