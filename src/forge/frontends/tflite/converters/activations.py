"""Activation functions: operators, and what is fused to others."""

from __future__ import annotations

from forge.compose import activations
from forge.frontends.converter import forwarding
from forge.frontends.tflite import quantized
from forge.frontends.tflite.context import Context
from forge.frontends.tflite.registry import converts
from forge.ir.nodes import Value

_RANGES = {"RELU": (0.0, None), "RELU_N1_TO_1": (-1.0, 1.0), "RELU6": (0.0, 6.0), "RELU_0_TO_1": (0.0, 1.0)}


def activated(g: Context, x: Value, name: str) -> Value:
    """``x`` after the activation function ``name`` that an operator has in itself."""
    if name == "NONE":
        return x
    if name == "RELU":
        return g.call("nn.relu", x)
    if name in _RANGES:
        low, high = _RANGES[name]
        return g.call("clip", x, a_min=low, a_max=high)
    if name == "TANH":
        return g.call("tanh", x)
    return g.cast(g.call("signbit", x), x.dtype)


@converts("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
def relu(g: Context, x: Value) -> Value:
    quantized.fixed_point(g, 0)
    return activated(g, x, g.operator.name)


converts("TANH")(forwarding("tanh"))
converts("LOGISTIC")(forwarding("sigmoid"))
converts("LEAKY_RELU")(forwarding("nn.leaky_relu", alpha=0.0))
converts("ELU")(forwarding("nn.elu"))


@converts("HARD_SWISH")
def hard_swish(g: Context, x: Value) -> Value:
    return g.call("nn.hardswish", x)


@converts("GELU")
def gelu(g: Context, x: Value, *, approximate: bool = False) -> Value:
    return g.call("nn.gelu", x, approximate="tanh" if approximate else "none")


@converts("PRELU")
def prelu(g: Context, x: Value, alpha: Value) -> Value:
    return activations.sloped(g, x, alpha)


@converts("SOFTMAX")
def softmax(g: Context, x: Value, *, beta: float = 0.0) -> Value:
    return g.call("nn.softmax", x if beta == 1 else g.call("multiply", x, g.scalar(beta, x)), axis=-1)


@converts("LOG_SOFTMAX")
def log_softmax(g: Context, x: Value) -> Value:
    return g.call("nn.log_softmax", x, axis=-1)
