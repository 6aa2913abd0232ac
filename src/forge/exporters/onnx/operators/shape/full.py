"""Operators that make tensors: filled ones, ranges, one-hot vectors, identity matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.operators.shape.reshape import data_shape
from forge.exporters.onnx.registry import exports
from forge.ir.nodes import Node
from forge.ops.index.one_hot import OneHot
from forge.ops.shape.diagonal import Eye
from forge.ops.shape.full import Full, InitAttrs


@exports(Full)
def full(g: Emitter, op: Full, value: Ref, shape: Ref | None = None) -> Ref:
    return g.op("Expand", g.cast(g.scalar(value), op.result.dtype), g.required(op.attrs.shape, shape))


@exports("zeros", "ones")
def zeros(g: Emitter, node: Node, shape: Ref | None = None) -> Ref:
    attrs: InitAttrs = node.attrs
    return g.op("Expand", g.const(int(node.op == "ones"), node.result.dtype), g.required(attrs.shape, shape))


@exports("zeros_like", "ones_like", "full_like")
def full_like(g: Emitter, node: Node, x: Ref, value: Ref | None = None) -> Ref:
    shape = data_shape(node)
    element = g.const(int(node.op == "ones_like"), x.dtype) if value is None else g.scalar(value)
    return g.op("Expand", element, g.dims(shape) if dims.is_static(*shape) else g.shape(x))


@exports(OneHot)
def one_hot(g: Emitter, op: OneHot, indices: Ref, on: Ref, off: Ref, depth: Ref | None = None) -> Ref:
    axis = op.attrs.axis % op.result.rank
    count = g.scalar(g.required(op.attrs.depth, depth))
    values = [g.cast(g.op("Reshape", v, g.ints([1])), op.result.dtype) for v in (off, on)]
    return g.op("OneHot", g.cast(indices, "int64"), count, g.concat(values, 0), axis=axis)


@exports(Eye)
def eye(g: Emitter, op: Eye) -> Any:
    attrs = op.attrs
    dtype = op.result.dtype
    if isinstance(attrs.n, int) and isinstance(attrs.m, int) and attrs.n * attrs.m <= 4096:
        return g.const(np.eye(attrs.n, attrs.m, attrs.k).astype(dtypes.numpy_dtype(dtype)))
    nothing = g.op("Expand", g.const(0, "float32"), g.dims([attrs.n, attrs.m]))
    return g.op("EyeLike", nothing, k=attrs.k)
