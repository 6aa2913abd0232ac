"""Steps of training: new parameters and states from gradients."""

from __future__ import annotations

from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def adagrad(
    g: Composer,
    rate: Value,
    step: Value,
    parameter: Value,
    gradient: Value,
    total: Value,
    *,
    decay: float = 0.0,
    epsilon: float = 0.0,
    weight_decay: float = 0.0,
) -> tuple[Value, Value]:
    """The new parameter and sum of squares.

    ``d = gradient + weight_decay * parameter``, ``h = total + d^2``,
    ``parameter - rate / (1 + step * decay) * d / (sqrt(h) + epsilon)``. ``rate`` and ``step`` are single numbers.
    """
    x = Term(g, parameter)
    d = x * weight_decay + Term(g, gradient)
    h = Term(g, total) + d * d
    adjusted = _number(g, rate, x) / (_number(g, step, x) * decay + 1)
    return (x - adjusted * d / (_root(g, h) + epsilon)).value, h.value


def adam(
    g: Composer,
    rate: Value,
    step: Value,
    parameter: Value,
    gradient: Value,
    mean: Value,
    square: Value,
    *,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 0.0,
    weight_decay: float = 0.0,
    weight_decay_after: float = 0.0,
) -> tuple[Value, Value, Value]:
    """The new parameter, mean of gradients and mean of their squares.

    ``d = gradient + weight_decay * parameter``, ``m = alpha * mean + (1 - alpha) * d``, ``v = beta * square + (1 - beta) * d^2``,
    ``x = parameter - r * m / (sqrt(v) + epsilon)``, times ``1 - weight_decay_after``. From step 1 on, the rate r is
    ``rate * sqrt(1 - beta^step) / (1 - alpha^step)``; before, it is ``rate``.
    """
    x = Term(g, parameter)
    d = x * weight_decay + Term(g, gradient)
    m = Term(g, mean) * alpha + d * (1 - alpha)
    v = Term(g, square) * beta + d * d * (1 - beta)
    moved = x - _corrected(g, _number(g, rate, x), _number(g, step, x), alpha, beta) * (m / (_root(g, v) + epsilon))
    return (moved * (1 - weight_decay_after)).value, m.value, v.value


def momentum(
    g: Composer,
    rate: Value,
    step: Value,
    parameter: Value,
    gradient: Value,
    velocity: Value,
    *,
    alpha: float = 0.9,
    beta: float = 1.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
) -> tuple[Value, Value]:
    """The new parameter and velocity.

    ``d = gradient + weight_decay * parameter``, ``v = alpha * velocity + b * d``, b 1 in step 0 and ``beta`` later; then
    ``parameter - rate * v``, or, with ``nesterov``, ``parameter - rate * (d + alpha * v)``.
    """
    x = Term(g, parameter)
    d = x * weight_decay + Term(g, gradient)
    scale = (_number(g, step, x) > 0).where(Term(g, g.scalar(beta, parameter)), 1)
    v = Term(g, velocity) * alpha + scale * d
    direction = d + v * alpha if nesterov else v
    return (x - _number(g, rate, x) * direction).value, v.value


def _number(g: Composer, value: Value, like: Term) -> Term:
    """A tensor of one element as a scalar of the element type of ``like``."""
    return Term(g, g.cast(g.reshape(value, ()), like.value.dtype))


def _root(g: Composer, x: Term) -> Term:
    return Term(g, g.call("sqrt", x.value))


def _corrected(g: Composer, rate: Term, step: Term, alpha: float, beta: float) -> Term:
    """The rate that makes up for means that start at 0."""
    powers = [Term(g, g.call("power", g.scalar(base, step.value), step.value)) for base in (alpha, beta)]
    return (step > 0).where(rate * _root(g, 1 - powers[1]) / (1 - powers[0]), rate)
