"""The functions whose accuracy is measured: operator, attributes, and the truth as a C expression (see ``oracle``).

A new row is all that a function needs; ``python -m benchmarks.accuracy --functions NAME --write`` then measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any


@dataclass(frozen=True)
class Function:
    """One measured function.

    Attributes:
        operator: name in the graph IR.
        truth: C expression over doubles ``x`` (and ``y``); ``e(x)`` is exp without overflow.
        exact: the same of mpmath's numbers, called with mpmath and the operands.
        attributes: those that differ from the defaults.
        operands: 1, or 2 for pairs.
    """

    operator: str
    truth: str
    exact: Callable[..., Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    operands: int = 1

    @property
    def name(self) -> str:
        """The operator with its attributes."""
        return " ".join([self.operator, *(f"{k}={v}" for k, v in self.attributes.items())])


def _same(*names: str) -> list[Function]:
    """Functions that C, mpmath and Forge call by one name."""
    return [Function(n, f"{n}(x)", partial(_by_name, n)) for n in names]


def _by_name(name: str, mp: Any, x: Any) -> Any:
    return getattr(mp, name)(x)


def _at_ends(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """``function``, but 0 or x where it differs from that by less than any float shows; mpmath would need as many digits."""
    return lambda mp, x: function(mp, x) if abs(x) < 2000 else max(x, mp.mpf(0))


_SOFTPLUS = "(log1p(e(-fabs(x))) + (x < 0 ? 0 : x))"
_GATE = "isinf(x) && x < 0 ? NAN : x < -600 ? -0.0 : "

FUNCTIONS: tuple[Function, ...] = (
    Function("exp", "e(x)", lambda mp, x: mp.exp(x)),
    Function("expm1", "expm1(clamp(x, 600))", lambda mp, x: mp.expm1(x)),
    *_same("log"),
    Function("log2", "log2(x)", lambda mp, x: mp.log(x) / mp.ln2),
    *_same("log10", "log1p", "sqrt"),
    Function("rsqrt", "1 / sqrt(x)", lambda mp, x: 1 / mp.sqrt(x)),
    Function("reciprocal", "1 / x", lambda mp, x: 1 / x),
    *_same("erf", "erfc"),
    Function("exp2", "exp2(clamp(x, 600))", lambda mp, x: mp.mpf(2) ** x),
    Function("cbrt", "cbrt(x)", lambda mp, x: mp.sign(x) * mp.cbrt(abs(x))),
    Function("sigmoid", "1 / (1 + e(-x))", lambda mp, x: 1 / (1 + mp.exp(-x))),
    *_same("tanh", "sin", "cos", "tan", "asin", "acos", "atan"),
    Function("sinh", "sinh(clamp(x, 600))", lambda mp, x: mp.sinh(x)),
    Function("cosh", "cosh(clamp(x, 600))", lambda mp, x: mp.cosh(x)),
    *_same("asinh", "acosh", "atanh"),
    Function("nn.gelu", _GATE + "0.5 * x * erfc(clamp(x, 600) * -0.70710678118654752440)",
             _at_ends(lambda mp, x: x * mp.erfc(-x / mp.sqrt(2)) / 2)),
    Function("nn.gelu", _GATE + "x / (1 + e(-2 * x * 0.79788456080286535588 * (1 + 0.044715 * x * x)))",
             _at_ends(lambda mp, x: x / (1 + mp.exp(-2 * mp.sqrt(2 / mp.pi) * x * (1 + mp.mpf("0.044715") * x * x)))),
             {"approximate": "tanh"}),
    Function("nn.silu", _GATE + "x / (1 + e(-x))", _at_ends(lambda mp, x: x / (1 + mp.exp(-x)))),
    Function("nn.softplus", _SOFTPLUS, _at_ends(lambda mp, x: mp.log1p(mp.exp(x)))),
    Function("nn.softsign", "x / (1 + fabs(x))", lambda mp, x: x / (1 + abs(x))),
    Function("nn.mish", f"{_GATE} x * tanh({_SOFTPLUS})", _at_ends(lambda mp, x: x * mp.tanh(mp.log1p(mp.exp(x))))),
    Function("nn.elu", "x > 0 ? x : expm1(clamp(x, 600))", lambda mp, x: x if x > 0 else mp.expm1(x)),
    Function("nn.selu", "1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * expm1(clamp(x, 600)))",
             lambda mp, x: mp.mpf(1.0507009873554805) * (x if x > 0 else mp.mpf(1.6732632423543772) * mp.expm1(x))),
)
"""Functions of one operand."""

PAIRS: tuple[Function, ...] = (
    Function("power", "pow(x, y)", lambda mp, x, y: x**y, operands=2),
    Function("atan2", "atan2(x, y)", lambda mp, x, y: mp.atan2(x, y), operands=2),
)
"""Functions of two operands."""

BY_NAME: Mapping[str, Function] = {f.name: f for f in (*FUNCTIONS, *PAIRS)}
