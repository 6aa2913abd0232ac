"""Elementwise operators and activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from forge import dtypes
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts
from forge.frontends.onnx.tensors import element_dtype

_UNARY = (  # (ONNX, Forge, since)
    ("Abs", "abs", 1),
    ("Acos", "acos", 7),
    ("Acosh", "acosh", 9),
    ("Asin", "asin", 7),
    ("Asinh", "asinh", 9),
    ("Atan", "atan", 7),
    ("Atanh", "atanh", 9),
    ("BitwiseNot", "bitwise_not", 18),
    ("Ceil", "ceil", 1),
    ("Cos", "cos", 7),
    ("Cosh", "cosh", 9),
    ("Erf", "erf", 9),
    ("Exp", "exp", 1),
    ("Floor", "floor", 1),
    ("HardSwish", "nn.hardswish", 14),
    ("IsNaN", "isnan", 9),
    ("Log", "log", 1),
    ("Mish", "nn.mish", 18),
    ("Neg", "negative", 1),
    ("Not", "logical_not", 1),
    ("Reciprocal", "reciprocal", 1),
    ("Relu", "nn.relu", 1),
    ("Round", "round", 11),
    ("Sigmoid", "sigmoid", 1),
    ("Sign", "sign", 9),
    ("Sin", "sin", 7),
    ("Sinh", "sinh", 9),
    ("Softplus", "nn.softplus", 1),
    ("Softsign", "nn.softsign", 1),
    ("Sqrt", "sqrt", 1),
    ("Tan", "tan", 7),
    ("Tanh", "tanh", 1),
)

_BINARY = (  # (ONNX, Forge, since, since with NumPy's broadcasting)
    ("Add", "add", 1, 7),
    ("And", "logical_and", 1, 7),
    ("BitwiseAnd", "bitwise_and", 18, 18),
    ("BitwiseOr", "bitwise_or", 18, 18),
    ("BitwiseXor", "bitwise_xor", 18, 18),
    ("Div", "divide", 1, 7),
    ("Equal", "equal", 1, 7),
    ("Greater", "greater", 1, 7),
    ("GreaterOrEqual", "greater_equal", 12, 12),
    ("Less", "less", 1, 7),
    ("LessOrEqual", "less_equal", 12, 12),
    ("Mul", "multiply", 1, 7),
    ("Or", "logical_or", 1, 7),
    ("Sub", "subtract", 1, 7),
    ("Xor", "logical_xor", 1, 7),
)


def _unary(op: str) -> Callable[..., Value]:
    def convert(g: Context, x: Value) -> Value:
        return g.call(op, x)

    return convert


def _binary(op: str) -> Callable[..., Value]:
    def convert(g: Context, a: Value, b: Value) -> Value:
        return g.call(op, a, b)

    return convert


def _legacy_binary(op: str) -> Callable[..., Value]:
    def convert(g: Context, a: Value, b: Value, *, axis: int | None = None, broadcast: int = 0) -> Value:
        return g.call(op, a, legacy_broadcast(g, a, b, axis, broadcast))

    return convert


def legacy_broadcast(g: Context, a: Value, b: Value, axis: int | None, broadcast: int) -> Value:
    """``b`` with axes added at its end, so that it lines up with the axes of ``a`` from ``axis`` on (before opset 7)."""
    if not broadcast or axis is None:
        return b
    trailing = a.rank - g.axis(axis, a.rank) - b.rank
    return g.reshape(b, [*b.shape, *[1] * trailing]) if trailing > 0 else b


for _onnx, _forge, _since in _UNARY:
    converts(_onnx, since=_since)(_unary(_forge))
for _onnx, _forge, _since, _numpy in _BINARY:
    if _since < _numpy:
        converts(_onnx, since=_since)(_legacy_binary(_forge))
    converts(_onnx, since=_numpy)(_binary(_forge))


@converts("Identity", since=1)
def identity(g: Context, x: Value) -> Value:
    return x


@converts("Pow", since=1)
def pow_1(g: Context, x: Value, y: Value, *, axis: int | None = None, broadcast: int = 0) -> Value:
    return g.call("power", x, legacy_broadcast(g, x, y, axis, broadcast))


@converts("Pow", since=7)
def power(g: Context, x: Value, y: Value) -> Value:
    if x.dtype == y.dtype or dtypes.is_float(x.dtype) or dtypes.is_integer(y.dtype):
        return g.call("power", x, g.cast(y, x.dtype))
    return g.cast(g.call("power", g.cast(x, "float64"), g.cast(y, "float64")), x.dtype)


@converts("Mod", since=10)
def mod(g: Context, a: Value, b: Value, *, fmod: int = 0) -> Value:
    return g.call("mod" if fmod else "floor_mod", a, b)


@converts("BitShift", since=11)
def bit_shift(g: Context, x: Value, y: Value, *, direction: str) -> Value:
    if direction not in ("LEFT", "RIGHT"):
        raise g.invalid(f"attribute 'direction': got {direction!r}; expected 'LEFT' or 'RIGHT'")
    return g.call("left_shift" if direction == "LEFT" else "right_shift", x, y)


MAX_IN_ORDER = 64
"""Operands that Sum, Max, Min and Mean take one after the other, as onnxruntime does."""


def _fold(op: str) -> Callable[..., Value]:
    def convert(g: Context, *values: Value) -> Value:
        if not values:
            raise g.invalid("got no inputs; expected 1 or more")
        if len(values) > MAX_IN_ORDER:
            return _in_pairs(g, op, values)
        return reduce(lambda a, b: g.call(op, a, b), values)

    return convert


def _in_pairs(g: Context, op: str, values: Sequence[Value]) -> Value:
    """``op`` of pairs, then of pairs of their results, and so on; of equal pairs once.

    Equal operands stand together, so that 100,000 times one value is a few dozen nodes. Sums are more exact than in order.
    """
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    level = sorted(values, key=places.__getitem__)
    while len(level) > 1:
        pairs = list(zip(level[::2], level[1::2]))
        results = {pair: g.call(op, *pair) for pair in dict.fromkeys(pairs)}
        level = [*(results[pair] for pair in pairs), *level[2 * len(pairs) :]]
    return level[0]


converts("Max")(_fold("maximum"))
converts("Min")(_fold("minimum"))
converts("Sum")(_fold("add"))


@converts("Mean", since=1)
def mean(g: Context, *values: Value) -> Value:
    total = _fold("add")(g, *values)
    return total if len(values) == 1 else g.call("divide", total, g.scalar(len(values), total))


@converts("Where", since=9)
def where(g: Context, condition: Value, x: Value, y: Value) -> Value:
    return g.call("where", condition, x, y)


def _is_one_float(array: np.ndarray) -> bool:
    """Whether an array is one number which an attribute, a float64, can hold: large integers may not be."""
    return array.size == 1 and (array.dtype.kind not in "iu" or float(array.item()) == array.item())


@converts("Clip", since=1)
def clip_1(g: Context, x: Value, *, max: float = 3.4028235e38, min: float = -3.4028235e38) -> Value:  # noqa: A002
    return g.call("clip", x, a_min=min, a_max=max)


@converts("Clip", since=11)
def clip(g: Context, x: Value, low: Value | None = None, high: Value | None = None) -> Value:
    if low is None and high is None:
        return x
    bounds = [None if v is None else g.array(v) for v in (low, high)]
    known = [b is None or _is_one_float(b) for b in bounds]
    if all(k and (b is not None or v is None) for k, b, v in zip(known, bounds, (low, high))):
        a_min, a_max = (None if b is None else b.reshape(()).item() for b in bounds)
        return g.call("clip", x, a_min=a_min, a_max=a_max)
    low, high = (None if v is None else g.reshape(v, ()) for v in (low, high))
    return g.call("clip", x, low, high, a_min=None, a_max=None)


@converts("IsInf", since=10)
def is_inf(g: Context, x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    infinite = g.call("isinf", x)
    if detect_negative and detect_positive:
        return infinite
    side = g.call("less" if detect_negative else "greater", x, g.scalar(0, x))
    return g.call("logical_and", infinite, side if detect_negative or detect_positive else g.constant(False))


@converts("Cast", since=1)
def cast_1(g: Context, x: Value, *, to: str) -> Value:
    return _cast(g, x, dtypes.canonical(to.lower()))


@converts("Cast", since=6, introduced={"saturate": 19, "round_mode": 24})
def cast(g: Context, x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    return _cast(g, x, element_dtype(to, "attribute 'to'"), bool(saturate), round_mode)


@converts("CastLike", since=15, introduced={"saturate": 19, "round_mode": 24})
def cast_like(g: Context, x: Value, like: Value, *, saturate: int = 1, round_mode: str = "up") -> Value:
    return _cast(g, x, like.dtype, bool(saturate), round_mode)


def _cast(g: Context, x: Value, dtype: str, saturate: bool = True, round_mode: str = "up") -> Value:
    """Narrow integers wrap, also from floats; ``round_mode`` is for float8_e8m0fnu alone."""
    if x.dtype == dtype:
        return x
    if dtype == "float8_e8m0fnu":
        return _power_of_two(g, x, saturate, round_mode)
    if dtypes.is_integer(dtype) and dtypes.bits(dtype) < 8 and dtypes.is_float(x.dtype):
        return g.cast(g.cast(x, "int32"), dtype)
    return g.call("cast", x, dtype=dtype, saturate=saturate or not dtype.startswith("float8"))


def _power_of_two(g: Context, x: Value, saturate: bool, round_mode: str) -> Value:
    """The exponent of the single-precision number, raised by one when bits below it are set ("up")."""
    if round_mode not in ("up", "down"):
        raise g.unsupported(f"attribute 'round_mode': got {round_mode!r}; supported: 'up', 'down'")
    number = g.cast(x, "float32")
    bits = g.call("reinterpret", number, dtype="uint32")
    exponent = g.call("right_shift", bits, g.scalar(23, bits))
    if round_mode == "up":
        fraction = g.call("bitwise_and", bits, g.scalar(0x7FFFFF, bits))
        above = g.cast(g.call("greater", fraction, g.scalar(0, bits)), "uint32")
        normal = g.cast(g.call("greater", exponent, g.scalar(0, bits)), "uint32")
        exponent = g.call("add", exponent, g.call("multiply", above, normal))
    limit = g.scalar(254 if saturate else 255, bits)
    exponent = g.call("minimum", exponent, limit)
    invalid = g.call("logical_or", g.call("isnan", number), g.call("less", number, g.scalar(0, number)))
    code = g.call("where", invalid, g.scalar(255, bits), exponent)
    return g.call("reinterpret", g.cast(code, "uint8"), dtype="float8_e8m0fnu")


@converts("BitCast", since=26)
def bit_cast(g: Context, x: Value, *, to: int) -> Value:
    return g.call("reinterpret", x, dtype=element_dtype(to, "attribute 'to'"))


@converts("LeakyRelu", since=1)
def leaky_relu(g: Context, x: Value, *, alpha: float = 0.01) -> Value:
    return g.call("nn.leaky_relu", x, alpha=alpha)


@converts("Elu", since=1)
def elu(g: Context, x: Value, *, alpha: float = 1.0) -> Value:
    return g.call("nn.elu", x, alpha=alpha)


@converts("Celu", since=12)
def celu(g: Context, x: Value, *, alpha: float = 1.0) -> Value:
    return g.call("nn.celu", x, alpha=alpha)


@converts("Selu", since=1)
def selu_1(g: Context, x: Value, *, alpha: float = 1.6732, gamma: float = 1.0507) -> Value:
    return g.call("nn.selu", x, alpha=alpha, gamma=gamma)


@converts("Selu", since=6)
def selu(g: Context, x: Value, *, alpha: float = 1.6732632, gamma: float = 1.050701) -> Value:
    return g.call("nn.selu", x, alpha=alpha, gamma=gamma)


@converts("ThresholdedRelu", since=10)
def thresholded_relu(g: Context, x: Value, *, alpha: float = 1.0) -> Value:
    return g.call("nn.thresholded_relu", x, alpha=alpha)


@converts("HardSigmoid", since=1)
def hard_sigmoid(g: Context, x: Value, *, alpha: float = 0.2, beta: float = 0.5) -> Value:
    return g.call("nn.hard_sigmoid", x, alpha=alpha, beta=beta)


@converts("Shrink", since=9)
def shrink(g: Context, x: Value, *, bias: float = 0.0, lambd: float = 0.5) -> Value:
    return g.call("nn.shrink", x, lambd=lambd, bias=bias)


@converts("Gelu", since=20)
def gelu(g: Context, x: Value, *, approximate: str = "none") -> Value:
    if approximate not in ("none", "tanh"):
        raise g.invalid(f"attribute 'approximate': got {approximate!r}; expected 'none' or 'tanh'")
    return g.call("nn.gelu", x, approximate=approximate)


@converts("Swish", since=24)
def swish(g: Context, x: Value, *, alpha: float = 1.0) -> Value:
    if alpha == 1.0:
        return g.call("nn.silu", x)
    return g.call("multiply", x, g.call("sigmoid", g.call("multiply", x, g.scalar(alpha, x))))


@converts("PRelu", since=1)
def prelu_1(g: Context, x: Value, slope: Value) -> Value:
    """The slope is one number, or one for each channel."""
    return g.call("nn.prelu", x, slope, axis=1) if slope.rank == 1 and slope.shape != (1,) else _sloped(g, x, slope)


@converts("PRelu", since=7)
def prelu(g: Context, x: Value, slope: Value) -> Value:
    leading = x.rank - slope.rank
    wide = [i for i, d in enumerate(slope.shape) if d != 1]
    if leading >= 0 and len(wide) == 1:
        return g.call("nn.prelu", x, g.reshape(slope, [slope.shape[wide[0]]]), axis=leading + wide[0])
    return _sloped(g, x, slope)


def _sloped(g: Context, x: Value, slope: Value) -> Value:
    negative = g.call("less", x, g.scalar(0, x))
    return g.call("where", negative, g.call("multiply", x, slope), x)
