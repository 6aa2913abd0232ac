"""Random bits out of an explicit state, as XLA defines them: Threefry 2x32 with 20 rounds and Philox 4x32 with 10.

Both are counter based (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, 2011): a block of bits is a
function of key and counter, so that results do not depend on threads or vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, te
from forge.dims import Dim
from forge.ops.core.inference import fail
from forge.ops.core.lowering import injective, row_major
from forge.ops.core.op import Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Expr, Lowered, Tensor, TensorType, TensorTypes, Types, Value, Values

WORD = "uint32"
LOW = 0xFFFFFFFF
PARITY = 0x1BD11BDA
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
WEYL = (0x9E3779B9, 0xBB67AE85)
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
ALGORITHMS = ("threefry", "philox")


class _Words:
    """Arithmetic on 32-bit words that works for NumPy arrays and for expressions alike; words are held in 64 bits."""

    def __init__(self, constant: Callable[[int], Any], shift: Callable[[Any, int, bool], Any], xor: Callable[[Any, Any], Any]):
        self.constant = constant
        self.shift = shift
        self.xor = xor

    def cut(self, x: Any) -> Any:
        return x & self.constant(LOW)

    def high(self, x: Any) -> Any:
        return self.shift(x, 32, False)

    def rotated(self, x: Any, count: int) -> Any:
        return self.cut(self.shift(x, count, True)) | self.shift(x, 32 - count, False)

    def threefry(self, counter: Any, key: Any) -> tuple[Any, Any]:
        """The two words of a block."""
        first, second = self.cut(key), self.high(key)
        keys = (first, second, self.xor(self.xor(first, second), self.constant(PARITY)))
        a, b = self.cut(self.cut(counter) + first), self.cut(self.high(counter) + second)
        for group in range(5):
            for count in ROTATIONS[group % 2]:
                a = self.cut(a + b)
                b = self.xor(a, self.rotated(b, count))
            a = self.cut(a + keys[(group + 1) % 3])
            b = self.cut(b + keys[(group + 2) % 3] + self.constant(group + 1))
        return a, b

    def philox(self, low: Any, high: Any, key: Any) -> tuple[Any, Any, Any, Any]:
        """The four words of a block."""
        x = (self.cut(low), self.high(low), self.cut(high), self.high(high))
        keys = [self.cut(key), self.high(key)]
        for _ in range(10):
            p, q = x[0] * self.constant(MULTIPLIERS[0]), x[2] * self.constant(MULTIPLIERS[1])
            x = (
                self.xor(self.xor(self.high(q), x[1]), keys[0]), self.cut(q),
                self.xor(self.xor(self.high(p), x[3]), keys[1]), self.cut(p),
            )
            keys = [self.cut(k + self.constant(w)) for k, w in zip(keys, WEYL, strict=True)]
        return x


def _numpy_shift(x: Array, count: int, left: bool) -> Array:
    return np.asarray(x << np.uint64(count) if left else x >> np.uint64(count))


NUMPY = _Words(np.uint64, _numpy_shift, np.bitwise_xor)
EXPRESSIONS = _Words(
    lambda v: te.const(v, "uint64"),
    lambda x, count, left: te.binary("shl" if left else "shr", x, te.const(count, "uint64")),
    lambda a, b: te.binary("xor", a, b),
)


@dataclass(frozen=True)
class BitsAttrs:
    """``out_shape`` of threefry, and of what moves a state on, is known at compile time."""

    algorithm: str
    out_shape: tuple[Dim, ...]
    out_dtype: str = "uint32"

    @property
    def sizes(self) -> tuple[int, ...]:
        """``out_shape`` where it is known."""
        return tuple(d for d in self.out_shape if isinstance(d, int))


def _check(op: str, attrs: BitsAttrs, state: Value, needs_sizes: bool) -> None:
    if attrs.algorithm not in ALGORITHMS:
        raise fail(op, "attribute algorithm", repr(attrs.algorithm), " or ".join(ALGORITHMS))
    if needs_sizes and not dims.is_static(*attrs.out_shape):
        raise fail(op, f"attribute out_shape of {attrs.algorithm}", attrs.out_shape, "sizes that are known at compile time")
    if attrs.out_dtype not in (WORD, "uint64"):
        raise fail(op, "attribute out_dtype", repr(attrs.out_dtype), "uint32 or uint64")
    lengths = (2,) if attrs.algorithm == "threefry" else (2, 3)
    if state.shape[0] not in lengths:
        raise fail(op, "length of state", state.shape[0], " or ".join(map(str, lengths)))


def _split(shape: Sequence[int]) -> int:
    """The dimension along which neighbours share a block of Threefry: the first even one, or the first of the longest."""
    return next((k for k, d in enumerate(shape) if d % 2 == 0), max(range(len(shape)), key=lambda k: (shape[k], -k)))


def _halved(shape: Sequence[int]) -> tuple[int, ...]:
    axis = _split(shape)
    return tuple(-(-d // 2) if k == axis else d for k, d in enumerate(shape))


def blocks(attrs: BitsAttrs) -> int:
    """How many counters the bits take."""
    count = math.prod(attrs.sizes)
    if attrs.algorithm == "philox":
        return -(-count * (2 if attrs.out_dtype == "uint64" else 1) // 4)
    return count if attrs.out_dtype == "uint64" else math.prod(_halved(attrs.sizes or (1,)))


@register
class RandomBits(Op[BitsAttrs]):
    """The bits of random.bit_generator; state is not advanced."""

    name = "random.bits"
    state = Operand(accepts="uint64", rank=1)
    kind = Kind.INJECTIVE

    def infer(self, attrs: BitsAttrs, state: Value) -> Types:
        _check(self.name, attrs, state, attrs.algorithm == "threefry")
        return [TensorType(attrs.out_shape, attrs.out_dtype)]

    def reference(self, attrs: BitsAttrs, state: Array) -> Arrays:
        shape = attrs.sizes or (1,)
        with np.errstate(over="ignore"):
            make = self._threefry if attrs.algorithm == "threefry" else self._philox
            bits = make(state, shape, attrs.out_dtype == "uint64")
        return [bits.reshape(attrs.sizes).astype(attrs.out_dtype)]

    def _threefry(self, state: Array, shape: tuple[int, ...], wide: bool) -> Array:
        halves = shape if wide else _halved(shape)
        counter = state[1] + np.arange(math.prod(halves), dtype=np.uint64).reshape(halves)
        a, b = NUMPY.threefry(counter, state[0])
        if wide:
            return np.asarray(a | (b << np.uint64(32)))
        axis = _split(shape)
        both = np.stack([a, b], axis=axis + 1)
        joined = both.reshape(*halves[:axis], 2 * halves[axis], *halves[axis + 1 :])
        return np.asarray(np.take(joined, np.arange(shape[axis]), axis=axis))

    def _philox(self, state: Array, shape: tuple[int, ...], wide: bool) -> Array:
        count = math.prod(shape)
        places = np.arange(-(-count * (2 if wide else 1) // 4), dtype=np.uint64)
        low = state[1] + places
        high = (state[2] if len(state) == 3 else state[0]) + (low < state[1]).astype(np.uint64)
        words: Sequence[Array] = NUMPY.philox(low, high, state[0])
        if wide:
            words = [words[0] | (words[1] << np.uint64(32)), words[2] | (words[3] << np.uint64(32))]
        return np.stack(words, axis=-1).reshape(-1)[:count]

    def lower(self, attrs: BitsAttrs, results: TensorTypes, state: Tensor) -> Lowered:
        wide = attrs.out_dtype == "uint64"

        def body(i: Sequence[Expr]) -> Expr:
            if attrs.algorithm == "philox":
                return _lower_philox(state, row_major(i, te.shape_of(attrs.out_shape)), wide)
            return _lower_threefry(state, i, attrs.sizes, wide)

        return [injective(self.name, results[0], body)]


def _chosen(words: Sequence[Expr], lane: Expr) -> Expr:
    result = words[0]
    for number, word in enumerate(words[1:], 1):
        result = te.select(lane.eq(number), word, result)
    return result


def _joined(low: Expr, high: Expr) -> Expr:
    return low | te.binary("shl", high, te.const(32, "uint64"))


def _lower_threefry(state: Tensor, at: Sequence[Expr], shape: Sequence[int], wide: bool) -> Expr:
    lane: Expr = te.const(0)
    halves = tuple(shape)
    if not wide and shape:
        axis, halves = _split(shape), _halved(shape)
        lane = at[axis] % 2
        at = [x // 2 if k == axis else x for k, x in enumerate(at)]
    counter = state[te.const(1)] + te.cast(row_major(at, te.shape_of(halves)), "uint64")
    words = EXPRESSIONS.threefry(counter, state[te.const(0)])
    return _joined(*words) if wide else te.cast(_chosen(words, lane), WORD)


def _lower_philox(state: Tensor, place: Expr, wide: bool) -> Expr:
    key, start = state[te.const(0)], state[te.const(1)]
    top = state[te.const(2)] if te.is_const(state.shape[0], 3) else key
    per_block = 2 if wide else 4
    low = start + te.cast(place // per_block, "uint64")
    high = te.select(low < start, top + te.const(1, "uint64"), top)
    a, b, c, d = EXPRESSIONS.philox(low, high, key)
    if wide:
        return _chosen([_joined(a, b), _joined(c, d)], place % 2)
    return te.cast(_chosen([a, b, c, d], place % 4), WORD)


@register
class BitGenerator(Op[BitsAttrs]):
    """A state for the next call, and random bits of ``out_shape``. state: key and counter, uint64.

    ``algorithm``: threefry, or philox, whose counter may have two words (low, high); with one, its high word is the key.
    """

    name = "random.bit_generator"
    state = Operand(accepts="uint64", rank=1)

    def infer(self, attrs: BitsAttrs, state: Value) -> Types:
        _check(self.name, attrs, state, True)
        return [state.type, TensorType(attrs.out_shape, attrs.out_dtype)]

    def reference(self, attrs: BitsAttrs, state: Array) -> Arrays:
        moved = state.copy()
        with np.errstate(over="ignore"):
            moved[1] += np.uint64(blocks(attrs))
            if len(moved) == 3:
                moved[2] += np.uint64(moved[1] < state[1])
        return [moved, *RandomBits().reference(attrs, state)]

    def decompose(self, builder: Builder, attrs: BitsAttrs, state: Value) -> Values:
        length = state.shape[0]
        step = builder.constant(np.array([0, blocks(attrs), 0][:length], np.uint64))
        moved = builder.call("add", state, step)
        if length == 3:
            carry = builder.call("cast", builder.call("less", moved, state), dtype="uint64")
            moved = builder.call("add", moved, builder.call("roll", carry, shift=(1,), axis=(0,)))
        return [moved, builder.call(RandomBits(), state, **vars(attrs))]
