"""Batch normalization with constant parameters goes into the weights before it.

``nn.batch_norm(nn.conv2d(%x, w), ...)`` --> ``nn.bias_add(nn.conv2d(%x, scale * w), shift)`` with
``scale = gamma / sqrt(variance + epsilon)`` and ``shift = beta - mean * scale``; after other operators, or where more than the
normalization uses the convolution: ``add(multiply(%x, scale), shift)``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from forge import dtypes
from forge.ir.edits.rewrite import Declined, RuleBuilder, before, rule
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ops.nn.normalization import BatchNorm
from forge.options import CompileOptions
from forge.passes.base import rewriting
from forge.passes.weighted import find_weighted, rebuild


def run_with_params(graph: Graph, options: CompileOptions) -> int:
    """Runs the pass on a function for which values in ``params`` are known too.

    What a normalization and the operator before it read of ``params`` becomes constants there, and so part of the folded weights.
    Inputs that nothing else uses go, with their values; others, and what else reads them, stay as they are.
    """
    bound = {v: graph.params[v.name] for v in graph.inputs if v.name in graph.params}
    frozen: set[Value] = set()
    for node in [n for n in graph.nodes if n.op == "nn.batch_norm"]:
        if all(v is None or v in bound or v.constant is not None for v in node.operands[1:]):
            for user, position in _weights(node):
                value = user.operands[position]
                if value is not None and value in bound:
                    user.set_operand(position, before(graph, user).constant(bound[value], name=value.name))
                    frozen.add(value)
    unused = [v for v in frozen if not graph.use_count(v)]
    graph.inputs = [v for v in graph.inputs if v not in unused]
    for value in unused:
        del graph.params[value.name]
    return run(graph, options)


def _weights(node: Node) -> Iterator[tuple[Node, int]]:
    """Operands that may be weights: those of a normalization, and of the operators before it, up to a weighted one."""
    yield from ((node, position) for position in range(1, len(node.operands)))
    value = node.operands[0]
    while value is not None and value.producer is not None and len(value.uses) == 1:
        below = value.producer
        yield from ((below, position) for position in range(1, min(len(below.operands), 2)))
        value = below.operands[0] if below.op in ("nn.bias_add", "add") else None


@rule(BatchNorm)
def fold_batch_norm(builder: RuleBuilder, norm: BatchNorm) -> Value | Declined:
    """batch_norm(op(x, w)) == op(x, scale * w) + shift; after other operators x * scale + shift"""
    data, parameters = norm.data, (norm.gamma, norm.beta, norm.moving_mean, norm.moving_var)
    constants = [p.constant for p in parameters if p.constant is not None]
    if len(constants) != len(parameters):
        return Declined("its parameters are not constant")
    gamma, beta, mean, variance = (c.astype(np.float64) for c in constants)
    scale = 1.0 / np.sqrt(variance + norm.attrs.epsilon)
    scale = gamma * scale if norm.attrs.scale else scale
    shift = -mean * scale
    shift = shift + beta if norm.attrs.center else shift
    axis = norm.attrs.axis % data.rank
    found = find_weighted(builder.graph, data)
    if found is not None and found.axis == axis:
        return rebuild(builder, found, scale, shift)
    shape = (-1, *[1] * (data.rank - 1 - axis))
    as_type = dtypes.numpy_dtype(data.dtype)
    factor, offset = (builder.constant(v.astype(as_type).reshape(shape)) for v in (scale, shift))
    return builder.call("add", builder.call("multiply", data, factor), offset)


run = rewriting(fold_batch_norm)
