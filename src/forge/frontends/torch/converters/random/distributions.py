"""Random tensors. Their distributions are torch's, their numbers are not."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

from forge import dtypes
from forge.compose import distributions
from forge.dims import Dim
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


def seed_of(g: Context) -> int:
    """Of the step at hand."""
    return zlib.crc32(g.name.encode())


def _standard(draw: Callable[..., Value], name: str) -> None:
    @converts(*(f"{name}{like}.{overload}" for like in ("", "_like") for overload in ("default", "generator")))
    def convert(g: Context, self: Value | None, size: Sequence[Dim] | None = None, *, dtype: str | None = None) -> Value:
        return draw(g, _sizes(self, size), g.dtype, seed=seed_of(g))


_standard(distributions.uniform, "rand")
_standard(distributions.standard_normal, "randn")


def integers(g: Context, low: Operand, high: Operand, shape: Sequence[Dim]) -> Value:
    return distributions.integers(g, g.tensor(low, "float64"), g.tensor(high, "float64"), shape, g.dtype, seed=seed_of(g))


@converts(
    "randint.default", "randint.generator", "randint.low", "randint.low_generator", "randint_like.default", "randint_like.Tensor",
    "randint_like.low_dtype",
)
def randint(
    g: Context, self: Value | None, low: Operand | None, high: Operand, size: Sequence[Dim] | None = None,
    *, dtype: str | None = None,
) -> Value:
    return integers(g, 0 if low is None else low, high, _sizes(self, size))


def _sizes(like: Value | None, size: Sequence[Dim] | None) -> Sequence[Dim]:
    assert like is not None or size is not None
    return like.shape if like is not None else size or ()


@converts("randperm.default", "randperm.generator")
def randperm(g: Context, *, n: Dim, dtype: str | None = None) -> Value:
    return g.cast(distributions.permutation(g, n, seed=seed_of(g)), g.dtype)


def normals(g: Context, mean: Operand, std: Operand, shape: Sequence[Dim]) -> Value:
    return distributions.normal(g, g.tensor(mean, g.dtype), g.tensor(std, g.dtype), shape, g.dtype, seed=seed_of(g))


@converts("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor")
def normal(g: Context, mean: Operand, std: Operand = 1.0) -> Value:
    return normals(g, mean, std, g.shape)


@converts("normal.float_float", "normal.default", "normal_functional.default")
def normal_sized(
    g: Context, self: Value | None, mean: Operand = 0.0, std: Operand = 1.0, size: Sequence[Dim] | None = None,
    *, dtype: str | None = None,
) -> Value:
    return normals(g, mean, std, _sizes(self, size))


@converts("log_normal.default")
def log_normal(g: Context, self: Value, mean: Operand = 1.0, std: Operand = 2.0) -> Value:
    return g.call("exp", normals(g, mean, std, self.shape))


@converts("uniform.default")
def uniform(g: Context, self: Value, **ends: float) -> Value:
    return distributions.uniform(
        g, self.shape, g.dtype, seed=seed_of(g), low=ends.get("from", 0.0), high=ends.get("to", 1.0))


@converts("random.default", "random.from", "random.to")
def random(g: Context, self: Value, **ends: int | None) -> Value:
    """Whole numbers; without an end up to the largest that the type holds exactly."""
    dtype = self.dtype
    if dtype == "bool":
        most = 1
    elif dtypes.is_integer(dtype):
        most = min(dtypes.integer_range(dtype)[1], 1 << 53)
    else:
        most = 1 << {"float16": 11, "bfloat16": 8, "float32": 24}.get(dtype, 53)
    end = ends.get("to")
    return integers(g, ends.get("from") or 0, most + 1 if end is None else end, self.shape)


@converts("exponential.default")
def exponential(g: Context, self: Value, *, lambd: float = 1.0) -> Value:
    return g.cast(distributions.exponential(g, lambd, self.shape, seed=seed_of(g)), g.dtype)


@converts("geometric.default")
def geometric(g: Context, self: Value, *, p: float) -> Value:
    return g.cast(distributions.geometric(g, p, self.shape, seed=seed_of(g)), g.dtype)


@converts("cauchy.default")
def cauchy(g: Context, self: Value, *, median: float = 0.0, sigma: float = 1.0) -> Value:
    return g.cast(distributions.cauchy(g, median, sigma, self.shape, seed=seed_of(g)), g.dtype)


@converts("bernoulli.default")
def bernoulli(g: Context, self: Value) -> Value:
    return bernoulli_of(g, self, self)


@converts("bernoulli.p", "bernoulli.float", "bernoulli.Tensor")
def bernoulli_of(g: Context, self: Value, p: Operand = 0.5) -> Value:
    """1 with probability ``p``, else 0."""
    share = g.tensor(p, "float32")
    share = share if share.shape == self.shape else g.call("broadcast_to", share, shape=self.shape)
    return g.call("random.bernoulli", share, out_dtype=g.dtype, seed=seed_of(g))


@converts("multinomial.default")
def multinomial(g: Context, self: Value, *, num_samples: int, replacement: bool = False) -> Value:
    return distributions.multinomial(g, self, num_samples, replace=replacement, seed=seed_of(g))
