"""Random numbers that are functions of a seed."""

from __future__ import annotations

from tests.frontends.tensorflow.case import FLOATS, given, ints, row

SEED = given([7, -12345678901], "int64")
STATE = (given([0x123456789ABCDEF0], "uint64"), given([5, 0xFFFFFFFFFFFFFFFF], "uint64"), ints(1))

ROWS = [
    *(row(op, ints([3, 5]), SEED, forms=FLOATS, T=None, dtype="form", accuracy=4)
      for op in ("StatelessRandomUniform", "StatelessRandomNormal")),
    *(row(op, ints([3, 5]), *STATE, forms=FLOATS, T=None, dtype="form", accuracy=4)
      for op in ("StatelessRandomUniformV2", "StatelessRandomNormalV2")),
    *(row("StatelessRandomUniformInt", ints([11]), SEED, given(-3, dtype), given(1000, dtype), forms=(dtype,), T=None,
          dtype=dtype)
      for dtype in ("int32", "int64")),
    *(row("StatelessRandomUniformIntV2", ints([11]), *STATE, given(-3, dtype), given(1000, dtype), forms=(dtype,), T=None,
          dtype=dtype)
      for dtype in ("int32", "int64")),
    row("StatelessRandomUniformFullInt", ints([7]), SEED, forms=("int32", "int64", "uint32", "uint64"), T=None, dtype="form"),
    row("StatelessRandomUniformFullIntV2", ints([7]), *STATE, forms=("int32", "int64", "uint32", "uint64"), T=None, dtype="form"),
    row("StatelessRandomGetKeyCounter", given([1, 2]), outputs=2, T=None), row("StatelessRandomGetAlg", T=None),
    row("StatelessRandomGetKeyCounterAlg", given([1, 2]), outputs=3, T=None),
]
