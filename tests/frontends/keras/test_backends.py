"""Models that their backend traces, and those that it exports, beside what it computes: each backend in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.frontends.keras.backends import NOT_KERAS
from tests.frontends.keras.record import kept

WAYS = [(backend, "traced") for backend in ("tensorflow", "jax", "torch")] + [
    (backend, "tf_saved_model") for backend in ("tensorflow", "jax")]
PARTS = 12
"""Processes that share the cases of a backend."""


@pytest.mark.sampled(12)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(("backend", "way"), WAYS, ids=["-".join(both) for both in WAYS])
def test_cases(backend: str, way: str, part: int) -> None:
    pytest.importorskip("keras", reason="needs the extra tflite, which has TensorFlow")
    pytest.importorskip(backend, reason=f"needs {backend}, which Keras runs on")
    if way == "tf_saved_model":
        pytest.importorskip("tensorflow", reason="needs the extra tflite, which has TensorFlow")
    names = [case.name for case in kept()][part::PARTS]
    done = subprocess.run(
        [sys.executable, "-m", "tests.frontends.keras.backends", way, *names], capture_output=True, text=True, check=False,
        env={**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"})
    found = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    assert sorted(found) == sorted(names), done.stderr[-2000:]
    assert {name: told for name, told in found.items() if told and not told.startswith(NOT_KERAS)} == {}
