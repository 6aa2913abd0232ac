"""Rows on complex numbers: arithmetic, functions with their branch cuts and special values, sums, products, movement."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np

from forge import dtypes
from tests.ops.case import Case, Constant, Draw, Fixed, boolean, c64, c128, const, f32, f64, i32, row
from tests.ops.cases.index import gather as indexing
from tests.ops.cases.linalg import einsum
from tests.ops.cases.nn import convolution as nn_conv
from tests.ops.cases.nn import matmul as nn_dense
from tests.ops.cases.shape import diagonal as diagonals
from tests.ops.cases.shape import dynamic_slice as placing
from tests.ops.cases.shape import reshape as movement

INF, NAN = math.inf, math.nan
BOTH = ("complex64", "complex128")
PARTS = (0.0, -0.0, 1.0, -2.5, 1e-20, INF, -INF, NAN)
EDGES = np.array([complex(x, y) for x, y in itertools.product(PARTS, PARTS)])
EXTREMES = {
    "complex64": np.array([3e38 + 3e38j, 1e-40 - 1e-42j, -1e30 + 1e-30j, 2e-38j, 88.0 + 1e-3j, -1e20 - 1e20j], np.complex64),
    "complex128": np.array([1.2e308 + 1.2e308j, 1e-310 - 1e-312j, -1e300 + 1e-300j, 2e-308j, 709.7 + 1e-3j, -1e160 - 1e160j]),
}
NEAR = np.array([1 + 1e-10j, 1 - 1e-9 + 1e-12j, -1 + 1e-8j, 1e-10 + 1j, 1 + 1e-300j, -1 - 1e-9j, 1e-9 - 1e-9j, 2 - 0.0j,
                 -2 - 0.0j])
TINY = np.array([1e-9 - 1e-9j, -1e-9 + 3e-12j, 2e-15 + 1e-20j, 1e-12j])
UNARY = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "log2": np.log2, "log10": np.log10, "expm1": np.expm1, "log1p": np.log1p, "sign": np.sign,
    "reciprocal": lambda x: 1 / x, "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "abs": np.abs, "negative": np.negative, "complex.real": np.real, "complex.imag": np.imag, "complex.conj": np.conj,
    "complex.angle": np.angle, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "copy": lambda x: x,
}
OWN_EDGES = ("expm1", "log1p")
"""NumPy loses infinities or digits of these; the reference follows exp and log."""
MOVED = frozenset({
    "transpose", "reshape", "concatenate", "split", "strided_slice", "tile", "repeat", "reverse", "broadcast_to", "expand_dims",
    "squeeze", "stack", "nn.pad", "take", "gather", "gather_nd", "scatter_elements", "scatter_nd", "full", "full_like",
    "one_hot", "trilu", "roll", "reverse_sequence", "nn.batch_flatten", "strided_set", "dynamic_slice", "dynamic_update_slice",
    "diagonal", "matrix_set_diag",
})
PRODUCTS = frozenset({"einsum", "nn.dense", "nn.matmul", "nn.batch_matmul", "nn.conv1d", "nn.conv2d", "nn.conv3d",
                      "nn.conv1d_transpose", "nn.conv2d_transpose"})
COPIED = (movement, indexing, nn_dense, nn_conv, einsum, placing, diagonals)
ROWS_PER_OPERATOR = 3


def _in_complex128(oracle: Any) -> Any:
    """The oracle in complex128, rounded once."""

    def run(*arrays: np.ndarray) -> np.ndarray:
        result = np.asarray(oracle(*(a.astype(np.complex128) for a in arrays)))
        narrow = arrays[0].dtype == np.complex64
        return result.astype(np.complex64) if narrow and result.dtype == np.complex128 else result

    return run


def _in_extended(oracle: Any) -> Any:
    """The oracle in NumPy's widest type, whose range is larger."""
    return lambda *arrays: np.asarray(oracle(*(a.astype(np.clongdouble) for a in arrays))).astype(arrays[0].dtype)


def unary_rows() -> list[Case]:
    rows = []
    for (name, oracle), dtype in itertools.product(UNARY.items(), BOTH):
        exact = _in_complex128(oracle)
        make = c64 if dtype == "complex64" else c128
        known = None if name in OWN_EDGES else exact
        rows += [
            row(name, [make(3, 7)], exact),
            row(name, [EDGES.astype(dtype)], known, note="edges", symbolic=False),
            row(name, [EXTREMES[dtype]], known, note="extremes", symbolic=False),
            row(name, [NEAR.astype(dtype)], known, note="near", symbolic=False),
            row(name, [TINY.astype(dtype)], known, note="tiny", symbolic=False),
        ]
    return rows


def _pairs(values: np.ndarray) -> list[np.ndarray]:
    a, b = np.meshgrid(values, values)
    return [a.reshape(-1).copy(), b.reshape(-1).copy()]


def binary_rows() -> list[Case]:
    few = np.array([complex(x, y) for x, y in itertools.product((0.0, -0.0, 1.5, INF, NAN), repeat=2)])
    rows = []
    for dtype, make in (("complex64", c64), ("complex128", c128)):
        for name, oracle in (("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply), ("divide", np.divide),
                             ("equal", np.equal), ("not_equal", np.not_equal)):
            rows += [row(name, [make(3, 5), make(5)], _in_complex128(oracle)),
                     row(name, _pairs(few.astype(dtype)), _in_complex128(oracle), note="edges", symbolic=False)]
        whole = np.array([0, 1, 2, 3, -1, -2, 17, -5], dtype)
        rows += [
            row("power", [make(3, 5), make(5, low=-1, high=2)], _in_complex128(np.power)),
            row("power", [make(8), whole], _in_complex128(np.power), note="whole"),
            row("power", [np.array([0, 0, 0, 0], dtype), np.array([0, 2, -1, 1j], dtype)], _in_complex128(np.power)),
            row("divide", [EXTREMES[dtype], EXTREMES[dtype]], lambda a, b: np.ones_like(a), note="extremes", symbolic=False),
            row("divide", [EXTREMES[dtype], EXTREMES[dtype].conj()], _in_extended(np.divide), note="extremes", symbolic=False),
            row("equal", [np.array([1 + 2j, 1 + 2j, 1 + 2j], dtype), np.array([1 + 2j, 1 + 3j, 2 + 2j], dtype)], np.equal),
            row("where", [boolean(3, 1), make(4), make(3, 4)], np.where),
        ]
    return rows


def conversion_rows() -> list[Case]:
    parts = np.array([0.0, -0.0, INF, NAN, -3.5])
    rows = [
        row("complex.make", [make(3, 5), make(5)], lambda a, b: a + 1j * b) for make in (f32, f64)
    ]
    for dtype in BOTH:
        part = dtypes.numpy_dtype(dtypes.part(dtype))
        rows.append(row("complex.make", [x.astype(part) for x in _pairs(parts)], note="edges", symbolic=False))
        for target in ("float32", "float64", "float16", "int32", "bool", *BOTH):
            make = c64 if dtype == "complex64" else c128
            real = (lambda x: x != 0) if target == "bool" else (lambda x, t=target: (x if t in BOTH else x.real).astype(t))
            rows.append(row("cast", [make(3, 9)], real, dtype=target))
        for make in (f32, f64, i32, boolean):
            rows.append(row("cast", [make(9)], lambda x, t=dtype: x.astype(t), dtype=dtype))
    rows += [
        row("cast", [np.array([0j, 1j, 2, NAN, complex(0, NAN)])], lambda x: np.array([False, True, True, True, True]),
            dtype="bool"),
        row("reinterpret", [c64(9)], lambda x: x, dtype="complex64"),
        row("reinterpret", [f64(9)], lambda x: x.view(np.complex64), dtype="complex64"),
    ]
    return rows


def reduction_rows() -> list[Case]:
    rows = []
    for make in (c64, c128):
        rows += [
            row("sum", [make(3, 70)], lambda x: np.sum(x, 1, dtype=np.complex128), axis=(1,)),
            row("sum", [make(5, 33)], lambda x: np.sum(x, 0, dtype=np.complex128), axis=(0,)),
            row("sum", [make(4, 5, 6)], lambda x: np.sum(x, dtype=np.complex128)),
            row("mean", [make(3, 20)], lambda x: np.mean(x, 1, dtype=np.complex128), axis=(1,)),
            row("mean", [make(3, 0)], note="nothing", symbolic=False, axis=(1,)),
            row("prod", [make(3, 19, low=-1.2, high=1.2)], lambda x: np.prod(x, 1, dtype=np.complex128), axis=(1,)),
            row("prod", [make(9, 3, low=-1.2, high=1.2)], lambda x: np.prod(x, 0, dtype=np.complex128), axis=(0,)),
            row("cumsum", [make(3, 9)], lambda x: np.cumsum(x, 1, dtype=np.complex128), axis=1),
            row("cumprod", [make(3, 9, low=-1.2, high=1.2)], lambda x: np.cumprod(x, 0, dtype=np.complex128), axis=0),
            row("argwhere", [np.array([[0, 1j], [2, 0]], dtypes.numpy_dtype(make().dtype))],
                lambda x: np.argwhere(x != 0), symbolic=False),
            row("nn.matmul", [make(17, 40), make(40, 19)], np.matmul, note="large"),
        ]
    return rows


def creation_rows() -> list[Case]:
    return [row(name, [], lambda f=function, d=dtype: f((2, 3), d), shape=(2, 3), dtype=dtype)
            for name, function in (("zeros", np.zeros), ("ones", np.ones)) for dtype in BOTH]


def as_complex(operand: Any, dtype: str) -> Any:
    """A float operand as a complex one; others as they are."""
    if isinstance(operand, Fixed):
        return Fixed(as_complex(operand.operand, dtype))
    if isinstance(operand, Draw):
        return replace(operand, dtype=dtype) if operand.dtype in ("float32", "float64") else operand
    if isinstance(operand, np.ndarray) and operand.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return (operand * (1 - 0.5j)).astype(dtype)
    if isinstance(operand, Constant) and operand.value.dtype.kind == "f":
        return const(operand.value * (1 + 2j), dtype)
    return operand


def copied_rows() -> list[Case]:
    """Rows of movement and of products, on complex numbers instead of floats."""
    taken: dict[tuple[str, str], int] = {}
    rows = []
    for case in itertools.chain(*(module.CASES for module in COPIED)):
        if case.op not in MOVED | PRODUCTS or case.attrs.keys() & {"dtype", "out_dtype"} or not _is_float(case):
            continue
        reduces = case.attrs.get("reduction", case.attrs.get("mode"))
        if reduces in ("min", "max", "mean") or taken.get((case.op, str(reduces)), 0) >= ROWS_PER_OPERATOR:
            continue
        taken[case.op, str(reduces)] = taken.get((case.op, str(reduces)), 0) + 1
        convolution = case.op.startswith("nn.conv")
        dtype = BOTH[0 if convolution else taken[case.op, str(reduces)] % 2]
        oracle = _bilinear(case.oracle) if convolution else case.oracle
        rows.append(replace(case, operands=tuple(as_complex(x, dtype) for x in case.operands), oracle=oracle))
    return rows


def _bilinear(oracle: Any) -> Any:
    """An oracle of real operands on complex ones."""

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            (result,) = oracle(np.ascontiguousarray(x), np.ascontiguousarray(y))
            return np.asarray(result, np.float64)

        return product(a.real, b.real) - product(a.imag, b.imag) + 1j * (product(a.real, b.imag) + product(a.imag, b.real))

    return run


def _is_float(case: Case) -> bool:
    dtypes_of = [x.dtype for x in case.operands if isinstance(x, Draw)]
    return bool(dtypes_of) and any(d in ("float32", "float64") for d in dtypes_of) and not any(
        d in ("float16", "bfloat16") for d in dtypes_of)


def whole_power_rows() -> list[Case]:
    """Integers to whole powers: exact, wrapping."""
    bases = np.array([3, -7, 2, 10, -1, 0, 1, 5], np.int64)
    powers = np.array([40, 21, 63, 19, 9, 0, -5, -1], np.int64)
    wrapped = [dtypes.wrap_int(int(b) ** int(e), "int64") if e >= 0 else (1 if b == 1 else 0) for b, e in zip(bases, powers)]
    small = np.array([3, 255, 2, 16, 7, 0], np.uint8)
    narrow = np.array([5, 255, 8, 2, 3, 0], np.uint8)
    return [
        row("power", [bases, powers], lambda a, b: np.array(wrapped), note="wrap"),
        row("power", [small, narrow], lambda a, b: np.array([int(x) ** int(y) % 256 for x, y in zip(a, b)])),
        row("power", [i32(40, low=-50, high=50), const(3, "int32")], np.power, note="constant"),
        row("power", [np.array([-1, -1, -1, 1, 2, 0, -3], np.int32), np.array([-1, -2, -3, -9, -1, -1, -2], np.int32)],
            lambda a, b: np.array([-1, 1, -1, 1, 0, 0, 0]), note="negative"),
    ]


CASES = [*unary_rows(), *binary_rows(), *conversion_rows(), *reduction_rows(), *creation_rows(), *copied_rows(),
         *whole_power_rows()]
