"""Rows of the elementwise operators."""

from __future__ import annotations

import math

import numpy as np

from forge import dtypes
from tests.ops.case import Case, bf16, boolean, f16, f32, f64, i8, i32, i64, row, u8, u32

INF, NAN = math.inf, math.nan
SPECIAL = (INF, -INF, NAN, 0.0, -0.0)


def _narrow(oracle):
    """The oracle in float64, rounded to the type of the first operand if that is a float."""

    def run(*arrays):
        floating = dtypes.is_float(dtypes.canonical(arrays[0].dtype))
        result = oracle(*(a.astype(np.float64) if floating else a for a in arrays))
        return result.astype(arrays[0].dtype) if floating and result.dtype != bool else result

    return run


def _saturated(x, dtype):
    target = dtypes.numpy_dtype(dtype)
    limit = {"float8_e4m3fn": 448, "float8_e5m2": 57344}[dtype]
    return np.clip(x.astype(np.float32), -limit, limit).astype(target)


def _truncate(a, b):
    quotient = np.trunc(np.where(b == 0, 0, a.astype(np.float64) / np.where(b == 0, 1, b)))
    return quotient.astype(np.int64).astype(a.dtype)


def binary_rows() -> list[Case]:
    rows = []
    for name, oracle in {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum,
                         "minimum": np.minimum}.items():
        rows += [
            row(name, [f32(2, 3), f32(2, 3)], oracle),
            row(name, [f32(4, 1, 3), f32(5, 1)], oracle),
            row(name, [f32(3), f32()], oracle),
            row(name, [f32(0, 3), f32(3)], oracle),
            row(name, [f64(7), f64(7)], oracle),
            row(name, [f16(7), f16(7)], oracle),
            row(name, [bf16(7), bf16(1)], _narrow(oracle)),
            row(name, [i32(2, 5), i32(5)], oracle),
            row(name, [u8(9, high=255), u8(9, high=255)], oracle),
            row(name, [f32(6, special=SPECIAL), f32(6)], oracle, note="special"),
        ]
    for name, oracle in {"divide": np.divide, "power": np.power, "floor_mod": np.mod, "mod": np.fmod,
                         "floor_divide": np.floor_divide, "atan2": np.arctan2}.items():
        rows += [row(name, [f32(3, 4, low=0.5), f32(4, low=0.5)], oracle),
                 row(name, [f16(5, low=0.5), f16(5, low=0.5)], _narrow(oracle))]
    signed = np.array([7, -7, 7, -7, 5, -(2**31), -(2**31)], np.int32)
    divisors = np.array([3, 3, -3, -3, 0, -1, 1], np.int32)
    rows += [
        row("divide", [signed, divisors], lambda a, b: np.array([2, -2, -2, 2, 0, -(2**31), -(2**31)]), note="corners"),
        row("trunc_divide", [signed, divisors], lambda a, b: np.array([2, -2, -2, 2, 0, -(2**31), -(2**31)]), note="corners"),
        row("floor_divide", [signed, divisors], lambda a, b: np.array([2, -3, -3, 2, 0, -(2**31), -(2**31)]), note="corners"),
        row("floor_mod", [signed, divisors], lambda a, b: np.array([1, 2, -2, -1, 0, 0, 0]), note="corners"),
        row("mod", [signed, divisors], lambda a, b: np.array([1, -1, 1, -1, 0, 0, 0]), note="corners"),
        row("divide", [i64(6, low=-50, high=50), i64(6, low=1, high=9)], _truncate),
        row("divide", [u32(6, low=0, high=50), u32(6, low=0, high=9)], _truncate),
        row("trunc_divide", [f32(8), f32(8, low=0.25)], lambda a, b: np.trunc(a / b)),
        row("floor_mod", [f32(8), f32(8)], np.mod, note="signs"),
        row("floor_divide", [f32(8), f32(8)], np.floor_divide, note="signs"),
        row("mod", [f32(8), f32(8)], np.fmod, note="signs"),
        row("power", [i32(6, low=-5, high=5), i32(6, low=0, high=4)], np.power),
        row("power", [np.array([-2.0, -2.0, 0.0, 4.0], np.float32), np.array([2.0, 3.0, 0.0, 0.5], np.float32)], np.power),
    ]
    return rows


def comparison_rows() -> list[Case]:
    rows = []
    for name, oracle in {"equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
                         "greater": np.greater, "greater_equal": np.greater_equal}.items():
        rows += [
            row(name, [i32(3, 5, low=0, high=2), i32(5, low=0, high=2)], oracle),
            row(name, [f32(6, special=SPECIAL), f32(6, special=SPECIAL)], oracle),
            row(name, [u8(6, high=200), u8(6, high=200)], oracle),
        ]
    rows += [row(name, [boolean(6), boolean(6)], oracle) for name, oracle in (("equal", np.equal), ("not_equal", np.not_equal))]
    return rows


def logic_rows() -> list[Case]:
    rows = [row(f"logical_{n}", [boolean(3, 4), boolean(4)], o)
            for n, o in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor))]
    rows += [row(f"bitwise_{n}", [make(9), make(9)], o)
             for n, o in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)) for make in (i32, u8, boolean)]
    rows += [row("bitwise_not", [make(9)], np.invert) for make in (i32, u8, boolean)]
    amounts = np.array([0, 1, 31, 32, 40, -1], np.int32)
    rows += [
        row("logical_not", [boolean(9)], np.logical_not),
        row("left_shift", [np.full(6, 3, np.int32), amounts], lambda a, b: np.array([3, 6, -(2**31), 0, 0, 0])),
        row("right_shift", [np.full(6, -8, np.int32), amounts], lambda a, b: np.array([-8, -4, -1, -1, -1, -1])),
        row("right_shift", [np.full(3, 200, np.uint8), np.array([1, 7, 8], np.uint8)], lambda a, b: np.array([100, 1, 0])),
        row("left_shift", [u8(4, high=255), np.array([0, 1, 2, 7], np.uint8)], np.left_shift),
    ]
    return rows


def function_rows() -> list[Case]:
    domain = {"log": (0.1, 9), "log2": (0.1, 9), "log10": (0.1, 9), "log1p": (-0.9, 9), "sqrt": (0, 9), "rsqrt": (0.1, 9),
              "asin": (-1, 1), "acos": (-1, 1), "acosh": (1, 9), "atanh": (-0.9, 0.9)}
    oracles = {"exp": np.exp, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
               "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "erf": np.vectorize(math.erf, otypes=[float]),
               "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "tan": np.tan,
               "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh,
               "acosh": np.arccosh, "atanh": np.arctanh, "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc,
               "reciprocal": lambda x: 1 / x, "round": np.round}
    rows = []
    for name, oracle in oracles.items():
        low, high = domain.get(name, (-4, 4))
        rows += [row(name, [make(3, 5, low=low, high=high)], _narrow(oracle)) for make in (f32, f64, f16, bf16)]
    rows += [row(name, [f32(6, special=SPECIAL)], oracles[name], note="special")
             for name in ("exp", "tanh", "sigmoid", "sqrt", "ceil", "round", "atan")]
    rows += [
        row("round", [np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)], lambda x: np.array([-2, -2, -0.0, 0, 2, 2])),
        row("floor", [i32(5)], lambda x: x),
        row("reciprocal", [i32(5, low=-2, high=2)], lambda x: np.where(np.abs(x) == 1, x, 0)),
        *(row("negative", [make(7)], np.negative) for make in (f32, i8, f16)),
        *(row("abs", [make(7)], np.abs) for make in (f32, i8, u8, bf16)),
        row("abs", [np.array([-128, -1, 127], np.int8)], lambda x: np.array([-128, 1, 127])),
        *(row("sign", [make(7)], lambda x: np.sign(x.astype(np.float64))) for make in (f32, i32, u8)),
        row("sign", [f32(6, special=SPECIAL)], np.sign),
        *(row(name, [make(7, special=SPECIAL)], lambda x, o=oracle: o(x.astype(np.float64)))
          for name, oracle in (("isnan", np.isnan), ("isinf", np.isinf), ("isfinite", np.isfinite)) for make in (f32, f16)),
        row("copy", [f32(2, 3)], lambda x: x),
        row("copy", [boolean(3)], lambda x: x),
    ]
    return rows


def conversion_rows() -> list[Case]:
    wild = np.array([NAN, INF, -INF, 3e9, -3e9, 300.7, -1.5, 0.5], np.float32)
    integers = np.array([-129, -1, 0, 127, 128, 300, 2**31, -(2**40)], np.int64)
    return [
        row("cast", [wild], lambda x: np.array([0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 300, -1, 0]), dtype="int32"),
        row("cast", [wild], lambda x: np.array([0, 255, 0, 255, 0, 255, 0, 0]), dtype="uint8"),
        row("cast", [wild], lambda x: x != 0, dtype="bool"),
        row("cast", [wild], lambda x: x.astype(np.float64), dtype="float64"),
        row("cast", [integers], lambda x: x.astype(np.int8), dtype="int8"),
        row("cast", [integers], lambda x: x.astype(np.uint16), dtype="uint16"),
        row("cast", [integers], lambda x: x.astype(np.float32), dtype="float32"),
        row("cast", [f32(9)], lambda x: x.astype(np.float16), dtype="float16"),
        row("cast", [f32(9)], lambda x: x.astype(dtypes.numpy_dtype("bfloat16")), dtype="bfloat16"),
        row("cast", [bf16(9)], lambda x: x.astype(np.float32), dtype="float32"),
        row("cast", [boolean(9)], lambda x: x.astype(np.float32), dtype="float32"),
        row("cast", [boolean(9)], lambda x: x.astype(np.int64), dtype="int64"),
        *(row("cast", [np.array([NAN, INF, -INF, 1e6, -1e6, 0.3, -0.0], make)],
              lambda x, d=d: _saturated(x, d), dtype=d, note=str(make.__name__))
          for d in ("float8_e4m3fn", "float8_e5m2") for make in (np.float32, np.float16)),
        row("cast", [np.array([NAN, INF, 1e6, 0.3], np.float32)], lambda x: x.astype(dtypes.numpy_dtype("float8_e5m2")),
            dtype="float8_e5m2", saturate=False),
        row("cast_like", [f32(9), i32(2)], lambda x, like: np.trunc(x).astype(np.int32)),
        row("reinterpret", [f32(9)], lambda x: x.view(np.int32), dtype="int32"),
        row("clip", [f32(9)], lambda x, *_: np.clip(x, -1, 2), a_min=-1.0, a_max=2.0),
        row("clip", [f32(6, special=SPECIAL)], lambda x, *_: np.minimum(x, 1), a_max=1.0),
        row("clip", [i32(9, low=-9, high=9), None, np.array(3, np.int32)], lambda x, low, high: np.minimum(x, 3)),
        row("clip", [f32(9), np.array(-1, np.float32), np.array([1], np.float32)], lambda x, low, high: np.clip(x, -1, 1)),
        row("clip", [u8(9, high=255)], lambda x, *_: np.clip(x, 0, 200), a_min=-5.0, a_max=200.0),
        row("where", [boolean(3, 1), f32(4), f32(3, 4)], np.where),
        row("where", [boolean(), i64(2), i64(2)], np.where),
        row("where", [boolean(5), boolean(5), boolean(1)], np.where),
    ]


def activation_rows() -> list[Case]:
    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    erfc = np.vectorize(math.erfc, otypes=[float])
    oracles = [
        ("relu", {}, lambda x: np.maximum(x, 0)),
        ("leaky_relu", {"alpha": 0.1}, lambda x: np.where(x > 0, x, 0.1 * x)),
        ("gelu", {}, lambda x: x / 2 * erfc(-x / math.sqrt(2))),
        ("gelu", {"approximate": "tanh"}, lambda x: x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        ("silu", {}, lambda x: x * sigmoid(x)),
        ("hardswish", {}, lambda x: x * np.clip(x + 3, 0, 6) / 6),
        ("hard_sigmoid", {}, lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
        ("elu", {"alpha": 1.5}, lambda x: np.where(x > 0, x, 1.5 * np.expm1(x))),
        ("selu", {}, lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))),
        ("celu", {"alpha": 2.0}, lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2))),
        ("softplus", {}, lambda x: np.log1p(np.exp(x))),
        ("log_sigmoid", {}, lambda x: -np.log1p(np.exp(-x))),
        ("softsign", {}, lambda x: x / (1 + np.abs(x))),
        ("mish", {}, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
        ("thresholded_relu", {"alpha": 0.7}, lambda x: np.where(x > 0.7, x, 0)),
        ("shrink", {"lambd": 1.0, "bias": 0.5}, lambda x: np.where(x < -1, x + 0.5, np.where(x > 1, x - 0.5, 0))),
    ]
    rows = [row(f"nn.{name}", [make(3, 7)], _narrow(oracle), **attrs)
            for name, attrs, oracle in oracles for make in (f32, f64, f16)]
    rows += [row(f"nn.{name}", [np.array([-1e4, 1e4, 100, -100], np.float32)], note="large")
             for name in ("softplus", "mish", "elu", "silu", "gelu", "selu")]
    rows += [
        row("nn.relu", [i32(9)], lambda x: np.maximum(x, 0)),
        row("nn.prelu", [f32(2, 3, 4), f32(3)], lambda x, a: np.where(x > 0, x, a[:, None] * x)),
        row("nn.prelu", [f32(2, 3), f32(1)], lambda x, a: np.where(x > 0, x, a * x)),
        row("nn.prelu", [f32(2, 0, 4), f32(0)], lambda x, a: x),
        row("nn.prelu", [f32(2, 3), f32(2)], lambda x, a: np.where(x > 0, x, a[:, None] * x), axis=0),
    ]
    return rows


CASES = [*binary_rows(), *comparison_rows(), *logic_rows(), *function_rows(), *conversion_rows(), *activation_rows()]
