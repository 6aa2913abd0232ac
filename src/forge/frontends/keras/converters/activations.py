"""Activation functions: layers, and what other layers have in themselves by name, or as a serialized object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from forge.errors import OpNotImplemented
from forge.frontends.keras.context import Context
from forge.frontends.keras.registry import converts
from forge.frontends.keras.tree import layer_of
from forge.ir.nodes import Value

Activation = Callable[[Context, Value], Value]


def _op(name: str, **attributes: Any) -> Activation:
    return lambda g, x: g.call(name, x, **attributes)


def _clipped(low: float, high: float) -> Activation:
    return lambda g, x: g.call("clip", x, a_min=low, a_max=high)


def _tanh_shrink(g: Context, x: Value) -> Value:
    return g.call("subtract", x, g.call("tanh", x))


def squareplus(g: Context, x: Value, b: float = 4) -> Value:
    """``(x + sqrt(x^2 + b)) / 2``."""
    root = g.call("sqrt", g.call("add", g.call("multiply", x, x), g.scalar(b, x)))
    return g.call("divide", g.call("add", x, root), g.scalar(2, x))


def _sparse_plus(g: Context, x: Value) -> Value:
    one = g.scalar(1, x)
    raised = g.call("add", x, one)
    middle = g.call("divide", g.call("multiply", raised, raised), g.scalar(4, x))
    above = g.call("where", g.call("less", x, one), middle, x)
    return g.call("where", g.call("less_equal", x, g.scalar(-1, x)), g.call("zeros_like", x), above)


def _hard_tanh(g: Context, x: Value) -> Value:
    return g.call("clip", x, a_min=-1.0, a_max=1.0)


def _sparse_sigmoid(g: Context, x: Value) -> Value:
    half = g.call("multiply", g.call("add", x, g.scalar(1, x)), g.scalar(0.5, x))
    return g.call("clip", half, a_min=0.0, a_max=1.0)


def glu(g: Context, x: Value, axis: int = -1) -> Value:
    """Half of the elements along an axis, each times the sigmoid of one of the other half."""
    first, second = g.multi("split", x, indices_or_sections=2, axis=g.axis(axis, x.rank))
    return g.call("multiply", first, g.call("sigmoid", second))


def sparsemax(g: Context, x: Value, axis: int = -1) -> Value:
    """The projection of each row on the simplex (Martins and Astudillo, 2016), with the sums of sums that Keras 3 has in it."""
    axis = g.axis(axis, x.rank)
    order = g.call("sort", x, axis=axis, is_ascend=False)
    sums = g.call("cumsum", order, axis=axis)
    count = g.count(g.extent(x, axis), x.shape[axis])
    ranks = g.call("add", g.cast(count, x.dtype), g.scalar(1, x))
    shape = [1] * x.rank
    shape[axis] = x.shape[axis]
    ranks = g.reshape(ranks, shape)
    support = g.call("greater", g.call("add", g.call("multiply", ranks, order), g.scalar(1, x)), sums)
    number = g.call("sum", g.cast(support, x.dtype), axis=(axis,), keepdims=True)
    total = g.call("sum", g.call("where", support, sums, g.call("zeros_like", sums)), axis=(axis,), keepdims=True)
    tau = g.call("divide", g.call("subtract", total, g.scalar(1, x)), number)
    return g.call("nn.relu", g.call("subtract", x, tau))


def threshold(g: Context, x: Value, limit: float, default: float) -> Value:
    """x where it is above ``limit``, else ``default``."""
    return g.call("where", g.call("greater", x, g.scalar(limit, x)), x, g.full(x.shape, default, x.dtype))


def hard_sigmoid(g: Context, x: Value) -> Value:
    """A line of slope 1/6 between 0 and 1; of slope 0.2 in Keras 1 and 2."""
    return g.call("nn.hard_sigmoid", x, alpha=0.2 if g.scope.state.is_old else 1 / 6, beta=0.5)


ACTIVATIONS: dict[str, Activation] = {
    "linear": lambda g, x: x,
    "relu": _op("nn.relu"),
    "relu6": _clipped(0.0, 6.0),
    "sigmoid": _op("sigmoid"),
    "tanh": _op("tanh"),
    "softmax": _op("nn.softmax", axis=-1),
    "log_softmax": _op("nn.log_softmax", axis=-1),
    "softplus": _op("nn.softplus"),
    "softsign": _op("nn.softsign"),
    "elu": _op("nn.elu", alpha=1.0),
    "celu": _op("nn.celu", alpha=1.0),
    "selu": _op("nn.selu"),
    "gelu": _op("nn.gelu", approximate="none"),
    "silu": _op("nn.silu"),
    "swish": _op("nn.silu"),
    "mish": _op("nn.mish"),
    "exponential": _op("exp"),
    "leaky_relu": _op("nn.leaky_relu", alpha=0.2),
    "hard_sigmoid": hard_sigmoid,
    "hard_silu": _op("nn.hardswish"),
    "hard_swish": _op("nn.hardswish"),
    "hard_tanh": _hard_tanh,
    "hard_shrink": _op("nn.shrink", lambd=0.5, bias=0.0),
    "soft_shrink": _op("nn.shrink", lambd=0.5, bias=0.5),
    "tanh_shrink": _tanh_shrink,
    "threshold": lambda g, x: threshold(g, x, 0.0, 0.0),
    "log_sigmoid": _op("nn.log_sigmoid"),
    "glu": glu,
    "sparsemax": sparsemax,
    "sparse_plus": _sparse_plus,
    "sparse_sigmoid": _sparse_sigmoid,
    "squareplus": squareplus,
}


def name_of(activation: Any) -> str:
    """The name of an activation function; "" for one that has none, as layers have."""
    if activation is None:
        return "linear"
    if isinstance(activation, Mapping):
        config = activation.get("config")
        if activation.get("class_name") == "function" and isinstance(config, str):
            return config
        inner = config.get("activation") if activation.get("class_name") == "Activation" and isinstance(config, Mapping) else None
        return name_of(inner) if inner is not None else ""
    return str(activation)


def activated(g: Context, x: Value, activation: Any) -> Value:
    """``x`` after an activation function.

    Raises:
        OpNotImplemented: Keras has none of this name.
    """
    name = name_of(activation)
    if name in ACTIVATIONS:
        return ACTIVATIONS[name](g, x)
    if not name and isinstance(activation, Mapping):
        found = g.run(layer_of(activation, f"{g.layer.path}/activation".strip("/")), x)
        return found if isinstance(found, Value) else found[0]
    raise OpNotImplemented(f"activation {str(activation)[:80]!r}: is none of Keras ({', '.join(sorted(ACTIVATIONS))})")


@converts("Activation")
def activation_layer(g: Context, x: Value, *, activation: Any) -> Value:
    return activated(g, x, activation)


def relu(g: Context, x: Value, max_value: float | None, negative_slope: float, limit: float) -> Value:
    """``max_value`` at most; below ``limit``, ``negative_slope * (x - limit)``."""
    found = x
    if limit:
        below = g.call("multiply", g.call("subtract", x, g.scalar(limit, x)), g.scalar(negative_slope, x))
        found = g.call("where", g.call("greater_equal", x, g.scalar(limit, x)), x, below)
    elif negative_slope:
        found = g.call("nn.leaky_relu", x, alpha=float(negative_slope))
    elif max_value is not None:
        return g.call("clip", x, a_min=0.0, a_max=float(max_value))
    else:
        return g.call("nn.relu", x)
    return found if max_value is None else g.call("minimum", found, g.scalar(max_value, x))


def _plain(value: Any) -> Any:
    """A number, which old versions serialize as an array."""
    if isinstance(value, Mapping):
        inner = value.get("value", value.get("config", {}))
        return inner.get("value") if isinstance(inner, Mapping) else inner
    return value


@converts("ReLU")
def relu_layer(
    g: Context, x: Value, *, max_value: Any = None, negative_slope: Any = 0.0, threshold: Any = 0.0
) -> Value:
    return relu(g, x, _plain(max_value), _plain(negative_slope) or 0.0, _plain(threshold) or 0.0)


@converts("LeakyReLU")
def leaky_relu_layer(g: Context, x: Value, *, negative_slope: Any = None, alpha: Any = None) -> Value:
    slope = _plain(negative_slope) if negative_slope is not None else _plain(alpha)
    return g.call("nn.leaky_relu", x, alpha=float(0.3 if slope is None else slope))


@converts("ELU")
def elu_layer(g: Context, x: Value, *, alpha: Any = 1.0) -> Value:
    return g.call("nn.elu", x, alpha=float(_plain(alpha)))


@converts("ThresholdedReLU")
def thresholded_relu_layer(g: Context, x: Value, *, theta: Any = 1.0) -> Value:
    return threshold(g, x, float(_plain(theta)), 0.0)


@converts("PReLU")
def prelu_layer(g: Context, x: Value, *, shared_axes: Any = None) -> Value:
    alpha = g.weight("alpha")
    below = g.call("multiply", alpha, g.call("minimum", x, g.scalar(0, x)))
    return g.call("add", g.call("nn.relu", x), below)


@converts("Softmax")
def softmax_layer(g: Context, x: Value, mask: Value | None = None, *, axis: Any = None) -> Value:
    if mask is not None:
        largest = -3e4 if x.dtype == "float16" else -1e9
        adder = g.call("multiply", g.call("subtract", g.scalar(1, x), g.cast(mask, x.dtype)), g.scalar(largest, x))
        x = g.call("add", x, adder)
    axes = axis if isinstance(axis, tuple) else (-1 if axis is None else axis,)
    if len(axes) == 1:
        return g.call("nn.softmax", x, axis=g.axis(axes[0], x.rank))
    axes = tuple(sorted(g.axis(a, x.rank) for a in axes))
    total = g.call("logsumexp", x, axis=axes, keepdims=True)
    return g.call("exp", g.call("subtract", x, total))
