"""Windows over images: what strides, sizes and paddings are along spatial axes, in either layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forge.compose.windows import same_padding
from forge.dims import Dim
from forge.frontends.tensorflow.context import Context
from forge.ir.nodes import Value


@dataclass(frozen=True)
class Images:
    """How images lie in a tensor.

    Attributes:
        spatial: how many spatial axes there are.
        is_last: channels are the last axis, else the one after the batch.
    """

    spatial: int
    is_last: bool

    @property
    def layout(self) -> str:
        letters = "DHW"[3 - self.spatial :] if self.spatial > 1 else "W"
        return f"N{letters}C" if self.is_last else f"NC{letters}"

    @property
    def axes(self) -> range:
        return range(1, 1 + self.spatial) if self.is_last else range(2, 2 + self.spatial)

    @property
    def channels(self) -> int:
        return self.spatial + 1 if self.is_last else 1

    def of(self, g: Context, numbers: Sequence[int], what: str) -> tuple[int, ...]:
        """Of one number for each axis, those of the spatial axes, which must be positive, as others must be 1."""
        if len(numbers) != self.spatial + 2:
            raise g.invalid(f"{what}: got {tuple(numbers)}; expected {self.spatial + 2} numbers")
        found = tuple(numbers[axis] for axis in self.axes)
        if min(found) < 1:
            raise g.invalid(f"{what}: got {tuple(numbers)}; expected positive numbers")
        if numbers[0] != 1 or numbers[self.channels] != 1:
            raise g.unsupported(f"{what}: got {tuple(numbers)}; expected 1 along batch and channels")
        return found

    def sizes(self, x: Value) -> tuple[Dim, ...]:
        return tuple(x.shape[axis] for axis in self.axes)

    def padding(
        self, g: Context, x: Value, kernel: Sequence[Dim], strides: Sequence[int], dilations: Sequence[int], padding: str,
        explicit: Sequence[int] = (),
    ) -> tuple[Dim, ...]:
        """Padding before all spatial axes, then after them."""
        if padding == "VALID":
            return (0,) * (2 * self.spatial)
        if padding == "EXPLICIT":
            if len(explicit) != 2 * (self.spatial + 2) or min(explicit) < 0:
                raise g.invalid(f"explicit_paddings: got {tuple(explicit)}; expected a pair of sizes for each axis")
            return tuple(explicit[2 * axis + side] for side in (0, 1) for axis in self.axes)
        if padding != "SAME":
            raise g.invalid(f"padding: got {padding!r}; expected VALID, SAME or EXPLICIT")
        return same_padding(self.sizes(x), kernel, strides, dilations)


def images(g: Context, x: Value, data_format: str, spatial: int) -> Images:
    """Raises OpAttributeInvalid: ``x`` has another rank."""
    if x.rank != spatial + 2:
        raise g.invalid(f"got {x.type}; expected a tensor of rank {spatial + 2}")
    return Images(spatial, data_format.endswith("C"))


def in_wanted_layout(
    g: Context, x: Value, given: Images, make: Callable[[Value, Images], Value]
) -> Value:
    """What ``make`` gives for images, in the layout that the user wants where it is not that of the model."""
    wanted = g.scope.state.layout
    if not wanted or wanted.endswith("C") == given.is_last:
        return make(x, given)
    inner = Images(given.spatial, not given.is_last)
    last, first = (0, *range(2, x.rank), 1), (0, x.rank - 1, *range(1, x.rank - 1))
    there, back = (first, last) if given.is_last else (last, first)
    return g.moved(make(g.moved(x, there), inner), back)
