"""Operators on strings. Compiled code calls a routine of the runtime for each (``forge.kernels.cpu.strings``).

Operands that the decomposition of an operator adds (tables, numbers of results) come last; the attributes give their contents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from forge import dims
from forge.ops.core.inference import broadcast_shapes, fail, fresh_dims, object_array
from forge.ops.core.lowering import new_symbols, scalar
from forge.ops.core.op import Category, NoAttrs, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Dim, Symbols, Tensor, TensorType, TensorTypes, Types, Value, Values
from forge.ops.core.strings import ESCAPED, text_of, texts, whole
from forge.ops.text import case_tables, regex

A = TypeVar("A")


class StringOp(Op[A]):
    """An operator that a routine of the runtime computes."""

    kernel = "strings"
    category = Category.OTHER


def _constant(builder: Builder, *words: str, scalar: bool = False) -> Value:
    return builder.constant(object_array(list(words), () if scalar else (len(words),)))


class BroadcastOp(StringOp[NoAttrs]):
    """An operator on two tensors of strings, with NumPy's broadcasting."""

    a, b = Operand(accepts="string"), Operand(accepts="string")
    result_dtype = "string"

    def infer(self, attrs: NoAttrs, a: Value, b: Value) -> Types:
        return [TensorType(broadcast_shapes(self.name, a.shape, b.shape), self.result_dtype)]

    def pairs(self, a: Array, b: Array) -> tuple[list[tuple[str, str]], tuple[int, ...]]:
        """The texts that meet, and the shape."""
        left, right = np.broadcast_arrays(a, b)
        return list(zip(texts(left), texts(right), strict=True)), left.shape

    def decompose(self, builder: Builder, attrs: NoAttrs, a: Value, b: Value) -> Values | None:
        """Operands of the result's shape."""
        shape = broadcast_shapes(self.name, a.shape, b.shape)
        if all(_equal_shapes(v.shape, shape) for v in (a, b)):
            return None
        return [builder.call(self, *(_broadcast(builder, v, shape) for v in (a, b)))]


def _equal_shapes(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    return len(a) == len(b) and all(dims.equal(x, y) for x, y in zip(a, b, strict=True))


def _broadcast(builder: Builder, value: Value | None, shape: tuple[Dim, ...]) -> Value:
    assert value is not None
    return value if _equal_shapes(value.shape, shape) else builder.call("broadcast_to", value, shape=shape)


@register
class StringConcat(BroadcastOp):
    """a followed by b, element by element, with NumPy's broadcasting."""

    name = "string.concat"

    def reference(self, attrs: NoAttrs, a: Array, b: Array) -> Arrays:
        pairs, shape = self.pairs(a, b)
        return [object_array([whole(x + y) for x, y in pairs], shape)]


@register
class StringEqual(BroadcastOp):
    """Whether a and b are the same text, element by element."""

    name = "string.equal"
    result_dtype = "bool"

    def reference(self, attrs: NoAttrs, a: Array, b: Array) -> Arrays:
        pairs, shape = self.pairs(a, b)
        return [np.array([x == y for x, y in pairs], bool).reshape(shape)]


@register
class StringNotEqual(BroadcastOp):
    """Whether a and b are different texts, element by element."""

    name = "string.not_equal"
    result_dtype = "bool"

    def reference(self, attrs: NoAttrs, a: Array, b: Array) -> Arrays:
        pairs, shape = self.pairs(a, b)
        return [np.array([x != y for x, y in pairs], bool).reshape(shape)]


@dataclass(frozen=True)
class UnpackAttrs:
    shape: tuple[Dim, ...]


@register
class StringUnpack(StringOp[UnpackAttrs]):
    """The strings of a constant, of ``shape``, from bytes: where each ends (int64), then the characters.

    Lowering makes it of string constants, whose addresses are known only when the library is loaded.
    """

    name = "string.unpack"
    packed = Operand(accepts="uint8")

    def infer(self, attrs: UnpackAttrs, packed: Value) -> Types:
        return [TensorType(attrs.shape, "string")]

    def reference(self, attrs: UnpackAttrs, packed: Array) -> Arrays:
        raw = packed.tobytes()
        shape = [int(d) for d in attrs.shape if isinstance(d, int)]
        count = math.prod(shape)
        ends = np.frombuffer(raw, np.int64, count).tolist()
        spans = zip([0, *ends], ends, strict=False)
        return [object_array([text_of(raw[8 * count :][begin:end]) for begin, end in spans], shape)]


@dataclass(frozen=True)
class StringSplitAttrs:
    delimiter: str = ""
    maxsplit: int | None = None


def _split(data: Array, attrs: StringSplitAttrs) -> list[list[str]]:
    limit = -1 if attrs.maxsplit is None else attrs.maxsplit
    return [text.split(attrs.delimiter or None, limit) for text in texts(data)]


@register
class StringMostParts(StringOp[StringSplitAttrs]):
    """The largest number of parts that ``string.split`` finds in a string. Operand delimiter is added by its decomposition."""

    name = "string.most_parts"
    data, delimiter = Operand(accepts="string"), Operand()

    def infer(self, attrs: StringSplitAttrs, data: Value, *_: object) -> Types:
        return [TensorType((), "int64")]

    def reference(self, attrs: StringSplitAttrs, data: Array, *_: object) -> Arrays:
        return [np.array(max(map(len, _split(data, attrs)), default=0), np.int64)]


@register
class StringSplit(StringOp[StringSplitAttrs]):
    """The parts of every string between ``delimiter``s (empty: runs of Unicode's white space), after at most ``maxsplit`` cuts.

    Results: the parts along a new last dimension, with empty strings after the last one; their numbers.
    Operands delimiter and most, the size of the new dimension, are added by the decomposition.
    """

    name = "string.split"
    data, delimiter, most = Operand(accepts="string"), Operand(optional=True), Operand(optional=True)

    def infer(self, attrs: StringSplitAttrs, data: Value, *_: object) -> Types:
        if ESCAPED.search(attrs.delimiter):
            raise fail(self.name, "attribute delimiter", ascii(attrs.delimiter), "text, not single bytes")
        return [TensorType((*data.shape, *fresh_dims("parts", 1)), "string"), TensorType(data.shape, "int64")]

    def reference(self, attrs: StringSplitAttrs, data: Array, *_: object) -> Arrays:
        rows, shape = _split(data, attrs), data.shape
        counts = np.array([len(row) for row in rows], np.int64).reshape(shape)
        most = max(map(len, rows), default=0)
        parts = [part for row in rows for part in row + [""] * (most - len(row))]
        return [object_array(parts, (*shape, most)), counts]

    def define_symbols(
        self, attrs: StringSplitAttrs, results: TensorTypes, data: Tensor, delimiter: Tensor | None, most: Tensor | None
    ) -> Symbols:
        return {} if most is None else new_symbols(TensorType(results[0].shape[-1:], "int64"), [scalar(most)])

    def decompose(
        self, builder: Builder, attrs: StringSplitAttrs, data: Value, delimiter: Value | None, most: Value | None
    ) -> Values | None:
        if most is not None:
            return None
        options: dict[str, Any] = {"delimiter": attrs.delimiter, "maxsplit": attrs.maxsplit}
        delimiter = _constant(builder, attrs.delimiter, scalar=True)
        most = builder.call("string.most_parts", data, delimiter, **options)
        return list(builder.call_multi(self, data, delimiter, most, **options))


@dataclass(frozen=True)
class StringNormalizeAttrs:
    case_change_action: str = "NONE"
    is_case_sensitive: bool = False
    stopwords: tuple[str, ...] = ()


def _kept(data: Array, attrs: StringNormalizeAttrs) -> list[str]:
    fold = "NONE" if attrs.is_case_sensitive else "LOWER"
    stops = {case_tables.change_case(word, fold) for word in attrs.stopwords}
    return [text for text in texts(data) if case_tables.change_case(text, fold) not in stops]


@register
class StringCountWords(StringOp[StringNormalizeAttrs]):
    """How many strings ``string.normalize`` gives. Operands stopwords and folds are added by its decomposition."""

    name = "string.count_words"
    data, stopwords, folds = Operand(accepts="string"), Operand(), Operand()

    def infer(self, attrs: StringNormalizeAttrs, data: Value, *_: object) -> Types:
        return [TensorType((), "int64")]

    def reference(self, attrs: StringNormalizeAttrs, data: Array, stopwords: Array, folds: Array) -> Arrays:
        return [np.array(max(1, len(_kept(data, attrs))), np.int64)]


@register
class StringNormalize(StringOp[StringNormalizeAttrs]):
    """The strings of a vector, or of a matrix of one row, that are not among ``stopwords``, in lower or upper case.

    ``is_case_sensitive`` says how strings are compared with stopwords. One empty string is left where none remains.
    Every code point changes its case by itself, where its other case is one code point. Operands stopwords, folds and changes
    (tables of cases) and count (the size of the result) are added by the decomposition.
    """

    name = "string.normalize"
    data, stopwords = Operand(accepts="string"), Operand(optional=True)
    folds, changes, count = Operand(optional=True), Operand(optional=True), Operand(optional=True)

    def infer(self, attrs: StringNormalizeAttrs, data: Value, *_: object) -> Types:
        if data.rank not in (1, 2) or (data.rank == 2 and data.shape[0] != 1):
            raise fail(self.name, "operand 'data'", data.type, "a vector, or a matrix of one row")
        if attrs.case_change_action not in case_tables.CHANGES:
            raise fail(self.name, "attribute case_change_action", attrs.case_change_action, ", ".join(case_tables.CHANGES))
        return [TensorType((*data.shape[:-1], *fresh_dims("words", 1)), "string")]

    def reference(self, attrs: StringNormalizeAttrs, data: Array, *_: object) -> Arrays:
        kept = [case_tables.change_case(text, attrs.case_change_action) for text in _kept(data, attrs)] or [""]
        return [object_array(kept, (*data.shape[:-1], len(kept)))]

    def define_symbols(self, attrs: StringNormalizeAttrs, results: TensorTypes, *operands: Tensor | None) -> Symbols:
        count = operands[-1]
        return {} if count is None else new_symbols(TensorType(results[0].shape[-1:], "int64"), [scalar(count)])

    def decompose(self, builder: Builder, attrs: StringNormalizeAttrs, data: Value, *given: Value | None) -> Values | None:
        if given[-1] is not None:
            return None
        options: dict[str, Any] = {"case_change_action": attrs.case_change_action, "is_case_sensitive": attrs.is_case_sensitive,
                                   "stopwords": attrs.stopwords}
        folds = builder.constant(case_tables.table("NONE" if attrs.is_case_sensitive else "LOWER"))
        changes = builder.constant(case_tables.table(attrs.case_change_action))
        stopwords = _constant(builder, *attrs.stopwords)
        count = builder.call("string.count_words", data, stopwords, folds, **options)
        return [builder.call(self, data, stopwords, folds, changes, count, **options)]


@dataclass(frozen=True)
class RegexFullMatchAttrs:
    pattern: str


@register
class RegexFullMatch(StringOp[RegexFullMatchAttrs]):
    """Whether ``pattern`` matches every string as a whole.

    The syntax is that of RE2 (``forge.ops.text.regex`` lists it); the time is at most the product of the lengths of program and
    string.
    Operand program, the compiled pattern, is added by the decomposition.
    """

    name = "string.regex_full_match"
    data, program = Operand(accepts="string"), Operand(optional=True)

    def infer(self, attrs: RegexFullMatchAttrs, data: Value, program: Value | None) -> Types:
        regex.compile_pattern(attrs.pattern)
        return [TensorType(data.shape, "bool")]

    def reference(self, attrs: RegexFullMatchAttrs, data: Array, *_: object) -> Arrays:
        program = regex.compile_pattern(attrs.pattern)
        found = [program.matches(text) for text in texts(data)]
        return [np.array(found, dtype=bool).reshape(data.shape)]

    def decompose(self, builder: Builder, attrs: RegexFullMatchAttrs, data: Value, program: Value | None) -> Values | None:
        if program is not None:
            return None
        program = builder.constant(regex.compile_pattern(attrs.pattern).table())
        return [builder.call(self, data, program, pattern=attrs.pattern)]
