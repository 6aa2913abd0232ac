"""Convolutions and matrix products."""

from __future__ import annotations

from typing import Any

from tests.frontends.tflite.case import WEIGHTED, Operand, absent, bias, ints, num, row, weight

ONE: dict[str, Any] = {"stride_w": 1, "stride_h": 1}
TWO: dict[str, Any] = {"stride_w": 2, "stride_h": 2}
CHANNELS = "channels whose multipliers differ in exponents round at other places; Forge rounds all as most of them"
SUMS = {"int16x8": "Forge's sums are floats of 24 bits where it has no product of such integers"}
QUANTIZED = tuple(form for form in WEIGHTED if form != "dynamic")


def sizes(*shape: int) -> Operand:
    """The output's, constant."""
    return ints(shape)


ROWS = [
    row("CONV_2D", num(1, 9, 9, 8), weight(16, 3, 3, 8), bias(16), forms=WEIGHTED, padding="SAME", **ONE),
    row("CONV_2D", num(1, 13, 11, 8), weight(32, 3, 3, 8), bias(32), forms=WEIGHTED, label="relu", padding="VALID",
        fused_activation_function="RELU", **TWO),
    row("CONV_2D", num(1, 8, 8, 16), weight(20, 1, 1, 16), bias(20), forms=(*WEIGHTED, "int4"), label="pointwise",
        padding="VALID", fused_activation_function="RELU6", out=(0, 6), **ONE),
    row("CONV_2D", num(1, 12, 12, 4), weight(8, 3, 3, 4), bias(8), forms=("float32", "int8", "uint8", "int16x8"), label="dilated",
        padding="SAME", dilation_w_factor=2, dilation_h_factor=2, inexact=SUMS, **ONE),
    row("CONV_2D", num(1, 12, 12, 8), weight(8, 3, 3, 4), bias(8), forms=("float32", "int8"), label="groups",
        padding="SAME", **ONE),
    row("DEPTHWISE_CONV_2D", num(1, 9, 9, 16), weight(1, 3, 3, 16, axis=3), bias(16), forms=WEIGHTED, padding="SAME",
        depth_multiplier=1, inexact=SUMS, **ONE),
    row("DEPTHWISE_CONV_2D", num(1, 13, 13, 16), weight(1, 5, 5, 32, axis=3), bias(32), forms=WEIGHTED, label="multiplied",
        padding="VALID", depth_multiplier=2, fused_activation_function="RELU6", **TWO),
    row("DEPTHWISE_CONV_2D", num(1, 10, 10, 12), weight(1, 3, 3, 12, axis=3), bias(12),
        forms=("float32", "int8", "uint8", "int16x8"), label="dilated", inexact={"int8": CHANNELS, **SUMS}, padding="SAME",
        depth_multiplier=1, dilation_w_factor=2, dilation_h_factor=2, **ONE),
    row("CONV_3D", num(1, 5, 6, 7, 3), weight(2, 3, 2, 3, 4, axis=4), bias(4), padding="SAME", stride_d=1, **TWO),
    row("CONV_3D", num(1, 5, 6, 7, 3), weight(2, 3, 2, 3, 4, axis=4), bias(4), padding="VALID", stride_d=1, label="valid", **ONE),
    row("CONV_3D_TRANSPOSE", sizes(1, 4, 6, 6, 4), weight(2, 3, 3, 4, 3, axis=3), num(1, 2, 3, 3, 3), bias(4, 2),
        padding="SAME", stride_d=2, **TWO),
    row("TRANSPOSE_CONV", sizes(1, 12, 12, 8), weight(8, 3, 3, 6), num(1, 6, 6, 6), bias(8, 2), forms=QUANTIZED, padding="SAME",
        **TWO),
    row("TRANSPOSE_CONV", sizes(1, 11, 13, 8), weight(8, 3, 3, 6), num(1, 5, 6, 6), absent, forms=("float32", "int8", "uint8"),
        label="valid", padding="VALID", **TWO),
    row("TRANSPOSE_CONV", sizes(1, 9, 9, 12), weight(12, 2, 4, 6), num(1, 9, 9, 6), bias(12, 2),
        forms=("float32", "int8", "int16x8"), label="dense", padding="SAME", fused_activation_function="RELU", **ONE),
    row("FULLY_CONNECTED", num(16, 24), weight(64, 24), bias(64), forms=(*QUANTIZED, "int4", "dynamic4")),
    row("FULLY_CONNECTED", num(1, 24), weight(64, 24), bias(64), forms=("dynamic",), label="vector"),
    row("FULLY_CONNECTED", num(4, 4, 24), weight(64, 24), absent, forms=(*WEIGHTED, "int4"), label="rank3", keep_num_dims=True,
        fused_activation_function="RELU"),
    row("FULLY_CONNECTED", num(4, 4, 6), weight(32, 24), bias(32), forms=("float32", "int8"), label="flattened"),
    row("BATCH_MATMUL", num(3, 20, 16), num(3, 16, 20), forms=("float32", "int8", "int16")),
    row("BATCH_MATMUL", num(2, 20, 16), num(2, 30, 16), forms=("float32", "int8"), label="adjoint", adj_y=True),
    row("BATCH_MATMUL", num(1, 16, 20), num(2, 16, 30), forms=("float32", "int8"), label="both", adj_x=True),
]
