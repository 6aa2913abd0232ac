"""The same elements in another order, or several times."""

from __future__ import annotations

from collections.abc import Sequence

from forge.compose import axes
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


@converts("movedim.int", "movedim.intlist", "moveaxis.int", "moveaxis.intlist")
def movedim(g: Context, self: Value, *, source: Sequence[int] | int, destination: Sequence[int] | int) -> Value:
    if self.rank == 0:
        return self
    return axes.transposed(g, self, axes.moved(self.rank, g.axes(source, self.rank), g.axes(destination, self.rank)))


@converts("flip.default")
def flip(g: Context, self: Value, *, dims: Sequence[int]) -> Value:
    return axes.flip(g, self, g.axes(dims, self.rank) if dims else ())


@converts("fliplr.default")
def fliplr(g: Context, self: Value) -> Value:
    return flip(g, self, dims=(1,))


@converts("flipud.default")
def flipud(g: Context, self: Value) -> Value:
    return flip(g, self, dims=(0,))


@converts("roll.default")
def roll(g: Context, self: Value, *, shifts: Sequence[Dim], dims: Sequence[int] = ()) -> Value:
    """Without ``dims`` as a vector."""
    if self.rank == 0:
        return self
    if not dims:
        return g.reshape(g.call("roll", axes.ravel(g, self), shift=tuple(shifts), axis=(0,)), self.shape)
    return g.call("roll", self, shift=tuple(shifts), axis=g.axes(dims, self.rank))


@converts("rot90.default")
def rot90(g: Context, self: Value, *, k: int = 1, dims: Sequence[int] = (0, 1)) -> Value:
    a, b = g.axes(dims, self.rank)
    return axes.rot90(g, self, k, (a, b))


@converts("repeat.default", "tile.default")
def repeat(g: Context, self: Value, *, repeats: Sequence[Dim] = (), dims: Sequence[Dim] = ()) -> Value:
    times = repeats or dims
    return g.call("tile", self, reps=tuple(times)) if times else self


@converts("repeat_interleave.self_int")
def repeat_interleave(
    g: Context, self: Value, *, repeats: Dim, dim: int | None = None, output_size: Dim | None = None
) -> Value:
    """Without ``dim`` of the elements as a vector."""
    if dim is None:
        self, dim = axes.ravel(g, self), 0
    return axes.repeat(g, self, repeats, g.axis(dim, self.rank, "dim"))


@converts("repeat_interleave.self_Tensor")
def repeat_interleave_each(
    g: Context, self: Value, repeats: Value, *, dim: int | None = None, output_size: Dim | None = None
) -> Value:
    if dim is None:
        self, dim = axes.ravel(g, self), 0
    axis = g.axis(dim, self.rank, "dim")
    if repeats.rank == 0 or repeats.shape[0] == 1:
        repeats = g.call("broadcast_to", g.reshape(repeats, (1,)), shape=(self.shape[axis],))
    return g.call("repeat_interleave", self, repeats, axis=axis)


@converts("repeat_interleave.Tensor")
def repeated_numbers(g: Context, repeats: Value, *, output_size: Dim | None = None) -> Value:
    """0 repeats[0] times, then 1 repeats[1] times ..."""
    numbers = axes.places(g, repeats, 0)
    return g.cast(g.call("repeat_interleave", numbers, repeats, axis=0), repeats.dtype)
