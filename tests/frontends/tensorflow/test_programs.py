"""Whole programs: what TensorFlow gave for each call (`record_programs`), interpreted and compiled, without TensorFlow."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from tests.frontends.tensorflow.record_programs import Recorded, kept

NAMES = sorted(kept())
MAIN = ("main", "serving_default")
TOLERANCE = 2e-5
"""Of the largest element: programs are long chains of float32."""


@cache
def recorded() -> dict[str, Recorded]:
    return kept()


def check(name: str, folder: Path, *how: str) -> None:
    program = recorded()[name]
    outputs = [text.removesuffix(":0") for text in program.outputs] or None
    run = forge.from_tensorflow(program.write(folder), outputs=outputs).get_inference_function(*how)
    for signature, inputs, expected in program.calls:
        called: Any = run if signature in MAIN else run[signature]  # type: ignore[index]
        given = called(**inputs)
        found = list(given) if isinstance(given, list | tuple) else [given]
        for (key, wanted), one in zip(sorted(expected.items()) if not outputs else expected.items(), found, strict=True):
            compare(f"{signature}: {key}", np.asarray(one), wanted)


def compare(where: str, found: np.ndarray, wanted: np.ndarray) -> None:
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), where
    bound = TOLERANCE * max(float(np.abs(wanted).max(initial=0)), 1e-3) if wanted.dtype.kind == "f" else 0
    assert np.abs(found.astype(np.float64) - wanted).max(initial=0) <= bound, where


@pytest.mark.parametrize("name", NAMES)
def test_interpreted(name: str, tmp_path: Path) -> None:
    if any(signature not in MAIN for signature, _, _ in recorded()[name].calls):
        pytest.skip("the interpreter runs the main function only")
    check(name, tmp_path, "reference")


@pytest.mark.parametrize("name", NAMES)
def test_compiled(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)
