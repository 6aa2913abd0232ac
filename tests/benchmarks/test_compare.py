"""The comparison runs, continues where it was interrupted, and its tables say what was measured."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest
from rich.console import Console

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytest.importorskip("matplotlib")

from benchmarks import compare, machine_tables, report, results, worker
from benchmarks.isolation import Worker, WorkerFailed
from benchmarks.libraries import Case
from benchmarks.results import Measurement, Result
from forge.driver import machines

SMALL = ["--models", "mlp", "--libraries", "forge,onnxruntime", "--small", "--batch", "1", "--rounds", "2"]


def measured(library: str, milliseconds: float, *, mebibytes: int = 50, error: float = 1e-6) -> Result:
    return Result(library, 1.5, 0.1, mebibytes << 20, (milliseconds * 2e-3, milliseconds * 1e-3), error)


def measurement(*rows: Result, model: str = "mlp", threads: int = 1) -> Measurement:
    return Measurement(Case(model), threads, flops=10**6, bytes=1000, peak_flops=1e10, bandwidth=1e10, cache_bytes=10**6,
                       results=rows)


@pytest.fixture
def taken() -> list[Measurement]:
    first = measurement(measured("forge", 1.0), measured("forge-bfloat16", 0.5), measured("onnxruntime", 2.0, mebibytes=70),
                        measured("openvino-default", 0.4, error=0.01), measured("mnn", 0.1, mebibytes=20, error=0.5))
    second = measurement(measured("forge", 4.0), measured("onnxruntime", 2.0, mebibytes=40), Result("torch", failure="died [1]"),
                         model="lstm")
    return [first, second]


def test_compares_continues_and_writes_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*SMALL, "--threads", "1", "--output", str(tmp_path)]
    assert compare.main([*command, "--prepare"]) == 0
    assert json.loads((tmp_path / "cases" / "mlp-b1-small" / "prepared.json").read_text())["rows"]["forge"]["compile_seconds"] > 0
    assert compare.main(command) == 0
    stored = (tmp_path / "results.json").read_text()
    assert compare.main(command) == 0
    assert (tmp_path / "results.json").read_text() == stored
    [found] = results.load(tmp_path / "results.json")
    assert [row.library for row in found.results] == ["forge", "onnxruntime"]
    for row in found.results:
        assert row.counts and len(row.samples) == 2 and row.error is not None and row.error < 1e-5
        assert row.peak_bytes > 10 << 20 and row.load_seconds is not None
    assert "best peer / forge" in capsys.readouterr().out
    assert "onnxruntime *" in (tmp_path / "table.txt").read_text()
    assert (tmp_path / "ratios.png").read_bytes()[1:4] == b"PNG"
    assert not (tmp_path / "cases" / "mlp-b1-small").exists()


def test_the_page_gets_the_table_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_tables, "STORE", tmp_path / "machines.json")
    monkeypatch.setattr(machine_tables, "PAGE", tmp_path / "page.md")
    machine_tables.PAGE.write_text("# Performance\n")
    assert compare.main([*SMALL, "--threads", "1", "--output", str(tmp_path), "--page", "--note", "a small one"]) == 0
    [here] = machines.read(machine_tables.STORE)
    [table] = here.tables
    assert table.command == ("python -m benchmarks.compare --models mlp --libraries forge,onnxruntime --threads 1 --batch 1 "
                             "--rounds 2 --small")
    assert table.columns[:5] == ["model", "batch", "threads", "forge, ms", "onnxruntime, ms"]
    assert table.versions.keys() == {"forge", "onnxruntime"}
    assert table.facts[0] == "minima of 2 rounds" and "GFLOP/s" in table.facts[1]
    text = machine_tables.PAGE.read_text()
    assert f"## {here.cpu}\n" in text and "| mlp | 1 | 1 | " in text and "; a small one." in text


def test_rows_of_the_page(taken: list[Measurement]) -> None:
    columns, rows = report.page_table(taken)
    assert columns[3:] == ["forge, ms", "forge-bfloat16, ms", "onnxruntime, ms", "openvino-default, ms", "mnn, ms", "torch, ms",
                           "peer / forge, float32", "peer / forge, bfloat16", "of limit", "MiB", "least of peers"]
    assert rows == [
        ["mlp", "1", "1", "1", "0.5", "2", "0.4", "wrong", "", "2.00", "0.80", "10% FMA", "50", "50"],
        ["lstm", "1", "1", "4", "", "2", "", "", "failed", "0.50", "", "2% FMA", "50", "40"],
        ["geometric mean", "1", "1", "", "", "", "", "", "", "1.00", "0.80", "", "", ""]]


def test_ratios_are_of_one_precision_and_of_right_outputs(taken: list[Measurement]) -> None:
    first, second = taken
    assert first.ratio() == pytest.approx(2.0)
    assert first.ratio("bfloat16") == pytest.approx(0.8)
    assert second.ratio() == pytest.approx(0.5)
    assert second.ratio("bfloat16") is None
    assert results.mean_ratios(taken) == {"best peer": pytest.approx(1.0), "onnxruntime": pytest.approx(1.0)}


def test_conclusions_name_what_is_behind(taken: list[Measurement]) -> None:
    lines = report.conclusions(taken)
    assert "float32: best peer / forge below 1: lstm 0.50" in lines
    assert "bfloat16: best peer / forge below 1: mlp 0.80" in lines
    assert "bfloat16: forge in float32 / with it, geometric mean: 2.00; mlp 2.00" in lines
    assert not any(line.startswith("float16") for line in lines)
    assert "more memory than the leanest peer: lstm 10 MiB (onnxruntime)" in lines


def test_table_shows_ratios_limits_and_failures(taken: list[Measurement]) -> None:
    console = Console(width=report.WIDTH, record=True, quiet=False, force_terminal=False)
    console.print(report.table(taken, "title"))
    text = console.export_text()
    assert "onnxruntime *" in text and "died [1]" in text and "wrong: 5.0e-01" in text
    assert "10% FMA" in text


def test_the_larger_bound_is_the_limit(taken: list[Measurement]) -> None:
    assert taken[0].limit == ("FMA", pytest.approx(1e-4))
    beyond_cache = dataclasses.replace(taken[0], bytes=10**8)
    assert beyond_cache.limit == ("memory", pytest.approx(1e-2))


def test_stored_results_come_back_on_the_same_machine_only(taken: list[Measurement], tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    results.save(path, taken)
    assert results.load(path) == taken
    path.write_text(path.read_text().replace('"cpus": ', '"cpus": 9'))
    with pytest.raises(ValueError, match="measured on"):
        results.load(path)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os; os.abort()", "died of SIGABRT"),
        ("import sys; sys.exit('no such model')", "ended with status 1: no such model"),
        ("import time; time.sleep(60)", "no answer in 1 s"),
        ("print('{\"failure\": \"conv:  refused\"}', flush=True)", "conv: refused"),
    ],
)
def test_what_goes_wrong_in_a_process_is_said(code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "faulty.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Worker(log=tmp_path / "log", module="faulty") as process, pytest.raises(WorkerFailed, match=message):
        process.answer(1.0)


def test_a_library_that_fails_leaves_the_others(tmp_path: Path) -> None:
    case, effort = Case("mlp", small=True), compare.Effort(rounds=1)
    compare.prepare(case, tmp_path, [1], ["forge", "onnxruntime"], effort)
    (tmp_path / "forge" / "modelLibrary.so").write_bytes(b"")
    [found] = compare.compare(case, tmp_path, [1], ["forge", "onnxruntime"], effort)
    forge, onnxruntime = found.results
    assert "modelLibrary.so" in forge.failure and not forge.counts
    assert onnxruntime.counts and found.ours() is None


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU only")
def test_busy_threads_get_a_cpu_each() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        worker.spread(lambda: sum(range(200_000)), sorted(allowed))
        assert os.sched_getaffinity(0) == {min(allowed)}
    finally:
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), allowed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--models", "resnet19"], "model resnet19 unknown; expected of: resnet18"),
        (["--libraries", "tvm"], "library tvm unknown; expected of: forge"),
        (["--threads", "0"], "--threads: got 0; expected numbers from 1 to"),
        (["--batch", "x"], "--batch: got x; expected numbers from 1 to"),
    ],
)
def test_mistakes_are_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        compare.main(arguments)
    assert message in capsys.readouterr().err
