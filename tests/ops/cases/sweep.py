"""Rows of every elementwise operator and reduction, made from their declarations.

For each element type that an operator accepts: NaN, infinities, -0, subnormal, huge and ordinary numbers, or the integers at the
ends of the range, all pairs of them for two operands. Then no elements, rank 0 and rank 8. Oracles compute integers without
bounds, and floats in the widest type of the machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from forge import dtypes
from forge.ir.op import all_ops
from forge.ops.elementwise.rows import Elementwise
from tests.ops.case import Case, Draw, row

INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPUTED = ("bool", *INTEGERS, *FLOATS)
"""Element types of most arithmetic; complex numbers have rows of their own."""
TINY = ("int2", "uint2", "int4", "uint4", "float4_e2m1fn", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
STORED = (*TINY, "float8_e8m0fnu")
"""Element types that are moved and cast; the last one is a power of two, never 0 or negative, and of no use in arithmetic."""

RANK_8 = (2, 1, 3, 1, 2, 1, 1, 2)
ORDINARY = (1.0, -1.0, 0.5, -0.5, 2.0, 3.0, -2.5, 0.75, 1e-3, -7.0)
SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan)


def adversaries(dtype: str) -> np.ndarray:
    """The values of a type that break things."""
    kind = dtypes.numpy_dtype(dtype)
    if dtype == "bool":
        return np.array([True, False])
    if dtypes.is_integer(dtype):
        low, high = dtypes.integer_range(dtype)
        small = [v for v in (-7, -3, -2, -1, 0, 1, 2, 3, 5, 31) if low <= v <= high]
        return np.array(sorted({low, low + 1, *small, high // 3, high - 1, high}), np.int64 if low else np.uint64).astype(kind)
    info = ml_dtypes.finfo(kind)
    least, normal, largest = float(info.smallest_subnormal), float(info.smallest_normal), float(info.max)
    return np.array([*SPECIAL, least, -least, normal, -3 * least, largest, -largest, *ORDINARY]).astype(kind)


Oracle = Callable[..., Any]


def wrapped(function: Callable[..., int]) -> Oracle:
    """``function`` of integers without bounds, wrapped to the type of the operands."""

    def run(*arrays: np.ndarray) -> np.ndarray:
        dtype = dtypes.canonical(arrays[0].dtype)
        exact = np.frompyfunc(lambda *v: dtypes.wrap_int(int(function(*map(int, v))), dtype), len(arrays), 1)
        return np.asarray(exact(*arrays)).astype(arrays[0].dtype)

    return run


def decided(function: Callable[..., bool]) -> Oracle:
    """``function`` of Python numbers, as a bool."""
    return lambda *arrays: np.asarray(np.frompyfunc(lambda *v: bool(function(*v)), len(arrays), 1)(*arrays)).astype(bool)


def extended(function: Callable[..., np.ndarray]) -> Oracle:
    """``function`` in the widest float type of the machine, rounded through float64 to narrow ones."""

    def run(*arrays: np.ndarray) -> np.ndarray:
        result = np.asarray(function(*(a.astype(np.float64).astype(np.longdouble) for a in arrays)))
        if result.dtype != np.longdouble or arrays[0].dtype in (np.float32, np.float64):
            return result
        return result.astype(np.float64).astype(arrays[0].dtype)

    return run


def _truncated(a: int, b: int) -> int:
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0


def _power(a: int, b: int) -> int:
    if b < 0:
        return {1: 1, -1: 1 - 2 * (b % 2)}.get(a, 0)
    return pow(a, b, 1 << 64)


def _shifted(a: int, b: int, width: int, left: bool) -> int:
    if not 0 <= b < width:
        return -1 if a < 0 and not left else 0
    return a << b if left else a >> b


def shifts(left: bool) -> Oracle:
    return lambda a, b: wrapped(lambda x, y: _shifted(x, y, dtypes.bits(dtypes.canonical(a.dtype)), left))(a, b)


INTEGER_ORACLES: dict[str, Oracle] = {
    "add": wrapped(lambda a, b: a + b), "subtract": wrapped(lambda a, b: a - b), "multiply": wrapped(lambda a, b: a * b),
    "divide": wrapped(_truncated), "trunc_divide": wrapped(_truncated), "power": wrapped(_power),
    "floor_divide": wrapped(lambda a, b: a // b if b else 0), "floor_mod": wrapped(lambda a, b: a % b if b else 0),
    "mod": wrapped(lambda a, b: a - b * _truncated(a, b) if b else 0), "maximum": wrapped(max), "minimum": wrapped(min),
    "fmax": wrapped(max), "fmin": wrapped(min), "negative": wrapped(lambda a: -a), "abs": wrapped(abs),
    "sign": wrapped(lambda a: (a > 0) - (a < 0)), "reciprocal": wrapped(lambda a: _truncated(1, a)),
    "bitwise_and": wrapped(lambda a, b: a & b), "bitwise_or": wrapped(lambda a, b: a | b),
    "bitwise_xor": wrapped(lambda a, b: a ^ b), "bitwise_not": wrapped(lambda a: ~a), "nn.relu": wrapped(lambda a: max(a, 0)),
    "left_shift": shifts(left=True), "right_shift": shifts(left=False),
    **{name: wrapped(lambda a: a) for name in ("ceil", "floor", "trunc", "round")},
}
BOOL_ORACLES: dict[str, Oracle] = {
    **dict.fromkeys(("logical_and", "bitwise_and"), decided(lambda a, b: a and b)),
    **dict.fromkeys(("logical_or", "bitwise_or"), decided(lambda a, b: a or b)),
    **dict.fromkeys(("logical_xor", "bitwise_xor"), decided(lambda a, b: a != b)),
    **dict.fromkeys(("logical_not", "bitwise_not"), decided(lambda a: not a)),
}
COMPARISONS: dict[str, Oracle] = {
    "equal": decided(lambda a, b: a == b), "not_equal": decided(lambda a, b: a != b), "less": decided(lambda a, b: a < b),
    "less_equal": decided(lambda a, b: a <= b), "greater": decided(lambda a, b: a > b),
    "greater_equal": decided(lambda a, b: a >= b),
}
FLOAT_ORACLES: dict[str, Oracle] = {name: extended(function) for name, function in {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "maximum": np.maximum,
    "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin, "negative": np.negative, "abs": np.abs, "sign": np.sign,
    "mod": np.fmod, "power": np.power, "reciprocal": lambda x: 1 / x, "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc,
    "round": np.rint, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "atan2": np.arctan2, "isnan": np.isnan, "isinf": np.isinf,
    "isfinite": np.isfinite, "signbit": np.signbit, "copysign": np.copysign, "exp2": np.exp2, "cbrt": np.cbrt,
    "hypot": np.hypot, "logaddexp": np.logaddexp, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "nn.relu": lambda x: np.maximum(x, 0), "nn.softplus": lambda x: np.logaddexp(x, 0),
    "nn.log_sigmoid": lambda x: -np.logaddexp(-x, 0),
}.items()}


def oracle_of(name: str, dtype: str) -> Oracle | None:
    if name in COMPARISONS:
        return COMPARISONS[name]
    tables = {True: FLOAT_ORACLES, dtype == "bool": BOOL_ORACLES, dtypes.is_integer(dtype): INTEGER_ORACLES}
    return tables[True].get(name)


def declared(accepts: str) -> list[str]:
    return [d for d in (*COMPUTED, *TINY) if dtypes.belongs(d, accepts)]


def operands_of(dtype: str, count: int) -> list[np.ndarray]:
    values = adversaries(dtype)
    return [values] if count == 1 else [values[:, None], values]


def elementwise_rows() -> Iterator[Case]:
    for op in all_ops():
        if not isinstance(op, Elementwise) or not (types := declared(op.row.accepts)):
            continue
        count = len(op.operands)
        for dtype in types:
            yield row(op.name, operands_of(dtype, count), oracle_of(op.name, dtype), f"adversaries {dtype}", symbolic=False)
        dtype = next(d for d in ("float32", "int32", "bool") if d in types)
        oracle = oracle_of(op.name, dtype)
        for shape in ((0, 3), (), RANK_8):
            yield row(op.name, [Draw(shape, dtype, low=0.25, high=0.9) for _ in range(count)], oracle, "shape")


def cast_rows() -> Iterator[Case]:
    """Every element type to every other one."""
    for source in (*COMPUTED, *STORED):
        for target in (*COMPUTED, *STORED):
            if source != target:
                yield row("cast", [adversaries(source)], None, f"from {source}", symbolic=False, dtype=target)


CASES = [*elementwise_rows(), *cast_rows()]
