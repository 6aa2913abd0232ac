"""Rows of recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.case import Case, f32, row
from tests.ops.onnx_oracle import onnx_node

STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 4, 6
LAYERS = {"lstm": ("LSTM", 4, ("sigmoid", "tanh", "tanh")), "gru": ("GRU", 3, ("sigmoid", "tanh")), "rnn": ("RNN", 1, ("tanh",))}
ONNX_NAMES = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu", "softsign": "Softsign"}


def layer(kind: str, *present: str, hidden: int = HIDDEN, batch: int = BATCH, **attrs: Any) -> Case:
    """A layer with the optional operands in ``present``, against onnxruntime."""
    op, gates, names = LAYERS[kind]
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    names = attrs.pop("activations", names * directions)
    width = gates * hidden
    optional = {
        "bias": f32(directions, 2 * width), "lengths": np.array([5, 2, 3][:batch], np.int32), "h0": f32(directions, batch,
            hidden, low=-1, high=1),
        "c0": f32(directions, batch, hidden, low=-1, high=1), "peephole": f32(directions, 3 * hidden, low=-1, high=1),
    }
    operands = [f32(STEPS, batch, INPUTS, low=-1, high=1), f32(directions, width, INPUTS, low=-1, high=1),
                f32(directions, width, hidden, low=-1, high=1)]
    listed = ["bias", "lengths", "h0", *(["c0", "peephole"] if kind == "lstm" else [])]
    options = {k: int(v) if isinstance(v, bool) else v for k, v in attrs.items()}
    oracle = onnx_node(op, 3 if kind == "lstm" else 2, hidden_size=hidden, activations=[ONNX_NAMES[n] for n in names], **options)
    return row(f"nn.{kind}", [*operands, *(optional[n] if n in present else None for n in listed)], oracle, symbolic=False,
               activations=names, activation_alpha=(0.0,) * len(names), activation_beta=(0.0,) * len(names), **attrs)


CASES = [
    layer("lstm"),
    layer("lstm", "bias", "h0", "c0", "peephole"),
    layer("lstm", "bias", "lengths", "h0", "c0", direction="bidirectional"),
    layer("lstm", "bias", "lengths", direction="reverse", clip=0.4),
    layer("lstm", "bias", "peephole", input_forget=True),
    layer("lstm", "bias", hidden=33, batch=1, activations=("sigmoid", "softsign", "relu")),
    layer("gru"),
    layer("gru", "bias", "lengths", "h0", direction="bidirectional"),
    layer("gru", "bias", "h0", hidden=17, linear_before_reset=True),
    layer("gru", "bias", direction="reverse", clip=0.5),
    layer("rnn"),
    layer("rnn", "bias", "lengths", "h0", direction="bidirectional", activations=("relu", "tanh")),
]
