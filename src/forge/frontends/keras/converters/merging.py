"""Layers that take several tensors, and put them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from forge.frontends.keras.context import Context
from forge.frontends.keras.converters.normalization import unit
from forge.frontends.keras.registry import converts
from forge.ir.nodes import Value


def _aligned(g: Context, inputs: Any) -> list[Value]:
    """Inputs with axes of size 1 after the batch, so that all have one rank."""
    values = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    if not values or not all(isinstance(v, Value) for v in values):
        raise g.invalid(f"got {len(values)} inputs; expected a list of tensors")
    rank = max(v.rank for v in values)
    return [v if v.rank == rank or not v.rank else g.reshape(v, (v.shape[0], *(1,) * (rank - v.rank),
        *v.shape[1:])) for v in values]


def _folded(op: str) -> Callable[..., Value]:
    def convert(g: Context, inputs: Any) -> Value:
        values = _aligned(g, inputs)
        total = values[0]
        for value in values[1:]:
            total = g.call(op, total, value)
        return total

    return convert


for _name, _op in (("Add", "add"), ("Multiply", "multiply"), ("Maximum", "maximum"), ("Minimum", "minimum"), ("Subtract",
    "subtract")):
    converts(_name)(_folded(_op))


@converts("Average")
def average(g: Context, inputs: Any) -> Value:
    total = _folded("add")(g, inputs)
    return g.call("divide", total, g.scalar(len(inputs) if isinstance(inputs, list | tuple) else 1, total))


@converts("CustomScaleLayer")
def custom_scale_layer(g: Context, inputs: Any, *, scale: float) -> Value:
    """Of ``keras.applications.inception_resnet_v2``: a residual branch, scaled and added."""
    values = _aligned(g, inputs)
    if len(values) != 2:
        raise g.invalid(f"got {len(values)} tensors; expected two")
    x, residual = values
    return g.call("add", x, g.call("multiply", residual, g.scalar(float(scale), residual)))


@converts("Concatenate")
def concatenate(g: Context, inputs: Any, *, axis: int = -1) -> Value:
    values: Sequence[Value] = inputs if isinstance(inputs, list | tuple) else [inputs]
    return g.call("concatenate", *values, axis=g.axis(axis, values[0].rank))


@converts("Dot")
def dot(g: Context, inputs: Any, *, axes: Any, normalize: bool = False) -> Value:
    if not isinstance(inputs, list | tuple) or len(inputs) != 2:
        raise g.invalid("got no pair of tensors; expected two")
    a, b = inputs
    first, second = (axes if isinstance(axes, tuple) else (axes, axes))
    first, second = g.axis(first, a.rank), g.axis(second, b.rank)
    if normalize:
        a, b = unit(g, a, [first]), unit(g, b, [second])
    return batch_dot(g, a, b, first, second)


def batch_dot(g: Context, a: Value, b: Value, first: int, second: int) -> Value:
    """Products of the elements of two batches, summed over one axis of each."""
    letters = [iter("bcdefghijklm"), iter("nopqrstuvwxy")]
    ours, theirs = ([next(kind) for _ in range(v.rank - 1)] for kind, v in zip(letters, (a, b)))
    ours, theirs = ["a", *ours], ["a", *theirs]
    theirs[second] = ours[first]
    kept = [c for k, c in enumerate(ours) if k != first] + [c for k, c in enumerate(theirs) if k not in (0, second)]
    found = g.call("einsum", a, b, equation=f"{''.join(ours)},{''.join(theirs)}->{''.join(kept)}")
    return found if found.rank > 1 else g.call("expand_dims", found, axis=1)
