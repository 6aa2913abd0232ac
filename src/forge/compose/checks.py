"""What eager frameworks check of integers: indices are in range, and divisors are not 0."""

from __future__ import annotations

from forge import dims, dtypes
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.ranges import element_range, lies_within


def checked_indices(g: Composer, indices: Value, *sizes: Dim, from_end: bool = True, what: str = "an index") -> Value:
    """``indices`` of an axis with ``sizes`` elements, one size or one for each slice along the first axis; a call with others
    fails.

    Nothing is checked where all are known to fit, or where there are no sizes. With ``from_end`` negative ones count from the
    end. Messages call one ``what``.

    Raises:
        OpAttributeInvalid: constants do not fit.
    """
    if sizes and all(dims.equal(size, sizes[0]) for size in sizes):
        sizes = sizes[:1]
    found = element_range(indices)
    ranges = [(-1 * size if from_end else 0, size - 1) for size in sizes]
    if all(lies_within(found, *fits) for fits in ranges):
        return indices
    if indices.constant is not None and len(sizes) == 1 and dims.is_static(*sizes) and g.runs_always:
        raise g.invalid(f"{what} is out of range: got {found[0]} to {found[1]}; expected {ranges[0][0]} to {ranges[0][1]}")  # type: ignore[index]
    return g.call("check_index", indices, sizes=sizes, from_end=from_end, what=what)


def checked_lengths(g: Composer, lengths: Value, size: Dim) -> Value:
    """``lengths`` of parts of an axis with ``size`` elements; a call with others fails."""
    return checked_indices(g, lengths, size + 1, from_end=False, what="a length")


def check_that(g: Composer, holds: Value, message: str) -> None:
    """A call in which ``holds``, of rank 0, is false fails with ``message`` and the place in the model."""
    where = g.builder.location
    g.call("check", holds, message=f"node {dims.shown(where)}: {message}" if where else message)


def checked_divisor(g: Composer, divisor: Value, **message: str) -> Value:
    """``divisor``; of integers, unless none is known to be 0, a call in which one is fails, with ``message``."""
    if not dtypes.is_integer(divisor.dtype):
        return divisor
    found, array = element_range(divisor), divisor.constant
    is_known = array.all() if array is not None else lies_within(found, 1, dtypes.integer_range("uint64")[1])
    return divisor if is_known else g.call("check_divisor", divisor, **message)
