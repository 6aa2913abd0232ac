"""Models that run on a few samples: how they are compiled changes no result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from forge.backends import cpu
from forge.codegen.compile import QUICK, compile_modules
from forge.ir.saved import hashing
from forge.quantization.observed import trial
from tests.quantization.nets import record


def test_light_trials_are_compiled_quickly_and_quantize_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_CACHE", "objects")
    used: list[int] = []

    def compiled(modules: Sequence[tuple[str, str]], target: Any, level: int, *others: Any) -> list[bytes]:
        used.append(level)
        return compile_modules(modules, target, level, *others)

    monkeypatch.setattr(cpu, "compile_modules", compiled)
    found = []
    for light in (trial.LIGHT, 0):
        used.clear()
        monkeypatch.setattr(trial, "LIGHT", light)
        found.append(hashing.fingerprint(record().module))
        assert used and all((level == QUICK) == (light > 0) for level in used)
    assert found[0] == found[1]
