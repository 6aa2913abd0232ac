"""Rule of ``fuse_patterns`` for scans whose body is a step of an LSTM or GRU: one recurrent layer, over all steps.

Gates are sigmoids and hyperbolic tangents of affine functions ``x w + h r + b`` of a row and of the state, which may be computed
together, and be slices of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from forge.ir.edits.rewrite import Declined, RuleBuilder, rule
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ops.nn.matmul import Dense
from forge.ops.nn.recurrent import DIRECTIONS
from forge.ops.shape.slice import StridedSlice
from forge.passes.matching import has_only_data, made_by, operand, pairs, scalar
from forge.passes.view_rules import reshaped

MAX_STEPS = 64
"""Operators between a gate and the products that it is made of."""


class _Affine(NamedTuple):
    """``x w + h r + b``: w ``[units, features]``, r ``[units, hidden]``, b ``[units]`` or ``[1]``; absent parts add nothing."""

    of_row: np.ndarray | None = None
    of_state: np.ndarray | None = None
    bias: np.ndarray | None = None

    def plus(self, other: _Affine) -> _Affine:
        return _Affine(*(b if a is None else a if b is None else a + b for a, b in zip(self, other)))

    def rows(self, first: int, last: int) -> _Affine:
        return _Affine(*(part if part is None or len(part) == 1 else part[first:last] for part in self))

    def fits(self, features: int, hidden: int) -> bool:
        """Whether it gives as many numbers as the state has."""
        expected: list[tuple[tuple[int, ...], ...]] = [((hidden, features),), ((hidden, hidden),), ((1,), (hidden,))]
        return all(part is None or part.shape in shapes for part, shapes in zip(self, expected))

    def equals(self, other: _Affine) -> bool:
        return all(a is b or a is not None and b is not None and np.array_equal(a, b) for a, b in zip(self, other))


class _Body:
    """The body of a scan over rows of a matrix for each step, which carries states of one hidden size."""

    def __init__(self, rows: Sequence[Value]) -> None:
        self.rows = rows
        self.row: Value | None = None  # the one that gates are made of
        self.state: Value | None = None

    def affine(self, value: Value, depth: int = MAX_STEPS) -> _Affine | None:
        """``value`` as an affine function of a row and the state."""
        if depth == 0:
            return None
        array = value.constant
        if array is not None:
            along_last = array.ndim == 0 or array.size == array.shape[-1]
            return _Affine(bias=array.reshape(-1)) if along_last and array.size else None
        if (dense := Dense.of(value.producer)) is not None:
            return self._product(dense)
        match value.producer:
            case Node(op="add", operands=[Value() as a, Value() as b]):
                one, other = self.affine(a, depth - 1), self.affine(b, depth - 1)
                return None if one is None or other is None else one.plus(other)
            case Node(op="reshape", operands=[Value() as x]) if x.shape[-1:] == value.shape[-1:]:
                return self.affine(x, depth - 1)
        return self._sliced(value, lambda x: self.affine(x, depth - 1))

    def activated(self, op: str, value: Value) -> _Affine | None:
        """The argument of ``value``, an ``op`` of an affine function, or a slice of one."""
        node = made_by(value, op)
        return self.affine(operand(node)) if node is not None else self._sliced(value, lambda x: self.activated(op, x))

    def _product(self, dense: Dense) -> _Affine | None:
        weight, data = dense.weight.constant, _unviewed(dense.data)
        if weight is None or dense.result.dtype != dense.data.dtype:
            return None
        if data is self.state:
            return _Affine(of_state=weight)
        if data not in self.rows or self.row not in (None, data):
            return None
        self.row = data
        return _Affine(of_row=weight)

    def _sliced(self, value: Value, found: Callable[[Value], _Affine | None]) -> _Affine | None:
        """Of a slice along the last axis."""
        piece = StridedSlice.of(value.producer)
        if piece is None or piece.data.rank != value.rank or piece.data.shape[:-1] != value.shape[:-1]:
            return None
        whole, bounds = found(piece.data), _last_bounds(piece)
        return None if whole is None or bounds is None else whole.rows(*bounds)


def _last_bounds(piece: StridedSlice) -> tuple[int, int] | None:
    """Where a slice of each row begins and ends, if it takes all elements between."""
    attrs, size = piece.attrs, piece.data.shape[-1]
    if attrs.begin is None or attrs.end is None or attrs.slice_mode != "end" or any(s != 1 for s in attrs.strides or ()):
        return None
    if not has_only_data(piece.node) or not isinstance(size, int):
        return None
    axes = range(len(attrs.begin)) if attrs.axes is None else [axis % piece.data.rank for axis in attrs.axes]
    found = dict(zip(axes, zip(attrs.begin, attrs.end))).get(piece.data.rank - 1, (0, size))
    first, last = (min(n + size if n < 0 else n, size) if isinstance(n, int) else -1 for n in found)
    return (first, last) if 0 <= first < last else None


def _unviewed(value: Value) -> Value:
    """What ``value`` was before axes of 1 were added or dropped."""
    while (view := made_by(value, "reshape")) is not None and operand(view).shape[-1:] == value.shape[-1:]:
        value = operand(view)
    return value


class _Layer(NamedTuple):
    """Gates in the operator's order, and the numbers of the states that it carries: h, and c of an LSTM."""

    op: str
    gates: tuple[_Affine, ...]
    states: tuple[int, ...]
    inner: _Affine = _Affine()
    """Of a GRU: what the reset gate is multiplied by."""


def _lstm(body: _Body, graph: Graph) -> _Layer | None:
    """c = f * c' + i * g, h = o * tanh(c)"""
    for h, c in ((0, 1), (1, 0)):
        body.state, body.row = graph.inputs[h], None
        output = next(_gates(body, graph.outputs[h], graph.outputs[c], "tanh"), None)
        for kept, new in pairs(None if output is None else made_by(graph.outputs[c], "add")):
            forget = next(_gates(body, kept, graph.inputs[c]), None)
            for first, second in pairs(None if forget is None else made_by(new, "multiply")):
                enter, candidate = body.activated("sigmoid", first), body.activated("tanh", second)
                if enter is not None and candidate is not None:
                    return _Layer("nn.lstm", (enter, output, forget, candidate), (h, c))  # type: ignore[arg-type]
    return None


def _gates(body: _Body, value: Value, other: Value, op: str = "") -> Iterator[_Affine]:
    """Gates of products of one and ``other``, or ``op`` of that."""
    for gate, factor in pairs(made_by(value, "multiply")):
        curve = made_by(factor, op)
        source = operand(curve) if curve is not None else None if op else factor
        found = body.activated("sigmoid", gate) if source is other else None
        if found is not None:
            yield found


def _gru(body: _Body, graph: Graph) -> _Layer | None:
    """h = z * h' + (1 - z) * tanh(x w + b + r * (h' s + d))"""
    body.state, body.row = graph.inputs[0], None
    for kept, new in pairs(made_by(graph.outputs[0], "add")):
        for update in _gates(body, kept, graph.inputs[0]):
            for rest, bent in pairs(made_by(new, "multiply")):
                difference, curve = made_by(rest, "subtract"), made_by(bent, "tanh")
                if difference is None or curve is None or scalar(operand(difference)) != 1.0:
                    continue
                gate, candidate = body.activated("sigmoid", operand(difference, 1)), _candidate(body, operand(curve))
                if gate is not None and gate.equals(update) and candidate is not None:
                    reset, plain, inner = candidate
                    return _Layer("nn.gru", (update, reset, plain), (0,), inner)
    return None


def _candidate(body: _Body, value: Value) -> tuple[_Affine, _Affine, _Affine] | None:
    """(r, x, h) of x + r * h, with what does not depend on the state, and what does not depend on the row."""
    plain, found = _Affine(), None
    for term in _terms(value):
        for gate, inner in pairs(made_by(term, "multiply") if found is None else None):
            reset, states = body.activated("sigmoid", gate), body.affine(inner)
            if reset is not None and states is not None and states.of_row is None:
                found = reset, states
                break
        else:
            more = body.affine(term)
            if more is None or more.of_state is not None:
                return None
            plain = plain.plus(more)
    return None if found is None else (found[0], plain, found[1])


def _terms(value: Value) -> list[Value]:
    found: list[Value] = []
    pending = [value]
    while pending and len(found) < MAX_STEPS:
        term = pending.pop()
        node = made_by(term, "add")
        pending += [] if node is None else [operand(node, 1), operand(node)]
        found += [term] if node is None else []
    return found


@rule("scan")
def recurrent_layer(builder: RuleBuilder, scan: Node) -> Sequence[Value] | Declined | None:
    """scan(h, c, x) { gates of x w + h r + b; ... } == lstm(x, w, r, b, h, c), and the same for a GRU"""
    attrs, (graph,) = scan.attrs, scan.regions
    count = attrs.num_states
    if count not in (1, 2) or attrs.input_axes or attrs.output_axes:
        return None
    body = _Body(graph.inputs[count : count + attrs.num_scan_inputs])
    layer = _lstm(body, graph) if count == 2 else _gru(body, graph)
    if layer is None or body.row is None:
        return Declined("the body is not a step of an LSTM or GRU")
    sequence = operand(scan, graph.inputs.index(body.row))
    hidden, features = operand(scan, layer.states[0]).shape[-1], sequence.shape[-1]
    if not all(isinstance(n, int) for n in (hidden, features)) or sequence.rank != 3 or sequence.dtype != "float32":
        return Declined("rows are not matrices of float32, or their sizes are unknown")
    if not all(gate.fits(features, hidden) for gate in (*layer.gates, layer.inner)):
        return Declined("gates are not as wide as the state")
    new, unused = graph.outputs[layer.states[0]], [builder.graph.use_count(v) == 0 for v in scan.results]
    backwards = [(attrs.input_directions or (0,) * len(body.rows))[body.rows.index(body.row)]]
    for position, direction in enumerate(attrs.output_directions or (0,) * len(graph.outputs[count:]), count):
        stacked = _unviewed(graph.outputs[position])
        if stacked is not new and not (unused[position] and stacked.type == new.type):
            return Declined("the scan stacks other values than the state")
        backwards += [] if unused[position] else [direction]
    if len(set(backwards)) != 1:
        return Declined("the scan stacks the state in another direction than it reads")
    return _layer_of(builder, scan, layer, sequence, DIRECTIONS[backwards[0]])


def _layer_of(builder: RuleBuilder, scan: Node, layer: _Layer, sequence: Value, direction: str) -> Sequence[Value]:
    """The results of ``scan``, by the recurrent operator."""
    starts = [operand(scan, k) for k in layer.states]
    hidden, features = int(starts[0].shape[-1]), int(sequence.shape[-1])
    of_state = (*layer.gates[:-1], layer.inner) if layer.op == "nn.gru" else layer.gates
    w, r = (np.concatenate([np.zeros((hidden, size), np.float32) if part is None else part for part in parts])[None]
            for size, parts in ((features, [g.of_row for g in layer.gates]), (hidden, [g.of_state for g in of_state])))
    added = [*(g.bias for g in layer.gates), *[None] * (len(of_state) - 1), layer.inner.bias]
    bias = np.concatenate([np.broadcast_to(np.float32(0) if part is None else part, (hidden,)) for part in added])[None]
    functions = ("sigmoid", "tanh", "tanh") if layer.op == "nn.lstm" else ("sigmoid", "tanh")
    attributes: dict[str, Any] = {"linear_before_reset": True} if layer.op == "nn.gru" else {}
    zeros = (0.0,) * len(functions)
    states = [reshaped(builder, value, (1, *value.shape)) for value in starts]
    weights = (builder.constant(np.ascontiguousarray(array, np.float32)) for array in (w, r, bias))
    y, *ends = builder.call_multi(
        layer.op, sequence, *weights, None, *states, name=scan.name, direction=direction, activations=functions,
        activation_alpha=zeros, activation_beta=zeros, **attributes)
    last = {k: reshaped(builder, end, starts[0].shape) for k, end in zip(layer.states, ends)}
    stacked = [reshaped(builder, y, value.shape) for value in scan.results[len(starts):]]
    return [*(last[k] for k in range(len(starts))), *stacked]
