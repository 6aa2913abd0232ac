"""The page of a report."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from forge.quantization.reports.page import frame, page
from forge.quantization.reports.report import Report, make_report
from tests.quantization.nets import record


@pytest.fixture(scope="module")
def report() -> Report:
    made = record(exclude="fc")
    return make_report(made, list(made.real.calibration.samples), name="a <b> & c", tries=False)


def test_layers_and_values_are_there_and_texts_are_escaped(report: Report) -> None:
    text = page(report)
    assert "a &lt;b&gt; &amp; c: quantization" in text and "<b> &" not in text
    rows = re.findall(r'<tr><td class="n"[^>]*>\d+</td><td class="name">([^<]+)', text)
    assert rows == [row.label for row in report.worst]
    assert text.count("<figure>") == len(report.values) + 1
    assert all(f"{row.error.alone:.1f}" in text for row in report.layers)
    assert "Layers that stay in float" in text and "excluded" in text
    assert "Variants tried" not in text and "Times of layers" not in text and "src=" not in text


def test_times_have_a_column_for_each_way(report: Report) -> None:
    rows = tuple(replace(row, seconds={"float32": 2e-6, "int8": 1e-6}) for row in report.layers)
    text = page(replace(report, layers=rows))
    assert "float32, us" in text and "int8, us" in text and "bfloat16, us" not in text


def test_a_frame_holds_the_page(report: Report) -> None:
    text = frame(report)
    assert text.startswith("<iframe") and 'sandbox="allow-scripts"' in text and "&lt;main&gt;" in text
