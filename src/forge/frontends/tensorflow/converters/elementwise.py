"""Operators that compute each element by itself."""

from __future__ import annotations

from forge import dtypes
from forge.compose import activations, special
from forge.compose.bits import bitcast
from forge.compose.casts import wrapped
from forge.compose.checks import checked_divisor
from forge.frontends.converter import forwarding
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts, takes_handles
from forge.frontends.tensorflow.resources import Operand, Resource
from forge.ir.nodes import Value

for _name, _op in {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh",
    "BesselI0e": "bessel_i0e", "BesselI1e": "bessel_i1e", "Ceil": "ceil", "Conj": "conj", "Cos": "cos", "Cosh": "cosh",
    "Digamma": "digamma", "Erf": "erf", "Erfc": "erfc", "Erfinv": "erfinv", "Exp": "exp", "Expm1": "expm1", "Floor": "floor",
    "Invert": "bitwise_not", "IsFinite": "isfinite", "IsInf": "isinf", "IsNan": "isnan", "Lgamma": "lgamma", "Log": "log",
    "Log1p": "log1p", "LogicalNot": "logical_not", "Neg": "negative", "Reciprocal": "reciprocal", "Inv": "reciprocal",
    "Relu": "nn.relu", "Rint": "round", "Round": "round", "Rsqrt": "rsqrt", "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin",
    "Sinh": "sinh", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh", "ZerosLike": "zeros_like", "OnesLike": "ones_like",
    "PopulationCount": "popcount",
}.items():
    converts(_name)(forwarding(_op))

for _name, _op in {
    "Add": "add", "AddV2": "add", "Atan2": "atan2", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "FloorMod": "floor_mod", "Greater": "greater",
    "GreaterEqual": "greater_equal", "LeftShift": "left_shift", "Less": "less", "LessEqual": "less_equal",
    "LogicalAnd": "logical_and", "LogicalOr": "logical_or", "Maximum": "maximum", "Minimum": "minimum", "Mul": "multiply",
    "Pow": "power", "RightShift": "right_shift", "Sub": "subtract", "Xlogy": "xlogy", "NextAfter": "nextafter",
}.items():
    converts(_name)(forwarding(_op, 2))
converts("Xlog1py")(forwarding(special.xlog1py, 2))


@converts("FloorDiv")
def floor_divide(g: Context, x: Value, y: Value) -> Value:
    return g.call("floor_divide", x, checked_divisor(g, y) if dtypes.is_integer(y.dtype) else y)


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


@converts("DivNoNan", "MulNoNan")
def no_nan(g: Context, x: Value, y: Value) -> Value:
    """0 where ``y`` is 0."""
    zero = g.scalar(0, y)
    found = g.call("divide" if g.node.op == "DivNoNan" else "multiply", x, y)
    return g.call("where", g.call("equal", y, zero), zero, found)


@converts("Square")
def square(g: Context, x: Value) -> Value:
    return g.call("multiply", x, x)


@converts("SquaredDifference")
def squared_difference(g: Context, x: Value, y: Value) -> Value:
    difference = g.call("subtract", x, y)
    if dtypes.is_complex(x.dtype):
        return g.call("multiply", difference, g.call("conj", difference))
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
def leaky_relu(g: Context, x: Value, *, alpha: float = 0.2) -> Value:
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


@converts("ClipByValue")
def clip_by_value(g: Context, x: Value, low: Value, high: Value) -> Value:
    return g.call("maximum", g.call("minimum", x, high), low)


@converts("Cast")
def cast(g: Context, x: Value, *, DstT: str, Truncate: bool = False) -> Value:  # noqa: N803
    """Floats become integers towards zero; bits that do not fit are dropped."""
    return wrapped(g, x, DstT)


@converts("Bitcast")
def bitcast_(g: Context, x: Value, *, type: str) -> Value:  # noqa: A002
    return bitcast(g, x, type)


@converts(
    "Identity", "StopGradient", "PreventGradient", "Snapshot", "CheckNumerics", "CheckNumericsV2", "EnsureShape",
    "PlaceholderWithDefault", "DebugGradientIdentity", "DeepCopy", "XlaSharding", "_EagerConst", "RefIdentity")
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
    names = {"Complex": "complex", "ComplexAbs": "abs", "Real": "real", "Imag": "imag", "Angle": "angle"}
    return g.call(names[g.node.op], *inputs)
