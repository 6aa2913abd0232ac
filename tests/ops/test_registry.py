"""Every registered operator is complete, or listed here as what it lacks."""

from __future__ import annotations

import pytest

import forge.ops  # noqa: F401
from forge.ir.op import OpDef, all_ops
from forge.kernels.contract import FAMILIES
from forge.lowering.objects import HOSTED
from forge.ops.base import Op

OPERATORS = [op for op in all_ops() if isinstance(op, Op)]
WITHOUT_NATIVE_CODE: set[str] = set()


def by_name(operators: list[Op]) -> pytest.MarkDecorator:  # type: ignore[type-arg]
    return pytest.mark.parametrize("op", operators, ids=[op.name for op in operators])


def overrides(op: OpDef, method: str) -> bool:  # type: ignore[type-arg]
    return getattr(type(op), method) is not getattr(Op, method)


@by_name(OPERATORS)
def test_has_a_docstring_of_its_own(op: Op) -> None:  # type: ignore[type-arg]
    assert type(op).__doc__ and type(op).__doc__ != Op.__doc__


@by_name(OPERATORS)
def test_has_inference_and_meaning(op: Op) -> None:  # type: ignore[type-arg]
    assert overrides(op, "infer")
    assert overrides(op, "reference") or overrides(op, "reference_regions")


@by_name(OPERATORS)
def test_only_the_last_operand_is_variadic(op: Op) -> None:  # type: ignore[type-arg]
    assert not any(o.variadic for o in op.operands[:-1])


def has_native_code(op: Op) -> bool:  # type: ignore[type-arg]
    return overrides(op, "lower") or overrides(op, "decompose") or op.kernel in FAMILIES or op.name in HOSTED


def test_operators_without_native_code_are_these() -> None:
    missing = {op.name for op in OPERATORS if not has_native_code(op)}
    assert missing == {op.name for op in OPERATORS if op.lowering_missing}
    assert missing == WITHOUT_NATIVE_CODE


def test_names_of_operands_differ() -> None:
    for op in OPERATORS:
        names = [o.name for o in op.operands]
        assert len(set(names)) == len(names), op.name


def test_kernel_families_that_operators_name_exist() -> None:
    named = {op.name: op.kernel for op in OPERATORS if op.kernel is not None}
    assert not {name: kernel for name, kernel in named.items() if kernel not in FAMILIES}
    assert set(FAMILIES) == set(named.values())
