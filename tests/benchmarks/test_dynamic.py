"""Networks of any size: exports agree with torch at every size, outputs depend on the input, compiled code agrees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

from benchmarks import dynamic, dynamic_models  # noqa: E402
from benchmarks.dynamic_models import DYNAMIC  # noqa: E402
from benchmarks.models import Inputs  # noqa: E402
from forge import peers  # noqa: E402
from forge.driver.latency import Latencies  # noqa: E402

CASES = [(name, batch, sizes) for name, model in DYNAMIC.items() for batch, sizes in zip((1, 3, 2), model.small.sizes)]


def outputs(name: str, feed: Inputs) -> list[NDArray[Any]]:
    """What the exported network answers."""
    return list(peers.open_onnxruntime(dynamic_models.build(name, small=True), 1, optimized=False)(feed))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "batch", "sizes"), CASES)
def test_export_agrees_with_torch(name: str, batch: int, sizes: dynamic_models.Sizes) -> None:
    feed = dynamic_models.inputs(name, sizes, batch, small=True)
    with torch.no_grad():
        found = DYNAMIC[name].small.network()(*map(torch.from_numpy, feed.values()))
    expected = [one.numpy() for one in (found if isinstance(found, tuple) else (found,))]
    assert peers.disagreement(outputs(name, feed)[: len(expected)], expected) <= dynamic.LIMIT


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", DYNAMIC)
def test_output_depends_on_input(name: str) -> None:
    before, after = (outputs(name, dynamic_models.inputs(name, DYNAMIC[name].small.typical, seed=s, small=True)) for s in (0, 1))
    for one, other in zip(before[: len(DYNAMIC[name].outputs)], after, strict=False):
        assert np.isfinite(one).all()
        assert np.abs(one - other).max() >= 0.1 * np.ptp(one) > 0


def test_detector_suppresses_boxes() -> None:
    boxes, _, chosen = outputs("detector", dynamic_models.inputs("detector", (96, 96), 2, small=True))
    assert 0 < len(chosen) < boxes.shape[0] * boxes.shape[1]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", DYNAMIC)
def test_small_networks_are_measured(name: str) -> None:
    pytest.importorskip("openvino")
    measured = dynamic.run(name, 2, 1, dynamic.Effort(rounds=1, seconds=0.0), small=True)
    assert [row.sizes for row in measured.rows] == list(DYNAMIC[name].small.sizes)
    assert all(row.agrees and row.ratio > 0 for row in measured.rows)
    assert min(measured.compile_seconds) > 0


def row(dynamic_ms: float, error: float) -> dynamic.Row:
    times = {"dynamic": dynamic_ms, "static": 1e-3, "onnxruntime": 2e-3, "openvino": 3e-3}
    return dynamic.Row("net", (8, 9), {name: Latencies((seconds,)) for name, seconds in times.items()}, (96, 64), (0.0, error))


def test_rows_that_fall_short_are_told() -> None:
    told = list(dynamic.conclusions([row(1e-3, 0.0), row(4e-3, 0.5)]))
    assert told[0] == "static / dynamic: geometric mean 0.50, from 0.25 to 1.00"
    assert told[1] == "peer / dynamic: geometric mean 1.00, from 0.50 to 2.00"
    assert told[4:] == [
        "1 of 2 rows have static / dynamic below 0.85 (marked *); wanted is a mean of 0.95",
        "0.25: net 8 x 9",
        "WRONG: net 8 x 9: 5.0e-01",
    ]


def test_page_has_a_row_for_each_network() -> None:
    lines = list(dynamic.markdown([dynamic.Measured("net", 1, 1, (row(2e-3, 0.0),) * 3, (4.0, 3.0), 20e-6)]))
    assert lines[2] == "| net | 2.00 | 0.50, 0.50, 0.50 | 1.00, 1.00, 1.00 | 1.50 | 20 | 4.0 (3.0) |"


def test_new_sizes_are_new_and_valid() -> None:
    variants = [variant for model in DYNAMIC.values() for variant in (model.full, model.small)]
    assert all(dynamic.new_sizes(variant) and not set(dynamic.new_sizes(variant)) & set(variant.sizes) for variant in variants)
    assert dynamic.new_sizes(DYNAMIC["hifigan"].small) == [(2,), (9,)]
    assert all(side % 128 == 0 for sizes in dynamic.new_sizes(DYNAMIC["efficientdet"].full) for side in sizes)
