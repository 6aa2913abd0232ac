"""Sorting along one axis: sort, argsort, topk; and the lexicographic order of rows.

A row of which much is wanted is sorted by merging keys on the stack (``merging``), if they fit, and so are those of a long row
that may be among the few that are wanted. Every other row is ordered by a heap in the memory of the result, without scratch: the
first k elements make a heap whose root comes last in the wanted order; every further element that comes before the root takes
its place; then the roots are taken off one by one. Ties are broken by position, which makes the order total, so the result is
that of a stable sort. NaN counts as larger than every number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from forge import dtypes
from forge.kernels.cpu.merging import BLOCK, LARGEST, Merge, has_key, key, position_of
from forge.loops import Cell, bit_length, bound, guard, next_power_of_two, parallel_nest, rows_along, static
from forge.loops.contract import KernelCall, kernel
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, Var
from forge.tir.stmt import Function, If, Let, Stmt, loop, seq, store

# Sorting takes about this many vector operations per element.
COST_PER_ELEMENT: Final = 64


@dataclass(frozen=True)
class Ranked:
    """An element and its position in the row; None where only elements are wanted."""

    value: Expr
    position: Expr | None


def precedes(a: Expr, b: Expr, ascending: bool) -> Expr:
    """Returns whether ``a`` comes strictly before ``b``; NaN is the largest."""
    smaller, larger = (a, b) if ascending else (b, a)
    less = smaller < larger
    if not dtypes.is_float(a.dtype):
        return less
    return E.logical_and(E.binary("or", less, E.call("isnan", larger)), E.logical_not(E.call("isnan", smaller)))


def _before(a: Ranked, b: Ranked, ascending: bool) -> Expr:
    """The total order: by value, then by position."""
    first = precedes(a.value, b.value, ascending)
    if a.position is None or b.position is None:
        return first
    tied = E.logical_and(E.logical_not(precedes(b.value, a.value, ascending)), a.position < b.position)
    return E.binary("or", first, tied)


def _bound(item: Ranked) -> tuple[list[Stmt], Ranked]:
    """``item`` in variables."""
    lets: list[Stmt] = []
    value = bound(item.value, lets, "value")
    return lets, Ranked(value, None if item.position is None else bound(item.position, lets, "position"))


@dataclass(frozen=True)
class RankedRow:
    """A row of the operand, and the slots of its heap in the results.

    Attributes:
        read: the element at a position; at a ramp of positions, a vector of elements.
        lanes: elements that are compared at once with the root of the heap.
        slot: index into the result buffers of a slot.
        values, positions: buffers of the results; one of them may be absent.
    """

    read: Callable[[Expr], Expr]
    slot: Callable[[Expr, Buffer], Expr]
    values: Buffer | None
    positions: Buffer | None
    ascending: bool
    lanes: int

    def element(self, position: Expr) -> Ranked:
        """Reads an element of the row, with its position where positions are wanted."""
        return Ranked(self.read(position), position if self.positions is not None else None)

    def load(self, slot: Expr) -> Ranked:
        """Loads what a slot holds."""
        value, place = (None if b is None else E.load(b, self.slot(slot, b)) for b in (self.values, self.positions))
        position = None if place is None else E.cast(place, "int64")
        if value is None:
            assert position is not None
            value = self.read(position)
        return Ranked(value, position)

    def key(self, position: Expr) -> Expr:
        """Makes the key of an element, or of a vector of them, that merging sorts."""
        return key(self.read(position), position, self.ascending)

    def put(self, slot: Expr, item: Ranked) -> Stmt:
        """Puts an element into a slot."""
        held = ((self.values, item.value), (self.positions, item.position))
        return seq(store(buffer, self.slot(slot, buffer), E.cast(x, buffer.dtype))
                   for buffer, x in held if buffer is not None and x is not None)

    def before(self, a: Ranked, b: Ranked) -> tuple[Stmt, Expr]:
        """Returns whether ``a`` comes before ``b``, after the statements that find it out."""
        return seq(), _before(a, b, self.ascending)


def _sink(row: RankedRow, item: Ranked, root: Expr, end: Expr, levels: Expr) -> Stmt:
    """Puts ``item`` into the heap of the slots [root, end), whose root is free."""
    node, limit = Cell("node"), Cell("limit")
    at, child, best = E.var("at"), E.var("child"), E.var("best")
    right = E.binary("min", child + 1, end - 1)
    bind_left, left = _bound(row.load(child))
    bind_right, other = _bound(row.load(right))
    bind_chosen, chosen = _bound(row.load(best))
    compare_children, other_is_later = row.before(left, other)
    compare_chosen, chosen_is_later = row.before(item, chosen)
    descend = seq(
        bind_left,
        bind_right,
        compare_children,
        Let(best, E.select(other_is_later, right, child)),
        bind_chosen,
        compare_chosen,
        If(chosen_is_later, seq(row.put(at, chosen), node.set(best)), limit.set(0)),
    )
    step = seq(Let(at, node.value), Let(child, at * 2 + 1), If(child < limit.value, descend))
    return seq(
        node.allocate(),
        limit.allocate(),
        node.set(root),
        limit.set(end),
        loop(E.var("level"), levels, step),
        row.put(node.value, item),
    )


def order_by_heap(row: RankedRow, length: Expr, count: Expr) -> Stmt:
    """Finds the first ``count`` of ``length`` elements in order."""
    levels = bit_length(count)
    slot, turn, position, rest = (E.var(n) for n in ("slot", "turn", "position", "rest"))
    fill = loop(slot, count, row.put(slot, row.element(E.binary("min", slot, length - 1))))
    root = E.var("root")
    bind, item = _bound(row.load(root))
    build = loop(turn, count // 2, seq(Let(root, count // 2 - 1 - turn), bind, _sink(row, item, root, count, levels)))
    bind_new, new = _bound(row.element(position))
    bind_top, top = _bound(row.load(E.const(0)))
    compare, new_is_earlier = row.before(new, top)
    one = seq(bind_new, bind_top, compare, If(new_is_earlier, _sink(row, new, E.const(0), count, levels)))
    scan = scan_row(row, length, count, position, one, [
        lambda at: precedes(row.read(at), E.broadcast(row.load(E.const(0)).value, at.lanes), row.ascending)])
    end = E.var("end")
    bind_last, last = _bound(row.load(end))
    bind_root, first = _bound(row.load(E.const(0)))
    take = seq(Let(end, count - 1 - rest), bind_last, bind_root, row.put(end, first), _sink(row, last, E.const(0), end, levels))
    return seq(fill, build, scan, loop(rest, count - 1, take))


def _order_or_merge(target: Target, row: RankedRow, dtype: str, length: Expr, count: Expr) -> Stmt:
    """By selection where a known number of a long row is wanted, by merging where the scratch suffices for what is left."""
    if not has_key(dtype):
        return order_by_heap(row, length, count)
    elements, wanted = static(length), static(count)
    groups = LARGEST if wanted is None else max(2 * BLOCK, next_power_of_two(wanted + wanted // 2))
    if groups <= LARGEST // 2 and (elements is None or elements > 2 * groups):
        capacity = 2 * groups if elements is None else next_power_of_two(elements)
        few = _select(target, row, length, count, groups)
        return guard(length > 2 * groups, few, _merge(target, row, length, count, capacity))
    if elements is not None and wanted is not None:
        merges = 1 < elements <= LARGEST and (wanted * 8 >= elements or elements <= 2 * BLOCK)
        return _merge(target, row, length, count, next_power_of_two(elements)) if merges else order_by_heap(row, length, count)
    fits = E.logical_and(length <= LARGEST, E.logical_and(length > 1, count * 8 >= length))
    return If(fits, _merge(target, row, length, count, LARGEST), order_by_heap(row, length, count))


def _merge(target: Target, row: RankedRow, length: Expr, count: Expr, capacity: int) -> Stmt:
    merge = Merge(target, capacity)
    lanes = merge.lanes if row.lanes > 1 else 1
    block, position, rank, place = (E.var(n) for n in ("block", "position", "rank", "place"))
    many = E.ramp(block * lanes, 1, lanes)
    whole = length // lanes * lanes
    fill = loop(block, length // lanes, merge.put(many, row.key(many)))
    rest = loop(position, length - whole, merge.put(position, row.key(position)), begin=whole)
    ordered, begin = merge.sort(length, count)
    item = Ranked(row.read(place), place)
    deliver = loop(rank, count, seq(Let(place, position_of(merge.load(begin + rank))), row.put(rank, item)))
    return seq(merge.allocate(), fill, rest, merge.pad(length), ordered, deliver)


def _select(target: Target, row: RankedRow, length: Expr, count: Expr, groups: int) -> Stmt:
    """A few of a long row. Its first ``count`` come not after the last of the first ``count`` bests of groups of elements, as few
    others do: these are gathered and sorted, again whenever there are as many as groups.
    """
    merge, room = Merge(target, groups), E.const(groups)
    filled, limit, last = Cell("filled"), Cell("limit"), Cell("last", row.read(E.const(0)).dtype)
    position, rank, place = (E.var(n) for n in ("position", "rank", "place"))
    ordered, begin = merge.sort(room, count)
    worst = E.var("worst")
    found = seq(ordered, Let(worst, merge.load(begin + (count - 1))), limit.set(worst), last.set(row.read(position_of(worst))))
    back = loop(rank, count, merge.put(rank, merge.load(begin + rank)))
    sort = seq(merge.pad(room, filled.value), found, seq() if E.is_const(begin, 0) else back, filled.set(count))
    new = E.Var("int64", 1, "new")
    one = seq(Let(new, row.key(position)), merge.put(filled.value, new),
              filled.set(filled.value + E.cast(new <= limit.value, "int64")), If(filled.value >= room, sort))
    scan = scan_row(row, length, E.const(0), position, one, [
        lambda at: E.logical_not(precedes(E.broadcast(last.value, at.lanes), row.read(at), row.ascending)),
        lambda at: E.compare("le", row.key(at), E.broadcast(limit.value, at.lanes))])
    deliver = loop(rank, count, seq(Let(place, position_of(merge.load(rank))), row.put(rank, Ranked(row.read(place), place))))
    return seq(merge.allocate(), filled.allocate(), limit.allocate(), last.allocate(), _bests(row, merge, length, groups), found,
               filled.set(0), scan, sort, deliver)


def _bests(row: RankedRow, merge: Merge, length: Expr, groups: int) -> Stmt:
    """The first key of each group in order: every ``groups``-th element; what is left over at the end is in none."""
    lanes = row.lanes
    block, vector = E.var("block"), E.var("vector")
    first = vector * lanes
    at = E.ramp(first, 1, lanes) if lanes > 1 else first
    start = loop(vector, groups // lanes, merge.put(at, row.key(at)))
    better = merge.put(at, E.binary("min", merge.load(at), row.key(at + block * groups)))
    return seq(start, loop(block, length // groups - 1, loop(vector, groups // lanes, better), begin=1))


def scan_row(
    row: RankedRow, length: Expr, count: Expr, position: Var, one: Stmt, conditions: Sequence[Callable[[Expr], Expr]]
) -> Stmt:
    """Runs ``one`` for every ``position`` after the first ``count``; vectors of which none meets a condition are passed over."""
    begin, rest = count, length - count
    if row.lanes == 1:
        return loop(position, rest, one, begin=begin)
    block = E.var("block")
    first = begin + block * row.lanes
    body = loop(position, row.lanes, one, begin=first)
    for condition in reversed(conditions):
        body = If(E.call("reduce_or", condition(E.ramp(first, 1, row.lanes))), body)
    done = rest // row.lanes * row.lanes
    return seq(loop(block, rest // row.lanes, body), loop(position, rest - done, one, begin=begin + done))


def _lanes(target: Target, dtype: str) -> int:
    """Neighbouring elements that are compared at once."""
    return target.vector_bits // (8 * max(4, dtypes.itemsize(dtype)))


def _ordering(call: KernelCall, values: Buffer | None, positions: Buffer | None, ascending: bool) -> Function:
    data = call.readers[0]
    axis = call.attrs.axis % len(data.shape)
    loops, at = rows_along(data.shape, axis)
    contiguous = axis == len(data.shape) - 1 and data.dtype != "bool" and not dtypes.is_complex(data.dtype)
    lanes = _lanes(call.target, data.dtype) if contiguous else 1

    def slot(place: Expr, buffer: Buffer) -> Expr:
        return buffer.offset(*at(place))

    row = RankedRow(lambda place: data.read(at(place)), slot, values, positions, ascending, lanes)
    length, count = data.shape[axis], call.results[0].shape[axis]
    body = guard(count > 0, _order_or_merge(call.target, row, data.dtype, length, count))
    return call.function(parallel_nest(loops, body, length * COST_PER_ELEMENT))


@kernel("sort")
def sort(call: KernelCall) -> Function:
    """Family of ``sort``: the elements of every row in order."""
    return _ordering(call, call.buffers[-1], None, call.attrs.is_ascend)


@kernel("argsort")
def argsort(call: KernelCall) -> Function:
    """Family of ``argsort``: the positions of the elements in order."""
    return _ordering(call, None, call.buffers[-1], call.attrs.is_ascend)


@kernel("topk")
def topk(call: KernelCall) -> Function:
    """Family of ``topk``: the first k elements in order, their positions, or both."""
    results = { "both": tuple(call.buffers[-2:]), "values": (call.buffers[-1], None), "indices": (None, call.buffers[-1]), }
    values, positions = results[call.attrs.ret_type]
    return _ordering(call, values, positions, call.attrs.is_ascend)


@dataclass(frozen=True)
class _MatrixRow(RankedRow):
    """Positions of the rows of a matrix, which come in the lexicographic order of their elements.

    Attributes:
        columns: elements of a row.
        element_at: the element of a row in a column; at a ramp of columns, a vector of elements.
    """

    columns: Expr
    element_at: Callable[[Expr, Expr], Expr]

    def before(self, a: Ranked, b: Ranked) -> tuple[Stmt, Expr]:
        assert a.position is not None and b.position is not None
        first, second = a.position, b.position
        order, column, lets = Cell("order"), E.var("column"), list[Stmt]()
        x, y = (bound(self.element_at(row, column), lets, "element") for row in (first, second))
        sign = E.cast(precedes(y, x, True), "int64") - E.cast(precedes(x, y, True), "int64")
        decide = scan_row(self, self.columns, E.const(0), column, If(order.value.eq(0), seq(*lets, order.set(sign))), [
            lambda at: E.broadcast(order.value.eq(0), at.lanes),
            lambda at: E.compare("ne", self.element_at(first, at), self.element_at(second, at))])
        tied = E.logical_and(order.value.eq(0), first < second)
        return seq(order.start(0), decide), E.binary("or", order.value < 0, tied)


@kernel("argsort_rows")
def argsort_rows(call: KernelCall) -> Function:
    """Family of ``argsort_rows``: the positions of the rows of a matrix in lexicographic order."""
    data, result = call.readers[0], call.buffers[-1]
    length, columns = data.shape
    row = _MatrixRow(
        lambda place: place, lambda place, buffer: buffer.offset(place), None, result, True, _lanes(call.target, data.dtype),
        columns, lambda place, column: data.read((place, column)))
    return call.function(guard(length > 0, order_by_heap(row, length, length)))
