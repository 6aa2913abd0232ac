"""What recurrent layers share: their inputs as numbers, steps through time, and results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forge.frontends.control import build_region
from forge.frontends.scope import Region
from forge.frontends.tflite import quantized
from forge.frontends.tflite.context import Context
from forge.ir.nodes import Value
from forge.ir.types import TensorType

Step = Callable[[Context, Value, list[Value]], tuple[Value, list[Value]]]
"""One step: a slice of the input and states -> the output and the states after it."""
FUNCTIONS = {"TANH": "tanh", "RELU": "relu"}
"""Activation functions that ``nn.lstm`` and ``nn.rnn`` know."""


def numbers_of(g: Context, inputs: Sequence[Value | None]) -> list[Value | None]:
    """Inputs as floats; variables, which have types of their own, too."""
    found = []
    for position, value in enumerate(inputs):
        how = quantized.quantization(g.tensor(position))
        if value is not None and how is not None:
            value = quantized.dequantize(g, value, how)
        elif value is not None and value.dtype in ("int32", "float16"):
            value = quantized.bias(g, position, value) if value.dtype == "int32" else g.cast(value, "float32")
        found.append(value)
    return found


def at(values: Sequence[Value | None], position: int) -> Value | None:
    return values[position] if position < len(values) else None


def required(g: Context, values: Sequence[Value | None], position: int) -> Value:
    found = at(values, position)
    if found is None:
        raise g.invalid(f"input {position} is absent; expected one")
    return found


def in_time(g: Context, x: Value | None, time_major: bool) -> Value:
    """[time, batch, features]"""
    if x is None or x.rank != 3:
        raise g.invalid(f"got the input {None if x is None else x.type}; expected three dimensions")
    return x if time_major else swapped(g, x)


def swapped(g: Context, x: Value) -> Value:
    return g.moved(x, (1, 0, 2))


def merged(g: Context, results: list[Value], merge: bool) -> list[Value]:
    if merge:
        return [result_of(g, g.call("concatenate", *results, axis=2))]
    return [result_of(g, value, position) for position, value in enumerate(results)]


def repeated(g: Context, x: Value, states: Sequence[Value], step: Step, backwards: bool) -> tuple[Value, list[Value]]:
    """What a step gives for each [batch, features] of [time, batch, features], and the last states."""
    types = [*(v.type for v in states), TensorType(x.shape[1:], x.dtype)]

    def build(inner: Context, arguments: list[Value]) -> list[Value]:
        y, after = step(inner, arguments[-1], arguments[:-1])
        return [*after, y]

    region: Region = build_region(g, types, build)
    graph = region.with_captures(region.captured, len(types))
    direction = (1,) if backwards else None
    *last, y = g.multi(
        "scan", *states, x, *region.captured, regions=[graph], num_states=len(states), num_scan_inputs=1,
        input_directions=direction, output_directions=direction)
    return y, last


def result_of(g: Context, value: Value, position: int = 0) -> Value:
    """A result as the model keeps it."""
    tensor = g.result(position)
    how = quantized.quantization(tensor)
    return value if how is None else quantized.quantize(g, value, how, tensor.dtype)
