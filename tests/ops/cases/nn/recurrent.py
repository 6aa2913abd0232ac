"""Rows of recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.ops.case import Case, f32, i8, row
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


def of_codes(kind: str, *present: str, zero: bool = False, hidden: int = HIDDEN, inputs: int = INPUTS, **attrs: Any) -> Case:
    """A layer with weights of int8 and a scale for each row, against onnxruntime with the numbers that they stand for."""
    op, gates, names = LAYERS[kind]
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    rows, names = (directions, gates * hidden), names * directions
    given = {"lengths": np.array([5, 2, 3], np.int32), "h0": f32(directions, BATCH, hidden, low=-1, high=1)}
    states = ["h0", *(["c0", "peephole"] if kind == "lstm" else [])]
    scales, zeros = f32(*rows, low=0.002, high=0.01), i8(*rows) if zero else None
    operands = [
        f32(STEPS, BATCH, inputs, low=-1, high=1), i8(*rows, inputs), i8(*rows, hidden), f32(directions, 2 * gates * hidden),
        *(given.get(n) if n in present else None for n in ("lengths", *states)), scales, zeros, scales, zeros,
    ]
    options = {k: int(v) if isinstance(v, bool) else v for k, v in attrs.items()}
    layer = onnx_node(op, 3 if kind == "lstm" else 2, hidden_size=hidden, **options)

    def oracle(*arrays: np.ndarray | None) -> Sequence[np.ndarray]:
        x, w, r, *others, w_scale, w_zero, r_scale, r_zero = arrays
        return layer(x, real(w, w_scale, w_zero), real(r, r_scale, r_zero), *others)

    return row(f"nn.{kind}", operands, oracle, symbolic=False, activations=names, activation_alpha=(0.0,) * len(names),
               activation_beta=(0.0,) * len(names), **attrs)


def real(codes: Any, scale: Any, zero: Any) -> Any:
    whole = codes.astype(np.float32) - (0 if zero is None else zero[..., None])
    return whole * scale[..., None]


def dynamic(*present: str, hidden: int = HIDDEN, batch: int = BATCH, zero: bool = False, **attrs: Any) -> Case:
    """An LSTM that rounds its input and states, against onnxruntime with one thread."""
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    rows, names = (directions, 4 * hidden), LAYERS["lstm"][2] * directions
    state = f32(directions, batch, hidden, low=-1, high=1)
    optional = {"bias": f32(directions, 8 * hidden), "lengths": np.array([5, 2, 3][:batch], np.int32), "h0": state, "c0": state,
                "peephole": f32(directions, 3 * hidden, low=-1, high=1)}
    scales, zeros = f32(*rows, low=0.002, high=0.01), i8(*rows, low=7, high=7) if zero else None
    operands = [
        f32(STEPS, batch, INPUTS, low=-1, high=1), i8(*rows, INPUTS), i8(*rows, hidden),
        *(optional[n] if n in present else None for n in optional), scales, zeros, scales, zeros,
    ]
    options = {k: int(v) if isinstance(v, bool) else v for k, v in attrs.items()}
    layer = onnx_node("DynamicQuantizeLSTM", 3, domain="com.microsoft", threads=1, hidden_size=hidden, **options)

    def oracle(*arrays: np.ndarray | None) -> Sequence[np.ndarray]:
        x, w, r, *others, w_scale, w_zero, r_scale, r_zero = arrays
        points = [np.zeros(rows, np.int8) if z is None else z for z in (w_zero, r_zero)]
        assert w is not None
        assert r is not None
        turned = [np.ascontiguousarray(v.swapaxes(1, 2)).view(np.uint8) ^ np.uint8(128) for v in (w, r)]
        shifted = [z.view(np.uint8) ^ np.uint8(128) for z in points]
        return layer(x, *turned, *others, w_scale, shifted[0], r_scale, shifted[1])

    return row("nn.lstm", operands, oracle, symbolic=False, activations=names, activation_alpha=(0.0,) * len(names),
               activation_beta=(0.0,) * len(names), dynamic_quantization=True, **attrs)


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
    of_codes("lstm"),
    of_codes("lstm", "lengths", "h0", zero=True, direction="bidirectional", inputs=6),
    of_codes("gru", "h0", hidden=17),
    of_codes("gru", "h0", zero=True, direction="reverse", linear_before_reset=True),
    of_codes("rnn", "lengths", direction="bidirectional"),
    dynamic(),
    dynamic("bias", "h0", "c0", "peephole"),
    dynamic("bias", "lengths", "h0", direction="bidirectional"),
    dynamic("bias", "h0", hidden=35, batch=1, zero=True),
    dynamic("bias", "lengths", direction="reverse", zero=True, input_forget=True, clip=0.4),
]
