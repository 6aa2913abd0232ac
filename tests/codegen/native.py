"""What the tests of code generation share: one-expression kernels, run natively and by the interpreter of the loop IR."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from forge import dtypes
from forge.target import Target, host
from forge.tir import expr as tir
from forge.tir import interpret as interp
from forge.tir import stmt
from forge.tir.expr import Buffer, Expr
from tests.codegen.compiled import build

Array = np.ndarray[Any, Any]

LEVELS = tuple(
    level for level in ("llvm -mcpu=x86-64", "llvm -mcpu=x86-64-v2", "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64-v4", "llvm")
    if set(Target.parse(level).features) <= set(host.features())
)
"""Targets whose code this machine can run."""


def map_function(
    sources: Sequence[str], result: str, body: Callable[..., Expr], lanes: int = 8, name: str = "map"
) -> stmt.Function:
    """``out[i] = body(in0[i], in1[i], ...)`` on vectors of ``lanes``; the length is a multiple of them."""
    n = tir.var("n")
    i = tir.var("i")
    inputs = [Buffer(f"in{k}", dtype, (n,), writable=False) for k, dtype in enumerate(sources)]
    out = Buffer("out", result, (n,))
    index = tir.ramp(i * lanes, 1, lanes)
    value = body(*(tir.load(b, index) for b in inputs))
    return stmt.Function(name, (*inputs, out), (n,), stmt.loop(i, n // lanes, stmt.store(out, index, value)))


def run_map(function: stmt.Function, inputs: Sequence[Array], target: str = "llvm", opt_level: int = 3) -> Array:
    """The output of a native ``map_function``."""
    out = np.zeros(inputs[0].shape, dtypes.numpy_dtype(function.buffers[-1].dtype))
    build(function, target, opt_level)(*inputs, out, out.size)
    return out


def interpret_map(function: stmt.Function, inputs: Sequence[Array]) -> Array:
    """The output of a ``map_function`` in the interpreter."""
    out = np.zeros(inputs[0].shape, dtypes.numpy_dtype(function.buffers[-1].dtype))
    interp.run(function, [*inputs, out], [out.size])
    return out


def assert_identical(got: Array, want: Array) -> None:
    """Equal bits, but that any NaN equals any other."""
    assert got.dtype == want.dtype
    wide = want.astype(np.float64) if dtypes.is_float(want.dtype.name) else None
    same = got.view(f"u{got.itemsize}") == want.view(f"u{got.itemsize}")
    if wide is not None:
        same |= np.isnan(wide) & np.isnan(got.astype(np.float64))
    bad = np.flatnonzero(~same)
    assert not bad.size, f"{bad.size} differ; first at {bad[0]}: got {got[bad[0]]!r}, want {want[bad[0]]!r}"


class GuardedPage:
    """Memory whose last byte is followed by a page that nothing may touch."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, 2 * mmap.PAGESIZE)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(self._start + mmap.PAGESIZE), mmap.PAGESIZE, 0):
            raise OSError(ctypes.get_errno(), "mprotect")

    def array(self, values: Array) -> Array:
        """``values`` copied to end at the guard."""
        view = np.frombuffer(self._map, values.dtype, values.size, mmap.PAGESIZE - values.nbytes)
        view[:] = values
        return view
