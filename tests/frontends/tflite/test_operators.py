"""Each builtin operator, float and in each quantised form, beside what TFLite's interpreter gave (`record`).

Floats agree with its reference kernels to their accuracy. Integers differ by at most one step from its reference kernels and from
its fast ones, and ``MOST_EQUAL`` of them are equal to the former.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import forge
from tests.frontends.tflite.case import QUANTISED, Case
from tests.frontends.tflite.cases import CASES
from tests.frontends.tflite.record import Result, kept, shapes_and_ranges

MOST_EQUAL = 0.999


@cache
def recorded() -> dict[str, list[Result]]:
    return kept()


def outcome(case: Case, *how: str) -> list[np.ndarray]:
    """What Forge gives: compiled, or by ``how``."""
    data, inputs = case.made(*shapes_and_ranges(case, recorded()))
    found: Any = forge.from_tflite(data).get_inference_function(*how)(*inputs)
    return [np.asarray(one) for one in (found if isinstance(found, list | tuple) else [found])]


def difference(case: Case, found: Sequence[np.ndarray], expected: Sequence[Result]) -> str:
    """What is wrong; "" where nothing is."""
    equal = count = 0
    largest = {"reference": 0.0, "fast": 0.0}
    for whole, wanted in zip(found, expected, strict=True):
        one, reference, fast = whole.reshape(-1)[:: wanted.step], wanted.elements, wanted.fast
        if whole.shape != wanted.shape or one.dtype != reference.dtype:
            return f"got {one.dtype}{whole.shape}; expected {reference.dtype}{wanted.shape}"
        if one.dtype.kind in "fc":
            wide = np.complex128 if one.dtype.kind == "c" else np.float64
            bound = case.accuracy * max(float(np.abs(reference).max(initial=0)), 1e-30)
            away = float(np.abs(one.astype(wide) - reference.astype(wide)).max(initial=0))
            if not away <= bound:
                return f"differs by {away:.3g}; expected at most {bound:.3g}"
            continue
        one, reference, fast = (v.astype(np.float64) for v in (one, reference, fast))
        largest["reference"] = max(largest["reference"], float(np.abs(one - reference).max(initial=0)))
        # Where both kinds of kernels are several steps apart, no result is within one step of both.
        largest["fast"] = max(largest["fast"], float((np.abs(one - fast) - np.abs(reference - fast)).max(initial=0)))
        equal += int((one == reference).sum())
        count += one.size
    if max(largest.values()) > (1 if case.form in QUANTISED else 0) or (equal < MOST_EQUAL * count and not case.is_inexact):
        return f"{equal / max(count, 1):.5f} of {count} are equal to the reference kernels'; largest differences {largest}"
    return ""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reference(case: Case) -> None:
    assert difference(case, outcome(case, "reference"), recorded()[case.name]) == ""


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_compiled(case: Case) -> None:
    assert difference(case, outcome(case), recorded()[case.name]) == ""
