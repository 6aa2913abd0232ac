"""Variants of the other modules' rows: of each operator one row in all element types, with special values, without elements.

What an operator's types refuse, and what its meaning refuses (the largest of nothing), is not a row. Oracles go along where they
compute in any type: where results are bit for bit those of the operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from forge import dtypes
from forge.errors import ForgeError
from forge.ir.op import Accuracy, Kind, Trait, all_ops, get_op
from forge.ops.core.op import Op
from forge.ops.elementwise.rows import Elementwise
from tests.ops import harness
from tests.ops.case import Case, Draw, Fixed
from tests.ops.cases import written
from tests.ops.cases.sweep import COMPUTED, RANK_8, STORED, adversaries

REFUSALS = (ForgeError, ValueError, IndexError, TypeError, ZeroDivisionError)
"""What building or evaluating a row raises that is none."""

SPECIAL = (math.nan, math.inf, -math.inf, -0.0, 1e-42, -1e-42)

MOVING = {"copy", "concatenate", "where"}
"""Operators besides the injective ones whose results are elements of operands."""

OWN_ORACLE = {"as_strided"}
"""Operators whose oracle depends on the size of an element."""

THROUGH_FLOATS = {"image.resize1d", "image.resize2d", "image.resize3d", "nn.upsampling"}
"""Operators that compute with integers as floats, so that the largest ones are inexact."""

WITHOUT_ZERO = {("trilu", "float8_e8m0fnu")}
"""What has no meaning: there is no 0 to put there."""

MIXING = {"fft.fft", "fft.dft", "linalg.eliminate"}
"""Whose NaNs depend on the factorization or the pivots: a NaN or an infinity spreads over results in another way."""


@cache
def _written() -> dict[str, list[Case]]:
    """The rows of the other modules, by operator."""
    rows: dict[str, list[Case]] = {op.name: [] for op in all_ops()}
    for case in written():
        rows[case.op].append(case)
    return rows


def _draw(operand: Any) -> Draw | None:
    operand = operand.operand if isinstance(operand, Fixed) else operand
    return operand if isinstance(operand, Draw) else None


def template(op: str) -> Case | None:
    """A row of the operator whose first operand is drawn, preferably of float32."""
    drawn = [c for c in _written()[op] if c.operands and (d := _draw(c.operands[0])) is not None and math.prod(d.shape)]
    return next((c for c in drawn if _draw(c.operands[0]).dtype == "float32"), drawn[0] if drawn else None)  # type: ignore[union-attr]


def with_operands(case: Case, operands: Sequence[Any], note: str, keep_oracle: bool) -> Case:
    return replace(case, operands=tuple(operands), oracle=case.oracle if keep_oracle else None, note=note, symbolic=False)


def is_row(case: Case) -> bool:
    """Whether the operator takes it."""
    try:
        with np.errstate(all="ignore"):
            harness.run_reference(case)
    except REFUSALS:
        return False
    return True


def _mapped(case: Case, change: Callable[[Draw], Any]) -> list[Any]:
    """The operands, those changed that are drawn in the type of the first one."""
    first = _draw(case.operands[0])
    assert first is not None
    draws = [_draw(o) for o in case.operands]
    return [change(d) if d is not None and d.dtype == first.dtype else o for d, o in zip(draws, case.operands, strict=True)]


def cycled(values: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    return np.resize(values, math.prod(shape)).reshape(shape)


def type_variants(case: Case) -> Iterator[Case]:
    op = get_op(case.op)
    assert isinstance(op, Op)
    moves = op.accuracy is Accuracy.EXACT and (op.kind is Kind.INJECTIVE or op.name in MOVING)
    first = _draw(case.operands[0])
    assert first is not None
    for dtype in (*COMPUTED, *(STORED if moves else ())):
        exact = op.accuracy_on(dtype) is Accuracy.EXACT

        def changed(draw: Draw, dtype: str = dtype, exact: bool = exact) -> Any:
            whole = dtype == "bool" or exact or (dtypes.is_integer(dtype) and case.op not in THROUGH_FLOATS)
            return cycled(adversaries(dtype), draw.shape) if whole else replace(draw, dtype=dtype)

        if (dtype != first.dtype or exact) and (op.name, dtype) not in WITHOUT_ZERO:
            keep = moves and dtypes.is_float(first.dtype) and op.name not in OWN_ORACLE
            yield with_operands(case, _mapped(case, changed), f"type {dtype}", keep)


def special_variants(case: Case) -> Iterator[Case]:
    """Special values at a few places of the first operand."""
    first = _draw(case.operands[0])
    if first is None or not dtypes.is_float(first.dtype) or case.op in MIXING:
        return
    array = first.array(np.random.default_rng(5))
    step = max(1, array.size // len(SPECIAL))
    array.reshape(-1)[::step] = np.resize(SPECIAL, len(array.reshape(-1)[::step]))
    yield with_operands(case, [array, *case.operands[1:]], "special", keep_oracle=False)


def empty_variants(case: Case) -> Iterator[Case]:
    """One extent of the first operand is 0, in the others too that have the same: the first extent of which that is a row."""
    first = _draw(case.operands[0])
    assert first is not None
    for extent in dict.fromkeys(d for d in first.shape if d):
        operands = [_emptied(o, extent) for o in case.operands]
        yield with_operands(case, operands, "empty", keep_oracle=False)


def rank_variants(case: Case) -> Iterator[Case]:
    """Ranks 0 and 8 of what works element by element, whatever the rank."""
    if get_op(case.op).kind is Kind.ELEMENTWISE:  # type: ignore[attr-defined]
        for shape in ((), RANK_8):
            operands = [o if (d := _draw(o)) is None else replace(d, shape=shape, special=()) for o in case.operands]
            yield with_operands(case, operands, f"rank {len(shape)}", keep_oracle=False)


def _emptied(operand: Any, extent: int) -> Any:
    draw = _draw(operand)
    if draw is None:
        return operand
    return replace(draw, shape=tuple(0 if d == extent else d for d in draw.shape), special=())


def variants() -> Iterator[Case]:
    for op in all_ops():
        swept = isinstance(op, Elementwise) and not op.name.startswith("complex.")
        if swept or op.traits & Trait.HOST or (case := template(op.name)) is None:
            continue
        yield from filter(is_row, type_variants(case))
        yield from filter(is_row, special_variants(case))
        yield from filter(is_row, rank_variants(case))
        yield from [c for c in empty_variants(case) if is_row(c)][:1]


CASES = list(variants())
