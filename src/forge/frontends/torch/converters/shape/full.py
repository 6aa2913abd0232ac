"""Tensors made of sizes and numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.compose import ranges
from forge.compose.window_functions import bartlett, general_cosine, kaiser
from forge.dims import Dim
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


def filled(g: Context, number: Operand, shape: Sequence[Dim]) -> Value:
    return g.call("full", g.reshape(g.tensor(number, g.dtype), ()), shape=tuple(shape))


@converts("full.default")
def full(g: Context, size: Sequence[Dim], fill_value: Operand, *, dtype: str | None = None) -> Value:
    return filled(g, fill_value, size)


@converts("full_like.default")
def full_like(g: Context, self: Value, fill_value: Operand, *, dtype: str | None = None) -> Value:
    return filled(g, fill_value, self.shape)


@converts("new_full.default")
def new_full(g: Context, self: Value, size: Sequence[Dim], fill_value: Operand, *, dtype: str | None = None) -> Value:
    return filled(g, fill_value, size)


def _filled_with(number: int, name: str, sized_ops: Sequence[str], new_ops: Sequence[str] = ()) -> None:
    """Tensors of one number; what torch leaves undefined is 0."""

    @converts(*sized_ops)
    def sized(g: Context, size: Sequence[Dim], *, dtype: str | None = None, stride: Sequence[Dim] = (),
              physical_layout: Sequence[int] = ()) -> Value:
        return filled(g, number, size)

    @converts(f"{name}_like.default")
    def like(g: Context, self: Value, *, dtype: str | None = None) -> Value:
        return filled(g, number, self.shape)

    @converts(f"new_{name}.default", *new_ops)
    def new(g: Context, self: Value, size: Sequence[Dim], *, stride: Sequence[Dim] = (), dtype: str | None = None) -> Value:
        return filled(g, number, size)


_filled_with(0, "zeros", ["zeros.default", "_efficientzerotensor.default"])
_filled_with(1, "ones", ["ones.default"])
_filled_with(0, "empty", ["empty.memory_format", "empty_strided.default", "empty_permuted.default"],
             ["new_empty_strided.default"])


@converts("_new_zeros_with_same_feature_meta.default")
def new_tangent(g: Context, self: Value, other: Value, *, self_num_batch_dims: int = 0) -> Value:
    return filled(g, 0, g.shape)


@converts("scalar_tensor.default")
def scalar_tensor(g: Context, s: Operand, *, dtype: str | None = None) -> Value:
    return g.reshape(g.tensor(s, g.dtype), ())


@converts("arange.default")
def arange_to(g: Context, end: Operand, *, dtype: str | None = None) -> Value:
    return arange(g, 0, end)


@converts("arange.start", "arange.start_step")
def arange(g: Context, start: Operand, end: Operand, step: Operand = 1, *, dtype: str | None = None) -> Value:
    """Of floating-point numbers as many as torch counts, computed in float64; those of int64 are truncated first."""
    numbers = (start, end, step)
    whole = (isinstance(x, int | dims.DimExpr) or isinstance(x, Value) and dtypes.is_integer(x.dtype) for x in numbers)
    if g.dtype == "int64" or all(whole):
        return g.cast(g.call("arange", *(g.tensor(x, "int64") for x in numbers), dtype="int64"), g.dtype)
    first, last, width = (g.tensor(x, "float64") for x in numbers)
    return ranges.arange(g, first, last, width, g.dtype)


def spaced(g: Context, start: Operand, end: Operand, steps: Dim) -> Value:
    """``steps`` numbers from ``start`` to ``end``; those of float32 are torch's to the last bit: histograms depend on it."""
    work = "complex128" if dtypes.is_complex(g.dtype) else "float64"
    first, last = (g.reshape(g.cast(g.tensor(x, _narrowed(g, x)), work), ()) for x in (start, end))
    rounded = g.dtype if g.dtype == "float32" else None
    return ranges.linspace(g, first, last, g.tensor(steps, "int64"), size=steps, rounded=rounded)


def _narrowed(g: Context, number: Operand) -> str:
    """The type in which torch takes an end: that of an integer result truncates it."""
    if dtypes.is_integer(g.dtype) or g.dtype == "float32":
        return g.dtype
    return number.dtype if isinstance(number, Value) else "complex128" if isinstance(number, complex) else "float64"


@converts(*(f"linspace.{o}" for o in ("default", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")))
def linspace(g: Context, start: Operand, end: Operand, *, steps: Dim, dtype: str | None = None) -> Value:
    return g.cast(spaced(g, start, end, steps), g.dtype)


@converts(*(f"logspace.{o}" for o in ("default", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")))
def logspace(g: Context, start: Operand, end: Operand, *, steps: Dim, base: float = 10.0, dtype: str | None = None) -> Value:
    exponents = spaced(g, start, end, steps)
    return g.cast(g.call("power", g.scalar(base, exponents), exponents), g.dtype)


@converts("eye.default", "eye.m")
def eye(g: Context, *, n: Dim, m: Dim | None = None, dtype: str | None = None) -> Value:
    return g.call("eye", n=n, m=n if m is None else m, dtype=g.dtype)


def _triangle(name: str, upper: bool, indices: Callable[..., tuple[np.ndarray, ...]]) -> None:
    @converts(f"{name}.default")
    def part(g: Context, self: Value, diagonal: Operand = 0) -> Value:
        return g.call("trilu", self, g.tensor(diagonal, "int64"), upper=upper)

    @converts(f"{name}_indices.default")
    def places(g: Context, *, row: int, col: int, offset: int = 0, dtype: str | None = None) -> Value:
        return g.constant(np.stack(indices(row, offset, col)), g.dtype)


_triangle("tril", False, np.tril_indices)
_triangle("triu", True, np.triu_indices)


_COSINES = {"hann": (0.5, -0.5), "blackman": (0.42, -0.5, 0.08)}


def _cosines(name: str, weights: Sequence[float]) -> None:
    @converts(f"{name}_window.default", f"{name}_window.periodic")
    def convert(g: Context, *, window_length: Dim, periodic: bool = True, dtype: str | None = None) -> Value:
        return _window(g, window_length, periodic, general_cosine, weights)


for _name, _weights in _COSINES.items():
    _cosines(_name, _weights)


@converts(*(f"hamming_window.{o}" for o in ("default", "periodic", "periodic_alpha", "periodic_alpha_beta")))
def hamming_window(g: Context, *, window_length: Dim, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46,
                   dtype: str | None = None) -> Value:
    return _window(g, window_length, periodic, general_cosine, (alpha, -beta))


@converts("bartlett_window.default", "bartlett_window.periodic")
def bartlett_window(g: Context, *, window_length: Dim, periodic: bool = True, dtype: str | None = None) -> Value:
    return _window(g, window_length, periodic, bartlett)


@converts("kaiser_window.default", "kaiser_window.periodic", "kaiser_window.beta")
def kaiser_window(g: Context, *, window_length: Dim, periodic: bool = True, beta: float = 12.0,
                  dtype: str | None = None) -> Value:
    return _window(g, window_length, periodic, kaiser, beta)


def _window(g: Context, length: Dim, periodic: bool, function: Callable[..., Value], *options: Any) -> Value:
    return g.cast(function(g, g.tensor(length, "int64"), *options, periodic=periodic, size=length), g.dtype)
