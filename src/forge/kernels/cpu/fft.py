"""Fourier transforms along one axis: one call of the runtime's routine (``forge_fft.h``), which does rows on all threads."""

from __future__ import annotations

from forge import dtypes
from forge.kernels.cpu.extern import in_memory
from forge.loops import product
from forge.loops.contract import KernelCall, Reader, kernel
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import CallRoutine, Function, seq
from forge.tir.tensor import dim

WIDE, COMPLEX, INVERSE, ONESIDED = 1, 2, 4, 8
"""Flags of the routine."""


@kernel("fft", complex_numbers=True)
def fft(call: KernelCall) -> Function:
    """Family of ``fft.dft`` (pairs in the last dimension) and ``fft.fft`` along one axis (complex elements)."""
    data = call.readers[0]
    if call.operator == "fft.dft":
        shape, axis, is_complex = data.shape[:-1], call.attrs.axis % len(data.shape), E.is_const(data.shape[-1], 2)
    else:
        shape, axis, is_complex = data.shape, call.attrs.axes[0] % len(data.shape), dtypes.is_complex(data.dtype)
    options = {
        WIDE: data.dtype in ("float64", "complex128"), COMPLEX: is_complex,
        INVERSE: call.attrs.inverse, ONESIDED: call.attrs.onesided,
    }
    sizes = (product(shape[:axis]), shape[axis], product(shape[axis + 1 :]), _length(call, data, axis))
    buffer, prepare = in_memory(data, "number")
    count = call.results[0].shape[axis]
    flags = sum(flag for flag, wanted in options.items() if wanted)
    routine = CallRoutine("forge_fft", (buffer, call.buffers[-1]), (*sizes, count, E.const(flags)))
    return call.function(seq(*prepare, routine))


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
