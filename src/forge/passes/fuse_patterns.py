"""Operators from the primitives that exporters write them in.

Each rule is a function of the last node of a pattern; its docstring is the equation. Products are matched whatever the order and
nesting of their factors.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from forge import dtypes
from forge.errors import TypeInferenceError
from forge.ir.edits.rewrite import Declined, RuleBuilder, rule
from forge.ir.nodes import Node, Value
from forge.ops.elementwise.select import Clip
from forge.ops.nn.matmul import Matmul
from forge.ops.nn.normalization import LayerNorm
from forge.passes.base import rewriting, rules_of
from forge.passes.matching import (
    again,
    factors,
    has_only_data,
    is_close,
    made_by,
    operand,
    pairs,
    reduced,
    reduced_axes,
    scalar,
    squared,
    with_scalar,
)
from forge.passes.recurrent_rules import recurrent_layer
from forge.passes.view_rules import reshaped

ROOTS = ("divide", "multiply", "reciprocal", "rsqrt", "sqrt")
"""What a divisor, or the factor in its place, is made by."""


def divided_by_deviation(node: Node) -> tuple[Value, Value, float, Value | None] | None:
    """Returns (y, v, epsilon, g) of y / sqrt(v + epsilon), or y * rsqrt(v + epsilon) * g, or y * (1 / sqrt(v + epsilon)) * g

    g may be absent; it has to be on the side of the root, else it is a factor of the whole.
    """
    is_product = node.op == "multiply"
    for y, divisor in pairs(node):
        if divisor.producer is None or divisor.producer.op_def.name not in ROOTS:
            continue
        for root, scale in ((divisor, None), *pairs(made_by(divisor, "multiply") if is_product else None)):
            for variance, epsilon in with_scalar(_square_root(root, inverse=is_product), "add"):
                return y, variance, epsilon, scale
    return None


def _square_root(value: Value | None, inverse: bool) -> Value | None:
    """x of sqrt(x); with ``inverse``, of rsqrt(x), reciprocal(sqrt(x)) or 1 / sqrt(x)"""
    match None if value is None else value.producer:
        case Node(op="rsqrt" | "sqrt" as op, operands=[x]) if inverse is (op == "rsqrt"):
            return x
        case Node(op="reciprocal", operands=[root]) if inverse:
            return _square_root(root, inverse=False)
        case Node(op="divide", operands=[one, root]) if inverse and scalar(one) == 1.0:
            return _square_root(root, inverse=False)
    return None


def _centred(value: Value | None) -> tuple[Value, tuple[int, ...]] | None:
    """(x, axes) of x - mean(x, axes)"""
    difference = made_by(value, "subtract")
    mean = None if difference is None else reduced(operand(difference, 1), "mean")
    return mean if difference is not None and mean is not None and mean[0] is operand(difference) else None


@rule("divide", "multiply")
def layer_norm(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """(x - mean(x)) / sqrt(variance + epsilon) == layer_norm(x)

    The variance is mean((x - mean(x)) ** 2) or mean(x ** 2) - mean(x) ** 2.
    """
    parts = divided_by_deviation(node)
    if parts is None:
        return None
    difference, variance, epsilon, scale = parts
    centred, square = _centred(difference), _mean_of_squares(_not_below_zero(variance))
    if centred is None or square is None:
        return None
    x, axes = centred
    if axes != square[1]:
        return Declined("mean and variance are over different axes")
    of_moments = square[0] is x and made_by(_not_below_zero(variance), "subtract") is not None
    if not of_moments and _centred(square[0]) != centred:  # of that node, or of a second one that computes the same
        return Declined("the variance is not that of the difference")
    return _normalized(builder, "nn.layer_norm", x, axes, epsilon, scale)


@rule("add")
def around_mean(builder: RuleBuilder, node: Node) -> Value | None:
    """x * f + (b - mean(x) * f) == (x - mean(x)) * f + b: of the first form, ``layer_norm`` would not be known"""
    for scaled, shift in pairs(node):
        joined = made_by(shift, "add", "subtract")
        parts = ((shift, None),) if joined is None else pairs(joined) if joined.op == "add" else (pairs(joined)[0][::-1],)
        for (x, factor), (term, rest) in itertools.product(pairs(made_by(scaled, "multiply")), parts):
            mean = _negative_mean(term, factor, joined is not None and joined.op == "subtract")
            found = reduced(mean, "mean")
            if mean is not None and found is not None and found[0] is x:
                normalized = builder.call("multiply", builder.call("subtract", x, mean), factor)
                return normalized if rest is None else builder.call("add", normalized, rest)
    return None


def _negative_mean(value: Value, factor: Value, is_subtracted: bool) -> Value | None:
    """m of -m * factor, or of m * factor where that is subtracted"""
    for m, other in pairs(made_by(value, "multiply")):
        if other is factor:
            negative = made_by(m, "negative")
            return m if is_subtracted else None if negative is None else operand(negative)
    return None


def _not_below_zero(value: Value) -> Value:
    """x of max(x, 0); other values as they are."""
    return next((x for x, least in with_scalar(value, "maximum") if least == 0.0), value)


def _mean_of_squares(value: Value) -> tuple[Value, tuple[int, ...]] | None:
    """(y, axes) of mean(y ** 2), and of mean(y ** 2) - mean(y) ** 2"""
    difference = made_by(value, "subtract")
    square = reduced(value if difference is None else operand(difference), "mean")
    base = None if square is None else squared(square[0])
    if square is None or base is None:
        return None
    if difference is not None and reduced(squared(operand(difference, 1)), "mean") != (base, square[1]):
        return None
    return base, square[1]


def _normalized(
    builder: RuleBuilder, op: str, x: Value, axes: tuple[int, ...], epsilon: float, scale: Value | None
) -> Value | Declined:
    """What ``op`` makes of x along ``axes``, times ``scale``."""
    if not axes or axes != tuple(range(x.rank - len(axes), x.rank)):
        return Declined("the mean is not over the last axes")
    normalized = builder.call(op, x, axis=-len(axes), epsilon=epsilon)
    return normalized if scale is None else builder.call("multiply", normalized, scale)


@rule("divide", "multiply")
def rms_norm(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """x / sqrt(mean(x ** 2) + epsilon) == rms_norm(x)"""
    parts = divided_by_deviation(node)
    if parts is None:
        return None
    x, variance, epsilon, scale = parts
    square = reduced(variance, "mean")
    base = None if square is None else squared(square[0])
    if square is None or base is None:
        return None
    if base is not x:
        return Declined("the mean is of the squares of another value")
    return _normalized(builder, "nn.rms_norm", x, square[1], epsilon, scale)


@rule("multiply")
def norm_with_scale(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """layer_norm(x) * gamma == layer_norm(x, gamma), and the same for rms_norm"""
    for normalized, gamma in pairs(node):
        norm = made_by(normalized, "nn.layer_norm", "nn.rms_norm")
        if norm is not None and has_only_data(norm) and getattr(norm.attrs, "scale", True):
            return _with_parameter(builder, node, norm, gamma)
    return None


@rule("add")
def norm_with_shift(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """layer_norm(x, gamma) + beta == layer_norm(x, gamma, beta)"""
    for normalized, beta in pairs(node):
        norm = LayerNorm.of(normalized.producer)
        if norm is not None and norm.attrs.center and norm.beta is None:
            return _with_parameter(builder, node, norm.node, norm.gamma, beta)
    return None


def _with_parameter(builder: RuleBuilder, node: Node, norm: Node, *parameters: Value | None) -> Value | Declined | None:
    """The normalization with more parameters, where they fit its axes and do not enlarge the result."""
    data, added = operand(norm), parameters[-1]
    if added is None or added is data:
        return None
    if node.result.type != norm.result.type:
        return Declined("the parameter enlarges the result")
    if all(extent == 1 for extent in added.shape[: norm.attrs.axis]):
        added = reshaped(builder, added, added.shape[norm.attrs.axis :])
        parameters = (*parameters[:-1], added)
    if added.rank > -norm.attrs.axis:
        return Declined("the parameter has more axes than are normalized")
    try:
        return again(builder, norm, data, *parameters)
    except TypeInferenceError:
        return Declined("the parameter does not have the shape of the normalized axes")


@rule("divide")
def softmax(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """exp(x - max(x)) / sum(exp(x - max(x))) == softmax(x)"""
    power, total = made_by(operand(node), "exp"), reduced(operand(node, 1), "sum")
    difference = None if power is None else made_by(operand(power), "subtract")
    if total is None or difference is None or total[0] is not operand(node):
        return None
    if len(total[1]) != 1:
        return Declined("the sum is over several axes")
    x, largest = operand(difference), reduced(operand(difference, 1), "max")
    if largest != (x, total[1]):
        return Declined("what is subtracted is not the maximum over the axis of the sum")
    return builder.call("nn.softmax", x, axis=total[1][0])


@rule("mean", "max")
def spatial_mean(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """mean(x[N, C, H, W], axis=(2, 3)) == global_avg_pool2d(x), and the same for max"""
    data = operand(node)
    if data.rank != 4 or not has_only_data(node) or not dtypes.is_float(data.dtype):
        return None
    if reduced_axes(node) != (2, 3):
        return Declined("not over height and width")
    pooled = builder.call("nn.global_avg_pool2d" if node.op == "mean" else "nn.global_max_pool2d", data)
    return reshaped(builder, pooled, node.result.shape)


@rule("min", "max")
def extremes(builder: RuleBuilder, node: Node) -> Value | None:
    """min(x) and max(x) over all axes == extremes(x)"""
    data, other = operand(node), "max" if node.op == "min" else "min"
    whole = tuple(range(data.rank))
    if not whole or not has_only_data(node) or not dtypes.is_float(data.dtype) or reduced_axes(node) != whole:
        return None
    keeps = node.attrs.keepdims
    if not any(user.op in (other, "extremes") and user.attrs.keepdims == keeps
               and (user.op == "extremes" or has_only_data(user) and reduced_axes(user) == whole) for user in data.succ):
        return None
    return builder.call_multi("extremes", data, keepdims=keeps)[node.op == "max"]


@rule("divide")
def sigmoid(builder: RuleBuilder, node: Node) -> Value | None:
    """1 / (1 + exp(-x)) == sigmoid(x)"""
    for power, one in with_scalar(operand(node, 1), "add") if scalar(operand(node)) == 1.0 else ():
        exponential = made_by(power, "exp")
        negative = None if exponential is None else made_by(operand(exponential), "negative")
        if one == 1.0 and negative is not None:
            return builder.call("sigmoid", operand(negative))
    return None


GATED = {"sigmoid": "nn.silu", "nn.hard_sigmoid": "nn.hardswish", "nn.softplus": "nn.mish"}


@rule("multiply")
def gated(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """x * sigmoid(x) == silu(x); x * hard_sigmoid(x) == hardswish(x); x * tanh(softplus(x)) == mish(x)"""
    declined = None
    for x, gate in pairs(node):
        bent = made_by(gate, "tanh")
        curve = made_by(gate, "sigmoid", "nn.hard_sigmoid") if bent is None else made_by(operand(bent), "nn.softplus")
        if curve is None:
            continue
        if operand(curve) is not x:
            declined = Declined(f"{curve.op} is of another value")
        elif curve.op == "nn.hard_sigmoid" and not (is_close(curve.attrs.alpha, 1 / 6) and is_close(curve.attrs.beta, 0.5)):
            declined = Declined("alpha and beta of nn.hard_sigmoid are not 1/6 and 1/2")
        else:
            return builder.call(GATED[curve.op], x)
    return declined


@rule("divide", "multiply")
def gelu(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """x / 2 * (1 + erf(x / sqrt(2))) == gelu(x), and so is x / 2 * erfc(-x / sqrt(2));
    x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) is its approximation"""
    number, parts = factors(node.result)
    for x, gate in (parts, parts[::-1]) if len(parts) == 2 else ():
        tail = made_by(gate, "erfc")
        if tail is not None and is_close(number, 0.5) and _is_erf_argument(operand(tail), x, -1):
            return builder.call("nn.gelu", x)
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


def _is_erf_argument(value: Value, x: Value, sign: int = 1) -> bool:
    """value == sign * x / sqrt(2)"""
    number, parts = factors(value)
    return is_close(number, sign * math.sqrt(0.5)) and len(parts) == 1 and parts[0] is x


def _is_tanh_argument(value: Value, x: Value) -> bool:
    """value == sqrt(2 / pi) * (x + 0.044715 * x ** 3)"""
    number, parts = factors(value)
    if not is_close(number, math.sqrt(2 / math.pi)):
        return False
    if len(parts) == 2 and x in parts:
        gate = parts[1] if parts[0] is x else parts[0]
        return any(one == 1.0 and _is_power(square, x, 2) for square, one in with_scalar(gate, "add"))
    return len(parts) == 1 and any(a is x and _is_power(b, x, 3) for a, b in pairs(made_by(parts[0], "add")))


def _is_power(value: Value, x: Value, exponent: int) -> bool:
    """value == 0.044715 * x ** exponent"""
    number, parts = factors(value)
    if not is_close(number, 0.044715):
        return False
    if len(parts) == 1:
        return any(base is x and e == exponent for base, e in with_scalar(parts[0], "power"))
    return len(parts) == exponent and all(v is x for v in parts)


@rule("divide", "multiply")
def hardswish(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """x * clip(x + 3, 0, 6) / 6 == hardswish(x)"""
    number, parts = factors(node.result)
    for x, gate in (parts, parts[::-1]) if len(parts) == 2 else ():
        clip = Clip.of(gate.producer)
        if clip is None or not has_only_data(clip.node) or (clip.attrs.a_min, clip.attrs.a_max) != (0, 6):
            continue
        if any(inner is x and three == 3.0 for inner, three in with_scalar(clip.data, "add")):
            is_sixth = is_close(number, 1 / 6)
            return builder.call("nn.hardswish", x) if is_sixth else Declined(f"the factor is {number:g}; expected 1/6")
    return None


@rule(Matmul)
def matmul_by_constant(builder: RuleBuilder, product: Matmul) -> Value | Declined | None:
    """matmul(x, w) == dense(x, transpose(w)) for a constant matrix w"""
    b, attrs = product.b, product.attrs
    if b.constant is None or b.rank != 2 or not np.issubdtype(b.constant.dtype, np.number):
        return None
    if attrs.transpose_a:
        return Declined("the first operand is transposed")
    weight = b if attrs.transpose_b else builder.constant(b.constant.T, name=b.name)
    name, units = product.node.name, weight.shape[0]
    return builder.call("nn.dense", product.a, weight, name=name, units=units, out_dtype=attrs.out_dtype)


run = rewriting(*rules_of(__name__), recurrent_layer)
run_norms = rewriting(layer_norm, rms_norm)
"""Only normalizations, for what decomposition left of those of channels and groups where the layout stayed plain."""
