"""Operators that compute each element by itself."""

from __future__ import annotations

import numpy as np

from forge import dtypes
from forge.compose import activations, linalg, special
from forge.compose.bits import bitcast_elements
from forge.compose.casts import wrapped
from forge.compose.checks import checked_divisor, checked_indices
from forge.frontends.converter import forwarding
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts, takes_handles
from forge.frontends.tensorflow.resources import Operand, Resource
from forge.ir.nodes import Value

_SLOPE = float(np.float32(0.2))

for _name, _op in {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh",
    "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh",
    "Erf": "erf", "Erfc": "erfc", "Exp": "exp", "Expm1": "expm1", "Floor": "floor",
    "Invert": "bitwise_not", "IsFinite": "isfinite", "IsInf": "isinf", "IsNan": "isnan", "Log": "log",
    "Log1p": "log1p", "LogicalNot": "logical_not", "Neg": "negative", "Reciprocal": "reciprocal", "Inv": "reciprocal",
    "Relu": "nn.relu", "Rint": "round", "Round": "round", "Rsqrt": "rsqrt", "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin",
    "Sinh": "sinh", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh", "ZerosLike": "zeros_like", "OnesLike": "ones_like",
}.items():
    converts(_name)(forwarding(_op))

for _name, _op in {
    "Add": "add", "AddV2": "add", "Atan2": "atan2", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "FloorMod": "floor_mod", "Greater": "greater",
    "GreaterEqual": "greater_equal", "Less": "less", "LessEqual": "less_equal",
    "LogicalAnd": "logical_and", "LogicalOr": "logical_or", "Maximum": "maximum", "Minimum": "minimum", "Mul": "multiply",
    "Pow": "power", "Sub": "subtract", "Xlogy": "xlogy", "NextAfter": "nextafter",
}.items():
    converts(_name)(forwarding(_op, 2))
converts("Xlog1py")(forwarding(special.xlog1py, 2))
converts("Conj")(forwarding(linalg.conjugate))


@converts("LeftShift", "RightShift")
def shift(g: Context, x: Value, y: Value) -> Value:
    """By 0 to all bits but one."""
    by = g.call("clip", y, a_min=0, a_max=dtypes.bits(x.dtype) - 1)
    return g.call("left_shift" if g.node.op == "LeftShift" else "right_shift", x, by)


@converts("PopulationCount")
def population_count(g: Context, x: Value) -> Value:
    return g.cast(g.call("popcount", x), "uint8")


@converts("FloorDiv")
def floor_divide(g: Context, x: Value, y: Value) -> Value:
    if dtypes.is_integer(x.dtype):
        return g.call("floor_divide", x, checked_divisor(g, y))
    return g.call("floor", g.call("divide", x, y))


@converts("Equal", "NotEqual")
def equal(g: Context, x: Value, y: Value, *, incompatible_shape_error: bool = True) -> Value:
    return g.call("equal" if g.node.op == "Equal" else "not_equal", x, y)


@converts("RealDiv", "Div")
def divide(g: Context, x: Value, y: Value) -> Value:
    """Integers are divided towards zero."""
    if dtypes.is_integer(x.dtype):
        return g.call("trunc_divide", x, y)
    return g.call("divide", x, y)


@converts("TruncateDiv")
def truncate_div(g: Context, x: Value, y: Value) -> Value:
    return g.call("trunc_divide", x, y)


@converts("Mod", "TruncateMod")
def truncate_mod(g: Context, x: Value, y: Value) -> Value:
    """The sign is that of ``x``."""
    return g.call("mod", x, y)


@converts("DivNoNan", "MulNoNan", "Xdivy")
def no_nan(g: Context, x: Value, y: Value) -> Value:
    """0 where ``y`` is 0, or ``x`` of Xdivy."""
    found = g.call("multiply" if g.node.op == "MulNoNan" else "divide", x, y)
    zero = g.scalar(0, y)
    return g.call("where", g.call("equal", x if g.node.op == "Xdivy" else y, zero), zero, found)


@converts("Square")
def square(g: Context, x: Value) -> Value:
    return g.call("multiply", x, x)


@converts("SquaredDifference")
def squared_difference(g: Context, x: Value, y: Value) -> Value:
    difference = g.call("subtract", x, y)
    if dtypes.is_complex(x.dtype):
        return g.call("multiply", difference, linalg.conjugate(g, difference))
    return g.call("multiply", difference, difference)


@converts("AddN", "AccumulateNV2")
def add_n(g: Context, *inputs: Value) -> Value:
    total = inputs[0]
    for value in inputs[1:]:
        total = g.call("add", total, value)
    return total


@converts("Relu6")
def relu6(g: Context, x: Value) -> Value:
    return g.call("clip", x, a_min=0.0, a_max=6.0)


@converts("LeakyRelu")
def leaky_relu(g: Context, x: Value, *, alpha: float = _SLOPE) -> Value:
    return g.call("nn.leaky_relu", x, alpha=alpha)


@converts("Elu")
def elu(g: Context, x: Value) -> Value:
    return activations.elu(g, x)


@converts("Selu")
def selu(g: Context, x: Value) -> Value:
    return activations.elu(g, x, alpha=1.6732632423543772848170429916717, scale=1.0507009873554804934193349852946)


@converts("Softplus")
def softplus(g: Context, x: Value) -> Value:
    return activations.softplus(g, x)


@converts("Softsign")
def softsign(g: Context, x: Value) -> Value:
    return g.call("divide", x, g.call("add", g.call("abs", x), g.scalar(1, x)))


@converts("Softmax")
def softmax(g: Context, x: Value) -> Value:
    return g.call("nn.softmax", x, axis=-1)


@converts("LogSoftmax")
def log_softmax(g: Context, x: Value) -> Value:
    return g.call("nn.log_softmax", x, axis=-1)


@converts("SoftmaxCrossEntropyWithLogits", outputs="loss backprop")
def softmax_cross_entropy(g: Context, x: Value, labels: Value) -> list[Value]:
    """The loss of each row, and its derivatives."""
    logarithms = g.call("nn.log_softmax", x, axis=-1)
    loss = g.call("negative", g.call("sum", g.call("multiply", labels, logarithms), axis=(1,)))
    return [loss, g.call("subtract", g.call("nn.softmax", x, axis=-1), labels)]


@converts("SparseSoftmaxCrossEntropyWithLogits", outputs="loss backprop")
def sparse_softmax_cross_entropy(g: Context, x: Value, labels: Value) -> list[Value]:
    on, off = (g.constant(v, x.dtype) for v in (1, 0))
    numbers = checked_indices(g, labels, x.shape[1], from_end=False, what="a label")
    return softmax_cross_entropy(g, x, g.call("one_hot", numbers, on, off, depth=x.shape[1], axis=-1))


@converts("ClipByValue")
def clip_by_value(g: Context, x: Value, low: Value, high: Value) -> Value:
    return g.call("maximum", g.call("minimum", x, high), low)


@converts("Cast")
def cast(g: Context, x: Value, *, DstT: str, Truncate: bool = False) -> Value:  # noqa: N803
    """Floats become integers towards zero; bits that do not fit are dropped.

    What 32 bits do not hold (64, of wider types), infinities and NaN are undefined in TensorFlow: they saturate, and NaN is 0.
    """
    return wrapped(g, x, DstT)


@converts("Bitcast")
def bitcast(g: Context, x: Value, *, type: str) -> Value:  # noqa: A002
    return bitcast_elements(g, x, type)


@converts(
    "Identity", "StopGradient", "PreventGradient", "Snapshot", "CheckNumerics", "CheckNumericsV2", "EnsureShape",
    "PlaceholderWithDefault", "GuaranteeConst", "Copy", "CopyHost", "DebugIdentity", "DebugIdentityV2",
          "DebugIdentityV3", "DebugGradientIdentity", "DeepCopy", "XlaSharding", "_EagerConst", "RefIdentity")
@takes_handles
def identity(g: Context, x: Operand, **attributes: object) -> Operand:
    """A reference to a variable is read."""
    return g.tensor(x) if isinstance(x, Resource) and x.kind == "reference" else x


@converts("IdentityN", "OptimizationBarrier", outputs="output*T")
@takes_handles
def identity_n(g: Context, *inputs: Operand) -> list[Operand]:
    return list(inputs)


@converts("Select")
def select(g: Context, condition: Value, x: Value, y: Value) -> Value:
    """A vector chooses rows."""
    if condition.rank == 1 and x.rank > 1:
        condition = g.reshape(condition, (condition.shape[0], *(1,) * (x.rank - 1)))
    return g.call("where", condition, x, y)


@converts("SelectV2")
def select_v2(g: Context, condition: Value, x: Value, y: Value) -> Value:
    return g.call("where", condition, x, y)


@converts("ApproximateEqual")
def approximate_equal(g: Context, x: Value, y: Value, *, tolerance: float = 1e-5) -> Value:
    return g.call("less", g.call("abs", g.call("subtract", x, y)), g.scalar(tolerance, x))


@converts("Complex", "ComplexAbs", "Real", "Imag", "Angle")
def complex_parts(g: Context, *inputs: Value, Tout: str = "") -> Value:  # noqa: N803
    if g.node.op == "ComplexAbs":
        return g.call("abs", *inputs)
    return g.call("complex.make" if g.node.op == "Complex" else f"complex.{g.node.op.lower()}", *inputs)
