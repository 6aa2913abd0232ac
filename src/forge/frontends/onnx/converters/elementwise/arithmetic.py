"""Arithmetic, comparisons, logic and functions of elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from forge import dtypes
from forge.compose.checks import checked_divisor
from forge.frontends.converter import forwarding
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts

_SAME_NAMES = {
    1: "Abs Ceil Exp Floor Log Reciprocal Sigmoid Sqrt Tanh",
    7: "Acos Asin Atan Cos Sin Tan",
    9: "Acosh Asinh Atanh Cosh Erf IsNaN Sign Sinh",
    11: "Round",
}
"""Functions of one operand that Forge calls the same in lower case, by the version from which they are there."""

_UNARY = (  # (ONNX, Forge, since)
    ("BitwiseNot", "bitwise_not", 18),
    ("HardSwish", "nn.hardswish", 14),
    ("Mish", "nn.mish", 18),
    ("Neg", "negative", 1),
    ("Not", "logical_not", 1),
    ("Relu", "nn.relu", 1),
    ("Softplus", "nn.softplus", 1),
    ("Softsign", "nn.softsign", 1),
    *((name, name.lower(), since) for since, names in _SAME_NAMES.items() for name in names.split()),
)
_BINARY = (  # (ONNX, Forge, since, since with NumPy's broadcasting)
    ("Add", "add", 1, 7),
    ("And", "logical_and", 1, 7),
    ("BitwiseAnd", "bitwise_and", 18, 18),
    ("BitwiseOr", "bitwise_or", 18, 18),
    ("BitwiseXor", "bitwise_xor", 18, 18),
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
    converts(_onnx, since=_since)(forwarding(_forge))
for _onnx, _forge, _since, _numpy in _BINARY:
    if _since < _numpy:
        converts(_onnx, since=_since)(_legacy_binary(_forge))
    converts(_onnx, since=_numpy)(forwarding(_forge, 2))


@converts("Div", since=1)
def divide_1(g: Context, a: Value, b: Value, *, axis: int | None = None, broadcast: int = 0) -> Value:
    return divide(g, a, legacy_broadcast(g, a, b, axis, broadcast))


@converts("Div", since=7)
def divide(g: Context, a: Value, b: Value) -> Value:
    return g.call("divide", a, checked_divisor(g, b))


@converts("Identity", since=1)
def identity(g: Context, x: Value) -> Value:
    return x


converts("Pow", since=1)(_legacy_binary("power"))


@converts("Pow", since=7)
def power(g: Context, x: Value, y: Value) -> Value:
    if x.dtype == y.dtype or dtypes.is_float(x.dtype) or dtypes.is_integer(y.dtype):
        return g.call("power", x, g.cast(y, x.dtype))
    return g.cast(g.call("power", g.cast(x, "float64"), g.cast(y, "float64")), x.dtype)


@converts("Mod", since=10)
def mod(g: Context, a: Value, b: Value, *, fmod: int = 0) -> Value:
    return g.call("mod" if fmod else "floor_mod", a, checked_divisor(g, b))


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


@converts("IsInf", since=10)
def is_inf(g: Context, x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    infinite = g.call("isinf", x)
    if detect_negative and detect_positive:
        return infinite
    side = g.call("less" if detect_negative else "greater", x, g.scalar(0, x))
    return g.call("logical_and", infinite, side if detect_negative or detect_positive else g.constant(False))
