"""Functions of jax, and the shapes of what they take: what the readers are tried on."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np
from jax import export, lax

Shape = Any
UNARY = (
    "abs acos acosh angle arctan argmax argsort asin asinh atanh bitwise_count cbrt ceil conj cos cosh cumprod cumsum "
    "deg2rad diag diff exp exp2 expm1 fabs flip floor i0 imag isfinite isinf isnan log log10 log1p log2 max mean "
    "median nan_to_num nanmax negative positive prod ptp ravel real reciprocal rint round sign signbit sin sinc sinh "
    "sort sqrt square std sum tan tanh trace transpose tril trunc unwrap var").split()
BINARY = (
    "add arctan2 bitwise_and cross divide dot equal float_power floor_divide fmod greater heaviside hypot inner kron "
    "left_shift less_equal logaddexp matmul maximum minimum multiply nextafter not_equal outer power remainder "
    "subtract vdot").split()
INTEGERS = ("bitwise_count", "bitwise_and", "left_shift")
SPECIAL = "betainc digamma entr erf erfc erfinv expit gammaln i1e log_ndtr logit logsumexp ndtri xlogy zeta".split()
SPECIAL_ARGUMENTS = {"betainc": 3, "xlogy": 2, "zeta": 2}


def _while(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x))


def _scan(x: Any) -> Any:
    return lax.scan(lambda c, row: (c + row, c * row), x[0], x)


def _nested(x: Any) -> Any:
    def inner(count: Any, x: Any) -> Any:
        return lax.fori_loop(0, count, lambda _, c: c + 1.0, x)

    return lax.fori_loop(0, 3, lambda i, c: lax.cond(i > 1, partial(inner, i), jnp.cos, c), x)


def _convolution(x: Any, w: Any, **options: Any) -> Any:
    return lax.conv_general_dilated(x, w, **{"window_strides": (1, 1), "padding": "SAME", **options})


def _composite(x: Any) -> Any:
    return lax.composite(lambda v, *, scale: jnp.sin(v) * scale, name="my.scaled")(x, scale=np.float32(2.0))


def _reduce_two(x: Any) -> Any:
    return lax.reduce((x, x), (np.float32(0), np.float32(1)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,))


OTHERS: dict[str, tuple[Callable[..., Any], list[Shape]]] = {
    "while": (_while, [(3,)]),
    "scan": (_scan, [(3, 4)]),
    "nested": (_nested, [(3,)]),
    "switch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x), ["i32", (3,)]),
    "custom_jvp": (jax.nn.gelu, [(3, 4)]),
    "softmax": (jax.nn.softmax, [(3, 4)]),
    "grad": (jax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2)), [(3, 4)]),
    "conv_same": (_convolution, [(1, 3, 8, 8), (4, 3, 3, 3)]),
    "conv_dilated": (
        partial(_convolution, lhs_dilation=(2, 2), rhs_dilation=(2, 1), padding=((1, 2), (0, 3))), [(1, 3, 8, 8), (4, 3, 3, 3)]),
    "conv_nhwc": (partial(_convolution, dimension_numbers=("NHWC", "HWIO", "NHWC")), [(1, 8, 8, 3), (3, 3, 3, 4)]),
    "conv_groups": (partial(_convolution, feature_group_count=3), [(1, 3, 8, 8), (6, 1, 3, 3)]),
    "conv_batch_groups": (partial(_convolution, batch_group_count=2), [(2, 3, 8, 8), (4, 3, 3, 3)]),
    "conv_gradient": (jax.grad(lambda w, x: jnp.sum(_convolution(x, w)), argnums=0), [(4, 3, 3, 3), (1, 3, 8, 8)]),
    "dot_general": (lambda a, b: lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,)))), [(2, 3, 4), (2, 4, 5)]),
    "dot_precise": (lambda a, b: lax.dot(a, b, precision="highest"), [(3, 4), (4, 5)]),
    "dot_algorithm": (lambda a, b: lax.dot(a, b, precision="BF16_BF16_F32_X3"), [(3, 4), (4, 5)]),
    "einsum": (partial(jnp.einsum, "bij,bjk->bik"), [(2, 3, 4), (2, 4, 5)]),
    "gather": (lambda x, i: x[i], [(5, 4), "i32:2,3"]),
    "take_along": (lambda x, i: jnp.take_along_axis(x, i, 1), [(3, 4), "i32:3,2"]),
    "scatter_add": (lambda x, i: x.at[i].add(1.0), [(5, 4), "i32:2"]),
    "scatter_max": (lambda x, i: x.at[:, i].max(0.0), [(5, 4), "i32:2"]),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, i), (2, 2)), [(5, 4), "i32"]),
    "dynamic_update": (lambda x, i: lax.dynamic_update_slice(x, x[:2, :2], (i, 0)), [(5, 4), "i32"]),
    "slice": (lambda x: lax.slice(x, (0, 1), (5, 4), (2, 1)), [(5, 4)]),
    "pad": (lambda x: lax.pad(x, np.float32(-np.inf), ((1, 2, 0), (-1, 0, 1))), [(5, 4)]),
    "concatenate": (lambda a, b: jnp.concatenate([a, b, a], 1), [(3, 4), (3, 2)]),
    "where": (lambda a, b: jnp.where(a > b, a, 0.0), [(3, 4), (3, 4)]),
    "clip": (lambda x: lax.clamp(-1.0, x, 1.0), [(3, 4)]),
    "reverse": (lambda x: lax.rev(x, (1,)), [(3, 4)]),
    "iota": (lambda x: x + lax.broadcasted_iota(jnp.float32, (3, 4), 1), [(3, 4)]),
    "reduce_window": (lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2), (1, 2), "SAME"), [(3, 5)]),
    "select_and_scatter": (
        jax.grad(lambda x: jnp.sum(lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "VALID"))), [(4, 4)]),
    "reduce_two": (_reduce_two, [(3, 4)]),
    "reduce_and": (jnp.all, ["bool:3,4"]),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 10), [(3, 4)]),
    "sort_keys": (lambda a, b: lax.sort((a, b), num_keys=2), [(3, 4), (3, 4)]),
    "sort_down": (partial(jnp.sort, descending=True), [(3, 4)]),
    "top_k": (partial(lax.top_k, k=2), [(3, 4)]),
    "approx_max_k": (partial(lax.approx_max_k, k=2), [(3, 8)]),
    "associative_scan": (partial(lax.associative_scan, jnp.multiply), [(7,)]),
    "cummax": (partial(lax.cummax, axis=1), [(3, 4)]),
    "fft": (jnp.fft.fft, [(4, 8)]),
    "rfft2": (jnp.fft.rfft2, [(4, 8)]),
    "irfft": (jnp.fft.irfft, ["c64:4,5"]),
    "complex": (lambda a, b: lax.complex(a, b) * 2j, [(3,), (3,)]),
    "cholesky": (jnp.linalg.cholesky, [(4, 4)]),
    "qr": (lambda x: tuple(jnp.linalg.qr(x)), [(4, 3)]),
    "svd": (lambda x: tuple(jnp.linalg.svd(x)), [(4, 3)]),
    "eigh": (lambda x: tuple(jnp.linalg.eigh(x)), [(4, 4)]),
    "solve": (jnp.linalg.solve, [(4, 4), (4, 2)]),
    "det": (jnp.linalg.det, [(4, 4)]),
    "triangular_solve": (lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), [(4, 4), (4, 2)]),
    "normal": (lambda x: x + jax.random.normal(jax.random.key(0), (3, 4)), [(3, 4)]),
    "uniform_rbg": (lambda x: x + jax.random.uniform(jax.random.key(0, impl="rbg"), (3, 4)), [(3, 4)]),
    "permutation": (lambda x: jax.random.permutation(jax.random.key(1), x), [(8,)]),
    "rng_bit_generator": (lambda k: lax.rng_bit_generator(k, (3, 4)), ["u32:4"]),
    "bitcast": (lambda x: lax.bitcast_convert_type(x, jnp.int32), [(3, 4)]),
    "bitcast_bytes": (lambda x: lax.bitcast_convert_type(x, jnp.uint8), [(3, 4)]),
    "float8": (lambda x: x.astype(jnp.float8_e4m3fn).astype(jnp.float32), [(3, 4)]),
    "int4": (lambda x: x.astype(jnp.int4).astype(jnp.float32) + np.arange(4, dtype=np.float32), [(3, 4)]),
    "bfloat16": (lambda x: x.astype(jnp.bfloat16) * jnp.bfloat16(1.5), [(3, 4)]),
    "shifts": (lambda a, b: lax.shift_right_arithmetic(a, b) ^ lax.shift_right_logical(a, b), ["i32:3", "i32:3"]),
    "popcnt_clz": (lambda a: lax.population_count(a) + lax.clz(a), ["u32:3"]),
    "optimization_barrier": (lambda a, b: lax.optimization_barrier((a, b)), [(3,), (4,)]),
    "barrier_of_none": (lambda a: (lax.optimization_barrier(()), a)[1], [(3,)]),
    "composite": (_composite, [(3,)]),
    "constant": (lambda x: x + np.arange(12, dtype=np.float32).reshape(3, 4), [(3, 4)]),
    "large_constant": (lambda x: x + np.arange(2000, dtype=np.float32).reshape(500, 4), [(500, 4)]),
    "bool_constant": (lambda x: jnp.where(np.arange(200).reshape(50, 4) % 3 == 0, x, 0), [(50, 4)]),
    "bool_short": (lambda x: jnp.where(np.array([True, False, False]), x, 0), [(3,)]),
    "complex_constant": (lambda x: x + np.array([1 + 2j, 3 - 1j], np.complex64), [(2,)]),
    "polygamma": (special.polygamma, ["i32", (3,)]),
    "special_floats": (lambda x: x + np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.0], np.float32), [(6,)]),
    "half_constant": (lambda x: x + np.array([1.5, -np.inf], np.float16), [(2,)]),
    "bfloat16_constant": (lambda x: x + jnp.array([1.5, -np.inf, 1e30], jnp.bfloat16), [(3,)]),
    "integers": (lambda x: x + np.array([-(2**31), 2**31 - 1], np.int32), ["i32:2"]),
    "unsigned": (lambda x: x + np.array([0, 2**32 - 1], np.uint32), ["u32:2"]),
    "empty": (lambda x: jnp.concatenate([x, np.zeros((0, 4), np.float32)]), [(3, 4)]),
    "no_arguments": (lambda: jnp.float32(1), []),
    "many_results": (lambda x: {"a": [x, x + 1], "b": (x * 2,)}, [(3,)]),
    "remat": (jax.grad(lambda x: jnp.sum(jax.checkpoint(lambda v: jnp.sin(jnp.sin(v)))(x))), [(3,)]),
    "vmap_gather": (jax.vmap(lambda x, i: x[i]), [(3, 5), "i32:3"]),
    "vmap_scatter": (jax.vmap(lambda x, i: x.at[i].set(0.0)), [(3, 5), "i32:3"]),
    "nonzero": (lambda x: jnp.nonzero(x, size=4), [(8,)]),
    "unique": (lambda x: jnp.unique(x, size=4), [(8,)]),
    "interp": (lambda x: jnp.interp(x, np.linspace(0, 1, 5), np.arange(5.0)), [(3,)]),
    "histogram": (lambda x: jnp.histogram(x, bins=4)[0], [(8,)]),
    "one_hot": (lambda i: jax.nn.one_hot(i, 5), ["i32:3"]),
    "layer_norm": (lambda x: jax.nn.standardize(x, axis=-1), [(3, 4)]),
    "attention": (jax.nn.dot_product_attention, [(2, 5, 2, 4), (2, 5, 2, 4), (2, 5, 2, 4)]),
    "ragged_dot": (lax.ragged_dot, [(6, 3), (2, 3, 4), "i32:2"]),
}
SYMBOLIC: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "symbolic_sum": (lambda x: x.sum(0) / x.shape[0], ["b, 4"]),
    "symbolic_reshape": (lambda x: x.reshape(x.shape[0] * 4), ["b, 4"]),
    "symbolic_matmul": (lambda x: x @ x.T, ["b, 4"]),
    "symbolic_concatenate": (lambda x: jnp.concatenate([x, x, jnp.arange(x.shape[0])[:, None] * 1.0], 1), ["b, 4"]),
    "symbolic_pad": (lambda x: jnp.pad(x, ((1, x.shape[0]), (0, 0))), ["b, 4"]),
    "symbolic_slice": (lambda x: x[: x.shape[0] // 2], ["2*b, 4"]),
    "symbolic_gather": (lambda x: x[jnp.arange(x.shape[0])[::-1]], ["b, 4"]),
    "symbolic_top_k": (lambda x: lax.top_k(x, 2), ["b, 4"]),
    "symbolic_window": (lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 1), (2, 1), "SAME"), ["b, 4"]),
    "symbolic_conv": (lambda x: _convolution(x, np.ones((2, 3, 3, 3), np.float32), window_strides=(2, 2)), ["1, 3, b, b"]),
    "symbolic_sort": (lambda x: jnp.sort(x, 0), ["b, 4"]),
    "symbolic_random": (lambda x: x + jax.random.uniform(jax.random.key(0), x.shape), ["b, 4"]),
}
_DTYPES = {"i32": np.int32, "u32": np.uint32, "bool": np.bool_, "c64": np.complex64}


def _argument(shape: Shape) -> jax.ShapeDtypeStruct:
    if isinstance(shape, str):
        dtype, _, sizes = shape.partition(":")
        return jax.ShapeDtypeStruct(tuple(int(size) for size in sizes.split(",") if size), _DTYPES[dtype])
    return jax.ShapeDtypeStruct(shape, np.float32)


def _simple(name: str, of: Any, count: int) -> tuple[Callable[..., Any], list[Shape]]:
    shape: Shape = "i32:3,3" if name in INTEGERS else (3, 3)
    return getattr(of, name), [shape] * count


CASES: dict[str, tuple[Callable[..., Any], list[Shape]]] = {
    **{name: _simple(name, jnp, 1) for name in UNARY},
    **{name: _simple(name, jnp, 2) for name in BINARY},
    **{f"special.{name}": _simple(name, special, SPECIAL_ARGUMENTS.get(name, 1)) for name in SPECIAL},
    **OTHERS,
}
NAMES = sorted({**CASES, **SYMBOLIC})


def arguments(name: str) -> list[jax.ShapeDtypeStruct]:
    return [_argument(shape) for shape in CASES[name][1]]


@cache
def exported(name: str) -> export.Exported:
    """A function, exported for the CPU."""
    if name in SYMBOLIC:
        function, texts = SYMBOLIC[name]
        scope = export.SymbolicScope()
        given = [jax.ShapeDtypeStruct(export.symbolic_shape(text, scope=scope), np.float32) for text in texts]
    else:
        function, given = CASES[name][0], arguments(name)
    return export.export(jax.jit(function), platforms=["cpu"])(*given)
