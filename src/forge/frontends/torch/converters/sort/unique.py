"""Different elements."""

from __future__ import annotations

from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.index.advanced import nonzero_columns
from forge.frontends.torch.converters.index.along import flat
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


@converts("_unique2.default", "_unique.default")
def unique(
    g: Context, self: Value, *, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False  # noqa: A002
) -> list[Value | None]:
    """In order, ``sorted`` or not, as torch gives them on the CPU; what no flag asks for, nobody reads."""
    values, _, inverse, counts = g.multi("unique", flat(g, self), axis=0, sorted=True)
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
    """Runs of equal slices along ``dim``, or of elements: one of each, the number of its run for each, their lengths."""
    shape = self.shape
    data = flat(g, self) if dim is None else self
    axis = 0 if dim is None else g.axis(dim, self.rank, "dim")
    size = data.shape[axis]
    if size == 0:
        nothing = g.call("zeros", shape=(0,), dtype="int64")
        inverse = g.reshape(nothing, shape) if dim is None else nothing
        return [data, inverse if return_inverse else None, nothing if return_counts else None]
    a, b = (g.call("strided_slice", data, begin=(k,), end=(size - 1 + k,), strides=(1,), axes=(axis,)) for k in (0, 1))
    changes = g.call("not_equal", a, b)
    others = tuple(k for k in range(data.rank) if k != axis)
    changes = g.call("any", changes, axis=others) if others else changes
    starts = g.call("concatenate", g.constant([True], "bool"), changes, axis=0)
    first = nonzero_columns(g, starts)[0]
    one = g.constant(1, "int64")
    inverse = g.call("subtract", g.call("cumsum", g.cast(starts, "int64"), axis=0), one)
    after = g.call("concatenate", first, g.reshape(g.tensor(size), (1,)), axis=0)
    ends = g.call("strided_slice", after, begin=(1,), end=(first.shape[0] + 1,), strides=(1,), axes=(0,))
    counts = g.call("subtract", ends, first)
    inverse = g.reshape(inverse, shape) if dim is None else inverse
    return [g.call("take", data, first, axis=axis), inverse if return_inverse else None, counts if return_counts else None]
