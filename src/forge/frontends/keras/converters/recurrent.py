"""Recurrent layers: as one operator where it has their cell, else a scan over the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from forge.compose.recurrent import layers
from forge.frontends.keras.context import Context
from forge.frontends.keras.converters.activations import name_of
from forge.frontends.keras.converters.cells import conv_lstm_shape, conv_lstm_step, initial_states, rank_of
from forge.frontends.keras.registry import REGISTRY, converts
from forge.frontends.keras.scope import flat, mapped
from forge.frontends.keras.tree import Layer
from forge.ir.nodes import Value
from forge.ir.types import TensorType

Step = Callable[[Context, Value, list[Any]], tuple[Value, list[Any]]]
_OPERATORS = {"LSTMCell": "nn.lstm", "GRUCell": "nn.gru", "SimpleRNNCell": "nn.rnn"}
_ORDERS = {"LSTMCell": (0, 3, 1, 2), "GRUCell": (0, 1, 2), "SimpleRNNCell": (0,)}
"""Where the operator's gates are among those of Keras."""
_KNOWN = frozenset({"sigmoid", "tanh", "relu", "softsign", "softplus"})


@dataclass(frozen=True)
class Options:
    """What all recurrent layers may be asked for."""

    return_sequences: bool = False
    return_state: bool = False
    go_backwards: bool = False
    stateful: bool = False
    zero_output_for_mask: bool = False
    time_major: bool = False


def recurrent(
    g: Context, sequences: Any, states: Any, mask: Any, options: Options, step: Step, initial: Callable[[Value], list[Any]],
    cell: Layer | None = None,
) -> Any:
    """The results of a layer.

    Args:
        states: before the first step; None for ``initial``.
        cell: the layer of the step, where an operator may have it.
    """
    x, given = (sequences[0], list(sequences[1:])) if isinstance(sequences, list | tuple) else (sequences, None)
    if options.time_major:
        x = g.moved(x, (1, 0, *range(2, x.rank)))
    given = states if states is not None else given
    states = [given] if isinstance(given, Value) else list(given) if given else initial(x)
    mask = mask[0] if isinstance(mask, list | tuple) else mask
    labels = [f"{g.name}/state_{k}" for k in range(len(flat(states)))]
    if options.stateful and not given:
        states = _kept(g, labels, states)
    found = None if mask is not None or cell is None else _whole(g, x, states, cell, options.go_backwards)
    if found is None:
        found = _steps(g, x, states, mask, options, step)
    y, last, after = found
    if options.stateful:
        g.scope.state.states.update(zip(labels, flat(after)))
    out = y if options.return_sequences else last
    if options.return_sequences and options.time_major:
        out = g.moved(out, (1, 0, *range(2, out.rank)))
    return [out, *after] if options.return_state else out


def _kept(g: Context, labels: Sequence[str], initial: list[Any]) -> list[Any]:
    """States that are kept from one call to the next."""
    if not g.runs_always:
        raise g.unsupported("a stateful layer inside of another: not supported")
    arrays = [g.array(value) for value in flat(initial)]
    if any(array is None for array in arrays):
        raise g.unsupported("a stateful layer needs a batch size; fix it with shape=")
    kept = iter([
        g.scope.state.states.get(label) or g.scope.variable(label, array)
        for label, array in zip(labels, arrays) if array is not None])
    return list(mapped(initial, lambda value: next(kept), Value))


def _whole(
    g: Context, x: Value, states: list[Any], cell: Layer, backwards: bool
) -> tuple[Value, Value, list[Value]] | None:
    """By an operator; None where it has not the cell."""
    config, kind = cell.config, cell.class_name
    operator = None if cell.domain or REGISTRY.own(cell.domain, kind, 1) is not None else _OPERATORS.get(kind)
    names = [name_of(config.get("activation", "tanh"))]
    if kind in ("LSTMCell", "GRUCell"):
        names.insert(0, name_of(config.get("recurrent_activation", "sigmoid")))
    if operator is None or not _KNOWN.issuperset(names) or x.rank != 3:
        return None
    more: dict[str, bool] = {}
    weights = [g.call("transpose", _of(g, cell, name), axes=(1, 0)) for name in ("kernel", "recurrent_kernel")]
    if config.get("use_bias", True):
        bias = _of(g, cell, "bias")
        if bias.rank == 2:
            parts = [g.call("squeeze", part, axis=(0,)) for part in g.multi("split", bias, indices_or_sections=2, axis=0)]
        else:
            parts = [bias, g.call("zeros_like", bias)]
        weights += parts
    if kind == "GRUCell":
        more["linear_before_reset"] = bool(config.get("reset_after", False))
    activations = (names[0], names[1], names[1]) if kind == "LSTMCell" else tuple(names)
    x = g.call("reverse", x, axis=1) if backwards else x
    first = [g.call("expand_dims", state, axis=0) for state in flat(states)]
    y, *ends = layers(
        g, operator, x, first, [weights], activations=activations, order=_ORDERS[kind], batch_first=True, **more)
    after = [g.call("squeeze", end, axis=(0,)) for end in ends]
    return y, after[0], after


def _of(g: Context, cell: Layer, name: str) -> Value:
    inner = Context(g.scope, cell, g._call)
    return inner.weight(name)


def _steps(
    g: Context, x: Value, states: list[Any], mask: Value | None, options: Options, step: Step
) -> tuple[Value, Value, list[Any]]:
    """By a scan over the steps; a masked one leaves the states as they are."""
    leaves = flat(states)
    count = len(leaves)
    data = [x] if mask is None else [x, mask]
    types = [*(v.type for v in leaves), *(TensorType((v.shape[0], *v.shape[2:]), v.dtype) for v in data)]

    def build(inner: Context, arguments: list[Value]) -> list[Value]:
        following = iter(arguments[:count])
        before = list(mapped(states, lambda value: next(following), Value))
        y, after = step(inner, arguments[count], before)
        after = list(after) if isinstance(after, list | tuple) else [after]
        found = flat(after)
        if mask is not None:
            y, found = _masked(inner, arguments[count + 1], y, found, before, options.zero_output_for_mask)
        return [*(inner.cast(v, old.dtype) for v, old in zip(found, arguments)), y]

    region = g.region(types, build)
    graph = region.with_captures(region.captured, len(types))
    backwards = options.go_backwards
    results = g.multi(
        "scan", *leaves, *data, *region.captured, regions=[graph], num_states=count, num_scan_inputs=len(data),
        input_axes=(1,) * len(data), output_axes=(1,), input_directions=(int(backwards),) * len(data))
    last, y = results[:count], results[count]
    following = iter(last)
    after = list(mapped(states, lambda value: next(following), Value))
    final = g.call("take", y, g.call("subtract", g.extent(y, 1), g.constant(1, "int64")), axis=1)
    return y, final, after


def _masked(
    g: Context, mask: Value, y: Value, after: list[Value], before: list[Any], zeros: bool
) -> tuple[Value, list[Value]]:
    def chosen(new: Value, old: Value) -> Value:
        counts = g.reshape(mask, (mask.shape[0], *(1,) * (new.rank - 1)))
        return g.call("where", g.broadcast(counts, new.shape), new, old)

    previous = flat(before[-1] if isinstance(before[0], list | tuple) else before[0])[0]
    kept = g.call("zeros_like", y) if zeros else g.cast(previous, y.dtype)
    return chosen(y, kept), [chosen(new, old) for new, old in zip(after, flat(before))]


def _by_cell(g: Context, sequences: Any, states: Any, mask: Any, options: Options) -> Any:
    cell = g.layer.children["cell"]

    def step(inner: Context, x: Value, before: list[Any]) -> tuple[Value, list[Any]]:
        y, after = inner.run(cell, x, before)
        return y, after

    def initial(x: Value) -> list[Any]:
        return initial_states(g, cell, x.shape[0], cell.policy.compute)

    return recurrent(g, sequences, states, mask, options, step, initial, cell)


@converts("LSTM", "GRU", "SimpleRNN")
def simple(
    g: Context, sequences: Any, initial_state: Any = None, mask: Any = None, training: bool | None = None, *, options: Options,
    units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid", use_bias: bool = True,
    reset_after: bool = False, use_cudnn: Any = None,
) -> Any:
    return _by_cell(g, sequences, initial_state, mask, options)


@converts("RNN")
def rnn(
    g: Context, sequences: Any, initial_state: Any = None, mask: Any = None, training: bool | None = None, *, options: Options,
    cell: Any,
) -> Any:
    return _by_cell(g, sequences, initial_state, mask, options)


@converts("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")
def conv_lstm(
    g: Context, sequences: Any, initial_state: Any = None, mask: Any = None, training: bool | None = None, *, options: Options,
    filters: int, kernel_size: Any, strides: Any = None, padding: str = "valid", data_format: Any = None,
    dilation_rate: Any = None, activation: Any = "tanh", recurrent_activation: Any = "sigmoid", use_bias: bool = True,
    rank: Any = None,
) -> Any:
    spatial = rank_of(g.layer.class_name)
    config = {
        "filters": filters, "kernel_size": kernel_size, "strides": strides, "padding": padding, "data_format": data_format,
        "dilation_rate": dilation_rate, "activation": activation, "recurrent_activation": recurrent_activation,
        "use_bias": use_bias}

    def initial(x: Value) -> list[Any]:
        zeros = g.full(conv_lstm_shape(g, x, config, spatial), 0, g.layer.policy.compute)
        return [zeros, zeros]

    return recurrent(g, sequences, initial_state, mask, options, conv_lstm_step(config, spatial), initial)


@converts("Bidirectional")
def bidirectional(
    g: Context, sequences: Any, initial_state: Any = None, mask: Any = None, training: bool | None = None, *, layer: Any,
    merge_mode: Any, backward_layer: Any = None, return_sequences: Any = None, return_state: Any = None,
    stateful: Any = None, go_backwards: Any = None,
) -> Any:
    forward, backward = (g.layer.children[name] for name in ("forward_layer", "backward_layer"))
    x, given = (sequences[0], list(sequences[1:])) if isinstance(sequences, list | tuple) else (sequences, None)
    states = list(initial_state) if initial_state is not None else given
    half = len(states) // 2 if states else 0
    halves = (states[:half], states[half:]) if states else (None, None)
    first, second = (
        g.run(one, x, initial_state=own, mask=mask[0] if isinstance(mask, list | tuple) else mask)
        for one, own in zip((forward, backward), halves))
    (y, *ends), (z, *others) = (found if isinstance(found, list) else [found] for found in (first, second))
    if forward.config.get("return_sequences"):
        z = g.call("reverse", z, axis=1)
    merged = _merged(g, y, z, merge_mode)
    after = [*ends, *others] if forward.config.get("return_state") else []
    return [*merged, *after] if after or len(merged) > 1 else merged[0]


def _merged(g: Context, y: Value, z: Value, mode: Any) -> list[Value]:
    if mode is None:
        return [y, z]
    if mode == "concat":
        return [g.call("concatenate", y, z, axis=y.rank - 1)]
    if mode == "mul":
        return [g.call("multiply", y, z)]
    if mode in ("sum", "ave"):
        total = g.call("add", y, z)
        return [total if mode == "sum" else g.call("divide", total, g.scalar(2, total))]
    raise g.invalid(f"merge_mode: got {mode!r}; expected concat, sum, ave, mul or None")


@converts("TimeDistributed")
def time_distributed(g: Context, x: Value, training: bool | None = None, mask: Value | None = None, *, layer: Any) -> Any:
    """The steps are more elements of the batch: no layer mixes these at inference."""
    if x.rank < 3:
        raise g.invalid(f"got {x.type}; expected a tensor of rank 3 or more")
    inner = g.layer.children["layer"]
    lead = x.shape[:2]
    row = REGISTRY.lookup(inner.domain, inner.class_name, 1)
    if mask is not None and row is not None and "mask" in row.operands:
        raise g.unsupported(f"a mask for {inner.class_name}, which reads it: not supported")
    found = g.run(inner, g.reshape(x, (lead[0] * lead[1], *x.shape[2:])))
    found = found[0] if isinstance(found, tuple) else found
    return mapped(found, lambda y: g.reshape(y, (*lead, *y.shape[1:])), Value)
