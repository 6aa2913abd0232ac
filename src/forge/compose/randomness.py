"""Layers that draw numbers: dropout and its kin."""

from __future__ import annotations

import math

from forge.compose import distributions
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def dropout(g: Composer, x: Value, rate: Value, *, seed: int, training: Value | None = None) -> tuple[Value, Value]:
    """``x / (1 - rate)`` with each element replaced by 0 with probability ``rate``, and the mask of those that stay.

    ``rate`` and ``training`` hold one number and one bool; where training is False, ``x`` and a mask of True.
    """
    share = Term(g, g.cast(g.reshape(rate, ()), "float32"))
    numbers = Term(g, g.call("random.uniform", out_shape=x.shape, out_dtype="float32", seed=seed))
    mask = numbers >= share
    scaled = Term(g, x) * (1 / (1 - share)).cast(x.dtype)
    kept = mask.where(scaled, 0)
    if training is None:
        return kept.value, mask.value
    on = Term(g, g.reshape(training, ()))
    return on.where(kept, Term(g, x)).value, mask.either(Term(g, g.call("logical_not", on.value))).value


def known_dropout(g: Composer, x: Value, rate: float, *, seed: int) -> tuple[Value, Value]:
    """`dropout` with a rate that is known, which may be 0 or 1."""
    if rate == 0:
        return x, g.call("broadcast_to", g.constant(True), shape=x.shape)
    if rate == 1:
        nothing = g.call("broadcast_to", g.constant(0, x.dtype), shape=x.shape)
        return nothing, g.cast(nothing, "bool")
    return dropout(g, x, g.constant(rate, "float32"), seed=seed)


MIN_OF_SELU = 1.7580993408473766
"""SELU tends to its negative (Klambauer et al., "Self-Normalizing Neural Networks", 2017)."""


def special_dropout(g: Composer, x: Value, rate: float, *, of_channels: bool, keeps_variance: bool, seed: int) -> Value:
    """``dropout`` of whole channels, axes 0 and 1, where ``of_channels``; 0 < rate < 1.

    ``keeps_variance``: elements are not replaced by 0 but by what SELU tends to, and mean and variance are restored.
    """
    shape = (*x.shape[:2], *(1,) * (x.rank - 2)) if of_channels else x.shape
    ones = g.call("broadcast_to", g.scalar(1, x), shape=shape)
    _, kept = dropout(g, ones, g.constant(rate, "float32"), seed=seed)
    mask, data = Term(g, kept), Term(g, x)
    if not keeps_variance:
        return (data * mask.where(Term(g, g.scalar(1 / (1 - rate), x)), 0)).value
    scale = 1 / math.sqrt((MIN_OF_SELU**2 * rate + 1) * (1 - rate))
    shift = MIN_OF_SELU * scale * rate
    factor = mask.where(Term(g, g.scalar(scale, x)), 0)
    return (data * factor + mask.where(Term(g, g.scalar(shift, x)), shift - MIN_OF_SELU * scale)).value


def rrelu(g: Composer, x: Value, lower: float, upper: float, *, seed: int) -> tuple[Value, Value]:
    """``x`` times a number in [lower, upper) where it is not positive; these numbers, and 1 elsewhere."""
    slopes = distributions.uniform(g, x.shape, x.dtype, low=lower, high=upper, seed=seed)
    noise = g.call("where", g.call("greater", x, g.scalar(0, x)), g.scalar(1, x), slopes)
    return g.call("multiply", x, noise), noise
