"""The rows that ``tests/ops/cases/sweep*`` make from declarations, by operator: three ways, as machine code on three CPUs.

They are many and alike: one test runs all of an operator. The quick run compiles one row in ``SHARDS``, chosen by name.
"""

from __future__ import annotations

import zlib
from collections import defaultdict

import pytest

from forge.target import Target
from tests.ops import harness
from tests.ops.case import Case
from tests.ops.cases import made
from tests.ops.test_cases import check_all, check_reference, check_text
from tests.ops.test_compiled import TARGETS, check_compiled

SHARDS = 24


def by_operator() -> dict[str, list[Case]]:
    rows: dict[str, list[Case]] = defaultdict(list)
    for case in made():
        rows[case.op].append(case)
    return rows


ROWS = by_operator()
operators = pytest.mark.parametrize("op", ROWS)


def check_lowered(case: Case) -> None:
    for symbolic in {False, case.symbolic}:
        expected = harness.run_reference(case, symbolic)
        try:
            actual = harness.run_lowered(case, symbolic)
        except harness.NotLowered:
            return
        for result, wanted in zip(actual, expected, strict=True):
            harness.check_result(case, result, wanted)


def test_ids_are_unique() -> None:
    ids = [c.id for rows in ROWS.values() for c in rows]
    assert len(ids) == len(set(ids)), sorted({i for i in ids if ids.count(i) > 1})


@operators
def test_reference_agrees_with_oracle(op: str) -> None:
    check_all((c for c in ROWS[op] if c.oracle is not None), check_reference)


@operators
def test_lowering_agrees_with_reference(op: str) -> None:
    check_all(ROWS[op], check_lowered)


@operators
def test_text_round_trip(op: str) -> None:
    check_all(ROWS[op], check_text)


def check_machine_code(case: Case, target: str) -> None:
    for symbolic in {False, case.symbolic}:
        check_compiled(case, symbolic, TARGETS[target])


def is_quick(case: Case) -> bool:
    return zlib.crc32(case.id.encode()) % SHARDS == 0


@operators
def test_some_rows_on_this_machine(op: str) -> None:
    check_all(filter(is_quick, ROWS[op]), lambda case: check_machine_code(case, "host"))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@operators
def test_all_rows_on_all_machines(op: str, target: str) -> None:
    if Target.parse(TARGETS[target]).missing_on_host():
        pytest.skip(f"this machine is below {target}")
    check_all(ROWS[op], lambda case: check_machine_code(case, target))


@pytest.mark.slow
@operators
def test_all_rows_without_optimization(op: str) -> None:
    def check(case: Case) -> None:
        for result, wanted in zip(harness.compile_and_run(case, opt_level=0), harness.run_reference(case), strict=True):
            harness.check_result(case, result, wanted)

    check_all(ROWS[op], check)
