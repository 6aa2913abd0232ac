"""Loops that count: ``scan`` in the place of ``loop``, so that rows which a loop reads and writes are not copied each time.

A counter begins as a number, grows by 1, and is compared with the number of rounds. A tensor of as many rows whose row ``i``, or
``rounds - 1 - i``, is all that round ``i`` writes, and which nothing else reads, is what the rounds give one after the other. One
of which that row is all that a round reads is what they take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forge import dims
from forge.dims import Dim
from forge.frontends.prune import prune
from forge.frontends.scope import Region
from forge.frontends.state.sizes import SizeScope
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.shapes import known_dims
from forge.ir.types import TensorType
from forge.ops.core.composer import Composer

_OWN = 2  # inputs of a loop's body that count its rounds, and say that it goes on

Line = tuple[int, Dim]
"""``factor * round + constant``."""


@dataclass
class CountedLoop:
    """A loop whose rounds are counted.

    Attributes:
        region: the body, as that of a ``loop``.
        starts: the first values of what is carried.
        counters: numbers of carried values that grow by 1 -> what they begin with.
        rounds: how many there are.
    """

    region: Region
    starts: Sequence[Value]
    counters: dict[int, int]
    rounds: Dim

    @property
    def carried(self) -> list[Value]:
        """Inputs of the body."""
        return self.region.graph.inputs[_OWN : _OWN + len(self.starts)]

    def line(self, value: Value, depth: int = 8) -> Line | None:
        """A value of the body as an expression of the round."""
        for position, start in self.counters.items():
            if value is self.carried[position]:
                return 1, start
        number = _number(value)
        node = value.producer
        if number is not None:
            return 0, number
        if node is None or depth == 0:
            return None
        operands = [v for v in node.operands if v is not None]
        if node.op in ("cast", "reshape", "copy"):
            return self.line(operands[0], depth - 1)
        if node.op == "where":
            return self._chosen(operands, depth - 1)
        if node.op not in ("add", "subtract"):
            return None
        a, b = (self.line(v, depth - 1) for v in operands)
        if a is None or b is None:
            return None
        sign = 1 if node.op == "add" else -1
        return a[0] + sign * b[0], a[1] + sign * b[1]

    def _chosen(self, operands: Sequence[Value], depth: int) -> Line | None:
        """Of ``where(x < 0, .., x)`` for ``x`` that never is, ``x``."""
        test, found = operands[0].producer, self.line(operands[2], depth)
        if test is None or test.op != "less" or found is None:
            return None
        compared = [v for v in test.operands if v is not None]
        is_zero = _number(compared[1]) == 0 and self.line(compared[0], depth) == found
        return found if is_zero and found in ((1, 0), self.backwards) else None

    @property
    def backwards(self) -> Line:
        return -1, self.rounds - 1

    def rows(self, position: int) -> tuple[Value, bool] | None:
        """The row that each round writes to a carried tensor, and whether from the last one on; None where it does more."""
        value, result = self.carried[position], self.region.graph.outputs[1 + position]
        node = result.producer
        if node is None or node.op != "dynamic_update_slice" or value.rank == 0 or not _is_only_use(self, value, node):
            return None
        _, update, start = node.operands
        if update is None or start is None or not dims.equal(value.shape[0], self.rounds):
            return None
        fits = dims.equal(update.shape[0], 1) and all(map(dims.equal, update.shape[1:], value.shape[1:]))
        direction = self._direction(start) if fits else None
        return None if direction is None else (update, direction)

    def _direction(self, start: Value) -> bool | None:
        """Whether places whose first coordinate ``start`` gives go from the last row on; None where they are other rows."""
        first = start if start.shape == (1,) else _first(start)
        at = None if first is None else self.line(first)
        return None if at not in ((1, 0), self.backwards) else at == self.backwards and at != (1, 0)

    def read_rows(self, value: Value) -> bool | None:
        """Whether rounds take rows of a captured tensor from the last one on; None where they read more of it."""
        if value.rank == 0 or not value.uses or not dims.equal(value.shape[0], self.rounds):
            return None
        found: set[bool | None] = set()
        for node, _ in value.uses:
            if node.op != "dynamic_slice" or node.operands[0] is not value or node.operands[1] is None:
                return None
            sizes = node.attrs.slice_sizes
            is_row = dims.equal(sizes[0], 1) and all(map(dims.equal, sizes[1:], value.shape[1:]))
            found.add(self._direction(node.operands[1]) if is_row else None)
        is_taken = any(v is value for v in self.region.graph.outputs)
        return found.pop() if len(found) == 1 and not is_taken else None


def _number(value: Value) -> Dim | None:
    known = known_dims(value)
    found = known.flat[0] if known is not None and known.size == 1 else None
    return None if isinstance(found, bool) else found


def _first(vector: Value) -> Value | None:
    """The first element of a vector."""
    node = vector.producer
    if node is not None and node.op == "cast":
        return None if node.operands[0] is None else _first(node.operands[0])
    return node.operands[0] if node is not None and node.op == "concatenate" else None


def _is_only_use(loop: CountedLoop, value: Value, node: Node) -> bool:
    users = list(value.uses)
    return len(users) == 1 and users[0] == (node, 0) and not any(v is value for v in loop.region.graph.outputs)


def counted(region: Region, starts: Sequence[Value]) -> CountedLoop | None:
    """The loop with a body, if its rounds are counted."""
    graph = region.graph
    counters = {}
    for position, (value, start) in enumerate(zip(graph.inputs[_OWN:], starts)):
        node, first = graph.outputs[1 + position].producer, _number(start)
        operands = [] if node is None or node.op != "add" else list(node.operands)
        is_next = operands and value in operands and any(v is not None and _number(v) == 1 for v in operands)
        if is_next and isinstance(first, int) and start.rank == 0:
            counters[position] = first
    rounds = _rounds(graph, counters, graph.outputs[0])
    low = None if rounds is None else dims.bounds(rounds)[0]
    return CountedLoop(region, starts, counters, rounds) if low is not None and low >= 0 and rounds not in (None, 0) else None


def _rounds(graph: Graph, counters: Mapping[int, int], goes_on: Value) -> Dim | None:
    """How many rounds there are while a counter, or each of several, is less than a number."""
    test = goes_on.producer
    if test is not None and test.op == "logical_and":
        one, other = (None if v is None else _rounds(graph, counters, v) for v in test.operands)
        if one is None or other is None:
            return None
        return one if dims.equal(one, other) else min(one, other) if isinstance(one, int) and isinstance(other, int) else None
    if test is None or test.op != "less":
        return None
    next_value, end = test.operands
    first = next((first for k, first in counters.items() if graph.outputs[1 + k] is next_value), None)
    last = None if end is None else _number(end)
    return None if first is None or last is None else last - first


def as_scan(g: Composer, scope: SizeScope[Any], loop: CountedLoop) -> list[Value]:
    """The last values of all that is carried."""
    graph, inputs = loop.region.graph, loop.carried
    others = [k for k in range(len(loop.starts)) if k not in loop.counters]
    rows = {k: found for k in others if (found := loop.rows(k)) is not None}
    states = [k for k in others if k not in rows]
    outside = dict(zip(graph.inputs[_OWN + len(inputs) :], loop.region.captured, strict=True))
    taken = {value: backwards for value in outside if (backwards := loop.read_rows(value)) is not None}
    sliced = [_row_of(graph, value) for value in taken]
    number = _count_rounds(loop)
    builder = Builder(graph)
    stacked = [builder.call("reshape", update, newshape=tuple(update.shape[1:]), allowzero=True) for update, _ in rows.values()]
    graph.outputs = [*(graph.outputs[1 + k] for k in states), *stacked]
    captured = {value: source for value, source in outside.items() if value not in taken}
    graph.inputs = [*(inputs[k] for k in states), number, *sliced, *captured]
    prune(graph)
    size = g.constant(loop.rounds, "int64") if isinstance(loop.rounds, int) else scope.size(g, loop.rounds)
    last = g.multi(
        "scan", *(loop.starts[k] for k in states), g.count(size, loop.rounds), *(outside[value] for value in taken),
        *captured.values(), regions=[graph], num_states=len(states), num_scan_inputs=1 + len(taken),
        input_directions=_directions([False, *taken.values()]), output_directions=_directions([d for _, d in rows.values()]))
    results = dict(zip([*states, *rows], last))
    for position, first in loop.counters.items():
        value = loop.starts[position]
        results[position] = g.call("add", g.cast(size, value.dtype), g.scalar(first, value))
    return [results[k] for k in range(len(loop.starts))]


def _directions(backwards: Sequence[bool]) -> tuple[int, ...] | None:
    return tuple(map(int, backwards)) if any(backwards) else None


def _row_of(graph: Graph, value: Value) -> Value:
    """An input of the body that is a row of a captured ``value``; what read that reads it."""
    type_ = value.tensor_type
    row = Value(TensorType(type_.shape[1:], type_.dtype), value.name)
    for node, _ in list(value.uses):
        found = Builder(graph, node).call("reshape", row, newshape=(1, *type_.shape[1:]), allowzero=True)
        graph.replace_uses(node.result, found)
    return row


def _count_rounds(loop: CountedLoop) -> Value:
    """An input of the body that is the number of the round; what read the counters reads it, and adds what they begin with."""
    graph = loop.region.graph
    number = Value(TensorType((), "int64"), "round")
    builder = Builder(graph, next(iter(graph.nodes), None))
    for position, first in loop.counters.items():
        counter = loop.carried[position]
        own = number if counter.dtype == number.dtype else builder.call("cast", number, dtype=counter.dtype)
        graph.replace_uses(counter, builder.call("add", own, builder.constant(first, counter.dtype)) if first else own)
    return number
