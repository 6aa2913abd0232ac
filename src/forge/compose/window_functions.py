"""Window functions, by which frames of a signal are multiplied, with SciPy's names.

A window has ``length`` numbers of float64; ``length`` is an int64 of rank 0, and ``size`` the same where it is known. With
``periodic`` it is the symmetric window of one number more, without the last, as spectral analysis wants it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def general_cosine(g: Composer, length: Value, weights: Sequence[float], *, periodic: bool, size: Dim | None = None) -> Value:
    """The sum of ``weights[k] * cos(2 pi k i / n)`` at place i; n is ``length``, one less if not ``periodic``.

    Hann's window has the weights (0.5, -0.5), Hamming's (0.54, -0.46), Blackman's (0.42, -0.5, 0.08).
    """
    angle = _places(g, length, size, periodic, 2 * math.pi)
    total = angle * 0 + weights[0]
    for k, weight in enumerate(weights[1:], 1):
        total = total + Term(g, g.call("cos", (angle * k).value)) * weight
    return _or_one(g, length, total)


def bartlett(g: Composer, length: Value, *, periodic: bool, size: Dim | None = None) -> Value:
    """A triangle from 0 to 1 to 0."""
    height = _places(g, length, size, periodic, 2)
    return _or_one(g, length, height.minimum(2 - height))


def kaiser(g: Composer, length: Value, beta: float, *, periodic: bool, size: Dim | None = None) -> Value:
    """``i0(beta * sqrt(1 - r * r)) / i0(beta)`` for r from -1 to 1; i0 is the modified Bessel function of order 0."""
    ratio = _places(g, length, size, periodic, 2) - 1
    inner = Term(g, g.call("sqrt", (1 - ratio * ratio).maximum(0).value))
    top = Term(g, g.call("i0", (inner * beta).value))
    return _or_one(g, length, top / Term(g, g.call("i0", g.constant(beta, "float64"))))


def _places(g: Composer, length: Value, size: Dim | None, periodic: bool, end: float) -> Term:
    """``end * i / n`` at place i."""
    n = Term(g, length)
    return Term(g, g.count(length, size)).cast("float64") * end / (n if periodic else n - 1).maximum(1).cast("float64")


def _or_one(g: Composer, length: Value, window: Term) -> Value:
    """``window``, or 1 where it has a single number."""
    return Term(g, length).equals(1).where(1, window).value
