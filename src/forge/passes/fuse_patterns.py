"""Operators from the primitives that exporters write them in.

Each rule is a function of the last node of a pattern; its docstring is the equation. Products are matched whatever the order and
nesting of their factors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from forge import dtypes
from forge.errors import TypeInferenceError
from forge.ir.edits.rewrite import Declined, RuleBuilder, rewrite, rule
from forge.ir.nodes import Graph, Node, Value
from forge.options import CompileOptions
from forge.passes.matching import (
    factors,
    has_only_data,
    is_close,
    made_by,
    operand,
    reduced,
    reduced_axes,
    scalar,
    squared,
    with_scalar,
)

NOT_TRAILING = Declined("the mean is not over the last axes")


def run(graph: Graph, options: CompileOptions) -> int:
    return rewrite(graph, RULES)


def run_norms(graph: Graph, options: CompileOptions) -> int:
    """Only normalisations, for what decomposition left of those of channels and groups where the layout stayed plain."""
    return rewrite(graph, [layer_norm, rms_norm])


def is_trailing(axes: tuple[int, ...], rank: int) -> bool:
    return bool(axes) and axes == tuple(range(rank - len(axes), rank))


def divided_by_deviation(node: Node) -> tuple[Value, Value, float] | None:
    """(y, v, epsilon) of y / sqrt(v + epsilon), or y * rsqrt(v + epsilon), or y * (1 / sqrt(v + epsilon))"""
    pairs = [(node.operands[0], node.operands[1])]
    if node.op == "multiply":
        pairs.append((node.operands[1], node.operands[0]))
    for y, divisor in pairs:
        root = _square_root(divisor, inverse=node.op == "multiply")
        for variance, epsilon in with_scalar(root, "add"):
            if y is not None:
                return y, variance, epsilon
    return None


def _square_root(value: Value | None, inverse: bool) -> Value | None:
    """x of sqrt(x); with ``inverse``, of rsqrt(x), reciprocal(sqrt(x)) or 1 / sqrt(x)"""
    if not inverse:
        node = made_by(value, "sqrt")
        return None if node is None else operand(node)
    node = made_by(value, "rsqrt", "reciprocal", "divide")
    if node is None:
        return None
    if node.op == "rsqrt":
        return operand(node)
    if node.op == "divide" and scalar(operand(node)) != 1.0:
        return None
    return _square_root(operand(node, int(node.op == "divide")), inverse=False)


@rule("divide", "multiply")
def layer_norm(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """(x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon) == layer_norm(x)"""
    parts = divided_by_deviation(node)
    if parts is None:
        return None
    centred, variance, epsilon = parts
    difference = made_by(centred, "subtract")
    mean = None if difference is None else reduced(difference.operands[1], "mean")
    square = reduced(variance, "mean")
    if difference is None or mean is None or square is None or mean[0] is not operand(difference):
        return None
    if mean[1] != square[1]:
        return Declined("mean and variance are over different axes")
    if not is_trailing(mean[1], centred.rank):
        return NOT_TRAILING
    x = operand(difference)
    if not _same_difference(squared(square[0]), difference):
        return Declined("the variance is not that of the difference")
    return builder.call("nn.layer_norm", x, axis=-len(mean[1]), epsilon=epsilon)


def _same_difference(value: Value | None, difference: Node) -> bool:
    """Whether ``value`` is the result of ``difference``, or of a second node that computes the same."""
    other = made_by(value, "subtract")
    if other is None or operand(other) is not operand(difference):
        return False
    a, b = (reduced(n.operands[1], "mean") for n in (other, difference))
    return a is not None and a == b


@rule("divide", "multiply")
def rms_norm(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """x / sqrt(mean(x ** 2) + epsilon) == rms_norm(x)"""
    parts = divided_by_deviation(node)
    if parts is None:
        return None
    x, variance, epsilon = parts
    square = reduced(variance, "mean")
    base = None if square is None else squared(square[0])
    if square is None or base is None:
        return None
    if base is not x:
        return Declined("the mean is of the squares of another value")
    if not is_trailing(square[1], x.rank):
        return NOT_TRAILING
    return builder.call("nn.rms_norm", x, axis=-len(square[1]), epsilon=epsilon)


@rule("multiply")
def norm_with_scale(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """layer_norm(x) * gamma == layer_norm(x, gamma), and the same for rms_norm"""
    for position in (0, 1):
        norm = made_by(node.operands[position], "nn.layer_norm", "nn.rms_norm")
        if norm is None or not has_only_data(norm):
            continue
        if norm.attributes.get("scale", True):
            return _with_parameter(builder, node, norm, operand(norm), operand(node, 1 - position))
    return None


@rule("add")
def norm_with_shift(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """layer_norm(x, gamma) + beta == layer_norm(x, gamma, beta)"""
    for position in (0, 1):
        norm = made_by(node.operands[position], "nn.layer_norm")
        if norm is not None and norm.attributes["center"] and all(v is None for v in norm.operands[2:]):
            gamma = norm.operands[1] if len(norm.operands) > 1 else None
            return _with_parameter(builder, node, norm, operand(norm), gamma, operand(node, 1 - position))
    return None


def _with_parameter(
    builder: RuleBuilder, node: Node, norm: Node, data: Value, *parameters: Value | None
) -> Value | Declined | None:
    """The normalisation with more parameters, where they fit its axes and do not enlarge the result."""
    added = parameters[-1]
    if added is None or added is data:
        return None
    if node.result.type != norm.result.type:
        return Declined("the parameter enlarges the result")
    if added.rank > -norm.attributes["axis"]:
        return Declined("the parameter has more axes than are normalised")
    try:
        return builder.call(norm.op, data, *parameters, name=norm.name, **norm.attributes)
    except TypeInferenceError:
        return Declined("the parameter does not have the shape of the normalised axes")


@rule("divide")
def softmax(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """exp(x - max(x)) / sum(exp(x - max(x))) == softmax(x)"""
    total = reduced(node.operands[1], "sum")
    power = made_by(node.operands[0], "exp")
    difference = None if power is None else made_by(power.operands[0], "subtract")
    if total is None or power is None or difference is None or total[0] is not power.result:
        return None
    if len(total[1]) != 1:
        return Declined("the sum is over several axes")
    largest = reduced(difference.operands[1], "max")
    if largest is None or largest != (operand(difference), total[1]):
        return Declined("what is subtracted is not the maximum over the axis of the sum")
    return builder.call("nn.softmax", operand(difference), axis=total[1][0])


@rule("mean", "max")
def spatial_mean(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """mean(x[N, C, H, W], axis=(2, 3)) == global_avg_pool2d(x), and the same for max"""
    data = operand(node)
    if data.rank != 4 or not has_only_data(node) or not dtypes.is_float(data.dtype):
        return None
    if reduced_axes(node) != (2, 3):
        return Declined("not over height and width")
    pooled = builder.call("nn.global_avg_pool2d" if node.op == "mean" else "nn.global_max_pool2d", data)
    return pooled if node.attributes["keepdims"] else builder.call("reshape", pooled, newshape=node.result.shape)


@rule("divide", "multiply")
def gelu(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """x / 2 * (1 + erf(x / sqrt(2))) == gelu(x); x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) its approximation"""
    number, parts = factors(node.result)
    for x, gate in (parts, parts[::-1]) if len(parts) == 2 else ():
        for inner, one in with_scalar(gate, "add"):
            curve = made_by(inner, "erf", "tanh")
            if curve is None or one != 1.0:
                continue
            if not is_close(number, 0.5):
                return Declined(f"the factor is {number:g}; expected 0.5")
            if curve.op == "erf" and _is_erf_argument(operand(curve), x):
                return builder.call("nn.gelu", x)
            if curve.op == "tanh" and _is_tanh_argument(operand(curve), x):
                return builder.call("nn.gelu", x, approximate="tanh")
            return Declined(f"the argument of {curve.op} is not that of gelu")
    return None


def _is_erf_argument(value: Value, x: Value) -> bool:
    """value == x / sqrt(2)"""
    number, parts = factors(value)
    return is_close(number, math.sqrt(0.5)) and len(parts) == 1 and parts[0] is x


def _is_tanh_argument(value: Value, x: Value) -> bool:
    """value == sqrt(2 / pi) * (x + 0.044715 * x ** 3)"""
    number, parts = factors(value)
    if not is_close(number, math.sqrt(2 / math.pi)):
        return False
    if len(parts) == 2 and x in parts:
        gate = parts[1] if parts[0] is x else parts[0]
        return any(one == 1.0 and _is_power(square, x, 2) for square, one in with_scalar(gate, "add"))
    total = made_by(parts[0], "add") if len(parts) == 1 else None
    if total is None:
        return False
    a, b = total.operands
    return (a is x and _is_power(b, x, 3)) or (b is x and _is_power(a, x, 3))


def _is_power(value: Value | None, x: Value, exponent: int) -> bool:
    """value == 0.044715 * x ** exponent"""
    if value is None:
        return False
    number, parts = factors(value)
    if not is_close(number, 0.044715):
        return False
    if len(parts) == 1:
        return any(base is x and e == exponent for base, e in with_scalar(parts[0], "power"))
    return len(parts) == exponent and all(v is x for v in parts)


GATED = {"sigmoid": "nn.silu", "nn.hard_sigmoid": "nn.hardswish", "nn.softplus": "nn.mish"}


@rule("multiply")
def gated(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """x * sigmoid(x) == silu(x); x * hard_sigmoid(x) == hardswish(x); x * tanh(softplus(x)) == mish(x)"""
    declined = None
    for position in (0, 1):
        x, gate = operand(node, position), made_by(operand(node, 1 - position), "sigmoid", "nn.hard_sigmoid", "tanh")
        inner = made_by(operand(gate), "nn.softplus") if gate is not None and gate.op == "tanh" else gate
        if gate is None or inner is None:
            continue
        if operand(inner) is not x:
            declined = Declined(f"{inner.op} is of another value")
        elif inner.op == "nn.hard_sigmoid" and not _is_hardswish_gate(gate.attributes):
            declined = Declined("alpha and beta of nn.hard_sigmoid are not 1/6 and 1/2")
        else:
            return builder.call(GATED[inner.op], x)
    return declined


def _is_hardswish_gate(attributes: dict[str, Any]) -> bool:
    return is_close(attributes["alpha"], 1 / 6) and is_close(attributes["beta"], 0.5)


@rule("divide", "multiply")
def hardswish(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """x * clip(x + 3, 0, 6) / 6 == hardswish(x)"""
    number, parts = factors(node.result)
    for x, gate in (parts, parts[::-1]) if len(parts) == 2 else ():
        clip = made_by(gate, "clip")
        if clip is None or not has_only_data(clip):
            continue
        if (clip.attributes["a_min"], clip.attributes["a_max"]) != (0, 6):
            continue
        if any(inner is x and three == 3.0 for inner, three in with_scalar(clip.operands[0], "add")):
            is_sixth = is_close(number, 1 / 6)
            return builder.call("nn.hardswish", x) if is_sixth else Declined(f"the factor is {number:g}; expected 1/6")
    return None


@rule("nn.matmul")
def matmul_by_constant(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """matmul(x, w) == dense(x, transpose(w)) for a constant matrix w"""
    a, b = operand(node), operand(node, 1)
    attributes = node.attributes
    if b.constant is None or b.rank != 2 or not np.issubdtype(b.constant.dtype, np.number):
        return None
    if attributes["transpose_a"]:
        return Declined("the first operand is transposed")
    weight = b if attributes["transpose_b"] else builder.constant(b.constant.T, name=b.name)
    return builder.call("nn.dense", a, weight, name=node.name, units=weight.shape[0], out_dtype=attributes["out_dtype"])


RULES = (
    layer_norm, rms_norm, softmax, norm_with_scale, norm_with_shift, gated, gelu, hardswish, spatial_mean, matmul_by_constant,
)
