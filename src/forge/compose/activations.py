"""Activations that are not operators: with thresholds, factors and gates. None of them changes the element type."""

from __future__ import annotations

from forge import dims, dtypes
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def silu(g: Composer, x: Value) -> Value:
    """``x / (1 + exp(-x))``, of complex numbers, too."""
    if not dtypes.is_complex(x.dtype):
        return g.call("nn.silu", x)
    return g.call("divide", x, g.call("add", g.scalar(1, x), g.call("exp", g.call("negative", x))))


def elu(g: Composer, x: Value, *, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    """``scale * x`` above 0, else ``alpha * scale * (exp(input_scale * x) - 1)``."""
    if scale == input_scale == 1:
        return g.call("nn.elu", x, alpha=float(alpha))
    below = Term(g, g.call("expm1", (Term(g, x) * input_scale).value))
    above = Term(g, x) * scale
    return (Term(g, x) > 0).where(above, below * (alpha * scale)).value


def softplus(g: Composer, x: Value, *, beta: float = 1.0, threshold: float = 20.0) -> Value:
    """``log(1 + exp(beta * x)) / beta``, and x where ``beta * x`` is more than ``threshold``."""
    steep = Term(g, x) if beta == 1 else Term(g, x) * beta
    result = Term(g, g.call("nn.softplus", steep.value))
    return (steep > threshold).where(Term(g, x), result if beta == 1 else result / beta).value


def soft_shrink(g: Composer, x: Value, threshold: float = 0.5) -> Value:
    """``x`` moved towards 0 by ``threshold``, but not past it."""
    return g.call("subtract", x, g.call("clip", x, a_min=-float(threshold), a_max=float(threshold)))


def hard_shrink(g: Composer, x: Value, threshold: float = 0.5) -> Value:
    """0 where ``|x|`` is at most ``threshold``, else x."""
    return (abs(Term(g, x)) <= threshold).where(0, Term(g, x)).value


def threshold(g: Composer, x: Value, least: float, value: float) -> Value:
    """``value`` where ``x`` is at most ``least``, else x."""
    return (Term(g, x) <= least).where(value, Term(g, x)).value


def prelu(g: Composer, x: Value, slope: Value) -> Value:
    """``slope * x`` where x is not positive, else x; the slope is one number, or one for each channel, axis 1."""
    if x.rank < 2:
        return sloped(g, x, g.reshape(slope, (1,) * x.rank))
    return g.call("nn.prelu", x, g.reshape(slope, (dims.product(slope.shape),)), axis=1)


def sloped(g: Composer, x: Value, slope: Value) -> Value:
    """``slope * x`` where x is not positive, else x; slopes broadcast."""
    return (Term(g, x) > 0).where(Term(g, x), Term(g, slope) * Term(g, x)).value


def glu(g: Composer, x: Value, axis: int) -> Value:
    """The first half along ``axis`` times the sigmoid of the second (Dauphin et al., 2017)."""
    value, gate = g.multi("split", x, indices_or_sections=2, axis=axis)
    return g.call("multiply", value, g.call("sigmoid", gate))
