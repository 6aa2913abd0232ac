"""Operators on strings. Compiled code calls a routine of the runtime for each (``forge.kernels.cpu.strings``).

Operands that the decomposition of an operator adds (tables, numbers of results) come last; the attributes tell their contents.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from forge import dims
from forge.dims import Dim
from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.op import Category, Kind, NoAttrs, Operand
from forge.ir.types import TensorType
from forge.ops.core.inference import broadcast_shapes, expect_dtype, fail, fresh_dims, object_array, tensor
from forge.ops.core.lowering import new_symbols, optional_operand, scalar
from forge.ops.core.op import Op, register
from forge.ops.core.signatures import Array, Arrays, Regions, Tensors, TensorTypes, Types, Values
from forge.ops.core.strings import ESCAPED, text_of, texts, whole
from forge.ops.text import case_tables, regex
from forge.te import Expr

A = TypeVar("A")


class StringOp(Op[A]):
    """An operator that a routine of the runtime computes."""

    kind = Kind.OPAQUE
    kernel = "strings"
    category = Category.OTHER


def string_type(op: str, operands: Values, position: int, name: str) -> TensorType:
    type_ = tensor(op, operands[position], name)
    expect_dtype(op, type_, name, "string")
    return type_


def _constant(builder: Builder, *words: str, scalar: bool = False) -> Value:
    return builder.constant(object_array(list(words), () if scalar else (len(words),)))


class BroadcastOp(StringOp[NoAttrs]):
    """An operator on two tensors of strings, with NumPy's broadcasting."""

    a, b = Operand(), Operand()
    result_dtype = "string"

    def infer(self, operands: Values, attrs: NoAttrs, regions: Regions = ()) -> Types:
        types = [string_type(self.name, operands, k, o.name) for k, o in enumerate(self.operands)]
        return [TensorType(broadcast_shapes(self.name, *(t.shape for t in types)), self.result_dtype)]

    def pairs(self, operands: Arrays) -> tuple[list[tuple[str, str]], tuple[int, ...]]:
        """The texts that meet, and the shape."""
        left, right = np.broadcast_arrays(*operands)
        return list(zip(texts(left), texts(right), strict=True)), left.shape

    def decompose(self, builder: Builder, operands: Values, attrs: NoAttrs) -> Sequence[Value] | None:
        """Operands of the result's shape."""
        types = [v.tensor_type for v in operands if v is not None]
        shape = broadcast_shapes(self.name, *(t.shape for t in types))
        if all(_equal_shapes(t.shape, shape) for t in types):
            return None
        return [builder.call(self, *(_broadcast(builder, v, shape) for v in operands))]


def _equal_shapes(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    return len(a) == len(b) and all(dims.equal(x, y) for x, y in zip(a, b, strict=True))


def _broadcast(builder: Builder, value: Value | None, shape: tuple[Dim, ...]) -> Value:
    assert value is not None
    return value if _equal_shapes(value.shape, shape) else builder.call("broadcast_to", value, shape=shape)


@register
class StringConcat(BroadcastOp):
    """a followed by b, element by element, with NumPy's broadcasting."""

    name = "string.concat"

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        pairs, shape = self.pairs(operands)
        return [object_array([whole(x + y) for x, y in pairs], shape)]


@register
class StringEqual(BroadcastOp):
    """Whether a and b are the same text, element by element."""

    name = "string.equal"
    result_dtype = "bool"

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        pairs, shape = self.pairs(operands)
        return [np.array([x == y for x, y in pairs], bool).reshape(shape)]


@register
class StringNotEqual(BroadcastOp):
    """Whether a and b are different texts, element by element."""

    name = "string.not_equal"
    result_dtype = "bool"

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        pairs, shape = self.pairs(operands)
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
    packed = Operand()

    def infer(self, operands: Values, attrs: UnpackAttrs, regions: Regions = ()) -> Types:
        packed = tensor(self.name, operands[0], "packed")
        expect_dtype(self.name, packed, "packed", "uint8")
        return [TensorType(attrs.shape, "string")]

    def reference(self, operands: Arrays, attrs: UnpackAttrs) -> Arrays:
        raw = operands[0].tobytes()
        shape = [int(d) for d in attrs.shape if isinstance(d, int)]
        count = math.prod(shape)
        ends = np.frombuffer(raw, np.int64, count).tolist()
        spans = zip([0, *ends], ends, strict=False)
        return [object_array([text_of(raw[8 * count :][begin:end]) for begin, end in spans], shape)]


@dataclass(frozen=True)
class StringSplitAttrs:
    delimiter: str = ""
    maxsplit: int | None = None


def _split(operands: Arrays, attrs: StringSplitAttrs) -> list[list[str]]:
    limit = -1 if attrs.maxsplit is None else attrs.maxsplit
    return [text.split(attrs.delimiter or None, limit) for text in texts(operands[0])]


@register
class StringMostParts(StringOp[StringSplitAttrs]):
    """The largest number of parts that ``string.split`` finds in a string. Operand delimiter is added by its decomposition."""

    name = "string.most_parts"
    data, delimiter = Operand(), Operand()

    def infer(self, operands: Values, attrs: StringSplitAttrs, regions: Regions = ()) -> Types:
        string_type(self.name, operands, 0, "data")
        return [TensorType((), "int64")]

    def reference(self, operands: Arrays, attrs: StringSplitAttrs) -> Arrays:
        return [np.array(max(map(len, _split(operands, attrs)), default=0), np.int64)]


@register
class StringSplit(StringOp[StringSplitAttrs]):
    """The parts of every string between ``delimiter``s (empty: runs of Unicode's white space), after at most ``maxsplit`` cuts.

    Results: the parts along a new last dimension, with empty strings after the last one; their numbers.
    Operands delimiter and most, the size of the new dimension, are added by the decomposition.
    """

    name = "string.split"
    data, delimiter, most = Operand(), Operand(optional=True), Operand(optional=True)

    def infer(self, operands: Values, attrs: StringSplitAttrs, regions: Regions = ()) -> Types:
        data = string_type(self.name, operands, 0, "data")
        if ESCAPED.search(attrs.delimiter):
            raise fail(self.name, "attribute delimiter", ascii(attrs.delimiter), "text, not single bytes")
        return [TensorType((*data.shape, *fresh_dims("parts", 1)), "string"), TensorType(data.shape, "int64")]

    def reference(self, operands: Arrays, attrs: StringSplitAttrs) -> Arrays:
        rows = _split(operands, attrs)
        shape = operands[0].shape
        counts = np.array([len(row) for row in rows], np.int64).reshape(shape)
        most = max(map(len, rows), default=0)
        parts = [part for row in rows for part in row + [""] * (most - len(row))]
        return [object_array(parts, (*shape, most)), counts]

    def define_symbols(self, operands: Tensors, attrs: StringSplitAttrs, results: TensorTypes) -> Mapping[str, Expr]:
        most = optional_operand(operands, 2)
        return {} if most is None else new_symbols(TensorType(results[0].shape[-1:], "int64"), [scalar(most)])

    def decompose(self, builder: Builder, operands: Values, attrs: StringSplitAttrs) -> Sequence[Value] | None:
        if optional_operand(operands, 2) is not None:
            return None
        options: dict[str, Any] = {"delimiter": attrs.delimiter, "maxsplit": attrs.maxsplit}
        delimiter = _constant(builder, attrs.delimiter, scalar=True)
        most = builder.call("string.most_parts", operands[0], delimiter, **options)
        return list(builder.call_multi(self, operands[0], delimiter, most, **options))


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
    data, stopwords, folds = Operand(), Operand(), Operand()

    def infer(self, operands: Values, attrs: StringNormalizeAttrs, regions: Regions = ()) -> Types:
        string_type(self.name, operands, 0, "data")
        return [TensorType((), "int64")]

    def reference(self, operands: Arrays, attrs: StringNormalizeAttrs) -> Arrays:
        return [np.array(max(1, len(_kept(operands[0], attrs))), np.int64)]


@register
class StringNormalize(StringOp[StringNormalizeAttrs]):
    """The strings of a vector, or of a matrix of one row, that are not among ``stopwords``, in lower or upper case.

    ``is_case_sensitive`` tells how strings are compared with stopwords. One empty string is left where none remains.
    Every code point changes its case by itself, where its other case is one code point. Operands stopwords, folds and changes
    (tables of cases) and count (the size of the result) are added by the decomposition.
    """

    name = "string.normalize"
    operands = (Operand("data"), *(Operand(n, optional=True) for n in ("stopwords", "folds", "changes", "count")))

    def infer(self, operands: Values, attrs: StringNormalizeAttrs, regions: Regions = ()) -> Types:
        data = string_type(self.name, operands, 0, "data")
        if data.rank not in (1, 2) or (data.rank == 2 and data.shape[0] != 1):
            raise fail(self.name, "operand 'data'", data, "a vector, or a matrix of one row")
        if attrs.case_change_action not in case_tables.CHANGES:
            raise fail(self.name, "attribute case_change_action", attrs.case_change_action, ", ".join(case_tables.CHANGES))
        return [TensorType((*data.shape[:-1], *fresh_dims("words", 1)), "string")]

    def reference(self, operands: Arrays, attrs: StringNormalizeAttrs) -> Arrays:
        kept = [case_tables.change_case(text, attrs.case_change_action) for text in _kept(operands[0], attrs)] or [""]
        return [object_array(kept, (*operands[0].shape[:-1], len(kept)))]

    def define_symbols(self, operands: Tensors, attrs: StringNormalizeAttrs, results: TensorTypes) -> Mapping[str, Expr]:
        count = optional_operand(operands, 4)
        return {} if count is None else new_symbols(TensorType(results[0].shape[-1:], "int64"), [scalar(count)])

    def decompose(self, builder: Builder, operands: Values, attrs: StringNormalizeAttrs) -> Sequence[Value] | None:
        if optional_operand(operands, 4) is not None:
            return None
        options: dict[str, Any] = {"case_change_action": attrs.case_change_action, "is_case_sensitive": attrs.is_case_sensitive,
                                   "stopwords": attrs.stopwords}
        folds = builder.constant(case_tables.table("NONE" if attrs.is_case_sensitive else "LOWER"))
        changes = builder.constant(case_tables.table(attrs.case_change_action))
        stopwords = _constant(builder, *attrs.stopwords)
        count = builder.call("string.count_words", operands[0], stopwords, folds, **options)
        return [builder.call(self, operands[0], stopwords, folds, changes, count, **options)]


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
    data, program = Operand(), Operand(optional=True)

    def infer(self, operands: Values, attrs: RegexFullMatchAttrs, regions: Regions = ()) -> Types:
        regex.compile_pattern(attrs.pattern)
        return [TensorType(string_type(self.name, operands, 0, "data").shape, "bool")]

    def reference(self, operands: Arrays, attrs: RegexFullMatchAttrs) -> Arrays:
        program = regex.compile_pattern(attrs.pattern)
        found = [program.matches(text) for text in texts(operands[0])]
        return [np.array(found, dtype=bool).reshape(operands[0].shape)]

    def decompose(self, builder: Builder, operands: Values, attrs: RegexFullMatchAttrs) -> Sequence[Value] | None:
        if optional_operand(operands, 1) is not None:
            return None
        program = builder.constant(regex.compile_pattern(attrs.pattern).table())
        return [builder.call(self, operands[0], program, pattern=attrs.pattern)]
