"""Rows of softmax and normalizations."""

from __future__ import annotations

import numpy as np

from tests.ops.case import Case, f16, f32, f64, row
from tests.ops.onnx_oracle import onnx_node


def softmax_rows() -> list[Case]:
    rows = []
    for op, name in (("nn.softmax", "Softmax"), ("nn.log_softmax", "LogSoftmax")):
        rows += [row(op, [f32(3, 4, 5, low=-30, high=30)], onnx_node(name, axis=axis), axis=axis) for axis in (-1, 0, 1)]
        rows += [row(op, [f32(2, 67)], onnx_node(name)), row(op, [f32(3, 1)], onnx_node(name)), row(op, [f16(2, 9)])]
        rows += [row(op, [f64(2, 9)], onnx_node(name))]
    rows += [row("nn.softmax", [f32(3, 0)], lambda x: x), row("nn.log_softmax", [f32(0, 4)], lambda x: x)]
    return [*rows, row("nn.softmax", [f32(2, 5, special=(-np.inf, -np.inf))], onnx_node("Softmax"), note="masked")]


def layer_norm_rows() -> list[Case]:
    return [
        row("nn.layer_norm", [f32(3, 4, 5), f32(5), f32(5)], onnx_node("LayerNormalization")),
        row("nn.layer_norm", [f32(3, 4, 5), f32(4, 5), f32(4, 5)], onnx_node("LayerNormalization", axis=1, epsilon=0.01),
            axis=1, epsilon=0.01),
        row("nn.layer_norm", [f32(3, 70), f32(70)], onnx_node("LayerNormalization")),
        row("nn.layer_norm", [f32(3, 7)]),
        row("nn.layer_norm", [f32(3, 7), None, f32(7)]),
        row("nn.layer_norm", [f32(2, 7, low=10, high=11), f32(7), f32(7)], onnx_node("LayerNormalization")),
        row("nn.layer_norm", [f16(3, 7), f16(7), f16(7)]),
        row("nn.rms_norm", [f32(3, 7), f32(7)], lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-5)) * g),
        row("nn.rms_norm", [f32(2, 3, 33)], lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-5))),
    ]


def channel_rows() -> list[Case]:
    def batch_norm(x, gamma, beta, mean, var):
        return onnx_node("BatchNormalization")(x, gamma, beta, mean, var)

    parameters = [f32(3), f32(3), f32(3), f32(3, low=0.1, high=2)]
    return [
        row("nn.batch_norm", [f32(2, 3, 4, 5), *parameters], batch_norm),
        row("nn.batch_norm", [f32(4, 3), *parameters], batch_norm),
        row("nn.batch_norm", [f32(2, 4, 5, 3), *parameters], axis=-1),
        row("nn.batch_norm", [f32(2, 3, 4), *parameters], center=False, scale=False),
        row("nn.instance_norm", [f32(2, 3, 4, 5), f32(3), f32(3)], onnx_node("InstanceNormalization")),
        row("nn.group_norm", [f32(2, 6, 4, 5), f32(6), f32(6)], num_groups=3),
        row("nn.lrn", [f32(2, 5, 3, 4)], onnx_node("LRN", size=3, alpha=0.01, beta=0.6, bias=1.5), size=3, alpha=0.01, beta=0.6,
            bias=1.5),
        row("nn.lrn", [f32(2, 7, 3, 4)], onnx_node("LRN", size=5, bias=2.0), size=5),
        row("nn.l2_normalize", [f32(2, 3, 4)], onnx_node("LpNormalization", axis=1), eps=1e-12, axis=(1,)),
        row("nn.l2_normalize", [f32(2, 3, 4)], lambda x: x / np.sqrt((x * x).sum()), eps=1e-12),
    ]


CASES = [*softmax_rows(), *layer_norm_rows(), *channel_rows()]
