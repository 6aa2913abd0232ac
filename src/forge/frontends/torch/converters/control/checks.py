"""Conditions that a model states: a call for which one does not hold fails with the model's message."""

from __future__ import annotations

import re

from forge import dims
from forge.dims import Dim
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

_EXPECTED = re.compile(r"Runtime assertion failed for expression (.*?)(?: on node '\w+')?", re.DOTALL)
"""What torch says of a condition on sizes that a user stated without words of his own."""


def require(g: Context, condition: Operand, message: str) -> list[Value]:
    """A check of a number that is true or not 0; none where it is known to be."""
    value = g.tensor(condition, "bool")
    known = g.array(value)
    if known is None or not known.all():
        g.call("check", g.reshape(value, ()), message=" ".join(message.split()) or "an assertion of the model failed")
    return []


def _said(g: Context, message: str) -> str:
    """``message`` with the user's names in the place of torch's symbols."""
    found = _EXPECTED.fullmatch(message.strip())
    text = f"expected {found[1]}" if found else message
    known = g.scope.all_symbols()
    return re.sub(r"\bs\d+\b", lambda m: str(known[m[0]]) if m[0] in known else m[0], text)


@converts("_assert_scalar.default")
def assert_scalar(g: Context, self: Operand, assert_msg: str) -> list[Value]:
    return require(g, self, _said(g, assert_msg))


@converts("_assert_async.default", "_assert_async.msg", "_functional_assert_async.msg")
def assert_async(g: Context, self: Operand, assert_msg: str = "") -> list[Value]:
    return require(g, self, assert_msg or "expected a tensor that is true")


@converts("_functional_assert_scalar.default")
def functional_assert_scalar(g: Context, self: Operand, assert_msg: str, *rest: Value) -> list[Value]:
    return require(g, self, _said(g, assert_msg))


@converts("sym_constrain_range.default", "sym_constrain_range_for_size.default")
def constrain_range(
    g: Context, size: Operand, *, min: Dim | None = None, max: Dim | None = None  # noqa: A002
) -> list[Value]:
    for bound, op, sign in ((min, "greater_equal", ">="), (max, "less_equal", "<=")):
        if isinstance(bound, int) and not (sign == ">=" and bound <= 0 and isinstance(size, dims.DimExpr)):
            require(g, g.call(op, g.tensor(size, "int64"), g.constant(bound, "int64")), f"expected {size} {sign} {bound}")
    return []


@converts("_linalg_check_errors.default")
def linalg_check_errors(g: Context, info: Value, api_name: str, *, is_matrix: bool = True) -> list[Value]:
    fits = g.call("equal", info, g.scalar(0, info))
    every = g.call("all", fits, axis=tuple(range(info.rank))) if info.rank else fits
    return require(g, every, f"{api_name}: the computation failed for a matrix; expected one that it exists for")
