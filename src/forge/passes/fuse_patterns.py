"""Operators from the primitives that exporters write them in.

Each rule is a function of the last node of a pattern; its docstring is the equation. Products are matched whatever the order and
nesting of their factors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from forge import dtypes
from forge.errors import TypeInferenceError
from forge.ir.nodes import Graph, Node, Value
from forge.passes.base import PassContext
from forge.passes.rewriting import before, live_nodes, on_all_graphs, replace

Rule = Callable[[Graph, Node], Value | None]
MAX_FACTORS = 8
MAX_ROUNDS = 4


def run(graph: Graph, context: PassContext) -> int:
    return on_all_graphs(graph, lambda inner: _fuse(inner, RULES))


def run_norms(graph: Graph, context: PassContext) -> int:
    """Only normalisations, for what decomposition left of those of channels and groups where the layout stayed plain."""
    return on_all_graphs(graph, lambda inner: _fuse(inner, NORMS))


def _fuse(graph: Graph, rules: Mapping[str, tuple[Rule, ...]]) -> int:
    total = 0
    for _ in range(MAX_ROUNDS):
        count = sum(_apply(graph, node, rules) for node in live_nodes(graph))
        total += count
        if not count:
            break
    return total


def _apply(graph: Graph, node: Node, rules: Mapping[str, tuple[Rule, ...]]) -> int:
    for rule in rules.get(node.op, ()):
        value = rule(graph, node)
        if value is not None:
            return int(replace(graph, node, value))
    return 0



def made_by(value: Value | None, *ops: str) -> Node | None:
    """The node that computes ``value``, if it applies one of ``ops``."""
    return value.producer if value is not None and value.producer is not None and value.producer.op in ops else None


def operand(node: Node, position: int = 0) -> Value:
    value = node.operands[position]
    assert value is not None
    return value


def scalar(value: Value | None) -> float | None:
    """The number that a constant of one element holds: the shortest decimal one that its dtype rounds to it."""
    array = None if value is None else value.constant
    return float(str(array.reshape(-1)[0])) if array is not None and array.size == 1 and array.dtype.kind in "fiuV" else None


def is_close(value: float | None, expected: float) -> bool:
    """Equal up to the rounding of a constant that a model keeps in float32 or prints with few digits."""
    return value is not None and math.isclose(value, expected, rel_tol=1e-5, abs_tol=1e-12)


def with_scalar(value: Value | None, op: str) -> Iterator[tuple[Value, float]]:
    """(x, c) for a value that is ``x op c`` with a number c (``c op x`` as well, where the operator commutes)."""
    node = made_by(value, op)
    if node is None:
        return
    orders = ((0, 1), (1, 0)) if op in ("add", "multiply") else ((0, 1),)
    for x, c in orders:
        number = scalar(node.operands[c])
        if number is not None:
            yield operand(node, x), number


def factors(value: Value) -> tuple[float, list[Value]]:
    """``value`` as a number times other values, looking through products and quotients by numbers."""
    number, found = 1.0, [value]
    for _ in range(MAX_FACTORS):
        index = next((i for i, v in enumerate(found) if _is_product(v)), None)
        if index is None:
            break
        node = found.pop(index).producer
        assert node is not None
        if node.op == "divide":
            number /= scalar(operand(node, 1)) or 1.0
            found.insert(index, operand(node, 0))
            continue
        for v in (operand(node, 1), operand(node, 0)):
            c = scalar(v)
            if c is None:
                found.insert(index, v)
            else:
                number *= c
    return number, found


def _is_product(value: Value) -> bool:
    node = made_by(value, "multiply", "divide")
    return node is not None and (node.op == "multiply" or scalar(operand(node, 1)) not in (None, 0.0))


def squared(value: Value | None) -> Value | None:
    """x of x * x or power(x, 2)"""
    node = made_by(value, "multiply")
    if node is not None and node.operands[0] is node.operands[1]:
        return node.operands[0]
    return next((x for x, exponent in with_scalar(value, "power") if exponent == 2.0), None)


def reduced(value: Value | None, op: str) -> tuple[Value, tuple[int, ...]] | None:
    """(x, axes) of a reduction that keeps its axes with extent 1."""
    node = made_by(value, op)
    if node is None or not node.attributes["keepdims"] or any(v is not None for v in node.operands[1:]):
        return None
    return operand(node), reduced_axes(node)


def reduced_axes(node: Node) -> tuple[int, ...]:
    rank = operand(node).rank
    axis, exclude = node.attributes["axis"], node.attributes["exclude"]
    given = range(rank) if axis is None else (axis,) if isinstance(axis, int) else axis
    chosen = {a % rank for a in given}
    return tuple(k for k in range(rank) if (k in chosen) != (exclude and axis is not None))



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


def layer_norm(graph: Graph, node: Node) -> Value | None:
    """(x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon) == layer_norm(x)"""
    parts = divided_by_deviation(node)
    if parts is None:
        return None
    centred, variance, epsilon = parts
    difference = made_by(centred, "subtract")
    mean = None if difference is None else reduced(difference.operands[1], "mean")
    square = reduced(variance, "mean")
    if difference is None or mean is None or square is None or mean[1] != square[1] or not is_trailing(mean[1], centred.rank):
        return None
    x = operand(difference)
    if mean[0] is not x or not _same_difference(squared(square[0]), difference):
        return None
    return before(graph, node).call("nn.layer_norm", x, axis=-len(mean[1]), epsilon=epsilon)


def _same_difference(value: Value | None, difference: Node) -> bool:
    """Whether ``value`` is the result of ``difference``, or of a second node that computes the same."""
    other = made_by(value, "subtract")
    if other is None or operand(other) is not operand(difference):
        return False
    a, b = (reduced(n.operands[1], "mean") for n in (other, difference))
    return a is not None and a == b


def rms_norm(graph: Graph, node: Node) -> Value | None:
    """x / sqrt(mean(x ** 2) + epsilon) == rms_norm(x)"""
    parts = divided_by_deviation(node)
    if parts is None:
        return None
    x, variance, epsilon = parts
    square = reduced(variance, "mean")
    if square is None or squared(square[0]) is not x or not is_trailing(square[1], x.rank):
        return None
    return before(graph, node).call("nn.rms_norm", x, axis=-len(square[1]), epsilon=epsilon)


def norm_with_scale(graph: Graph, node: Node) -> Value | None:
    """layer_norm(x) * gamma == layer_norm(x, gamma), and the same for rms_norm"""
    for position in (0, 1):
        norm = made_by(node.operands[position], "nn.layer_norm", "nn.rms_norm")
        if norm is None or any(v is not None for v in norm.operands[1:]):
            continue
        if norm.attributes.get("scale", True):
            return _with_parameter(graph, node, norm, operand(norm), operand(node, 1 - position))
    return None


def norm_with_shift(graph: Graph, node: Node) -> Value | None:
    """layer_norm(x, gamma) + beta == layer_norm(x, gamma, beta)"""
    for position in (0, 1):
        norm = made_by(node.operands[position], "nn.layer_norm")
        if norm is not None and norm.attributes["center"] and all(v is None for v in norm.operands[2:]):
            gamma = norm.operands[1] if len(norm.operands) > 1 else None
            return _with_parameter(graph, node, norm, operand(norm), gamma, operand(node, 1 - position))
    return None


def _with_parameter(graph: Graph, node: Node, norm: Node, data: Value, *parameters: Value | None) -> Value | None:
    """The normalisation with more parameters; None where they do not fit its axes or enlarge the result."""
    added = parameters[-1]
    if added is None or added is data or node.result.type != norm.result.type or added.rank > -norm.attributes["axis"]:
        return None
    try:
        return before(graph, node).call(norm.op, data, *parameters, name=norm.name, **norm.attributes)
    except TypeInferenceError:
        return None


def softmax(graph: Graph, node: Node) -> Value | None:
    """exp(x - max(x)) / sum(exp(x - max(x))) == softmax(x)"""
    total = reduced(node.operands[1], "sum")
    power = made_by(node.operands[0], "exp")
    difference = None if power is None else made_by(power.operands[0], "subtract")
    if total is None or power is None or difference is None or total[0] is not power.result or len(total[1]) != 1:
        return None
    largest = reduced(difference.operands[1], "max")
    if largest is None or largest != (operand(difference), total[1]):
        return None
    return before(graph, node).call("nn.softmax", operand(difference), axis=total[1][0])


def spatial_mean(graph: Graph, node: Node) -> Value | None:
    """mean(x[N, C, H, W], axis=(2, 3)) == global_avg_pool2d(x), and the same for max"""
    data = operand(node)
    if data.rank != 4 or any(v is not None for v in node.operands[1:]) or not dtypes.is_float(data.dtype):
        return None
    if reduced_axes(node) != (2, 3):
        return None
    builder = before(graph, node)
    pooled = builder.call("nn.global_avg_pool2d" if node.op == "mean" else "nn.global_max_pool2d", data)
    return pooled if node.attributes["keepdims"] else builder.call("reshape", pooled, newshape=node.result.shape)



def gelu(graph: Graph, node: Node) -> Value | None:
    """x / 2 * (1 + erf(x / sqrt(2))) == gelu(x); x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) its approximation"""
    number, parts = factors(node.result)
    if len(parts) != 2 or not is_close(number, 0.5):
        return None
    for x, gate in (parts, parts[::-1]):
        for inner, one in with_scalar(gate, "add"):
            if one == 1.0 and _is_erf_argument(inner, x):
                return before(graph, node).call("nn.gelu", x)
            if one == 1.0 and _is_tanh_argument(inner, x):
                return before(graph, node).call("nn.gelu", x, approximate="tanh")
    return None


def _is_erf_argument(value: Value, x: Value) -> bool:
    """value == erf(x / sqrt(2))"""
    node = made_by(value, "erf")
    if node is None:
        return False
    number, parts = factors(operand(node))
    return is_close(number, math.sqrt(0.5)) and len(parts) == 1 and parts[0] is x


def _is_tanh_argument(value: Value, x: Value) -> bool:
    """value == tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))"""
    node = made_by(value, "tanh")
    if node is None:
        return False
    number, parts = factors(operand(node))
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


def gated(graph: Graph, node: Node) -> Value | None:
    """x * sigmoid(x) == silu(x); x * hard_sigmoid(x) == hardswish(x); x * tanh(softplus(x)) == mish(x)"""
    for position in (0, 1):
        x, gate = operand(node, position), operand(node, 1 - position).producer
        if gate is None or not gate.operands:
            continue
        if gate.op == "sigmoid" and operand(gate) is x:
            return before(graph, node).call("nn.silu", x)
        if gate.op == "nn.hard_sigmoid" and operand(gate) is x and _is_hardswish_gate(gate.attributes):
            return before(graph, node).call("nn.hardswish", x)
        softplus = made_by(operand(gate), "nn.softplus") if gate.op == "tanh" else None
        if softplus is not None and operand(softplus) is x:
            return before(graph, node).call("nn.mish", x)
    return None


def _is_hardswish_gate(attributes: dict[str, Any]) -> bool:
    return is_close(attributes["alpha"], 1 / 6) and is_close(attributes["beta"], 0.5)


def hardswish(graph: Graph, node: Node) -> Value | None:
    """x * clip(x + 3, 0, 6) / 6 == hardswish(x)"""
    number, parts = factors(node.result)
    if len(parts) != 2 or not is_close(number, 1 / 6):
        return None
    for x, gate in (parts, parts[::-1]):
        clip = made_by(gate, "clip")
        if clip is None or any(v is not None for v in clip.operands[1:]):
            continue
        if (clip.attributes["a_min"], clip.attributes["a_max"]) != (0, 6):
            continue
        if any(inner is x and three == 3.0 for inner, three in with_scalar(clip.operands[0], "add")):
            return before(graph, node).call("nn.hardswish", x)
    return None



def matmul_by_constant(graph: Graph, node: Node) -> Value | None:
    """matmul(x, w) == dense(x, transpose(w)) for a constant matrix w"""
    a, b = operand(node), operand(node, 1)
    attributes = node.attributes
    if b.constant is None or b.rank != 2 or attributes["transpose_a"] or not np.issubdtype(b.constant.dtype, np.number):
        return None
    builder = before(graph, node)
    weight = b if attributes["transpose_b"] else builder.constant(b.constant.T, name=b.name)
    return builder.call("nn.dense", a, weight, name=node.name, units=weight.shape[0], out_dtype=attributes["out_dtype"])


RULES: dict[str, tuple[Rule, ...]] = {
    "divide": (layer_norm, rms_norm, softmax, gelu, hardswish),
    "multiply": (layer_norm, rms_norm, norm_with_scale, gated, gelu, hardswish),
    "add": (norm_with_shift,),
    "mean": (spatial_mean,),
    "max": (spatial_mean,),
    "nn.matmul": (matmul_by_constant,),
}

NORMS: dict[str, tuple[Rule, ...]] = {"divide": (layer_norm, rms_norm), "multiply": (layer_norm, rms_norm)}
