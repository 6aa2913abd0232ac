"""Reductions along some axes, or all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from forge import dtypes
from forge.compose import reductions
from forge.compose.axes import ravel
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

Axes = Sequence[int] | int | None


def axes_of(g: Context, x: Value, dim: Axes) -> tuple[int, ...]:
    """Axes counted from the front; a number has none, whatever ``dim`` says."""
    return g.axes(dim, x.rank) if x.rank else ()


def reduced(g: Context, name: str, x: Value, dim: Axes, keepdim: bool = False, **options: Any) -> Value:
    """A reduction as Forge has it."""
    return reductions.reduced(g, name, x, axes_of(g, x, dim), keepdim, **options)


_OF_BOOLS = {"sum": "any", "prod": "all", "mean": "mean"}


def _total(name: str, *ops: str) -> None:
    @converts(*ops)
    def convert(g: Context, self: Value, *, dim: Axes = None, keepdim: bool = False, dtype: str | None = None) -> Value:
        return reduced(g, _OF_BOOLS[name] if g.dtype == "bool" else name, g.cast(self, g.dtype), dim, keepdim)


_total("sum", "sum.default", "sum.dim_IntList")
_total("mean", "mean.default", "mean.dim")
_total("prod", "prod.default", "prod.dim_int")


@converts("nansum.default")
def nansum(g: Context, self: Value, *, dim: Axes = None, keepdim: bool = False, dtype: str | None = None) -> Value:
    x = g.cast(self, g.dtype)
    if not dtypes.is_integer(g.dtype):
        x = g.call("where", g.call("isnan", x), g.scalar(0, x), x)
    return reduced(g, "sum", x, dim, keepdim)


def _most(g: Context, op: str, x: Value, dim: Axes, keepdim: bool, what: str) -> Value:
    """The largest ("max") or smallest ("min") element; as in torch, a call for which there is none fails."""
    axes = axes_of(g, x, dim)
    return reductions.of_some(g, reductions.extreme(g, op, x, axes, keepdim), x, axes, what)


def _extreme(op: str) -> None:
    @converts(f"a{op}.default", f"{op}.default")
    def values(g: Context, self: Value, *, dim: Axes = None, keepdim: bool = False) -> Value:
        return _most(g, op, self, dim, keepdim, op)

    @converts(f"{op}.dim")
    def both(g: Context, self: Value, *, dim: int, keepdim: bool = False) -> list[Value]:
        x = g.cast(self, "uint8") if self.dtype == "bool" else self
        return [_most(g, op, self, dim, keepdim, op), reduced(g, f"arg{op}", x, dim, keepdim)]

    @converts(f"arg{op}.default")
    def place(g: Context, self: Value, *, dim: int | None = None, keepdim: bool = False) -> Value:
        if dim is not None:
            return reduced(g, f"arg{op}", self, dim, keepdim)
        found = g.call(f"arg{op}", ravel(g, self), axis=0, keepdims=False)
        return g.reshape(found, (1,) * self.rank) if keepdim else found


_extreme("max")
_extreme("min")


@converts("aminmax.default")
def aminmax(g: Context, self: Value, *, dim: int | None = None, keepdim: bool = False) -> list[Value]:
    return [_most(g, name, self, dim, keepdim, "aminmax") for name in ("min", "max")]


def _truth(op: str) -> None:
    @converts(f"{op}.default", f"{op}.dim", f"{op}.dims", f"_is_{op}_true.default")
    def convert(g: Context, self: Value, *, dim: Axes = None, keepdim: bool = False) -> Value:
        return g.cast(reduced(g, op, g.cast(self, "bool"), dim, keepdim), g.dtype)


_truth("any")
_truth("all")


@converts("count_nonzero.default", "count_nonzero.dim_IntList")
def count_nonzero(g: Context, self: Value, *, dim: Axes = None) -> Value:
    return reduced(g, "count_nonzero", self, dim)


def _deviation(op: str) -> None:
    def spread(g: Context, self: Value, dim: Axes, keepdim: bool, unbiased: bool, correction: float | None) -> Value:
        less = float(unbiased) if correction is None else correction
        found = reductions.variance(g, self, axes_of(g, self, dim), keepdim, correction=less)
        return g.call("sqrt", found) if op == "std" else found

    @converts(f"{op}.default", f"{op}.dim", f"{op}.correction")
    def alone(g: Context, self: Value, *, dim: Axes = None, unbiased: bool = True, correction: float | None = None,
              keepdim: bool = False) -> Value:
        return spread(g, self, dim, keepdim, unbiased, correction)

    @converts(f"{op}_mean.default", f"{op}_mean.dim", f"{op}_mean.correction")
    def with_mean(g: Context, self: Value, *, dim: Axes = None, unbiased: bool = True, correction: float | None = None,
                  keepdim: bool = False) -> list[Value]:
        return [spread(g, self, dim, keepdim, unbiased, correction), reduced(g, "mean", self, dim, keepdim)]


_deviation("var")
_deviation("std")


@converts("linalg_vector_norm.default")
def vector_norm(g: Context, self: Value, ord: Operand = 2, *, dim: Axes = None, keepdim: bool = False,  # noqa: A002
                dtype: str | None = None) -> Value:
    """The p-norm; of float16 and bfloat16 computed in float32."""
    x = g.cast(self, dtype) if dtype else self
    x = x if dtypes.is_complex(x.dtype) else g.cast(x, "float32" if g.dtype in ("float16", "bfloat16") else g.dtype)
    p, axes = plain_number(g, ord, "ord"), axes_of(g, x, dim)
    found = reductions.vector_norm(g, x, p, axes, keepdim)
    return g.cast(reductions.of_some(g, found, x, axes, "the norm") if math.isinf(p) else found, g.dtype)


def plain_number(g: Context, number: Operand | None, what: str) -> float:
    """``number``, which must be known now."""
    if isinstance(number, int | float):
        return number
    raise g.unsupported(f"{what}: got {number}; supported: a number")


@converts("norm.Scalar", "norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype", "norm.ScalarOpt_dtype")
def norm(g: Context, self: Value, p: Operand | None = 2, *, dim: Axes = None, keepdim: bool = False,
         dtype: str | None = None) -> Value:
    return vector_norm(g, self, 2 if p is None else p, dim=dim, keepdim=keepdim, dtype=dtype)


@converts("dist.default")
def dist(g: Context, self: Value, other: Value, p: Operand = 2) -> Value:
    return vector_norm(g, g.call("subtract", *g.promoted(self, other)), p)


@converts("logsumexp.default", "special_logsumexp.default")
def logsumexp(g: Context, self: Value, *, dim: Axes, keepdim: bool = False) -> Value:
    return reductions.logsumexp(g, g.cast(self, g.dtype), axes_of(g, self, dim), keepdim)


@converts("hash_tensor.default")
def hash_of(g: Context, self: Value, *, dim: Axes = None, keepdim: bool = False, mode: int = 0) -> Value:
    """Which bits an odd number of elements have, as numbers of 64 bits: of int64, or of float64."""
    wide = g.cast(self, "float64") if dtypes.is_float(self.dtype) else g.cast(self, "int64")
    return reduced(g, "reduce_bitwise_xor", g.call("reinterpret", wide, dtype="uint64"), dim, keepdim)
