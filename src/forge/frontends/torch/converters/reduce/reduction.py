"""Reductions along some axes, or all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from forge import dims, dtypes
from forge.dims import Dim
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term

Axes = Sequence[int] | int | None


def reduced(g: Context, name: str, x: Value, dim: Axes, keepdim: bool = False, **options: Any) -> Value:
    """A reduction as Forge has it; a number counts as one element along an axis."""
    if x.rank == 0:
        return g.call(name, g.reshape(x, (1,)), axis=(0,), keepdims=False, **options)
    return g.call(name, x, axis=g.axes(dim, x.rank), keepdims=keepdim, **options)


def extent(g: Context, x: Value, dim: Axes, dtype: str) -> Term:
    """How many elements are reduced to one."""
    count: Dim = dims.product(x.shape[axis] for axis in g.axes(dim, x.rank)) if x.rank else 1
    return Term(g, g.cast(g.tensor(count, "int64"), dtype))


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


def extreme(g: Context, name: str, x: Value, dim: Axes, keepdim: bool) -> Value:
    """The largest ("max") or smallest ("min") element; bools are ordered, too."""
    if x.dtype == "bool":
        return reduced(g, "any" if name == "max" else "all", x, dim, keepdim)
    return reduced(g, name, x, dim, keepdim)


def of_some(g: Context, found: Value, x: Value, dim: Axes, what: str) -> Value:
    """``found``, which is ``x`` or made of it; a call for which there is nothing to reduce fails, as in torch."""
    count: Dim = dims.product(x.shape[axis] for axis in g.axes(dim, x.rank)) if x.rank else 1
    least = dims.bounds(count)[0]
    if least is not None and least > 0:
        return found
    return g.call("check_size", found, axis=0, least=1, size=count, label=f"{count} that {what} reduces")


def _extreme(op: str) -> None:
    @converts(f"a{op}.default", f"{op}.default")
    def values(g: Context, self: Value, *, dim: Axes = None, keepdim: bool = False) -> Value:
        return of_some(g, extreme(g, op, self, dim, keepdim), self, dim, op)

    @converts(f"{op}.dim")
    def both(g: Context, self: Value, *, dim: int, keepdim: bool = False) -> list[Value]:
        x = g.cast(self, "uint8") if self.dtype == "bool" else self
        found = of_some(g, extreme(g, op, self, dim, keepdim), self, dim, op)
        return [found, reduced(g, f"arg{op}", x, dim, keepdim)]

    @converts(f"arg{op}.default")
    def place(g: Context, self: Value, *, dim: int | None = None, keepdim: bool = False) -> Value:
        if dim is not None:
            return reduced(g, f"arg{op}", self, dim, keepdim)
        found = g.call(f"arg{op}", g.call("reshape", self, newshape=(-1,)), axis=0, keepdims=False)
        return g.reshape(found, (1,) * self.rank) if keepdim else found


_extreme("max")
_extreme("min")


@converts("aminmax.default")
def aminmax(g: Context, self: Value, *, dim: int | None = None, keepdim: bool = False) -> list[Value]:
    return [of_some(g, extreme(g, name, self, dim, keepdim), self, dim, "aminmax") for name in ("min", "max")]


def _truth(op: str) -> None:
    @converts(f"{op}.default", f"{op}.dim", f"{op}.dims", f"_is_{op}_true.default")
    def convert(g: Context, self: Value, *, dim: Axes = None, keepdim: bool = False) -> Value:
        return g.cast(reduced(g, op, g.cast(self, "bool"), dim, keepdim), g.dtype)


_truth("any")
_truth("all")


@converts("count_nonzero.default", "count_nonzero.dim_IntList")
def count_nonzero(g: Context, self: Value, *, dim: Axes = None) -> Value:
    return reduced(g, "count_nonzero", self, dim)


def variance(g: Context, x: Value, dim: Axes, keepdim: bool, unbiased: bool, correction: float | None) -> Value:
    """The mean of the squared distances from the mean, where ``correction`` is taken from the number of elements."""
    less = correction if correction is not None else float(unbiased)
    if dtypes.is_complex(x.dtype):
        parts = (g.call(f"complex.{part}", x) for part in ("real", "imag"))
        return g.call("add", *(variance(g, part, dim, keepdim, unbiased, less) for part in parts))
    if less in (0, 1):
        return reduced(g, "variance", x, dim, keepdim, unbiased=bool(less))
    biased = Term(g, reduced(g, "variance", x, dim, keepdim, unbiased=False))
    count = extent(g, x, dim, "float64")
    return (biased * (count / (count - less).maximum(0)).cast(x.dtype)).value


def _deviation(op: str) -> None:
    def spread(g: Context, self: Value, dim: Axes, keepdim: bool, unbiased: bool, correction: float | None) -> Value:
        found = variance(g, self, dim, keepdim, unbiased, correction)
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
    size = g.call("abs", x) if dtypes.is_complex(x.dtype) else g.cast(x, g.dtype)
    if g.dtype in ("float16", "bfloat16"):
        size = g.cast(size, "float32")
    return g.cast(p_norm(g, size, plain_number(g, ord, "ord"), dim, keepdim), g.dtype)


def plain_number(g: Context, number: Operand | None, what: str) -> float:
    """``number``, which must be known now."""
    if isinstance(number, int | float):
        return number
    raise g.unsupported(f"{what}: got {number}; supported: a number")


def p_norm(g: Context, x: Value, p: float, dim: Axes, keepdim: bool) -> Value:
    if math.isinf(p):
        return of_some(g, reduced(g, "max" if p > 0 else "min", g.call("abs", x), dim, keepdim), x, dim, "the norm")
    if p == 0:
        return g.cast(reduced(g, "count_nonzero", x, dim, keepdim), x.dtype)
    if p == 1:
        return reduced(g, "sum", g.call("abs", x), dim, keepdim)
    if p == 2:
        return g.call("sqrt", reduced(g, "sum", g.call("multiply", x, x), dim, keepdim))
    total = reduced(g, "sum", g.call("power", g.call("abs", x), g.scalar(p, x)), dim, keepdim)
    return g.call("power", total, g.scalar(1 / p, x))


@converts("norm.Scalar", "norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype", "norm.ScalarOpt_dtype")
def norm(g: Context, self: Value, p: Operand | None = 2, *, dim: Axes = None, keepdim: bool = False,
         dtype: str | None = None) -> Value:
    return vector_norm(g, self, 2 if p is None else p, dim=dim, keepdim=keepdim, dtype=dtype)


@converts("dist.default")
def dist(g: Context, self: Value, other: Value, p: Operand = 2) -> Value:
    return vector_norm(g, g.call("subtract", *g.promoted(self, other)), p)


@converts("logsumexp.default", "special_logsumexp.default")
def logsumexp(g: Context, self: Value, *, dim: Axes, keepdim: bool = False) -> Value:
    x = g.cast(self, g.dtype)
    if dtypes.is_complex(g.dtype):
        most = Term(g, reduced(g, "max", g.call("complex.real", x), dim, keepdim=True))
        most = Term(g, g.call("isfinite", most.value)).where(most, 0).cast(g.dtype)
        total = Term(g, g.call("log", reduced(g, "sum", g.call("exp", (Term(g, x) - most).value), dim, keepdim)))
        return (total + most.reshape(*total.value.shape)).value
    return reduced(g, "logsumexp", x, dim, keepdim)


@converts("hash_tensor.default")
def hash_of(g: Context, self: Value, *, dim: Axes = None, keepdim: bool = False, mode: int = 0) -> Value:
    """Which bits an odd number of elements have, as numbers of 64 bits: of int64, or of float64."""
    wide = g.cast(self, "float64") if dtypes.is_float(self.dtype) else g.cast(self, "int64")
    return reduced(g, "reduce_bitwise_xor", g.call("reinterpret", wide, dtype="uint64"), dim, keepdim)
