"""The benchmark of decoding: all runtimes compute the same, and the tables have them all."""

from __future__ import annotations

import pytest

from benchmarks import decode


def test_tables_compare_with_the_best_peer() -> None:
    samples = {"forge": {16: [0.5, 0.25]}, "onnxruntime": {16: [0.5, 1.0]}, "openvino": {16: [1.0, 1.0]}}
    resident, errors = dict.fromkeys(samples, 3 << 20), dict.fromkeys(samples, 0.0)
    times, memory = decode.tables(samples, resident, errors, 2 << 20)
    assert [list(column.cells) for column in times.columns][-2:] == [["2.00"], ["2.00"]]
    assert list(memory.columns[2].cells) == ["1.50"] * 3


def test_small(capsys: pytest.CaptureFixture[str]) -> None:
    for package in ("torch", "transformers", "onnxruntime", "openvino"):
        pytest.importorskip(package)
    assert decode.main(["--small", "--rounds", "1"]) == 0
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("1 threads", "onnxruntime", "openvino", "resident MiB"))
