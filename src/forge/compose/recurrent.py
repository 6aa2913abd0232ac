"""Recurrent layers that are stacked, and single steps of them.

A cell is the matrices of one layer in one direction: for the data ``[gates * H, K]``, for the state ``[gates * H, H]``, then a
bias ``[gates * H]`` for each of both, or none. Data is ``[T, B, K]``, or ``[B, T, K]`` with ``batch_first``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forge import dims
from forge.compose import products
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer

MAX_STEPS = 1024
"""Of a layer that is built step by step, at most."""

Cell = Sequence[Value]


def layers(
    g: Composer, op: str, x: Value, states: Sequence[Value], cells: Sequence[Cell], *, activations: tuple[str, ...],
    order: Sequence[int], directions: int = 1, batch_first: bool = False, **more: bool,
) -> list[Value]:
    """The result ``[T, B, directions * H]`` and the last states ``[layers * directions, B, H]`` of layers of operator ``op``.

    ``cells`` are those of the first layer, one for each direction, then those of the others; ``order`` says where the operator's
    gates are among theirs, and ``activations`` are those of its gates.
    """
    kinds = activations * directions
    options: dict[str, Any] = {
        "activations": kinds, "activation_alpha": (0.0,) * len(kinds), "activation_beta": (0.0,) * len(kinds),
        "direction": "bidirectional" if directions == 2 else "forward", "layout": int(batch_first), **more,
    }
    last: list[list[Value]] = [[] for _ in states]
    for begin in range(0, len(cells), directions):
        chosen = cells[begin : begin + directions]
        w, r = (_stacked(g, [_reordered(g, cell[k], order) for cell in chosen]) for k in (0, 1))
        bias = None
        if len(chosen[0]) > 2:
            both = [[_reordered(g, b, order) for b in cell[2:]] for cell in chosen]
            bias = _stacked(g, [g.call("concatenate", *pair, axis=0) for pair in both])
        first = [_of_layer(g, state, begin, directions, batch_first) for state in states]
        y, *ends = g.multi(op, x, w, r, bias, None, *first, **options)
        if not batch_first:
            y = g.call("transpose", y, axes=(0, 2, 1, 3))
        x = g.reshape(y, (*y.shape[:2], dims.product(y.shape[2:])))
        for kept, end in zip(last, ends):
            kept.append(g.call("transpose", end, axes=(1, 0, 2)) if batch_first else end)
    return [x, *(ends[0] if len(ends) == 1 else g.call("concatenate", *ends, axis=0) for ends in last)]


def _reordered(g: Composer, parameter: Value, order: Sequence[int]) -> Value:
    """Rows by gate."""
    if len(order) == 1:
        return parameter
    parts = g.multi("split", parameter, indices_or_sections=len(order), axis=0)
    return g.call("concatenate", *(parts[k] for k in order), axis=0)


def _stacked(g: Composer, values: Sequence[Value]) -> Value:
    return g.call("stack", *values, axis=0)


def _of_layer(g: Composer, state: Value, begin: int, directions: int, batch_first: bool) -> Value:
    if state.shape[0] != directions:
        state = g.call("strided_slice", state, begin=(begin,), end=(begin + directions,), strides=(1,), axes=(0,))
    return g.call("transpose", state, axes=(1, 0, 2)) if batch_first else state


def projected_lstm(
    g: Composer, x: Value, states: Sequence[Value], cells: Sequence[Cell], *, directions: int = 1, batch_first: bool = False
) -> list[Value]:
    """LSTM whose state is multiplied by one more matrix, the last one of each cell: step by step (Sak et al., 2014).

    Raises:
        OpAttributeUnimplemented: the number of steps is symbolic or large.
    """
    axis = int(batch_first)
    steps = x.shape[axis]
    if not isinstance(steps, int) or steps > MAX_STEPS:
        raise g.unsupported(f"a projection: got {steps} steps; supported: a number of at most {MAX_STEPS}")
    firsts = [g.multi("split", state, indices_or_sections=len(cells), axis=0) for state in states]
    ends: list[list[Value]] = [[], []]
    inputs = [g.call("take", x, g.constant(t, "int64"), axis=axis) for t in range(steps)]
    for begin in range(0, len(cells), directions):
        results: list[list[Value]] = []
        for k in range(begin, begin + directions):
            h, c = (g.call("squeeze", state[k], axis=(0,)) for state in firsts)
            *matrices, projection = cells[k]
            outputs = []
            for step in reversed(inputs) if k % directions else inputs:
                h, c = lstm_cell(g, step, h, c, *matrices)
                h = products.dense(g, h, projection)
                outputs.append(h)
            results.append(outputs[::-1] if k % directions else outputs)
            for kept, end in zip(ends, (h, c)):
                kept.append(end)
        inputs = [parts[0] if directions == 1 else g.call("concatenate", *parts, axis=1) for parts in zip(*results)]
    return [g.call("stack", *inputs, axis=axis), *(_stacked(g, kept) for kept in ends)]


def lstm_cell(
    g: Composer, x: Value, h: Value, c: Value, w: Value, r: Value, w_bias: Value | None = None, r_bias: Value | None = None
) -> tuple[Value, Value]:
    """The next h and c; gates are in the order i, f, g, o."""
    total = g.call("add", products.affine(g, x, w, w_bias), products.affine(g, h, r, r_bias))
    parts = g.multi("split", total, indices_or_sections=4, axis=total.rank - 1)
    i, f, o = (g.call("sigmoid", parts[k]) for k in (0, 1, 3))
    c = g.call("add", g.call("multiply", f, c), g.call("multiply", i, g.call("tanh", parts[2])))
    return g.call("multiply", o, g.call("tanh", c)), c


def gru_cell(
    g: Composer, x: Value, h: Value, w: Value, r: Value, w_bias: Value | None = None, r_bias: Value | None = None
) -> Value:
    """The next state; gates are in the order r, z, n, and r is applied after the product with the state."""
    of_x, of_h = products.affine(g, x, w, w_bias), products.affine(g, h, r, r_bias)
    (rx, zx, nx), (rh, zh, nh) = (g.multi("split", v, indices_or_sections=3, axis=v.rank - 1) for v in (of_x, of_h))
    reset, update = (g.call("sigmoid", g.call("add", a, b)) for a, b in ((rx, rh), (zx, zh)))
    new = g.call("tanh", g.call("add", nx, g.call("multiply", reset, nh)))
    return g.call("add", new, g.call("multiply", update, g.call("subtract", h, new)))


def rnn_cell(
    g: Composer, activation: str, x: Value, h: Value, w: Value, r: Value, w_bias: Value | None = None, r_bias: Value | None = None
) -> Value:
    """The next state, with an operator as ``activation``."""
    return g.call(activation, g.call("add", products.affine(g, x, w, w_bias), products.affine(g, h, r, r_bias)))
