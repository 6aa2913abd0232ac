"""Rows of the operators on bits, and of those that differ from their kin in NaN or halves."""

from __future__ import annotations

import math

import numpy as np

from forge import dtypes
from tests.ops.case import Case, bf16, f16, f32, f64, i8, i32, i64, row, u8, u64

INF, NAN = math.inf, math.nan
SPECIAL = (INF, -INF, NAN, 0.0, -0.0)


def _as_written(width, digit):
    """Of every element the number of leading 0s (digit "0") or of all 1s, out of its binary digits."""

    def run(x):
        digits = [np.binary_repr(int(v) % (1 << width), width) for v in x.ravel()]
        return np.array([len(d) - len(d.lstrip("0")) if digit == "0" else d.count("1") for d in digits]).reshape(x.shape)

    return run


def integer_rows() -> list[Case]:
    corners = np.array([0, 1, -1, 2**31 - 1, -(2**31), 4096], np.int32)
    rows = []
    for name, digit in (("popcount", "1"), ("count_leading_zeros", "0")):
        rows += [row(name, [corners], _as_written(32, digit)),
                 row(name, [i8(17, low=-128, high=127)], _as_written(8, digit)),
                 row(name, [u8(3, 5, high=255)], _as_written(8, digit)),
                 row(name, [u64(9, high=2**62)], _as_written(64, digit)),
                 row(name, [i64(9, low=-(2**62), high=2**62)], _as_written(64, digit))]
    amounts = np.array([0, 1, 31, 32, 40, -1], np.int32)
    return [
        *rows,
        row("logical_right_shift", [np.full(6, -8, np.int32), amounts], lambda a, b: np.array([-8, 2**31 - 4, 1, 0, 0, 0])),
        row("logical_right_shift", [i8(17, low=-128, high=127), i8(low=2, high=2)], lambda a, b: a.view(np.uint8) >> 2),
        row("logical_right_shift", [u64(5, 3, high=2**62), u64(3, high=63)], np.right_shift),
    ]


def sign_rows() -> list[Case]:
    rows = [row("signbit", [make(9, special=SPECIAL)], lambda x: np.signbit(x.astype(np.float64)))
            for make in (f32, f64, f16, bf16)]
    for make in (f32, f64, f16):
        rows += [
            row("copysign", [make(3, 7, special=SPECIAL), make(7, special=(-0.0, 0.0, -INF))], np.copysign),
            row("nextafter", [make(3, 7, special=SPECIAL), make(7, special=(1.0, INF, NAN, -1.0))], np.nextafter),
            row("nextafter", [make(9, special=(0.0, -0.0, 1.0)), make(special=(-0.0,))], np.nextafter, note="to zero"),
        ]
    largest = np.array([3.4028235e38, -3.4028235e38, 1e-45, -1e-45], np.float32)
    return [
        *rows,
        row("nextafter", [largest, np.array([INF, -INF, 0, 0], np.float32)], lambda a, b: np.array([INF, -INF, 0, -0.0])),
        row("copysign", [bf16(5), bf16(5)], lambda a, b: np.copysign(a.astype(np.float32), b.astype(np.float32))),
    ]


def choosing_rows() -> list[Case]:
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, -0.0, INF, -INF, NAN, 8388609.0], np.float32)
    rows = []
    for name, oracle in (("fmax", np.fmax), ("fmin", np.fmin)):
        rows += [row(name, [f32(4, 6, special=SPECIAL), f32(6, special=(1.0, NAN, NAN, NAN, 2.0))], oracle),
                 row(name, [f16(9, special=SPECIAL), f16(1)], oracle),
                 row(name, [i32(9), i32(9)], oracle)]
    return [
        *rows,
        row("round_away", [halves], lambda x: np.array([-3, -2, -1, 1, 2, 3, 0, -0.0, INF, -INF, NAN, 8388609])),
        *(row("round_away", [make(4, 9)], lambda x: np.floor(np.abs(x.astype(np.float64)) + 0.5) * np.sign(x.astype(np.float64)))
          for make in (f64, f16, bf16)),
    ]


def precision_rows() -> list[Case]:
    def as_type(name):
        target = dtypes.numpy_dtype(name)

        def run(x):
            result = x.astype(target)
            tiny = np.abs(result.astype(np.float64)) < {"float16": 2.0**-14, "bfloat16": 2.0**-126}[name]
            return np.where(tiny, np.copysign(0, x.astype(np.float64)), result.astype(x.dtype))

        return run

    wild = np.array([65504, 65519.9, 65520, 1e9, -1e9, 6.1e-5, 6.0e-5, -1e-8, NAN, INF, -INF, 1 + 2**-11, 1 + 3 * 2**-11],
                    np.float32)
    return [
        row("reduce_precision", [wild], as_type("float16"), exponent_bits=5, mantissa_bits=10),
        row("reduce_precision", [f32(40, low=-70000, high=70000)], as_type("float16"), exponent_bits=5, mantissa_bits=10),
        row("reduce_precision", [f64(40)], as_type("float16"), exponent_bits=5, mantissa_bits=10),
        row("reduce_precision", [f32(40)], as_type("bfloat16"), exponent_bits=8, mantissa_bits=7),
        row("reduce_precision", [f32(9, special=SPECIAL)], lambda x: x, exponent_bits=11, mantissa_bits=52),
        row("reduce_precision", [np.array([3.4028235e38, 1e-40], np.float32)], lambda x: np.array([INF, x[1]]),
            note="round up to infinity", exponent_bits=8, mantissa_bits=22),
        row("reduce_precision", [f16(20)], lambda x: x.astype(dtypes.numpy_dtype("float8_e5m2")).astype(np.float16),
            exponent_bits=5, mantissa_bits=2),
        row("reduce_precision", [np.array([0.4, 0.75, 1.0, 1.5, -2.0], np.float32)], lambda x: np.array([0, 0, 0, INF, -INF]),
            exponent_bits=1, mantissa_bits=0, note="no exponent left"),
    ]


CASES = [*integer_rows(), *sign_rows(), *choosing_rows(), *precision_rows()]
