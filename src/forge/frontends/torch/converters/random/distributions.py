"""Random tensors. Their distributions are torch's, their numbers are not."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

from forge import dims, dtypes
from forge.dims import Dim
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term


def drawn(g: Context, op: str, shape: Sequence[Dim], dtype: str, salt: str = "", **parameters: float) -> Value:
    """Numbers of ``shape``; what a node draws twice differs in ``salt``."""
    options: dict[str, Any] = {"out_dtype": dtype, "seed": zlib.crc32((g.name + salt).encode()), **parameters}
    if dims.is_static(*shape):
        return g.call(op, out_shape=tuple(shape), **options)
    return g.reshape(g.call(op, g.vector(shape), out_shape=None, **options), shape)


def uniform01(g: Context, shape: Sequence[Dim], dtype: str = "float32") -> Term:
    """Numbers in [0, 1)."""
    return Term(g, drawn(g, "random.uniform", shape, dtype))


def _standard(op: str, name: str) -> None:
    def numbers(g: Context, shape: Sequence[Dim]) -> Value:
        if not dtypes.is_complex(g.dtype):
            return drawn(g, op, shape, g.dtype)
        scale = {"scale": math.sqrt(0.5)} if op == "random.normal" else {}
        return g.call("complex.make", *(drawn(g, op, shape, dtypes.part(g.dtype), part, **scale) for part in ("re", "im")))

    @converts(f"{name}.default", f"{name}.generator")
    def sized(g: Context, size: Sequence[Dim], *, dtype: str | None = None) -> Value:
        return numbers(g, size)

    @converts(f"{name}_like.default", f"{name}_like.generator")
    def like(g: Context, self: Value, *, dtype: str | None = None) -> Value:
        return numbers(g, self.shape)


_standard("random.uniform", "rand")
_standard("random.normal", "randn")


def integers(g: Context, low: Operand, high: Operand, shape: Sequence[Dim]) -> Value:
    """Whole numbers, low <= number < high."""
    first, last = (Term(g, g.tensor(x, "float64")) for x in (low, high))
    return ((uniform01(g, shape, "float64") * (last - first)).floor() + first).cast(g.dtype).value


@converts("randint.default", "randint.generator")
def randint(g: Context, high: Operand, size: Sequence[Dim], *, dtype: str | None = None) -> Value:
    return integers(g, 0, high, size)


@converts("randint.low", "randint.low_generator")
def randint_between(g: Context, low: Operand, high: Operand, size: Sequence[Dim], *, dtype: str | None = None) -> Value:
    return integers(g, low, high, size)


@converts("randint_like.default", "randint_like.Tensor")
def randint_like(g: Context, self: Value, high: Operand, *, dtype: str | None = None) -> Value:
    return integers(g, 0, high, self.shape)


@converts("randint_like.low_dtype")
def randint_like_between(g: Context, self: Value, low: Operand, high: Operand, *, dtype: str | None = None) -> Value:
    return integers(g, low, high, self.shape)


@converts("randperm.default", "randperm.generator")
def randperm(g: Context, *, n: Dim, dtype: str | None = None) -> Value:
    return g.cast(g.call("argsort", uniform01(g, (n,), "float64").value, axis=0), g.dtype)


def normals(g: Context, mean: Operand, std: Operand, shape: Sequence[Dim]) -> Value:
    kind = dtypes.part(g.dtype) if dtypes.is_complex(g.dtype) else g.dtype
    scale = math.sqrt(0.5) if dtypes.is_complex(g.dtype) else 1.0
    parts = [drawn(g, "random.normal", shape, kind, part, scale=scale) for part in (("re", "im") if scale < 1 else ("",))]
    unit = g.call("complex.make", *parts) if len(parts) == 2 else parts[0]
    return (Term(g, unit) * Term(g, g.tensor(std, g.dtype)) + Term(g, g.tensor(mean, g.dtype))).value


@converts("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor")
def normal(g: Context, mean: Operand, std: Operand = 1.0) -> Value:
    return normals(g, mean, std, g.shape)


@converts("normal.float_float")
def normal_sized(g: Context, mean: Operand, std: Operand, size: Sequence[Dim], *, dtype: str | None = None) -> Value:
    return normals(g, mean, std, size)


@converts("normal.default", "normal_functional.default")
def normal_like(g: Context, self: Value, mean: Operand = 0.0, std: Operand = 1.0) -> Value:
    return normals(g, mean, std, self.shape)


@converts("log_normal.default")
def log_normal(g: Context, self: Value, mean: Operand = 1.0, std: Operand = 2.0) -> Value:
    return g.call("exp", normals(g, mean, std, self.shape))


@converts("uniform.default")
def uniform(g: Context, self: Value, **ends: float) -> Value:
    low, high = ends.get("from", 0.0), ends.get("to", 1.0)
    return drawn(g, "random.uniform", self.shape, g.dtype, low=low, high=high)


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
    negative = Term(g, g.call("log1p", (uniform01(g, self.shape) * -1).value))
    return (negative / -lambd).cast(g.dtype).value


@converts("geometric.default")
def geometric(g: Context, self: Value, *, p: float) -> Value:
    logarithm = Term(g, g.call("log1p", (uniform01(g, self.shape, "float64") * -1).value))
    steps = (logarithm / math.log1p(-p)).floor() + 1 if p < 1 else logarithm * 0 + 1
    return steps.cast(g.dtype).value


@converts("cauchy.default")
def cauchy(g: Context, self: Value, *, median: float = 0.0, sigma: float = 1.0) -> Value:
    angle = (uniform01(g, self.shape) - 0.5) * math.pi
    return (Term(g, g.call("tan", angle.value)) * sigma + median).cast(g.dtype).value


def chosen(g: Context, p: Operand, shape: Sequence[Dim]) -> Value:
    """1 with probability ``p``, else 0."""
    return g.cast((uniform01(g, shape) < Term(g, g.tensor(p, "float32"))).value, g.dtype)


@converts("bernoulli.default")
def bernoulli(g: Context, self: Value) -> Value:
    return chosen(g, self, self.shape)


@converts("bernoulli.p", "bernoulli.float", "bernoulli.Tensor")
def bernoulli_of(g: Context, self: Value, p: Operand = 0.5) -> Value:
    return chosen(g, p, self.shape)


@converts("multinomial.default")
def multinomial(g: Context, self: Value, *, num_samples: int, replacement: bool = False) -> Value:
    """Without replacement the classes with the largest logarithms plus Gumbel noise."""
    logarithms = g.call("log", self)
    rows = logarithms if self.rank == 2 else g.reshape(logarithms, (1, *self.shape))
    if replacement:
        found = g.call("random.multinomial", rows, num_samples=num_samples, seed=zlib.crc32(g.name.encode()))
    else:
        waits = Term(g, g.call("log1p", (uniform01(g, rows.shape, self.dtype) * -1).value)) * -1
        noise = Term(g, g.call("log", waits.value))
        found = g.call("topk", (Term(g, rows) - noise).value, k=num_samples, axis=1, ret_type="indices")
    return found if self.rank == 2 else g.reshape(found, (num_samples,))
