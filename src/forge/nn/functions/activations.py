"""Activations."""

from __future__ import annotations

from typing import Any

from forge.compose import activations
from forge.errors import OptionError
from forge.nn.functions.elementwise import clip
from forge.nn.tensor import Tensor
from forge.nn.tracing import Context


def _activation(operator: str, x: Tensor, name: str, **attributes: Any) -> Tensor:
    g = Context(name)
    return g.tensor(g.call(operator, g.value(x), **attributes))


def relu(x: Tensor, name: str = "relu") -> Tensor:
    """``max(x, 0)``.

    >>> nn.relu([-1.0, 2.0]).numpy().tolist()
    [0.0, 2.0]
    """
    return _activation("nn.relu", x, name)


def relu6(x: Tensor, name: str = "relu6") -> Tensor:
    """``min(max(x, 0), 6)``.

    >>> nn.relu6([-1.0, 2.0, 9.0]).numpy().tolist()
    [0.0, 2.0, 6.0]
    """
    return clip(x, 0, 6, name)


def leaky_relu(x: Tensor, negative_slope: float = 0.01, name: str = "leaky_relu") -> Tensor:
    """``x`` where it is positive, else ``negative_slope * x``.

    >>> nn.leaky_relu([-1.0, 2.0]).numpy().tolist()
    [-0.01, 2.0]
    """
    return _activation("nn.leaky_relu", x, name, alpha=negative_slope)


def prelu(x: Tensor, alpha: Tensor, name: str = "prelu") -> Tensor:
    """``x`` where it is positive, else ``alpha * x``.

    Args:
        x: ``(n, channels, ...)``.
        alpha: a number for each channel, or one for all.

    >>> nn.prelu([[-1.0, -1.0]], [0.1, 0.5]).numpy().tolist()
    [[-0.1, -0.5]]
    """
    g = Context(name)
    return g.tensor(activations.prelu(g, g.value(x), g.value(alpha)))


def elu(x: Tensor, alpha: float = 1.0, name: str = "elu") -> Tensor:
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)``.

    >>> nn.elu([-1.0, 2.0]).numpy().round(4).tolist()
    [-0.6321, 2.0]
    """
    return _activation("nn.elu", x, name, alpha=alpha)


def selu(x: Tensor, name: str = "selu") -> Tensor:
    """``1.0507 * x`` where it is positive, else ``1.7581 * (exp(x) - 1)`` (Klambauer et al., 2017).

    >>> nn.selu([-1.0, 1.0]).numpy().round(4).tolist()
    [-1.1113, 1.0507]
    """
    return _activation("nn.selu", x, name)


def hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0, name: str = "hardtanh") -> Tensor:
    """``min(max(x, min_val), max_val)``.

    >>> nn.hardtanh([-2.0, 0.5, 2.0]).numpy().tolist()
    [-1.0, 0.5, 1.0]
    """
    return clip(x, min_val, max_val, name)


def softsign(x: Tensor, name: str = "softsign") -> Tensor:
    """``x / (1 + |x|)``.

    >>> nn.softsign([-1.0, 3.0]).numpy().tolist()
    [-0.5, 0.75]
    """
    return _activation("nn.softsign", x, name)


def logsigmoid(x: Tensor, name: str = "logsigmoid") -> Tensor:
    """``log(sigmoid(x))``, precise.

    >>> nn.logsigmoid([0.0, -100.0]).numpy().round(4).tolist()
    [-0.6931, -100.0]
    """
    return _activation("nn.log_sigmoid", x, name)


def silu(x: Tensor, name: str = "silu") -> Tensor:
    """``x * sigmoid(x)``.

    >>> nn.silu([0.0, 1.0]).numpy().round(4).tolist()
    [0.0, 0.7311]
    """
    return _activation("nn.silu", x, name)


def gelu(x: Tensor, approximate: str | None = None, name: str = "gelu") -> Tensor:
    """``x * (1 + erf(x / sqrt(2))) / 2``; with ``approximate="tanh"`` by the hyperbolic tangent.

    Raises:
        OptionError: another approximation.

    >>> nn.gelu([0.0, 1.0]).numpy().round(4).tolist()
    [0.0, 0.8413]
    """
    if approximate not in (None, "none", "tanh"):
        raise OptionError(f"gelu: approximate: got {approximate!r}; expected None or 'tanh'")
    return _activation("nn.gelu", x, name, approximate=approximate or "none")


def sigmoid(x: Tensor, name: str = "sigmoid") -> Tensor:
    """``1 / (1 + exp(-x))``.

    >>> nn.sigmoid([0.0, 1.0]).numpy().round(4).tolist()
    [0.5, 0.7311]
    """
    return _activation("sigmoid", x, name)


def hardsigmoid(x: Tensor, name: str = "hardsigmoid") -> Tensor:
    """``min(max(x / 6 + 1 / 2, 0), 1)``.

    >>> nn.hardsigmoid([-3.0, 0.0, 3.0]).numpy().tolist()
    [0.0, 0.5, 1.0]
    """
    return _activation("nn.hard_sigmoid", x, name, alpha=1 / 6, beta=0.5)


def hardswish(x: Tensor, name: str = "hardswish") -> Tensor:
    """``x * hardsigmoid(x)``.

    >>> nn.hardswish([-3.0, 1.5, 3.0]).numpy().tolist()
    [-0.0, 1.125, 3.0]
    """
    return _activation("nn.hardswish", x, name)


def mish(x: Tensor, name: str = "mish") -> Tensor:
    """``x * tanh(softplus(x))``.

    >>> nn.mish([0.0, 1.0]).numpy().round(4).tolist()
    [0.0, 0.8651]
    """
    return _activation("nn.mish", x, name)


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0, name: str = "softplus") -> Tensor:
    """``log(1 + exp(beta * x)) / beta``, and ``x`` where ``beta * x`` is above ``threshold``.

    >>> nn.softplus([0.0, 1.0]).numpy().round(4).tolist()
    [0.6931, 1.3133]
    """
    g = Context(name)
    return g.tensor(activations.softplus(g, g.value(x), beta=beta, threshold=threshold))


def glu(x: Tensor, axis: int = -1, name: str = "glu") -> Tensor:
    """The first half along ``axis`` times the sigmoid of the second.

    >>> nn.glu([2.0, 0.0]).numpy().tolist()
    [1.0]
    """
    g = Context(name)
    value = g.value(x)
    return g.tensor(activations.glu(g, value, g.axis(axis, value.rank)))


def softmax(x: Tensor, axis: int = -1, name: str = "softmax") -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``axis``.

    >>> nn.softmax([0.0, 1.0]).numpy().round(4).tolist()
    [0.2689, 0.7311]
    """
    return _activation("nn.softmax", x, name, axis=axis)


def log_softmax(x: Tensor, axis: int = -1, name: str = "log_softmax") -> Tensor:
    """``log(softmax(x))``, precise.

    >>> nn.log_softmax([0.0, 1.0]).numpy().round(4).tolist()
    [-1.3133, -0.3133]
    """
    return _activation("nn.log_softmax", x, name, axis=axis)
