"""Recurrent layers without gates, and filters over the last inputs. What they keep are variables of the model."""

from __future__ import annotations

from collections.abc import Sequence

from forge.compose.products import dense
from forge.frontends.tflite import quantized
from forge.frontends.tflite.context import Context
from forge.frontends.tflite.converters.activations import activated
from forge.frontends.tflite.converters.recurrent_integers import stored
from forge.frontends.tflite.converters.recurrent_parts import (
    FUNCTIONS,
    at,
    in_time,
    merged,
    numbers_of,
    repeated,
    required,
    result_of,
    swapped,
)
from forge.frontends.tflite.registry import converts, takes_integers
from forge.ir.nodes import Value


@converts("UNIDIRECTIONAL_SEQUENCE_RNN")
@takes_integers
def sequence_rnn(
    g: Context, *inputs: Value | None, time_major: bool = False, fused_activation_function: str = "NONE"
) -> Value:
    values = numbers_of(g, inputs)
    x = in_time(g, values[0], time_major)
    y = _rnn(g, x, values, (1, 2, 3, 4), fused_activation_function)
    return y if time_major else swapped(g, y)


@converts("RNN")
@takes_integers
def rnn(g: Context, *inputs: Value | None, fused_activation_function: str = "NONE") -> Value:
    values = numbers_of(g, inputs)
    y = _rnn(g, g.call("expand_dims", required(g, values, 0), axis=0), values, (1, 2, 3, 4), fused_activation_function)
    return g.call("squeeze", y, axis=(0,))


@converts("BIDIRECTIONAL_SEQUENCE_RNN")
@takes_integers
def bidirectional_rnn(
    g: Context, *inputs: Value | None, time_major: bool = False, fused_activation_function: str = "NONE",
    merge_outputs: bool = False,
) -> list[Value]:
    values = numbers_of(g, inputs)
    x, second = in_time(g, values[0], time_major), at(values, 9)
    auxiliary = None if second is None else in_time(g, second, time_major)
    results = []
    for first, weights, backwards in ((1, 10, False), (5, 11, True)):
        extra, own = at(values, weights), x
        if auxiliary is not None and extra is None:
            own = auxiliary if backwards else x
        added = None if extra is None or auxiliary is None else dense(g, auxiliary, extra)
        places = (first, first + 1, first + 2, first + 3)
        y = _rnn(g, own, values, places, fused_activation_function, added, backwards)
        results.append(y if time_major else swapped(g, y))
    return merged(g, results, merge_outputs)


def _rnn(
    g: Context, x: Value, values: Sequence[Value | None], places: tuple[int, int, int, int], activation: str,
    added: Value | None = None, backwards: bool = False,
) -> Value:
    weights, recurrent, state = (required(g, values, places[k]) for k in (0, 1, 3))
    total = dense(g, x, weights)
    bias = at(values, places[2])
    total = total if bias is None else g.call("add", total, bias)
    total = total if added is None else g.call("add", total, added)

    if activation in FUNCTIONS:
        y, last = g.multi(
            "nn.rnn", total, None, g.call("expand_dims", recurrent, axis=0), None, None, g.call("expand_dims", state, axis=0),
            activations=(FUNCTIONS[activation],), activation_alpha=(0.0,), activation_beta=(0.0,),
            direction="reverse" if backwards else "forward")
        g.set_variable(places[3], g.call("squeeze", last, axis=(0,)))
        return g.call("squeeze", y, axis=(1,))

    def step(inner: Context, one: Value, states: list[Value]) -> tuple[Value, list[Value]]:
        h = inner.call("add", one, dense(inner, states[0], inner.scope.capture(recurrent)))
        h = activated(inner, h, activation)
        return h, [h]

    y, (h,) = repeated(g, total, [state], step, backwards)
    g.set_variable(places[3], h)
    return y


@converts("SVDF")
@takes_integers
def svdf(g: Context, *inputs: Value | None, rank: int = 0, fused_activation_function: str = "NONE") -> Value:
    """A filter of rank ``rank`` over the last inputs: features first, then time."""
    values = numbers_of(g, inputs)
    x, features, times, state = (required(g, values, k) for k in (0, 1, 2, 4))
    bias, (filters, memory) = at(values, 3), times.shape
    if rank < 1:
        raise g.invalid(f"rank: got {rank}; expected 1 or more")
    how = quantized.quantization(g.tensor(4))
    old = g.reshape(state, (x.shape[0], filters, memory))
    newest = g.call("expand_dims", dense(g, x, features), axis=2)
    newest = stored(g, newest, how, "int16")
    recent = g.call("strided_slice", old, begin=(1,), end=(memory,), strides=(1,), axes=(2,))
    kept = g.call("concatenate", recent, newest, axis=2)
    g.set_variable(4, g.reshape(kept, state.shape))
    sums = g.call("sum", g.call("multiply", kept, times), axis=(2,))
    units = g.call("sum", g.reshape(sums, (x.shape[0], -1, rank)), axis=(2,))
    units = units if bias is None else g.call("add", units, bias)
    # The kernels on integers compute no activation function.
    return result_of(g, units if how is not None else activated(g, units, fused_activation_function))
