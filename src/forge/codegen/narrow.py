"""Floats narrower than 32 bits: their bits to float32 and back, in integer operations, rounding half to even."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from forge import dtypes
from forge.tir import expr as tir
from forge.tir.expr import Expr


@dataclass(frozen=True)
class BitLayout:
    """Bits of a float type: sign, exponent, ``mantissa`` bits.

    Attributes:
        bias: of the exponent.
        largest: the code of the largest finite number.
        overflow: the code that greater magnitudes (and infinity) become.
        nan: the code of NaN.
        signed: whether ``overflow`` and ``nan`` get the sign bit.
        infinity: the code of infinity, for types that have it.
        negative_zero: whether there is a zero with sign.
    """

    mantissa: int
    bias: int
    largest: int
    overflow: int
    nan: int
    signed: bool = True
    infinity: int | None = None
    negative_zero: bool = True


LAYOUTS = {
    "float16": BitLayout(10, 15, 0x7BFF, 0x7C00, 0x7E00, infinity=0x7C00),
    "float8_e5m2": BitLayout(2, 15, 0x7B, 0x7C, 0x7E, infinity=0x7C),
    "float8_e4m3fn": BitLayout(3, 7, 0x7E, 0x7F, 0x7F),
    "float8_e4m3fnuz": BitLayout(3, 8, 0x7F, 0x80, 0x80, signed=False, negative_zero=False),
    "float8_e5m2fnuz": BitLayout(2, 16, 0x7F, 0x80, 0x80, signed=False, negative_zero=False),
    "float4_e2m1fn": BitLayout(1, 1, 0x7, 0x7, 0x0),
}

_WORD = "uint32"
_INFINITY = 0x7F800000
_SIGN = 0x80000000


def _bits(x: Expr) -> Expr:
    return tir.call("reinterpret", x, dtype=_WORD)


def _float(bits: Expr) -> Expr:
    return tir.call("reinterpret", bits, dtype="float32")


def _shift(name: str, x: Expr, amount: int) -> Expr:
    return tir.binary(name, x, amount)


def encode(dtype: str, x: Expr) -> Expr:
    """The code of float32 ``x`` in ``dtype``."""
    layout, width = LAYOUTS[dtype], dtypes.bits(dtype)
    bits = _bits(x)
    magnitude = bits & (_SIGN - 1)
    code = tir.select(magnitude < _power_bits(1 - layout.bias), _encode_subnormal(layout, magnitude),
                      _encode_normal(layout, magnitude))
    code = tir.select(code > layout.largest, tir.const(layout.overflow, _WORD, x.lanes), code)
    sign = _shift("shl", _shift("shr", bits, 31), width - 1)
    is_nan = magnitude > _INFINITY
    if not layout.signed:
        special = tir.binary("or", is_nan, code.eq(layout.overflow))
        sign = tir.select(tir.binary("or", special, code.eq(0)), tir.const(0, _WORD, x.lanes), sign)
    result = tir.select(is_nan, tir.const(layout.nan, _WORD, x.lanes), code) | sign
    return result.astype(f"uint{8 * dtypes.itemsize(dtype)}")


def _power_bits(exponent: int) -> int:
    """The bits of float32 2 ** exponent."""
    return (exponent + 127) << 23


def _encode_normal(layout: BitLayout, magnitude: Expr) -> Expr:
    """Adds just under half of the last place, and one more where the last place is odd."""
    dropped = 23 - layout.mantissa
    odd = _shift("shr", magnitude, dropped) & 1
    rounded = _shift("shr", magnitude + odd + ((1 << (dropped - 1)) - 1), dropped)
    return rounded - ((127 - layout.bias) << layout.mantissa)


def _encode_subnormal(layout: BitLayout, magnitude: Expr) -> Expr:
    """Adding a power of two, whose last place is the smallest subnormal, rounds in hardware."""
    power = _power_bits(24 - layout.bias - layout.mantissa)
    shifter = _float(tir.const(power, _WORD, magnitude.lanes))
    return _bits(_float(magnitude) + shifter) - power


def decode(dtype: str, code: Expr) -> Expr:
    """The float32 value of a code."""
    layout, width = LAYOUTS[dtype], dtypes.bits(dtype)
    code = code.astype(_WORD)
    sign = _shift("shl", _shift("shr", code, width - 1) & 1, 31)
    magnitude = code & ((1 << (width - 1)) - 1)
    scaled = _bits(_float(_shift("shl", magnitude, 23 - layout.mantissa)) * 2.0 ** (127 - layout.bias))
    if layout.infinity is not None:
        top = _shift("shl", magnitude, 23 - layout.mantissa) | _INFINITY
        scaled = tir.select(magnitude >= layout.infinity, top, scaled)
    elif layout.signed and layout.nan > layout.largest:
        scaled = tir.select(magnitude.eq(layout.nan), tir.const(0x7FC00000, _WORD, code.lanes), scaled)
    result = scaled | sign
    if not layout.negative_zero:
        result = tir.select(code.eq(layout.nan), tir.const(0x7FC00000, _WORD, code.lanes), result)
    return _float(result)


def encode_bfloat16(x: Expr) -> Expr:
    bits = _bits(x)
    odd = _shift("shr", bits, 16) & 1
    rounded = _shift("shr", bits + odd + 0x7FFF, 16)
    is_nan = (bits & (_SIGN - 1)) > _INFINITY
    return tir.select(is_nan, _shift("shr", bits, 16) | 0x40, rounded).astype("uint16")


def decode_bfloat16(code: Expr) -> Expr:
    return _float(_shift("shl", code.astype(_WORD), 16))


def encode_exponent(x: Expr) -> Expr:
    """float8_e8m0fnu: a biased exponent, halves (of subnormals: all) rounded up; NaN (0xFF) for what is not positive."""
    bits = _bits(x)
    exponent = _shift("shr", bits, 23)
    mantissa = bits & 0x7FFFFF
    middle = tir.select(exponent.eq(0), tir.const(0x400001, _WORD, x.lanes), 0x400000)
    code = exponent + tir.select(mantissa >= middle, tir.const(1, _WORD, x.lanes), 0)
    bad = tir.binary("or", bits.eq(0), bits >= _INFINITY)
    return tir.select(bad, tir.const(0xFF, _WORD, x.lanes), code).astype("uint8")


def decode_exponent(code: Expr) -> Expr:
    """2 ** (code - 127); the smallest is subnormal in float32."""
    code = code.astype(_WORD)
    value = tir.select(code.eq(0), tir.const(0x400000, _WORD, code.lanes), _shift("shl", code, 23))
    return _float(tir.select(code.eq(0xFF), tir.const(0x7FC00000, _WORD, code.lanes), value))


def to_odd(x: Expr) -> Expr:
    """float64 to float32, inexact results with an odd last bit: rounding them again to fewer bits is then correct."""
    near = x.astype("float32")
    back = near.astype("float64")
    bits = _bits(near)
    inexact = tir.logical_and(back.ne(x), tir.compare("eq", bits & 1, 0))
    beyond = tir.call("abs", back) > tir.call("abs", x)
    odd = tir.select(beyond, bits - 1, bits + 1)
    missing = tir.call("isnan", x)
    return _float(tir.select(tir.logical_and(inexact, tir.logical_not(missing)), odd, bits))


HELPERS: dict[str, Callable[..., Expr]] = {
    **{f"narrow.encode.{dtype}": partial(encode, dtype) for dtype in LAYOUTS},
    **{f"narrow.decode.{dtype}": partial(decode, dtype) for dtype in LAYOUTS},
    "narrow.encode.bfloat16": encode_bfloat16, "narrow.decode.bfloat16": decode_bfloat16,
    "narrow.encode.float8_e8m0fnu": encode_exponent, "narrow.decode.float8_e8m0fnu": decode_exponent,
    "narrow.to_odd": to_odd,
}
