"""Control flow in random graphs: steps that add an if, a loop or a scan whose regions are random graphs themselves.

A region's values are computed for its first iteration. Carried values end bounded; what the other iterations make of the rest
is for the interpreter to tell. Regions capture values of the graph around them, and get new inputs of the whole graph through it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.errors import TypeInferenceError
from forge.ir.graph import Graph
from forge.ir.interp import bind_symbols
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from tests.random_graphs import LARGEST_RANK, AnyNetwork

MAX_TRIPS = 4
LONGEST = 1 << 20


class Body(AnyNetwork):
    """The graph of a region: its own inputs, then what it captures."""

    def __init__(self, parent: AnyNetwork, own: Sequence[tuple[TensorType, Any]], captured: Sequence[Value]) -> None:
        super().__init__(int(parent.rng.integers(2**32)), parent.cases)
        self.parent, self.depth = parent, parent.depth - 1
        self.symbols = dict(parent.symbols)
        self.visible = frozenset(parent.symbols)
        self.captured: list[Value] = []
        self.own = [self._receive(type_, array) for type_, array in own]
        for value in captured:
            self.capture(value)

    def _receive(self, type_: TensorType, array: Any) -> Value:
        value = self.builder.input(type_, f"r{len(self.builder.graph.inputs)}")
        self.arrays[value] = np.asarray(array)
        bind_symbols(value, self.arrays[value], self.symbols)
        self.offer(value)
        return value

    def capture(self, value: Value) -> Value:
        """``value`` of the graph around, as an input of this one."""
        self.captured.append(value)
        return self._receive(value.tensor_type, self.parent.arrays[value])

    def input(self, array: np.ndarray, symbolic: bool) -> Value:
        """An input of the whole graph, captured by every region on the way."""
        return self.capture(self.parent.input(array, symbolic))

    def grow_body(self, steps: Sequence[Any]) -> None:
        self.extend(steps, int(self.rng.integers(1, 6)))

    def results(self) -> list[Value]:
        """What a region may give: values whose sizes mean something outside."""
        return [v for v in self.values if v.rank < LARGEST_RANK and set(dims.symbols(*v.shape)) <= self.visible]

    def flag(self) -> Value:
        return flag(self)

    def carried(self, start: Value) -> Value:
        """The next value of ``start``: of its type, bounded, and dependent on what the region computes."""
        same = [v for v in self.values if v.type == start.type]
        value = same[-1 - int(self.rng.integers(min(4, len(same))))] if same else start
        return self._bounded(self._mixed(value, scalar(self, start.dtype)))

    def _mixed(self, value: Value, other: Value) -> Value:
        if value.dtype == "bool":
            return self.computed(self.pick("logical_and", "logical_or", "logical_xor"), value, other)
        return self.computed(self.pick("add", "subtract", "maximum", "minimum"), value, other)

    def _bounded(self, value: Value) -> Value:
        if value.dtype == "bool":
            return value
        low = 0.0 if dtypes.is_unsigned(value.dtype) else -8.0
        return self.computed("clip", value, a_min=low, a_max=8.0)


def scalar(net: AnyNetwork, dtype: str) -> Value:
    """A scalar made of a random value."""
    source = net.any_value()
    if source.dtype == "bool":
        return net.computed("cast", net.computed("any", source, axis=None), dtype=dtype)
    if 0 in net.shape(source):
        return net.computed("cast", net.computed("sum", source, axis=None), dtype=dtype)
    return net.computed("cast", net.computed(net.pick("max", "min"), source, axis=None), dtype=dtype)


def flag(net: AnyNetwork) -> Value:
    """A truth value: computed from data, or given."""
    if net.rng.random() < 0.3:
        return net.input(np.array(net.rng.random() < 0.5), False)
    value = scalar(net, "float32")
    limit = net.known_constant(np.float32(net.pick(-1.3, 0.1, 0.7, 2.2)))
    return net.computed(net.pick("less", "greater"), value, limit)


def _some(net: AnyNetwork, fits: Callable[[Value], bool], least: int, most: int) -> list[Value]:
    """Some recent values, each once."""
    fitting = [v for v in net.values[-12:] if fits(v)]
    if len(fitting) < least:
        raise TypeInferenceError("there are such values")
    count = min(len(fitting), int(net.rng.integers(least, most + 1)))
    return [fitting[int(k)] for k in net.rng.permutation(len(fitting))[:count]]


def if_step(net: AnyNetwork, steps: Sequence[Any]) -> None:
    """An if whose branches may give other sizes."""
    first = Body(net, [], _some(net, lambda v: True, 1, 3))
    first.grow_body(steps)
    second = Body(net, [], first.captured)
    second.grow_body(steps)
    for value in second.captured[len(first.captured) :]:
        first.capture(value)
    chosen = _some(first, lambda v: v.rank <= LARGEST_RANK, 1, 3)
    others = [_like(second, v) for v in chosen]
    regions = [first.builder.output(*chosen), second.builder.output(*others)]
    net.add("if", [flag(net), *second.captured], {}, regions)


def _like(body: Body, value: Value) -> Value:
    """A value of the element type and rank of ``value``, if possible of its shape."""
    same = [v for v in body.values if v.dtype == value.dtype and v.rank == value.rank]
    equal = [v for v in same if v.shape == value.shape]
    if equal or same:
        return (equal or same)[int(body.rng.integers(len(equal or same)))]
    return body.known_constant(body.array(tuple(body.pick(1, 2, 3) for _ in value.shape), value.dtype))


def loop_step(net: AnyNetwork, steps: Sequence[Any]) -> None:
    """A loop that ends by count, by condition, or by both."""
    starts = _some(net, lambda v: True, 1, 2)
    kind = net.pick("trips", "trips", "condition", "both")
    trips = None if kind == "condition" else _trips(net)
    condition = None if kind == "trips" else flag(net)
    index = (TensorType((), "int64"), np.int64(0))
    running = (TensorType((), "bool"), np.bool_(True))
    body = Body(net, [index, running, *((_start_type(net, v), net.arrays[v]) for v in starts)], _some(net, lambda v: True, 0, 2))
    body.grow_body(steps)
    ends = [_grown(body, v) if v.type != s.type else body.carried(v) for v, s in zip(body.own[2:], starts, strict=True)]
    scanned = _some(body, lambda v: v in body.results(), 0, 2)
    going = _going(body, kind)
    net.add("loop", [trips, condition, *starts, *body.captured], {"num_carried": len(starts)},
            [body.builder.output(going, *ends, *scanned)])


def _trips(net: AnyNetwork) -> Value:
    count = np.int64(net.rng.integers(0, MAX_TRIPS))
    if net.rng.random() < 0.3:
        return net.computed("clip", scalar(net, "int64"), a_min=0.0, a_max=float(MAX_TRIPS - 1))
    if net.rng.random() < 0.6:
        return net.input(np.asarray(count), False)
    return net.known_constant(count)


def _start_type(net: AnyNetwork, start: Value) -> TensorType:
    """The type of a carried value; sometimes of one that grows along its first dimension."""
    type_ = start.tensor_type
    small = type_.rank > 0 and np.prod(net.shape(start)) <= 64
    if not small or net.rng.random() < 0.8 or type_.dtype == "bool":
        return type_
    return TensorType((dims.fresh("carried"), *type_.shape[1:]), type_.dtype)


def _grown(body: Body, value: Value) -> Value:
    longer = body.computed("concatenate", value, value, axis=0)
    if body.rng.random() < 0.7:
        return longer
    return body.computed("strided_slice", value, begin=(1,), end=(LONGEST,), axes=(0,))


def _going(body: Body, kind: str) -> Value:
    """Whether the loop goes on: at most ``MAX_TRIPS`` times."""
    if kind == "trips":
        return body.own[1]
    limit = body.known_constant(np.int64(body.rng.integers(0, MAX_TRIPS)))
    going = body.computed("less", body.own[0], limit)
    return going if body.rng.random() < 0.5 else body.computed("logical_and", going, body.flag())


def scan_step(net: AnyNetwork, steps: Sequence[Any]) -> None:
    """A scan along any axes, in any direction."""
    first = _some(net, lambda v: v.rank > 0, 1, 1)[0]
    axis = int(net.rng.integers(first.rank))
    scans = [(first, axis)]
    others = [(v, k) for v in net.values[-8:] for k, d in enumerate(v.shape) if dims.equal(d, first.shape[axis])]
    if others and net.rng.random() < 0.5:
        scans.append(others[int(net.rng.integers(len(others)))])
    states = _some(net, lambda v: True, 0, 2)
    slices = [_slice(net, v, k) for v, k in scans]
    body = Body(net, [*((v.tensor_type, net.arrays[v]) for v in states), *slices], _some(net, lambda v: True, 0, 2))
    body.grow_body(steps)
    ends = [body.carried(v) for v in body.own[: len(states)]]
    scanned = _some(body, lambda v: v in body.results(), 0 if ends else 1, 2)
    axes = tuple(k - v.rank if net.rng.random() < 0.3 else k for v, k in scans)
    attributes = {
        "num_states": len(states), "num_scan_inputs": len(scans), "input_axes": axes if any(axes) else net.pick(axes, None),
        "input_directions": _directions(net, len(scans)),
        "output_axes": net.pick(None, tuple(int(net.rng.integers(-v.rank - 1, v.rank + 1)) for v in scanned)),
        "output_directions": _directions(net, len(scanned)),
    }
    net.add("scan", [*states, *(v for v, _ in scans), *body.captured], attributes, [body.builder.output(*ends, *scanned)])


def _directions(net: AnyNetwork, count: int) -> tuple[int, ...] | None:
    return net.pick(None, tuple(net.pick(0, 1) for _ in range(count)))  # type: ignore[no-any-return]


def _slice(net: AnyNetwork, value: Value, axis: int) -> tuple[TensorType, Any]:
    shape = value.shape[:axis] + value.shape[axis + 1 :]
    array = net.arrays[value]
    contents = np.take(array, 0, axis) if array.shape[axis] else np.zeros(np.delete(array.shape, axis), array.dtype)
    return TensorType(shape, value.dtype), contents


def control_steps(steps: Sequence[Any]) -> list[Any]:
    """Steps that add control flow; ``steps`` fill the regions, with control flow again as long as ``depth`` allows."""

    def made(build: Callable[[AnyNetwork, Sequence[Any]], None]) -> Callable[[AnyNetwork], None]:
        def step(net: AnyNetwork) -> None:
            build(net, [*steps, *(control_steps(steps) if net.depth > 1 else ())])

        return step

    return [made(build) for build in (if_step, loop_step, scan_step)]


def has_regions(graph: Graph) -> bool:
    return any(node.regions for node in graph.nodes)
