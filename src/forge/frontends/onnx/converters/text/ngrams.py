"""TfIdfVectorizer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


@converts("TfIdfVectorizer", since=9)
def tfidf_vectorizer(
    g: Context, x: Value,
    *, max_gram_length: int, max_skip_count: int, min_gram_length: int, mode: str, ngram_counts: tuple[int, ...],
    ngram_indexes: tuple[int, ...], pool_int64s: tuple[int, ...] | None = None, pool_strings: tuple[str, ...] | None = None,
    weights: tuple[float, ...] | None = None,
) -> Value:
    """Weights belong to the places of the result."""
    if mode not in ("TF", "IDF", "TFIDF"):
        raise g.invalid(f"mode: got {mode!r}; expected TF, IDF or TFIDF")
    if not ngram_indexes or min(ngram_indexes) < 0:
        raise g.invalid(f"ngram_indexes: got {list(ngram_indexes)}; expected places from 0 on")
    tokens, pool = _tokens(g, x, pool_int64s, pool_strings)
    size = max(ngram_indexes) + 1
    operands = [g.constant(np.array(v, np.int64)) for v in (pool, ngram_counts, ngram_indexes)]
    limits = {"min_length": min_gram_length, "max_length": max_gram_length, "max_skip": max_skip_count}
    counts = g.call("ngram_counts", tokens, *operands, size=size, **limits)
    return counts if mode == "TF" else _weighted(g, counts, mode, weights, size)


def _tokens(
    g: Context, x: Value, integers: tuple[int, ...] | None, strings: tuple[str, ...] | None
) -> tuple[Value, Sequence[int]]:
    """Elements and pool as numbers; strings are numbered in the order in which they appear in the pool."""
    if (strings is None) == (integers is None) or (strings is not None) != (x.dtype == "string"):
        raise g.invalid("expected pool_strings for strings, or pool_int64s for integers")
    if strings is None:
        return g.cast(x, "int64"), integers or ()
    numbers = {word: number for number, word in enumerate(dict.fromkeys(strings))}
    return g.call("string.lookup", x, g.constant(np.array(list(numbers), dtype=object))), [numbers[word] for word in strings]


def _weighted(g: Context, counts: Value, mode: str, weights: tuple[float, ...] | None, size: int) -> Value:
    factors = np.ones(size, np.float32) if weights is None else np.array(weights, np.float32)[:size]
    if len(factors) != size:
        raise g.invalid(f"weights: got {len(factors)}; expected one for each of {size} places")
    if mode == "TFIDF":
        return g.call("multiply", counts, g.constant(factors))
    zero = g.constant(0, "float32")
    return g.call("where", g.call("greater", counts, zero), g.constant(factors), zero)
