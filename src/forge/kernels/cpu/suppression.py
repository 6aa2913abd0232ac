"""Greedy suppression of overlapping boxes.

The boxes of a class whose scores count are sorted by merging keys on the stack, where these fit, else all of them in the memory
of the result, which afterwards holds the kept ones. Corners of kept boxes lie on the stack, so that a box is compared with a
vector of them at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from forge import loops
from forge.kernels.cpu.merging import Merge, has_key, position_of
from forge.kernels.cpu.ordering import RankedRow, order_by_heap, scan_row
from forge.loops import Cell
from forge.loops.contract import KernelCall, Reader, kernel
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Allocate, Function, If, Let, Stmt, loop, seq, store

# Kept boxes whose corners lie on the stack.
CORNERS: Final = 1024
# Up to this many boxes of a class are sorted by merging, in 16 bytes of stack each: all of a detector of 25,200.
LARGEST: Final = 1 << 15


@dataclass(frozen=True)
class Corners:
    """Corners, lower before upper, and area: five ``parts``."""

    parts: tuple[Expr, ...]

    @property
    def area(self) -> Expr:
        return self.parts[4]

    def overlap(self, other: Corners, threshold: Expr) -> Expr:
        """Returns whether intersection over union exceeds the threshold; boxes without area overlap nothing."""
        lanes, dtype = other.area.lanes, other.area.dtype
        zero, one = E.const(0.0, dtype, lanes), E.const(1.0, dtype, lanes)
        low = [E.binary("max", a, b) for a, b in zip(self.parts[:2], other.parts[:2])]
        high = [E.binary("min", a, b) for a, b in zip(self.parts[2:4], other.parts[2:4])]
        sides = [E.binary("max", b - a, zero) for a, b in zip(low, high)]
        common = sides[0] * sides[1]
        union = self.area + other.area - common
        some = E.compare("gt", union, zero)
        return E.logical_and(some, E.compare("gt", common / E.select(some, union, one), threshold))


def _corners(boxes: Reader, batch: Expr, number: Expr, centred: bool, real: str) -> tuple[list[Stmt], Corners]:
    """Those of box ``number``, in variables."""
    binds: list[Stmt] = []
    parts = [loops.bound(E.cast(boxes.read((batch, number, E.const(k))), real), binds, "part") for k in range(4)]
    low, high = [], []
    for k in range(2):
        a, b = (parts[k] - parts[k + 2] * 0.5, parts[k] + parts[k + 2] * 0.5) if centred else (parts[k], parts[k + 2])
        low.append(loops.bound(E.binary("min", a, b), binds, "low"))
        high.append(loops.bound(E.binary("max", a, b), binds, "high"))
    area = loops.bound((high[0] - low[0]) * (high[1] - low[1]), binds, "area")
    return binds, Corners((*low, *high, area))


@kernel("box_suppression")
def box_suppression(call: KernelCall) -> Function:
    """Family of ``vision.box_suppression``: operands boxes, scores, limit, iou_threshold, score_threshold (optional); attribute
    center_point_box. One row for each batch and class.
    """
    nest = loops.axes(call.readers[1].shape[:2])
    row = _Row(call, loops.places(nest))
    extent = call.readers[1].shape[2]
    return call.function(loops.parallel_nest(nest, row.statement(), extent * 64))


class _Row:
    """The boxes of one batch and class."""

    def __init__(self, call: KernelCall, place: list[Expr]) -> None:
        self.boxes, self.scores, self.limit, self.threshold, *least = call.readers
        self.target, self.place, self.centred = call.target, place, call.attrs.center_point_box
        self.least = least[0].read((E.const(0),)) if least else None
        self.extent = self.scores.shape[2]
        self.real = "float64" if self.boxes.dtype == "float64" else "float32"
        self.lanes = self.target.lanes(self.real)
        out = self.out = call.buffers[-1]
        lanes = 1 if self.scores.dtype == "float64" else self.target.lanes("float32")
        self.row = RankedRow(lambda at: self.scores.read((*place, at)), lambda at, _: out.offset(*place, at), None, out,
                             ascending=False, lanes=lanes)
        self.count, self.kept, self.clear = Cell("count"), Cell("kept"), Cell("clear")
        self.corners = [loops.local(f"corner{k}", self.real, CORNERS) for k in range(5)]

    def statement(self) -> Stmt:
        box, rest = E.var("box"), E.var("rest")
        clear = loop(rest, self.extent - self.kept.value, self._store(rest, E.const(0)), begin=self.kept.value)
        cells = (self.count, self.kept, self.clear)
        return seq((cell.start(0) for cell in cells), (Allocate(b) for b in self.corners), self._sorted(),
                   loop(box, self.count.value, self._visit(box)), clear)

    def _load(self, at: Expr) -> Expr:
        return E.load(self.out, self.row.slot(at, self.out))

    def _store(self, at: Expr, value: Expr) -> Stmt:
        return store(self.out, self.row.slot(at, self.out), value)

    def _counts(self, at: Expr) -> Expr:
        """Whether the scores at these positions are high enough."""
        assert self.least is not None
        return E.compare("gt", self.row.read(at), E.broadcast(self.least, at.lanes))

    def _sorted(self) -> Stmt:
        """Sets ``count``, and that many elements of the result to the numbers of boxes by descending score."""
        whole = seq(order_by_heap(self.row, self.extent, self.extent), self.count.set(self.extent))
        if not has_key(self.scores.dtype):
            return whole
        known = loops.static(self.extent)
        merge = Merge(self.target, LARGEST if known is None else loops.next_power_of_two(min(known, LARGEST)))
        room = E.const(merge.capacity)
        position, found, rank = E.var("position"), E.var("found"), E.var("rank")
        counted = E.const(1) if self.least is None else E.cast(self._counts(position), "int64")
        add = seq(merge.put(E.binary("min", self.count.value, room), self.row.key(position)),
                  self.count.set(self.count.value + counted))
        gather = scan_row(self.row, self.extent, E.const(0), position, add, [] if self.least is None else [self._counts])
        ordered, begin = merge.sort(found, found)
        deliver = loop(rank, found, self._store(rank, position_of(merge.load(begin + rank))))
        few = seq(merge.pad(found), ordered, deliver)
        if known is None or known > merge.capacity:
            few = If(found <= room, few, whole)
        return seq(merge.allocate(), gather, Let(found, self.count.value), few)

    def _visit(self, box: Expr) -> Stmt:
        """Keeps the box at this place of the order unless something speaks against it: its number, plus 1, follows the others."""
        number, earlier, other = E.var("number"), E.var("earlier"), E.var("other")
        bind, mine = _corners(self.boxes, self.place[0], number, self.centred, self.real)
        bind_other, rival = _corners(self.boxes, self.place[0], other, self.centred, self.real)
        threshold = E.cast(self.threshold.read((E.const(0),)), self.real)
        kept, lacks = self.kept.value, self.clear.set(0)
        near = E.binary("min", kept, E.const(CORNERS))

        def compare(vector: Expr) -> Stmt:
            at = E.ramp(vector * self.lanes, 1, self.lanes)
            rivals = Corners(tuple(E.load(buffer, at) for buffer in self.corners))
            own = Corners(tuple(E.broadcast(x, self.lanes) for x in mine.parts))
            hit = own.overlap(rivals, E.broadcast(threshold, self.lanes))
            hit = E.logical_and(hit, E.compare("lt", at, E.broadcast(kept, self.lanes)))
            return If(self.clear.value.ne(0), If(E.call("reduce_or", hit), lacks))

        far = seq(Let(other, self._load(earlier) - 1), bind_other, If(mine.overlap(rival, threshold), lacks))
        beyond = loop(earlier, kept - near, If(self.clear.value.ne(0), far), begin=E.const(CORNERS))
        remember = seq(store(buffer, kept, part) for buffer, part in zip(self.corners, mine.parts, strict=True))
        keep = seq(If(kept < CORNERS, remember), self._store(kept, number + 1), self.kept.set(kept + 1))
        near_ones = loops.serial("vector", loops.ceildiv(near, self.lanes), compare)
        examine = seq(bind, self.clear.set(1), near_ones, beyond, If(self.clear.value.ne(0), keep))
        wanted = kept < E.cast(self.limit.read((E.const(0),)), "int64")
        eligible = wanted if self.least is None else E.logical_and(wanted, self._counts(number))
        return seq(Let(number, self._load(box)), If(eligible, examine))
