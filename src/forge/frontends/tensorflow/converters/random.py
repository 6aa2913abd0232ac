"""Random numbers. Those of stateless operators are TensorFlow's own; those of others are distributed as TensorFlow's."""

from __future__ import annotations

import math
import zlib

from forge import dims, dtypes
from forge.compose import distributions, special
from forge.compose.bits import bitcast
from forge.dims import Dim
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts, refuse
from forge.ir.nodes import Value
from forge.ops.core.term import Term

for _name in (
    "StatelessTruncatedNormal", "StatelessTruncatedNormalV2", "StatelessMultinomial", "StatelessShuffle",
    "StatelessRandomGammaV2", "StatelessRandomGammaV3", "StatelessRandomPoisson", "StatelessRandomBinomial",
    "StatelessParameterizedTruncatedNormal",
):
    refuse(_name, "how many bits a number takes depends on them; draw the numbers outside of the model")
for _name in (
    "RandomGamma", "RandomPoisson", "RandomPoissonV2", "ParameterizedTruncatedNormal", "StatefulRandomBinomial",
    "StatefulUniform", "StatefulStandardNormalV2", "StatefulUniformInt", "StatefulUniformFullInt", "StatefulTruncatedNormal",
    "RandomIndexShuffle",
):
    refuse(_name, "a generator whose state is a variable, or a distribution that Forge does not have; draw outside of the model")


def _seed(g: Context, first: int, second: int) -> int:
    """Without seeds, each node has its own numbers, the same in each process."""
    return zlib.crc32(f"{first} {second}".encode() if first or second else g.name.encode())


def _drawn(g: Context, op: str, shape: Value, **options: object) -> Value:
    known = g.dims(shape)
    return g.call(op, g.cast(shape, "int64"), **options) if known is None else g.call(op, out_shape=known, **options)


@converts("RandomUniform")
def random_uniform(g: Context, shape: Value, *, dtype: str, seed: int = 0, seed2: int = 0) -> Value:
    return _drawn(g, "random.uniform", shape, out_dtype=dtype, seed=_seed(g, seed, seed2))


@converts("RandomStandardNormal")
def random_standard_normal(g: Context, shape: Value, *, dtype: str, seed: int = 0, seed2: int = 0) -> Value:
    return _drawn(g, "random.normal", shape, out_dtype=dtype, seed=_seed(g, seed, seed2))


@converts("TruncatedNormal")
def truncated_normal(g: Context, shape: Value, *, dtype: str, seed: int = 0, seed2: int = 0) -> Value:
    """Of deviations up to 2, by the inverse of the distribution function."""
    tail = 0.5 * math.erfc(math.sqrt(2.0))
    area = _drawn(g, "random.uniform", shape, out_dtype="float64", low=tail, high=1.0 - tail, seed=_seed(g, seed, seed2))
    return g.cast(special.ndtri(g, area), dtype)


@converts("RandomUniformInt")
def random_uniform_int(g: Context, shape: Value, low: Value, high: Value, *, seed: int = 0, seed2: int = 0) -> Value:
    unit = Term(g, _drawn(g, "random.uniform", shape, out_dtype="float64", seed=_seed(g, seed, seed2)))
    first, last = (Term(g, g.cast(v, "float64")) for v in (low, high))
    return ((unit * (last - first)).floor() + first).cast(low.dtype).value


@converts("RandomShuffle")
def random_shuffle(g: Context, x: Value, *, seed: int = 0, seed2: int = 0) -> Value:
    return g.call("take", x, distributions.permutation(g, x.shape[0], seed=_seed(g, seed, seed2)), axis=0)


@converts("Multinomial")
def multinomial(
    g: Context, logits: Value, count: Value, *, seed: int = 0, seed2: int = 0, output_dtype: str = "int64"
) -> Value:
    number = g.one_int(count, "num_samples")
    return g.call("random.multinomial", logits, num_samples=number, out_dtype=output_dtype, seed=_seed(g, seed, seed2))


_SCRAMBLING_KEY = 0x02461E29_3EC8F720


def _scrambled(g: Context, seed: Value) -> tuple[Value, Value]:
    """A key, and the high half of a counter whose low half is 0, uint64 [1] each, of a seed of two numbers."""
    words = bitcast(g, g.cast(g.reshape(seed, (2,)), "int64"), "uint64")
    state = g.call("concatenate", g.constant([_SCRAMBLING_KEY], "uint64"), words, axis=0)
    mixed = g.call("random.bits", state, algorithm="philox", out_shape=(2,), out_dtype="uint64")
    return tuple(g.call("take", mixed, g.constant([k], "int64"), axis=0) for k in (0, 1))  # type: ignore[return-value]


def _state(g: Context, seed: Value) -> Value:
    key, high = _scrambled(g, seed)
    return g.call("concatenate", key, g.constant([0], "uint64"), high, axis=0)


def _state_v2(g: Context, key: Value, counter: Value, algorithm: Value) -> Value:
    if g.one_int(algorithm, "alg") not in (1, 3):
        raise g.unsupported(f"alg: got {g.one_int(algorithm, 'alg')}; expected 1, Philox, or 3, the device's")
    return g.call("concatenate", g.reshape(key, (1,)), g.reshape(counter, (2,)), axis=0)


@converts("StatelessRandomGetKeyCounter", outputs="key counter")
def get_key_counter(g: Context, seed: Value) -> list[Value]:
    key, high = _scrambled(g, seed)
    return [key, g.call("concatenate", g.constant([0], "uint64"), high, axis=0)]


@converts("StatelessRandomGetAlg")
def get_algorithm(g: Context) -> Value:
    return g.constant(1, "int32")


@converts("StatelessRandomGetKeyCounterAlg", outputs="key counter alg")
def get_key_counter_algorithm(g: Context, seed: Value) -> list[Value]:
    return [*get_key_counter(g, seed), g.constant(1, "int32")]


def _words(g: Context, state: Value, count: Dim, dtype: str = "uint32") -> Value:
    return g.call("random.bits", state, algorithm="philox", out_shape=(count,), out_dtype=dtype)


def _sizes(g: Context, shape: Value) -> tuple[Dim, ...]:
    found = g.dims(shape)
    return g.required_ints(shape, "shape") if found is None else found


def _between(g: Context, bits: Value, dtype: str) -> Term:
    """Numbers from 0 to 1 of the low bits of words; of float64, the high half of a pair of words comes first."""
    number = {"float64": (52, 1023), "float32": (23, 127), "float16": (10, 15), "bfloat16": (7, 127)}.get(dtype)
    if number is None:
        raise g.unsupported(f"dtype: got {dtype}; expected a floating-point type")
    mantissa, exponent = number
    width = dtypes.bits(dtype)
    word = f"uint{width}"
    if width == 64:
        swapped = [g.call(op, bits, g.constant(32, word)) for op in ("left_shift", "logical_right_shift")]
        bits = g.call("bitwise_or", *swapped)
    low = g.call("bitwise_and", g.cast(bits, word), g.constant((1 << mantissa) - 1, word))
    whole = g.call("bitwise_or", low, g.constant(exponent << mantissa, word))
    return Term(g, bitcast(g, whole, dtype)) - 1


def _uniform(g: Context, shape: Value, state: Value, dtype: str) -> Value:
    sizes = _sizes(g, shape)
    bits = _words(g, state, dims.product(sizes), "uint64" if dtype == "float64" else "uint32")
    if dtypes.bits(dtype) == 16:
        bits = g.call("bitwise_and", bits, g.constant(0xFFFF, "uint32"))
    return g.reshape(_between(g, bits, dtype).value, sizes)


def _normal(g: Context, shape: Value, state: Value, dtype: str) -> Value:
    """Box and Muller's method, of pairs of numbers."""
    sizes = _sizes(g, shape)
    count = dims.product(sizes)
    wide = "float64" if dtype == "float64" else "float32"
    pairs = dims.ceildiv(count, 2)
    bits = g.reshape(_words(g, state, 2 * pairs, "uint64" if wide == "float64" else "uint32"), (pairs, 2))
    radius, turn = (_between(g, g.call("take", bits, g.constant(k, "int64"), axis=1), wide) for k in (0, 1))
    logarithm = Term(g, g.call("log", radius.maximum(1e-7).value))
    length = Term(g, g.call("sqrt", (logarithm * -2).value))
    angle = (turn * (2 * math.pi)).value
    both = [length * Term(g, g.call(op, angle)) for op in ("sin", "cos")]
    flat = g.reshape(g.call("stack", *(t.value for t in both), axis=1), (2 * pairs,))
    first = g.call("strided_slice", flat, begin=(0,), end=(count,), strides=(1,), axes=(0,))
    return g.cast(g.reshape(first, sizes), dtype)


def _full(g: Context, shape: Value, state: Value, dtype: str) -> Value:
    """Integers of all bits."""
    sizes = _sizes(g, shape)
    word = f"uint{dtypes.bits(dtype)}"
    return g.reshape(bitcast(g, _words(g, state, dims.product(sizes), word), dtype), sizes)


def _integers(g: Context, shape: Value, state: Value, low: Value, high: Value) -> Value:
    sizes = _sizes(g, shape)
    word = f"uint{dtypes.bits(low.dtype)}"
    start, span = (bitcast(g, v, word) for v in (low, g.call("subtract", high, low)))
    rest = g.call("mod", _words(g, state, dims.product(sizes), word), g.reshape(span, ()))
    return bitcast(g, g.reshape(g.call("add", rest, g.reshape(start, ())), sizes), low.dtype)


@converts("StatelessRandomUniform")
def stateless_uniform(g: Context, shape: Value, seed: Value, *, dtype: str = "float32") -> Value:
    return _uniform(g, shape, _state(g, seed), dtype)


@converts("StatelessRandomUniformV2")
def stateless_uniform_v2(
    g: Context, shape: Value, key: Value, counter: Value, alg: Value, *, dtype: str = "float32"
) -> Value:
    return _uniform(g, shape, _state_v2(g, key, counter, alg), dtype)


@converts("StatelessRandomNormal")
def stateless_normal(g: Context, shape: Value, seed: Value, *, dtype: str = "float32") -> Value:
    return _normal(g, shape, _state(g, seed), dtype)


@converts("StatelessRandomNormalV2")
def stateless_normal_v2(
    g: Context, shape: Value, key: Value, counter: Value, alg: Value, *, dtype: str = "float32"
) -> Value:
    return _normal(g, shape, _state_v2(g, key, counter, alg), dtype)


@converts("StatelessRandomUniformInt")
def stateless_integers(g: Context, shape: Value, seed: Value, low: Value, high: Value, *, dtype: str) -> Value:
    return _integers(g, shape, _state(g, seed), low, high)


@converts("StatelessRandomUniformIntV2")
def stateless_integers_v2(
    g: Context, shape: Value, key: Value, counter: Value, alg: Value, low: Value, high: Value, *, dtype: str
) -> Value:
    return _integers(g, shape, _state_v2(g, key, counter, alg), low, high)


@converts("StatelessRandomUniformFullInt")
def stateless_full_integers(g: Context, shape: Value, seed: Value, *, dtype: str = "uint64") -> Value:
    return _full(g, shape, _state(g, seed), dtype)


@converts("StatelessRandomUniformFullIntV2")
def stateless_full_integers_v2(
    g: Context, shape: Value, key: Value, counter: Value, alg: Value, *, dtype: str = "uint64"
) -> Value:
    return _full(g, shape, _state_v2(g, key, counter, alg), dtype)
