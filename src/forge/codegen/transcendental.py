"""The table of elementary functions that code generation writes itself, so that they are vectors on every target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from forge.codegen import bfloat16, division, exponential, gates, powers, trigonometry
from forge.tir import expr as tir
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Stmt

Helper = Callable[..., Expr]
"""From argument expressions (of any lanes) to the result."""


@dataclass(frozen=True)
class Guarded:
    """A function with a form for all arguments, and a faster one for those where ``rare`` is false."""

    rare: Helper
    usual: Helper
    always: Helper


@dataclass(frozen=True)
class Looped:
    """A function of scalars with loops in it; vectors are taken apart. ``build`` gives the statements and then the result."""

    build: Callable[..., tuple[Stmt, Expr]]


@dataclass(frozen=True)
class ByFormat:
    """Different functions for float32 and float64."""

    single: Helper
    double: Helper | Looped


AnyHelper = Helper | Guarded | Looped | ByFormat

_PLAIN: tuple[Helper, ...] = (
    exponential.exp, exponential.exp2, exponential.expm1, exponential.log, exponential.log2, exponential.log10,
    exponential.log1p, exponential.tanh, exponential.erf, exponential.sinh, exponential.cosh,
    exponential.asinh, exponential.acosh, exponential.atanh, trigonometry.asin, trigonometry.acos, trigonometry.atan,
    gates.sigmoid, gates.silu, gates.gelu, gates.gelu_tanh, gates.mish, gates.softplus,
    trigonometry.atan2, division.trunc, division.floor, division.ceil, division.truncdiv, division.floormod, division.floordiv)

_PERIODIC: tuple[Helper, ...] = (trigonometry.sin, trigonometry.cos, trigonometry.tan)

_BFLOAT16: tuple[Helper, ...] = (bfloat16.sigmoid, bfloat16.silu, bfloat16.softplus, bfloat16.mish, bfloat16.gelu,
                                 bfloat16.gelu_tanh, bfloat16.tanh, bfloat16.erf)

HELPERS: dict[str, AnyHelper] = {
    **{f"float.{f.__name__}": f for f in _PLAIN},
    **{f"float.{f.__name__}": Guarded(trigonometry.is_far, f, partial(f, far=True)) for f in _PERIODIC},
    **{f"bfloat16.{f.__name__}": f for f in _BFLOAT16},
    "float.pow": powers.power, "float.round": division.round_half_even,
    "float.fmod": ByFormat(division.fmod_single, Looped(division.fmod_loop)),
    "float.truncmod": lambda x, y: tir.call("fmod", x, y),
}

TABLES: dict[Buffer, tuple[int, ...]] = trigonometry.TABLES
"""Contents of the constant buffers that helpers read."""
