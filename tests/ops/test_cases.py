"""Every row of ``tests/ops/cases``: reference against oracle, lowering against reference (static and symbolic), text.

``test_compiled`` runs the same rows as machine code; here they are compiled without optimization. ``test_sweep`` has the rows
that are made from declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import numpy as np
import pytest

import forge.ops  # noqa: F401
from forge.errors import ForgeError
from forge.ir.op import Trait, get_op
from forge.ir.parser import parse_module
from forge.ir.printer import print_module
from tests.ops import harness
from tests.ops.case import Case
from tests.ops.cases import written

CASES: list[Case] = written()
WITH_ORACLE = [c for c in CASES if c.oracle is not None]
OPERATORS = list(dict.fromkeys(c.op for c in CASES))
REPORTED = (AssertionError, ForgeError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)


def by_operator(check: Callable[[Case], None]) -> Callable[[str], None]:
    """A test of all rows of an operator: quick checks of many rows cost more as cases of their own than by what they do."""
    @pytest.mark.parametrize("op", OPERATORS)
    def test(op: str) -> None:
        check_all((c for c in CASES if c.op == op), check)

    return test


def check_all(rows: Iterable[Case], check: Callable[[Case], None]) -> None:
    """Runs ``check`` on all rows and reports those that fail."""
    failures = []
    for case in rows:
        try:
            check(case)
        except REPORTED as error:
            failures.append(f"{case.id}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures)


def by_id(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[c.id for c in cases])


def results_of(value: object) -> list[np.ndarray]:
    return [np.asarray(v) for v in value] if isinstance(value, list | tuple) else [np.asarray(value)]


def test_ids_are_unique() -> None:
    ids = [c.id for c in CASES]
    assert len(ids) == len(set(ids)), sorted({i for i in ids if ids.count(i) > 1})


@by_id(WITH_ORACLE)
def test_reference_agrees_with_oracle(case: Case) -> None:
    check_reference(case)


def check_reference(case: Case) -> None:
    assert case.oracle is not None
    with np.errstate(all="ignore"):
        expected = results_of(case.oracle(*case.arrays()))
    actual = harness.run_reference(case)
    assert len(actual) == len(expected)
    for result, wanted in zip(actual, expected, strict=True):
        harness.check_result(case, result, wanted.astype(result.dtype))


@by_id(CASES)
def test_lowering_agrees_with_reference(case: Case) -> None:
    check_lowering(case)


def check_lowering(case: Case) -> None:
    expected = harness.run_reference(case)
    try:
        actual = harness.run_lowered(case)
    except harness.NotLowered as missing:
        pytest.skip(f"{missing} has no tensor expressions")
    for result, wanted in zip(actual, expected, strict=True):
        harness.check_result(case, result, wanted)


@pytest.mark.slow
@by_id([c for c in CASES if not get_op(c.op).traits & Trait.HOST])
def test_compiled_without_optimization_agrees_with_reference(case: Case) -> None:
    expected = harness.run_reference(case)
    actual = harness.compile_and_run(case, opt_level=0)
    assert len(actual) == len(expected)
    for result, wanted in zip(actual, expected, strict=True):
        harness.check_result(case, result, wanted)


def check_symbolic_lowering(case: Case) -> None:
    if case.symbolic:
        expected = harness.run_reference(case, symbolic=True)
        with suppress(harness.NotLowered):
            for result, wanted in zip(harness.run_lowered(case, symbolic=True), expected, strict=True):
                harness.check_result(case, result, wanted)


def check_text(case: Case) -> None:
    text = print_module(harness.module_of(case, symbolic=case.symbolic), metadata=True)
    assert print_module(parse_module(text), metadata=True) == text


test_symbolic_lowering_agrees_with_reference = by_operator(check_symbolic_lowering)
test_text_round_trip = by_operator(check_text)
