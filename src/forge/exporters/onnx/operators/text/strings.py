"""Operators on strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.operators.shape.reshape import data_shape
from forge.exporters.onnx.registry import exports
from forge.ir.nodes import Node

if TYPE_CHECKING:
    from forge.ops.text.lookup import NgramCountsAttrs
    from forge.ops.text.strings import RegexFullMatchAttrs, StringNormalizeAttrs, StringSplitAttrs


@exports("ngram_counts")
def ngram_counts(g: Emitter, node: Node, x: Ref, *pool: Ref) -> Ref:
    attrs: NgramCountsAttrs = node.attrs
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


@exports("string.split")
def string_split(g: Emitter, node: Node, x: Ref, *_: Ref) -> list[Ref]:
    attrs: StringSplitAttrs = node.attrs
    return g.multi("StringSplit", [x], 2, delimiter=attrs.delimiter or None, maxsplit=attrs.maxsplit)


@exports("string.normalize")
def string_normalize(g: Emitter, node: Node, x: Ref, *_: Ref) -> Ref:
    attrs: StringNormalizeAttrs = node.attrs
    return g.op("StringNormalizer", x, case_change_action=attrs.case_change_action, stopwords=list(attrs.stopwords) or None,
                is_case_sensitive=1 if attrs.is_case_sensitive else 0)


@exports("string.regex_full_match")
def regex_full_match(g: Emitter, node: Node, x: Ref, *_: Ref) -> Ref:
    attrs: RegexFullMatchAttrs = node.attrs
    return g.op("RegexFullMatch", x, pattern=attrs.pattern)
