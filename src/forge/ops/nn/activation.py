"""Activation functions: elementwise rows, most with attributes; and prelu, whose slope is an operand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, te
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import fail, normalize_axis, same_dtype, unify_dim
from forge.ops.core.layout_change import LayoutChange, along_axis
from forge.ops.core.lowering import injective, is_one
from forge.ops.core.op import Accuracy, Category, Kind, NoAttrs, Op, Operand, Precision, register
from forge.ops.core.signatures import Array, Arrays, Expr, Lowered, Tensor, TensorTypes, Types, Value
from forge.ops.elementwise.rows import Row, register_rows

SQRT_HALF = 0.7071067811865476
SQRT_2_OVER_PI = 0.7978845608028654
TANH_CUBIC = 0.044715
FOLLOWS = Precision.FOLLOWS


@dataclass(frozen=True)
class LeakyReluAttrs:
    alpha: float = 0.25


@dataclass(frozen=True)
class GeluAttrs:
    approximate: str = "none"

    def __post_init__(self) -> None:
        if self.approximate not in ("none", "tanh"):
            raise fail("nn.gelu", "attribute approximate", repr(self.approximate), "'none' or 'tanh'")


@dataclass(frozen=True)
class HardSigmoidAttrs:
    alpha: float = 0.2
    beta: float = 0.5


@dataclass(frozen=True)
class AlphaAttrs:
    alpha: float = 1.0


@dataclass(frozen=True)
class SeluAttrs:
    alpha: float = 1.6732632423543772
    gamma: float = 1.0507009873554805


@dataclass(frozen=True)
class ShrinkAttrs:
    lambd: float = 0.5
    bias: float = 0.0


def _max(a: Expr, b: Expr | float) -> Expr:
    return te.binary("max", a, b)


def _min(a: Expr, b: Expr | float) -> Expr:
    return te.binary("min", a, b)


def _zero(x: Expr) -> Expr:
    return te.const(0, x.dtype)


def _gelu(x: Array, approximate: str) -> Array:
    if approximate == "none":
        return np.asarray(0.5 * x * numeric.erfc(x * np.asarray(-SQRT_HALF, x.dtype)))
    return np.asarray(x * numeric.sigmoid(2 * SQRT_2_OVER_PI * (x + TANH_CUBIC * x * x * x)))


def _lower_gelu(x: Expr, approximate: str) -> Expr:
    return te.call("gelu" if approximate == "none" else "gelu_tanh", x)


def _expm1_below(x: Expr) -> Expr:
    """exp(x) - 1 for negative x, else 0; never overflows."""
    return te.call("expm1", _min(x, 0.0))


def _lower_celu(x: Expr, alpha: float) -> Expr:
    return te.select(x < 0.0, _expm1_below(x * (1.0 / alpha)) * alpha, x)


def _celu(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / np.asarray(alpha, x.dtype)))


def _lower_selu(x: Expr, alpha: float, gamma: float) -> Expr:
    return te.select(x < 0.0, _expm1_below(x) * (alpha * gamma), x * gamma)


def _lower_shrink(x: Expr, lambd: float, bias: float) -> Expr:
    """Attributes are exact in float64 only; the comparison uses the operand's type."""
    return te.select(x < -lambd, x + bias, te.select(x > lambd, x - bias, _zero(x)))


def _shrink(x: Array, lambd: float, bias: float) -> Array:
    limit, shift = np.asarray(lambd).astype(x.dtype), np.asarray(bias).astype(x.dtype)
    return np.where(x < -limit, x + shift, np.where(x > limit, x - shift, np.zeros_like(x)))


def _silu(x: Array) -> Array:
    wide = numeric.widest(x)
    return np.asarray(wide * numeric.sigmoid(wide))


def _mish(x: Array) -> Array:
    wide = numeric.widest(x)
    return np.asarray(wide * np.tanh(numeric.softplus(wide)))


def _row(
    name: str, doc: str, reference: Callable[..., Any], lower: Callable[..., Expr], attrs: type[Any] = NoAttrs, flops: int = 4,
    accepts: str = "float", accuracy: Accuracy = Accuracy.ROUNDING, precision: Precision = Precision.FOLLOWS_IN_RANGE,
    is_clamp: bool = False, keeps_ratios: bool = False,
) -> Row:
    return Row(
        f"nn.{name}", doc, reference, lower, accepts=accepts, attrs=attrs, flops=flops, accuracy=accuracy, precision=precision,
        category=Category.ACTIVATION, is_clamp=is_clamp, keeps_ratios=keeps_ratios)


register_rows(__name__, [
    _row("relu", "max(data, 0)", lambda x: np.maximum(x, np.zeros((), x.dtype)), lambda x: _max(x, _zero(x)), flops=1,
         accepts="numeric", accuracy=Accuracy.EXACT, precision=FOLLOWS, is_clamp=True, keeps_ratios=True),
    _row("leaky_relu", "data if data > 0 else alpha * data", lambda x, alpha: np.where(x > 0, x, np.asarray(alpha, x.dtype) * x),
         lambda x, alpha: te.select(x > 0.0, x, x * alpha), LeakyReluAttrs, 2, precision=FOLLOWS,
         keeps_ratios=True),
    _row("gelu", "data / 2 * (1 + erf(data / sqrt(2))), or with tanh(sqrt(2 / pi) * (data + 0.044715 * data ** 3)) for erf",
         _gelu, _lower_gelu, GeluAttrs, 14),
    _row("silu", "data * sigmoid(data)", _silu, lambda x: te.call("silu", x), flops=12),
    _row("hardswish", "data * min(max(data / 6 + 1 / 2, 0), 1)",
         lambda x: x * np.clip(x * np.asarray(1 / 6, x.dtype) + 0.5, 0, 1),
         lambda x: x * _min(_max(x * (1 / 6) + 0.5, 0.0), 1.0), precision=FOLLOWS),
    _row("hard_sigmoid", "min(max(alpha * data + beta, 0), 1)", lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
         lambda x, alpha, beta: _min(_max(x * alpha + beta, 0.0), 1.0), HardSigmoidAttrs,
         precision=FOLLOWS),
    _row("elu", "data if data > 0 else alpha * (exp(data) - 1)",
         lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
         lambda x, alpha: te.select(x < 0.0, _expm1_below(x) * alpha, x), AlphaAttrs, 12),
    _row("selu", "gamma * (data if data > 0 else alpha * (exp(data) - 1))",
         lambda x, alpha, gamma: gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))), _lower_selu, SeluAttrs, 12),
    _row("celu", "data if data > 0 else alpha * (exp(data / alpha) - 1)", _celu, _lower_celu, AlphaAttrs, 12),
    _row("softplus", "log(1 + exp(data))", numeric.softplus, lambda x: te.call("softplus", x), flops=22),
    _row("log_sigmoid", "-log(1 + exp(-data))", lambda x: -numeric.softplus(-x),
         lambda x: te.negate(te.call("softplus", te.negate(x))), flops=24),
    _row("softsign", "data / (1 + |data|)", lambda x: x / (1 + np.abs(x)), lambda x: x / (te.call("abs", x) + 1.0)),
    _row("mish", "data * tanh(softplus(data))", _mish,
         lambda x: te.call("mish", x), flops=20),
    _row("thresholded_relu", "data if data > alpha else 0",
         lambda x, alpha: np.where(x > np.asarray(alpha, x.dtype), x, np.zeros_like(x)),
         lambda x, alpha: te.select(x > alpha, x, _zero(x)), AlphaAttrs, 1, accuracy=Accuracy.EXACT,
         precision=FOLLOWS),
    _row("shrink", "data + bias if data < -lambd else data - bias if data > lambd else 0",
         _shrink, _lower_shrink, ShrinkAttrs, 2, precision=FOLLOWS),
])


@dataclass(frozen=True)
class PReluAttrs:
    axis: int = 1


@register
class PRelu(Op[PReluAttrs]):
    """data if data > 0 else alpha[c] * data, with c the index along ``axis``; alpha is a vector of one element or one
    a channel.
    """

    name = "nn.prelu"
    data, alpha = Operand(accepts="float"), Operand(rank=1)
    kind = Kind.ELEMENTWISE
    accuracy = Accuracy.ROUNDING
    precision = Precision.FOLLOWS
    category = Category.ACTIVATION
    is_map = False

    def infer(self, attrs: PReluAttrs, data: Value, alpha: Value) -> Types:
        same_dtype(self.name, [data, alpha])
        if not dims.equal(alpha.shape[0], 1):
            axis = normalize_axis(self.name, attrs.axis, data.rank)
            unify_dim(self.name, data.shape[axis], alpha.shape[0], "channels of data and alpha")
        return [data.type]

    def reference(self, attrs: PReluAttrs, data: Array, alpha: Array) -> Arrays:
        data, alpha = numeric.widen(data), numeric.widen(alpha)
        if alpha.size != 1:
            shape = [1] * data.ndim
            shape[attrs.axis] = alpha.size
            alpha = alpha.reshape(shape)
        return [np.where(data > 0, data, alpha * data)]

    def lower(self, attrs: PReluAttrs, results: TensorTypes, data: Tensor, alpha: Tensor) -> Lowered:
        def body(i: Sequence[Expr]) -> Expr:
            slope = alpha[te.const(0) if is_one(alpha.shape[0]) else i[attrs.axis]]
            value = data[tuple(i)]
            return te.select(value > 0.0, value, value * slope)

        return [injective(self.name, results[0], body)]

    def in_layout(self, change: LayoutChange) -> Value | None:
        """In blocks ``relu(data) + alpha * min(data, 0)``, where alpha has two axes."""
        data, builder = self.data, change.builder
        axis = self.attrs.axis % data.rank
        if change.block(axis) == 1:
            return along_axis(self, change)
        blocked = change.converted(data)
        negative = builder.call("minimum", blocked, builder.constant(0, data.dtype))
        scaled = builder.call("multiply", negative, change.vector(self.alpha, axis, data.shape))
        return builder.call("add", builder.call("nn.relu", blocked), scaled, name=self.node.name)
