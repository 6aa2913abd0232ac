"""Operators that make tensors: filled ones, ranges, one-hot vectors, identity matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.operators.movement import data_shape
from forge.exporters.onnx.registry import exports
from forge.ir.nodes import Node


def scalar(g: Emitter, x: Ref) -> Ref:
    """A tensor of one element as a scalar."""
    return g.scalar(x)


@exports("full")
def full(g: Emitter, node: Node, value: Ref, shape: Ref | None = None) -> Ref:
    attrs: Any = node.attrs
    wanted = g.cast(shape, "int64") if attrs.shape is None and shape is not None else g.dims(attrs.shape)
    return g.op("Expand", g.cast(scalar(g, value), node.result.dtype), wanted)


@exports("zeros", "ones")
def zeros(g: Emitter, node: Node, shape: Ref | None = None) -> Ref:
    attrs: Any = node.attrs
    wanted = g.cast(shape, "int64") if attrs.shape is None and shape is not None else g.dims(attrs.shape)
    return g.op("Expand", g.const(int(node.op == "ones"), node.result.dtype), wanted)


@exports("zeros_like", "ones_like")
def zeros_like(g: Emitter, node: Node, x: Ref) -> Ref:
    return g.op("Expand", g.const(int(node.op == "ones_like"), x.dtype), _shape(g, node, x))


@exports("full_like")
def full_like(g: Emitter, node: Node, x: Ref, value: Ref) -> Ref:
    return g.op("Expand", scalar(g, value), _shape(g, node, x))


def _shape(g: Emitter, node: Node, x: Ref) -> Ref:
    shape = data_shape(node)
    return g.dims(shape) if dims.is_static(*shape) else g.shape(x)


@exports("arange")
def arange(g: Emitter, node: Node, start: Ref, stop: Ref, step: Ref) -> Ref:
    return g.cast(g.op("Range", *(scalar(g, v) for v in (start, stop, step))), node.result.dtype)


@exports("one_hot")
def one_hot(g: Emitter, node: Node, indices: Ref, on: Ref, off: Ref, depth: Ref | None = None) -> Ref:
    attrs: Any = node.attrs
    axis = attrs.axis % node.result.rank
    count = g.cast(scalar(g, depth), "int64") if attrs.depth is None and depth is not None else scalar(g, g.size(attrs.depth))
    values = [g.cast(g.op("Reshape", v, g.ints([1])), node.result.dtype) for v in (off, on)]
    return g.op("OneHot", g.cast(indices, "int64"), count, g.concat(values, 0), axis=axis, dtype=node.result.dtype)


@exports("eye")
def eye(g: Emitter, node: Node) -> Any:
    attrs: Any = node.attrs
    dtype = node.result.dtype
    if isinstance(attrs.n, int) and isinstance(attrs.m, int) and attrs.n * attrs.m <= 4096:
        return g.const(np.eye(attrs.n, attrs.m, attrs.k).astype(dtypes.numpy_dtype(dtype)))
    nothing = g.op("Expand", g.const(0, "float32"), g.dims([attrs.n, attrs.m]))
    return g.cast(g.op("EyeLike", nothing, k=attrs.k), dtype)
