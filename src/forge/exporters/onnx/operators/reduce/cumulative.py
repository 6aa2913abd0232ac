"""Running products, extremes and logarithms of sums: a Scan along the axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import helper

from forge import dtypes
from forge.dims import Dim
from forge.exporters.onnx.emitter import Emitter, Ref, tensor_code
from forge.exporters.onnx.operators.elementwise.arithmetic import logaddexp
from forge.exporters.onnx.registry import exports
from forge.ir.nodes import Node
from forge.ir.types import UnrankedType
from forge.ops.reduce.cumulative import CumMax, CumMin, LogCumSumExp, RunningExtreme

Step = Callable[[Emitter, list[Ref], Ref], tuple[list[Ref], list[Ref]]]


def scanned(g: Emitter, x: Ref, shape: Sequence[Dim], axis: int, states: Sequence[Ref], step: Step) -> list[Ref]:
    """The results of ``step`` for each slice along ``axis``, stacked there: it gets the states and the slice, and gives the next
    states and its results.

    Of no elements the results are the data: onnxruntime fails to divide by their number.
    """
    if any(isinstance(d, int) and d == 0 for d in shape):
        probe = g.child()
        results = step(probe, list(states), x)[1]
        return [g.cast(g.op("Identity", x), r.dtype) for r in results]
    inner = g.child()
    formal = [Ref(g.document.unique("state"), s.dtype) for s in states]
    row = Ref(g.document.unique("row"), x.dtype)
    following, results = step(inner, formal, row)
    infos = [helper.make_value_info(r.name, helper.make_tensor_type_proto(tensor_code(r.dtype), None)) for r in (*formal, row)]
    outputs = [*following, *results]
    body = inner.finish("running", infos, outputs, [UnrankedType(r.dtype) for r in outputs])
    made = g.multi("Scan", [*states, x], [r.dtype for r in outputs], body=body, num_scan_inputs=1, scan_input_axes=[axis],
                   scan_output_axes=[axis] * len(results))
    return made[len(states) :]


def _first(g: Emitter, node: Node, x: Ref, axis: int, value: Any) -> Ref:
    """A state of the shape of a slice."""
    start = value if isinstance(value, Ref) else g.like(value, x)
    sizes = [g.extent(x, k) for k in range(node.results[0].rank) if k != axis]
    return g.op("Expand", start, g.concat(sizes, 0)) if sizes else start


@exports(CumMax, CumMin)
def running_extreme(g: Emitter, op: RunningExtreme, x: Ref) -> list[Ref]:
    """The last of equal elements counts; NaN takes the place of all."""
    axis = op.attrs.axis % op.results[0].rank
    largest = op.name == "cummax"
    least, greatest = (-math.inf, math.inf) if dtypes.is_float(x.dtype) else dtypes.integer_range(x.dtype)

    def step(inner: Emitter, states: list[Ref], row: Ref) -> tuple[list[Ref], list[Ref]]:
        best, place, count = states
        better = inner.op("GreaterOrEqual" if largest else "LessOrEqual", row, best)
        if dtypes.is_float(row.dtype):
            better = inner.op("Or", better, inner.op("IsNaN", row))
        value = inner.op("Where", better, row, best)
        position = inner.op("Where", better, count, place)
        return [value, position, inner.op("Add", count, inner.const(np.int64(1)))], [value, position]

    zero = g.const(np.int64(0))
    states = [_first(g, op.node, x, axis, least if largest else greatest), _first(g, op.node, x, axis, zero), zero]
    return scanned(g, x, op.results[0].shape, axis, states, step)


@exports(LogCumSumExp)
def running_logarithm(g: Emitter, op: LogCumSumExp, x: Ref) -> Ref:
    axis = op.attrs.axis % op.result.rank

    def step(inner: Emitter, states: list[Ref], row: Ref) -> tuple[list[Ref], list[Ref]]:
        total = logaddexp(inner, states[0], row)
        return [total], [total]

    wide = x if dtypes.bits(x.dtype) >= 32 else g.cast(x, "float32")
    return g.cast(scanned(g, wide, op.result.shape, axis, [_first(g, op.node, wide, axis, -math.inf)], step)[0], x.dtype)


def running_product(g: Emitter, node: Node, x: Ref, axis: int, exclusive: bool) -> Ref:
    """The product of the elements up to each one, or (``exclusive``) before it."""

    def step(inner: Emitter, states: list[Ref], row: Ref) -> tuple[list[Ref], list[Ref]]:
        product = inner.op("Mul", states[0], row)
        return [product], [states[0] if exclusive else product]

    return scanned(g, x, node.results[0].shape, axis, [_first(g, node, x, axis, 1)], step)[0]
