"""The ONNX backend suite against its pass-lists.

By default a shard of the cases, chosen by a stable hash; all of them with ``--require-optional`` (``make test-all``) or with
``FORGE_ONNX_SUITE=all``. ``python -m tests.onnx_backend --update`` writes the lists.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.onnx_backend import cases
from tests.onnx_backend.compare import check_outputs
from tests.onnx_backend.pool import Worker, run_cases

SHARDS = 24
WORKERS = 2


@pytest.fixture(scope="module")
def names(request: pytest.FixtureRequest) -> list[str]:
    everything = request.config.getoption("--require-optional") or os.environ.get("FORGE_ONNX_SUITE") == "all"
    return cases.case_names() if everything else cases.shard(cases.case_names(), SHARDS)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("runtime", cases.RUNTIMES)
def test_outcomes_are_those_listed(runtime: str, names: list[str]) -> None:
    listed = cases.pass_list(runtime)
    outcomes = run_cases(names, runtime, WORKERS)
    failed = {n: o.message for n, o in outcomes.items() if not o.passed and n in listed}
    unlisted = [n for n, o in outcomes.items() if o.passed and n not in listed]
    assert not failed, "listed cases fail"
    assert not unlisted, "cases pass that are not listed; run python -m tests.onnx_backend --update"


@pytest.mark.parametrize("runtime", cases.RUNTIMES)
def test_every_case_is_listed_or_has_a_reason(runtime: str) -> None:
    listed = cases.pass_list(runtime)
    excluded = cases.exclusions()
    silent = [n for n in cases.case_names() if n not in listed and not any(e.covers(runtime, n) for e in excluded)]
    assert not silent


@pytest.mark.parametrize("runtime", cases.RUNTIMES)
def test_lists_name_existing_cases(runtime: str) -> None:
    assert cases.pass_list(runtime) <= set(cases.case_names())


def test_every_exclusion_is_needed() -> None:
    for exclusion in cases.exclusions():
        failing = [
            n for r in exclusion.runtimes for n in cases.case_names() if exclusion.covers(r, n) and n not in cases.pass_list(r)
        ]
        assert failing, exclusion
        assert exclusion.reason, exclusion


def test_shards_are_a_partition() -> None:
    parts = [cases.shard(cases.case_names(), 7, i) for i in range(7)]
    assert sorted(n for part in parts for n in part) == cases.case_names()
    assert all(parts)


_WORKER = """
import json, os, sys, time
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    case = line.strip()
    if case == "crash":
        os.abort()
    if case == "hang":
        time.sleep(600)
    print(json.dumps({"case": case, "message": "" if case == "good" else "bad"}), flush=True)
"""


@pytest.fixture
def fake_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "fake_suite_worker.py").write_text(_WORKER)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return "fake_suite_worker"


def test_crash_and_hang_are_charged_to_their_case(fake_worker: str) -> None:
    outcomes = run_cases(["good", "crash", "hang", "wrong"], "any", workers=1, seconds=1.0, module=fake_worker)
    assert outcomes["good"].passed
    assert "crash" in outcomes["crash"].message
    assert "hang" in outcomes["hang"].message
    assert outcomes["wrong"].message == "bad"


def test_worker_runs_on_after_a_crash(fake_worker: str) -> None:
    worker = Worker("any", 5.0, fake_worker)
    assert not worker.run("crash").passed
    assert worker.run("good").passed
    worker.close()


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ([np.zeros(3)], [np.zeros(3, np.float32)]),
        ([np.zeros((3, 1))], [np.zeros(3)]),
        ([np.zeros(3)], [np.full(3, 1e-3)]),
        ([np.zeros(3)], []),
        ([np.zeros(3)], [0.0]),
        ([[np.zeros(3)]], [[np.zeros(3), np.zeros(3)]]),
        ([np.array(["a"], object)], [np.array(["b"], object)]),
        ([None], [np.zeros(3)]),
        ([np.array([1.0, np.nan])], [np.array([np.nan, 1.0])]),
    ],
)
def test_comparison_rejects_wrong_outputs(expected: list[object], got: list[object]) -> None:
    with pytest.raises(AssertionError):
        check_outputs(expected, got, rtol=1e-3, atol=1e-7)


def test_comparison_accepts_equal_outputs() -> None:
    outputs = [np.arange(3.0), [np.zeros(2, np.int8)], None, np.array(["a"], object)]
    check_outputs(outputs, [np.arange(3.0) * (1 + 1e-5), [np.zeros(2, np.int8)], None, np.array(["a"], object)], 1e-3, 1e-7)
