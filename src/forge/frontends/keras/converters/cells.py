"""Cells of recurrent layers: one step, and the states before the first one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from forge import dims
from forge.dims import Dim
from forge.frontends.keras.context import Context
from forge.frontends.keras.converters.activations import activated
from forge.frontends.keras.converters.convolutions import (
    SPATIAL,
    biased,
    convolved,
    is_first,
    padded,
    per_axis,
    spatial_of,
)
from forge.frontends.keras.converters.core import product
from forge.frontends.keras.registry import converts
from forge.frontends.keras.tree import Layer
from forge.ir.nodes import Value

Step = tuple[Value, list[Any]]
"""What a cell gives: its output, and the states after it."""


def _listed(states: Any) -> list[Value]:
    return list(states) if isinstance(states, list | tuple) else [states]


@converts("LSTMCell")
def lstm_cell(
    g: Context, inputs: Value, states: Any, training: bool | None = None, *, units: int, activation: Any = "tanh",
    recurrent_activation: Any = "sigmoid", use_bias: bool = True,
) -> Step:
    h, c = _listed(states)
    total = g.call("add", product(g, inputs, g.weight("kernel")), product(g, h, g.weight("recurrent_kernel")))
    total = g.call("add", total, g.weight("bias")) if use_bias else total
    return _gated(g, g.multi("split", total, indices_or_sections=4, axis=total.rank - 1), c, activation, recurrent_activation)


def _gated(g: Context, gates: Sequence[Value], c: Value, activation: Any, recurrent_activation: Any) -> Step:
    """The next states of an LSTM from its gates, in the order of Keras: input, forget, cell, output."""
    enter, forget, leave = (activated(g, gates[k], recurrent_activation) for k in (0, 1, 3))
    c = g.call("add", g.call("multiply", forget, c), g.call("multiply", enter, activated(g, gates[2], activation)))
    h = g.call("multiply", leave, activated(g, c, activation))
    return h, [h, c]


@converts("GRUCell")
def gru_cell(
    g: Context, inputs: Value, states: Any, training: bool | None = None, *, units: int, activation: Any = "tanh",
    recurrent_activation: Any = "sigmoid", use_bias: bool = True, reset_after: bool = False,
) -> Step:
    """``reset_after``: Keras 2.1 and before reset first, and do not say so."""
    (h,) = _listed(states)
    kernel, recurrent = g.weight("kernel"), g.weight("recurrent_kernel")
    of_x = product(g, inputs, kernel)
    after: Value | None = None
    if use_bias:
        bias = g.weight("bias")
        if reset_after:
            bias, after = (g.call("squeeze", part, axis=(0,)) for part in g.multi("split", bias, indices_or_sections=2, axis=0))
        of_x = g.call("add", of_x, bias)
    x_update, x_reset, x_new = g.multi("split", of_x, indices_or_sections=3, axis=1)
    if reset_after:
        of_h = product(g, h, recurrent)
        of_h = of_h if after is None else g.call("add", of_h, after)
        h_update, h_reset, h_new = g.multi("split", of_h, indices_or_sections=3, axis=1)
    else:
        own = g.multi("split", recurrent, indices_or_sections=3, axis=1)
        h_update, h_reset = (product(g, h, own[k]) for k in (0, 1))
    update = activated(g, g.call("add", x_update, h_update), recurrent_activation)
    reset = activated(g, g.call("add", x_reset, h_reset), recurrent_activation)
    h_new = g.call("multiply", reset, h_new) if reset_after else product(g, g.call("multiply", reset, h), own[2])
    new = activated(g, g.call("add", x_new, h_new), activation)
    kept = g.call("multiply", update, h)
    h = g.call("add", kept, g.call("multiply", g.call("subtract", g.scalar(1, update), update), new))
    return h, [h]


@converts("SimpleRNNCell")
def simple_rnn_cell(
    g: Context, inputs: Value, states: Any, training: bool | None = None, *, units: int, activation: Any = "tanh",
    use_bias: bool = True,
) -> Step:
    (h,) = _listed(states)
    of_x = product(g, inputs, g.weight("kernel"))
    of_x = g.call("add", of_x, g.weight("bias")) if use_bias else of_x
    h = activated(g, g.call("add", of_x, product(g, h, g.weight("recurrent_kernel"))), activation)
    return h, [h]


@converts("StackedRNNCells")
def stacked_cells(g: Context, inputs: Value, states: Any, training: bool | None = None, *, cells: Any) -> Step:
    after = []
    for cell, own in zip(g.layer.children.values(), states, strict=True):
        inputs, new = g.run(cell, inputs, _listed(own))
        new = _listed(new)
        after.append(new if isinstance(own, list | tuple) else new[0])
    return inputs, after


ConvStep = Callable[[Context, Value, list[Value]], Step]


def conv_lstm_step(config: Any, rank: int) -> ConvStep:
    """One step of a ConvLSTM layer, whose weights are at ``cell``."""
    first = config["data_format"] == "channels_first"

    def step(g: Context, x: Value, states: list[Value]) -> Step:
        h, c = states
        of_x = convolved(
            g, x, g.weight("kernel", "cell"), rank, config["data_format"], config["padding"], config["strides"],
            config["dilation_rate"], 1)
        if config["use_bias"]:
            of_x = biased(g, of_x, g.weight("bias", "cell"), first)
        of_h = convolved(g, h, g.weight("recurrent_kernel", "cell"), rank, config["data_format"], "same", 1, 1, 1)
        gates = g.multi("split", g.call("add", of_x, of_h), indices_or_sections=4, axis=1 if first else of_x.rank - 1)
        return _gated(g, gates, c, config["activation"], config["recurrent_activation"])

    return step


def conv_lstm_shape(g: Context, sequence: Value, config: Any, rank: int) -> tuple[Dim, ...]:
    """The shape of the states of a ConvLSTM layer."""
    first = is_first(g, config["data_format"])
    kernel = per_axis(g, config["kernel_size"], rank, "kernel_size")
    steps = per_axis(g, config["strides"], rank, "strides")
    gaps = per_axis(g, config["dilation_rate"], rank, "dilation_rate")
    step = g.call("take", sequence, g.constant(0, "int64"), axis=1)
    around = padded(g, config["padding"], step, first, kernel, steps, gaps)
    sizes = [
        dims.floordiv(size + around[k] + around[k + rank] - (kernel[k] - 1) * gaps[k] - 1, steps[k]) + 1
        for k, size in enumerate(spatial_of(step, first))]
    filters = config["filters"]
    return (sequence.shape[0], filters, *sizes) if first else (sequence.shape[0], *sizes, filters)


def initial_states(g: Context, cell: Layer, batch: Dim, dtype: str) -> list[Any]:
    """Zeros for each state of a cell.

    Raises:
        OpAttributeUnimplemented: the sizes of a custom cell's states are not known.
    """
    if cell.class_name == "StackedRNNCells":
        return [_own_states(g, inner, batch, dtype) for inner in cell.children.values()]
    found = _own_states(g, cell, batch, dtype)
    return found if isinstance(found, list) else [found]


def _own_states(g: Context, cell: Layer, batch: Dim, dtype: str) -> Any:
    units = cell.config.get("units")
    if type(units) is not int or units < 1:
        raise g.unsupported(f"cell {cell.class_name}: the sizes of its states are not known; give the layer an initial_state")
    zeros = g.full((batch, units), 0, dtype)
    return [zeros, zeros] if cell.class_name == "LSTMCell" else [zeros] if cell.class_name == "GRUCell" else zeros


def rank_of(class_name: str) -> int:
    """Spatial axes of a layer that has their number in its name."""
    return next(rank for rank in SPATIAL if f"{rank}D" in class_name)
