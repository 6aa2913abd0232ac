"""Operators that compute each element by itself."""

from __future__ import annotations

import numpy as np

from forge import dtypes
from forge.frontends.converter import forwarding
from forge.frontends.tflite import quantized, tables
from forge.frontends.tflite.context import Context
from forge.frontends.tflite.converters.activations import activated
from forge.frontends.tflite.registry import converts, moves, takes_integers
from forge.ir.nodes import Value

_ARITHMETIC = {"ADD": "add", "SUB": "subtract", "MUL": "multiply", "DIV": "divide"}


@converts("ADD", "SUB", "MUL", "DIV")
def arithmetic(g: Context, x: Value, y: Value, *, fused_activation_function: str = "NONE") -> Value:
    op = _ARITHMETIC[g.operator.name]
    if op == "multiply":
        quantized.fixed_point(g, 0, 1)
    if op == "divide" and dtypes.is_integer(x.dtype):
        op = "trunc_divide"
    return activated(g, g.call(op, x, y), fused_activation_function)


for _name, _op in {
    "ABS": "abs", "ATAN2": "atan2", "BITWISE_XOR": "bitwise_xor", "CEIL": "ceil", "COS": "cos", "FLOOR": "floor",
    "FLOOR_DIV": "floor_divide", "FLOOR_MOD": "floor_mod", "LOGICAL_AND": "logical_and", "LOGICAL_NOT": "logical_not",
    "LOGICAL_OR": "logical_or", "NEG": "negative", "POW": "power", "RIGHT_SHIFT": "right_shift", "ROUND": "round",
    "SIGN": "sign", "SIN": "sin", "SQRT": "sqrt", "ZEROS_LIKE": "zeros_like",
}.items():
    _whole = _op in ("bitwise_xor", "right_shift")
    _two = _op in ("atan2", "bitwise_xor", "floor_divide", "floor_mod", "logical_and", "logical_or", "power", "right_shift")
    _converter = forwarding(_op, 2 if _two else 1)
    converts(_name)(takes_integers(_converter) if _whole else _converter)

for _name, _op in {
    "EQUAL": "equal", "NOT_EQUAL": "not_equal", "LESS": "less", "LESS_EQUAL": "less_equal", "GREATER": "greater",
    "GREATER_EQUAL": "greater_equal", "MAXIMUM": "maximum", "MINIMUM": "minimum",
}.items():
    converts(_name)(moves(forwarding(_op, 2)))


_TABULATED: dict[str, tuple[str, tables.Function]] = {
    "EXP": ("exp", np.exp), "LOG": ("log", np.log), "RSQRT": ("rsqrt", lambda x: 1 / np.sqrt(x))}


@converts(*_TABULATED)
@takes_integers
def tabulated(g: Context, x: Value) -> Value:
    """Of int16, by the kernels' way of tables."""
    given, wanted = quantized.quantization(g.tensor(0)), quantized.quantization(g.result())
    name, function = _TABULATED[g.operator.name]
    if given is not None and wanted is not None and x.dtype == "int16":
        return tables.looked_up(g, x, tables.function(given.scales[0], wanted.scales[0], function))
    return quantized.by_numbers(g, x, lambda v: g.call(name, v))


@converts("SQUARE")
def square(g: Context, x: Value) -> Value:
    return g.call("multiply", x, x)


@converts("SQUARED_DIFFERENCE")
def squared_difference(g: Context, x: Value, y: Value) -> Value:
    given, others, wanted = (quantized.quantization(one) for one in (g.tensor(0), g.tensor(1), g.result()))
    if given is not None and others is not None and wanted is not None:
        # Fixed point gives both operands 7 bits below twice the larger scale, and rounds them to these.
        largest = 2 * max(float(given.scales[0]), float(others.scales[0]))
        unit = largest / 128
        x, y = (quantized.to_units(g, v, unit, float(how.scales[0]) / largest) for v, how in ((x, given), (y, others)))
        ratio = unit**2 / wanted.scales.astype(np.float64)
        g.away = quantized.away(ratio, ratio)
    difference = g.call("subtract", x, y)
    return g.call("multiply", difference, difference)


@converts("ADD_N")
def add_n(g: Context, *inputs: Value) -> Value:
    total = inputs[0]
    for value in inputs[1:]:
        total = g.call("add", total, value)
    return total


@converts("CAST")
@takes_integers
def cast(g: Context, x: Value, *, in_data_type: str = "float32", out_data_type: str = "float32") -> Value:
    wanted = g.result().dtype
    return g.call("cast", x, dtype=wanted, saturate=False) if x.dtype != wanted else x


@converts("QUANTIZE")
@takes_integers
def quantize(g: Context, x: Value) -> Value:
    if quantized.quantization(g.result()) is None:
        raise g.invalid(f"got an output of {g.result().dtype} without scales; expected a quantized one")
    if quantized.quantization(g.tensor(0)) is not None:
        quantized.fixed_point(g, 0)
    return quantized.by_numbers(g, x, lambda v: v)


@converts("DEQUANTIZE")
@takes_integers
def dequantize(g: Context, x: Value) -> Value:
    how = g.quantization(0)
    if dtypes.is_float(x.dtype):
        return g.cast(x, g.result().dtype)
    if how is None:
        raise g.invalid(f"got an input of {x.dtype} without scales; expected a quantized one")
    return g.cast(quantized.dequantize(g, x, how), g.result().dtype)


@converts("SELECT", "SELECT_V2")
@moves
def select(g: Context, condition: Value, x: Value, y: Value) -> Value:
    if g.operator.name == "SELECT" and condition.rank == 1 and x.rank > 1:
        condition = g.reshape(condition, (*condition.shape, *[1] * (x.rank - 1)))
    return g.call("where", condition, x, y)
