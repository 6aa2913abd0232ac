"""Steps of random programs of jax: elementwise, of shapes, indices, products, windows, reductions and orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.scipy import special

from tests.random_lax import EXTENTS, INTEGERS, OTHERS, REAL, WIDE, Array, Program, Unfit

Maker = Callable[[Program], None]


def _any(x: Array) -> Array:
    return x


def _positive(x: Array) -> Array:
    return jnp.abs(x) + jnp.asarray(0.5, x.dtype)


def _unit(x: Array) -> Array:
    return jnp.sin(x) * jnp.asarray(0.9, x.dtype)


REAL_FUNCTIONS: Mapping[Callable[[Array], Array], tuple[Callable[[Array], Array], ...]] = MappingProxyType({
    _any: (
        lax.abs, lax.neg, lax.sign, lax.floor, lax.ceil, lax.round, partial(lax.round, rounding_method=1), lax.sin, lax.cos,
        lax.tanh, lax.logistic, lax.cbrt, lax.erf, lax.erfc, lax.asinh, lax.atan, lax.square, lax.is_finite,
        partial(lax.integer_pow, y=3), partial(lax.reduce_precision, exponent_bits=5, mantissa_bits=3), jax.nn.gelu, jax.nn.silu,
        jax.nn.softplus, lax.bessel_i1e, lax.bessel_i0e, jnp.sinc, jnp.signbit, lax.stop_gradient, lax.optimization_barrier,
    ),
    _positive: (lax.log, lax.log1p, lax.sqrt, lax.rsqrt, lax.reciprocal, lax.lgamma, lax.digamma, partial(lax.integer_pow, y=-2),
                special.entr),
    _unit: (lax.exp, lax.expm1, lax.exp2, lax.sinh, lax.cosh, lax.tan, lax.asin, lax.acos, lax.atanh, lax.erf_inv),
})
"""Functions of real numbers, by what brings their operand where they are defined."""
COMPLEX_FUNCTIONS = (lax.neg, lax.exp, lax.sin, lax.cos, lax.tanh, lax.conj, lax.real, lax.imag, lax.abs, lax.square, jnp.angle)
INTEGER_FUNCTIONS = (lax.neg, lax.abs, lax.sign, lax.bitwise_not, lax.population_count, lax.clz, partial(lax.integer_pow, y=2))
REAL_PAIRS = (lax.add, lax.sub, lax.mul, lax.div, lax.max, lax.min, lax.atan2, lax.rem, lax.nextafter, jnp.logaddexp, jnp.hypot,
              jnp.floor_divide, jnp.mod, jnp.copysign)
INTEGER_PAIRS = (
    lax.add, lax.sub, lax.mul, lax.div, lax.rem, lax.max, lax.min, lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor,
    lax.shift_left, lax.shift_right_arithmetic, lax.shift_right_logical, jnp.floor_divide, jnp.mod, lax.mulhi)
DIVISIONS = (lax.div, lax.rem, jnp.floor_divide, jnp.mod)
COMPLEX_PAIRS = (lax.add, lax.sub, lax.mul, lambda a, b: lax.div(a, b + (1 - 2j)))
BOOL_PAIRS = (lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor, lax.max, lax.min)
COMPARISONS = (lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge)


def _name(function: Any) -> str:
    return str(getattr(getattr(function, "func", function), "__name__", "function"))


def unary(p: Program) -> None:
    x = p.any_value()
    kind = _kind(p.arrays[x])
    if kind == "f":
        bring = p.pick(*REAL_FUNCTIONS)
        function = p.pick(*REAL_FUNCTIONS[bring])
        p.add(_name(function), lambda v: function(bring(v)), x)
    else:
        function = p.pick(*{"c": COMPLEX_FUNCTIONS, "b": (lax.bitwise_not,)}.get(kind, INTEGER_FUNCTIONS))
        p.add(_name(function), function, x)


def _kind(array: Array) -> str:
    """"b", "i", "u", "f" or "c"."""
    return "f" if jnp.issubdtype(array.dtype, jnp.floating) else array.dtype.kind


def binary(p: Program) -> None:
    x = p.any_value()
    kind = _kind(p.arrays[x])
    pairs = {"f": REAL_PAIRS, "c": COMPLEX_PAIRS, "b": BOOL_PAIRS}.get(kind, INTEGER_PAIRS)
    function = p.pick(*pairs)
    divides = kind in "iu" and function in DIVISIONS  # by zero: undefined
    is_swapped, y = p.flag(), p.partner(x)
    p.add(_name(function), (lambda a, b: function(a, b | 1)) if divides else function, *((y, x) if is_swapped else (x, y)))


def power(p: Program) -> None:
    x = p.real()
    p.add("pow", lambda a, b: lax.pow(_positive(a), _unit(b)), x, p.partner(x))


def comparison(p: Program) -> None:
    x = p.any_value()
    function = p.pick(*COMPARISONS[: 2 if _kind(p.arrays[x]) == "c" else None])
    p.add(_name(function), function, x, p.partner(x))


def choice(p: Program) -> None:
    x = p.any_value()
    shape = p.arrays[x].shape if p.flag(0.8) else ()
    if p.flag():
        p.add("select_n", lax.select_n, p.operand(shape, "bool"), x, p.partner(x))
    else:
        which = p.operand(shape, "int32", p.rng.integers(-1, 4, shape))
        p.add("select_n", lambda i, *cases: lax.select_n(lax.clamp(0, i, 2), *cases), which, x, p.partner(x), p.partner(x))


def clamp(p: Program) -> None:
    x = p.value(lambda a: _kind(a) in "fiu")
    array, is_scalar = p.arrays[x], p.flag()
    low = p.operand(() if is_scalar else array.shape, str(array.dtype))
    p.add("clamp", lambda v, a: lax.clamp(a, v, a + jnp.asarray(2, a.dtype)), x, low)


def conversion(p: Program) -> None:
    x = p.any_value()
    target = p.pick(*REAL, *INTEGERS, *OTHERS, *(WIDE if p.has_wide_types else ()))
    if _kind(p.arrays[x]) != "c" or _kind(np.zeros((), jnp.dtype(target))) == "c":
        p.add("convert", lambda v: lax.convert_element_type(v, target), x)


def bits(p: Program) -> None:
    x = p.value(lambda a: _kind(a) in "fiu")
    target = p.pick("float32", "int32", "int8", "uint16", "bfloat16", "float16", "uint32")
    p.add("bitcast", lambda v: lax.bitcast_convert_type(v, target), x)


def arithmetic(p: Program) -> None:
    """Operands of other ranks and types, as jax.numpy repeats and promotes them."""
    x = p.value(lambda a: _kind(a) in "fiu")
    shape = tuple(size if p.flag(0.7) else 1 for size in p.arrays[x].shape)[p.number(0, 1):]
    y = p.operand(shape, p.pick(*REAL, *INTEGERS))
    function = p.pick(jnp.add, jnp.multiply, jnp.subtract, jnp.maximum, jnp.where, jnp.less, jnp.arctan2)
    p.add(_name(function), (lambda a, b: jnp.where(a > b, a, b)) if function is jnp.where else function, x, y)


def broadcast(p: Program) -> None:
    x = p.any_value(0, 3)
    array = p.arrays[x]
    rank = array.ndim + p.number(0, 2)
    axes = sorted(p.rng.permutation(rank)[: array.ndim].tolist())
    sizes = [p.pick(*EXTENTS) for _ in range(rank)]
    repeated = [isinstance(size, int) and size == 1 for size in p.types[x].shape]

    def function(v: Array) -> Array:
        shape: list[Any] = list(sizes)
        for own, axis, is_repeated in zip(v.shape, axes, repeated):
            shape[axis] = shape[axis] if is_repeated else own
        return lax.broadcast_in_dim(v, shape, axes)

    p.add("broadcast_in_dim", function, x)


def reshape(p: Program) -> None:
    x = p.any_value()
    array, kind = p.arrays[x], p.number(0, 4)
    axis = p.number(0, max(0, array.ndim - 1))
    if kind == 0 and array.size:
        left, sizes = array.size, []
        for _ in range(p.number(0, 3)):
            sizes.append(p.pick(*(k for k in range(1, left + 1) if left % k == 0)))
            left //= sizes[-1]
        sizes.append(left)
        order = p.some(array.ndim, array.ndim) if p.flag(0.2) else None
        p.add("reshape", lambda v: lax.reshape(v, sizes, order), x)
    elif kind == 1:
        p.add("flatten", lambda v: v.reshape(-1), x)
    elif kind == 2 and array.ndim > 1:
        p.add("collapse", lambda v: lax.collapse(v, axis, axis + 2), x)
    elif kind == 3:
        p.add("expand_dims", lambda v: lax.expand_dims(v, (axis,)), x)
    else:
        p.add("squeeze", lambda v: lax.squeeze(v, [k for k, size in enumerate(v.shape) if size == 1]), x)


def transpose(p: Program) -> None:
    x = p.any_value(2)
    order = p.some(p.arrays[x].ndim, p.arrays[x].ndim)
    p.add("transpose", lambda v: lax.transpose(v, order), x)


def reverse(p: Program) -> None:
    x = p.any_value(1)
    axes = p.some(p.arrays[x].ndim, 1)
    p.add("rev", lambda v: lax.rev(v, axes), x)


def slices(p: Program) -> None:
    x = p.any_value(1)
    index = tuple(
        slice(p.number(0, size // 2), None if p.flag() else p.number(size // 2, size), p.number(1, 3))
        for size in p.arrays[x].shape)
    if p.flag(0.2):
        index = tuple(slice(None, None, -part.step) for part in index)
    p.add("slice", lambda v: v[index], x)


def pad(p: Program) -> None:
    x = p.any_value(1, 4)
    config = [(p.number(-2, 2), p.number(-2, 2), p.number(0, 2) if p.flag(0.4) else 0) for _ in p.arrays[x].shape]
    fill = p.operand((), str(p.arrays[x].dtype))
    p.add("pad", lambda v, f: lax.pad(v, f, config), x, fill)


def concatenate(p: Program) -> None:
    x = p.any_value(1)
    array = p.arrays[x]
    axis = p.number(0, array.ndim - 1)
    others = [p.partner(x) for _ in range(p.number(0, 2))]
    if p.flag(0.3):
        sizes = [size if k != axis else p.pick(0, 1, 3) for k, size in enumerate(array.shape)]
        others.append(p.operand(sizes, str(array.dtype)))
    p.add("concatenate", lambda *values: lax.concatenate(values, axis), x, *others)


def pieces(p: Program) -> None:
    x = p.any_value(1, 3)
    axis = p.number(0, p.arrays[x].ndim - 1)
    size = p.arrays[x].shape[axis]
    first = p.number(0, size)
    function = p.pick(
        lambda v: lax.split(v, (first, size - first), axis), lambda v: jnp.stack([v, v], axis),
        lambda v: jnp.tile(v, (2,) * v.ndim), lambda v: jnp.repeat(v, 2, axis), lambda v: jnp.roll(v, first, axis),
        lambda v: jnp.tril(v, first - 1), lambda v: jnp.diff(v, axis=axis), lambda v: v + jnp.arange(v.shape[-1]).astype(v.dtype))
    p.add("pieces", function, x)


def iota(p: Program) -> None:
    x = p.any_value(1)
    axis = p.number(0, p.arrays[x].ndim - 1)
    p.add("iota", lambda v: lax.broadcasted_iota("int32", v.shape, axis), x)


def _starts(p: Program, array: Array) -> list[int]:
    dtype = p.pick("int32", "int32", "int8", "uint32", "int16")
    low = 0 if dtype.startswith("u") else -2
    return [p.operand((), dtype, p.number(low, size + 1)) for size in array.shape]


def dynamic_slice(p: Program) -> None:
    x = p.any_value(1, 4)
    array = p.arrays[x]
    sizes = [p.number(0 if p.flag(0.1) else 1, size) for size in array.shape]
    p.add("dynamic_slice", lambda v, *starts: lax.dynamic_slice(v, starts, sizes), x, *_starts(p, array))


def dynamic_update(p: Program) -> None:
    x = p.any_value(1, 4)
    array = p.arrays[x]
    update = p.operand([p.number(1, size) for size in array.shape], str(array.dtype))
    p.add("dynamic_update_slice", lambda v, u, *starts: lax.dynamic_update_slice(v, u, starts), x, update, *_starts(p, array))


class _Windows:
    """Drawn dimension numbers of a gather or scatter of ``array``, and the shape of their indices."""

    def __init__(self, p: Program, array: Array) -> None:
        rank = array.ndim
        named = p.some(rank, 0, 3)
        count = p.number(0, min(2, len(named))) if p.flag(0.3) else 0
        self.batching, self.indexed = tuple(sorted(named[:count])), named[count:]
        self.sizes = [
            1 if k in self.batching else p.number(1, size) if p.flag(0.7) else size for k, size in enumerate(array.shape)]
        free = [k for k in range(rank) if k not in self.batching and self.sizes[k] == 1]
        self.collapsed = tuple(k for k in free if p.flag(0.7))
        extra = [p.pick(1, 2, 3, 4) for _ in range(p.number(0, 2))]
        batch = [*((k, array.shape[k]) for k in self.batching), *((-1, size) for size in extra)]
        batch = [batch[k] for k in p.rng.permutation(len(batch))]
        self.index_batching = tuple([k for k, _ in batch].index(axis) for axis in self.batching)
        self.batch = tuple(size for _, size in batch)
        kept = [k for k in range(rank) if k not in (*self.batching, *self.collapsed)]
        self.windows = [self.sizes[k] for k in kept]
        self.offsets = tuple(sorted(p.rng.permutation(len(batch) + len(kept))[: len(kept)].tolist()))
        self.limits = [array.shape[k] - self.sizes[k] for k in self.indexed]

    def indices(self, p: Program, is_inside: bool) -> int:
        """Index tuples along the last dimension, some outside of the tensor unless ``is_inside``."""
        apart = 0 if is_inside else 2
        dtype = p.pick("int32", "int32", "int16", *(("int64",) if p.has_wide_types else ()))
        drawn = [p.rng.integers(-apart, limit + 1 + apart, self.batch) for limit in self.limits]
        array = np.stack(drawn, -1) if drawn else np.zeros((*self.batch, 0))
        return p.operand(array.shape, dtype, array)

    def updates(self) -> tuple[int, ...]:
        """The shape of the updates."""
        batch, windows = iter(self.batch), iter(self.windows)
        rank = len(self.batch) + len(self.windows)
        return tuple(next(windows if k in self.offsets else batch) for k in range(rank))


def gather(p: Program) -> None:
    x = p.any_value(1, 4)
    drawn, mode = _Windows(p, p.arrays[x]), p.pick("clip", "clip", "fill", "promise_in_bounds")
    numbers = lax.GatherDimensionNumbers(
        drawn.offsets, tuple(sorted(drawn.collapsed)), drawn.indexed, drawn.batching, drawn.index_batching)
    indices = drawn.indices(p, mode == "promise_in_bounds")
    p.add("gather", lambda v, i: lax.gather(v, i, numbers, tuple(drawn.sizes), mode=mode), x, indices)


SCATTERS = (lax.scatter_add, lax.scatter_mul, lax.scatter_min, lax.scatter_max, lax.scatter, lax.scatter_sub)


def scatter(p: Program) -> None:
    x = p.value(lambda a: 1 <= a.ndim <= 4 and _kind(a) in "fiuc")
    drawn, mode = _Windows(p, p.arrays[x]), p.pick("clip", "drop", "promise_in_bounds")
    if not drawn.indexed:  # of several windows at one place, XLA takes the last alone
        raise Unfit
    numbers = lax.ScatterDimensionNumbers(
        drawn.offsets, tuple(sorted(drawn.collapsed)), drawn.indexed, drawn.batching, drawn.index_batching)
    function = p.pick(*SCATTERS)
    updates = p.operand(drawn.updates(), str(p.arrays[x].dtype))
    indices = drawn.indices(p, mode == "promise_in_bounds")
    p.add(_name(function), lambda v, i, u: function(v, i, u, numbers, mode=mode), x, indices, updates)


def indexing(p: Program) -> None:
    x = p.any_value(1, 4)
    array = p.arrays[x]
    axis = p.number(0, array.ndim - 1)
    size = array.shape[axis]
    i = p.operand((p.pick(1, 2, 3),), "int32", None)
    along, mode = (slice(None),) * axis, p.pick("clip", "wrap", "fill")
    function = p.pick(
        lambda v, i: v[(*along, i)], lambda v, i: jnp.take(v, i, axis, mode=mode), lambda v, i: v.at[(*along, i)].set(1),
        lambda v, i: v.at[(*along, i)].add(2), lambda v, i: v[(*along, i % size)], lambda v, i: v.at[(*along, i)].max(1),
        lambda v, i: v.at[i, ...].multiply(2, mode="clip"), lambda v, i: v[i[:, None], ..., 0] if v.ndim > 1 else v[i])
    p.add("indexing", function, x, i)


def dot_general(p: Program) -> None:
    x = p.value(lambda a: _kind(a) in "fciu")
    array = p.arrays[x]
    named = p.some(array.ndim, 0, 4)
    count = p.number(0, len(named))
    batch, contracting = named[:count], named[count:]
    sizes: list[tuple[int, int]] = [(k, array.shape[k]) for k in named]
    sizes += [(-1, p.pick(*EXTENTS)) for _ in range(p.number(0, 2))]
    sizes = [sizes[k] for k in p.rng.permutation(len(sizes))]
    places = [k for k, _ in sizes]
    y = p.operand([size for _, size in sizes], str(array.dtype))
    wider = {"int8": "int32", "bfloat16": "float32", "float16": "float32"}.get(str(array.dtype)) if p.flag() else None
    numbers = ((contracting, tuple(map(places.index, contracting))), (batch, tuple(map(places.index, batch))))
    function = partial(lax.dot_general, dimension_numbers=numbers, preferred_element_type=wider)
    if p.flag(0.2):
        swapped = tuple(pair[::-1] for pair in numbers)
        p.add("dot_general", lambda a, b: lax.dot_general(b, a, swapped), x, y)
    else:
        p.add("dot_general", function, x, y)


def convolution(p: Program) -> None:
    x = p.real(3, 5)
    array = p.arrays[x]
    spatial = "DHW"[5 - array.ndim:]
    layouts = ["".join("NC"[k] if k < 2 else spatial[k - 2] for k in p.rng.permutation(array.ndim)) for _ in range(2)]
    kernel = "".join("OI"[k] if k < 2 else spatial[k - 2] for k in p.rng.permutation(array.ndim))
    sizes = dict(zip(layouts[0], array.shape))
    groups = p.pick(*(k for k in (1, 1, 2, 3) if sizes["C"] % k == 0))
    batches = p.pick(*(k for k in (1, 2) if groups == 1 and sizes["N"] % k == 0), 1) if groups == 1 else 1
    own = {"I": sizes["C"] // groups, "O": groups * batches * p.number(1, 3), **{axis: p.number(1, 3) for axis in spatial}}
    count = len(spatial)
    padding = p.pick("SAME", "VALID", tuple((p.number(-1, 2), p.number(-1, 2)) for _ in range(count)))

    def each(least: int, most: int) -> tuple[int, ...]:
        return tuple(p.number(least, most) for _ in range(count)) if p.flag() else (1,) * count

    options: dict[str, Any] = {
        "window_strides": each(1, 3), "padding": padding, "rhs_dilation": each(1, 2), "feature_group_count": groups,
        "lhs_dilation": (1,) * count if isinstance(padding, str) else each(1, 3), "batch_group_count": batches,
        "dimension_numbers": (layouts[0], kernel, layouts[1]),
    }
    weight = p.operand([own[letter] for letter in kernel], str(array.dtype))
    function = partial(lax.conv_general_dilated, **options)
    gradient = p.pick(None, None, 0, 1)
    if gradient is None:
        p.add("convolution", function, x, weight)
    else:  # which has reversed windows, and other groups
        p.add("convolution_gradient", jax.grad(lambda a, b: jnp.sum(function(a, b) ** 2) / 8, gradient), x, weight)


BODIES: tuple[tuple[float, Callable[[Array, Array], Array]], ...] = (
    (0, lambda a, b: a + b + a * b), (-np.inf, lambda a, b: jnp.where(a >= b, a, b)))
"""Monoids without a name: what changes nothing, and how numbers are combined."""


def reduction(p: Program) -> None:
    x = p.any_value(1)
    array = p.arrays[x]
    axes, kind = p.some(array.ndim, 0 if p.flag(0.1) else 1), _kind(array)
    functions = {
        "f": (lax.reduce_sum, lax.reduce_max, lax.reduce_min, lax.reduce_prod), "c": (lax.reduce_sum, lax.reduce_prod),
        "b": (lax.reduce_and, lax.reduce_or, lax.reduce_xor),
    }.get(kind, (lax.reduce_sum, lax.reduce_max, lax.reduce_min, lax.reduce_prod, lax.reduce_and, lax.reduce_or, lax.reduce_xor))
    function = p.pick(*functions)
    p.add(_name(function), lambda v: function(v, axes), x)


def other_reductions(p: Program) -> None:
    x = p.real(1)
    axis, number = p.number(0, p.arrays[x].ndim - 1), p.arrays[x].dtype.type
    neutral, body = p.pick(*BODIES)
    start, zero, one, least = map(number, (neutral, 0, 1, -np.inf))
    function = p.pick(
        lambda v: lax.reduce(v, start, body, (axis,)), lambda v: lax.argmax(v, axis, jnp.int32),
        lambda v: lax.argmin(v, axis, jnp.int32), lambda v: jnp.mean(v, axis), lambda v: jnp.var(v, axis, keepdims=True),
        lambda v: special.logsumexp(v, axis), lambda v: jax.nn.softmax(v, axis), lambda v: jnp.linalg.norm(v, axis=axis),
        lambda v: lax.reduce((v, -v), (zero, least), lambda a, b: (a[0] + b[0], jnp.maximum(a[1], b[1])), (axis,)),
        lambda v: lax.reduce((v, v), (start, one), lambda a, b: (body(a[0], b[0]), a[1] * b[1]), (axis,)),
        lambda v: jnp.median(v, axis), lambda v: jnp.max(v, axis, where=v > 0, initial=-1))
    p.add("reduction", function, x)


def windows(p: Program) -> None:
    x = p.value(lambda a: 1 <= a.ndim <= 4 and _kind(a) in "fi")
    array = p.arrays[x]
    options: dict[str, Any] = {
        "window_dimensions": tuple(p.number(1, 3) for _ in array.shape),
        "window_strides": tuple(p.number(1, 3) if p.flag() else 1 for _ in array.shape),
        "padding": p.pick("SAME", "VALID", tuple((p.number(0, 2), p.number(0, 2)) for _ in array.shape)),
    }
    if p.flag(0.3) and not isinstance(options["padding"], str):
        options["base_dilation"] = tuple(p.number(1, 2) for _ in array.shape)
    if p.flag(0.3):
        options["window_dilation"] = tuple(p.number(1, 2) for _ in array.shape)
    low, high = (-np.inf, np.inf) if _kind(array) == "f" else (jnp.iinfo(array.dtype).min, jnp.iinfo(array.dtype).max)
    start, body = p.pick((low, lax.max), (high, lax.min), (0, lax.add), (1, lax.mul), BODIES[0])
    function = partial(lax.reduce_window, init_value=array.dtype.type(start), computation=body, **options)
    way = p.number(0, 5) if body in (lax.max, lax.min, lax.add) and _kind(array) == "f" else 5
    if way == 0:
        p.add("select_and_scatter", jax.grad(lambda v: jnp.sum(function(v) * 2)), x)
    elif way == 1:
        p.add("select_and_gather", lambda v, t: jax.jvp(function, (v,), (t,)), x, p.partner(x))
    else:
        p.add("reduce_window", function, x)


def cumulative(p: Program) -> None:
    x = p.value(lambda a: a.ndim >= 1 and _kind(a) in "fi")
    axis, is_reversed = p.number(0, p.arrays[x].ndim - 1), p.flag()
    functions = (lax.cumsum, lax.cumprod, lax.cummax, lax.cummin)
    function = p.pick(*functions, *((lax.cumlogsumexp,) if _kind(p.arrays[x]) == "f" else ()))
    p.add(_name(function), lambda v: function(v, axis, reverse=is_reversed), x)


def order(p: Program) -> None:
    x = p.value(lambda a: a.ndim >= 1 and _kind(a) in "fiub")
    array = p.arrays[x]
    axis, others = p.number(0, array.ndim - 1), [p.partner(x) for _ in range(p.number(0, 2))]
    if p.flag(0.2):
        others.append(p.operand(array.shape, "int32"))
    keys = p.number(1, min(2, 1 + len(others)))
    kind = p.number(0, 3)
    if kind == 0:
        is_descending = p.flag()
        p.add("argsort", lambda v: jnp.argsort(v, axis, descending=is_descending), x)
    elif kind == 1 and array.shape[-1] and _kind(array) != "b":
        count = p.number(1, array.shape[-1])
        p.add("top_k", lambda v: lax.top_k(v + 0, count), x)  # without -0, which XLA takes for less than 0
    else:
        p.add("sort", lambda *values: lax.sort(values, dimension=axis, num_keys=keys), x, *others)


def linear_algebra(p: Program) -> None:
    x = p.value(lambda a: a.ndim >= 2 and str(a.dtype) in ("float32", "float64"))
    size = p.arrays[x].shape[-1]
    if size > 5:
        raise Unfit

    def square(v: Array) -> Array:
        return jnp.einsum("...ij,...ik->...jk", v, v) / 16 + 2 * jnp.eye(v.shape[-1], dtype=v.dtype)

    lower, transposed, unit = p.flag(), p.flag(), p.flag(0.3)
    function = p.pick(
        lambda v: lax.linalg.cholesky(square(v)), lambda v: jnp.linalg.inv(square(v)), lambda v: jnp.linalg.det(square(v)),
        lambda v: lax.linalg.triangular_solve(square(v), jnp.swapaxes(v, -1, -2), left_side=True, lower=lower,
                                              transpose_a=transposed, unit_diagonal=unit),
        lambda v: lax.linalg.triangular_solve(square(v), v, lower=lower, transpose_a=transposed, unit_diagonal=unit))
    p.add("linear_algebra", function, x)


def fourier(p: Program) -> None:
    x = p.value(lambda a: a.ndim >= 1 and str(a.dtype) in ("float32", "complex64"))
    axes, count = p.some(p.arrays[x].ndim, 1, 3), p.arrays[x].size
    real = jnp.fft.rfftn if _kind(p.arrays[x]) == "f" else jnp.fft.irfftn
    function = p.pick(jnp.fft.fftn, jnp.fft.ifftn, real)
    p.add("fft", lambda v: function(v, axes=axes) / count, x)


def random_numbers(p: Program) -> None:
    key, shape = p.operand((), "uint32", p.number(0, 1000)), p.shape()
    function = p.pick(
        lambda k: jax.random.bits(jax.random.key(k), shape), lambda k: jax.random.uniform(jax.random.key(k), shape),
        lambda k: jax.random.normal(jax.random.key(k), shape), lambda k: jax.random.permutation(jax.random.key(k), 6),
        lambda k: jax.random.randint(jax.random.key(k), shape, 0, 9),
        lambda k: jax.random.bernoulli(jax.random.key(k), 0.3, shape))
    p.add("random", function, key)


def _all_steps() -> tuple[Maker, ...]:
    from tests.random_lax_control import CONTROL

    plain = (
        unary, unary, unary, binary, binary, binary, power, comparison, choice, clamp, conversion, bits, arithmetic, arithmetic,
        broadcast, broadcast, reshape, reshape, transpose, reverse, slices, pad, pad, concatenate, pieces, iota, dynamic_slice,
        dynamic_update, gather, gather, gather, scatter, scatter, scatter, indexing, indexing, dot_general, dot_general,
        dot_general, convolution, convolution, convolution, reduction, reduction, other_reductions, windows, windows, windows,
        cumulative, order, order, linear_algebra, fourier, random_numbers)
    return (*plain, *CONTROL)


STEPS: tuple[Maker, ...] = _all_steps()
