"""Pooling. Data is [N, C, ...] or, without a batch, [C, ...]; indices count the elements of one channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forge.compose import pooling
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.nn.convolution import batched, per_axis, unbatched
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

Ints = Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Window:
    kernel_size: Ints
    stride: Ints = ()
    padding: Ints = (0,)
    dilation: Ints = (1,)
    ceil_mode: bool = False

    def over(self, rank: int) -> dict[str, Any]:
        """The attributes of Forge's pools over ``rank`` axes."""
        sizes = per_axis(self.kernel_size, rank)
        return {
            "pool_size": sizes,
            "strides": per_axis(self.stride, rank) if self.stride else sizes,
            "padding": per_axis(self.padding, rank),
            "dilation": per_axis(self.dilation, rank),
            "ceil_mode": self.ceil_mode,
        }


def _pools(rank: int) -> None:
    @converts(f"max_pool{rank}d.default")
    def max_pool(g: Context, self: Value, *, window: Window) -> Value:
        x, added = batched(g, self, rank)
        return unbatched(g, g.call(f"nn.max_pool{rank}d", x, **window.over(rank)), added)

    @converts(f"max_pool{rank}d_with_indices.default")
    def max_pool_with_indices(g: Context, self: Value, *, window: Window) -> list[Value | None]:
        if not g.wants(1):
            return [max_pool(g, self, window=window), None]
        x, added = batched(g, self, rank)
        return [unbatched(g, v, added) for v in pooling.max_pool_with_indices(g, x, window.over(rank))]

    @converts(f"avg_pool{rank}d.default")
    def avg_pool(
        g: Context, self: Value, *, window: Window, count_include_pad: bool = True, divisor_override: int | None = None
    ) -> Value:
        x, added = batched(g, self, rank)
        found = pooling.avg_pool(
            g, x, window.over(rank), g.shape[-rank:], count_include_pad=count_include_pad, divisor=divisor_override)
        return unbatched(g, found, added)


def _targets(x: Value, output_size: Sequence[Dim], rank: int) -> tuple[Dim, ...]:
    return tuple(own if isinstance(n, int) and n == -1 else n for n, own in zip(per_axis(output_size, rank), x.shape[2:]))


def _adaptive_pools(rank: int) -> None:
    def pooled(g: Context, kind: str, x: Value, sizes: Sequence[Dim]) -> Value:
        if sizes == (1,) * rank:
            return pooling.global_pool(g, x, kind)
        return g.call(f"nn.adaptive_{kind}_pool{rank}d", x, output_size=sizes)

    names = (f"adaptive_avg_pool{rank}d.default", f"_adaptive_avg_pool{rank}d.default")

    @converts(*names[: min(rank, 2)])
    def adaptive_avg_pool(g: Context, self: Value, *, output_size: Sequence[Dim]) -> Value:
        x, added = batched(g, self, rank)
        return unbatched(g, pooled(g, "avg", x, _targets(x, output_size, rank)), added)

    @converts(f"adaptive_max_pool{rank}d.default")
    def adaptive_max_pool(g: Context, self: Value, *, output_size: Ints) -> list[Value | None]:
        x, added = batched(g, self, rank)
        sizes = _targets(x, output_size, rank)
        if g.wants(1):
            return [unbatched(g, v, added) for v in pooling.adaptive_max_pool_with_indices(g, x, sizes)]
        return [unbatched(g, pooled(g, "max", x, sizes), added), None]


def _fractional_pools(rank: int) -> None:
    @converts(f"fractional_max_pool{rank}d.default")
    def fractional_max_pool(
        g: Context, self: Value, random_samples: Value, *, kernel_size: Ints, output_size: Ints
    ) -> list[Value]:
        """Samples of images are in the order of width and height."""
        x, added = batched(g, self, rank)
        columns = (1, 0) if rank == 2 else tuple(range(rank))
        sizes, counts = (tuple(values) * (rank if len(values) == 1 else 1) for values in (kernel_size, output_size))
        found = pooling.fractional_max_pool(g, x, random_samples, pool_size=sizes, counts=counts, columns=columns)
        return [unbatched(g, v, added) for v in found]


for _rank in (1, 2, 3):
    _pools(_rank)
    _adaptive_pools(_rank)
for _rank in (2, 3):
    _fractional_pools(_rank)


@converts("max_unpool2d.default", "max_unpool3d.default")
def max_unpool(
    g: Context, self: Value, indices: Value, *, output_size: Sequence[Dim], stride: Ints = (), padding: Ints = ()
) -> Value:
    rank = len(output_size)
    return pooling.placed(g, self, indices, (*self.shape[: self.rank - rank], *output_size), rank)
