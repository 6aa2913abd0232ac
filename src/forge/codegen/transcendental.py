"""The table of elementary functions that code generation writes itself, so that they are vectors on every target."""

from __future__ import annotations

from collections.abc import Callable

from forge.codegen import exponential
from forge.tir.expr import Expr

HELPERS: dict[str, Callable[..., Expr]] = {
    f"float.{function.__name__}": function for function in (
        exponential.exp, exponential.exp2, exponential.expm1, exponential.log, exponential.log2, exponential.log10,
        exponential.log1p, exponential.sigmoid, exponential.tanh, exponential.erf, exponential.sinh, exponential.cosh,
        exponential.asinh, exponential.acosh, exponential.atanh)
}
