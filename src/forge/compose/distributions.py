"""Random tensors. ``seed`` says which numbers of a distribution they are; ``shape`` may have symbolic sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from forge import dims, dtypes
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term

Shape = Sequence[Dim]
Number = float | Value
"""A parameter: one for all elements, or a tensor that broadcasts to the result."""


def uniform(g: Composer, shape: Shape, dtype: str = "float32", *, seed: int, low: float = 0.0, high: float = 1.0) -> Value:
    """Numbers in [low, high); real and imaginary parts of complex ones."""
    if dtypes.is_complex(dtype):
        return g.call("complex.make", *(uniform(g, shape, dtypes.part(dtype), seed=s, low=low, high=high) for s in _two(seed)))
    return _drawn(g, "random.uniform", shape, dtype, seed, low=low, high=high)


def standard_normal(g: Composer, shape: Shape, dtype: str = "float32", *, seed: int, scale: float = 1.0) -> Value:
    """Numbers of mean 0 and deviation ``scale``; parts of complex ones have half of the variance each."""
    if dtypes.is_complex(dtype):
        half = scale * math.sqrt(0.5)
        return g.call("complex.make", *(standard_normal(g, shape, dtypes.part(dtype), seed=s, scale=half) for s in _two(seed)))
    return _drawn(g, "random.normal", shape, dtype, seed, scale=scale)


def _two(seed: int) -> tuple[int, int]:
    return seed, (seed + 1) % (1 << 32)


def _drawn(g: Composer, op: str, shape: Shape, dtype: str, seed: int, **parameters: float) -> Value:
    if dims.is_static(*shape):
        return g.call(op, out_shape=tuple(shape), out_dtype=dtype, seed=seed, **parameters)
    return g.reshape(g.call(op, g.vector(shape), out_shape=None, out_dtype=dtype, seed=seed, **parameters), shape)


def normal(g: Composer, mean: Number, deviation: Number, shape: Shape, dtype: str, *, seed: int) -> Value:
    unit = standard_normal(g, shape, dtype, seed=seed)
    return (Term(g, unit) * _parameter(g, deviation, dtype) + _parameter(g, mean, dtype)).value


def _parameter(g: Composer, number: Number, dtype: str) -> Term:
    return Term(g, g.cast(number, dtype) if isinstance(number, Value) else g.constant(number, dtype))


def integers(g: Composer, low: Number, high: Number, shape: Shape, dtype: str, *, seed: int) -> Value:
    """Whole numbers, low <= number < high."""
    first, last = (_parameter(g, x, "float64") for x in (low, high))
    unit = Term(g, uniform(g, shape, "float64", seed=seed))
    return ((unit * (last - first)).floor() + first).cast(dtype).value


def permutation(g: Composer, count: Dim, *, seed: int) -> Value:
    """0, 1, .. count - 1 in random order."""
    return g.call("argsort", uniform(g, (count,), "float64", seed=seed), axis=0)


def _log_of_unit(g: Composer, shape: Shape, dtype: str, seed: int) -> Term:
    """log(1 - u)."""
    return Term(g, g.call("log1p", (Term(g, uniform(g, shape, dtype, seed=seed)) * -1).value))


def exponential(g: Composer, rate: float, shape: Shape, *, seed: int) -> Value:
    """Waiting times of float32 with mean ``1 / rate``."""
    return (_log_of_unit(g, shape, "float32", seed) / -rate).value


def geometric(g: Composer, p: float, shape: Shape, *, seed: int) -> Value:
    """How many trials there are up to the first success, which has probability ``p``, as float64."""
    logarithm = _log_of_unit(g, shape, "float64", seed)
    return ((logarithm / math.log1p(-p)).floor() + 1 if p < 1 else logarithm * 0 + 1).value


def cauchy(g: Composer, median: float, scale: float, shape: Shape, *, seed: int) -> Value:
    """``median + scale * tan(pi * (u - 1/2))``, of float32."""
    angle = (Term(g, uniform(g, shape, seed=seed)) - 0.5) * math.pi
    return (Term(g, g.call("tan", angle.value)) * scale + median).value


def multinomial(g: Composer, weights: Value, count: int, *, replace: bool, seed: int) -> Value:
    """``count`` classes of each row of ``weights``, ``[N, C]`` or ``[C]``.

    Without replacement, the classes with the largest logarithms plus Gumbel noise (Kool et al., "Stochastic Beams", 2019).
    """
    logarithms = g.call("log", weights)
    rows = logarithms if weights.rank == 2 else g.reshape(logarithms, (1, *weights.shape))
    if replace:
        found = g.call("random.multinomial", rows, num_samples=count, seed=seed)
    else:
        noise = Term(g, g.call("log", (_log_of_unit(g, rows.shape, weights.dtype, seed) * -1).value))
        found = g.call("topk", (Term(g, rows) - noise).value, k=count, axis=1, ret_type="indices")
    return found if weights.rank == 2 else g.reshape(found, (count,))
