"""Different elements."""

from __future__ import annotations

from forge.compose import order_statistics
from forge.compose.axes import ravel
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


@converts("_unique2.default", "_unique.default")
def unique(
    g: Context, self: Value, *, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False  # noqa: A002
) -> list[Value | None]:
    """In order, ``sorted`` or not, as torch gives them on the CPU; what no flag asks for, nothing reads."""
    values, _, inverse, counts = g.multi("unique", ravel(g, self), axis=0, sorted=True)
    return [values, g.reshape(inverse, self.shape) if return_inverse else None, counts if return_counts else None]


@converts("unique_dim.default")
def unique_dim(
    g: Context, self: Value, *, dim: int, sorted: bool = True, return_inverse: bool = False,  # noqa: A002
    return_counts: bool = False,
) -> list[Value | None]:
    values, _, inverse, counts = g.multi("unique", self, axis=g.axis(dim, self.rank, "dim"), sorted=True)
    return [values, inverse if return_inverse else None, counts if return_counts else None]


@converts("unique_consecutive.default", "unique_dim_consecutive.default")
def unique_consecutive(
    g: Context, self: Value, *, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> list[Value | None]:
    """Of slices along ``dim``, or of elements."""
    data, axis = (ravel(g, self), 0) if dim is None else (self, g.axis(dim, self.rank, "dim"))
    values, inverse, counts = order_statistics.unique_consecutive(g, data, axis)
    inverse = g.reshape(inverse, self.shape) if dim is None else inverse
    return [values, inverse if return_inverse else None, counts if return_counts else None]
