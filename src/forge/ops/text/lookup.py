"""Looking up strings in a vocabulary, and counting n-grams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from forge.errors import ExecutionError
from forge.ops.core.inference import fail
from forge.ops.core.op import NoAttrs, Operand, Trait, register
from forge.ops.core.signatures import Array, Arrays, TensorType, Types, Value
from forge.ops.core.strings import texts
from forge.ops.text.strings import StringOp


@register
class StringLookup(StringOp[NoAttrs]):
    """The position of every string of data among keys, of equal keys the first; the number of keys where it is not there."""

    name = "string.lookup"
    data, keys = Operand(accepts="string"), Operand(accepts="string", rank=1)

    def infer(self, attrs: NoAttrs, data: Value, keys: Value) -> Types:
        return [TensorType(data.shape, "int64")]

    def reference(self, attrs: NoAttrs, data: Array, keys: Array) -> Arrays:
        places = {key: len(keys) - 1 - k for k, key in enumerate(reversed(texts(keys)))}
        found = [places.get(text, len(keys)) for text in texts(data)]
        return [np.array(found, np.int64).reshape(data.shape)]


@register
class StringRank(StringOp[NoAttrs]):
    """For every string the number of strings of data that come before it in the order of code points."""

    name = "string.rank"
    data = Operand(accepts="string")

    def infer(self, attrs: NoAttrs, data: Value) -> Types:
        return [TensorType(data.shape, "int64")]

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        words = texts(data)
        places: dict[str, int] = {}
        for place, word in enumerate(sorted(words)):
            places.setdefault(word, place)
        return [np.array([places[word] for word in words], np.int64).reshape(data.shape)]


@dataclass(frozen=True)
class NgramCountsAttrs:
    size: int
    min_length: int = 1
    max_length: int = 1
    max_skip: int = 0


@register
class NgramCounts(StringOp[NgramCountsAttrs]):
    """How often each n-gram of a pool occurs in every row of data (numbers of tokens), added at its index of ``size`` places.

    Grams of length n begin at starts[n - 1] of pool, one after the other; indexes numbers the grams of all lengths. Those of
    ``min_length`` to ``max_length`` count; between two tokens of one lie 0, 1, ... or ``max_skip`` others, the same number each
    time (a gram of length 1 counts once). Of equal grams the last one counts.
    """

    name = "ngram_counts"
    data, pool = Operand(accepts="int64", rank=(1, 2)), Operand(accepts="int64", rank=1)
    starts, indexes = Operand(accepts="int64", rank=1), Operand(accepts="int64", rank=1)
    traits = Trait.MAY_FAIL

    def infer(self, attrs: NgramCountsAttrs, data: Value, *_: object) -> Types:
        if attrs.size < 0 or attrs.max_skip < 0 or not 1 <= attrs.min_length <= attrs.max_length:
            raise fail(self.name, "attributes", attrs, "size and max_skip of at least 0, 1 <= min_length <= max_length")
        return [TensorType((*data.shape[:-1], attrs.size), "float32")]

    def reference(self, attrs: NgramCountsAttrs, data: Array, pool: Array, starts: Array, indexes: Array) -> Arrays:
        known = _grams(pool.tolist(), starts.tolist(), indexes.tolist(), attrs)
        result = np.zeros((*data.shape[:-1], attrs.size), np.float32)
        for place in np.ndindex(data.shape[:-1]):
            for gram, count in Counter(_occurring(data[place], attrs)).items():
                if gram in known:
                    result[place][known[gram]] += count
        return [result]


def _grams(pool: list[int], starts: list[int], indexes: list[int], attrs: NgramCountsAttrs) -> dict[tuple[int, ...], int]:
    """Where the grams that count are counted.

    Raises:
        ExecutionError: offsets or indexes do not fit.
    """
    ends = [*starts[1:], len(pool)]
    spans = list(zip(starts, ends, strict=False))
    grams = [tuple(pool[at : at + n]) for n, (begin, end) in enumerate(spans, 1) for at in range(begin, end - n + 1, n)]
    if any(not 0 <= b <= e <= len(pool) for b, e in spans) or len(grams) > len(indexes) or not _inside(indexes, attrs.size):
        raise ExecutionError(f"{NgramCounts.name}: the pool's offsets or indexes do not fit each other")
    numbered = zip(grams, indexes, strict=False)
    return {gram: index for gram, index in numbered if attrs.min_length <= len(gram) <= attrs.max_length}


def _inside(indexes: list[int], size: int) -> bool:
    return all(0 <= i < size for i in indexes)


def _occurring(row: Array, attrs: NgramCountsAttrs) -> Iterator[tuple[int, ...]]:
    tokens = row.tolist()
    for step in range(1, min(attrs.max_skip + 1, len(tokens)) + 1):
        shortest = 2 if step > 1 and attrs.min_length == 1 else attrs.min_length
        for length in range(shortest, attrs.max_length + 1):
            for start in range(len(tokens) - (length - 1) * step):
                yield tuple(tokens[start : start + (length - 1) * step + 1 : step])
