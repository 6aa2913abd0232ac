"""What strides say of tensors in memory. They count elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from forge import dims
from forge.dims import Dim


class Layout(Protocol):
    """What is known of a tensor in memory; ``strides`` is None where nothing says them."""

    @property
    def shape(self) -> tuple[Dim, ...]: ...

    @property
    def strides(self) -> tuple[Dim, ...] | None: ...


def contiguous(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """The strides of a tensor whose elements are in row-major order, without gaps."""
    found: list[Dim] = []
    step: Dim = 1
    for size in reversed(shape):
        found.append(step)
        step = step * (1 if size == 0 else size)
    return tuple(reversed(found))


def is_contiguous(shape: Sequence[Dim], strides: Sequence[Dim]) -> bool | None:
    """Whether elements are in row-major order, without gaps. Strides of axes of size 1 do not matter.

    Strides that differ as expressions of symbols are different ones: symbols stand for 2 or more. None: the expressions are of
    other operations than sums and products.
    """
    if 0 in shape:
        return True
    steps = [_plain(step) for step in strides]
    wrong = [(a, b) for size, a, b in zip(shape, steps, contiguous(shape)) if size != 1 and not dims.equal(a, b)]
    if any(dims.is_static(a, b) for a, b in wrong):
        return False
    return None if any(_has_operation(a) or _has_operation(b) for a, b in wrong) else not wrong


def _plain(step: Dim) -> Dim:
    """``step`` without the ``max(1, size)`` that frameworks write for sizes which may be 0."""
    if isinstance(step, int):
        return step
    total: Dim = 0
    for monomial, factor in step.terms:
        total = total + dims.product([factor, *(_size(atom) for atom in monomial)])
    return total


def _size(atom: dims.Atom) -> Dim:
    if isinstance(atom, dims.Operation) and atom.op == "max" and 1 in (atom.a, atom.b):
        return _plain(atom.b if atom.a == 1 else atom.a)
    return dims.of_atom(atom)


def _has_operation(step: Dim) -> bool:
    return isinstance(step, dims.DimExpr) and any(isinstance(a, dims.Operation) for monomial, _ in step.terms for a in monomial)


def storage_order(shape: Sequence[Dim], strides: Sequence[Dim]) -> tuple[int, ...] | None:
    """The axes in the order in which a tensor's elements lie in memory; None where there are gaps, or elements share a place."""
    rest = [axis for axis, size in enumerate(shape) if size != 1]
    order: list[int] = []
    step: Dim = 1
    while rest:
        axis = next((a for a in reversed(rest) if dims.equal(strides[a], step)), None)
        if axis is None:
            return None
        rest.remove(axis)
        order.insert(0, axis)
        step = step * shape[axis]
    return (*(axis for axis, size in enumerate(shape) if size == 1), *order)


def overlaps(shape: Sequence[Dim], strides: Sequence[Dim]) -> bool:
    """Whether elements may share a place: an axis is not proved to step over all that those with smaller strides reach."""
    axes = [(stride, size) for stride, size in zip(strides, shape) if size != 1]
    if any(size == 0 for _, size in axes) or storage_order(shape, strides) is not None:
        return False
    reach: Dim = 1
    for _ in range(len(axes)):
        found = next((a for a in axes if all(a is b or _at_most(a[0], b[0]) for b in axes)), None)
        if found is None or not _at_most(reach, found[0]):
            return True
        axes.remove(found)
        reach = reach + (found[1] - 1) * found[0]
    return False


def _at_most(a: Dim, b: Dim) -> bool:
    low, _ = dims.bounds(b - a)
    return low is not None and low >= 0


def shares(old: Layout | None, new: Layout | None) -> bool | None:
    """Whether ``new``, which an operator made that copies only where it must, is a view of ``old``; None: nothing says it.

    A copy is contiguous, and so is a view of a contiguous tensor; of any other, no view with all of its elements is.
    """
    if old is None or new is None or old.strides is None or new.strides is None:
        return None
    is_new, is_old = is_contiguous(new.shape, new.strides), is_contiguous(old.shape, old.strides)
    return is_old if is_new else is_new is not None or None


def same_layout(old: Layout | None, new: Layout | None) -> bool | None:
    """Whether tensors of one shape lie in memory in the same order; None: nothing says it."""
    if old is None or new is None or old.strides is None or new.strides is None:
        return None
    return len(old.strides) == len(new.strides) and all(map(dims.equal, old.strides, new.strides))
