"""Kernel families ``subpixel_conv2d_nchwc``, ``subpixel_depthwise_conv2d_nchwc`` and ``subpixel_conv3d_ncdhwc``.

Operands: data [N][C/c][H][W][c] (3-D: [N][C/c][D][H][W][c]) and the weight of ``conv2d_nchwc`` or ``depthwise_conv2d_nchwc``
(3-D: with taps along D before the others), whose output channels are pixels of a larger image. ``attrs``: those of these
families; ``phases`` and ``crop`` (begins, then ends) along each axis; ``taps``: which of them phases have (ops.packed.subpixel).

They are those families, on other readers and writers: what belongs to a pixel goes to its place in the image, once, so that
epilogues see the image and nothing is moved afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from forge import loops
from forge.kernels.cpu.conv2d import convolution
from forge.kernels.cpu.depthwise import depthwise_conv2d_nchwc
from forge.kernels.cpu.spatial import UsedTaps
from forge.loops.contract import KernelCall, Reader, Writer, kernel
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Function, Stmt, seq


@kernel("subpixel_conv3d_ncdhwc")
@kernel("subpixel_conv2d_nchwc")
def subpixel_conv2d_nchwc(call: KernelCall) -> Function:
    """Convolution whose output channels are pixels of an image, or of a volume."""
    axes = _axes(call)
    return convolution(_of_image(call, axes), _used_taps(call, axes))


@kernel("subpixel_depthwise_conv2d_nchwc")
def subpixel_depthwise_conv2d_nchwc(call: KernelCall) -> Function:
    """Depthwise convolution with a filter for each pixel of an image."""
    return depthwise_conv2d_nchwc(_with_blocks_repeated(_of_image(call, _axes(call))))


@dataclass(frozen=True)
class _Axis:
    """The windows along one axis of the data."""

    extent: Expr
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def positions(self) -> Expr:
        return (self.extent + (self.before + self.after - (self.kernel - 1) * self.dilation - 1)) // self.stride + 1


@dataclass(frozen=True)
class _Window:
    """Attributes of the families that compute it."""

    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]
    kernel_size: tuple[int, ...]
    in_channels: int
    pad_value: int

    @staticmethod
    def of(call: KernelCall, axes: Sequence[_Axis]) -> _Window:
        strides, dilation, befores, afters, sizes = zip(*((a.stride, a.dilation, a.before, a.after, a.kernel) for a in axes))
        channels, pad_value = int(call.attrs.in_channels), int(call.attrs.pad_value)
        return _Window(strides, dilation, (*befores, *afters), sizes, channels, pad_value)


def _axes(call: KernelCall) -> list[_Axis]:
    data, weight = call.readers
    count, attrs = len(data.shape) - 3, call.attrs
    begin = 2 if len(weight.shape) >= count + 4 else 1
    sizes = [loops.known(extent, f"{call.name}: taps") for extent in weight.shape[begin : begin + count]]
    if len(weight.shape) == count + 3:  # taps of bytes in groups
        sizes[-1] = int(attrs.kernel_size[-1])
    pads = _numbers(attrs.padding, 2 * count)
    return [_Axis(*numbers) for numbers in zip(
        data.shape[2:-1], sizes, _numbers(attrs.strides, count), _numbers(attrs.dilation, count), pads[:count], pads[count:])]


def _numbers(value: Sequence[Any], count: int) -> tuple[int, ...]:
    """An attribute of ``count`` numbers, of which it may have an even part that is repeated."""
    return tuple(int(v) for v in value) * (count // len(value))


def _used_taps(call: KernelCall, axes: Sequence[_Axis]) -> UsedTaps | None:
    """Which taps are not zero, if not all."""
    if not call.attrs.taps:
        return None
    blocks, count = loops.known(call.results[0].shape[1], f"{call.name}: channel blocks"), len(axes)
    phases = [E.const(phase) for phase in call.attrs.phases]

    def along(axis: int, block: Expr) -> tuple[Expr, Expr]:
        phase, numbers = loops.unravel(block // blocks, phases)[axis], call.attrs.taps[axis]

        def of_phase(known: Sequence[int]) -> Expr:
            found: Expr = E.const(known[0])
            for first, later in zip(numbers[3::3], known[1:]):
                found = E.select(phase >= first, E.const(later), found)
            return found

        return of_phase(numbers[1::3]), of_phase(numbers[2::3])

    def has_block(block: Expr, data_block: Expr) -> Expr:
        begin, end = along(0, block)
        tap = data_block % axes[0].kernel
        return E.logical_and(tap >= begin, tap < end)

    used = UsedTaps(blocks, rows=partial(along, count - 2), columns=partial(along, count - 1))
    return replace(used, has_block=has_block) if count == 3 else used


def _of_image(call: KernelCall, axes: Sequence[_Axis]) -> KernelCall:
    """The convolution, whose output channels are written to their places."""
    data, weight = call.readers
    shape = (data.shape[0], weight.shape[0], *(axis.positions for axis in axes), call.results[0].shape[-1])
    return replace(call, attrs=_Window.of(call, axes), results=(_pixels(call, shape),))


def _with_blocks_repeated(call: KernelCall) -> KernelCall:
    """A depthwise convolution whose weight has the channel blocks of the data several times."""
    data, weight = call.readers
    batch, blocks, *rest = data.shape

    def read(indices: Sequence[Expr], mask: Expr | None = None) -> Expr:
        image, block, *place = indices
        return data.read([image, block % blocks, *place], mask)

    return replace(call, operands=(Reader((batch, weight.shape[0], *rest), data.dtype, read, None), weight))


def _pixels(call: KernelCall, shape: tuple[Expr, ...]) -> Writer:
    """The result as the convolution sees it, of ``shape``."""
    result = call.results[0]
    blocks, *extents = result.shape[1:-1]
    phases, crop = _numbers(call.attrs.phases, len(extents)), _numbers(call.attrs.crop, 2 * len(extents))

    def write(indices: Sequence[Expr], value: Expr, mask: Expr | None = None) -> Stmt:
        image, block, *positions, lane = indices
        lets: list[Stmt] = []
        own = loops.unravel(block, [*map(E.const, phases), blocks])
        places: list[Expr] = []
        inside: Expr = E.const(True, "bool")
        for k, (position, extent) in enumerate(zip(positions, extents)):
            begin, end = crop[k], crop[k + len(extents)]
            at = loops.bound(position * phases[k] + (own[k] - begin), lets, "pixel")
            inside = E.logical_and(inside, at >= 0) if begin else inside
            inside = E.logical_and(inside, at < extent) if end else inside
            places.append(at)
        return seq(lets, loops.guard(inside, result.write([image, own[-1], *places, lane], value, mask)))

    return Writer(shape, result.dtype, write)
