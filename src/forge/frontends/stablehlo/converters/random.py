"""Random numbers."""

from __future__ import annotations

from forge import dtypes
from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.registry import converts
from forge.ir.nodes import Value

_ALGORITHMS = {"THREE_FRY": "threefry", "PHILOX": "philox", "DEFAULT": "philox"}


@converts("rng")
def rng(g: Context, a: Value, b: Value, shape: Value, *, rng_distribution: str) -> Value:
    """Numbers of no particular generator: from ``a`` to ``b``, or normal ones of mean ``a`` and deviation ``b``."""
    sizes, dtype = g.required_ints(shape, "shape"), g.result_type().dtype
    real = dtype if dtypes.is_float(dtype) else "float64"
    low, high = g.cast(a, real), g.cast(b, real)
    if rng_distribution == "NORMAL":
        numbers = g.call("random.normal", out_shape=sizes, out_dtype=real)
        return g.call("add", g.call("multiply", numbers, high), low)
    if rng_distribution != "UNIFORM":
        raise g.invalid(f"rng_distribution: got {rng_distribution!r}; expected UNIFORM or NORMAL")
    numbers = g.call("random.uniform", out_shape=sizes, out_dtype=real)
    scaled = g.call("add", g.call("multiply", numbers, g.call("subtract", high, low)), low)
    return scaled if real == dtype else g.cast(g.call("floor", scaled), dtype)


@converts("rng_bit_generator")
def rng_bit_generator(g: Context, initial_state: Value, *, rng_algorithm: str) -> list[Value]:
    return random_bits(g, initial_state, rng_algorithm, g.shape(1))


def random_bits(g: Context, initial_state: Value, algorithm: str, shape: tuple[int, ...]) -> list[Value]:
    """A state for the next call, and random bits of ``shape``."""
    if algorithm not in _ALGORITHMS:
        raise g.invalid(f"rng_algorithm: got {algorithm!r}; expected one of {', '.join(_ALGORITHMS)}")
    dtype = g.result_type(1).dtype
    bits, wide = dtypes.bits(dtype), "uint64" if dtypes.bits(dtype) == 64 else "uint32"
    state, found = g.multi(
        "random.bit_generator", _as_uint64(g, initial_state), algorithm=_ALGORITHMS[algorithm], out_shape=shape,
        out_dtype=wide)
    narrow = g.cast(found, f"uint{bits}")
    back = state if initial_state.dtype == "uint64" else _as_uint32(g, state)
    return [back, narrow if dtype.startswith("uint") else g.call("reinterpret", narrow, dtype=dtype)]


def _as_uint64(g: Context, state: Value) -> Value:
    """A state as words of 64 bits, of pairs of 32 the low one first."""
    if state.dtype == "uint64":
        return state
    if state.dtype != "uint32" or not isinstance(state.shape[0], int) or state.shape[0] % 2:
        raise g.unsupported(f"a state of type {state.type} is not supported; expected uint64")
    pairs = g.cast(g.reshape(state, (state.shape[0] // 2, 2)), "uint64")
    return g.call("sum", g.call("left_shift", pairs, g.constant([0, 32], "uint64")), axis=(1,))


def _as_uint32(g: Context, state: Value) -> Value:
    shifted = g.call("logical_right_shift", g.reshape(state, (*state.shape, 1)), g.constant([0, 32], "uint64"))
    low = g.call("bitwise_and", shifted, g.constant(0xFFFFFFFF, "uint64"))
    return g.reshape(g.cast(low, "uint32"), (2 * state.shape[0],))
