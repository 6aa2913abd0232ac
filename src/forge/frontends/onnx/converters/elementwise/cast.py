"""Conversions of element types."""

from __future__ import annotations

from forge import dtypes
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
