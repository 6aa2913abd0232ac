"""Lines up symbolic shapes that the operators would not broadcast on their own.

Two different symbolic sizes may turn out equal, or one of them 1, at run time. The operators take a symbol neither for 1 nor for
another symbol, so compositions spell the broadcast out with ``broadcast_to``, which is checked at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forge import dims
from forge.dims import Dim, Operation
from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.types import TensorType


def aligned(builder: Builder, values: Sequence[Value]) -> list[Value]:
    """``values`` with shapes that provably broadcast."""
    if all(dims.is_static(*v.shape) for v in values):
        return list(values)
    rank = max(v.rank for v in values)
    columns = [[v.shape[axis - rank + v.rank] for v in values if axis >= rank - v.rank] for axis in range(rank)]
    target = [common_size(column) for column in columns]
    return [_stretched(builder, v, target[rank - v.rank :]) for v in values]


def common_size(sizes: Sequence[Dim]) -> Dim:
    """The size to which all of ``sizes`` broadcast, if they do at run time."""
    wide = [s for s in sizes if not (isinstance(s, int) and s == 1)]
    if not wide:
        return 1
    numbers = [s for s in wide if isinstance(s, int)]
    if numbers:
        return numbers[0]
    result = wide[0]
    for size in wide[1:]:
        result = _larger(result, size)
    return result


def with_equal_sizes(builder: Builder, values: Sequence[Value], free_axis: int) -> list[Value]:
    """``values`` of one rank whose sizes provably agree on all axes but ``free_axis``.

    Sizes that must agree in a valid model but cannot be proven to are taken for equal, which is checked at run time.
    """
    columns = [[v.shape[axis] for v in values] for axis in range(values[0].rank)]
    common = [simplest(column) for column in columns]
    return [_equated(builder, v, common, free_axis) for v in values]


def for_product(builder: Builder, a: Value, b: Value, b_axis: int = -2) -> list[Value]:
    """``a`` and ``b`` with a summed axis (the last of ``a``, ``b_axis`` of ``b``) and batch axes that provably fit."""
    inner = simplest((a.shape[-1], b.shape[b_axis]))
    values = [_resized(builder, v, axis, inner) for v, axis in ((a, -1), (b, b_axis))]
    rank = max(a.rank, b.rank) - 2
    stacks = [v.shape[:-2] if v.rank > 2 else () for v in values]
    columns = [[s[axis - rank + len(s)] for s in stacks if axis >= rank - len(s)] for axis in range(rank)]
    target = [common_size(column) for column in columns]
    return [_stretched(builder, v, [*target[rank - len(s) :], *v.shape[len(s) :]]) for v, s in zip(values, stacks)]


def _resized(builder: Builder, value: Value, axis: int, size: Dim) -> Value:
    """``value`` with a size along ``axis`` that is taken for the given one, unless it provably is or is not."""
    own = value.shape[axis]
    if dims.equal(own, size) or dims.different(own, size):
        return value
    shape = list(value.shape)
    shape[axis] = size
    return builder.call("broadcast_to", value, shape=tuple(shape), exact=True)


def taken_for_equal(builder: Builder, values: Sequence[Value | None], a: Dim, b: Dim) -> list[Value | None] | None:
    """``values`` with sizes in which ``a`` is ``b``, which is checked at run time; None where no size of theirs says so."""
    kept, replaced = sorted((a, b), key=_complexity)
    name = dims.symbol_name(replaced)
    solution = dims.solve(replaced, kept) if isinstance(kept, int) else None
    meaning: dict[str, Dim] = {name: kept} if name is not None else {} if solution is None else dict([solution])
    fitted = [_taken(builder, v, lambda d: kept if dims.equal(d, replaced) else dims.substitute(d, meaning)) for v in values]
    return fitted if any(new is not old for new, old in zip(fitted, values)) else None


def _taken(builder: Builder, value: Value | None, size: Callable[[Dim], Dim]) -> Value | None:
    if value is None or not isinstance(value.type, TensorType):
        return value
    shape = tuple(map(size, value.shape))
    return value if shape == value.shape else builder.call("broadcast_to", value, shape=shape, exact=True)


def simplest(sizes: Sequence[Dim]) -> Dim:
    """Of sizes that are equal in a valid model, the one that says most."""
    return min(sizes, key=_complexity)


def _complexity(size: Dim) -> tuple[bool, int]:
    return (not isinstance(size, int), len(str(size)))


def _equated(builder: Builder, value: Value, common: Sequence[Dim], free_axis: int) -> Value:
    shape = list(value.shape)
    for axis, (own, wanted) in enumerate(zip(value.shape, common)):
        if axis != free_axis and not dims.equal(own, wanted) and not dims.different(own, wanted):
            shape[axis] = wanted
    return value if tuple(shape) == value.shape else builder.call("broadcast_to", value, shape=tuple(shape), exact=True)


def _larger(a: Dim, b: Dim) -> Dim:
    """The size of the broadcast of two symbolic sizes."""
    if dims.equal(a, b) or _is_cut_from(b, a):
        return a
    return b if _is_cut_from(a, b) else dims.maximum(a, b)


def _is_cut_from(small: Dim, large: Dim) -> bool:
    """Whether ``small`` is min(large, ...)."""
    atom = dims.sole_atom(small)
    return isinstance(atom, Operation) and atom.op == "min" and large in (atom.a, atom.b)


def _stretched(builder: Builder, value: Value, target: Sequence[Dim]) -> Value:
    """``value`` broadcast along axes whose size is not provably 1 or that of ``target``."""
    shape = tuple(
        own if dims.equal(own, wanted) or (isinstance(own, int) and (own == 1 or isinstance(wanted, int))) else wanted
        for own, wanted in zip(value.shape, target)
    )
    return value if shape == value.shape else builder.call("broadcast_to", value, shape=shape)
