"""Models that run on a few samples: how they are compiled changes no result."""

from __future__ import annotations

import pytest

from forge.driver import pipeline
from forge.ir.saved import hashing
from forge.quantization import trial
from tests.quantization.nets import record


def test_light_trials_are_compiled_quickly_and_quantise_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_CACHE", "0")
    levels: list[set[int]] = []
    compiled = pipeline.compile_modules
    monkeypatch.setattr(pipeline, "compile_modules", lambda modules, target, levels_, progress: (
        levels.append(set(levels_)), compiled(modules, target, levels_, progress))[1])
    found = []
    for light in (trial.LIGHT, 0):
        levels.clear()
        monkeypatch.setattr(trial, "LIGHT", light)
        found.append(hashing.fingerprint(record().module))
        assert levels and all((level == {pipeline.QUICK}) == (light > 0) for level in levels)
    assert found[0] == found[1]
