"""Operators on strings."""

from __future__ import annotations

import numpy as np

from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.operators.shape.reshape import data_shape
from forge.exporters.onnx.registry import exports
from forge.ir.nodes import Node
from forge.ops.text.lookup import NgramCounts
from forge.ops.text.strings import RegexFullMatch, StringNormalize, StringSplit


@exports(NgramCounts)
def ngram_counts(g: Emitter, op: NgramCounts, x: Ref, *pool: Ref) -> Ref:
    attrs = op.attrs
    grams, starts, indexes = map(g.known, pool)
    if grams is None or starts is None or indexes is None:
        raise g.unsupported("its n-grams are known at run time only; ONNX has them as attributes")
    if attrs.size != int(indexes.max(initial=-1)) + 1:
        raise g.unsupported(f"got {attrs.size} places for indexes up to {indexes.max(initial=-1)}; ONNX has no others")
    return g.op("TfIdfVectorizer", x, mode="TF", min_gram_length=attrs.min_length,
                max_gram_length=attrs.max_length, max_skip_count=attrs.max_skip, pool_int64s=grams.tolist(),
                ngram_counts=starts.tolist(), ngram_indexes=indexes.tolist())


@exports("string.lookup")
def string_lookup(g: Emitter, node: Node, x: Ref, keys: Ref) -> Ref:
    """The least position whose key is equal, or the number of keys."""
    size = data_shape(node, 1)[0]
    if isinstance(size, int):
        count, places = g.const(np.int64(size)), g.ints(range(size))
    else:
        count = g.scalar(g.extent(keys, 0))
        places = g.op("Range", g.const(np.int64(0)), count, g.const(np.int64(1)))
    equal = g.op("Equal", g.unsqueeze(x, -1), keys)
    found = g.op("Where", equal, places, count)
    return g.op("Min", g.op("ReduceMin", found, g.ints([node.result.rank]), keepdims=0), count)


@exports(StringSplit)
def string_split(g: Emitter, op: StringSplit, x: Ref, *_: Ref) -> list[Ref]:
    return g.multi("StringSplit", [x], 2, delimiter=op.attrs.delimiter or None, maxsplit=op.attrs.maxsplit)


@exports(StringNormalize)
def string_normalize(g: Emitter, op: StringNormalize, x: Ref, *_: Ref) -> Ref:
    attrs, stopwords = op.attrs, list(op.attrs.stopwords)
    options = {"case_change_action": attrs.case_change_action, "is_case_sensitive": int(attrs.is_case_sensitive)}
    return g.multi("StringNormalizer", [x], 1, stopwords=stopwords, **options)[0]


@exports(RegexFullMatch)
def regex_full_match(g: Emitter, op: RegexFullMatch, x: Ref, *_: Ref) -> Ref:
    return g.op("RegexFullMatch", x, pattern=op.attrs.pattern)
