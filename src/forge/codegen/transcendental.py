"""The table of elementary functions that code generation writes itself, so that they are vectors on every target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from forge.codegen import exponential, trigonometry
from forge.tir.expr import Buffer, Expr

Helper = Callable[..., Expr]
"""From argument expressions (of any lanes) to the result."""


@dataclass(frozen=True)
class Guarded:
    """A function with a form for all arguments, and a faster one for those where ``rare`` is false."""

    rare: Helper
    usual: Helper
    always: Helper


_PLAIN: tuple[Helper, ...] = (
    exponential.exp, exponential.exp2, exponential.expm1, exponential.log, exponential.log2, exponential.log10,
    exponential.log1p, exponential.sigmoid, exponential.tanh, exponential.erf, exponential.sinh, exponential.cosh,
    exponential.asinh, exponential.acosh, exponential.atanh, trigonometry.asin, trigonometry.acos, trigonometry.atan,
    trigonometry.atan2)

_PERIODIC: tuple[Helper, ...] = (trigonometry.sin, trigonometry.cos, trigonometry.tan)

HELPERS: dict[str, Helper | Guarded] = {
    **{f"float.{f.__name__}": f for f in _PLAIN},
    **{f"float.{f.__name__}": Guarded(trigonometry.is_far, f, partial(f, far=True)) for f in _PERIODIC},
}

TABLES: dict[Buffer, tuple[int, ...]] = trigonometry.TABLES
"""Contents of the constant buffers that helpers read."""
