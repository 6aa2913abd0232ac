"""LSTMs. What they keep from one run to the next are variables of the model, which are states of a session.

A layer with nothing unusual is ``nn.lstm``; one with a projection, normalized gates or a bound of the cells is a
``scan`` over its steps, and so is one on integers, whose states are rounded in each step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from forge.compose.products import dense
from forge.dims import Dim
from forge.frontends.tflite import gates as gates_of
from forge.frontends.tflite import quantized
from forge.frontends.tflite.context import Context
from forge.frontends.tflite.converters.activations import activated
from forge.frontends.tflite.converters.recurrent_integers import IN_GATE, basic_lstm_of_integers, looked_up, normalized, stored
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
from forge.frontends.tflite.model import Quantization
from forge.frontends.tflite.registry import converts, takes_integers
from forge.ir.nodes import Value

_EPSILON = 1e-8
"""What TFLite adds to the variance of normalized gates."""


@dataclass(frozen=True)
class Gates:
    """Weights of an LSTM, by gate: input (None where it is coupled with forget), forget, cell, output.

    Attributes:
        auxiliary: weights of a second input.
    """

    weights: Sequence[Value | None]
    recurrent: Sequence[Value | None]
    peephole: Sequence[Value | None]
    biases: Sequence[Value | None]
    projection: Value | None
    projection_bias: Value | None
    norms: Sequence[Value | None] = (None,) * 4
    auxiliary: Sequence[Value | None] = (None,) * 4

    @property
    def is_plain(self) -> bool:
        """Whether ``nn.lstm`` computes it, which couples the forget gate with the input gate, and not the other way round."""
        unusual = (self.projection, *self.norms, *self.auxiliary)
        return self.weights[0] is not None and all(v is None for v in unusual)


@dataclass(frozen=True)
class Bounds:
    """Bounds of the cell state and of the projection, 0 for none, and the activation function."""

    cell: float
    projection: float
    activation: str


@converts("UNIDIRECTIONAL_SEQUENCE_LSTM")
@takes_integers
def sequence_lstm(
    g: Context, *inputs: Value | None, fused_activation_function: str = "NONE", cell_clip: float = 0.0, proj_clip: float = 0.0,
    time_major: bool = False, diagonal_recurrent_tensors: bool = False,
) -> Value:
    if diagonal_recurrent_tensors:
        raise g.unsupported("diagonal_recurrent_tensors: not supported; expected matrices")
    numbers = numbers_of(g, inputs)
    gates = _gates(g, numbers, 1, 20)
    x = in_time(g, numbers[0], time_major)
    y = _lstm(g, x, gates, Bounds(cell_clip, proj_clip, fused_activation_function), (18, 19), numbers)
    return result_of(g, y if time_major else swapped(g, y))


@converts("LSTM")
@takes_integers
def lstm(
    g: Context, *inputs: Value | None, fused_activation_function: str = "NONE", cell_clip: float = 0.0, proj_clip: float = 0.0,
    kernel_type: str = "FULL",
) -> list[Value]:
    if kernel_type == "BASIC":
        return (_basic_lstm if quantized.quantization(g.tensor(4)) is None else basic_lstm_of_integers)(g, inputs)
    numbers = numbers_of(g, inputs)
    gates = _gates(g, numbers, 1, 20)
    x = g.call("expand_dims", required(g, numbers, 0), axis=0)
    y = _lstm(g, x, gates, Bounds(cell_clip, proj_clip, fused_activation_function), (18, 19), numbers)
    return [result_of(g, g.call("squeeze", y, axis=(0,)))]


@converts("BIDIRECTIONAL_SEQUENCE_LSTM")
@takes_integers
def bidirectional_lstm(
    g: Context, *inputs: Value | None, fused_activation_function: str = "NONE", cell_clip: float = 0.0, proj_clip: float = 0.0,
    time_major: bool = True, merge_outputs: bool = False,
) -> list[Value]:
    numbers = numbers_of(g, inputs)
    bounds = Bounds(cell_clip, proj_clip, fused_activation_function)
    x, second = in_time(g, numbers[0], time_major), at(numbers, 39)
    auxiliary = None if second is None else in_time(g, second, time_major)
    results = []
    for first, states, aux, backwards in ((1, (35, 36), 40, False), (18, (37, 38), 44, True)):
        weights = numbers[aux : aux + 4] if len(numbers) > aux else []
        gates = _gates(g, numbers, first, None, [*weights, *[None] * (4 - len(weights))] if auxiliary is not None else None)
        own = x
        if auxiliary is not None and not any(v is not None for v in gates.auxiliary):
            own = auxiliary if backwards else x
        y = _lstm(g, own, gates, bounds, states, numbers, auxiliary=auxiliary, backwards=backwards)
        results.append(y if time_major else swapped(g, y))
    return merged(g, results, merge_outputs)


def _gates(
    g: Context, v: Sequence[Value | None], first: int, norms: int | None, auxiliary: Sequence[Value | None] | None = None
) -> Gates:
    """The weights of an LSTM, which begin at input ``first``; its biases may be of integers."""
    gates = Gates(
        [at(v, first + k) for k in range(4)], [at(v, first + 4 + k) for k in range(4)],
        [at(v, first + 8 + k) for k in range(3)], [at(v, first + 11 + k) for k in range(4)],
        at(v, first + 15), at(v, first + 16),
        [None] * 4 if norms is None else [at(v, norms + k) for k in range(4)], auxiliary or [None] * 4)
    if any(w is None for w in (*gates.weights[1:], *gates.recurrent[1:])):
        raise g.invalid("weights are absent; expected those of the forget, cell and output gates")
    return gates


def _lstm(
    g: Context, x: Value, gates: Gates, bounds: Bounds, states: tuple[int, int], values: Sequence[Value | None], *,
    auxiliary: Value | None = None, backwards: bool = False,
) -> Value:
    """Outputs [time, batch, features]; the states are written."""
    h, c = (required(g, values, position) for position in states)
    kinds = [quantized.quantization(g.tensor(position)) for position in states]
    if gates.is_plain and not bounds.cell and bounds.activation in FUNCTIONS and not any(kinds):
        y, h, c = _whole_lstm(g, x, gates, bounds.activation, h, c, backwards)
    else:
        inputs = [x] if not any(v is not None for v in gates.auxiliary) or auxiliary is None else [x, auxiliary]
        wide = x if len(inputs) == 1 else g.call("concatenate", *inputs, axis=2)
        is_whole = all(kind is not None for kind in kinds)
        if is_whole and g.result().dtype != "int8":
            raise g.unsupported(f"got an output of {g.result().dtype} with quantized states; expected int8")
        step = _LstmStep(g, gates, bounds, kinds, _intermediates(g) if is_whole else [None] * 5, x.shape[2])
        y, (h, c) = repeated(g, wide, [h, c], step, backwards)
    for position, value in zip(states, (h, c)):
        g.set_variable(position, value)
    return y


def _whole_lstm(
    g: Context, x: Value, gates: Gates, activation: str, h: Value, c: Value, backwards: bool
) -> tuple[Value, Value, Value]:
    """By ``nn.lstm``, whose gates are in the order input, output, forget, cell."""
    order = (0, 3, 1, 2)
    forget = gates.weights[1]
    assert forget is not None
    units = forget.shape[0]

    def joined(parts: Sequence[Value | None]) -> Value:
        of = [parts[k] for k in order]
        like = next((v for v in of if v is not None), None)
        shape = (units,) if like is None else like.shape
        zero = g.call("full", g.constant(0, "float32"), shape=shape)
        return g.call("expand_dims", g.call("concatenate", *(zero if v is None else v for v in of), axis=0), axis=0)

    biases = joined(gates.biases)
    bias = g.call("concatenate", biases, g.call("zeros_like", biases), axis=1)
    peephole = None
    if any(v is not None for v in gates.peephole):
        zero = g.call("full", g.constant(0, "float32"), shape=(units,))
        parts = [v if v is not None else zero for v in (gates.peephole[0], gates.peephole[2], gates.peephole[1])]
        peephole = g.call("expand_dims", g.call("concatenate", *parts, axis=0), axis=0)
    function = FUNCTIONS[activation]
    y, h, c = g.multi(
        "nn.lstm", x, joined(gates.weights), joined(gates.recurrent), bias, None,
        *(g.call("expand_dims", v, axis=0) for v in (h, c)), peephole, activations=("sigmoid", function, function),
        activation_alpha=(0.0,) * 3, activation_beta=(0.0,) * 3, direction="reverse" if backwards else "forward")
    h, c = (g.call("squeeze", v, axis=(0,)) for v in (h, c))
    return g.call("squeeze", y, axis=(1,)), h, c


@dataclass(frozen=True)
class _LstmStep:
    """One step of an LSTM; on integers, what kernels keep between its operations is rounded as they round it.

    Attributes:
        kinds: how the states are quantized: the output, and the cells.
        between: how what is between operations is quantized: the gates, and the output before a projection.
        width: features of the first input.
    """

    g: Context
    gates: Gates
    bounds: Bounds
    kinds: Sequence[Quantization | None]
    between: Sequence[Quantization | None]
    width: Dim

    @property
    def is_whole(self) -> bool:
        """Whether it computes with integers."""
        return all(kind is not None for kind in self.kinds)

    def __call__(self, inner: Context, x: Value, states: list[Value]) -> tuple[Value, list[Value]]:
        h, c = states
        parts = [x]
        if any(v is not None for v in self.gates.auxiliary):
            parts = inner.multi("split", x, indices_or_sections=(self.width,), axis=1)
        forget = self._opened(inner, 1, parts, h, c)
        if self.gates.weights[0] is None:
            one = 1 - 2.0**-15 if self.is_whole else 1  # the greatest of int16 is the kernels' 1
            enter = inner.call("subtract", inner.scalar(one, forget), forget)
        else:
            enter = self._opened(inner, 0, parts, h, c)
        proposal = self._bounded(inner, self._gate(inner, 2, parts, h, None), IN_GATE if self.is_whole else None)
        products = [inner.call("multiply", forget, c), inner.call("multiply", enter, proposal)]
        c = inner.call("add", *(self._rounded(inner, product, self.kinds[1]) for product in products))
        if self.bounds.cell:
            c = inner.call("clip", c, a_min=-self.bounds.cell, a_max=self.bounds.cell)
        c = stored(inner, c, self.kinds[1], "int16")
        leave = self._opened(inner, 3, parts, h, c)
        h = inner.call("multiply", leave, self._bounded(inner, c, self.kinds[1]))
        h = stored(inner, self._projected(inner, h), self.kinds[0], "int8")
        return h, [h, c]

    def _gate(self, inner: Context, k: int, parts: Sequence[Value], h: Value, cell: Value | None) -> Value:
        """A gate before its function."""
        gates = self.gates
        own = (gates.weights[k], gates.recurrent[k])
        terms = [dense(inner, x, _known(_own(inner, weight))) for x, weight in zip((parts[0], h), own)]
        aux = _own(inner, gates.auxiliary[k])
        if aux is not None:
            terms.append(dense(inner, parts[1], aux))
        peephole = _own(inner, gates.peephole[{0: 0, 1: 1, 3: 2}[k]]) if k != 2 and cell is not None else None
        if peephole is not None and cell is not None:
            terms.append(inner.call("multiply", cell, peephole))
        norm, bias = _own(inner, gates.norms[k]), _own(inner, gates.biases[k])
        if norm is None and bias is not None:
            terms[0] = inner.call("add", terms[0], bias)
        how = IN_GATE if norm is None else self.between[k]
        total: Value | None = None
        for term, places in zip(terms, ((0, 1 + k), (18, 5 + k), (19, 9 + k - (k == 3))), strict=False):
            if self.is_whole and how is not None:
                unit = float(how.scales[0])
                scales = [kind.scales[0] for kind in map(self.g.quantization, places) if kind is not None]
                term = quantized.to_units(inner, term, unit, math.prod(map(float, scales)) / unit)
            total = self._rounded(inner, term if total is None else inner.call("add", total, term), how)
        assert total is not None
        if norm is not None and self.is_whole and how is not None:
            scales = [float(kind.scales[0]) for kind in (how, self.g.quantization(20 + k)) if kind is not None]
            return self._rounded(inner, normalized(inner, total, norm, bias, *scales), IN_GATE)
        if norm is not None:
            total = inner.call("multiply", _normalized(inner, total), norm)
            total = total if bias is None else inner.call("add", total, bias)
        return total

    def _rounded(self, inner: Context, value: Value, how: Quantization | None) -> Value:
        return stored(inner, value, how, "int16") if self.is_whole else value

    def _opened(self, inner: Context, k: int, parts: Sequence[Value], h: Value, cell: Value) -> Value:
        total = self._gate(inner, k, parts, h, cell)
        return looked_up(inner, total, IN_GATE, gates_of.sigmoid) if self.is_whole else inner.call("sigmoid", total)

    def _bounded(self, inner: Context, value: Value, how: Quantization | None) -> Value:
        return activated(inner, value, self.bounds.activation) if how is None else looked_up(inner, value, how, gates_of.tanh)

    def _projected(self, inner: Context, h: Value) -> Value:
        projection, added, bound = _own(inner, self.gates.projection), self.gates.projection_bias, self.bounds.projection
        if projection is None:
            return h
        h = dense(inner, stored(inner, h, self.between[4], "int8"), projection)
        h = h if added is None else inner.call("add", h, inner.scope.capture(added))
        kinds = (self.between[4], self.g.quantization(16), self.kinds[0])
        scales = [float(kind.scales[0]) for kind in kinds if kind is not None]
        if len(scales) == 3:
            h = quantized.to_units(inner, h, scales[2], scales[0] * scales[1] / scales[2])
        return inner.call("clip", h, a_min=-bound, a_max=bound) if bound else h


def _own(inner: Context, value: Value | None) -> Value | None:
    """A value of the graph around the step."""
    return None if value is None else inner.scope.capture(value)


def _intermediates(g: Context) -> list[Quantization | None]:
    """How layers on integers keep the sums of the gates that are normalized, and what is projected."""
    numbers = g.operator.intermediates
    if len(numbers) < 5 or any(number < 0 for number in numbers):
        raise g.invalid(f"got {len(numbers)} intermediates; expected 5, with their quantization")
    return [g.scope.tensors.tensors[number].quantization for number in numbers[:5]]


def _known(value: Value | None) -> Value:
    assert value is not None
    return value


def _normalized(g: Context, x: Value) -> Value:
    mean = g.call("mean", x, axis=(1,), keepdims=True)
    centred = g.call("subtract", x, mean)
    variance = g.call("mean", g.call("multiply", centred, centred), axis=(1,), keepdims=True)
    return g.call("multiply", centred, g.call("rsqrt", g.call("add", variance, g.scalar(_EPSILON, variance))))


def _basic_lstm(g: Context, v: Sequence[Value | None]) -> list[Value]:
    """One step, with all gates in one product; states are inputs and outputs."""
    v = numbers_of(g, v)
    x, h, weights, bias, c = (required(g, v, position) for position in range(5))
    both = g.call("concatenate", x, h, axis=1)
    gates = g.call("add", dense(g, both, weights), bias)
    enter, proposal, forget, leave = g.multi("split", gates, indices_or_sections=4, axis=1)
    kept = g.call("multiply", g.call("sigmoid", forget), c)
    c = g.call("add", g.call("multiply", g.call("sigmoid", enter), g.call("tanh", proposal)), kept)
    h = g.call("multiply", g.call("sigmoid", leave), g.call("tanh", c))
    found = [h, c, both, gates][: g.num_outputs]
    return [result_of(g, value, position) for position, value in enumerate(found)]
