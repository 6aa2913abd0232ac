"""Charts of reports."""

from __future__ import annotations

import re

import pytest

from forge.quantization.chosen.sensitivity import Exclusion
from forge.quantization.chosen.variants import ModelVariant
from forge.quantization.reports import charts


def test_ticks_are_round() -> None:
    assert charts.Scale(0, 1.1, 0, 1).ticks == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert charts.Scale(-12, 85, 0, 1).ticks == [0, 20, 40, 60, 80]
    assert charts.Scale(5, 5, 10, 20)(5) == 10


def test_points_beyond_the_axis_say_so() -> None:
    exact = ModelVariant("float32", None, (), 0, 150.0, None, 8, 2.0)
    rounded = ModelVariant("as quantized", {}, (), 1, 40.0, None, 2, 1.0)
    shown = charts.pareto([exact, rounded])
    assert ">1 \u2191 150 dB<" in shown and ">2<" in shown
    assert "\u2191 150 dB" in charts.curve([Exclusion((), 40.0, None), Exclusion((0,), 150.0, None)])


def test_points_lie_by_latency_and_decibels() -> None:
    fast, near = ModelVariant("fast", {}, (), 1, 20.0, None, 1, 1.0), ModelVariant("near", {}, (), 1, 40.0, None, 4, 2.0)
    circles = re.findall(r'<circle class="point" cx="([\d.]+)" cy="([\d.]+)" r="([\d.]+)"', charts.pareto([fast, near]))
    points = [list(map(float, circle)) for circle in circles]
    assert points[0][0] < points[1][0] and points[0][1] > points[1][1]
    assert [r for *_, r in points] == [charts.MAX_RADIUS / 2, charts.MAX_RADIUS]
    assert charts.pareto([]) == ""


def test_a_curve_has_a_point_for_each_list() -> None:
    exclusions = [Exclusion(tuple(range(k)), 20.0 + 5 * k, None) for k in range(3)]
    heights = [float(y) for y in re.findall(r'cy="([\d.]+)"', charts.curve(exclusions))]
    assert len(heights) == 3 and heights == sorted(heights, reverse=True)
    assert charts.curve(exclusions[:1]) == ""


def test_bars_end_at_their_length() -> None:
    assert 'width="45.0"' in charts.bar(0.5, "good") and 'width="90.0"' in charts.bar(3.0, "bad")


def test_labels_are_escaped() -> None:
    assert 'aria-label="a &lt; b"' in charts.svg(1, 1, "a < b", "")
