"""Element-wise functions, activations, reductions and products of ``forge.nn`` against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forge import nn
from tests.nn.function_cases import Case, bools, case, check, integers, normal, softmax, uniform

A, B = normal(3, 1, 5), normal(2, 5, seed=1)
P, Q = uniform(3, 1, 5), uniform(2, 5, seed=1)
I, J = integers(3, 1, 5, low=-9), integers(2, 5, low=1, seed=1)  # noqa: E741 - integers
L, M = bools(3, 1, 5), bools(2, 5, seed=1)
ODD = np.array([-np.inf, -2.5, -1.5, -0.5, -0.0, 0.5, 1.5, np.inf, np.nan], np.float32)
DTYPES = ["float64", "float16", "bfloat16"]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def erf(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x)).astype(x.dtype)


ARITHMETIC: dict[str, Case] = {
    "add": case(nn.add, np.add, A, B),
    "add/number": case(lambda x: 1.5 + (x + 2), lambda x: x + np.float32(3.5), A),
    "add/array": case(lambda x: x + B, lambda x: x + B, A, fixed=[5]),
    "add/array_first": case(
        lambda x: (B + x, B.T @ x), lambda x: (B + x, B.T @ x), normal(2, 5, seed=2), fixed=[2, 5]),
    "add/size": case(lambda x: x + x.shape[2], lambda x: x + np.float32(x.shape[2]), A),
    "add/int8": case(lambda x: nn.add(x, 120), lambda x: x + np.int8(120), integers(4, dtype="int8"), exact=True),
    "add/float_to_integers": case(lambda x: x + 0.5, lambda x: x.astype(np.float32) + np.float32(0.5), I),
    "add/integer_to_bools": case(lambda x: x + 1, lambda x: x.astype(np.int64) + 1, L, exact=True),
    "subtract": case(nn.subtract, np.subtract, A, B),
    "subtract/reversed": case(lambda x: 1 - x, lambda x: 1 - x, A),
    "multiply": case(nn.multiply, np.multiply, A, B),
    "multiply/numbers": case(lambda x: 2 * x * 0.5, lambda x: x, A),
    "divide": case(nn.divide, np.divide, P, Q),
    "divide/integers": case(nn.divide, lambda a, b: (a / b).astype(np.float32), I, J),
    "divide/reversed": case(lambda x: 1 / x, lambda x: 1 / x, P),
    "floor_divide": case(nn.floor_divide, np.floor_divide, I, J, exact=True),
    "floor_divide/floats": case(lambda a: a // 0.5, lambda a: a // np.float32(0.5), A),
    "remainder": case(nn.remainder, np.remainder, I, J, exact=True),
    "remainder/floats": case(lambda a: a % -0.75, lambda a: a % np.float32(-0.75), A),
    "power": case(nn.power, np.power, P, B),
    "power/square": case(lambda x: x ** 2, lambda x: x * x, A),
    "power/reversed": case(lambda x: 2 ** x, lambda x: np.float32(2) ** x, A),
    "power/integers": case(lambda a: a ** 3, lambda a: a ** 3, I, exact=True),
    "maximum": case(nn.maximum, np.maximum, ODD, ODD[::-1].copy(), exact=True),
    "maximum/method": case(lambda a, b: a.maximum(b).maximum(0), lambda a, b: np.maximum(np.maximum(a, b), 0), A, B, exact=True),
    "minimum": case(nn.minimum, np.minimum, ODD, ODD[::-1].copy(), exact=True),
    "minimum/method": case(lambda a: a.minimum(2), lambda a: np.minimum(a, 2), I, exact=True),
    "less": case(nn.less, np.less, I, J, exact=True),
    "less/operator": case(lambda a, b: (a < b, a < 1, a > 1), lambda a, b: (a < b, a < 1, a > 1), I, J, exact=True),
    "less_equal": case(nn.less_equal, np.less_equal, I, J, exact=True),
    "less_equal/operator": case(lambda a, b: a <= b, lambda a, b: a <= b, A, B, exact=True),
    "greater": case(nn.greater, np.greater, I, J, exact=True),
    "greater/operator": case(lambda a: a > 0.5, lambda a: a > 0.5, A, exact=True),
    "greater_equal": case(nn.greater_equal, np.greater_equal, I, J, exact=True),
    "greater_equal/operator": case(lambda a: a >= 1, lambda a: a >= 1, I, exact=True),
    "equal": case(nn.equal, np.equal, I, J, exact=True),
    "equal/bools": case(nn.equal, np.equal, L, M, exact=True),
    "not_equal": case(nn.not_equal, np.not_equal, I, J, exact=True),
    "not_equal/nan": case(lambda x: nn.not_equal(x, x), lambda x: x != x, ODD, exact=True),
    "logical_and": case(nn.logical_and, np.logical_and, L, M, exact=True),
    "logical_or": case(nn.logical_or, np.logical_or, L, M, exact=True),
    "logical_or/operators": case(
        lambda a, b: (a & b, a | b, a ^ b, ~a), lambda a, b: (a & b, a | b, a ^ b, ~a), L, M, exact=True),
    "logical_xor": case(nn.logical_xor, np.logical_xor, L, M, exact=True),
    "atan2": case(nn.atan2, np.arctan2, A, B),
    "logical_not": case(nn.logical_not, np.logical_not, L, exact=True),
    "where": case(nn.where, np.where, L, A, B, exact=True),
    "where/integers": case(
        lambda c, a: nn.where(c, a, 0), lambda c, a: np.where(c != 0, a, 0), integers(2, 5, high=3), J, exact=True),
    "where/numbers": case(
        lambda c: nn.where(c, 1.0, 0.0), lambda c: np.where(c, 1.0, 0.0).astype(np.float32), L, exact=True),
    "masked_fill": case(
        lambda x, m: nn.masked_fill(x, m, -np.inf), lambda x, m: np.where(m, np.float32(-np.inf), x), A, M, exact=True),
    "clip": case(lambda x: nn.clip(x, -0.5, 1), lambda x: np.clip(x, -0.5, 1), A, exact=True),
    "clip/float_bounds_of_integers": case(
        lambda x: nn.clip(x, 0.5, None), lambda x: np.maximum(x.astype(np.float32), np.float32(0.5)), I, exact=True),
    "clip/nothing": case(nn.clip, lambda x: x, A, exact=True),
    "clip/below": case(lambda x: nn.clip(x, min=2), lambda x: np.maximum(x, 2), I, exact=True),
    "clip/tensors": case(nn.clip, np.clip, A, -Q, Q, exact=True),
    "astype": case(lambda x: nn.astype(x, "int32"), lambda x: x.astype(np.int32), A * 10, exact=True),
    "astype/bool": case(lambda x: x.astype("bool"), lambda x: x != 0, I, exact=True),
    "astype/half": case(lambda x: x.astype("float16"), lambda x: x.astype(np.float16), A, exact=True),
    "astype/saturated": case(
        lambda x: x.astype("int8"), lambda x: np.array([127, -128, 0], np.int8), np.array([1e9, -1e9, np.nan], np.float32),
        exact=True, grows=False),
}  # fmt: skip

UNARY: dict[str, Case] = {
    "negative": case(nn.negative, np.negative, A, exact=True),
    "negative/operator": case(lambda x: -x, np.negative, I, exact=True),
    "abs": case(nn.abs, np.abs, ODD, exact=True),
    "abs/operator": case(lambda x: abs(x), np.abs, I, exact=True),
    "sign": case(nn.sign, np.sign, ODD, exact=True),
    "floor": case(nn.floor, np.floor, ODD, exact=True),
    "ceil": case(nn.ceil, np.ceil, ODD, exact=True),
    "trunc": case(nn.trunc, np.trunc, ODD, exact=True),
    "isfinite": case(nn.isfinite, np.isfinite, ODD, exact=True),
    "exp2": case(nn.exp2, np.exp2, A),
    "log2": case(nn.log2, np.log2, P),
    "asin": case(nn.asin, np.arcsin, P),
    "acos": case(nn.acos, np.arccos, P),
    "atan": case(nn.atan, np.arctan, A),
    "sinh": case(nn.sinh, np.sinh, A),
    "cosh": case(nn.cosh, np.cosh, A),
    "round": case(nn.round, np.round, ODD, exact=True),
    "isnan": case(nn.isnan, np.isnan, ODD, exact=True),
    "isinf": case(nn.isinf, np.isinf, ODD, exact=True),
    "exp": case(nn.exp, np.exp, A),
    "expm1": case(nn.expm1, np.expm1, A * 1e-3),
    "log": case(nn.log, np.log, P),
    "log1p": case(nn.log1p, np.log1p, P * 1e-3),
    "sqrt": case(nn.sqrt, np.sqrt, P),
    "rsqrt": case(nn.rsqrt, lambda x: 1 / np.sqrt(x), P),
    "reciprocal": case(nn.reciprocal, lambda x: 1 / x, P),
    "sin": case(nn.sin, np.sin, A),
    "cos": case(nn.cos, np.cos, A),
    "tan": case(nn.tan, np.tan, A),
    "erf": case(nn.erf, erf, A),
    "tanh": case(nn.tanh, np.tanh, A),
    "square": case(nn.square, np.square, A),
    "square/integers": case(nn.square, np.square, I, exact=True),
    "relu": case(nn.relu, lambda x: np.maximum(x, 0), A, exact=True),
    "relu/integers": case(nn.relu, lambda x: np.maximum(x, 0), I, exact=True),
    "relu6": case(nn.relu6, lambda x: np.clip(x, 0, 6), A * 9, exact=True),
    "leaky_relu": case(lambda x: nn.leaky_relu(x, 0.2), lambda x: np.where(x > 0, x, np.float32(0.2) * x), A),
    "prelu": case(
        nn.prelu, lambda x, a: np.where(x > 0, x, a[:, None] * x), normal(2, 3, 5), np.array([0.1, 0.2, 0.3], np.float32)),
    "prelu/one": case(nn.prelu, lambda x, a: np.where(x > 0, x, a * x), normal(2, 3, 5), np.array([0.1], np.float32)),
    "elu": case(lambda x: nn.elu(x, 0.5), lambda x: np.where(x > 0, x, np.float32(0.5) * np.expm1(x)), A),
    "selu": case(
        nn.selu, lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)), A),
    "hardtanh": case(lambda x: nn.hardtanh(x, -0.5), lambda x: np.clip(x, -0.5, 1), A, exact=True),
    "softsign": case(nn.softsign, lambda x: x / (1 + np.abs(x)), A),
    "logsigmoid": case(nn.logsigmoid, lambda x: -np.log1p(np.exp(-x)), A),
    "silu": case(nn.silu, lambda x: x * sigmoid(x), A),
    "gelu": case(nn.gelu, lambda x: x * (1 + erf(x / np.float32(math.sqrt(2)))) / 2, A),
    "gelu/tanh": case(
        lambda x: nn.gelu(x, "tanh"),
        lambda x: x / 2 * (1 + np.tanh(np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x ** 3))), A),
    "sigmoid": case(nn.sigmoid, sigmoid, A),
    "hardsigmoid": case(nn.hardsigmoid, lambda x: np.clip(x / 6 + np.float32(0.5), 0, 1), A * 3),
    "hardswish": case(nn.hardswish, lambda x: x * np.clip(x / 6 + np.float32(0.5), 0, 1), A * 3),
    "mish": case(nn.mish, lambda x: x * np.tanh(np.log1p(np.exp(x))), A),
    "softplus": case(nn.softplus, lambda x: np.log1p(np.exp(x)), A),
    "softplus/threshold": case(
        lambda x: nn.softplus(x, 2.0, 1.0), lambda x: np.where(2 * x > 1, x, np.log1p(np.exp(2 * x)) / 2), A),
    "glu": case(lambda x: nn.glu(x, 0), lambda x: x[:2] * sigmoid(x[2:]), normal(4, 3), fixed=[4]),
    "softmax": case(nn.softmax, softmax, A * 90),
    "softmax/axis": case(lambda x: nn.softmax(x, -2), lambda x: softmax(x, -2), normal(2, 3, 5)),
    "log_softmax": case(lambda x: nn.log_softmax(x, 0), lambda x: np.log(softmax(x, 0)), normal(3, 5)),
}  # fmt: skip


def halves() -> dict[str, Case]:
    """Functions whose results are of the operands' element type, for the element types that are not float32."""
    functions: dict[str, tuple[Any, Any]] = {
        "add": (nn.add, np.add), "exp": (nn.exp, np.exp), "sqrt": (nn.sqrt, np.sqrt), "floor": (nn.floor, np.floor),
        "maximum": (nn.maximum, np.maximum), "relu": (nn.relu, lambda x: np.maximum(x, 0).astype(x.dtype)),
        "softmax": (nn.softmax, lambda x: softmax(x.astype(np.float64)).astype(x.dtype)),
        "tanh": (nn.tanh, np.tanh), "silu": (nn.silu, lambda x: (x * sigmoid(x.astype(np.float64))).astype(x.dtype)),
        "matmul": (nn.matmul, lambda a, b: (a.astype(np.float64) @ b.astype(np.float64)).astype(a.dtype)),
        "mean": (nn.mean, lambda x: x.astype(np.float64).mean().astype(x.dtype)),
    }  # fmt: skip
    found = {}
    for dtype in DTYPES:
        x, y = uniform(3, 5, dtype=dtype), uniform(5, 5, dtype=dtype, seed=1)
        for name, (own, other) in functions.items():
            inputs = [x, y[:3] if name != "matmul" else y][: 2 if name in ("add", "maximum", "matmul") else 1]
            found[f"{name}/{dtype}"] = case(own, other, *inputs)
    return found


X, Y = normal(2, 3, 5), integers(2, 3, 5, low=-4, high=5)

REDUCTIONS: dict[str, Case] = {
    "sum": case(nn.sum, np.sum, X),
    "sum/axis": case(lambda x: nn.sum(x, -2), lambda x: x.sum(-2), X),
    "sum/axes": case(lambda x: nn.sum(x, [0, -1], True), lambda x: x.sum((0, 2), keepdims=True), X),
    "sum/integers": case(lambda x: nn.sum(x, 1), lambda x: x.sum(1), Y, exact=True),
    "sum/bools": case(lambda x: nn.sum(x, 1), lambda x: x.sum(1), bools(3, 5), exact=True),
    "sum/nothing": case(lambda x: nn.sum(x, 0), lambda x: x.sum(0), normal(0, 3), exact=True),
    "mean": case(lambda x: nn.mean(x, (0, 2)), lambda x: x.mean((0, 2)), X),
    "mean/all": case(lambda x: nn.mean(x, keepdims=True), lambda x: x.mean(keepdims=True), X),
    "prod/bools": case(lambda x: nn.prod(x, 1), lambda x: x.astype(np.int64).prod(1), bools(3, 5), exact=True),
    "mean/integers": case(nn.mean, lambda x: x.mean().astype(np.float32), Y),
    "max/bools": case(lambda x: (nn.max(x, 0), nn.min(x, 1)), lambda x: (x.max(0), x.min(1)), bools(3, 5), exact=True),
    "max": case(lambda x: nn.max(x, 1), lambda x: x.max(1), X, exact=True),
    "max/all": case(nn.max, np.max, Y, exact=True),
    "min": case(lambda x: nn.min(x, [-1], True), lambda x: x.min(-1, keepdims=True), X, exact=True),
    "min/all": case(nn.min, np.min, Y, exact=True),
    "prod": case(lambda x: nn.prod(x, 2), lambda x: x.prod(2), X),
    "any": case(lambda x: nn.any(x, 1), lambda x: x.any(1), bools(3, 5), exact=True),
    "any/integers": case(nn.any, np.any, Y, exact=True),
    "all": case(lambda x: nn.all(x, -1, True), lambda x: x.all(-1, keepdims=True), bools(3, 5), exact=True),
    "all/floats": case(lambda x: nn.all(x, 0), lambda x: x.all(0), Y.astype(np.float32), exact=True),
    "var": case(lambda x: nn.var(x, -1), lambda x: x.var(-1), X),
    "var/correction": case(lambda x: nn.var(x, None, 1, True), lambda x: x.var(ddof=1, keepdims=True), X),
    "std": case(lambda x: nn.std(x, (0, 2), 1), lambda x: x.std((0, 2), ddof=1), X),
    "norm": case(lambda x: nn.norm(x, 2, -1), lambda x: np.linalg.norm(x, axis=-1), X),
    "var/integers": case(nn.var, lambda x: x.var().astype(np.float32), Y),
    "norm/integers": case(nn.norm, lambda x: np.sqrt((x * x).sum()).astype(np.float32), Y),
    "norm/one": case(lambda x: nn.norm(x, 1), lambda x: np.abs(x).sum(), X),
    "norm/infinite": case(lambda x: nn.norm(x, math.inf, 0), lambda x: np.abs(x).max(0), X),
    "norm/three": case(
        lambda x: nn.norm(x, 3, (0, 1), True),
        lambda x: (np.abs(x) ** 3).sum((0, 1), keepdims=True) ** np.float32(1 / 3), X),
    "logsumexp": case(
        lambda x: nn.logsumexp(x, 1), lambda x: np.log(np.exp(x - 90).sum(1)) + 90, X + 90),
    "logsumexp/all": case(nn.logsumexp, lambda x: np.log(np.exp(x).sum()), X),
    "argmax": case(lambda x: nn.argmax(x, -1), lambda x: x.argmax(-1), Y, exact=True),
    "argmax/flat": case(nn.argmax, lambda x: x.argmax(), Y, exact=True),
    "argmax/kept": case(
        lambda x: nn.argmax(x, None, True, "int32"), lambda x: x.argmax(keepdims=True).astype(np.int32), X, exact=True),
    "argmin": case(lambda x: nn.argmin(x, 1, True), lambda x: x.argmin(1, keepdims=True), Y, exact=True),
    "cumprod": case(lambda x: nn.cumprod(x, -1), lambda x: np.cumprod(x, -1), X),
    "cumprod/flat": case(
        lambda x: nn.cumprod(x, dtype="float64"), lambda x: np.cumprod(x, dtype=np.float64), integers(2, 3, low=1)),
    "cumsum": case(nn.cumsum, lambda x: np.cumsum(x), np.array([[1, 2, 3], [4, 5, 6]]), exact=True),
    "cumsum/dtype": case(
        lambda x: nn.cumsum(x, dtype="float32"), lambda x: np.cumsum(x, dtype=np.float32), np.array([[1, 2, 3], [4, 5, 6]]),
        exact=True),
    "cumsum/rows": case(lambda x: nn.cumsum(x, axis=0), lambda x: np.cumsum(x, 0), np.array([[1, 2, 3], [4, 5, 6]]), exact=True),
    "cumsum/columns": case(lambda x: nn.cumsum(x, axis=-1), lambda x: np.cumsum(x, -1), X),
    "cumsum/bools": case(
        lambda x: nn.cumsum(x, dtype="int32"), lambda x: np.cumsum(x, dtype=np.int32),
        np.array([1, 0, 1, 0, 1, 1, 0], bool), exact=True),
    "cumsum/exclusive": case(
        lambda x: nn.cumsum(x, 1, exclusive=True), lambda x: np.cumsum(x, 1) - x, Y, exact=True),
}  # fmt: skip

V, W = normal(5), normal(5, seed=1)

PRODUCTS: dict[str, Case] = {
    "matmul": case(nn.matmul, np.matmul, normal(3, 5), normal(5, 7)),
    "matmul/broadcast": case(nn.matmul, np.matmul, normal(2, 1, 3, 5), normal(4, 5, 7)),
    "matmul/operator": case(lambda a, b: a @ b, np.matmul, normal(2, 3, 5), normal(5, 7)),
    "matmul/vectors": case(nn.matmul, np.matmul, V, W),
    "matmul/vector_first": case(nn.matmul, np.matmul, V, normal(2, 5, 3)),
    "matmul/vector_last": case(nn.matmul, np.matmul, normal(2, 3, 5), V),
    "matmul/wide": case(
        lambda a, b: nn.matmul(a, b, "float32"), lambda a, b: a.astype(np.float32) @ b.astype(np.float32),
        normal(3, 5, dtype="float16"), normal(5, 7, dtype="float16")),
    "matmul/int8": case(
        lambda a, b: nn.matmul(a, b, "int32"), lambda a, b: a.astype(np.int32) @ b.astype(np.int32),
        integers(3, 5, low=-128, high=128, dtype="int8"), integers(5, 7, low=-128, high=128, dtype="int8"), exact=True),
    "linear": case(nn.linear, lambda x, w, b: x @ w.T + b, normal(2, 3, 5), normal(7, 5), normal(7)),
    "linear/vector": case(nn.linear, lambda x, w: x @ w.T, V, normal(7, 5)),
    "linear/wide": case(
        lambda x, w: nn.linear(x, w, None, "float32"), lambda x, w: x.astype(np.float32) @ w.T.astype(np.float32),
        normal(3, 5, dtype="float16"), normal(7, 5, dtype="float16")),
    "linear/wide_bias": case(
        lambda x, w, b: nn.linear(x, w, b, "float32"),
        lambda x, w, b: x.astype(np.float32) @ w.T.astype(np.float32) + b.astype(np.float32),
        normal(3, 5, dtype="float16"), normal(7, 5, dtype="float16"), normal(7, dtype="float16")),
    "einsum": case(
        lambda a, b: nn.einsum("bij,bkj->bik", a, b), lambda a, b: np.einsum("bij,bkj->bik", a, b), normal(2, 3, 5),
        normal(2, 7, 5)),
    "einsum/diagonal": case(lambda a: nn.einsum("ii->i", a), lambda a: np.einsum("ii->i", a), normal(5, 5), exact=True),
    "einsum/dots": case(
        lambda a, b: nn.einsum("...i,ij->...j", a, b), lambda a, b: np.einsum("...i,ij->...j", a, b), normal(2, 3, 5),
        normal(5, 7)),
    "outer": case(nn.outer, np.outer, V, normal(3)),
    "dot": case(nn.dot, np.dot, V, W),
    "cosine_similarity": case(
        nn.cosine_similarity, lambda a, b: (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1),
        normal(3, 5), normal(3, 5, seed=1)),
    "cosine_similarity/broadcast": case(
        lambda a, b: nn.cosine_similarity(a, b, 1),
        lambda a, b: (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1), normal(3, 5), normal(1, 5)),
    "normalize": case(nn.normalize, lambda x: x / np.linalg.norm(x, axis=1, keepdims=True), X),
    "normalize/zeros": case(lambda x: nn.normalize(x, axis=-1), lambda x: x, np.zeros((2, 3), np.float32), exact=True),
}  # fmt: skip

CASES = {**ARITHMETIC, **UNARY, **halves(), **REDUCTIONS, **PRODUCTS}


@pytest.mark.parametrize("name", CASES)
def test_functions(name: str) -> None:
    check(CASES[name])
