"""Conversions of element types."""

from __future__ import annotations

from forge import dtypes
from forge.compose.casts import wrapped
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts
from forge.frontends.onnx.tensors import element_dtype


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
    if dtypes.is_integer(dtype) and dtypes.is_float(x.dtype):
        return wrapped(g, x, dtype) if dtypes.bits(dtype) >= 8 else g.cast(g.cast(x, "int32"), dtype)
    return g.call("cast", x, dtype=dtype, saturate=saturate or not dtype.startswith("float8"))


def _power_of_two(g: Context, x: Value, saturate: bool, round_mode: str) -> Value:
    """The biased exponent of the power of two above ("up"), below ("down") or nearest to the single-precision number.

    What is beyond the smallest and the largest power, negative numbers among it, becomes that one with ``saturate``, else NaN.
    """
    if round_mode not in ("up", "down", "nearest"):
        raise g.unsupported(f"attribute 'round_mode': got {round_mode!r}; supported: 'up', 'down', 'nearest'")
    number = g.cast(x, "float32")
    least, most = g.scalar(2.0**-127, number), g.scalar(2.0**127, number)
    if saturate:
        number = g.call("minimum", g.call("maximum", number, least), most)
    fits = g.call("logical_and", g.call("greater_equal", number, least), g.call("less_equal", number, most))
    bits = g.call("reinterpret", number, dtype="uint32")
    code = g.call("right_shift", bits, g.scalar(23, bits))
    if round_mode != "down":
        is_subnormal = g.cast(g.call("equal", code, g.scalar(0, bits)), "uint32")  # the first bit of its fraction is 1
        fraction = g.call("bitwise_and", g.call("left_shift", bits, is_subnormal), g.scalar(0x7FFFFF, bits))
        rounds_up = g.call("greater_equal", fraction, g.scalar(1 if round_mode == "up" else 0x400000, bits))
        code = g.call("add", code, g.cast(rounds_up, "uint32"))
    code = g.call("where", fits, code, g.scalar(255, bits))
    return g.call("reinterpret", g.cast(code, "uint8"), dtype="float8_e8m0fnu")


@converts("BitCast", since=26)
def bit_cast(g: Context, x: Value, *, to: int) -> Value:
    return g.call("reinterpret", x, dtype=element_dtype(to, "attribute 'to'"))
