"""Recurrent layers."""

from __future__ import annotations

from typing import Any

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
    bias, lengths, h0, c0, peephole = [*rest, *[None] * 5][:5]
    own = {"nn.lstm": "input_forget", "nn.gru": "linear_before_reset"}.get(node.op)
    attributes = _attributes(attrs, hidden) | ({own: getattr(attrs, own) or None} if own else {})
    if attrs.layout:
        x, h0, c0 = (None if v is None else g.transpose(v, [1, 0, 2]) for v in (x, h0, c0))  # type: ignore[assignment]
    inputs = [x, w, r, bias, None if lengths is None else g.cast(lengths, "int32"), h0]
    if node.op == "nn.lstm":
        inputs += [c0, peephole]
    y, *states = g.multi(node.op.removeprefix("nn.").upper(), inputs, len(node.results), **attributes)
    if not attrs.layout:
        return [y, *states]
    return [g.transpose(y, [2, 0, 1, 3]), *(g.transpose(s, [1, 0, 2]) for s in states)]
