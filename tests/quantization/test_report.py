"""Reports: what is in them, files, and the page in Chromium."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from forge.errors import InputError, OptionError, OutputPathError
from forge.quantization.chosen.rounding_errors import SHOWN_BINS
from forge.quantization.reports.report import Report, make_report
from tests.quantization.nets import record, samples, small_net
from tests.view.browser import Opened, chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>\x07'


@pytest.fixture(scope="module")
def report() -> Report:
    made = record(small_net(name=HOSTILE))
    return make_report(made, made.real.calibration.samples, name=HOSTILE, seconds=8)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def test_layers_values_and_variants(report: Report) -> None:
    assert [row.name for row in report.layers] == [f"{HOSTILE}0", f"{HOSTILE}1", "fc"]
    assert sorted(row.name for row in report.worst) == sorted(row.name for row in report.layers)
    assert all(row.only is not None and row.without is not None for row in report.layers)
    assert all(set(row.seconds) >= {"float32", "int8"} for row in report.layers)
    first = report.layers[0].weight
    assert first is not None
    assert (first.bytes, first.code_bytes) == (8 * 27 * 4, 8 * 27 + 4)
    assert [v.readers for v in report.values] == [(0,), (1,), (2,)]
    assert all(sum(v.counts) == 4 * n for v, n in zip(report.values, (3 * 64, 8 * 64, 8)))
    assert all(len(v.counts) <= SHOWN_BINS and v.saturated < 5 for v in report.values)
    titles = [v.title for v in report.variants]
    assert {"float32", "as quantized"} < set(titles)
    assert report.chosen is not None
    assert report.chosen.layers == 3
    assert report.chosen.bytes < report.variants[0].bytes
    assert all(v.seconds > 0 for v in report.variants)


def test_json_is_all_of_it(report: Report, tmp_path: Path) -> None:
    report.save(tmp_path / "report.json")
    content = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert content == report.to_json()
    assert content["format"] == 1
    assert {"layers", "values", "variants", "exclusions", "suggestions", "outputs", "left", "scheme"} < set(content)


def test_errors_only(report: Report) -> None:
    made = record(exclude="fc")
    found = make_report(made, made.real.calibration.samples, tries=False)
    assert found.variants == ()
    assert found.chosen is None
    assert [row.name for row in found.layers] == ["conv0", "conv1"]
    assert "conv0 (nn.conv2d)" in str(found)
    assert "output out:" in str(found)
    assert "Variants" not in found.to_html()


def test_a_model_without_quantized_layers() -> None:
    made = record(exclude="nn.*")
    found = make_report(made, made.real.calibration.samples, tries=False)
    assert found.layers == ()
    assert "<h1>" in found.to_html()
    assert str(found)


def test_advice_and_warnings(report: Report) -> None:
    assert any(row.advice.startswith("per_channel=True: the weight +") for row in report.layers)
    assert report.warnings == []
    far = replace(report, outputs=(replace(report.outputs[0], sqnr=12.0, agreement=0.5),))
    assert far.warnings[0] == "output out: 12.0 dB, arg max agrees: 50.0 %"
    assert "the layers that cost most" in far.warnings[1]


def test_files_have_known_endings_and_are_whole(report: Report, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"expected a path that ends in \.html or \.json"):
        report.save(tmp_path / "report.pdf")
    with pytest.raises(OutputPathError):
        report.save(tmp_path / "none" / "report.html")
    report.save(tmp_path / "report.HTML")
    assert (tmp_path / "report.HTML").read_text(encoding="utf-8").endswith("</html>")
    assert [p.name for p in tmp_path.iterdir()] == ["report.HTML"]


def test_the_method_reports_what_quantize_did() -> None:
    ir = small_net()
    with pytest.raises(OptionError, match=r"quantization_report: got a module that `quantize` did not make"):
        ir.quantization_report()
    ir.quantize(calib_data=samples())
    steps: list[str] = []
    found = ir.quantization_report(tries=False, name="net", progress=lambda phase, done, total: steps.append(phase))
    assert found.name == "net"
    assert len(found.layers) == 3
    assert {"errors", "sensitivity"} == set(steps)
    assert ir.quantization_report(samples(2), tries=False).samples == 2
    with pytest.raises(InputError, match="quantization_report: calib_data"):
        ir.quantization_report(np.zeros((2, 2), np.float32), tries=False)
    for wrong in (0, -1, True, "60"):
        with pytest.raises(OptionError, match=r"quantization_report: seconds: got .*; expected a positive number"):
            ir.quantization_report(seconds=wrong)  # type: ignore[arg-type]


def test_a_report_needs_a_sample() -> None:
    with pytest.raises(OptionError, match="got no sample"):
        make_report(record(), [])


def opened(browser: Browser, path: Path, width: int = 1200, **options: Any) -> Opened:
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    return Opened(context.new_page(), path)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_shows_all_and_runs_nothing_else(report: Report, browser: Browser, tmp_path: Path, scheme: str) -> None:
    report.save(tmp_path / "page.html")
    shown = opened(browser, tmp_path / "page.html", color_scheme=scheme)
    page = shown.page
    assert page.locator("img, iframe").count() == 0
    assert page.locator("#layers tbody tr").count() == 3
    assert page.locator("#values svg").count() == 3
    assert page.locator(".charts svg").count() == 2
    assert page.locator("#variants tbody tr").count() == len(report.variants)
    assert page.locator("circle.point.chosen").count() == 1
    assert page.locator("path.threshold").count() == 6
    assert HOSTILE[:-1] in page.inner_text("h1")
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    ink = page.evaluate("() => getComputedStyle(document.body).color")
    assert ink == ("rgb(34, 34, 34)" if scheme == "light" else "rgb(230, 232, 236)")
    assert shown.problems == []
    assert [url for url in shown.requests if not url.startswith("file:")] == []
    page.context.close()


def test_narrow_screens_scroll_tables_and_break_no_words(report: Report, browser: Browser, tmp_path: Path) -> None:
    report.save(tmp_path / "page.html")
    page = opened(browser, tmp_path / "page.html", width=420).page
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    rows = [place["height"] for row in page.locator("#layers tr").all() if (place := row.bounding_box()) is not None]
    assert len(rows) == 4 and max(rows) < 200
    page.context.close()


def test_tables_can_be_sorted_by_mouse_and_keyboard(report: Report, browser: Browser, tmp_path: Path) -> None:
    report.save(tmp_path / "page.html")
    page = opened(browser, tmp_path / "page.html").page

    def numbers() -> list[str]:
        return page.locator("#layers tbody tr td:first-child").all_inner_texts()

    page.click("#layers th:first-child button")
    assert numbers() == ["2", "1", "0"]
    assert page.get_attribute("#layers th:first-child", "aria-sort") == "descending"
    page.press("#layers th:first-child button", "Enter")
    assert numbers() == ["0", "1", "2"]
    assert page.get_attribute("#layers th:nth-child(2)", "aria-sort") == "none"
    page.context.close()


def test_notebooks_show_the_page_in_a_frame_of_its_own(report: Report, browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "notebook.html").write_text(f"<!doctype html><meta charset=utf-8>{report._repr_html_()}", encoding="utf-8")
    shown = opened(browser, tmp_path / "notebook.html")
    frame = shown.page.frame_locator("iframe")
    assert frame.locator("#layers tbody tr").count() == 3
    frame.locator("#layers th:first-child button").click()
    assert frame.locator("#layers tbody tr td:first-child").first.inner_text() == "2"
    assert shown.problems == []
    shown.page.context.close()


def test_a_notebook_prints_the_text(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    text = str(report)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert str(report) == text != ""


def test_a_changed_module_has_no_report() -> None:
    ir = small_net()
    ir.calibrate(samples())
    ir.quantize(check=False)
    kept = ir.copy()
    with ir.edit() as e:
        e.rename(ir.main.find("qnn.quantize"), "other")
        e.set_attributes(ir.main.find("nn.max_pool2d") if "nn.max_pool2d" in ir.operators else ir.main.find("nn.conv2d"),
                         padding=(0, 0))
    with pytest.raises(OptionError, match="has changed since"):
        ir.quantization_report(tries=False)
    assert kept.quantization_report(tries=False).layers
