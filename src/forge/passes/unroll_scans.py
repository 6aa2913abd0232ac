"""Short scans become what their rounds do, where more is known of a round than of the loop.

That is so of loops over layers, whose rounds read rows of constant weights, which kernels then read packed; and of those over few
frames whose body has convolutions, so that images stay in the kernels' layout from one round to the next.

``scan(s, x) { b }`` --> ``b(b(s, x[0]), x[1])``, and the stacked results of the rounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from forge.ir.builder import Builder
from forge.ir.call import bind_parameters
from forge.ir.edits.edit import splice
from forge.ir.edits.rewrite import before, on_all_graphs, replace
from forge.ir.graph import Graph
from forge.ir.nodes import CONSTANT, Node, Value
from forge.ops.nn.convolution import ConvBase
from forge.options import CompileOptions
from forge.passes.matching import distinct, operand
from forge.passes.view_rules import reshaped

MAX_LAYERS, MAX_FRAMES = 128, 16
MAX_NODES = 1 << 14
"""Operators of all rounds."""
MIN_WEIGHT = 1 << 12
"""Elements of a row of constants that are weights."""


def run(graph: Graph, options: CompileOptions) -> int:
    """Returns the number of scans that were replaced."""
    return on_all_graphs(graph, lambda g: sum(map(_unroll, [n for n in g.nodes if n.op_def.name == "scan"])))


def _unroll(scan: Node) -> bool:
    attrs, (body,) = scan.attrs, scan.regions
    rounds = operand(scan, attrs.num_states).shape[0]
    if attrs.input_axes or attrs.output_axes or not isinstance(rounds, int) or not _keeps_types(scan, body):
        return False
    if not _is_worthwhile(scan, body, rounds):
        return False
    assert scan.graph is not None
    graph, builder, count = scan.graph, before(scan.graph, scan), attrs.num_states
    last = count + attrs.num_scan_inputs
    states = [operand(scan, k) for k in range(count)]
    sources, captured = ([operand(scan, k) for k in range(*bounds)] for bounds in ((count, last), (last, len(scan.operands))))
    columns: list[list[Value]] = [[] for _ in body.outputs[count:]]
    for number in range(rounds):
        one = body.copy()
        for node in one.nodes:
            node.name = node.name and f"{node.name}/{number}"
        rows = [_row(builder, x, rounds - 1 - number if backwards else number)
                for x, backwards in zip(sources, attrs.input_directions or (0,) * len(sources))]
        operands = [*states, *rows, *captured]
        results = splice(graph, one, operands, bind_parameters("scan", one, operands), scan)
        states = results[:count]
        for column, value in zip(columns, results[count:]):
            column.append(value)
    stacked = [_stacked(builder, column[::-1] if backwards else column)
               for column, backwards in zip(columns, attrs.output_directions or (0,) * len(columns))]
    if replace(graph, scan, *distinct(builder, scan, [*states, *stacked])) and scan.graph is graph:
        graph.remove(scan)
    return True


def _keeps_types(scan: Node, body: Graph) -> bool:
    """Whether all rounds give states of the types that they get."""
    count, last = scan.attrs.num_states, scan.attrs.num_states + scan.attrs.num_scan_inputs
    formal, actual = [v.type for v in body.inputs], [v.type for v in scan.operands if v is not None]
    rows = [(v.dtype, v.shape) for v in body.inputs[count:last]]
    return (formal[:count] == actual[:count] == [v.type for v in body.outputs[:count]] and formal[last:] == actual[last:]
            and rows == [(operand(scan, k).dtype, operand(scan, k).shape[1:]) for k in range(count, last)])


def _is_worthwhile(scan: Node, body: Graph, rounds: int) -> bool:
    size = sum(node.op_def is not CONSTANT for node in body.nodes)
    if rounds == 0 or rounds * size > MAX_NODES:
        return False
    if rounds <= MAX_FRAMES and any(ConvBase.of(node) is not None for node in body.nodes):
        return True
    rows = [operand(node) for node in body.nodes if node.op_def.name == "dynamic_slice"]
    sources = [*rows, *(v for v in scan.operands[scan.attrs.num_states :] if v is not None)]
    return rounds <= MAX_LAYERS and any(_is_weights(v, rounds) for v in sources)


def _is_weights(value: Value, rounds: int) -> bool:
    array = value.constant
    return array is not None and array.ndim > 2 and len(array) == rounds and array.size >= rounds * MIN_WEIGHT


def _row(builder: Builder, value: Value, number: int) -> Value:
    if value.constant is not None:
        return builder.constant(value.constant[number])
    part = builder.call("strided_slice", value, begin=(number,), end=(number + 1,), axes=(0,))
    return reshaped(builder, part, value.shape[1:])


def _stacked(builder: Builder, values: Sequence[Value]) -> Value:
    rows = [reshaped(builder, v, (1, *v.shape)) for v in values]
    return builder.call("concatenate", *rows, axis=0)
