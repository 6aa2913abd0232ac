"""The element types that an operator takes and gives, out of its rows: each is put in the place of the first operand's."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

import numpy as np

from forge import dtypes
from forge.errors import ForgeError
from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.ops.core.op import Op
from tests.ops.case import Case, Constant
from tests.ops.test_cases import CASES

GROUPS = {
    "integers": tuple(n for n in dtypes.NAMES if dtypes.is_integer(n)),
    "floats": tuple(n for n in dtypes.NAMES if dtypes.is_float(n)),
    "complex": tuple(n for n in dtypes.NAMES if dtypes.is_complex(n)),
}
REFUSALS = (ForgeError, TypeError, ValueError, KeyError)


@cache
def _rows() -> dict[str, list[Case]]:
    rows: dict[str, list[Case]] = defaultdict(list)
    for case in CASES:
        if case.operands and case.operands[0] is not None:
            rows[case.op].append(case)
    return rows


def element_types(op: Op[Any]) -> str:
    """``types of the first operand -> types of the results``; empty where no row tells."""
    given = {d: r for d in dtypes.NAMES if (r := _accepted(op.name, d)) is not None}
    found: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for dtype, results in given.items():
        found[tuple(_described(k, dtype, given) for k in range(len(results)))].append(dtype)
    return "; ".join(f"{_summary(accepted)} -> {', '.join(results)}" for results, accepted in found.items())


def _accepted(op: str, dtype: str) -> list[str] | None:
    return next((r for case in _rows().get(op, ())[:4] if (r := _results(case, dtype))), None)


def _described(position: int, dtype: str, given: dict[str, list[str]]) -> str:
    """A result's type: the same as the operand's, unless it is one type whatever the operand's is."""
    result = given[dtype][position]
    always = len(given) > 1 and all(len(r) > position and r[position] == result for r in given.values())
    return "same" if result == dtype and not always else result


def _results(case: Case, dtype: str) -> list[str] | None:
    """Element types of the results where operands of the type of the first one become ``dtype``; None: refused."""
    arrays = case.arrays()
    assert arrays[0] is not None
    first = arrays[0].dtype
    builder = Builder()
    try:
        operands = [
            None if a is None else _operand(builder, a, dtype if a.dtype == first else None, isinstance(spec, Constant))
            for a, spec in zip(arrays, case.operands, strict=True)
        ]
        return [v.tensor_type.dtype for v in builder.call_multi(case.op, *operands, **case.attrs)]
    except REFUSALS:
        return None


def _operand(builder: Builder, array: np.ndarray[Any, Any], dtype: str | None, is_constant: bool) -> Value:
    if is_constant and dtype in (None, dtypes.canonical(array.dtype)) or dtype is None and array.size <= 64:
        return builder.constant(array)
    return builder.input(TensorType(array.shape, dtype or dtypes.canonical(array.dtype)))


def _summary(names: list[str]) -> str:
    left, parts = list(names), []
    for group, members in GROUPS.items():
        if set(members) <= set(left):
            parts.append(group)
            left = [n for n in left if n not in members]
    return ", ".join([*parts, *left])
