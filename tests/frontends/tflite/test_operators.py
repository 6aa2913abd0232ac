"""Each builtin operator, float and in each quantized form, beside what TFLite's interpreter gave (`record`).

Floats agree with its reference kernels to their accuracy. Integers differ by at most one step from its reference kernels and from
its fast ones, and ``MAX_EQUAL`` of them are equal to the former: where these round by fixed point, Forge rounds floats at nearly
the same places (`forge.frontends.tflite.quantized`). Rows say why fewer are, where it is so.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import forge
from forge.frontends.support import CONVERTER
from forge.frontends.tflite.coverage import coverage
from tests.frontends.tflite import test_stablehlo
from tests.frontends.tflite.case import QUANTIZED, Case
from tests.frontends.tflite.cases import CASES
from tests.frontends.tflite.record import Result, kept, record, shapes_and_ranges

MAX_EQUAL = 0.999


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
    if max(largest.values()) > (1 if case.form in QUANTIZED else 0) or (equal < MAX_EQUAL * count and not case.is_inexact):
        return f"{equal / max(count, 1):.5f} of {count} are equal to the reference kernels'; largest differences {largest}"
    return ""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reference(case: Case) -> None:
    assert difference(case, outcome(case, "reference"), recorded()[case.name]) == ""


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_compiled(case: Case) -> None:
    assert difference(case, outcome(case), recorded()[case.name]) == ""


WITHOUT_CASES = frozenset(
    "ASSIGN_VARIABLE CALL_ONCE HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE IF READ_VARIABLE VAR_HANDLE WHILE "
    "STABLEHLO_CASE STABLEHLO_COMPOSITE STABLEHLO_WHILE "  # test_control.py
    "DENSIFY MULTINOMIAL RANDOM_STANDARD_NORMAL RANDOM_UNIFORM "  # test_random.py
    "STABLEHLO_CUSTOM_CALL STABLEHLO_RNG_BIT_GENERATOR".split()) | {f"STABLEHLO_{one.op}" for one in test_stablehlo.ROWS}
"""Operators whose models another module makes, such as those with several subgraphs."""


def test_operators_have_cases() -> None:
    with_converter = {row.op for row in coverage() if not row.domain and row.how == CONVERTER}
    assert with_converter - {case.row.op for case in CASES} == WITHOUT_CASES


def test_what_was_recorded_is_what_the_cases_are() -> None:
    assert list(recorded()) == [case.name for case in CASES], "python -m tests.frontends.tflite.record"


@pytest.mark.sampled(10, by_name=True)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_recorded(case: Case) -> None:
    """The interpreter that is installed gives what was recorded."""
    pytest.importorskip("ai_edge_litert")
    for one, other in zip(record(case, recorded()), recorded()[case.name], strict=True):
        assert one.shape == other.shape
        if one.elements.dtype.kind in "fc":
            np.testing.assert_allclose(one.elements, other.elements, rtol=1e-5, atol=1e-5 * max(map(abs, other.range)))
        else:
            np.testing.assert_array_equal(one.elements, other.elements)
            off = np.abs(np.asarray(one.fast, np.int64) - np.asarray(other.fast, np.int64))
            assert off.max(initial=0) <= 1  # fast kernels are those of the processor
