"""Random numbers: distributed as TFLite's, and others than those."""

from __future__ import annotations

from forge.frontends.tflite.context import Context
from forge.frontends.tflite.registry import converts
from forge.ir.nodes import Value


@converts("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL")
def random_numbers(g: Context, shape: Value, *, seed: int = 0, seed2: int = 0) -> Value:
    op = "random.uniform" if g.operator.name == "RANDOM_UNIFORM" else "random.normal"
    known, options = g.dims(shape), {"out_dtype": g.result().dtype, "seed": _seed(seed, seed2)}
    return g.call(op, g.cast(shape, "int64"), **options) if known is None else g.call(op, out_shape=known, **options)


@converts("MULTINOMIAL")
def multinomial(g: Context, logits: Value, count: Value, *, seed: int = 0, seed2: int = 0) -> Value:
    (samples,) = g.required_ints(count, "num_samples")
    return g.call(
        "random.multinomial", logits, num_samples=samples, out_dtype=g.result().dtype, seed=_seed(seed, seed2))


def _seed(first: int, second: int) -> int:
    return (first * 1_000_003 + second) % 2**31
