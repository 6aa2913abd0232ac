"""Activation functions of recurrent cells, by the names that operators use."""

from __future__ import annotations

from collections.abc import Callable

from forge.errors import CompileError
from forge.tir import expr as E
from forge.tir.expr import Expr


def activate(name: str, x: Expr, alpha: float, beta: float) -> Expr:
    """Applies activation ``name`` to ``x`` with its parameters; those that it does not have are not looked at.

    Raises:
        CompileError: there is no such activation.
    """
    form = _FORMS.get(name)
    if form is None:
        raise CompileError(f"kernel rnn: activation {name!r}; expected one of {', '.join(_FORMS)}")
    return form(x, _like(alpha, x), _like(beta, x))


def _like(value: float, x: Expr) -> Expr:
    return E.const(value, x.dtype, x.lanes)


def _maximum(x: Expr, limit: float) -> Expr:
    return E.binary("max", x, _like(limit, x))


def _positive(x: Expr) -> Expr:
    return E.compare("gt", x, _like(0.0, x))


_FORMS: dict[str, Callable[[Expr, Expr, Expr], Expr]] = {
    "sigmoid": lambda x, a, b: E.call("sigmoid", x),
    "tanh": lambda x, a, b: E.call("tanh", x),
    "relu": lambda x, a, b: _maximum(x, 0.0),
    "affine": lambda x, a, b: a * x + b,
    "leaky_relu": lambda x, a, b: E.select(_positive(x), x, a * x),
    "thresholded_relu": lambda x, a, b: E.select(E.compare("gt", x, a), x, _like(0.0, x)),
    "scaled_tanh": lambda x, a, b: a * E.call("tanh", b * x),
    "hard_sigmoid": lambda x, a, b: E.binary("min", _maximum(a * x + b, 0.0), _like(1.0, x)),
    "elu": lambda x, a, b: E.select(_positive(x), x, a * E.call("expm1", x)),
    "softsign": lambda x, a, b: x / (E.call("abs", x) + _like(1.0, x)),
    "softplus": lambda x, a, b: E.call("softplus", x),
}
