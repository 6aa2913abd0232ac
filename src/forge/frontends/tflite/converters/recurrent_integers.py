"""Layers on integers: what they keep between operations is rounded as their kernels round it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from forge.compose.products import dense
from forge.frontends.tflite import gates as gates_of
from forge.frontends.tflite import quantized, tables
from forge.frontends.tflite.context import Context
from forge.frontends.tflite.model import Quantization
from forge.ir.nodes import Value
from forge.ops.core.term import Term

IN_GATE, OF_ONE = (Quantization(np.array([2.0**-k], np.float32), np.zeros(1, np.int64)) for k in (12, 15))
"""How what goes into a gate, and what comes out of it, are kept as int16."""
_HALF_UP, _HALF_AWAY = (-(2.0**-17), 2.0**-17), (2.0**-17, 2.0**-17)
"""How products of int16, and quotients by powers of 2, are rounded: they have 15 bits below a step."""
_VARIANCE = 1 << 20
"""Variances of gates are computed as multiples of its reciprocal, and cut off."""
_BITS = 30
"""Variances are below a power of 2."""
_MIN_VARIANCE = 10_000
"""In scales of what normalized gates are multiplied by: stands in for a variance of 0."""


def stored(g: Context, value: Value, how: Quantization | None, dtype: str) -> Value:
    """A state as the integers that are kept can say it."""
    return value if how is None else quantized.dequantize(g, quantized.quantize(g, value, how, dtype), how)


def looked_up(g: Context, value: Value, how: Quantization, table: Callable[[int], np.ndarray]) -> Value:
    """A function of a number that is kept as int16, whose scale is a power of 2."""
    bits = 15 + int(np.frexp(how.scales[0])[1]) - 1
    if not 0 <= bits <= 6 or how.scales[0] != 2.0 ** (bits - 15):
        raise g.unsupported(f"got states with the scale {how.scales[0]}; expected a power of 2 from 2^-15 to 2^-9")
    found = tables.looked_up(g, quantized.quantize(g, value, how, "int16"), table(bits))
    return quantized.dequantize(g, found, OF_ONE)


def normalized(g: Context, total: Value, norm: Value, bias: Value | None, unit: float, scale: float) -> Value:
    """A gate of multiples of ``unit``, normalized along its features, times numbers with ``scale``.

    Kernels do that with integers: normalized numbers are multiples of 1/1024, and products multiples of ``scale``.
    """
    count = total.shape[1]
    if not isinstance(count, int):
        raise g.unsupported(f"got a gate of {total.type}; expected a known number of units")

    def whole(value: Value, step: float) -> Term:
        return Term(g, g.call("round", g.call("divide", g.cast(value, "float64"), g.constant(step, "float64"))))

    def rounded(term: Term, op: str = "round_away") -> Term:
        return Term(g, g.call(op, term.value))

    x = whole(total, unit)
    mean = rounded(x.sum(1) * 1024 / count, "trunc")
    variance = rounded(((x * x).sum(1) * (_VARIANCE // count) - mean * mean) / _VARIANCE, "trunc")
    variance = (variance < 1).where(max(1, int(_MIN_VARIANCE * scale)), variance)
    inverse, up = _inverse_root(g, variance)
    centred = (x * 1024 - mean) * inverse
    found = (abs(centred) + up).floor() * rounded(centred, "sign") * whole(norm, scale)
    found = found if bias is None else found + whole(bias, scale / 1024)
    product = rounded(found / 1024) * scale
    return g.cast(quantized.to_units(g, product.value, float(IN_GATE.scales[0]), scale / float(IN_GATE.scales[0])), total.dtype)


def _inverse_root(g: Context, variance: Term) -> tuple[Term, Term]:
    """1 / sqrt of variances [n, 1], as five steps of Newton's method give it, and what is added before products are cut off."""
    powers = np.arange(1, _BITS // 2 + 1)
    place = (variance >= Term(g, g.constant(2.0 ** (2 * powers + 1)[None], "float64"))).cast("int64").sum(1)
    places = np.arange(len(powers) + 1) + 1  # variances from 2^(2k - 1) to 2^(2k + 1) are the k-th

    def at(table: np.ndarray) -> Term:
        return Term(g, g.call("take", g.constant(table, "float64"), place.value, axis=0))

    fraction = variance * at(2.0 ** -(2 * places + 1))
    root = fraction * 0 + 1
    for _ in range(5):
        root = root * 1.5 - fraction * 0.5 * root * root * root
    up = at(np.where(places > 3, 0.5 / 2.0 ** (places - 3), 0) + 0.5)
    return (variance < 2).where(1.0, root * at(2.0 ** -(places + 0.5))), up


def basic_lstm_of_integers(g: Context, inputs: Sequence[Value | None]) -> list[Value]:
    """One step of uint8 with cells of int16; states are inputs and outputs. Numbers are float64, which hold all products."""
    g.real = "float64"
    kinds = [quantized.quantization(g.tensor(k)) for k in range(5)]
    bias_kind, cell_kind = g.quantization(3), kinds[4]
    x, h, weights, bias, cell = (*inputs, *(None,) * 5)[:5]
    if x is None or h is None or weights is None or bias is None or cell is None or bias_kind is None or cell_kind is None:
        raise g.invalid("got an absent or a float input; expected five quantized ones")
    centred = [quantized.centred(g, v, how) for v, how in zip((x, h, weights), kinds)]
    both = g.call("concatenate", *centred[:2], axis=1)
    sums = g.call("add", dense(g, both, centred[2]), g.cast(bias, "float64"))
    unit, scale = float(IN_GATE.scales[0]), float(bias_kind.scales[0])
    # In fixed point as elsewhere, but halves go up.
    up = float(quantized.lost(np.asarray(scale / unit))) + 0.5
    steps = g.call("floor", g.call("add", g.call("multiply", sums, g.scalar(scale / unit, sums)), g.scalar(up, sums)))
    gates = stored(g, g.call("multiply", steps, g.scalar(unit, steps)), IN_GATE, "int16")
    enter, proposal, forget, leave = g.multi("split", gates, indices_or_sections=4, axis=1)
    entered = _product(g, _opened(g, enter), looked_up(g, proposal, IN_GATE, gates_of.tanh), OF_ONE)
    left = _product(g, _opened(g, forget), quantized.dequantize(g, cell, cell_kind), cell_kind)
    g.away = _HALF_AWAY
    after = stored(g, g.call("add", stored(g, entered, cell_kind, "int16"), left), cell_kind, "int16")
    result = _product(g, _opened(g, leave), looked_up(g, after, cell_kind, gates_of.tanh), OF_ONE)
    g.away = _HALF_AWAY
    found = [result, after, g.call("concatenate", x, h, axis=1), gates][: g.num_outputs]
    wanted = [quantized.quantization(g.result(k)) if g.wants(k) else None for k in range(len(found))]
    return [v if how is None or k == 2 else quantized.quantize(g, v, how, g.result(k).dtype)
            for k, (v, how) in enumerate(zip(found, wanted))]


def _opened(g: Context, gate: Value) -> Value:
    return looked_up(g, gate, IN_GATE, gates_of.sigmoid)


def _product(g: Context, a: Value, b: Value, how: Quantization) -> Value:
    g.away = _HALF_UP
    found = stored(g, g.call("multiply", a, b), how, "int16")
    g.away = ()
    return found
