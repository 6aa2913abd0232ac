"""Reductions, positions of extremes, running sums."""

from __future__ import annotations

from typing import Any

from forge import dtypes
from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.operators.reduce.cumulative import running_product
from forge.exporters.onnx.operators.shape.reshape import data_shape
from forge.exporters.onnx.registry import exports
from forge.ir.nodes import Node
from forge.ops.reduce.argmax import ArgMax, ArgMin, ArgReduction
from forge.ops.reduce.cumulative import CumProd, CumSum, Cumulative
from forge.ops.reduce.reduction import ReduceAttrs, reduced_axes

REDUCTIONS = {name: f"Reduce{name.capitalize()}" for name in ("sum", "prod", "max", "min", "mean")}
REDUCTIONS |= {"logsumexp": "ReduceLogSumExp", "all": "ReduceMin", "any": "ReduceMax"}


@exports(*REDUCTIONS)
def reduction(g: Emitter, node: Node, x: Ref, axes: Ref | None = None) -> Any:
    """The axes of nothing are counted from the front, as onnxruntime takes no others there."""
    attrs: ReduceAttrs = node.attrs
    op, shape, is_integer = REDUCTIONS[node.op], data_shape(node), dtypes.is_integer(x.dtype)
    if node.op == "mean" and is_integer:
        return NotImplemented
    if node.op in ("sum", "prod") and is_integer and dtypes.bits(x.dtype) < 32:
        x = g.cast(x, "int32")
    if attrs.axis is None and axes is not None:
        return g.op(op, x, g.cast(axes, "int64"), keepdims=int(attrs.keepdims))
    along = reduced_axes(node.op, attrs, len(shape))
    if not along:
        return g.op(op, x, g.ints([]), keepdims=int(attrs.keepdims), noop_with_empty_axes=1)
    if attrs.axis is not None and not attrs.exclude and 0 not in shape:
        along = (attrs.axis,) if isinstance(attrs.axis, int) else attrs.axis
    return g.op(op, x, None if attrs.axis is None else g.ints(along), keepdims=int(attrs.keepdims))


@exports(ArgMax, ArgMin)
def argmax(g: Emitter, op: ArgReduction, x: Ref) -> Any:
    attrs = op.attrs
    if attrs.axis is None:
        return NotImplemented
    (axis,) = reduced_axes(op.name, attrs, len(op.data.shape))
    which, last = "ArgMax" if op.name == "argmax" else "ArgMin", 1 if attrs.select_last_index else None
    return g.op(which, x, axis=axis, keepdims=1 if attrs.keepdims else 0, select_last_index=last)


@exports(CumSum, CumProd)
def cumsum(g: Emitter, op: Cumulative, x: Ref, axis: Ref | None = None) -> Ref:
    attrs, cumulative = op.attrs, "CumSum" if op.name == "cumsum" else "CumProd"
    x = g.cast(x, op.result.dtype)
    if attrs.axis is None and axis is None:
        x = g.op("Reshape", x, g.ints([-1]))
    if g.has(cumulative):
        along = g.const(attrs.axis or 0, "int64") if axis is None else g.scalar(g.cast(axis, "int64"))
        return g.op(cumulative, x, along, exclusive=1 if attrs.exclusive else None)
    if axis is not None:
        raise g.unsupported(f"its axis is known at run time only; opset {g.opset} lacks CumProd")
    return running_product(g, op.node, x, 0 if attrs.axis is None else attrs.axis % op.result.rank, attrs.exclusive)
