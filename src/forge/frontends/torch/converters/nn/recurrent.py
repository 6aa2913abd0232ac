"""Recurrent layers. Gates are i, f, g, o in LSTM and r, z, n in GRU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forge import dims
from forge.compose import products
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import REGISTRY, converts
from forge.ir.nodes import Value

MAX_STEPS = 1024
"""Of a layer that is converted step by step, at most."""

_LSTM, _GRU = (0, 3, 1, 2), (1, 0, 2)
"""Where Forge's gates (i, o, f, c and z, r, n) are among torch's."""

for _op in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
    REGISTRY.refuse(f"{_op}.data", "packed sequences have no shape that is known; give the layer padded ones")


def _reordered(g: Context, parameter: Value, order: Sequence[int]) -> Value:
    """Rows by gate."""
    if len(order) == 1:
        return parameter
    parts = g.multi("split", parameter, indices_or_sections=len(order), axis=0)
    return g.call("concatenate", *(parts[k] for k in order), axis=0)


def _stacked(g: Context, values: Sequence[Value]) -> Value:
    return g.call("stack", *values, axis=0)


def _layers(
    g: Context, op: str, x: Value, states: Sequence[Value], params: Sequence[Value], names: tuple[str, ...],
    order: tuple[int, ...], *, has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool,
    batch_first: bool, **more: Any,
) -> list[Value]:
    """The result [T, B, D * H], or [B, T, D * H], and the last states, [layers * D, B, H]."""
    if train and dropout > 0 and num_layers > 1:
        raise g.unsupported("train: got True with dropout; supported: False; export the model after eval()")
    directions = 2 if bidirectional else 1
    each = 4 if has_biases else 2
    kinds = names * directions
    options = {
        "activations": kinds, "activation_alpha": (0.0,) * len(kinds), "activation_beta": (0.0,) * len(kinds),
        "direction": "bidirectional" if bidirectional else "forward", "layout": int(batch_first), **more,
    }
    last: list[list[Value]] = [[] for _ in states]
    for layer in range(num_layers):
        chosen = [params[(layer * directions + d) * each:][:each] for d in range(directions)]
        w, r = (_stacked(g, [_reordered(g, of[k], order) for of in chosen]) for k in (0, 1))
        bias = None
        if has_biases:
            both = [[_reordered(g, of[k], order) for k in (2, 3)] for of in chosen]
            bias = _stacked(g, [g.call("concatenate", *pair, axis=0) for pair in both])
        first = [_of_layer(g, state, layer, directions, batch_first) for state in states]
        y, *ends = g.multi(op, x, w, r, bias, None, *first, **options)
        x = _joined(g, y, batch_first)
        for kept, end in zip(last, ends):
            kept.append(g.call("transpose", end, axes=(1, 0, 2)) if batch_first else end)
    return [x, *(ends[0] if num_layers == 1 else g.call("concatenate", *ends, axis=0) for ends in last)]


def _of_layer(g: Context, state: Value, layer: int, directions: int, batch_first: bool) -> Value:
    begin, end = layer * directions, (layer + 1) * directions
    if state.shape[0] != directions:
        state = g.call("strided_slice", state, begin=(begin,), end=(end,), strides=(1,), axes=(0,))
    return g.call("transpose", state, axes=(1, 0, 2)) if batch_first else state


def _joined(g: Context, y: Value, batch_first: bool) -> Value:
    """[T, D, B, H], or [B, T, D, H], with the directions next to each other."""
    if not batch_first:
        y = g.call("transpose", y, axes=(0, 2, 1, 3))
    return g.reshape(y, (*y.shape[:2], dims.product(y.shape[2:])))


@converts("lstm.input")
def lstm(
    g: Context, input: Value, hx: Sequence[Value], params: Sequence[Value],  # noqa: A002
    *, has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> list[Value]:
    options: dict[str, Any] = {"has_biases": has_biases, "num_layers": num_layers, "dropout": dropout, "train": train}
    options.update(bidirectional=bidirectional, batch_first=batch_first)
    directions = 2 if bidirectional else 1
    if len(params) > (4 if has_biases else 2) * directions * num_layers:
        return _projected(g, input, hx, params, num_layers, directions, batch_first)
    return _layers(g, "nn.lstm", input, hx, params, ("sigmoid", "tanh", "tanh"), _LSTM, **options)


def _projected(
    g: Context, x: Value, hx: Sequence[Value], params: Sequence[Value], num_layers: int, directions: int, batch_first: bool
) -> list[Value]:
    """LSTM whose state is multiplied by one more matrix, the last one of each layer and direction: step by step."""
    axis, each = int(batch_first), len(params) // (num_layers * directions)
    steps = x.shape[axis]
    if not isinstance(steps, int) or steps > MAX_STEPS:
        raise g.unsupported(f"proj_size: got {steps} steps; supported: a number of at most {MAX_STEPS}")
    firsts = [g.multi("split", state, indices_or_sections=num_layers * directions, axis=0) for state in hx]
    ends: list[list[Value]] = [[], []]
    inputs = [g.call("take", x, g.constant(t, "int64"), axis=axis) for t in range(steps)]
    for layer in range(num_layers):
        results: list[list[Value]] = []
        for k in range(layer * directions, (layer + 1) * directions):
            h, c = (g.call("squeeze", state[k], axis=(0,)) for state in firsts)
            *matrices, projection = params[k * each : (k + 1) * each]
            outputs = []
            for step in reversed(inputs) if k % directions else inputs:
                h, c = lstm_cell(g, step, (h, c), *matrices)
                h = products.dense(g, h, projection)
                outputs.append(h)
            results.append(outputs[::-1] if k % directions else outputs)
            for kept, end in zip(ends, (h, c)):
                kept.append(end)
        inputs = [parts[0] if directions == 1 else g.call("concatenate", *parts, axis=1) for parts in zip(*results)]
    return [g.call("stack", *inputs, axis=axis), *(_stacked(g, kept) for kept in ends)]


@converts("gru.input")
def gru(
    g: Context, input: Value, hx: Value, params: Sequence[Value],  # noqa: A002
    *, has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> list[Value]:
    options: dict[str, Any] = {"has_biases": has_biases, "num_layers": num_layers, "dropout": dropout, "train": train}
    options.update(bidirectional=bidirectional, batch_first=batch_first, linear_before_reset=True)
    return _layers(g, "nn.gru", input, [hx], params, ("sigmoid", "tanh"), _GRU, **options)


def _plain(activation: str) -> None:
    @converts(f"rnn_{activation}.input")
    def rnn(
        g: Context, input: Value, hx: Value, params: Sequence[Value],  # noqa: A002
        *, has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    ) -> list[Value]:
        options: dict[str, Any] = {"has_biases": has_biases, "num_layers": num_layers, "dropout": dropout, "train": train}
        options.update(bidirectional=bidirectional, batch_first=batch_first)
        return _layers(g, "nn.rnn", input, [hx], params, (activation,), (0,), **options)

    @converts(f"rnn_{activation}_cell.default")
    def cell(
        g: Context, input: Value, hx: Value, w_ih: Value, w_hh: Value, b_ih: Value | None = None,  # noqa: A002
        b_hh: Value | None = None,
    ) -> Value:
        total = g.call("add", _affine(g, input, w_ih, b_ih), _affine(g, hx, w_hh, b_hh))
        return g.call("nn.relu" if activation == "relu" else activation, total)


_plain("tanh")
_plain("relu")


def _affine(g: Context, x: Value, weight: Value, bias: Value | None) -> Value:
    product = products.dense(g, x, weight)
    return product if bias is None else g.call("add", product, bias)


@converts("lstm_cell.default")
def lstm_cell(
    g: Context, input: Value, hx: Sequence[Value], w_ih: Value, w_hh: Value, b_ih: Value | None = None,  # noqa: A002
    b_hh: Value | None = None,
) -> list[Value]:
    h, c = hx
    total = g.call("add", _affine(g, input, w_ih, b_ih), _affine(g, h, w_hh, b_hh))
    parts = g.multi("split", total, indices_or_sections=4, axis=total.rank - 1)
    i, f, o = (g.call("sigmoid", parts[k]) for k in (0, 1, 3))
    c = g.call("add", g.call("multiply", f, c), g.call("multiply", i, g.call("tanh", parts[2])))
    return [g.call("multiply", o, g.call("tanh", c)), c]


@converts("gru_cell.default")
def gru_cell(
    g: Context, input: Value, hx: Value, w_ih: Value, w_hh: Value, b_ih: Value | None = None,  # noqa: A002
    b_hh: Value | None = None,
) -> Value:
    of_x, of_h = _affine(g, input, w_ih, b_ih), _affine(g, hx, w_hh, b_hh)
    (rx, zx, nx), (rh, zh, nh) = (g.multi("split", v, indices_or_sections=3, axis=v.rank - 1) for v in (of_x, of_h))
    r, z = (g.call("sigmoid", g.call("add", a, b)) for a, b in ((rx, rh), (zx, zh)))
    n = g.call("tanh", g.call("add", nx, g.call("multiply", r, nh)))
    return g.call("add", n, g.call("multiply", z, g.call("subtract", hx, n)))
