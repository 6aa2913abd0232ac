"""Fourier transforms of frames of a signal, and along an axis that arrives at run time."""

from __future__ import annotations

from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def stft(
    g: Composer,
    signal: Value,
    step: Value,
    *,
    window: Value | None = None,
    length: Value | None = None,
    onesided: bool = True,
) -> Value:
    """``out[b, f, k] = sum over t of signal[b, f * step + t] * window[t] * exp(-2 pi i k t / length)``.

    ``signal`` is ``[B, T, 1]`` (real) or ``[B, T, 2]`` (complex), the result ``[B, F, K, 2]`` with F = (T - length) // step + 1
    frames of K = length numbers, the first length // 2 + 1 if ``onesided``. ``step`` and ``length`` are single integers; the
    window's size is the length; without both, one frame is the whole signal.

    Raises:
        OpAttributeInvalid: the signal is not of rank 3.
    """
    if signal.rank != 3:
        raise g.invalid(f"signal: got rank {signal.rank}; expected 3")
    if window is not None:
        size = g.extent(window, 0)
    else:
        size = g.extent(signal, 1) if length is None else whole(g, length)
    hop = Term(g, whole(g, step))
    frames = (Term(g, g.extent(signal, 1)) - Term(g, size)).floor_divide(hop) + 1
    starts = Term(g, g.count(frames.value)) * hop
    inside = g.count(size, None if window is None else window.shape[0])
    places = starts.reshape(starts.value.shape[0], 1) + Term(g, inside).reshape(1, inside.shape[0])
    cut = g.call("take", signal, places.value, axis=1, mode="clip")
    if window is not None:
        cut = g.call("multiply", cut, g.reshape(g.cast(window, signal.dtype), (1, 1, *window.shape, 1)))
    return g.call("fft.dft", cut, axis=2, onesided=onesided)


def dft_along(
    g: Composer, x: Value, axis: Value, *, length: Value | None = None, inverse: bool = False, onesided: bool = False
) -> Value:
    """``fft.dft`` along an axis that arrives at run time: the wanted one among the transforms along all of them.

    The transform along each axis has the shape of its operand. So the operand is first given the transform's full length, and
    what is one-sided is cut afterwards.
    """
    place = Term(g, whole(g, axis)).floor_mod(x.rank)
    half = inverse and onesided
    if half or length is not None:
        x = _of_length(g, x, place, None if length is None else Term(g, whole(g, length)), half)
    result = g.call("fft.dft", x, axis=0, inverse=inverse)
    for candidate in range(1, x.rank - 1):
        along = g.call("fft.dft", x, axis=candidate, inverse=inverse)
        result = g.call("where", place.equals(candidate).value, along, result)
    if half:
        return g.call("strided_slice", result, begin=(0,), end=(1,), strides=(1,), axes=(x.rank - 1,))
    return _first_half(g, result, place) if onesided else result


def _of_length(g: Composer, x: Value, place: Term, length: Term | None, half: bool) -> Value:
    """``x`` cut or filled with zeros to ``length`` along the axis ``place``.

    ``half``: it holds the first numbers of the spectrum of a real signal of that length (absent: 2 * (size - 1)); the others,
    their conjugates in reverse, are added.
    """
    for candidate in range(x.rank - 1):
        chosen = place.equals(candidate)
        size = Term(g, g.extent(x, candidate))
        full = (size - 1) * 2 if length is None else length
        whole_length = chosen.where(full, size)
        index = Term(g, g.count(whole_length.value))
        mirrored = chosen.both(index > full.floor_divide(2)) if half else None
        source = index if mirrored is None else mirrored.where(full - index, index)
        x = _read(g, x, candidate, source, size, mirrored)
    return x


def _read(g: Composer, x: Value, axis: int, source: Term, size: Term, mirrored: Term | None) -> Value:
    """Elements ``source`` along ``axis``, conjugated where ``mirrored``; 0 beyond ``size``."""
    count = source.value.shape[0]
    shape = tuple(count if k == axis else 1 for k in range(x.rank))
    taken = g.call("take", x, source.minimum(size - 1).maximum(0).value, axis=axis, mode="clip")
    result = (source < size).reshape(*shape).where(Term(g, taken), 0)
    if mirrored is None or x.shape[-1] != 2:
        return result.value
    sign = g.constant([1, -1], x.dtype)
    return mirrored.reshape(*shape).where(result * Term(g, sign), result).value


def _first_half(g: Composer, x: Value, place: Term) -> Value:
    """The first size // 2 + 1 numbers along the axis ``place``."""
    ends = []
    for candidate in range(x.rank - 1):
        size = Term(g, g.extent(x, candidate))
        ends.append(g.reshape(place.equals(candidate).where(size.floor_divide(2) + 1, size).value, (1,)))
    end = g.call("concatenate", *ends, axis=0)
    begin, steps, axes = (g.constant(v, "int64") for v in ([0] * len(ends), [1] * len(ends), list(range(len(ends)))))
    return g.call("strided_slice", x, begin, end, steps, axes)


def whole(g: Composer, value: Value) -> Value:
    """A tensor of one integer as an int64 scalar."""
    return g.reshape(g.cast(value, "int64"), ())
