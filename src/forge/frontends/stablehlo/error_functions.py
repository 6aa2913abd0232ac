"""The complementary error function, which exporters write out as polynomials and an exponential: ``erfc`` in their place."""

from __future__ import annotations

import math

import numpy as np

from forge.frontends.stablehlo.context import Context
from forge.ir.interp import evaluate
from forge.ir.nodes import Node, Value

_OPS = frozenset(("abs", "add", "divide", "exp", "less", "multiply", "negative", "subtract", "where"))
_MOST = 200
"""Operators that the function is written in, at most."""
_SAMPLES = np.concatenate([np.linspace(-9, 9, 363), (-np.inf, -20, -1, -1e-20, 0.0, 1e-20, 1, 2, np.inf)])
_TOLERANCE = 2e-5
"""Relative: where x is large, the exponential of the square of a rounded number is no better in float32."""
_LEAST = 1e-30


def complementary_error_function(g: Context, condition: Value, on_true: Value, on_false: Value) -> Value | None:
    """``erfc(x)``, where the selection is ``select(abs(x) < 1, .., ..)`` and gives it; None where it gives anything else.

    Polynomials differ from one exporter to the next: whatever the branches are made of, they have to give its numbers.
    """
    x = _compared_with_one(g, condition)
    if x is None or x.dtype not in ("float32", "float64") or on_true.shape != x.shape or on_false.shape != x.shape:
        return None
    nodes = _between(x, (on_true, on_false))
    if not any(node.op == "exp" for node in nodes):
        return None
    numbers = {x: _SAMPLES.astype(x.dtype)}
    for node in nodes:
        operands = [numbers[v] if v in numbers else _number(g, v) for v in node.operands if v is not None]
        if any(v is None for v in operands):
            return None
        numbers[node.result] = np.broadcast_to(evaluate(node, operands, {}, lambda *_: [])[0], _SAMPLES.shape)
    if on_true not in numbers or on_false not in numbers:
        return None
    samples = numbers[x]
    found = np.where(np.abs(samples) < 1, numbers[on_true], numbers[on_false])
    expected = np.array([math.erfc(v) for v in samples])
    return g.call("erfc", x) if np.allclose(found, expected, _TOLERANCE, _LEAST) else None


def _compared_with_one(g: Context, condition: Value) -> Value | None:
    """x of ``abs(x) < 1``"""
    match condition.producer:
        case Node(op="less", operands=[Value(producer=Node(op="abs", operands=[x])), Value() as bound]) if g.is_full_of(bound, 1):
            return x
    return None


def _between(x: Value, results: tuple[Value, ...]) -> list[Node]:
    """Operators that compute ``results`` of ``x``, in their order; none where there are others, or too many."""
    found: dict[Node, None] = {}
    pending = [(value, False) for value in results]
    while pending:
        value, is_ready = pending.pop()
        node = value.producer
        if value is x or node is None or node in found or node.op not in _OPS:
            continue
        if is_ready:
            found[node] = None
            continue
        if len(pending) > _MOST or len(found) > _MOST:
            return []
        pending += [(value, True), *((v, False) for v in node.operands if v is not None)]
    return list(found)


def _number(g: Context, value: Value) -> np.ndarray | None:
    array = g.array(value)
    return array.reshape(()) if array is not None and array.size == 1 else None
