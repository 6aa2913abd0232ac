"""Random numbers: no particular ones, but the same in each process."""

from __future__ import annotations

import zlib

from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts
from forge.ir.nodes import Value


@converts("RandomUniform", "RandomStandardNormal")
def random_numbers(g: Context, shape: Value, *, dtype: str, seed: int = 0, seed2: int = 0) -> Value:
    """From 0 to 1, as dropout of an old graph reads them, or normal ones. Without seeds, each node has its own numbers."""
    operator = "random.uniform" if g.node.op == "RandomUniform" else "random.normal"
    start = zlib.crc32(f"{seed} {seed2}".encode() if seed or seed2 else g.name.encode())
    known = g.dims(shape)
    if known is None:
        return g.call(operator, g.cast(shape, "int64"), out_shape=None, out_dtype=dtype, seed=start)
    return g.call(operator, out_shape=known, out_dtype=dtype, seed=start)
