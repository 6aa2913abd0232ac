"""Activation functions: operators, and what is fused to others."""

from __future__ import annotations

import math

import numpy as np

from forge.compose import activations
from forge.compose.products import scaled
from forge.frontends.converter import forwarding
from forge.frontends.tflite import quantized, tables
from forge.frontends.tflite.context import Context
from forge.frontends.tflite.registry import converts, takes_integers
from forge.ir.nodes import Value


def activated(g: Context, x: Value, name: str) -> Value:
    """``x`` after the activation function ``name`` that an operator has in itself."""
    if name == "NONE":
        return x
    if name == "RELU":
        return g.call("nn.relu", x)
    if name in quantized.RANGES:
        how = quantized.quantization(g.result())
        low, high = (bound if bound is None or how is None else quantized.nearest(how, bound) for bound in quantized.RANGES[name])
        return g.call("clip", x, a_min=low, a_max=high)
    if name == "TANH":
        return g.call("tanh", x)
    return g.cast(g.call("signbit", x), x.dtype)


@converts("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
def relu(g: Context, x: Value) -> Value:
    quantized.fixed_point(g, 0)
    return activated(g, x, g.operator.name)


@converts("TANH", "LOGISTIC")
@takes_integers
def sigmoid(g: Context, x: Value) -> Value:
    """Of int16, by the kernels' table of sigmoid, between whose elements they interpolate."""
    given, wanted = quantized.quantization(g.tensor(0)), quantized.quantization(g.result())
    is_tanh = g.operator.name == "TANH"
    if given is not None and wanted is not None and x.dtype == "int16":
        return tables.looked_up(g, x, tables.tanh(given.scales[0]) if is_tanh else tables.logistic(given.scales[0]))
    return quantized.by_numbers(g, x, lambda v: g.call("tanh" if is_tanh else "sigmoid", v))


@converts("LEAKY_RELU")
def leaky_relu(g: Context, x: Value, *, alpha: float = 0.0) -> Value:
    given, wanted = quantized.quantization(g.tensor(0)), quantized.quantization(g.result())
    if given is not None and wanted is not None:
        ratio = given.scales.astype(np.float64) / wanted.scales
        g.away = quantized.away(ratio * alpha, ratio)
    return g.call("nn.leaky_relu", x, alpha=alpha)


converts("ELU")(forwarding("nn.elu"))


@converts("HARD_SWISH")
def hard_swish(g: Context, x: Value) -> Value:
    return g.call("nn.hardswish", x)


@converts("GELU")
def gelu(g: Context, x: Value, *, approximate: bool = False) -> Value:
    return g.call("nn.gelu", x, approximate="tanh" if approximate else "none")


@converts("PRELU")
def prelu(g: Context, x: Value, alpha: Value) -> Value:
    given, slopes, wanted = (quantized.quantization(one) for one in (g.tensor(0), g.tensor(1), g.result()))
    if given is not None and slopes is not None and wanted is not None:
        ratio = given.scales.astype(np.float64) / wanted.scales
        g.away = quantized.away(ratio * slopes.scales, ratio)
    return activations.sloped(g, x, alpha)


@converts("SOFTMAX")
@takes_integers
def softmax(g: Context, x: Value, *, beta: float = 0.0) -> Value:
    if not math.isfinite(beta):
        raise g.invalid(f"beta: got {beta}; expected a number")
    given, wanted = quantized.quantization(g.tensor(0)), quantized.quantization(g.result())
    if given is not None and wanted is not None and x.dtype == "int16":
        return tables.softmax(g, x, given.scales[0], beta)
    return quantized.by_numbers(g, x, lambda v: g.call("nn.softmax", scaled(g, v, beta), axis=-1))


@converts("LOG_SOFTMAX")
def log_softmax(g: Context, x: Value) -> Value:
    return g.call("nn.log_softmax", x, axis=-1)
