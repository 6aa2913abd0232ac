"""Attributes of operators that move a window over an image, and the geometry that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from forge import dims
from forge.compose.windows import same_padding
from forge.dims import Dim
from forge.frontends.onnx.context import Context, Value

Ints = tuple[int, ...]


class Spatial(NamedTuple):
    """One number for each spatial axis, and of ``pads`` two: those before all axes, then those after them."""

    strides: Ints
    dilations: Ints
    pads: tuple[Dim, ...]


@dataclass(frozen=True, kw_only=True)
class WindowAttributes:
    """What convolutions and pools share."""

    auto_pad: str = "NOTSET"
    dilations: Ints | None = None
    kernel_shape: Ints | None = None
    pads: Ints | None = None
    strides: Ints | None = None

    def window(self, g: Context, x: Value, kernel: Sequence[Dim]) -> Spatial:
        """The window of these sizes over ``x``.

        Raises:
            OpAttributeInvalid: an attribute has another length, or is not positive.
        """
        strides, dilations = self.strides_and_dilations(g, len(kernel))
        return Spatial(strides, dilations, self.padding(g, x.shape[2:], kernel, strides, dilations))

    def strides_and_dilations(self, g: Context, count: int) -> tuple[Ints, Ints]:
        """One number for each of ``count`` axes."""
        found = []
        for what, given in (("strides", self.strides), ("dilations", self.dilations)):
            values = (1,) * count if not given else tuple(given)
            if len(values) != count or min(values) < 1:
                raise g.invalid(f"attribute {what!r}: got {list(values)}; expected {count} positive numbers")
            found.append(values)
        return found[0], found[1]

    def padding(
        self, g: Context, spatial: Sequence[Dim], kernel: Sequence[Dim], strides: Sequence[int], dilations: Sequence[int]
    ) -> tuple[Dim, ...]:
        """Padding before all spatial axes, then after them."""
        count = 2 * len(spatial)
        if self.auto_pad in ("NOTSET", ""):
            given = (0,) * count if not self.pads else tuple(self.pads)
            if len(given) != count:
                raise g.invalid(f"attribute 'pads': got {list(given)}; expected {count} numbers")
            return given
        if self.auto_pad == "VALID":
            return (0,) * count
        if self.auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
            raise g.invalid(f"attribute 'auto_pad': got {self.auto_pad!r}; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER")
        return same_padding(spatial, kernel, strides, dilations, upper=self.auto_pad == "SAME_UPPER")


@dataclass(frozen=True, kw_only=True)
class ConvAttributes(WindowAttributes):
    group: int = 1

    def kernel(self, g: Context, weight: Value) -> tuple[Dim, ...]:
        """The kernel's spatial sizes; the attribute must agree with the weight."""
        sizes, given = tuple(weight.shape[2:]), self.kernel_shape
        if given and (len(given) != len(sizes) or any(dims.different(a, b) for a, b in zip(given, sizes))):
            raise g.invalid(
                f"attribute 'kernel_shape': got {list(given)}; the weight has {[str(s) for s in sizes]}; expected equal sizes"
            )
        return sizes


@dataclass(frozen=True, kw_only=True)
class ConvTransposeAttributes(ConvAttributes):
    output_padding: Ints | None = None
    output_shape: Ints | None = None


@dataclass(frozen=True, kw_only=True)
class PoolAttributes(WindowAttributes):
    kernel_shape: Ints = field()
    ceil_mode: int = 0


def spatial_rank(g: Context, x: Value, most: int = 3) -> int:
    """Number of spatial axes of a batch of images."""
    if not 3 <= x.rank <= most + 2:
        raise g.unsupported(f"got rank {x.rank}; supported: 3 to {most + 2}")
    return x.rank - 2
