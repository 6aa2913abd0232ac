"""The products of a recurrent layer's input with constant weights become one matrix product over all steps.

``nn.lstm(%x, w, %r, ...)`` --> ``nn.lstm(nn.dense(%x, w), None, %r, ...)`` with the directions of w one below the other; a w of
bfloat16 with float32 is multiplied by the rounded %x and the products stay float32.
"""

from __future__ import annotations

from collections.abc import Sequence

from forge.ir.edits.rewrite import Declined, RuleBuilder, rule
from forge.ir.nodes import Node, Value
from forge.passes.base import rewriting

LAYERS = ("nn.lstm", "nn.gru", "nn.rnn")


def has_rows(layer: Node) -> bool:
    """Returns whether the batch of a recurrent layer has several rows, or may have."""
    x = layer.operands[0]
    return x is not None and x.shape[0 if layer.attrs.layout else 1] != 1


@rule(*LAYERS)
def split_recurrent(builder: RuleBuilder, node: Node) -> Sequence[Value] | Declined | None:
    """lstm(x, w, ..) == lstm(dense(x, w), None, ..) for constants w"""
    x, w, *others = node.operands
    if x is None or w is None:
        return None
    if w.constant is None:
        return Declined("the weights of the input are not constant")
    rows = w.constant.reshape(-1, w.constant.shape[-1])
    same = w.dtype == x.dtype
    data = x if same else builder.call("cast", x, dtype=w.dtype)
    products = builder.call("nn.dense", data, builder.constant(rows, name=w.name), units=rows.shape[0],
                            out_dtype="" if same else x.dtype)
    return builder.call_multi(node.op, products, None, *others, name=node.name, **node.attributes)


run = rewriting(split_recurrent)
