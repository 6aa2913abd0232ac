"""Batch normalization."""

from __future__ import annotations

from forge.dims import product
from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term


def _others(value: Value, axis: int) -> tuple[int, ...]:
    return tuple(k for k in range(value.rank) if k != axis)


def _spread(g: Context, parameter: Value, like: Value, axis: int) -> Term:
    return Term(g, g.reshape(parameter, [like.shape[k] if k == axis else 1 for k in range(like.rank)]))


@converts("batch_norm_inference")
def batch_norm_inference(
    g: Context, operand: Value, scale: Value, offset: Value, mean: Value, variance: Value, *, epsilon: float, feature_index: int
) -> Value:
    return g.call("nn.batch_norm", operand, scale, offset, mean, variance, axis=feature_index, epsilon=epsilon)


@converts("batch_norm_training")
def batch_norm_training(
    g: Context, operand: Value, scale: Value, offset: Value, *, epsilon: float, feature_index: int
) -> list[Value]:
    axes = _others(operand, feature_index)
    mean, variance = g.call("mean", operand, axis=axes), g.call("variance", operand, axis=axes)
    normal = g.call("nn.batch_norm", operand, scale, offset, mean, variance, axis=feature_index, epsilon=epsilon)
    return [normal, mean, variance]


@converts("batch_norm_grad")
def batch_norm_grad(
    g: Context, operand: Value, scale: Value, mean: Value, variance: Value, grad_output: Value, *, epsilon: float,
    feature_index: int,
) -> list[Value]:
    axes = _others(operand, feature_index)
    count = g.cast(g.scope.size(g, product(operand.shape[k] for k in axes)), operand.dtype)
    gradient = Term(g, grad_output)
    inverse = Term(g, g.call("rsqrt", (_spread(g, variance, operand, feature_index) + epsilon).value))
    centred = Term(g, operand) - _spread(g, mean, operand, feature_index)
    offset = g.call("sum", grad_output, axis=axes)
    along = g.call("sum", (gradient * centred).value, axis=axes)
    slope = _spread(g, along, operand, feature_index) * inverse * inverse / Term(g, count)
    middle = _spread(g, offset, operand, feature_index) / Term(g, count)
    operand_gradient = _spread(g, scale, operand, feature_index) * inverse * (gradient - middle - centred * slope)
    scale_gradient = g.reshape((_spread(g, along, operand, feature_index) * inverse).value, scale.shape)
    return [operand_gradient.value, scale_gradient, offset]
