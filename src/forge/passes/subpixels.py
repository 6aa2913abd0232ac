"""Transposed convolutions as convolutions whose output channels are the pixels between two inputs.

With stride s, the outputs ``q * s + r`` are ``sum over j of data[q - j] * weight[t]`` where tap t reaches as far as
``t * dilation = r + j * s``: for each phase r a convolution with the taps that reach it, in reverse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge.dims import is_static
from forge.ops.core.inference import tuple_of
from forge.ops.core.window_geometry import padding_pairs
from forge.ops.nn.transposed_convolution import ConvTranspose

MAX_WASTE = 1.2
"""Products with taps that are zero in their phase, over the others: where there are more, kernels are told to leave them out."""


@dataclass(frozen=True)
class Axis:
    """An axis of a transposed convolution; ``after`` is less the output's padding."""

    size: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def reach(self) -> int:
        """The distance from the first tap to the last one, both included."""
        return (self.size - 1) * self.dilation + 1

    @property
    def taps(self) -> int:
        """The number of taps of the convolution."""
        return (self.reach - 1) // self.stride + 1

    @property
    def skipped(self) -> int:
        """Inputs before the first one whose pixels are kept, as far as the padding that is left is not negative."""
        return min(self.before // self.stride, self.taps - 1)

    @property
    def padding(self) -> tuple[int, int]:
        """The padding of the convolution; that after the data may be negative."""
        return self.taps - 1 - self.skipped, -((self.after - self.reach) // self.stride) - 1

    @property
    def crop(self) -> tuple[int, int]:
        """Pixels before the first and after the last one of the result."""
        _, after = self.padding
        return self.before - self.stride * self.skipped, self.stride * (after + 1) - self.reach + self.after

    @property
    def weights(self) -> np.ndarray:
        """``[phase, tap of the convolution]``: which tap of the weight that is; ``size`` where it is none."""
        reach = np.arange(self.taps)[::-1] * self.stride + np.arange(self.stride)[:, None]
        tap, apart = np.divmod(reach, self.dilation)
        return np.where((apart == 0) & (tap < self.size), tap, self.size)

    @property
    def runs(self) -> list[tuple[int, int, int]]:
        """Neighbouring phases of as many taps: the first one, its first tap, and the end of its taps."""
        found: list[tuple[int, int, int]] = []
        for phase, weights in enumerate(self.weights):
            used = np.flatnonzero(weights < self.size)
            taps = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 0)
            if not found or found[-1][1:] != taps:
                found.append((phase, *taps))
        return found

    @property
    def waste(self) -> float:
        """Products with all taps, over those of `runs`."""
        ends = [first for first, _, _ in self.runs[1:]] + [self.stride]
        return self.stride * self.taps / sum((end - first) * (stop - begin) for (first, begin, stop), end in zip(self.runs, ends))


@dataclass(frozen=True)
class Subpixels:
    """A transposed convolution in the default layouts."""

    axes: tuple[Axis, ...]

    @staticmethod
    def of(conv: ConvTranspose) -> Subpixels | None:
        """Returns the geometry of ``conv``; None where padding is known at run time only."""
        attrs, sizes = conv.attrs, conv.weight.shape[2:]
        if not is_static(*attrs.padding, *attrs.output_padding):
            return None
        steps, gaps, extra = (tuple_of(conv.name, name, getattr(attrs, name), len(sizes))
                              for name in ("strides", "dilation", "output_padding"))
        pads: Any = padding_pairs(conv.name, attrs.padding, len(sizes))
        return Subpixels(tuple(Axis(size, step, gap, begin, end - more)
                               for size, step, gap, (begin, end), more in zip(sizes, steps, gaps, pads, extra)))

    @property
    def phases(self) -> tuple[int, ...]:
        return tuple(axis.stride for axis in self.axes)

    @property
    def crop(self) -> tuple[int, ...]:
        """All begins, then all ends."""
        return tuple(axis.crop[side] for side in (0, 1) for axis in self.axes)

    @property
    def padding(self) -> tuple[int, ...]:
        """All begins, then all ends."""
        return tuple(axis.padding[side] for side in (0, 1) for axis in self.axes)

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of nn.contrib_subpixel_conv2d_NCHWc and its kin."""
        waste = math.prod(axis.waste for axis in self.axes)
        taps = tuple(tuple(n for run in axis.runs for n in run) for axis in self.axes) if waste >= MAX_WASTE else ()
        return {"padding": self.padding, "phases": self.phases, "crop": self.crop, "taps": taps}

    def kernel(self, weight: np.ndarray, channels: int) -> np.ndarray:
        """Returns ``weight[I, O, spatial]`` as ``[(phases, channels), I, taps]``, with zeros beyond O."""
        count = len(self.axes)
        wide = np.pad(weight, [(0, 0), (0, channels - weight.shape[1]), *[(0, 1)] * count])
        for k, axis in enumerate(self.axes):
            wide = np.take(wide, axis.weights, axis=2 + 2 * k)
        phases, taps = (range(2 + k, 2 + 2 * count, 2) for k in (0, 1))
        apart = wide.transpose(*phases, 1, 0, *taps)
        return np.ascontiguousarray(apart.reshape(-1, len(weight), *apart.shape[count + 2 :]))


def spread(kernel: np.ndarray, dilation: tuple[int, ...]) -> np.ndarray:
    """Returns ``kernel[..., spatial]`` with zeros between its taps, so that they are neighbours with the same sums."""
    steps = (*(1,) * (kernel.ndim - len(dilation)), *dilation)
    wide = np.zeros([(size - 1) * step + 1 for size, step in zip(kernel.shape, steps)], kernel.dtype)
    wide[tuple(slice(None, None, step) for step in steps)] = kernel
    return wide
