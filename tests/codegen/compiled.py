"""One loop function as a Python callable."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from forge import dtypes
from forge.codegen.abi import ABI_VERSION
from forge.codegen.compile import compile_modules
from forge.codegen.jit import JitLibrary
from forge.codegen.module import emit_module, kernel_symbol
from forge.errors import CompileError
from forge.target import Target, TargetLike
from forge.tir.stmt import Function

_BODY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_PARALLEL_FOR = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, _BODY, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_PROCEED = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32)


class _Host(ctypes.Structure):
    _fields_ = [("abi_version", ctypes.c_int32), ("state", ctypes.c_void_p), ("alloc", ctypes.c_void_p),
                ("free", ctypes.c_void_p), ("parallel_for", _PARALLEL_FOR), ("report_error", ctypes.c_void_p),
                ("call_registered", ctypes.c_void_p), ("run_control", ctypes.c_void_p), ("heap_alloc", ctypes.c_void_p),
                ("proceed", _PROCEED)]


def serial_host(chunks: int = 1) -> _Host:
    """A host (``forge_call_host``) that runs parallel loops on the calling thread, split into ``chunks`` pieces."""

    def parallel_for(_host: Any, body: Any, closure: Any, count: int, _grain: int) -> int:
        bounds = [count * i // chunks for i in range(chunks + 1)]
        statuses = [body(begin, end, closure) for begin, end in pairwise(bounds)]
        return next((status for status in statuses if status), 0)

    proceed = _PROCEED(lambda _host, status: status)
    return _Host(ABI_VERSION, None, None, None, _PARALLEL_FOR(parallel_for), None, None, None, None, proceed)


class NativeKernel:
    """A compiled loop function. Call it with a NumPy array for each buffer, then an integer for each scalar.

    Attributes:
        ir: the LLVM IR text.
        code: the object file.
        address: the function's address, of the native signature that ``tir.stmt.Function`` documents.
    """

    def __init__(self, function: Function, target: Target, opt_level: int, host: Any) -> None:
        self.function = function
        self.ir = emit_module([function], target)
        (self.code,) = compile_modules([(function.name, self.ir)], target, opt_level)
        symbol = kernel_symbol(function.name)
        self._library = JitLibrary([self.code], [symbol])
        self.address = self._library.addresses[symbol]
        self._host = host
        types = [ctypes.c_void_p] * len(function.buffers) + [ctypes.c_int64] * len(function.scalars) + [ctypes.c_void_p]
        self._call = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(self.address)

    def __call__(self, *args: Any) -> None:
        """Raises CompileError where the kernel returns a status other than 0."""
        expected = len(self.function.buffers) + len(self.function.scalars)
        if len(args) != expected:
            raise TypeError(f"{self.function.name}: {len(args)} arguments; expected {expected}")
        arrays = [_checked(array, buffer.dtype) for array, buffer in zip(args, self.function.buffers)]
        host = self._host if isinstance(self._host, int) else ctypes.addressof(self._host)
        status = self._call(*(a.ctypes.data for a in arrays), *map(int, args[len(arrays):]), host)
        if status:
            raise CompileError(f"{self.function.name}: status {status}")


def _checked(array: Any, dtype: str) -> np.ndarray[Any, Any]:
    if not isinstance(array, np.ndarray) or array.dtype != dtypes.numpy_dtype(dtype) or not array.flags.c_contiguous:
        raise TypeError(f"got {getattr(array, 'dtype', type(array))}; expected a C-contiguous array of {dtype}")
    return array


def aligned(shape: tuple[int, ...], dtype: str = "float32", alignment: int = 64) -> np.ndarray[Any, Any]:
    """Zeros at an address that is a multiple of ``alignment``."""
    kind = dtypes.numpy_dtype(dtype)
    size = int(np.prod(shape)) * kind.itemsize
    raw = np.zeros(size + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start:start + size].view(kind).reshape(shape)


def build(function: Function, target: TargetLike = "llvm", opt_level: int = 3, host: Any = None) -> Callable[..., None]:
    """Compiles ``function`` and links it into this process.

    ``host`` is a ``forge_host`` (a ctypes structure or an address); None runs parallel loops on the calling thread.
    """
    return NativeKernel(function, Target.parse(target), opt_level, serial_host() if host is None else host)
