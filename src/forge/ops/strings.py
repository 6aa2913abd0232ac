"""Operators on strings. They run on the host: no native code exists for them, and compilation refuses them by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from forge.ir.types import TensorType
from forge.ops.base import NoAttrs, Operand, register
from forge.ops.infer_helpers import broadcast_shapes, expect_dtype, fail, fresh_dims, object_array, tensor
from forge.ops.sequence import HostOp
from forge.ops.signatures import Array, Arrays, Regions, Types, Values

_CHANGES: dict[str, Callable[[str], str]] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}

_BEYOND_RE2 = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<found>\(\?(?:[=!>(]|<[=!]|P=)|[*+?}]\+)", re.DOTALL)
_BACKREFERENCE = re.compile(r"\\[1-9]")


def _strings(op: str, operands: Values, position: int, name: str) -> TensorType:
    type_ = tensor(op, operands[position], name)
    expect_dtype(op, type_, name, "string")
    return type_


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _mapped(data: Array) -> list[str]:
    """The elements as ``str``, in row-major order."""
    return [_text(v) for v in data.reshape(-1).tolist()]


@register
class StringConcat(HostOp):
    """a followed by b, element by element, with NumPy's broadcasting."""

    name = "string.concat"
    operands = (Operand("a"), Operand("b"))

    def infer(self, operands: Values, attrs: NoAttrs, regions: Regions = ()) -> Types:
        types = [_strings(self.name, operands, k, o.name) for k, o in enumerate(self.operands)]
        return [TensorType(broadcast_shapes(self.name, *(t.shape for t in types)), "string")]

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        left, right = np.broadcast_arrays(*operands)
        return [object_array([x + y for x, y in zip(_mapped(left), _mapped(right), strict=True)], left.shape)]


@dataclass(frozen=True)
class StringSplitAttrs:
    delimiter: str = ""
    maxsplit: int | None = None


@register
class StringSplit(HostOp):
    """The parts of every string between ``delimiter``s (empty: runs of white space), after at most ``maxsplit`` cuts.

    Results: the parts along a new last dimension, with empty strings after the last one; their numbers.
    """

    name = "string.split"
    operands = (Operand("data"),)
    Attrs = StringSplitAttrs

    def infer(self, operands: Values, attrs: StringSplitAttrs, regions: Regions = ()) -> Types:
        data = _strings(self.name, operands, 0, "data")
        return [TensorType((*data.shape, *fresh_dims("parts", 1)), "string"), TensorType(data.shape, "int64")]

    def reference(self, operands: Arrays, attrs: StringSplitAttrs) -> Arrays:
        data = operands[0]
        limit = -1 if attrs.maxsplit is None else attrs.maxsplit
        rows = [text.split(attrs.delimiter or None, limit) for text in _mapped(data)]
        counts = np.array([len(row) for row in rows], np.int64).reshape(data.shape)
        most = max(map(len, rows), default=0)
        parts = [part for row in rows for part in row + [""] * (most - len(row))]
        return [object_array(parts, (*data.shape, most)), counts]


@dataclass(frozen=True)
class StringNormalizeAttrs:
    case_change_action: str = "NONE"
    is_case_sensitive: bool = False
    stopwords: tuple[str, ...] = ()


@register
class StringNormalize(HostOp):
    """The strings of a vector, or of a matrix of one row, that are not among ``stopwords``, in lower or upper case.

    ``is_case_sensitive`` tells how strings are compared with stopwords. One empty string is left where none remains.
    """

    name = "string.normalize"
    operands = (Operand("data"),)
    Attrs = StringNormalizeAttrs

    def infer(self, operands: Values, attrs: StringNormalizeAttrs, regions: Regions = ()) -> Types:
        data = _strings(self.name, operands, 0, "data")
        if data.rank not in (1, 2) or (data.rank == 2 and data.shape[0] != 1):
            raise fail(self.name, "operand 'data'", data, "a vector, or a matrix of one row")
        if attrs.case_change_action not in _CHANGES:
            raise fail(self.name, "attribute case_change_action", attrs.case_change_action, ", ".join(_CHANGES))
        return [TensorType((*data.shape[:-1], *fresh_dims("words", 1)), "string")]

    def reference(self, operands: Arrays, attrs: StringNormalizeAttrs) -> Arrays:
        def key(text: str) -> str:
            return text if attrs.is_case_sensitive else text.lower()

        stops = {key(word) for word in attrs.stopwords}
        change = _CHANGES[attrs.case_change_action]
        kept = [change(text) for text in _mapped(operands[0]) if key(text) not in stops] or [""]
        return [object_array(kept, (*operands[0].shape[:-1], len(kept)))]


@dataclass(frozen=True)
class RegexFullMatchAttrs:
    pattern: str


@register
class RegexFullMatch(HostOp):
    """Whether ``pattern`` matches every string as a whole.

    The syntax is what RE2 and Python's ``re`` have in common; classes such as \\w are of ASCII. Look-around, backreferences,
    atomic groups and possessive repeats, which RE2 has not, are refused. Python's matcher backtracks: unlike RE2, it may
    take time exponential in a string's length where repeats are nested or overlap, as in ``(a+)+``; do not take patterns
    from those who are not trusted.
    """

    name = "string.regex_full_match"
    operands = (Operand("data"),)
    Attrs = RegexFullMatchAttrs

    def infer(self, operands: Values, attrs: RegexFullMatchAttrs, regions: Regions = ()) -> Types:
        self._compiled(attrs)
        return [TensorType(_strings(self.name, operands, 0, "data").shape, "bool")]

    def _compiled(self, attrs: RegexFullMatchAttrs) -> re.Pattern[str]:
        for match in _BEYOND_RE2.finditer(attrs.pattern):
            if match["found"] or _BACKREFERENCE.fullmatch(match[0]):
                raise fail(self.name, "attribute pattern", f"{match[0]!r} in {attrs.pattern!r}", "syntax of RE2")
        try:
            return re.compile(attrs.pattern, re.ASCII)
        except re.error as error:
            raise fail(self.name, "attribute pattern", repr(attrs.pattern), f"a regular expression: {error}") from None

    def reference(self, operands: Arrays, attrs: RegexFullMatchAttrs) -> Arrays:
        pattern = self._compiled(attrs)
        found = [pattern.fullmatch(text) is not None for text in _mapped(operands[0])]
        return [np.array(found, dtype=bool).reshape(operands[0].shape)]


__all__ = ["RegexFullMatch", "StringConcat", "StringNormalize", "StringSplit"]
