"""Steps of random programs of jax with bodies: loops, choices, and functions that jax transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from tests.random_lax import Array, Program, Unfit

Body = Callable[[Array], Array]


def body(p: Program, array: Array) -> Body:
    """A small function from tensors like ``array`` to such, whose results stay small."""
    axis = p.number(0, max(0, array.ndim - 1))
    choices: list[Body] = [lambda v: v * 0.5 + 1, jnp.sin, jnp.tanh, lambda v: jnp.where(v > 0, v, -0.5 * v), lambda v: -v]
    if array.ndim:
        weight = p.contents((array.shape[-1],), "float32").astype(array.dtype)
        choices += [
            lambda v: jnp.roll(v, 1, axis), lambda v: v - v.mean(axis, keepdims=True), lambda v: v[::-1] * 0.5,
            lambda v: v.at[0].set(0.5), lambda v: jnp.sort(v, axis), lambda v: jax.nn.softmax(v, axis),
            lambda v: jnp.cos(v) * weight,
            lambda v: lax.cumsum(v, axis) * 0.25]
    if array.ndim == 2:
        choices.append(lambda v: jnp.tanh(v @ v.T @ v))
    parts = [p.pick(*choices) for _ in range(p.number(1, 3))]

    def function(v: Array) -> Array:
        for part in parts:
            v = part(v).astype(v.dtype)
        return v

    return function


def fori(p: Program) -> None:
    x = p.real(0, 3)
    step, least, count = body(p, p.arrays[x]), p.number(-1, 2), p.number(0, 5)
    if p.flag():
        p.add("fori", lambda v: lax.fori_loop(least, least + count, lambda i, c: step(c) + i.astype(c.dtype), v), x)
    else:
        end = p.operand((), "int32", least + count)
        p.add("fori_to", lambda v, n: lax.fori_loop(least, n, lambda i, c: step(c) * 0.5, v), x, end)


def while_loop(p: Program) -> None:
    x = p.real(0, 3)
    step, most = body(p, p.arrays[x]), p.number(0, 4)
    condition = p.pick(
        lambda c: c[0] < most, lambda c: c[0] + 1 <= most,
        lambda c: (c[0] < most) & (jnp.abs(c[1]).sum().astype("float32") > 0.7))
    p.add("while", lambda v: lax.while_loop(condition, lambda c: (c[0] + 1, step(c[1])), (jnp.int32(0), v)), x)


def scan(p: Program) -> None:
    x = p.real(1, 4)
    array = p.arrays[x]
    step, is_reversed, unroll = body(p, array[0] if len(array) else np.zeros(array.shape[1:])), p.flag(), p.pick(1, 1, 1, 2)

    def over(carry: Any, row: Array) -> Any:
        total, count = carry
        return ((step(total) * 0.5 + row).astype(row.dtype), count + 1), (row * total, count, step(row))

    def function(v: Array) -> Any:
        return lax.scan(over, (jnp.zeros_like(v[0]), jnp.int32(0)), v, reverse=is_reversed, unroll=unroll)

    p.add("scan", p.pick(function, lambda v: lax.map(step, v)), x)


def associative_scan(p: Program) -> None:
    x = p.real(1, 3)
    axis, is_reversed = p.number(0, p.arrays[x].ndim - 1), p.flag()
    combine = p.pick(jnp.add, jnp.maximum, lambda a, b: a + b + a * b)
    p.add("associative_scan", lambda v: lax.associative_scan(combine, v, reverse=is_reversed, axis=axis), x)


def cond(p: Program) -> None:
    x = p.real(0, 3)
    first, second = body(p, p.arrays[x]), body(p, p.arrays[x])
    if p.flag():
        flag = p.operand((), "bool")
        p.add("cond", lambda f, v: lax.cond(f, first, lambda u: second(u) + v, v), flag, x)
    else:
        p.add("cond", lambda v: lax.cond(v.sum() > 0, lambda u: (first(u), u), lambda u: (u, second(u)), v), x)


def switch(p: Program) -> None:
    x = p.real(0, 3)
    branches = [body(p, p.arrays[x]) for _ in range(p.number(1, 4))]
    which = p.operand((), "int32", p.number(-1, 4))
    p.add("switch", lambda i, v: lax.switch(i, branches, v), which, x)


def nested(p: Program) -> None:
    x = p.real(0, 2)
    inner, other = body(p, p.arrays[x]), body(p, p.arrays[x])

    def step(i: Array, c: Array) -> Array:
        return lax.cond(i % 2 == 0, lambda u: lax.fori_loop(0, i, lambda _, w: inner(w), u), other, c)

    p.add("nested", lambda v: lax.fori_loop(0, 3, step, v), x)


def transformed(p: Program) -> None:
    """Gradients, tangents and batches of bodies, of loops and choices among them."""
    x = p.real(0, 3)
    step, length = body(p, p.arrays[x]), p.number(1, 3)

    def loop(v: Array) -> Array:
        return lax.scan(lambda c, _: (step(c), None), v, None, length)[0]

    def either(v: Array) -> Array:
        return lax.cond(v.sum() > 0, step, lambda u: u * 2, v)

    function = p.pick(step, loop, either, jax.checkpoint(loop), jax.jit(step))
    gradient = jax.grad(lambda v: (function(v) ** 2).sum())
    p.add("transformed", p.pick(
        gradient, lambda v: jax.jvp(function, (v,), (jnp.ones_like(v),)), lambda v: jax.vmap(function)(jnp.stack([v, -v])),
        lambda v: jax.vmap(gradient)(jnp.stack([v, v * 0.5])), jax.value_and_grad(lambda v: function(v).sum()),
        lambda v: jax.linearize(function, v)[1](v), lambda v: jax.jvp(gradient, (v,), (v,))), x)


def batched(p: Program) -> None:
    """Indices, slices, sorts and products, batched and differentiated by jax."""
    x = p.real(2, 3)
    array = p.arrays[x]
    length, size = array.shape[0], array.shape[1]
    if not size:
        raise Unfit
    i = p.operand((length,), "int32", p.rng.integers(-1, size + 1, length))
    j = p.operand((length, 2), "int32", p.rng.integers(0, size, (length, 2)))
    width = p.number(1, size)
    by_one = (
        lambda v, i: lax.dynamic_slice_in_dim(v, i, width), lambda v, i: v.at[i].set(0.5), lambda v, i: v.at[i].add(v[0]),
        lambda v, i: lax.dynamic_update_slice_in_dim(v, v[:width] * 2, i, 0), lambda v, i: v[i], lambda v, i: jnp.roll(v, i, 0),
        lambda v, i: jnp.sort(v, 0), lambda v, i: jnp.argmax(v, 0) + i, lambda v, i: lax.fori_loop(0, i, lambda _, c: c * 0.5, v))
    by_two = (
        lambda v, i: v[i], lambda v, i: v.at[i].multiply(2), lambda v, i: jnp.take(v, i, 0, mode="clip"),
        lambda v, i: v[i].T @ v[i])
    function, indices = p.pick((p.pick(*by_one), i), (p.pick(*by_two), j))
    batch = jax.vmap(function, in_axes=p.pick((0, 0), (0, 0), (None, 0)), out_axes=p.pick(0, 0, -1))
    if p.flag(0.3):
        p.add("batched_gradient", lambda v, i: jax.grad(lambda u: (batch(u, i).astype("float32") ** 2).sum())(v), x, indices)
    else:
        p.add("batched", batch, x, indices)


CONTROL = (
    fori, while_loop, scan, scan, associative_scan, cond, switch, nested, transformed, transformed, transformed, batched, batched)
