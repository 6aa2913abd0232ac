"""Fourier transforms along one axis: one call of the runtime's routine (``forge_fft.h``), which does rows on all threads."""

from __future__ import annotations

from dataclasses import dataclass

from forge import dtypes
from forge.loops import product
from forge.loops.contract import KernelCall, Reader, kernel
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, CallRoutine, Function, Stmt, seq, store
from forge.tir.tensor import dim

WIDE, COMPLEX, INVERSE, ONESIDED = 1, 2, 4, 8
"""Flags of the routine."""


@dataclass(frozen=True)
class _Layout:
    """The axis; how many dimensions numbers have, and whether those that are read are complex."""

    axis: int
    rank: int
    is_complex: bool


@kernel("fft", complex_numbers=True)
def fft(call: KernelCall) -> Function:
    """Family of ``fft.dft`` (pairs in the last dimension) and ``fft.fft`` along one axis (complex elements)."""
    data = call.readers[0]
    layout = _dft_layout(call, data) if call.operator == "fft.dft" else _fft_layout(call, data)
    shape, axis = data.shape[: layout.rank], layout.axis
    options = {
        WIDE: data.dtype in ("float64", "complex128"), COMPLEX: layout.is_complex,
        INVERSE: call.attrs.inverse, ONESIDED: call.attrs.onesided,
    }
    sizes = (product(shape[:axis]), shape[axis], product(shape[axis + 1 :]), _length(call, data, axis))
    prepare, buffer = _in_memory(data)
    count = call.results[0].shape[axis]
    flags = sum(flag for flag, wanted in options.items() if wanted)
    routine = CallRoutine("forge_fft", (buffer, call.buffers[-1]), (*sizes, count, E.const(flags)))
    return call.function(seq(*prepare, routine))


def _dft_layout(call: KernelCall, data: Reader) -> _Layout:
    rank = len(data.shape)
    return _Layout(call.attrs.axis % rank, rank - 1, E.is_const(data.shape[-1], 2))


def _fft_layout(call: KernelCall, data: Reader) -> _Layout:
    rank = len(data.shape)
    return _Layout(call.attrs.axes[0] % rank, rank, dtypes.is_complex(data.dtype))


def _length(call: KernelCall, data: Reader, axis: int) -> Expr:
    """The attribute, what arrives at run time, or that of the data."""
    lengths = [call.attrs.length] if call.operator == "fft.dft" else call.attrs.lengths or [None]
    if lengths[0] is not None:
        return dim(lengths[0])
    given = call.operand(1)
    if given is not None:
        return E.cast(given.read([E.const(0)] * len(given.shape)), "int64")
    extent = data.shape[axis]
    return (extent - 1) * 2 if call.attrs.inverse and call.attrs.onesided else extent


def _in_memory(data: Reader) -> tuple[list[Stmt], Buffer]:
    """A buffer with the data; a scalar that is part of the code is stored first."""
    if data.buffer is not None:
        return [], data.buffer
    copy = Buffer("number", data.dtype, (E.const(1),), scope="local")
    return [Allocate(copy), store(copy, E.const(0), data.read([E.const(0)] * len(data.shape)))], copy
