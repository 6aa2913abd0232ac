"""Sorting along one axis: sort, argsort, topk.

A row of which much is wanted is sorted by merging keys on the stack (``merging``), if they fit. Every other row is ordered by
a heap in the memory of the result, without scratch: the first k elements make a heap whose root comes last in the wanted
order; every further element that comes before the root takes its place; then the roots are taken off one by one. Ties are
broken by position, which makes the order total, so the result is that of a stable sort. NaN counts as larger than every number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from forge import dtypes
from forge.kernels.cpu.merging import BLOCK, LARGEST, LARGEST_SYMBOLIC, Merge, has_key, key, position_of
from forge.loops import Loop, next_power_of_two, parallel_nest
from forge.loops.contract import KernelCall, Reader, kernel
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Function, If, Let, Stmt, loop, seq, store

# Sorting takes about this many vector operations per element.
COST_PER_ELEMENT: Final = 64

# Of a long row, at most this many elements are selected without sorting much of it.
MAX_SELECTED: Final = 16


@dataclass(frozen=True)
class Item:
    """An element and its position in the row; None where only elements are wanted."""

    value: Expr
    position: Expr | None


def precedes(a: Expr, b: Expr, ascending: bool) -> Expr:
    """Whether ``a`` comes strictly before ``b``; NaN is the largest."""
    smaller, larger = (a, b) if ascending else (b, a)
    less = smaller < larger
    if not dtypes.is_float(a.dtype):
        return less
    return E.logical_and(E.binary("or", less, E.call("isnan", larger)), E.logical_not(E.call("isnan", smaller)))


def _before(a: Item, b: Item, ascending: bool) -> Expr:
    """The total order: by value, then by position."""
    first = precedes(a.value, b.value, ascending)
    if a.position is None or b.position is None:
        return first
    tied = E.logical_and(E.logical_not(precedes(b.value, a.value, ascending)), a.position < b.position)
    return E.binary("or", first, tied)


def _bound(item: Item, name: str) -> tuple[list[Stmt], Item]:
    """``item`` in variables."""
    value = E.Var(item.value.dtype, 1, f"{name}_value")
    if item.position is None:
        return [Let(value, item.value)], Item(value, None)
    position = E.var(f"{name}_position")
    return [Let(value, item.value), Let(position, item.position)], Item(value, position)


@dataclass(frozen=True)
class Row:
    """One row of the operand, and the slots of its heap in the results.

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

    def element(self, position: Expr) -> Item:
        return Item(self.read(position), position if self.positions is not None else None)

    def load(self, slot: Expr) -> Item:
        if self.positions is None:
            assert self.values is not None
            return Item(E.load(self.values, self.slot(slot, self.values)), None)
        position = E.cast(E.load(self.positions, self.slot(slot, self.positions)), "int64")
        if self.values is None:
            return Item(self.read(position), position)
        return Item(E.load(self.values, self.slot(slot, self.values)), position)

    def put(self, slot: Expr, item: Item) -> Stmt:
        parts: list[Stmt] = []
        if self.values is not None:
            parts.append(store(self.values, self.slot(slot, self.values), item.value))
        if self.positions is not None and item.position is not None:
            index = self.slot(slot, self.positions)
            parts.append(store(self.positions, index, E.cast(item.position, self.positions.dtype)))
        return seq(*parts)

    def before(self, a: Item, b: Item) -> Expr:
        return _before(a, b, self.ascending)


def _local(name: str) -> Buffer:
    return Buffer(name, "int64", (E.const(1),), scope="local")


def _levels(count: Expr) -> Expr:
    """Height of a heap of ``count`` slots."""
    if isinstance(count, E.Const):
        return E.const(int(count.value).bit_length())  # type: ignore[arg-type]
    return E.const(64) - E.call("clz", count)


def _sink(row: Row, item: Item, root: Expr, end: Expr, levels: Expr, name: str) -> Stmt:
    """Puts ``item`` into the heap of the slots [root, end), whose root is free."""
    node, limit = _local(f"{name}_node"), _local(f"{name}_limit")
    zero = E.const(0)
    at, child, best = E.var(f"{name}_at"), E.var(f"{name}_child"), E.var(f"{name}_best")
    right = E.binary("min", child + 1, end - 1)
    bind_left, left = _bound(row.load(child), f"{name}_left")
    bind_right, other = _bound(row.load(right), f"{name}_right")
    bind_chosen, chosen = _bound(row.load(best), f"{name}_chosen")
    move = seq(row.put(at, chosen), store(node, zero, best))
    step = seq(
        Let(at, E.load(node, zero)),
        Let(child, at * 2 + 1),
        If(
            child < E.load(limit, zero),
            seq(
                *bind_left,
                *bind_right,
                Let(best, E.select(row.before(left, other), right, child)),
                *bind_chosen,
                If(row.before(item, chosen), move, store(limit, zero, zero)),
            ),
        ),
    )
    return seq(
        Allocate(node),
        Allocate(limit),
        store(node, zero, root),
        store(limit, zero, end),
        loop(E.var(f"{name}_level"), levels, step),
        row.put(E.load(node, zero), item),
    )


def _order(row: Row, length: Expr, count: Expr) -> Stmt:
    """The first ``count`` of ``length`` elements in order."""
    levels = _levels(count)
    slot, turn, position, rest = (E.var(n) for n in ("slot", "turn", "position", "rest"))
    fill = loop(slot, count, row.put(slot, row.element(E.binary("min", slot, length - 1))))
    root = E.var("root")
    bind, item = _bound(row.load(root), "build")
    build = loop(turn, count // 2, seq(Let(root, count // 2 - 1 - turn), *bind, _sink(row, item, root, count, levels, "build")))
    bind_new, new = _bound(row.element(position), "new")
    bind_top, top = _bound(row.load(E.const(0)), "top")
    replace = If(row.before(new, top), _sink(row, new, E.const(0), count, levels, "scan"))
    one = seq(*bind_new, *bind_top, replace)
    scan = _scan(row, length, count, position, one, lambda: row.load(E.const(0)).value)
    end = E.var("end")
    bind_last, last = _bound(row.load(end), "last")
    bind_root, first = _bound(row.load(E.const(0)), "first")
    take = seq(Let(end, count - 1 - rest), *bind_last, *bind_root, row.put(end, first),
               _sink(row, last, E.const(0), end, levels, "take"))
    return seq(fill, build, scan, loop(rest, count - 1, take))


def _order_or_merge(target: Target, row: Row, dtype: str, length: Expr, count: Expr) -> Stmt:
    """By merging where the scratch suffices and most of the row, or all of a short one, is wanted."""
    if not has_key(dtype):
        return _order(row, length, count)
    if isinstance(length, E.Const) and isinstance(count, E.Const):
        elements, wanted = int(length.value), int(count.value)  # type: ignore[arg-type]
        if 0 < wanted <= MAX_SELECTED and elements > 2 * BLOCK:
            return _select(target, row, length, count)
        merges = 1 < elements <= LARGEST and (wanted * 8 >= elements or elements <= 2 * BLOCK)
        return _merge(target, row, length, count, next_power_of_two(elements)) if merges else _order(row, length, count)
    fits = E.logical_and(length <= LARGEST_SYMBOLIC, E.logical_and(length > 1, count * 8 >= length))
    return If(fits, _merge(target, row, length, count, LARGEST_SYMBOLIC), _order(row, length, count))


def _merge(target: Target, row: Row, length: Expr, count: Expr, capacity: int) -> Stmt:
    merge = Merge(target, capacity)
    lanes = merge.lanes if row.lanes > 1 else 1
    block, position, rank, place = (E.var(n) for n in ("block", "position", "rank", "place"))
    many = E.ramp(block * lanes, 1, lanes)
    whole = length // lanes * lanes
    fill = loop(block, length // lanes, merge.put(many, key(row.read(many), many, row.ascending)))
    rest = loop(position, length - whole, merge.put(position, key(row.read(position), position, row.ascending)), begin=whole)
    ordered, begin = merge.sort(length, count)
    item = Item(row.read(place), place)
    deliver = loop(rank, count, seq(Let(place, position_of(merge.load(begin + rank))), row.put(rank, item)))
    return seq(merge.allocate(), fill, rest, merge.pad(length), ordered, deliver)


def _select(target: Target, row: Row, length: Expr, count: Expr) -> Stmt:
    """A few of a long row: candidates, which come before the last of the best so far, are gathered until there are two blocks of
    them, and then sorted; the best of them stay.
    """
    merge, room = Merge(target, 2 * BLOCK), E.const(2 * BLOCK)
    filled = _local("filled")
    last = Buffer("last", row.read(E.const(0)).dtype, (E.const(1),), scope="local")
    position, first, rank, place = (E.var(n) for n in ("position", "first", "rank", "place"))
    ordered, _ = merge.sort(room, count)
    remember = store(last, 0, row.read(position_of(merge.load(count - 1))))
    sort = seq(merge.pad(room, E.load(filled, 0)), ordered, store(filled, 0, count), remember)
    new = E.Var(last.dtype, 1, "new")
    put = seq(merge.put(E.load(filled, 0), key(new, position, row.ascending)), store(filled, 0, E.load(filled, 0) + 1))
    one = seq(Let(new, row.read(position)),
              If(precedes(new, E.load(last, 0), row.ascending), seq(put, If(E.load(filled, 0) >= room, sort))))
    fill = loop(first, 2 * BLOCK, merge.put(first, key(row.read(first), first, row.ascending)))
    scan = _scan(row, length, room, position, one, lambda: E.load(last, 0))
    deliver = loop(rank, count, seq(Let(place, position_of(merge.load(rank))), row.put(rank, Item(row.read(place), place))))
    return seq(merge.allocate(), Allocate(filled), Allocate(last), fill, store(filled, 0, room), sort, scan, sort, deliver)


def _scan(row: Row, length: Expr, count: Expr, position: Expr, one: Stmt, bound: Callable[[], Expr]) -> Stmt:
    """``one`` for every ``position`` after the first ``count``; vectors without anything before ``bound()`` are passed over.

    A later element that is equal to the bound never comes before it.
    """
    assert isinstance(position, E.Var)
    begin, rest = count, length - count
    if row.lanes == 1:
        return loop(position, rest, one, begin=begin)
    block = E.var("block")
    first = begin + block * row.lanes
    values = row.read(E.ramp(first, 1, row.lanes))
    candidates = precedes(values, E.broadcast(bound(), row.lanes), row.ascending)
    vectors = loop(block, rest // row.lanes, If(E.call("reduce_or", candidates), loop(position, row.lanes, one, begin=first)))
    done = rest // row.lanes * row.lanes
    return seq(vectors, loop(position, rest - done, one, begin=begin + done))


def _ordering(call: KernelCall, values: Buffer | None, positions: Buffer | None, ascending: bool) -> Function:
    data = call.readers[0]
    axis = call.attrs.axis % len(data.shape)
    loops = [Loop(E.var(f"i{k}"), extent) for k, extent in enumerate(data.shape) if k != axis]
    outer = [x.var for x in loops]

    def at(place: Expr) -> Sequence[Expr]:
        return [*outer[:axis], place, *outer[axis:]]

    contiguous = axis == len(data.shape) - 1 and data.dtype != "bool" and not dtypes.is_complex(data.dtype)
    lanes = call.target.vector_bits // (8 * max(4, dtypes.itemsize(data.dtype))) if contiguous else 1
    slot = lambda place, buffer: buffer.offset(*at(place))  # noqa: E731
    row = Row(_element_reader(data, at), slot, values, positions, ascending, lanes)
    length, count = data.shape[axis], call.results[0].shape[axis]
    body = _order_or_merge(call.target, row, data.dtype, length, count)
    if not isinstance(count, E.Const):
        body = If(count > 0, body)
    elif not count.value:
        body = seq()
    return call.function(parallel_nest(loops, body, data.shape[axis] * COST_PER_ELEMENT))


def _element_reader(data: Reader, at: Callable[[Expr], Sequence[Expr]]) -> Callable[[Expr], Expr]:
    return lambda place: data.read(tuple(at(place)))


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
    results = {
        "both": tuple(call.buffers[-2:]),
        "values": (call.buffers[-1], None),
        "indices": (None, call.buffers[-1]),
    }
    values, positions = results[call.attrs.ret_type]
    return _ordering(call, values, positions, call.attrs.is_ascend)
