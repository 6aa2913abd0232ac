"""Random numbers, counter based: an element depends on ``seed`` and its row-major position only, on every machine and
thread count.

The generator is SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): the finalizer
of the position times the golden ratio, offset by the finalized seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dtypes, te
from forge.dims import Dim
from forge.ir.builder import Builder
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import fail, given_numbers, shape_of_contents
from forge.ops.core.lowering import element, injective, new_symbols, row_major
from forge.ops.core.op import Accuracy, Kind, Op, Operand, Trait, register
from forge.ops.core.signatures import Array, Arrays, Expr, Lowered, Symbols, Tensor, TensorType, TensorTypes, Types, Value, Values

GOLDEN = 0x9E3779B97F4A7C15
MIX_A = 0xBF58476D1CE4E5B9
MIX_B = 0x94D049BB133111EB
MASK = 2**64 - 1


def _finalize(z: int) -> int:
    z = ((z ^ (z >> 30)) * MIX_A) & MASK
    z = ((z ^ (z >> 27)) * MIX_B) & MASK
    return z ^ (z >> 31)


def random_bits(seed: int, counters: Array) -> Array:
    """64 random bits for every counter."""
    with np.errstate(over="ignore"):
        z = (counters.astype(np.uint64) + np.uint64(1)) * np.uint64(GOLDEN) + np.uint64(_finalize(seed & MASK))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX_A)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_B)
        return np.asarray(z ^ (z >> np.uint64(31)))


def lower_random_bits(seed: int, counter: Expr) -> Expr:
    """``random_bits`` of one counter."""

    def mixed(z: Expr, shift: int, factor: int) -> Expr:
        folded = te.binary("xor", z, te.binary("shr", z, te.const(shift, "uint64")))
        return folded * te.const(factor, "uint64") if factor != 1 else folded

    z = (te.cast(counter, "uint64") + 1) * te.const(GOLDEN, "uint64") + te.const(_finalize(seed & MASK), "uint64")
    return mixed(mixed(mixed(z, 30, MIX_A), 27, MIX_B), 31, 1)


def _work_dtype(dtype: str) -> str:
    return "float64" if dtype == "float64" else "float32"


def _unit(seed: int, counters: Array, dtype: str) -> Array:
    """Numbers in [0, 1) with 53 or 24 random bits."""
    kept = 53 if dtype == "float64" else 24
    fraction = (random_bits(seed, counters) >> np.uint64(64 - kept)).astype(np.float64) * 2.0**-kept
    return np.asarray(fraction.astype(dtypes.numpy_dtype(_work_dtype(dtype))))


def _lower_unit(seed: int, counter: Expr, dtype: str) -> Expr:
    kept, work = 53 if dtype == "float64" else 24, _work_dtype(dtype)
    top = te.binary("shr", lower_random_bits(seed, counter), te.const(64 - kept, "uint64"))
    return te.cast(te.cast(top, "int64"), work) * te.const(2.0**-kept, work)


@dataclass(frozen=True)
class UniformAttrs:
    out_shape: tuple[Dim, ...] | None = None
    out_dtype: str = "float32"
    low: float = 0.0
    high: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class NormalAttrs:
    out_shape: tuple[Dim, ...] | None = None
    out_dtype: str = "float32"
    mean: float = 0.0
    scale: float = 1.0
    seed: int = 0


class _Generator(Op[Any]):
    """uniform and normal: a shape (attribute or operand) in, random numbers out."""

    shape = Operand(optional=True, holds="integers")
    kind = Kind.INJECTIVE
    traits = Trait.RANDOM
    accuracy = Accuracy.ROUNDING

    def numbers(self, counters: Array, attrs: Any) -> Array:
        raise NotImplementedError

    def lower_number(self, counter: Expr, attrs: Any) -> Expr:
        raise NotImplementedError

    def infer(self, attrs: Any, shape: Value | None) -> Types:
        if not dtypes.is_float(attrs.out_dtype):
            raise fail(self.name, "attribute out_dtype", attrs.out_dtype, "a float type")
        return [TensorType(shape_of_contents(self.name, "shape", attrs.out_shape, shape, "random"), attrs.out_dtype)]

    def reference(self, attrs: Any, shape: Array | None) -> Arrays:
        sizes = given_numbers(attrs.out_shape, shape)
        counters = np.arange(math.prod(sizes)).reshape(sizes)
        return [numeric.convert(self.numbers(counters, attrs), attrs.out_dtype)]

    def lower(self, attrs: Any, results: TensorTypes, *_: object) -> Lowered:
        shape = te.shape_of(results[0].shape)

        def body(i: Sequence[Expr]) -> Expr:
            return te.cast(self.lower_number(row_major(i, shape), attrs), attrs.out_dtype)

        return [injective(self.name, results[0], body)]

    def define_symbols(self, attrs: Any, results: TensorTypes, shape: Tensor | None) -> Symbols:
        if attrs.out_shape is not None or shape is None:
            return {}
        return new_symbols(results[0], [element(shape, k) for k in range(results[0].rank)])


@register
class Uniform(_Generator):
    """Numbers uniformly distributed in [low, high)."""

    name = "random.uniform"
    Attrs = UniformAttrs

    def numbers(self, counters: Array, attrs: UniformAttrs) -> Array:
        unit = _unit(attrs.seed, counters, attrs.out_dtype)
        return np.asarray(unit * unit.dtype.type(attrs.high - attrs.low) + unit.dtype.type(attrs.low))

    def lower_number(self, counter: Expr, attrs: UniformAttrs) -> Expr:
        return _lower_unit(attrs.seed, counter, attrs.out_dtype) * (attrs.high - attrs.low) + attrs.low


@register
class Normal(_Generator):
    """Normally distributed numbers: mean + scale * sqrt(-2 ln(1 - u)) * cos(2 pi v) of two uniform ones (Box and
    Muller, 1958).
    """

    name = "random.normal"
    Attrs = NormalAttrs

    def numbers(self, counters: Array, attrs: NormalAttrs) -> Array:
        u, v = (_unit(attrs.seed, counters * 2 + k, attrs.out_dtype) for k in (0, 1))
        one = u.dtype.type
        radius = np.sqrt(np.log(one(1) - u) * one(-2))
        return np.asarray(radius * np.cos(v * one(2 * math.pi)) * one(attrs.scale) + one(attrs.mean))

    def lower_number(self, counter: Expr, attrs: NormalAttrs) -> Expr:
        u, v = (_lower_unit(attrs.seed, counter * 2 + k, attrs.out_dtype) for k in (0, 1))
        radius = te.call("sqrt", te.call("log", te.const(1.0, u.dtype) - u) * -2.0)
        return radius * te.call("cos", v * (2 * math.pi)) * attrs.scale + attrs.mean


@dataclass(frozen=True)
class BernoulliAttrs:
    out_dtype: str | None = None
    seed: int = 0


@register
class Bernoulli(Op[BernoulliAttrs]):
    """1 with probability data, else 0."""

    name = "random.bernoulli"
    data = Operand(accepts="float")
    kind = Kind.INJECTIVE
    traits = Trait.RANDOM

    def infer(self, attrs: BernoulliAttrs, data: Value) -> Types:
        return [TensorType(data.shape, attrs.out_dtype or data.dtype)]

    def reference(self, attrs: BernoulliAttrs, data: Array) -> Arrays:
        unit = _unit(attrs.seed, np.arange(data.size).reshape(data.shape), "float32")
        return [(unit < data.astype(np.float32)).astype(dtypes.numpy_dtype(attrs.out_dtype or dtypes.canonical(data.dtype)))]

    def lower(self, attrs: BernoulliAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        dtype = results[0].dtype

        def body(i: Sequence[Expr]) -> Expr:
            hit = _lower_unit(attrs.seed, row_major(i, data.shape), "float32") < te.cast(data[tuple(i)], "float32")
            return hit if dtype == "bool" else te.select(hit, te.const(1, dtype), te.const(0, dtype))

        return [injective(self.name, results[0], body)]


@dataclass(frozen=True)
class MultinomialAttrs:
    num_samples: int = 1
    out_dtype: str = "int64"
    seed: int = 0


@register
class Multinomial(Op[MultinomialAttrs]):
    """num_samples classes for every row of data, (rows, classes), unnormalized log-probabilities.

    The class with the largest data + g, g = -log(-log(u)) (Gumbel's trick).
    """

    name = "random.multinomial"
    data = Operand(accepts="float", rank=2)
    kind = Kind.ANCHOR
    traits = Trait.RANDOM

    def infer(self, attrs: MultinomialAttrs, data: Value) -> Types:
        return [TensorType((data.shape[0], attrs.num_samples), attrs.out_dtype)]

    def reference(self, attrs: MultinomialAttrs, data: Array) -> Arrays:
        data = data.astype(np.float32)
        shape = (data.shape[0], attrs.num_samples, data.shape[1])
        unit = _unit(attrs.seed, np.arange(math.prod(shape)).reshape(shape), "float32")
        return [np.argmax(data[:, None] - np.log(-np.log(unit)), axis=-1).astype(attrs.out_dtype)]

    def decompose(self, builder: Builder, attrs: MultinomialAttrs, data: Value) -> Values:
        rows, classes = data.shape
        shape = (rows, attrs.num_samples, classes)
        unit = builder.call("random.uniform", out_shape=shape, out_dtype="float32", seed=attrs.seed)
        surprise = builder.call("negative", builder.call("log", unit))
        wide = builder.call("expand_dims", builder.call("cast", data, dtype="float32"), axis=1)
        noisy = builder.call("subtract", wide, builder.call("log", surprise))
        return [builder.call("cast", builder.call("argmax", noisy, axis=2), dtype=attrs.out_dtype)]
