"""Reductions that depend on the order of the elements: medians and modes."""

from __future__ import annotations

import math
from collections.abc import Callable

from forge import dtypes
from forge.compose.axes import ravel
from forge.compose.order_statistics import median, mode
from forge.compose.reductions import of_some
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.reduce.reduction import axes_of
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

Statistic = Callable[[Context, Value, int, bool], tuple[Value, Value]]


def _along(g: Context, find: Statistic, x: Value, dim: int | None, keepdim: bool = False) -> list[Value]:
    """A value and its position along ``dim``, or of all elements."""
    axes = axes_of(g, x, dim)
    data = of_some(g, x, x, axes, g.step.target.split(".")[1])
    if dim is None or x.rank == 0:
        return [*find(g, ravel(g, data), 0, False)]
    return [*find(g, data, axes[0], keepdim)]


def _median(op: str, skips_nan: bool) -> None:
    def find(g: Context, x: Value, axis: int, keepdims: bool) -> tuple[Value, Value]:
        return median(g, x, axis, keepdims, skips_nan=skips_nan)

    @converts(f"{op}.default")
    def of_all(g: Context, self: Value) -> Value:
        if dtypes.is_float(self.dtype) and self.tensor_type.size == 0:
            return g.scalar(math.nan, self)
        return _along(g, find, self, None)[0]

    @converts(f"{op}.dim")
    def along(g: Context, self: Value, *, dim: int, keepdim: bool = False) -> list[Value]:
        return _along(g, find, self, dim, keepdim)


_median("median", False)
_median("nanmedian", True)


@converts("mode.default")
def mode_along(g: Context, self: Value, *, dim: int = -1, keepdim: bool = False) -> list[Value]:
    return _along(g, mode, self, dim, keepdim)
