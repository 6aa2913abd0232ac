"""``IRModule.calibrate``: statistics equal NumPy's, bad data change nothing, and what keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import forge
from forge import dims
from forge.ir.builder import Builder
from forge.ir.graph import Module
from forge.ir.nodes import Value
from forge.ir.saved.statistics import BINS, Histogram, Statistics
from forge.ir.types import TensorType
from forge.quantization.observed.ranges import METHODS
from forge.quantization.quantize import statistics_of
from tests.quantization.models import cnn, data

SAMPLES = data("cnn", 6)


@pytest.fixture(scope="module")
def calibrated() -> forge.IRModule:
    """Do not change it."""
    ir = cnn()
    ir.calibrate(SAMPLES)
    return ir


def known(ir: forge.IRModule) -> dict[Value, Statistics]:
    return statistics_of(ir.mod)


def test_statistics_are_those_of_numpy(calibrated: forge.IRModule) -> None:
    ir = calibrated.copy()
    values = list(known(ir))
    arrays = [ir.extract(value).get_inference_function("reference") for value in values]
    for value, run in zip(values, arrays):
        found, seen = known(ir)[value], [np.asarray(run(x), np.float64) for x in SAMPLES]
        others = tuple(k for k in range(value.rank) if k != found.channel_axis % value.rank)
        whole = np.concatenate(seen)
        near = {"rtol": 1e-4, "atol": 1e-5}
        np.testing.assert_allclose([found.low, found.high], [whole.min(), whole.max()], **near)
        np.testing.assert_allclose(found.low_sum, sum(a.min() for a in seen), **near)
        np.testing.assert_allclose(found.high_sum, sum(a.max() for a in seen), **near)
        np.testing.assert_allclose(found.channel_low, whole.min(axis=others), **near)
        np.testing.assert_allclose(found.channel_high, whole.max(axis=others), **near)
        counts = np.histogram(whole, found.histogram.edges)[0]
        assert found.calls == len(SAMPLES)
        assert found.histogram.counts.sum() == whole.size
        moved = np.abs(np.cumsum(counts) - np.cumsum(found.histogram.counts)).max()
        assert moved <= max(4, 0.01 * whole.size), "by rounding at the edges of bins"


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 1), (-1e-9, 40), (0, 1e30), (-7, 0)])
def test_wider_histograms_hold_the_same_numbers(low: float, high: float) -> None:
    numbers = np.random.default_rng(0).random(1000) * 0.3
    narrow = Histogram(np.histogram(numbers, np.arange(BINS + 1) / BINS)[0].astype(np.int64), 1 / BINS)
    wide = narrow.widened(low, high)
    assert wide.covers(low, high)
    assert wide.is_signed == (low < 0)
    np.testing.assert_array_equal(np.histogram(numbers, wide.edges)[0], wide.counts)


def _failing() -> Iterator[np.ndarray]:
    yield SAMPLES[0]
    raise ZeroDivisionError


def _interrupted() -> Iterator[np.ndarray]:
    yield SAMPLES[0]
    raise KeyboardInterrupt


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("bad", "error", "message"), [
    ([np.full_like(SAMPLES[0], np.nan)], ValueError, "'x'.*nan"), ([SAMPLES[0], SAMPLES[0] / 0], ValueError, "'x'.*(inf|nan)"),
    ([SAMPLES[0][:, :2]], ValueError, "'x'.*shape"), ([], ValueError, "no sample"), (["text"], ValueError, "'x'"),
    ([{"y": SAMPLES[0]}], ValueError, "'y' is not an input"), (_failing, ZeroDivisionError, ""),
    (_interrupted, KeyboardInterrupt, ""),
], ids=["NaN", "infinity", "shape", "nothing", "text", "name", "failing", "interrupted"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_bad_data_change_nothing(calibrated: forge.IRModule, bad: object, error: type[BaseException], message: str) -> None:
    for ir in (cnn(), calibrated.copy()):
        before, kept = ir.fingerprint, known(ir)
        given = bad() if callable(bad) else bad
        with pytest.raises(error, match=message):
            ir.calibrate(given)
        assert (ir.fingerprint, known(ir)) == (before, kept)


@pytest.mark.parametrize("given", [[np.zeros_like(SAMPLES[0])], SAMPLES[:1], [255 * np.abs(x) for x in SAMPLES]],
                         ids=["constant", "one", "another scale"])
def test_odd_data_work(given: list[np.ndarray]) -> None:
    ir = cnn()
    ir.calibrate(given)
    ir.quantize(check=False)
    assert np.isfinite(ir.get_inference_function()(SAMPLES[0])).all()


def test_without_reset_statistics_add_up(calibrated: forge.IRModule) -> None:
    parts = cnn()
    parts.calibrate(SAMPLES[:2])
    parts.calibrate(SAMPLES[2:], reset=False)
    for found, expected in zip(known(parts).values(), known(calibrated).values()):
        assert found.calls == expected.calls
        assert (found.low, found.high) == (expected.low, expected.high)
        np.testing.assert_array_equal(found.channel_low, expected.channel_low)
        np.testing.assert_array_equal(found.histogram.counts, expected.histogram.counts)
    again = cnn()
    again.calibrate(SAMPLES[:2])
    again.calibrate(SAMPLES)
    assert [s.calls for s in known(again).values()] == [s.calls for s in known(calibrated).values()]


def test_what_keeps_statistics(calibrated: forge.IRModule, tmp_path: Path) -> None:
    count = len(known(calibrated))
    calibrated.save(tmp_path / "m.forge")
    batched = calibrated.copy()
    batched.set_batch_size(3)
    for kept in (calibrated.copy(), forge.load(tmp_path / "m.forge"), batched):
        assert kept.is_calibrated
        assert len(known(kept)) == count
    loaded = known(forge.load(tmp_path / "m.forge"))
    assert [s.numbers() for s in loaded.values()] == [s.numbers() for s in known(calibrated).values()]
    edited = calibrated.copy()
    with edited.edit() as e:
        clip = edited.main.find("clip")
        e.set_attributes(clip, a_max=5.0)
    assert 0 < len(known(edited)) < count, "the values before the edit"
    edited.reload()
    assert not edited.is_calibrated


def test_progress_counts_samples(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    cnn().calibrate(SAMPLES[:2], progress=lambda *step: seen.append(step))
    assert seen == [("calibrate", k, 2) for k in range(3)]
    np.save(tmp_path / "two.npy", np.stack(SAMPLES[:2]))
    for stacked in (np.stack(SAMPLES[:2]), tmp_path / "two.npy"):
        seen.clear()
        cnn().calibrate(stacked, progress=lambda *step: seen.append(step))
        assert seen == [("calibrate", k, 2) for k in range(3)], "an array, or a file, of two"
    seen.clear()
    cnn().calibrate((x for x in SAMPLES[:2]), progress=lambda *step: seen.append(step))
    assert seen == [("calibrate", k, 0) for k in range(3)]


def test_layers_whose_data_are_not_finite_stay_real() -> None:
    """Also where only one sample makes NaN."""
    ir = forge.IRModule("""
def @main(%x: Tensor[(2), float32], %w: Tensor[(3, 2), float32], %v: Tensor[(2, 3), float32]) {
  nn.dense(log(nn.dense(%x, %w)), %v)
}
""", {"w": np.ones((3, 2), np.float32), "v": np.ones((2, 3), np.float32)})
    ir.calibrate([np.ones(2, np.float32), -np.ones(2, np.float32), np.ones(2, np.float32)])
    ir.quantize(quant_type="static", check=False, bias_correction=False)
    assert [node.operands[1].op for node in ir.main.select("nn.dense")] == ["qnn.dequantize", "constant"]


def test_random_numbers_are_counted_once() -> None:
    """Each run of such a model has another range."""
    ir = forge.IRModule("""
def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(3, 8), float32]) {
  nn.dense(add(%x, exp(multiply(random.normal(out_shape=[4, 8]), 9f))), %w)
}
""", {"w": np.ones((3, 8), np.float32)})
    ir.calibrate([np.zeros((4, 8), np.float32)] * 5)
    assert [s.histogram.counts.sum() for s in known_bound(ir)] == [160]


def known_bound(ir: forge.IRModule) -> list[Statistics]:
    return list(ir.mod.calibration.statistics.values())


def test_of_large_values_a_third_is_in_the_histogram() -> None:
    ir = forge.IRModule("def @main(%x: Tensor[(512, 300), float32], %w: Tensor[(3, 300), float32]) { nn.dense(%x, %w) }",
                        {"w": np.ones((3, 300), np.float32)})
    x = np.random.default_rng(0).standard_normal((512, 300)).astype(np.float32)
    ir.calibrate([x])
    (found,) = known_bound(ir)
    assert found.histogram.counts.sum() == x.size // 3
    assert (found.low, found.high) == (x.min(), x.max())
    counts = np.histogram(x.reshape(-1)[::3], found.histogram.edges)[0]
    assert np.abs(np.cumsum(counts) - np.cumsum(found.histogram.counts)).max() <= 4, "by rounding at the edges of bins"


def text_net() -> forge.IRModule:
    """Attention of one head over a symbolic number of tokens, whose keys a convolution along the tokens reads, too."""
    rng = np.random.default_rng(0)
    b = Builder()
    x = b.input(TensorType((1, dims.symbol("tokens"), 8), "float32"), "x")
    weights = [b.constant(rng.standard_normal((8, 8)).astype(np.float32) / 3) for _ in range(3)]
    query, key, value = (b.call("nn.dense", x, weight) for weight in weights)
    turned = b.call("transpose", key, axes=(0, 2, 1))
    mixed = b.call("nn.matmul", b.call("nn.softmax", b.call("nn.matmul", query, turned)), value)
    near = b.call("nn.conv1d", turned, b.constant(rng.standard_normal((8, 8, 3)).astype(np.float32)), padding=(1, 1))
    return forge.IRModule(Module(b.output(mixed, near)))


TEXTS = [np.random.default_rng(n).standard_normal((1, n, 8)).astype(np.float32) for n in (5, 9, 2, 7)]


@pytest.mark.parametrize("method", METHODS)
def test_samples_of_unequal_lengths(method: str) -> None:
    ir = text_net()
    ir.calibrate(TEXTS[:2])
    ir.calibrate(TEXTS[2:], reset=False)
    assert all(s.calls == len(TEXTS) and np.isfinite(s.high) for s in known(ir).values())
    real = [ir.get_inference_function()(x) for x in TEXTS]
    ir.quantize(calib_method=method, check=False)
    assert ir.operators["qnn.quantize"] == 3, "of the input, the queries and the keys"
    for x, wanted in zip(TEXTS, real):
        for got, expected in zip(ir.get_inference_function()(x), wanted):
            assert np.square(got - expected).mean() < 0.01 * np.square(expected).mean()


def test_layers_are_ranked_on_samples_of_unequal_lengths() -> None:
    ir = text_net()
    real = ir.get_inference_function()
    wanted = [real(x)[0] for x in TEXTS]

    def nearness(run: Callable[..., Sequence[np.ndarray]]) -> float:
        return -sum(float(np.abs(run(x)[0] - expected).max()) for x, expected in zip(TEXTS, wanted))

    found = ir.quantize_with_accuracy(nearness, 0.05, calib_data=TEXTS)
    assert 0 < len(found.kept) < 5
    assert found.quantized >= -0.05 > found.trials[0].metric
