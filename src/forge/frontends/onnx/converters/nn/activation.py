"""Activations."""

from __future__ import annotations

from forge.frontends.converter import forwarding
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts

converts("LeakyRelu", since=1)(forwarding("nn.leaky_relu", alpha=0.01))
converts("Elu", since=1)(forwarding("nn.elu", alpha=1.0))
converts("Celu", since=12)(forwarding("nn.celu", alpha=1.0))
converts("Selu", since=1)(forwarding("nn.selu", alpha=1.6732, gamma=1.0507))
converts("Selu", since=6)(forwarding("nn.selu", alpha=1.6732632, gamma=1.050701))
converts("ThresholdedRelu", since=10)(forwarding("nn.thresholded_relu", alpha=1.0))
converts("HardSigmoid", since=1)(forwarding("nn.hard_sigmoid", alpha=0.2, beta=0.5))
converts("Shrink", since=9)(forwarding("nn.shrink", lambd=0.5, bias=0.0))


@converts("Gelu", since=20)
def gelu(g: Context, x: Value, *, approximate: str = "none") -> Value:
    if approximate not in ("none", "tanh"):
        raise g.invalid(f"attribute 'approximate': got {approximate!r}; expected 'none' or 'tanh'")
    return g.call("nn.gelu", x, approximate=approximate)


@converts("Swish", since=24)
def swish(g: Context, x: Value, *, alpha: float = 1.0) -> Value:
    if alpha == 1.0:
        return g.call("nn.silu", x)
    return g.call("multiply", x, g.call("sigmoid", g.call("multiply", x, g.scalar(alpha, x))))


@converts("PRelu", since=1)
def prelu_1(g: Context, x: Value, slope: Value) -> Value:
    """The slope is one number, or one for each channel."""
    return g.call("nn.prelu", x, slope, axis=1) if slope.rank == 1 and slope.shape != (1,) else _sloped(g, x, slope)


@converts("PRelu", since=7)
def prelu(g: Context, x: Value, slope: Value) -> Value:
    leading = x.rank - slope.rank
    wide = [i for i, d in enumerate(slope.shape) if d != 1]
    if leading >= 0 and len(wide) == 1:
        return g.call("nn.prelu", x, g.reshape(slope, [slope.shape[wide[0]]]), axis=leading + wide[0])
    return _sloped(g, x, slope)


def _sloped(g: Context, x: Value, slope: Value) -> Value:
    negative = g.call("less", x, g.scalar(0, x))
    return g.call("where", negative, g.call("multiply", x, slope), x)
