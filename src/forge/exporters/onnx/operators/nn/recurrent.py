"""Recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.operators.shape.reshape import data_shape
from forge.exporters.onnx.registry import exports
from forge.ir.nodes import Node

_ACTIVATIONS = {  # (ONNX, whether it has alpha, beta)
    "relu": ("Relu", False, False), "tanh": ("Tanh", False, False), "sigmoid": ("Sigmoid", False, False),
    "affine": ("Affine", True, True), "leaky_relu": ("LeakyRelu", True, False),
    "thresholded_relu": ("ThresholdedRelu", True, False), "scaled_tanh": ("ScaledTanh", True, True),
    "hard_sigmoid": ("HardSigmoid", True, True), "elu": ("Elu", True, False), "softsign": ("Softsign", False, False),
    "softplus": ("Softplus", False, False),
}  # fmt: skip


def _attributes(attrs: Any, hidden: int) -> dict[str, Any]:
    rows = [_ACTIVATIONS[name] for name in attrs.activations]
    alpha = [a for (_, has, _), a in zip(rows, attrs.activation_alpha) if has]
    beta = [b for (_, _, has), b in zip(rows, attrs.activation_beta) if has]
    return {"activations": [name for name, _, _ in rows], "activation_alpha": alpha or None, "activation_beta": beta or None,
            "direction": attrs.direction, "clip": attrs.clip, "hidden_size": hidden}


@exports("nn.lstm", "nn.gru", "nn.rnn")
def recurrent(g: Emitter, node: Node, x: Ref, w: Ref | None, r: Ref, *rest: Ref | None) -> Any:
    """With the batch first, axes are moved around the layer: few runtimes know ONNX's ``layout``."""
    attrs: Any = node.attrs
    if w is None:
        raise g.unsupported("its weight of the input was taken out; export before the passes of compilation")
    hidden = data_shape(node, 2)[-1]
    if not isinstance(hidden, int):
        raise g.unsupported(f"hidden size {hidden} is symbolic; ONNX has a number only")
    names = [o.name for o in node.op_def.operands]
    given: dict[str, Ref | None] = dict.fromkeys(names) | dict(zip(names, (x, w, r, *rest)))
    if attrs.layout:
        given |= {n: None if (v := given.get(n)) is None else g.transpose(v, [1, 0, 2]) for n in ("x", "h0", "c0")}
    if (lengths := given["lengths"]) is not None:
        given["lengths"] = g.cast(lengths, "int32")
    own = {"nn.lstm": "input_forget", "nn.gru": "linear_before_reset"}.get(node.op)
    attributes = _attributes(attrs, hidden) | ({own: getattr(attrs, own) or None} if own else {})
    y, *states = _rounded(g, node, given, attributes) if node.op_def.rounds_data(attrs) else g.multi(
        node.op.removeprefix("nn.").upper(), _standard(g, node, given), len(node.results), **attributes)
    if not attrs.layout:
        return [y, *states]
    return [g.transpose(y, [2, 0, 1, 3]), *(g.transpose(s, [1, 0, 2]) for s in states)]


def _standard(g: Emitter, node: Node, given: dict[str, Ref | None]) -> list[Ref | None]:
    """Inputs of ONNX's layer; codes with DequantizeLinear before it."""
    for number, name in ((1, "w"), (2, "r")):
        codes, scale, zero = (given[name + part] for part in ("", "_scale", "_zero_point"))
        if codes is not None and scale is not None:
            shape = data_shape(node, number)
            flat = [g.reshape(v, [shape[0] * shape[1], *tail]) for v, tail in ((codes, shape[2:]), (scale, ()))]
            points = [] if zero is None else [g.reshape(zero, [shape[0] * shape[1]])]
            given[name] = g.reshape(g.op("DequantizeLinear", *flat, *points, axis=0), shape)
    names = ("x", "w", "r", "bias", "lengths", "h0", *(("c0", "peephole") if node.op == "nn.lstm" else ()))
    return [given[name] for name in names]


def _rounded(g: Emitter, node: Node, given: dict[str, Ref | None], attributes: dict[str, Any]) -> list[Ref]:
    """Inputs of onnxruntime's DynamicQuantizeLSTM, which takes zero points only of uint8, one for each direction."""
    if node.attrs.counts_ended:
        raise g.unsupported("states of ended rows count in their range, which onnxruntime does without its first result only")
    codes = {name: _columns(g, given[name], given[f"{name}_zero_point"]) for name in ("w", "r")}
    inputs = [given["x"], codes["w"][0], codes["r"][0], *(given[n] for n in ("bias", "lengths", "h0", "c0", "peephole")),
              given["w_scale"], codes["w"][1], given["r_scale"], codes["r"][1]]
    return g.foreign("DynamicQuantizeLSTM", "com.microsoft", inputs, [v.dtype for v in node.results],
                     **{k: v for k, v in attributes.items() if v is not None})


def _columns(g: Emitter, codes: Ref | None, zero: Ref | None) -> tuple[Ref, Ref]:
    """Codes with the rows of the layer as columns, and a zero point for each of them."""
    array, points = g.known(codes), None if zero is None else g.known(zero)
    if array is None or (points is None) != (zero is None):
        raise g.unsupported("its weights arrive at run time; ONNX models of such a layer have constants")
    turned = np.ascontiguousarray(array.swapaxes(1, 2))
    if points is None:
        return g.const(turned), g.const(np.zeros(array.shape[:2], np.int8))
    if (points != points[:, :1]).any():
        raise g.unsupported("zero points differ between the rows of a weight; onnxruntime takes one for each direction")
    return g.const(turned.view(np.uint8) ^ np.uint8(128)), g.const(points.view(np.uint8) ^ np.uint8(128))
