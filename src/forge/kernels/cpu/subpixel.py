"""Kernel families ``subpixel_conv2d_nchwc``, ``subpixel_depthwise_conv2d_nchwc`` and ``subpixel_conv3d_ncdhwc``.

Operands: data [N][C/c][H][W][c] (3-D: [N][C/c][D][H][W][c]) and the weight of ``conv2d_nchwc`` or ``depthwise_conv2d_nchwc``
(3-D: with taps along D before the others), whose output channels are pixels of a larger image. ``attrs``: those of these
families; ``phases`` and ``crop`` (begins, then ends) along each axis; ``taps``: which of them phases have (ops.packed.subpixel).

They are those families, on other readers and writers: what belongs to a pixel goes to its place in the image, once, so that
epilogues see the image and nothing is moved afterwards; slices of a volume are images, and taps along D are channel blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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


@kernel("subpixel_conv2d_nchwc")
def subpixel_conv2d_nchwc(call: KernelCall) -> Function:
    """Convolution whose output channels are pixels of an image."""
    axes = _axes(call)
    return convolution(_of_image(call, axes), _used_taps(call, axes))


@kernel("subpixel_depthwise_conv2d_nchwc")
def subpixel_depthwise_conv2d_nchwc(call: KernelCall) -> Function:
    """Depthwise convolution with a filter for each pixel of an image."""
    return depthwise_conv2d_nchwc(_with_blocks_repeated(_of_image(call, _axes(call))))


@kernel("subpixel_conv3d_ncdhwc")
def subpixel_conv3d_ncdhwc(call: KernelCall) -> Function:
    """Convolution whose output channels are pixels of a volume."""
    axes = _axes(call)
    return convolution(_of_volume(call, axes), _used_taps(call, axes))


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

    @property
    def is_point(self) -> bool:
        """Whether position q reads element q, for every element."""
        return self.kernel == self.stride == 1 and self.before == self.after == 0


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
    def of(call: KernelCall, axes: Sequence[_Axis], in_channels: int) -> _Window:
        strides, dilation, befores, afters, sizes = zip(*((a.stride, a.dilation, a.before, a.after, a.kernel) for a in axes))
        return _Window(strides, dilation, (*befores, *afters), sizes, in_channels, int(call.attrs.pad_value))


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
    blocks, count = loops.known(call.results[0].shape[1], f"{call.name}: channel blocks"), len(axes)
    found = UsedTaps(blocks, has_data=partial(_has_slice, axes[0], int(call.attrs.pad_value))) if count == 3 else None
    if not call.attrs.taps:
        return found if found is None else replace(found, blocks=blocks * math.prod(_numbers(call.attrs.phases, count)))
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

    used = replace(found or UsedTaps(blocks), rows=partial(along, count - 2), columns=partial(along, count - 1))
    return replace(used, has_block=has_block) if count == 3 else used


def _has_slice(depth: _Axis, pad_value: int, image: Sequence[Expr], block: Expr) -> Expr:
    """Whether a slice of a volume is there for a channel block, or has to be read as padding that is not zero."""
    if len(image) == 1 or pad_value or (depth.before <= 0 and depth.after <= 0):
        return E.const(True, "bool")
    at = _slice(depth, image[1], block)
    return E.logical_and(at >= 0, at < depth.extent)


def _slice(depth: _Axis, position: Expr, block: Expr) -> Expr:
    """The slice that a position of the convolution has in a channel block."""
    return position * depth.stride + (block % depth.kernel * depth.dilation - depth.before)


def _of_image(call: KernelCall, axes: Sequence[_Axis]) -> KernelCall:
    """The convolution, whose output channels are written to their places."""
    data, weight = call.readers
    height, width = axes
    shape = (data.shape[0], weight.shape[0], height.positions, width.positions, call.results[0].shape[-1])
    result = _pixels(call, shape, lambda row, column: (row, column))
    return replace(call, attrs=_Window.of(call, axes, int(call.attrs.in_channels)), results=(result,))


def _with_blocks_repeated(call: KernelCall) -> KernelCall:
    """A depthwise convolution whose weight has the channel blocks of the data several times."""
    data, weight = call.readers
    batch, blocks, *rest = data.shape

    def read(indices: Sequence[Expr], mask: Expr | None = None) -> Expr:
        image, block, *place = indices
        return data.read([image, block % blocks, *place], mask)

    return replace(call, operands=(Reader((batch, weight.shape[0], *rest), data.dtype, read, None), weight))


def _of_volume(call: KernelCall, axes: Sequence[_Axis]) -> KernelCall:
    """The convolution, of images."""
    data, weight = call.readers
    depth, height, width = axes
    out, blocks, *taps = weight.shape
    batch, lanes, channels = data.shape[0], call.results[0].shape[-1], int(call.attrs.in_channels)
    weight = replace(weight, shape=(out, blocks * taps[0], *taps[1:]))
    if depth.is_point and height.is_point:  # all rows of a volume are those of one image
        rows = depth.extent * height.extent
        result = _pixels(call, (batch, out, rows, width.positions, lanes),
                         lambda row, column: (row // height.extent, row % height.extent, column))
        attrs = _Window.of(call, (replace(height, extent=rows), width), channels)
        source = _as_image(data, rows, width.before == 0 and width.after <= 0)
        return replace(call, operands=(source, weight), attrs=attrs, results=(result,))
    result = _pixels(call, (batch, depth.positions, out, height.positions, width.positions, lanes),
                     lambda row, column: (row, column))
    source = _slices(data, depth, channels, int(call.attrs.pad_value))
    if depth.kernel > 1:
        channels = loops.known(source.shape[2] * source.shape[-1], f"{call.name}: channels of the data")
    return replace(call, operands=(source, weight), attrs=_Window.of(call, (height, width), channels), results=(result,))


def _as_image(data: Reader, rows: Expr, in_place: bool) -> Reader:
    """A volume as one image: ``[N][C/c][D * H][W][c]``. ``in_place``: float32 is read where it lies, as no rows are copied."""
    batch, blocks, _, height, *rest = data.shape

    def read(indices: Sequence[Expr], mask: Expr | None = None) -> Expr:
        image, block, row, *place = indices
        return data.read([image, block, row // height, row % height, *place], mask)

    return Reader((batch, blocks, rows, *rest), data.dtype, read, data.buffer if in_place and data.dtype == "float32" else None)


def _slices(data: Reader, depth: _Axis, channels: int, pad_value: int) -> Reader:
    """A volume as images: ``[N][positions][C/c * taps][H][W][c]``, the slices under the taps of a position as channel blocks."""
    batch, blocks, extent, *rest = data.shape
    lanes = loops.known(rest[-1], "channel blocks of the data")

    def read(indices: Sequence[Expr], mask: Expr | None = None) -> Expr:
        image, position, block, *place, lane = indices
        at, source = _slice(depth, position, block), block // depth.kernel
        inside: Expr = E.const(True, "bool")
        if pad_value and (depth.before > 0 or depth.after > 0):
            inside = E.logical_and(at >= 0, at < extent)
        inside = E.broadcast(inside, lane.lanes)
        if depth.kernel > 1 and channels % lanes:  # lanes beyond the channels are undefined
            inside = E.logical_and(inside, source * lanes + lane < channels)
        both = inside if mask is None else E.logical_and(inside, mask)
        value = data.read([image, source, at, *place, lane], None if E.is_const(both) else both)
        return E.select(inside, value, E.const(pad_value, data.dtype))

    return Reader((batch, depth.positions, blocks * depth.kernel, *rest), data.dtype, read, None)


def _pixels(call: KernelCall, shape: tuple[Expr, ...], place: Callable[..., tuple[Expr, ...]]) -> Writer:
    """The result as the convolution sees it, of ``shape``: ``place`` gives the last positions of a row and a column."""
    result = call.results[0]
    blocks, *extents = result.shape[1:-1]
    phases, crop = _numbers(call.attrs.phases, len(extents)), _numbers(call.attrs.crop, 2 * len(extents))

    def write(indices: Sequence[Expr], value: Expr, mask: Expr | None = None) -> Stmt:
        image, *positions, block, row, column, lane = indices
        lets: list[Stmt] = []
        positions += place(row, column)
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
