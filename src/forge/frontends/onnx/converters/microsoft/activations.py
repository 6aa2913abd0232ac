"""Activations, and sums that end in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forge.frontends.converter import forwarding
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.microsoft import DOMAIN
from forge.frontends.onnx.registry import converts
from forge.ops.core.term import Term

_Fused = Callable[[Context, Value, Sequence[float]], Value]


def _plain(op: str, *names: str) -> tuple[int, _Fused]:
    """An operator whose attributes are the parameters."""
    return len(names), lambda g, x, given: g.call(op, x, **dict(zip(names, given)))


_FUSED: dict[str, tuple[int, _Fused]] = {
    "Relu": _plain("nn.relu"),
    "Tanh": _plain("tanh"),
    "Sigmoid": _plain("sigmoid"),
    "Softplus": _plain("nn.softplus"),
    "Softsign": _plain("nn.softsign"),
    "HardSwish": _plain("nn.hardswish"),
    "LeakyRelu": _plain("nn.leaky_relu", "alpha"),
    "Elu": _plain("nn.elu", "alpha"),
    "Celu": _plain("nn.celu", "alpha"),
    "ThresholdedRelu": _plain("nn.thresholded_relu", "alpha"),
    "Clip": _plain("clip", "a_min", "a_max"),
    "HardSigmoid": _plain("nn.hard_sigmoid", "alpha", "beta"),
    "Selu": _plain("nn.selu", "alpha", "gamma"),
}
"""By the name of the activation: how many parameters it has, and what it does."""


def activated(g: Context, x: Value, activation: str | None, parameters: Sequence[float]) -> Value:
    """``x`` after the activation that was fused into a node; further parameters mean nothing.

    Raises:
        OpAttributeUnimplemented: an unknown activation; OpAttributeInvalid: too few parameters.
    """
    if not activation:
        return x
    if activation not in _FUSED:
        raise g.unsupported(f"attribute 'activation': got {activation!r}; supported: {', '.join(_FUSED)}")
    count, apply = _FUSED[activation]
    if len(parameters) < count:
        raise g.invalid(f"activation {activation}: got {len(parameters)} parameters; expected {count}")
    return apply(g, x, parameters)


converts("Gelu", domain=DOMAIN)(forwarding("nn.gelu"))


@converts("FastGelu", domain=DOMAIN)
def fast_gelu(g: Context, x: Value, bias: Value | None = None) -> Value:
    return g.call("nn.gelu", x if bias is None else g.call("add", x, bias), approximate="tanh")


@converts("BiasGelu", domain=DOMAIN)
def bias_gelu(g: Context, x: Value, bias: Value) -> Value:
    return g.call("nn.gelu", g.call("add", x, bias))


@converts("QuickGelu", domain=DOMAIN)
def quick_gelu(g: Context, x: Value, *, alpha: float = 1.702) -> Value:
    """x * sigmoid(alpha * x)."""
    if alpha == 1.0:
        return g.call("nn.silu", x)
    return g.call("multiply", x, g.call("sigmoid", (Term(g, x) * alpha).value))


@converts("ScaledSiLU", domain=DOMAIN)
def scaled_silu(g: Context, x: Value, scale: Value | None = None, *, alpha: float = 1.0) -> Value:
    """The SiLU of alpha * x."""
    if scale is not None:
        raise g.unsupported("input 1 (scale): got one; supported: none; use alpha")
    return g.call("nn.silu", x if alpha == 1.0 else (Term(g, x) * alpha).value)


@converts("BiasAdd", domain=DOMAIN)
def bias_add(g: Context, x: Value, bias: Value, skip: Value) -> Value:
    return g.call("add", g.call("add", x, bias), skip)


@converts("BiasSplitGelu", domain=DOMAIN)
def bias_split_gelu(g: Context, x: Value, bias: Value) -> Value:
    """The first half of the last axis times the GELU of the second."""
    first, second = g.multi("split", g.call("add", x, bias), indices_or_sections=2, axis=x.rank - 1)
    return g.call("multiply", first, g.call("nn.gelu", second))


@converts("BiasSoftmax", domain=DOMAIN)
def bias_softmax(g: Context, x: Value, bias: Value, *, is_inner_broadcast: int, axis: int = 1) -> Value:
    """Softmax over all axes from ``axis`` on. The bias has ones where it is broadcast, so both ways of doing it are NumPy's."""
    return softmax_behind(g, g.call("add", x, bias), axis)


def softmax_behind(g: Context, x: Value, axis: int) -> Value:
    """Softmax over all axes from ``axis`` on together."""
    axes = tuple(range(g.axis(axis, x.rank), x.rank))
    if len(axes) == 1:
        return g.call("nn.softmax", x, axis=axes[0])
    shifted = Term(g, x) - Term(g, g.call("max", x, axis=axes, keepdims=True))
    powers = Term(g, g.call("exp", shifted.value))
    return (powers / Term(g, g.call("sum", powers.value, axis=axes, keepdims=True))).value


@converts("BiasDropout", domain=DOMAIN)
def bias_dropout(
    g: Context, x: Value, bias: Value, residual: Value | None = None, ratio: Value | None = None,
    training_mode: Value | None = None,
    *, seed: int | None = None,
) -> list[Value | None]:
    """Without training: the sum, and a mask that keeps everything."""
    if training_mode is not None and g.ints(training_mode) != (0,):
        raise g.unsupported("training_mode is not known to be false; supported: inference; export the model in evaluation mode")
    total = g.call("add", x, bias)
    mask = g.call("ones_like", g.cast(x, "bool")) if g.wants(1) else None
    return [total if residual is None else g.call("add", total, residual), mask]
