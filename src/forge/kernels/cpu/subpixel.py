"""Kernel families ``subpixel_conv2d_nchwc``, ``subpixel_depthwise_conv2d_nchwc`` and ``subpixel_conv3d_ncdhwc``.

Operands: data [N][C/c][H][W][c] (3-D: [N][C/c][D][H][W][c]) and the weight of ``conv2d_nchwc`` or ``depthwise_conv2d_nchwc``
(3-D: with taps along D before the others), whose output channels are pixels of a larger image. ``attrs``: those of these
families; ``phases`` and ``crop`` (begins, then ends) along each axis; ``taps``: which of them phases have (ops.packed.subpixel).

They are those families, on other readers and writers: what belongs to a pixel goes to its place in the image, once, so that
epilogues see the image and nothing is moved afterwards. Where pixels before the first one are cropped, and as many as there are
phases in all, the windows of those phases begin later in the data, and all phases have one position less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from forge import loops
from forge.kernels.cpu import conv2d, depthwise
from forge.kernels.cpu.spatial import UsedTaps, each_axis
from forge.loops.contract import KernelCall, Reader, Writer, kernel
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Function, Stmt, seq


@kernel("subpixel_conv3d_ncdhwc")
@kernel("subpixel_conv2d_nchwc")
def subpixel_conv2d_nchwc(call: KernelCall) -> Function:
    """Convolution whose output channels are pixels of an image, or of a volume."""
    axes = _axes(call)
    if call.attrs.taps or _channel_blocks(call) > 1:  # vectors of one block would be tiles of their own
        axes = [*axes[:-2], *(replace(axis, shifts=True) for axis in axes[-2:])]
    return conv2d.convolution(_of_image(call, axes), _used_taps(call, axes))


@kernel("subpixel_depthwise_conv2d_nchwc")
def subpixel_depthwise_conv2d_nchwc(call: KernelCall) -> Function:
    """Depthwise convolution with a filter for each pixel of an image."""
    axes = _axes(call)
    if len(call.readers[1].shape) == 4:  # of bytes, taps are in groups
        axes = [replace(axis, shifts=loops.static(axis.image) is None) for axis in axes]
    return depthwise.convolution(_with_blocks_repeated(_of_image(call, axes)), _shifts(call, axes))


@dataclass(frozen=True)
class _Axis:
    """The windows along one axis of the data, and what they are along that axis of the image.

    ``shifts``: whether the windows of some phases may begin later, if that saves positions.
    """

    extent: Expr
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    image: Expr
    phases: int
    begin: int
    end: int
    shifts: bool = False

    @property
    def shift(self) -> int:
        """Positions by which the first one of a phase is later than those of others, at most."""
        most = -(-self.begin // self.phases)
        return most if self.shifts and self.begin + self.end >= most * self.phases else 0

    @property
    def positions(self) -> Expr:
        if self.shift:
            return loops.ceildiv(self.image, self.phases)
        return (self.extent + (self.before + self.after - (self.kernel - 1) * self.dilation - 1)) // self.stride + 1

    def first(self, phase: Expr) -> Expr:
        """The position before which all pixels of a phase are cropped, where they shift."""
        return (E.const(self.begin + self.phases - 1) - phase) // self.phases

    def pixel(self, position: Expr, phase: Expr) -> tuple[Expr, Expr]:
        """The place of a pixel in the image, and whether it is inside."""
        begin, end = self.begin, self.end
        if self.shift:
            phase, begin, end = (phase + -begin % self.phases) % self.phases, 0, (begin + end) % self.phases
        place = position * self.phases + (phase - begin)
        inside = place >= 0 if begin else E.const(True, "bool")
        return place, E.logical_and(inside, place < self.image) if end else inside


def _axes(call: KernelCall) -> list[_Axis]:
    data, weight = call.readers
    count, attrs = len(data.shape) - 3, call.attrs
    begin = 2 if len(weight.shape) >= count + 4 else 1
    sizes = [loops.known(extent, f"{call.name}: taps") for extent in weight.shape[begin : begin + count]]
    if len(weight.shape) == count + 3:  # taps of bytes in groups
        sizes[-1] = int(attrs.kernel_size[-1])
    pads, crop = each_axis(attrs.padding, 2 * count), each_axis(attrs.crop, 2 * count)
    return [_Axis(*numbers) for numbers in zip(
        data.shape[2:-1], sizes, each_axis(attrs.strides, count), each_axis(attrs.dilation, count), pads[:count], pads[count:],
        call.results[0].shape[2:-1], each_axis(attrs.phases, count), crop[:count], crop[count:])]


def _channel_blocks(call: KernelCall) -> int:
    return loops.known(call.results[0].shape[1], f"{call.name}: channel blocks")


def _shifts(call: KernelCall, axes: Sequence[_Axis]) -> UsedTaps:
    """All taps, and where windows of blocks of output channels begin."""
    def shift(axis: int) -> Callable[[Expr], Expr] | None:
        return (lambda block: axes[axis].first(_phase(call, axes, axis, block))) if axes[axis].shift else None

    return UsedTaps(_channel_blocks(call), (axes[-2].shift, axes[-1].shift), shift(-2), shift(-1))


def _phase(call: KernelCall, axes: Sequence[_Axis], axis: int, block: Expr) -> Expr:
    """Along an axis, that of a block of output channels."""
    return loops.unravel(block // _channel_blocks(call), [E.const(axis.phases) for axis in axes])[axis]


def _used_taps(call: KernelCall, axes: Sequence[_Axis]) -> UsedTaps | None:
    """Which taps are not zero, and where they begin, if that is not the same for all phases."""
    used = _shifts(call, axes)
    if not call.attrs.taps:
        return used if any(used.shifts) else None

    def along(axis: int, block: Expr) -> tuple[Expr, Expr]:
        phase, numbers = _phase(call, axes, axis, block), call.attrs.taps[axis]
        begin, end = map(E.as_expr, numbers[1:3])
        for first, later_begin, later_end in zip(numbers[3::3], numbers[4::3], numbers[5::3]):
            begin = E.select(phase >= first, E.const(later_begin), begin)
            end = E.select(phase >= first, E.const(later_end), end)
        return begin, end

    def has_block(block: Expr, data_block: Expr) -> Expr:
        begin, end = along(0, block)
        tap = data_block % axes[0].kernel
        return E.logical_and(tap >= begin, tap < end)

    used = replace(used, rows=partial(along, -2), columns=partial(along, -1))
    return replace(used, has_block=has_block) if len(axes) == 3 else used


def _of_image(call: KernelCall, axes: Sequence[_Axis]) -> KernelCall:
    """The convolution, whose output channels are written to their places."""
    (data, weight), result = call.readers, call.results[0]
    phases = [*(E.const(axis.phases) for axis in axes), result.shape[1]]

    def write(indices: Sequence[Expr], value: Expr, mask: Expr | None = None) -> Stmt:
        image, block, *positions, lane = indices
        lets: list[Stmt] = []
        *own, channels = loops.unravel(block, phases)
        places: list[Expr] = []
        inside: Expr = E.const(True, "bool")
        for axis, position, phase in zip(axes, positions, own):
            place, is_inside = axis.pixel(position, phase)
            places.append(loops.bound(place, lets, "pixel"))
            inside = E.logical_and(inside, is_inside)
        return seq(lets, loops.guard(inside, result.write([image, channels, *places, lane], value, mask)))

    shape = (data.shape[0], weight.shape[0], *(axis.positions for axis in axes), result.shape[-1])
    return replace(call, results=(Writer(shape, result.dtype, write),))


def _with_blocks_repeated(call: KernelCall) -> KernelCall:
    """A depthwise convolution whose weight has the channel blocks of the data several times."""
    data, weight = call.readers
    batch, blocks, *rest = data.shape

    def read(indices: Sequence[Expr], mask: Expr | None = None) -> Expr:
        image, block, *place = indices
        return data.read([image, block % blocks, *place], mask)

    return replace(call, operands=(Reader((batch, weight.shape[0], *rest), data.dtype, read, None), weight))
