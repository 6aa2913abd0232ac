"""Hashes."""

from __future__ import annotations

from collections.abc import Sequence

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.microsoft import DOMAIN
from forge.frontends.onnx.registry import converts

_MIXERS = (0xCC9E2D51, 0x1B873593)
_STEP = 0xE6546B64
_FINAL = (0x85EBCA6B, 0xC2B2AE35)


@converts("MurmurHash3", domain=DOMAIN)
def murmur_hash(g: Context, x: Value, *, positive: int = 1, seed: int = 0) -> Value:
    """MurmurHash3 (32 bits, for x86) of the bytes of each number; ``positive`` gives uint32, else int32."""
    words = _words(g, x)
    state = g.call("full_like", words[0], g.constant(seed & 0xFFFFFFFF, "uint32"))
    for word in words:
        mixed = _times(g, _rotated(g, _times(g, word, _MIXERS[0]), 15), _MIXERS[1])
        state = _rotated(g, g.call("bitwise_xor", state, mixed), 13)
        state = g.call("add", _times(g, state, 5), g.scalar(_STEP, state))
    state = g.call("bitwise_xor", state, g.scalar(4 * len(words), state))
    for shift, factor in zip((16, 13), _FINAL):
        state = _times(g, _folded(g, state, shift), factor)
    state = _folded(g, state, 16)
    return state if positive else g.call("reinterpret", state, dtype="int32")


def _words(g: Context, x: Value) -> Sequence[Value]:
    """The bits of numbers as words of 32 bits, the low one first."""
    if x.dtype in ("int32", "uint32", "float32"):
        return [x if x.dtype == "uint32" else g.call("reinterpret", x, dtype="uint32")]
    if x.dtype not in ("int64", "uint64", "float64"):
        raise g.unsupported(f"input of {x.dtype}; supported: numbers of 32 and 64 bits")
    bits = x if x.dtype == "uint64" else g.call("reinterpret", x, dtype="uint64")
    low = g.call("bitwise_and", bits, g.scalar(0xFFFFFFFF, bits))
    return [g.cast(part, "uint32") for part in (low, g.call("right_shift", bits, g.scalar(32, bits)))]


def _times(g: Context, x: Value, factor: int) -> Value:
    return g.call("multiply", x, g.scalar(factor, x))


def _rotated(g: Context, x: Value, count: int) -> Value:
    """Bits moved left; those that fall out come back on the right."""
    left, right = g.call("left_shift", x, g.scalar(count, x)), g.call("right_shift", x, g.scalar(32 - count, x))
    return g.call("bitwise_or", left, right)


def _folded(g: Context, x: Value, shift: int) -> Value:
    return g.call("bitwise_xor", x, g.call("right_shift", x, g.scalar(shift, x)))
