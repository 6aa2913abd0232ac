"""Functions of jax.numpy, lax, jax.scipy and jax.nn give what jax gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.scipy import special  # noqa: E402

from tests.frontends.stablehlo.against_jax import check  # noqa: E402

RNG = np.random.default_rng(0)


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


X, Y, T, V = numbers(4, 5), numbers(4, 5), numbers(2, 3, 4), numbers(7)
SQUARE = numbers(4, 4)
POSITIVE = np.abs(X) + 0.1
UNIT = np.tanh(X) * 0.9
COMPLEX = (numbers(3, 4) + 1j * numbers(3, 4)).astype("complex64")
K, J = RNG.integers(-20, 20, (4, 5)).astype("int32"), RNG.integers(1, 9, (4, 5)).astype("int32")
U = RNG.integers(0, 1 << 32, (4, 5), dtype=np.uint64).astype("uint32")
BOOL = X > 0
INDEX = np.array([3, 0, 2], "int32")
IMAGE, FILTER = numbers(2, 8, 8, 4), numbers(3, 3, 4, 6)

UNARY = {
    "abs": (jnp.abs, X),
    "acos": (jnp.arccos, UNIT),
    "acosh": (jnp.arccosh, POSITIVE + 1),
    "asin": (jnp.arcsin, UNIT),
    "asinh": (jnp.arcsinh, X),
    "atan": (jnp.arctan, X),
    "atanh": (jnp.arctanh, UNIT),
    "cbrt": (jnp.cbrt, X),
    "ceil": (jnp.ceil, X),
    "cos": (jnp.cos, X),
    "cosh": (jnp.cosh, X),
    "deg2rad": (jnp.deg2rad, X),
    "exp": (jnp.exp, X),
    "exp2": (jnp.exp2, X),
    "expm1": (jnp.expm1, X),
    "fix": (jnp.trunc, X),
    "floor": (jnp.floor, X),
    "isfinite": (jnp.isfinite, X),
    "isinf": (jnp.isinf, X),
    "isnan": (jnp.isnan, X),
    "log": (jnp.log, POSITIVE),
    "log10": (jnp.log10, POSITIVE),
    "log1p": (jnp.log1p, POSITIVE),
    "log2": (jnp.log2, POSITIVE),
    "negative": (jnp.negative, X),
    "reciprocal": (jnp.reciprocal, X),
    "rint": (jnp.rint, X * 3),
    "round": (lambda x: jnp.round(x, 1), X),
    "rsqrt": (lax.rsqrt, POSITIVE),
    "sign": (jnp.sign, X),
    "signbit": (jnp.signbit, X),
    "sin": (jnp.sin, X),
    "sinc": (jnp.sinc, X),
    "sinh": (jnp.sinh, X),
    "sqrt": (jnp.sqrt, POSITIVE),
    "square": (jnp.square, X),
    "tan": (jnp.tan, X),
    "tanh": (jnp.tanh, X),
    "frexp": (jnp.frexp, X),
    "modf": (jnp.modf, X),
    "nan_to_num": (jnp.nan_to_num, X),
    "invert": (jnp.invert, K),
    "logical_not": (jnp.logical_not, BOOL),
    "population_count": (lax.population_count, U),
    "clz": (lax.clz, U),
    "integer_pow": (lambda x: x**5, X),
    "is_finite": (lax.is_finite, np.array([1, np.inf, -np.inf, np.nan], "float32")),
    "round_afz": (lambda x: lax.round(x), np.array([0.5, 1.5, -0.5, 2.4], "float32")),
    "real": (jnp.real, COMPLEX),
    "imag": (jnp.imag, COMPLEX),
    "conj": (jnp.conj, COMPLEX),
    "angle": (jnp.angle, COMPLEX),
    "abs_complex": (jnp.abs, COMPLEX),
    "exp_complex": (jnp.exp, COMPLEX),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 3), X),
}
BINARY = {
    "add": (jnp.add, X, Y),
    "add_row": (jnp.add, X, X[0]),
    "arctan2": (jnp.arctan2, X, Y),
    "bitwise_and": (jnp.bitwise_and, K, J),
    "bitwise_or": (jnp.bitwise_or, K, J),
    "bitwise_xor": (jnp.bitwise_xor, K, J),
    "copysign": (jnp.copysign, X, Y),
    "divide": (jnp.divide, X, Y),
    "divmod": (jnp.divmod, K, J),
    "equal": (jnp.equal, K, J),
    "float_power": (jnp.float_power, POSITIVE, Y),
    "floor_divide": (jnp.floor_divide, X, Y),
    "floor_divide_int": (jnp.floor_divide, K, J),
    "fmax": (jnp.fmax, X, Y),
    "fmin": (jnp.fmin, X, Y),
    "fmod": (jnp.fmod, X, Y),
    "gcd": (jnp.gcd, K, J),
    "greater": (jnp.greater, X, Y),
    "heaviside": (jnp.heaviside, X, Y),
    "hypot": (jnp.hypot, X, Y),
    "ldexp": (jnp.ldexp, X, K),
    "left_shift": (jnp.left_shift, K, J),
    "logaddexp": (jnp.logaddexp, X, Y),
    "logical_xor": (jnp.logical_xor, BOOL, Y > 0),
    "maximum": (jnp.maximum, X, Y),
    "minimum": (jnp.minimum, X, Y),
    "mod": (jnp.mod, X, Y),
    "mod_int": (jnp.mod, K, J),
    "multiply": (jnp.multiply, X, Y),
    "nextafter": (jnp.nextafter, X, Y),
    "power": (jnp.power, POSITIVE, Y),
    "power_int": (jnp.power, K, J),
    "remainder_int": (lax.rem, K, J),
    "right_shift": (jnp.right_shift, K, J),
    "right_shift_logical": (lax.shift_right_logical, U, J.astype("uint32")),
    "subtract": (jnp.subtract, X, Y),
    "where": (lambda x, y: jnp.where(x > 0, x, y), X, Y),
    "clamp": (lambda x, y: lax.clamp(-0.5, x, 0.5) + y, X, Y),
    "select_n": (lambda i, x: lax.select_n(i % 3, x, x + 1, x * 2), J, X),
    "complex": (lax.complex, X, Y),
    "multiply_complex": (jnp.multiply, COMPLEX, COMPLEX[0]),
    "polyval": (jnp.polyval, V, X),
    "interp": (lambda x, y: jnp.interp(x, jnp.sort(y[0]), y[1]), X, Y),
}
REDUCTIONS = {
    "all": (lambda x: jnp.all(x, 0), BOOL),
    "any": (lambda x: jnp.any(x, 1), BOOL),
    "argmax": (lambda x: jnp.argmax(x, 1), X),
    "argmin": (jnp.argmin, X),
    "argmax_nan": (jnp.argmax, np.array([1, np.nan, 3], "float32")),
    "average": (jnp.average, X),
    "bincount": (lambda i: jnp.bincount(i, length=10), J.reshape(-1)),
    "count_nonzero": (jnp.count_nonzero, K),
    "cumprod": (lambda x: jnp.cumprod(x, 1), X),
    "cumsum": (lambda x: jnp.cumsum(x, 0), X),
    "cummax": (lambda x: lax.cummax(x, 1), X),
    "cummin": (lambda x: lax.cummin(x, 0, reverse=True), X),
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, 1), X),
    "diff": (lambda x: jnp.diff(x, axis=1), X),
    "logsumexp": (lambda x: special.logsumexp(x, 1), X),
    "max": (lambda x: x.max(1), X),
    "mean": (lambda x: x.mean((0, 1)), T),
    "median": (lambda x: jnp.median(x, 1), X),
    "min": (lambda x: x.min(), X),
    "nanmean": (jnp.nanmean, X),
    "norm": (jnp.linalg.norm, X),
    "percentile": (lambda x: jnp.percentile(x, 30.0, axis=1), X),
    "prod": (lambda x: x.prod(0), X),
    "ptp": (jnp.ptp, X),
    "std": (lambda x: x.std(1), X),
    "sum": (lambda x: x.sum((0, 2)), T),
    "sum_bfloat16": (lambda x: x.astype("bfloat16").sum(1), X),
    "trapezoid": (jnp.trapezoid, X),
    "var": (lambda x: x.var(0), X),
    "reduce_xor": (lambda i: lax.reduce(i, np.int32(0), lax.bitwise_xor, (1,)), K),
    "reduce_and": (lambda i: lax.reduce(i, np.int32(-1), lax.bitwise_and, (0,)), K),
    "reduce_any_body": (lambda x: lax.reduce(x, np.float32(0), lambda a, b: jnp.hypot(a, b), (0, 2)), T),
    "reduce_two": (
        lambda x: lax.reduce((x, x), (np.float32(0), np.float32(-9)), lambda a, b: (a[0] + b[0], jnp.maximum(a[1], b[1])), (1,)),
        X,
    ),
    "associative_scan": (lambda x: lax.associative_scan(jnp.multiply, x), X),
    "histogram": (lambda x: jnp.histogram(x, 4)[0], X),
    "cov": (jnp.cov, X),
    "corrcoef": (jnp.corrcoef, X),
}
SHAPES = {
    "broadcast_to": (lambda x: jnp.broadcast_to(x, (3, 4, 5)), X),
    "concatenate": (lambda x: jnp.concatenate([x, x], 1), X),
    "diag": (jnp.diag, V),
    "diagonal": (jnp.diagonal, SQUARE),
    "expand_dims": (lambda x: x[:, None], X),
    "eye": (lambda x: x + jnp.eye(4), SQUARE),
    "flip": (jnp.flip, X),
    "iota": (lambda x: x + lax.iota("float32", 5), X),
    "kron": (jnp.kron, X[:2], X[:2]),
    "linspace": (lambda x: jnp.linspace(x[0], x[1], 6), V),
    "meshgrid": (lambda x: jnp.meshgrid(x, x[:3]), V),
    "moveaxis": (lambda x: jnp.moveaxis(x, 0, 2), T),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 1))), X),
    "pad_edge": (lambda x: jnp.pad(x, 2, mode="edge"), X),
    "pad_reflect": (lambda x: jnp.pad(x, 2, mode="reflect"), X),
    "pad_interior": (lambda x: lax.pad(x, 1.0, ((1, -1, 2), (-2, 3, 0))), X),
    "ravel": (jnp.ravel, T),
    "repeat": (lambda x: jnp.repeat(x, 3, 1), X),
    "reshape": (lambda x: x.reshape(6, 4), T),
    "roll": (lambda x: jnp.roll(x, 2, 1), X),
    "rot90": (jnp.rot90, X),
    "slice": (lambda x: x[1:3, ::2], X),
    "slice_negative": (lambda x: x[::-1, -2:], X),
    "split": (lambda x: jnp.split(x, 2), X),
    "squeeze": (lambda x: jnp.squeeze(x[:1]), X),
    "stack": (lambda x: jnp.stack([x, x + 1], 1), X),
    "tile": (lambda x: jnp.tile(x, (2, 3)), X),
    "transpose": (lambda x: x.transpose(2, 0, 1), T),
    "tril": (jnp.tril, SQUARE),
    "triu": (lambda x: jnp.triu(x, 1), SQUARE),
    "vander": (lambda x: jnp.vander(x, 4), V),
    "bitcast": (lambda x: lax.bitcast_convert_type(x, "int32"), X),
    "bitcast_narrow": (lambda x: lax.bitcast_convert_type(x, "uint8"), X),
    "bitcast_wide": (lambda x: lax.bitcast_convert_type(x, "uint32"), J.astype("uint16").reshape(10, 2)),
    "astype": (
        lambda x: (x.astype("int8"), x.astype("bool"), x.astype("bfloat16"), x.astype("float16"), x.astype("complex64")),
        X,
    ),
    "unravel_index": (lambda i: jnp.unravel_index(i, (5, 4)), INDEX),
    "convolve": (jnp.convolve, V, V[:3]),
    "cross": (jnp.cross, X[:, :3], Y[:, :3]),
    "float8": (lambda x: x.astype("float8_e4m3fn").astype("float32"), X),
}
INDEXING = {
    "take": (lambda x, i: jnp.take(x, i, 0), X, INDEX),
    "take_clip": (lambda x, i: jnp.take(x, i * 3, 1, mode="clip"), X, INDEX),
    "take_along_axis": (lambda x, i: jnp.take_along_axis(x, i[:, None], 1), X[:3], INDEX),
    "rows": (lambda x, i: x[i], X, INDEX),
    "columns": (lambda x, i: x[:, i], X, INDEX),
    "pairs": (lambda x, i: x[i, i + 1], X, INDEX),
    "mixed": (lambda x, i: x[i, :, i], numbers(4, 3, 4), INDEX),
    "scalar": (lambda x, i: x[i[0]], X, INDEX),
    "window": (lambda x, i: lax.dynamic_slice(x, (i[0], i[2]), (2, 3)), X, INDEX),
    "batched_rows": (jax.vmap(lambda x, i: x[i]), numbers(3, 4, 5), np.array([[0, 1], [2, 1], [3, 3]], "int32")),
    "batched_windows": (
        jax.vmap(lambda x, i: lax.dynamic_slice(x, (i[0], i[1]), (2, 3))),
        numbers(3, 4, 5),
        np.array([[0, 1], [2, 1], [3, 3]], "int32"),
    ),
    "set": (lambda x, i: x.at[i].set(1.0), X, INDEX),
    "add_at": (lambda x, i: x.at[i].add(x[:3]), X, INDEX),
    "repeated_add": (lambda x, i: x.at[i * 0].add(1.0), X, INDEX),
    "multiply_at": (lambda x, i: x.at[:, i].multiply(3.0), X, INDEX),
    "max_at": (lambda x, i: x.at[i, i].max(0.5), X, INDEX),
    "min_at": (lambda x, i: x.at[i].min(x[0]), X, INDEX),
    "apply_at": (lambda x, i: x.at[i].apply(jnp.sin), X, INDEX),
    "set_slice": (lambda x, i: x.at[1:3, 2:4].set(i[0] * 1.0), X, INDEX),
    "dropped": (lambda x, i: x.at[i + 2].set(1.0), X, INDEX),
    "batched_add": (jax.vmap(lambda x, i: x.at[i].add(1.0)), numbers(3, 4, 5), np.array([[0, 1], [2, 1], [3, 3]], "int32")),
    "bool_or_at": (lambda x, i: x.at[i].max(x[:3]), BOOL, INDEX),
    "update_slice": (lambda x, i: lax.dynamic_update_slice(x, x[:2, :2], (i[0], i[1])), X, INDEX),
    "searchsorted": (lambda x, y: jnp.searchsorted(jnp.sort(x), y), V, X),
    "one_hot": (lambda i: jax.nn.one_hot(i, 6), INDEX),
    "choose": (lambda i, x: jnp.choose(i % 2, [x[0], x[1]], mode="clip"), np.arange(5, dtype="int32"), X),
    "nonzero": (lambda x: jnp.nonzero(x > 0, size=8), V),
    "unique": (lambda i: jnp.unique(i, size=8, fill_value=0), J[0]),
    "segment_sum": (lambda x, i: jax.ops.segment_sum(x[:3], i, 4), X, INDEX),
    "digitize": (lambda x: jnp.digitize(x, jnp.array([-1.0, 0.0, 1.0])), X),
    "select": (lambda x: jnp.select([x > 1, x > 0], [x, x * 2], 9.0), X),
    "piecewise": (lambda x: jnp.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v * 2]), V),
}
SORTS = {
    "argsort": (lambda x: jnp.argsort(x, 1), X),
    "argsort_descending": (lambda x: jnp.argsort(x, descending=True), X),
    "lexsort": (lambda i, x: jnp.lexsort((x[0], i[0])), J, X),
    "sort": (lambda x: jnp.sort(x, 0), X),
    "sort_bool": (jnp.sort, BOOL),
    "sort_int": (jnp.sort, K),
    "sort_nan": (jnp.sort, np.array([3, np.nan, -np.inf, 1, -0.0, 0.0], "float32")),
    "sort_pairs": (lambda x: lax.sort((x, x * 2), num_keys=1), X),
    "sort_two_keys": (lambda i, x: lax.sort((i % 3, x), num_keys=2), J, X),
    "top_k": (lambda x: lax.top_k(x, 3), X),
    "median": (jnp.median, X),
    "partition": (lambda x: jnp.partition(x, 3)[:3].sort(), V),
    "sort_complex": (jnp.sort, COMPLEX[0].real),
    "approx_max_k": (lambda x: lax.approx_max_k(x, 2), X),
}
PRODUCTS = {
    "batched": (jnp.matmul, T, T.swapaxes(1, 2)),
    "dot": (jnp.dot, X, X.T),
    "dot_integers": (lambda a, b: lax.dot(a, b.T, preferred_element_type="int32"), K.astype("int8"), J.astype("int8")),
    "einsum": (lambda a, b: jnp.einsum("bij,ckj->bcik", a, b), T, T),
    "einsum_trace": (lambda a: jnp.einsum("ii->i", a), SQUARE),
    "inner": (jnp.inner, X, Y),
    "outer": (jnp.outer, V, V),
    "tensordot": (lambda a, b: jnp.tensordot(a, b, ((0, 2), (0, 2))), T, T),
    "transposed": (lambda a, b: (a.T @ b, a @ b.T), X, Y),
    "vdot": (jnp.vdot, V, V),
    "vector": (jnp.matmul, X, V[:5]),
    "bfloat16": (lambda a, b: lax.dot(a.astype("bfloat16"), b.T.astype("bfloat16"), preferred_element_type="float32"), X, Y),
    "complex": (jnp.matmul, COMPLEX, COMPLEX.T),
    "convolution": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        IMAGE,
        FILTER,
    ),
    "convolution_nchw": (lambda x, w: lax.conv(x, w, (1, 1), "VALID"), IMAGE.transpose(0, 3, 1, 2), FILTER.transpose(3, 2, 0, 1)),
    "convolution_dilated": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), ((1, 2), (-1, 1)), (2, 1), (1, 2), ("NHWC", "HWIO", "NCHW")),
        IMAGE,
        FILTER,
    ),
    "convolution_grouped": (
        lambda x, w: lax.conv_general_dilated(
            x, w[:, :, :2], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=2
        ),
        IMAGE,
        FILTER,
    ),
    "convolution_batch_groups": (
        lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), batch_group_count=2
        ),
        IMAGE,
        FILTER,
    ),
    "convolution_transposed": (lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), IMAGE, FILTER),
    "convolution_gradient": (
        lambda x, w: jax.grad(
            lambda x, w: (lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) ** 2).sum(),
            (0, 1),
        )(x, w),
        IMAGE,
        FILTER,
    ),
    "convolution_1d": (lambda x, w: lax.conv_general_dilated(x, w, (2,), "SAME"), numbers(2, 3, 9), numbers(4, 3, 3)),
    "convolution_3d": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1, 1), "VALID"),
        numbers(1, 2, 4, 4, 4),
        numbers(3, 2, 2, 2, 2),
    ),
}
WINDOWS = {
    "avg_pool": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 3, 1), (1, 1, 2, 1), "VALID"), IMAGE),
    "max_pool": (lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), IMAGE),
    "min_pool_dilated": (
        lambda x: lax.reduce_window(x, np.inf, lax.min, (1, 2, 2, 1), (1, 1, 1, 1), "VALID", (1, 2, 1, 1), (1, 1, 2, 1)),
        IMAGE,
    ),
    "any_body": (lambda x: lax.reduce_window(x, 0.0, lambda a, b: a * b + a + b, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), IMAGE),
    "max_pool_gradient": (
        jax.grad(lambda x: (lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2).sum()),
        IMAGE,
    ),
    "no_windows": (lambda x: lax.reduce_window(x, 0.0, lax.add, (5,), (1,), "VALID"), V[:3]),
    "no_windows_gradient": (jax.grad(lambda x: lax.reduce_window(x, -np.inf, lax.max, (5,), (1,), "VALID").sum()), V[:3]),
    "resize": (lambda x: jax.image.resize(x, (2, 12, 5, 4), "linear"), IMAGE),
    "resize_nearest": (lambda x: jax.image.resize(x, (2, 12, 16, 4), "nearest"), IMAGE),
    "patches": (lambda x: lax.conv_general_dilated_patches(x, (2, 2), (1, 1), "VALID"), IMAGE),
}
CONTROL = {
    "cond": (lambda x, p: lax.cond(p, lambda v: v * 2, lambda v: v - 1, x), X, np.bool_(True)),
    "switch": (lambda x, i: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan, jnp.exp, jnp.abs], x), X, np.int32(3)),
    "switch_out_of_range": (lambda x, i: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x), X, np.int32(-7)),
    "fori": (lambda x: lax.fori_loop(0, 4, lambda i, c: c + x[i], jnp.zeros(5)), X),
    "map": (lambda x: lax.map(lambda r: r.sum(), x), X),
    "scan": (lambda x: lax.scan(lambda c, y: (c + y, c * y), jnp.zeros(5), x), X),
    "scan_reverse": (lambda x: lax.scan(lambda c, y: (c + y, c * y), jnp.zeros(5), x, reverse=True), X),
    "while": (lambda x: lax.while_loop(lambda c: c[1] < 5, lambda c: (c[0] * x, c[1] + 1), (x, 0)), X),
    "while_on_data": (lambda x: lax.while_loop(lambda c: jnp.abs(c).max() > 0.1, lambda c: c / 2, x), X),
    "nested": (
        lambda x: lax.fori_loop(
            0, 3, lambda i, c: lax.cond(i > 1, lambda v: v + i, lambda v: lax.fori_loop(0, 2, lambda j, w: w * 1.5 + j, v), c), x
        ),
        X,
    ),
    "custom_jvp": (jax.nn.relu, X),
    "remat": (jax.grad(lambda x: jax.checkpoint(jnp.sin)(x).sum()), X),
    "vmap": (jax.vmap(lambda x: jnp.outer(x, x)), X),
    "gradient": (jax.grad(lambda x: jnp.tanh(x @ x.T).sum()), SQUARE),
    "jacobian": (jax.jacobian(lambda x: jnp.sin(x) * x[0]), V),
    "hessian": (jax.hessian(lambda x: (x**3).sum()), V),
}
LINALG = {
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(4)), SQUARE),
    "cholesky_failing": (lambda x: jnp.isnan(jnp.linalg.cholesky(-jnp.eye(4) + x * 0)[3, 3]), SQUARE),
    "det": (jnp.linalg.det, SQUARE),
    "eigh": (lambda x: jnp.linalg.eigvalsh(x @ x.T), SQUARE),
    "inv": (jnp.linalg.inv, SQUARE),
    "lstsq": (lambda x, y: jnp.linalg.lstsq(x, y)[0], X.T, V[:5]),
    "lu": (lambda x: jax.scipy.linalg.lu(x), SQUARE),
    "matrix_power": (lambda x: jnp.linalg.matrix_power(x, 3), SQUARE),
    "pinv": (jnp.linalg.pinv, X),
    "qr": (lambda x: (lambda q, r: (q @ r, jnp.abs(r)))(*jnp.linalg.qr(x)), X),
    "slogdet": (jnp.linalg.slogdet, SQUARE),
    "solve": (jnp.linalg.solve, SQUARE, SQUARE[0]),
    "solve_triangular": (lambda a, b: jax.scipy.linalg.solve_triangular(a, b, trans=1, lower=True), SQUARE, SQUARE[0]),
    "svd": (lambda x: jnp.linalg.svd(x)[1], X),
    "expm": (jax.scipy.linalg.expm, SQUARE * 0.3),
    "fft": (jnp.fft.fft, X),
    "fft2": (jnp.fft.ifft2, X),
    "fftn": (jnp.fft.fftn, T),
    "irfft": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x)), X),
    "rfft": (jnp.fft.rfft, X),
    "fftshift": (jnp.fft.fftshift, X),
    "batched_solve": (jnp.linalg.solve, numbers(2, 3, 3), numbers(2, 3, 2)),
    "cho_solve": (lambda x, y: jax.scipy.linalg.cho_solve((jnp.eye(4) * 2 + jnp.tril(x, -1) * 0.1, True), y), SQUARE, SQUARE[0]),
}
AT_POLES = np.array([0.5, 1.5, -0.5, 0, -1, -3, 20, 0.1, -0.0], "float32")
SPECIAL = {
    "digamma_at_poles": (lax.digamma, AT_POLES),
    **{f"polygamma_{n}": (lax.polygamma, np.full_like(AT_POLES, n), AT_POLES) for n in (0, 1, 2, 3, 1.5, -1)},
    **{f"zeta_{x}_at_poles": (lax.zeta, np.full_like(AT_POLES, x), AT_POLES) for x in (0.5, 1, 1.5, 2, 3)},
    "betainc": (lambda x: special.betainc(1.5, 2.0, x), np.abs(UNIT)),
    "digamma": (special.digamma, POSITIVE),
    "entr": (special.entr, POSITIVE),
    "erf": (special.erf, X),
    "erfc": (special.erfc, X),
    "erfinv": (special.erfinv, UNIT),
    "expit": (special.expit, X),
    "gammainc": (special.gammainc, POSITIVE, POSITIVE[::-1]),
    "gammaln": (special.gammaln, POSITIVE),
    "i0": (special.i0, X),
    "i0e": (special.i0e, X),
    "i1": (special.i1, X),
    "i1e": (special.i1e, X),
    "log_ndtr": (special.log_ndtr, X),
    "logit": (special.logit, np.abs(UNIT)),
    "ndtr": (special.ndtr, X),
    "ndtri": (special.ndtri, np.abs(UNIT) + 0.05),
    "xlogy": (special.xlogy, X, POSITIVE),
    "xlog1py": (special.xlog1py, X, POSITIVE),
    "norm_logpdf": (jax.scipy.stats.norm.logpdf, X),
}
NETWORKS = {
    "celu": (jax.nn.celu, X),
    "elu": (jax.nn.elu, X),
    "gelu": (jax.nn.gelu, X),
    "gelu_exact": (lambda x: jax.nn.gelu(x, approximate=False), X),
    "glu": (lambda x: jax.nn.glu(x[:, :4]), X),
    "hard_swish": (jax.nn.hard_swish, X),
    "leaky_relu": (jax.nn.leaky_relu, X),
    "log_sigmoid": (jax.nn.log_sigmoid, X),
    "log_softmax": (jax.nn.log_softmax, X),
    "logsumexp": (jax.nn.logsumexp, X),
    "relu6": (jax.nn.relu6, X),
    "selu": (jax.nn.selu, X),
    "sigmoid": (jax.nn.sigmoid, X),
    "silu": (jax.nn.silu, X),
    "soft_sign": (jax.nn.soft_sign, X),
    "softmax": (jax.nn.softmax, X),
    "softplus": (jax.nn.softplus, X),
    "standardize": (jax.nn.standardize, X),
    "attention": (lambda q, k: jax.nn.dot_product_attention(q, k, k, is_causal=True), numbers(2, 5, 3, 8), numbers(2, 5, 3, 8)),
    "uniform": (lambda s: jax.random.uniform(jax.random.key(s), (3, 4)), np.int32(3)),
    "normal": (lambda s: jax.random.normal(jax.random.key(s), (5,)), np.int32(4)),
    "bernoulli": (lambda s: jax.random.bernoulli(jax.random.key(s), 0.3, (9,)), np.int32(4)),
    "randint": (lambda s: jax.random.randint(jax.random.key(s), (9,), 0, 100), np.int32(4)),
    "permutation": (lambda s: jax.random.permutation(jax.random.key(s), 9), np.int32(4)),
    "categorical": (lambda x: jax.random.categorical(jax.random.key(0), x), X),
    "split": (lambda s: jax.random.key_data(jax.random.split(jax.random.key(s), 3)), np.int32(1)),
    "rng_bit_generator": (lambda k: lax.rng_bit_generator(k, (4, 6)), np.array([1, 2, 3, 4], "uint32")),
    "truncated_normal": (lambda s: jax.random.truncated_normal(jax.random.key(s), -1.0, 1.0, (5,)), np.int32(4)),
    "gamma": (lambda s: jax.random.gamma(jax.random.key(s), 2.0, (3,)), np.int32(4)),
}
COMPLEX_FUNCTIONS = (
    "log sqrt sin cos tan sinh cosh tanh expm1 log1p arcsin arctan arctanh sign square reciprocal negative sum prod mean sort"
).split()
ALGORITHMS = {"three_fry": "RNG_THREE_FRY", "philox": "RNG_PHILOX", "default": "RNG_DEFAULT"}
EMPTY, SMALL = np.zeros((0, 4), "float32"), RNG.integers(-128, 128, (3, 4)).astype("int8")
TYPES = {
    **{f"complex_{name}": (getattr(jnp, name), COMPLEX) for name in COMPLEX_FUNCTIONS},
    **{
        f"{name}_{dtype}": (
            lambda k, a=algorithm, d=dtype: lax.rng_bit_generator(k, (3, 5), d, getattr(lax.RandomAlgorithm, a)),
            np.array([1, 2, 3, 4], "uint32"),
        )
        for name, algorithm in ALGORITHMS.items()
        for dtype in ("uint8", "uint16", "uint32")
    },
    "complex_power": (jnp.power, COMPLEX, COMPLEX),
    "complex_solve": (jnp.linalg.solve, COMPLEX[:, :3], COMPLEX[:, :1]),
    "empty": (
        lambda x: (x.sum(0), x.max(1), jnp.concatenate([x, x]), x.T @ x, jnp.sort(x, 0), x.mean(1), jnp.argmax(x, 1)),
        EMPTY,
    ),
    "empty_index": (lambda x, i: (x[i], x.at[i].add(1.0)), X, np.zeros((0,), "int32")),
    "empty_scan": (lambda x: lax.scan(lambda c, y: (c + y, c), jnp.zeros(4), x), EMPTY),
    "int8": (
        lambda x: (x + x, x * x, x // 3, x % 3, -x, jnp.abs(x), x.sum(), x >> 1, x.astype("uint8"), jnp.clip(x, -5, 5)),
        SMALL,
    ),
    "int4": (lambda x: (x.astype("int4") + 1).astype("int8"), SMALL // 32),
    "float16": (lambda x: (jnp.exp(x), x.sum(), x @ x.T, jax.nn.softmax(x), jnp.sort(x)), X.astype("float16")),
    "out_of_range": (
        lambda x: (x.astype("int32"), x.astype("uint8"), x.astype("bool")),
        np.array([1e20, -1e20, np.nan, np.inf, -3.7, 3.7, 300], "float32"),
    ),
    "nan": (
        lambda x, y: (jnp.maximum(x, y), jnp.minimum(x, y), jnp.max(x), jnp.fmax(x, y)),
        np.array([np.nan, 1, -0.0, 0], "float32"),
        np.array([0, np.nan, 0.0, -0.0], "float32"),
    ),
    "order": (
        lambda x: (jnp.argsort(x), jnp.argsort(x, descending=True), lax.top_k(x, 4)),
        np.array([1, 0, 1, -0.0, 0, 1, np.nan, -np.inf], "float32"),
    ),
    "ragged_dot": (lax.ragged_dot, numbers(6, 4), numbers(3, 4, 5), np.array([1, 3, 2], "int32")),
    "stft": (lambda x: jax.scipy.signal.stft(x.reshape(-1), nperseg=4)[2], X),
    "map_coordinates": (lambda x: jax.scipy.ndimage.map_coordinates(x, [x[0], x[1]], 1), X),
}
FAMILIES: dict[str, dict[str, tuple[Any, ...]]] = {
    "unary": UNARY,
    "binary": BINARY,
    "reductions": REDUCTIONS,
    "shapes": SHAPES,
    "indexing": INDEXING,
    "sorts": SORTS,
    "products": PRODUCTS,
    "windows": WINDOWS,
    "control": CONTROL,
    "linalg": LINALG,
    "special": SPECIAL,
    "networks": NETWORKS,
    "types": TYPES,
}
CASES = [
    (f"{family}-{name}", function, arguments)
    for family, functions in FAMILIES.items()
    for name, (function, *arguments) in functions.items()
]


@pytest.mark.parametrize(("function", "arguments"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_equals_jax(function: Callable[..., Any], arguments: list[Any]) -> None:
    check(function, *arguments, targets=["reference"])


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("function", "arguments"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_compiled_code_equals_jax(function: Callable[..., Any], arguments: list[Any]) -> None:
    check(function, *arguments, targets=["llvm"])


def test_tangents_of_windows_that_reach_into_padding() -> None:
    """Where the compiler compares indices it also meets comparisons with infinity."""
    pool = partial(
        lax.reduce_window, init_value=np.float32(-np.inf), computation=lax.max, window_dimensions=(2, 2, 2),
        window_strides=(1, 1, 1), padding="SAME")
    check(lambda x, tangent: jax.jvp(pool, (x,), (tangent,)), numbers(2, 1, 3), numbers(2, 1, 3))
