"""Tensors that are made of numbers and sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.compose import axes as compose
from forge.compose import ranges
from forge.dims import Dim
from forge.errors import OptionError
from forge.ir.nodes import Value
from forge.nn.functions.arguments import integer, size, sizes
from forge.nn.tensor import Tensor
from forge.nn.tracing import Context, is_number, tensor_type

Shape = Sequence[int | Dim]


def _filled(g: Context, shape: Shape, number: Value) -> Tensor:
    sizes = tensor_type(shape, number.dtype, g.name).shape
    return g.tensor(compose.broadcast(g, number, sizes))


def full(shape: Shape, fill_value: Any, dtype: str = "float32", name: str = "full") -> Tensor:
    """A tensor of this shape, all of whose elements are ``fill_value``, a number or a tensor of rank 0.

    >>> nn.full((2, 2), 7, 'int32').numpy().tolist()
    [[7, 7], [7, 7]]
    """
    g = Context(name)
    kind = g.dtype(dtype)
    number = g.cast(g.value(fill_value, kind), kind)
    if number.rank:
        raise OptionError(f"{name}: fill_value: got rank {number.rank}; expected a number")
    return _filled(g, shape, number)


def zeros(shape: Shape, dtype: str = "float32", name: str = "zeros") -> Tensor:
    """A tensor of zeros.

    >>> nn.zeros((2,)).numpy().tolist()
    [0.0, 0.0]
    """
    return full(shape, 0, dtype, name)


def ones(shape: Shape, dtype: str = "float32", name: str = "ones") -> Tensor:
    """A tensor of ones.

    >>> nn.ones((2,), 'int64').numpy().tolist()
    [1, 1]
    """
    return full(shape, 1, dtype, name)


def empty(shape: Shape, dtype: str = "float32", name: str = "empty") -> Tensor:
    """A tensor whose contents do not matter; they are zeros.

    >>> nn.empty((2, 3)).shape
    (2, 3)
    """
    return full(shape, 0, dtype, name)


def _like(x: Tensor, number: Any, dtype: str | None, name: str) -> Tensor:
    value = Context(name).value(x)
    return full(value.shape, number, dtype or value.dtype, name)


def full_like(x: Tensor, fill_value: Any, dtype: str | None = None, name: str = "full_like") -> Tensor:
    """`full`, of the shape of ``x``, and its element type by default.

    >>> nn.full_like([1, 2], 9).numpy().tolist()
    [9, 9]
    """
    return _like(x, fill_value, dtype, name)


def zeros_like(x: Tensor, dtype: str | None = None, name: str = "zeros_like") -> Tensor:
    """`zeros`, of the shape of ``x``, and its element type by default.

    >>> nn.zeros_like([1, 2]).numpy().tolist()
    [0, 0]
    """
    return _like(x, 0, dtype, name)


def ones_like(x: Tensor, dtype: str | None = None, name: str = "ones_like") -> Tensor:
    """`ones`, of the shape of ``x``, and its element type by default.

    >>> nn.ones_like([1.5, 2.5]).numpy().tolist()
    [1.0, 1.0]
    """
    return _like(x, 1, dtype, name)


def arange(start: Any, end: Any = None, step: Any = 1, dtype: str | None = "float32", name: str = "arange") -> Tensor:
    """``start``, ``start + step``, ... below ``end``; with one argument from 0 below it.

    Args:
        start, end, step: numbers, or sizes of tensors.
        dtype: None: int64 if all are integers, else the default element type.

    >>> nn.arange(1, 8, 3, 'int64').numpy().tolist()
    [1, 4, 7]
    """
    from forge.nn.defaults import get_default_dtype

    begin, stop = (0, start) if end is None else (start, end)
    given = (begin, stop, step)
    if not all(map(is_number, given)):
        raise OptionError(f"{name}: got {', '.join(type(x).__name__ for x in given)}; expected numbers and sizes")
    g = Context(name)
    integral = not any(isinstance(x, float) for x in given)
    kind = g.dtype(dtype or ("int64" if integral else get_default_dtype()))
    if isinstance(step, int | float) and step == 0:
        raise OptionError(f"{name}: step: got 0; expected a number that is not 0")
    if any(isinstance(x, float) and not math.isfinite(x) for x in given):
        raise OptionError(f"{name}: got {', '.join(map(str, given))}; expected finite numbers")
    if integral and isinstance(step, int):
        return g.tensor(g.cast(_counted(g, begin, stop, step), kind))
    first, last, by = (g.value(x, "float64") for x in given)
    return g.tensor(g.cast(ranges.arange(g, first, last, by, "int64" if integral else "float64"), kind))


def _counted(g: Context, begin: Dim, stop: Dim, step: int) -> Value:
    """``begin``, ``begin + step``, ... before ``stop`` as int64, whose number is known as an expression of sizes."""
    span = stop - begin if step > 0 else begin - stop
    count = dims.ceildiv(span, abs(step))
    if isinstance(count, int):
        numbers = g.constant(np.arange(count), "int64")
    else:
        numbers = g.reshape(g.count(g.size(count)), (dims.maximum(count, 0),))
    if step != 1:
        numbers = g.call("multiply", numbers, g.constant(step, "int64"))
    return numbers if isinstance(begin, int) and begin == 0 else g.call("add", numbers, g.size(begin))


def linspace(start: float, end: float, steps: int, dtype: str = "float32", name: str = "linspace") -> Tensor:
    """``steps`` numbers from ``start`` to ``end``, both included.

    >>> nn.linspace(0, 1, 5).numpy().tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    if not all(isinstance(x, int | float) for x in (start, end)):
        raise OptionError(f"{name}: got {start!r} and {end!r}; expected two numbers")
    steps = integer(steps, f"{name}: steps", 0)
    g = Context(name)
    return g.tensor(g.constant(np.linspace(start, end, steps).astype(dtypes.numpy_dtype(g.dtype(dtype)))))


def eye(n: Dim, m: Dim | None = None, k: int = 0, dtype: str = "float32", name: str = "eye") -> Tensor:
    """A matrix ``(n, m)`` of ones on the diagonal that is ``k`` above the main one, else zeros.

    >>> nn.eye(2, 3, 1, 'int8').numpy().tolist()
    [[0, 1, 0], [0, 0, 1]]
    """
    g = Context(name)
    rows, columns = sizes((n, n if m is None else m), f"{name}: n, m", 2)
    return g.tensor(g.call("eye", n=rows, m=columns, k=k, dtype=g.dtype(dtype)))


def causal_mask(length: int | Dim, total: int | Dim | None = None, name: str = "causal_mask") -> Tensor:
    """Which of ``total`` places the last ``length`` ones see: all up to their own.

    Returns:
        bool ``(length, total)``, for ``attn_mask`` of `scaled_dot_product_attention`.

    >>> nn.causal_mask(2, 3).numpy().tolist()
    [[True, True, False], [True, True, True]]
    """
    from forge.nn.functions.elementwise import less_equal
    from forge.nn.functions.shapes import unsqueeze

    length, whole = sizes((length, length if total is None else total), f"{name}: length, total", 2)
    rows = arange(whole - length, whole, 1, "int64", name)
    return less_equal(unsqueeze(arange(0, whole, 1, "int64", name), 0), unsqueeze(rows, 1), name)


def one_hot(x: Tensor, num_classes: Dim, dtype: str = "float32", name: str = "one_hot") -> Tensor:
    """1 at the place that each integer names, else 0: ``(...)`` to ``(..., num_classes)``.

    >>> nn.one_hot([1, 0], 3, 'int64').numpy().tolist()
    [[0, 1, 0], [1, 0, 0]]
    """
    g = Context(name)
    kind = g.dtype(dtype)
    num_classes = size(num_classes, f"{name}: num_classes")
    on, off = (g.constant(k, kind) for k in (1, 0))
    return g.tensor(g.call("one_hot", g.value(x), on, off, depth=num_classes, axis=-1, dtype=kind))


def get_timestep_embedding(
    x: Tensor,
    embedding_dim: int,
    flip_sin_to_cos: bool = False,
    downscale_freq_shift: float = 1,
    scale: float = 1,
    max_period: int = 10000,
    name: str = "get_timestep_embedding",
) -> Tensor:
    """Sines and cosines of the steps of a diffusion model (Ho et al., 2020).

    Args:
        x: steps, ``(n,)``.
        embedding_dim: numbers for each; the last one is 0 where it is odd.
        flip_sin_to_cos: cosines come first.
        downscale_freq_shift: subtracted from the number of frequencies, which it spreads.
        scale: factor of angles.
        max_period: the longest period.

    Returns:
        ``(n, embedding_dim)``, of the default element type.

    >>> nn.get_timestep_embedding([0], 4).numpy().tolist()
    [[0.0, 0.0, 1.0, 1.0]]
    """
    from forge.nn.defaults import get_default_dtype

    g = Context(name)
    steps = g.value(x)
    half = integer(embedding_dim, f"{name}: embedding_dim", 1) // 2
    if steps.rank != 1:
        raise OptionError(f"{name}: got {steps.type}; expected steps (n,)")
    if max_period <= 0:
        raise OptionError(f"{name}: max_period: got {max_period}; expected a positive number")
    rates = np.exp(-math.log(max_period) * np.arange(half) / max(half - downscale_freq_shift, 1e-12)) if half else np.zeros(0)
    angles = g.call("multiply", g.call("expand_dims", g.cast(steps, "float32"), axis=1), g.constant(rates[None], "float32"))
    angles = g.call("multiply", angles, g.scalar(scale, angles))
    parts = [g.call(f, angles) for f in (("cos", "sin") if flip_sin_to_cos else ("sin", "cos"))]
    joined = g.call("concatenate", *parts, axis=1)
    if embedding_dim % 2:
        joined = g.call("nn.pad", joined, g.scalar(0, joined), pad_width=((0, 0), (0, 1)))
    return g.tensor(g.cast(joined, get_default_dtype()))
