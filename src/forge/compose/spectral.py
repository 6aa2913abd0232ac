"""Fourier transforms of tensors, of frames of a signal, and along an axis that arrives at run time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge import dims, dtypes
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term

NORMS = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
"""NumPy's names for the direction that divides by the number of elements, or both by its root -> that of the other one."""


def fftn(
    g: Composer, x: Value, axes: Sequence[int], lengths: Sequence[Dim] | None = None, *, inverse: bool = False,
    onesided: bool = False, norm: str = "backward",
) -> Value:
    """NumPy's ``fftn``, ``ifftn`` (``inverse``), ``rfftn`` (``onesided``) or ``irfftn`` (both): transforms along ``axes``.

    The last axis of a onesided spectrum has the first n // 2 + 1 of n numbers; ``lengths`` are sizes of the signal, by default
    those of ``x``, an even one for the last axis of a onesided spectrum. Integers are transformed as float32.

    Raises:
        OpAttributeInvalid: another norm than NumPy's.
    """
    if norm not in NORMS:
        raise g.invalid(f"norm: got {norm!r}; expected one of {', '.join(NORMS)}")
    if not dtypes.is_complex(x.dtype) and not dtypes.is_float(x.dtype):
        x = g.cast(x, "float32")
    if dtypes.is_float(x.dtype) and (inverse and onesided or not axes):
        x = g.cast(x, dtypes.complex_of(x.dtype))
    if not axes:
        return x
    sizes = list(lengths) if lengths is not None else signal_sizes(x, axes, inverse and onesided)
    found = g.call("fft.fft", x, axes=tuple(axes), lengths=tuple(sizes), inverse=inverse, onesided=onesided)
    power = -0.5 if norm == "ortho" else -1.0 if (norm == "backward") == inverse else 0.0
    return _scaled(g, found, dims.product(sizes), power + inverse)


def signal_sizes(x: Value, axes: Sequence[int], halved: bool) -> list[Dim]:
    """Sizes along ``axes`` of the signal whose spectrum, if ``halved`` a onesided one, is ``x``."""
    sizes = [x.shape[a] for a in axes]
    return [*sizes[:-1], 2 * (sizes[-1] - 1)] if halved else sizes


def hfftn(
    g: Composer, x: Value, axes: Sequence[int], lengths: Sequence[Dim] | None = None, *, inverse: bool = False,
    norm: str = "backward",
) -> Value:
    """SciPy's ``hfftn`` of a signal of which one half is given, or ``ihfftn``: `fftn` the other way round, and conjugated."""
    if norm not in NORMS:
        raise g.invalid(f"norm: got {norm!r}; expected one of {', '.join(NORMS)}")
    if not inverse and dtypes.is_complex(x.dtype):
        x = g.call("complex.conj", x)
    found = fftn(g, x, axes, lengths, inverse=not inverse, onesided=True, norm=NORMS[norm])
    return g.call("complex.conj", found) if inverse else found


def fftshift(g: Composer, x: Value, axes: Sequence[int], *, inverse: bool = False) -> Value:
    """Moves number 0 of each axis to the middle, or, ``inverse``, back."""
    sign = -1 if inverse else 1
    return g.call("roll", x, shift=tuple(sign * dims.floordiv(x.shape[a], 2) for a in axes), axis=tuple(axes)) if axes else x


def _scaled(g: Composer, x: Value, size: Dim, power: float) -> Value:
    """``x * size ** power``."""
    if not power:
        return x
    part = dtypes.part(x.dtype) if dtypes.is_complex(x.dtype) else x.dtype
    if isinstance(size, int):
        factor = g.constant(float(size) ** power if size else 1.0, part)
    else:
        factor = g.call("power", g.cast(g.size(size), part), g.constant(power, part))
    return g.call("multiply", x, g.cast(factor, x.dtype))


def centred_stft(
    g: Composer, signal: Value, window: Value | None = None, *, size: int, hop: int, length: int | None = None,
    pad_mode: str | None = None, normalized: bool = False, onesided: bool = True, as_pairs: bool = False,
) -> Value:
    """Transforms of frames of ``signal``, ``[T]`` or ``[B, T]``, as librosa's ``stft`` lays them out: ``[B, K, F]``.

    Frames are ``size`` long, ``hop`` apart and multiplied by ``window`` (by default ``length`` ones), which lies in their middle.
    With ``pad_mode`` the signal is padded so that frame f is centred on element f * hop. ``normalized`` ones are divided by the
    root of their size. ``as_pairs``: real and imaginary parts along a last axis in the place of complex numbers.
    """
    if window is not None and dtypes.is_complex(window.dtype):
        with_real, with_imag = (
            Term(g, centred_stft(g, signal, g.call(f"complex.{name}", window), size=size, hop=hop, length=length,
                                 pad_mode=pad_mode, normalized=normalized, onesided=onesided))
            for name in ("real", "imag")
        )
        return (with_real + with_imag * 1j).value
    rows = signal if signal.rank == 2 else g.reshape(signal, (1, *signal.shape))
    if pad_mode is not None:
        rows = g.call("nn.pad", rows, pad_width=((0, 0), (size // 2, size // 2)), pad_mode=pad_mode)
    is_complex = dtypes.is_complex(rows.dtype)
    parts = [g.call(f"complex.{name}", rows) for name in ("real", "imag")] if is_complex else [rows]
    whole_window = _centred_window(g, window, length or size, size, parts[0].dtype)
    frames = stft(g, g.call("stack", *parts, axis=2), g.constant(hop, "int64"), window=whole_window, onesided=onesided)
    found = _scaled(g, g.call("transpose", frames, axes=(0, 2, 1, 3)), size, -0.5 if normalized else 0.0)
    found = found if signal.rank == 2 else g.reshape(found, found.shape[1:])
    if as_pairs:
        return found
    return g.call("complex.make", *(g.call("take", found, g.constant(k, "int64"), axis=found.rank - 1) for k in (0, 1)))


def _centred_window(g: Composer, window: Value | None, length: int, size: int, dtype: str) -> Value:
    """The window, by default of ``length`` ones, in the middle of ``size`` numbers."""
    row = g.call("broadcast_to", g.constant(1, dtype), shape=(length,)) if window is None else g.cast(window, dtype)
    left = (size - length) // 2
    return row if length == size else g.call("nn.pad", row, pad_width=((left, size - length - left),))


def centred_istft(
    g: Composer, spectra: Value, window: Value | None = None, *, size: int, hop: int, window_length: int | None = None,
    centred: bool = True, normalized: bool = False, onesided: bool = True, length: int | None = None,
) -> Value:
    """The signal, ``[B, T]`` or ``[T]``, of `centred_stft`'s ``[B, K, F]``: frames added up over the sum of squared windows.

    ``length`` is that of the signal; missing elements are 0.

    Raises:
        OpAttributeUnimplemented: the number of frames is symbolic.
    """
    count = spectra.shape[-1]
    if not isinstance(count, int):
        raise g.unsupported(f"istft: got {count} frames; supported: a number of frames that is fixed")
    rows = g.call("transpose", spectra if spectra.rank == 3 else g.reshape(spectra, (1, *spectra.shape)), axes=(0, 2, 1))
    if rows.shape[2] == size and onesided:
        rows = g.call("strided_slice", rows, begin=(0,), end=(size // 2 + 1,), axes=(2,))
    frames = g.call("fft.fft", rows, axes=(2,), lengths=(size,), inverse=True, onesided=onesided)
    frames = _scaled(g, frames, size, 0.5 if normalized else 0.0)
    row = _centred_window(g, window, window_length or size, size, frames.dtype)
    frames = g.call("multiply", frames, row)
    squares = g.call("broadcast_to", g.call("multiply", row, row), shape=(1, count, size))
    sums = [overlap_and_add(g, v, hop) for v in (frames, squares)]
    total, start = size + hop * (count - 1), size // 2 if centred else 0
    end = start + length if length is not None else total - start
    found = g.call(
        "divide", *(g.call("strided_slice", v, begin=(start,), end=(min(end, total),), axes=(1,)) for v in sums))
    if end > total:
        found = g.call("nn.pad", found, pad_width=((0, 0), (0, end - total)))
    return found if spectra.rank == 3 else g.reshape(found, found.shape[1:])


def overlap_and_add(g: Composer, frames: Value, hop: int) -> Value:
    """The sum ``[B, hop * (F - 1) + size]`` of frames ``[B, F, size]`` of known number and size, each ``hop`` behind the last."""
    batch, count, size = frames.shape
    assert isinstance(count, int) and isinstance(size, int)
    places = np.arange(count)[:, None] * hop + np.arange(size)
    flat = g.reshape(frames, (batch, places.size))
    where = g.call("broadcast_to", g.constant(places.reshape(1, -1), "int64"), shape=(batch, places.size))
    zeros = g.call("zeros", shape=(batch, size + hop * (count - 1)), dtype=frames.dtype)
    return g.call("scatter_elements", zeros, where, flat, axis=1, reduction="add")


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
