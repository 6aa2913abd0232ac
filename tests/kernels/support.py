"""Buffers, layouts and targets for kernel tests."""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import replace

import numpy as np
import pytest

from forge import dtypes
from forge.target import Target, host
from forge.tir import expr as E
from tests.codegen.compiled import build
from tests.kernels.case import Case

TARGETS = ("llvm", "llvm -mcpu=x86-64-v3 -num-cores=2", "llvm -mcpu=x86-64 -num-cores=3")

_LIBC = ctypes.CDLL(None, use_errno=True)
_PAGE = mmap.PAGESIZE
_PROT_NONE = 0


def targets_here() -> list[str]:
    """The targets whose code this machine can run."""
    here = set(host.features())
    return [t for t in TARGETS if set(Target.parse(t).features) <= here]


EVERY_TARGET = pytest.mark.parametrize("target", targets_here())
"""The test runs at every vector width of this machine."""


def guarded(values: np.ndarray, dtype: str = "float32") -> np.ndarray:
    """A copy that ends right before an inaccessible page: reading or writing past it kills the process."""
    kind = dtypes.numpy_dtype(dtype)
    size = values.size * kind.itemsize
    pages = -(-size // _PAGE)
    memory = mmap.mmap(-1, (pages + 1) * _PAGE)
    view = np.frombuffer(memory, np.uint8)
    end = view.ctypes.data + pages * _PAGE
    if _LIBC.mprotect(ctypes.c_void_p(end), ctypes.c_size_t(_PAGE), _PROT_NONE):
        raise OSError(ctypes.get_errno(), "mprotect")
    array = view[pages * _PAGE - size:pages * _PAGE].view(kind).reshape(values.shape)
    array[...] = values
    return array


def run(case: Case, arrays: list[np.ndarray], target: str) -> np.ndarray:
    """What the kernel of ``case``, all of whose sizes are known, computes from ``arrays`` (operands, then extras)."""
    function = case.function(target)
    buffers = function.buffers
    inputs = [guarded(a, b.dtype) for a, b in zip(arrays, buffers, strict=False)]
    shape = tuple(e.value for e in buffers[-1].shape)
    result = guarded(np.full(shape, 77, dtypes.numpy_dtype(buffers[-1].dtype)), buffers[-1].dtype)
    build(function, target)(*inputs, result)
    return result


def of_any_size(case: Case) -> Case:
    """A case of blocked data [N][C/c][H][W][c] with symbols for its spatial axes."""
    data, attrs = case.operands[0], case.attrs
    assert data is not None
    taps = attrs["kernel"]
    befores, afters = attrs["padding"][: len(taps)], attrs["padding"][len(taps) :]
    sizes = tuple(map(E.var, "dhw"[-len(taps) :]))
    spans = [size + (a + b - (k - 1) * d - 1) for size, a, b, k, d in zip(sizes, befores, afters, taps, attrs["dilation"])]
    out = [span // step + 1 for span, step in zip(spans, attrs["strides"])]
    shape, result = (list(spec.shape) for spec in (data, case.result))
    shape[2:-1], result[2:-1] = sizes, out
    operands = [replace(data, shape=tuple(shape)), *case.operands[1:]]
    return replace(case, operands=operands, result=replace(case.result, shape=tuple(result)), symbols=sizes)


class AnySize:
    """The kernel of a case of blocked data with symbolic spatial axes: runs cases that differ in them."""

    def __init__(self, case: Case, target: str) -> None:
        case = of_any_size(case)
        self.dtypes = [*(spec.dtype for spec in case.operands if spec is not None), case.result.dtype]
        self.kernel = build(case.function(target), target)

    def run(self, case: Case, arrays: list[np.ndarray]) -> np.ndarray:
        """What it computes for a case of known sizes."""
        inputs = [guarded(a, dtype) for a, dtype in zip(arrays, self.dtypes, strict=False)]
        shape = tuple(map(int, case.result.shape))  # type: ignore[arg-type]
        result = guarded(np.full(shape, 77, dtypes.numpy_dtype(case.result.dtype)), case.result.dtype)
        self.kernel(*inputs, result, *arrays[0].shape[2:-1])
        return result


IMAGES = ((0, 9), (7, 0), (1, 1), (1, 7), (2, 3), (5, 1), (13, 13), (9, 31), (30, 6), (3, 101), (101, 17), (40, 300))
"""Heights and widths: nothing, a single place, primes, small, flat, and larger than the typical one."""


def block_channels(data: np.ndarray, block: int, pad: float = np.nan) -> np.ndarray:
    """[N, C, H, W] as [N, C/c, H, W, c], also of more axes; lanes past C are ``pad``."""
    n, c, *extents = data.shape
    blocks = -(-c // block)
    padded = np.full((n, blocks * block, *extents), pad, data.dtype)
    padded[:, :c] = data
    return np.ascontiguousarray(np.moveaxis(padded.reshape(n, blocks, block, *extents), 2, -1))


def unblock_channels(data: np.ndarray, channels: int) -> np.ndarray:
    """The first ``channels`` of [N, C/c, H, W, c] as [N, C, H, W]."""
    n, blocks, *extents, block = data.shape
    return np.moveaxis(data, -1, 2).reshape(n, blocks * block, *extents)[:, :channels]


def pack_convolution(weight: np.ndarray, in_block: int, out_block: int) -> np.ndarray:
    """[O, I, kh, kw] as [O/o, I/i, kh, kw, i, o], zeros in the padding; also with more taps."""
    out, inner, *taps = weight.shape
    o, i = -(-out // out_block), -(-inner // in_block)
    padded = np.zeros((o * out_block, i * in_block, *taps), weight.dtype)
    padded[:out, :inner] = weight
    return np.ascontiguousarray(np.moveaxis(padded.reshape(o, out_block, i, in_block, *taps), (3, 1), (-2, -1)))


def pack_dense(weight: np.ndarray, panel: int) -> np.ndarray:
    """[N, K] as [N/n, K, n], zeros in the padding."""
    units, depth = weight.shape
    panels = -(-units // panel)
    padded = np.zeros((panels * panel, depth), weight.dtype)
    padded[:units] = weight
    return np.ascontiguousarray(padded.reshape(panels, panel, depth).transpose(0, 2, 1))


def convolve(data: np.ndarray, weight: np.ndarray, strides: tuple[int, int], padding: tuple[int, int, int, int],
             dilation: tuple[int, int], groups: int = 1) -> np.ndarray:
    """Cross-correlation in float64: the truth that kernels are compared with."""
    top, left, bottom, right = padding
    x = np.pad(data.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    out, per_group, kh, kw = weight.shape
    oh = (x.shape[2] - (kh - 1) * dilation[0] - 1) // strides[0] + 1
    ow = (x.shape[3] - (kw - 1) * dilation[1] - 1) // strides[1] + 1
    result = np.zeros((x.shape[0], groups, out // groups, oh, ow))
    grouped = weight.astype(np.float64).reshape(groups, out // groups, per_group, kh, kw)
    for i in range(kh):
        for j in range(kw):
            top_row, left_column = i * dilation[0], j * dilation[1]
            window = x[:, :, top_row:top_row + (oh - 1) * strides[0] + 1:strides[0],
                       left_column:left_column + (ow - 1) * strides[1] + 1:strides[1]]
            result += np.einsum("ngchw,goc->ngohw", window.reshape(x.shape[0], groups, per_group, oh, ow), grouped[..., i, j])
    return result.reshape(x.shape[0], out, oh, ow)


def assert_close(got: np.ndarray, want: np.ndarray, depth: int) -> None:
    """Equal up to the rounding of a float32 sum of ``depth`` products; zeros are zeros."""
    assert got.shape == want.shape
    scale = np.abs(want).max(initial=0.0) or 1.0
    error = np.abs(got.astype(np.float64) - want).max(initial=0.0) / scale
    assert error <= 2e-7 * max(4.0, np.sqrt(depth)), f"relative error {error:.1e}"
