"""Operators on strings: their meaning, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.ir.op import get_op
from forge.ops.base import Op


def strings(*values: Any) -> np.ndarray:
    return np.array(values, dtype=object)


def evaluate(name: str, *operands: np.ndarray, **attributes: Any) -> list[Any]:
    op = get_op(name)
    assert isinstance(op, Op)
    return [np.asarray(v).tolist() for v in op.reference(operands, op.make_attrs(attributes))]


def test_concat_broadcasts() -> None:
    assert evaluate("string.concat", strings(["a"], ["b"]), strings("x", "")) == [[["ax", "a"], ["bx", "b"]]]


def test_split_pads_with_empty_strings() -> None:
    assert evaluate("string.split", strings("a,b,c", "d", ""), delimiter=",") == [
        [["a", "b", "c"], ["d", "", ""], ["", "", ""]], [3, 1, 1]
    ]


def test_split_at_white_space_at_most_so_often() -> None:
    assert evaluate("string.split", strings(" a  b c ", "")) == [[["a", "b", "c"], ["", "", ""]], [3, 0]]
    assert evaluate("string.split", strings("a b c"), maxsplit=1) == [[["a", "b c"]], [2]]


def test_split_of_nothing() -> None:
    parts, counts = get_op("string.split").reference([strings()], get_op("string.split").make_attrs({}))
    assert parts.shape == (0, 0) and counts.shape == (0,)


@pytest.mark.parametrize(("sensitive", "kept"), [(True, ["MONDAY", "TUESDAY"]), (False, ["TUESDAY"])])
def test_normalize_compares_before_it_changes_case(sensitive: bool, kept: list[str]) -> None:
    words = strings("Monday", "monday", "Tuesday")
    result = evaluate("string.normalize", words, case_change_action="UPPER", is_case_sensitive=sensitive, stopwords=("monday",))
    assert result == [kept]


def test_normalize_leaves_one_string() -> None:
    assert evaluate("string.normalize", strings(["a", "a"]), stopwords=("a",)) == [[[""]]]


def test_regex_matches_the_whole_string_in_ascii() -> None:
    assert evaluate("string.regex_full_match", strings("12", "12a", "١"), pattern=r"\d+") == [[True, False, False]]
