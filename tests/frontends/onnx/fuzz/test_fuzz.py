"""The fuzzer finds nothing in mutants that are always the same; and it does find what is there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from forge.errors import ImportModelError, InternalError
from tests.frontends.onnx.fuzz import execution, worker
from tests.frontends.onnx.fuzz.campaign import run_campaign
from tests.frontends.onnx.fuzz.mutants import Mutants
from tests.frontends.onnx.fuzz.mutate import MUTATIONS


def campaign(seed: int, count: int, compiled: float, workers: int = 1) -> None:
    settings = json.dumps({"models": [], "compiled": compiled})
    findings, notes = run_campaign(seed, range(count), settings, workers)
    assert not findings
    assert sum(n for note, n in notes.items() if note in ("model", "compiled", "ran")) > count / 20, "too few models survive"


def test_some_mutants() -> None:
    campaign(0, 120, compiled=0.03)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_mutants() -> None:
    campaign(1, 3000, compiled=0.1, workers=2)


@pytest.fixture(scope="module")
def mutants() -> Mutants:
    return Mutants()


def test_numbers_name_mutants(mutants: Mutants) -> None:
    first, again, other = (mutants.make(0, number) for number in (5, 5, 6))
    assert first is not None and again is not None and other is not None
    assert first.data == again.data != other.data


def test_every_mutation_happens(mutants: Mutants) -> None:
    steps = {step for number in range(400) if (m := mutants.make(0, number)) is not None for step in m.steps}
    assert {*MUTATIONS, "graft", "bytes"} <= steps


def failing(error: BaseException) -> Any:
    def action() -> None:
        raise error

    return action


@pytest.mark.parametrize("error", [KeyError("x"), MemoryError(), InternalError("x"), RecursionError(), OSError(36, "x")])
def test_other_exceptions_are_findings(error: BaseException) -> None:
    with pytest.raises(worker.Finding):
        worker.attempt("import", failing(error))


def test_memory_errors_in_disguise_are_findings() -> None:
    error = ImportModelError("too large")
    error.__cause__ = MemoryError()
    with pytest.raises(worker.Finding, match="memory"):
        worker.attempt("import", failing(error))


def test_clear_errors_are_none() -> None:
    assert worker.attempt("import", failing(ImportModelError("where: what"))) == "import: ImportModelError"


def test_long_computations_are_findings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mutants: Mutants) -> None:
    monkeypatch.setattr(worker, "SECONDS", -1.0)
    assert worker.run(mutants, "0:1", tmp_path, 0.0)[0].startswith("hang")


def test_crashes_of_compiled_code_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> None:
        os.abort()

    monkeypatch.setattr(execution, "_run", crash)
    assert execution.run_in_child(None, None, []) == "finding crash: signal SIGABRT"  # type: ignore[arg-type]
