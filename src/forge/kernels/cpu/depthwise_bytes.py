"""Depthwise convolutions of bytes: a step of a sum takes neighbouring taps of a row, by dot products.

Operands: data [N][C/c][H][W][c] of uint8, or of int16 for g = 2, weight [C/c][kh][kw/g][c][g] of int8, in groups of g taps of
which the last ends with zeros; result [N][C/c][OH][OW][c] of int32. ``attrs``: strides, padding, dilation (1 along rows),
pad_value, kernel_size.

Rows of data are copied into groups of g neighbouring positions of each channel, one group from every second position on, with
padding where there are no data: [W/2][c][g]. A copy serves all rows of taps, and each of its groups the outputs whose windows
begin at its first position and at the next one: those have weights with a zero in front. So a row of three taps takes one dot
product, and a row of five takes two. Of wide images a task keeps the rows under one row of outputs only, of strips of columns
that fit into the first-level cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from forge import dtypes, loops
from forge.errors import CompileError
from forge.kernels.cpu.micro import micro_kernel
from forge.kernels.cpu.spatial import BlockedWindow, Image, clamp, known_tiles, static_shape, window_of
from forge.loops import Accumulators, RegisterTile
from forge.loops.contract import KernelCall
from forge.loops.dots import FOUR_BYTES, Group
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Allocate, Function, Stmt, seq, store

WEIGHT: Final = "[C/c][kh][kw/g][c][g]"
# An image is cut into about this many tasks per core.
TASKS_PER_CORE: Final = 4
# A multiply-add takes as long as this many in a kernel that reuses its operands.
MEMORY_FACTOR: Final = 2
# Positions from one group to the next.
STEP: Final = 2
# Outputs of a tile at the end of a row whose length is known at run time only.
NARROW: Final = 4
# Outputs of a row for which there is code of its own: the last images of networks that see 224 pixels.
SHORT: Final = 7
# Up to this many rows of taps are written out; more are a loop.
MAX_ROWS: Final = 8
# Groups that one iteration copies.
COPIES: Final = 4


@dataclass(frozen=True, kw_only=True)
class BytesPlan:
    """``width`` outputs are a tile, ``strip`` of a row are computed from one copy; ``row_block`` rows of a block are a task.

    ``steps`` groups of taps are in a row of the weight. ``slots`` rows are held at a time: all of a task, or those under one row
    of outputs.
    """

    window: BlockedWindow
    unit: Group
    steps: int
    pad_value: int
    row_block: int
    strip: int
    width: int
    slots: int
    target: Target

    @property
    def size(self) -> int:
        """Numbers in a group of positions of all channels."""
        return self.window.block * self.unit.size

    def steps_from(self, parity: int) -> int:
        """Groups under the taps of an output whose window begins ``parity`` after the first position of one."""
        return -(-(self.window.width.kernel + parity) // self.unit.size)

    @property
    def steps_in_row(self) -> int:
        """Groups of weights of a row of taps: those of even places, then those of odd ones, if there are such."""
        return self.steps_from(0) + (self.steps_from(1) if self.window.width.stride % STEP else 0)

    def groups(self, outputs: int) -> int:
        """Groups under ``outputs`` neighbouring positions, of which the first begins at a group."""
        return max(self.meeting(outputs)) // STEP + 1

    def row_bytes(self, outputs: int) -> int:
        """Returns the bytes of the groups under ``outputs`` of a row."""
        return self.groups(outputs) * self.window.block * 4

    def meeting(self, outputs: int) -> dict[int, list[tuple[int, int]]]:
        """Groups under neighbouring outputs by their first position, each with the (output, group of weights) that read it."""
        found: dict[int, list[tuple[int, int]]] = {}
        for output in range(outputs):
            place = output * self.window.width.stride
            parity = place % STEP
            for step in range(self.steps_from(parity)):
                weight = step + (self.steps_from(0) if parity else 0)
                found.setdefault(place - parity + step * self.unit.size, []).append((output, weight))
        return dict(sorted(found.items()))


def build(call: KernelCall) -> Function:
    """Makes the kernel of a depthwise convolution whose weight is in groups."""
    kernel_h = static_shape(call, call.operands[1], 5, WEIGHT)[1]
    window = window_of(call, (kernel_h, int(call.attrs.kernel_size[-1])))
    plan = _plan(call, window)
    row_blocks, rows = window.height.blocks(plan.row_block)
    extents = {**window.images, "block": E.const(window.out_blocks), "row_block": row_blocks}
    short = _short_plan(call, window)

    def task(index: Expr) -> Stmt:
        lets, (image, number, block, row_block) = loops.bound_indices(index, extents)

        def code(plan: BytesPlan) -> Stmt:
            return _Task(plan, (image, number), block, row_block * rows, rows).statement()

        if short is None:
            return seq(lets, code(plan))
        known = short.window.width
        is_short = E.logical_and(window.width.positions.eq(known.out), window.width.data.eq(known.extent))
        return seq(lets, loops.guard(is_short, code(short), code(plan)))

    work = plan.row_block * window.width.out * window.block * window.height.kernel * plan.steps
    return call.function(loops.parallel(loops.product(list(extents.values())), work * MEMORY_FACTOR, task))


def _short_plan(call: KernelCall, window: BlockedWindow) -> BytesPlan | None:
    """That of short rows, which have code of their own where their length is known at run time only."""
    axis = window.width
    before = loops.static(axis.pad)
    if axis.is_known or before is None:
        return None
    extent = SHORT * axis.stride
    padded = before > 0 or axis.span(SHORT) - before > extent
    known = replace(axis, extent=extent, out=SHORT, before=before, positions=E.const(SHORT), data=E.const(extent), padded=padded)
    return _plan(call, replace(window, width=known))


def _plan(call: KernelCall, window: BlockedWindow) -> BytesPlan:
    _, _, steps, block, group = static_shape(call, call.operands[1], 5, WEIGHT)
    if not block == window.block == window.out_block or window.width.dilation != 1:
        raise CompileError(f"{call.name}: channel blocks of data, weight and result are {window.block}, {block} and "
                           f"{window.out_block}, dilation along rows {window.width.dilation}; expected equal blocks and 1")
    wanted = -(-TASKS_PER_CORE * call.target.num_cores // (window.image_count * window.out_blocks))
    row_block = -(-window.height.out // min(wanted, window.height.out))
    unit = Group.of("int8", group, "int32")
    width = 8 if call.target.vector_registers >= 32 else 6
    if window.width.is_known:
        width = min(window.width.out, width)
    rows, ring = window.height.span(row_block), loops.next_power_of_two(window.height.reach)
    plan = BytesPlan(
        window=window, unit=unit, steps=steps, pad_value=int(call.attrs.pad_value), row_block=row_block, strip=window.width.out,
        width=width, slots=rows, target=call.target)
    cache = call.target.l1_cache
    slots = ring if rows > ring and rows * plan.row_bytes(window.width.out) > cache // 2 else rows
    strip = window.width.out if window.width.is_known else loops.round_up(window.width.out, width)
    while strip > 2 * width and slots * plan.row_bytes(strip) > cache:
        strip = loops.round_up(-(-strip // 2), width)
    return replace(plan, strip=strip, slots=slots)


class _Task:
    """Statements of one task: rows of one channel block."""

    def __init__(self, plan: BytesPlan, image: Image, block: Expr, first_row: Expr, rows: Expr) -> None:
        self.plan = plan
        self.window = plan.window
        self.image = image
        self.block = block
        self.source = plan.window.source(image, block)
        self.first_row = first_row
        self.rows = E.binary("min", rows, self.window.height.positions - first_row)
        self.row_size = plan.groups(plan.strip) * plan.size
        self.patch = loops.local("patch", plan.unit.copied, plan.slots * self.row_size)
        self.weights = loops.local("weights", FOUR_BYTES.word, plan.window.height.kernel * plan.steps_in_row, plan.window.block)

    def statement(self) -> Stmt:
        rows = loops.serial("tap_row", self.window.height.kernel, self._weight_row)
        if self.window.height.kernel <= MAX_ROWS:
            rows = loops.unroll("tap_row", self.window.height.kernel, self._weight_row)
        axis, plan = self.window.width, self.plan

        def is_inside(begin: int) -> bool:
            """Whether all positions under the strip from output ``begin`` are on data."""
            first = begin * axis.stride - axis.before
            return first >= 0 and first + (plan.groups(plan.strip) - 1) * STEP + plan.unit.size <= axis.extent

        strips = known_tiles("strip", axis.out, plan.strip, is_inside, self._strip) if axis.is_known else self._any_strips()
        return seq(Allocate(self.patch), Allocate(self.weights), rows, strips)

    def _weight_row(self, tap: Expr) -> Stmt:
        """Weights of a row of taps, of which those of odd places are those of even ones after a zero."""
        plan, parts = self.plan, list[Stmt]()
        window, lanes = self.window, self.window.block
        first = (self.block * window.height.kernel + tap) * plan.steps
        packed = (plan.unit.weights(window.weight.memory, (first + step) * plan.size, lanes) for step in range(plan.steps))
        even = [loops.bound(E.call("reinterpret", w, dtype=FOUR_BYTES.word, lanes=lanes), parts, "w") for w in packed]
        bits = 32 // plan.unit.size
        for place in range(plan.steps_in_row):
            step = place - plan.steps_from(0)
            value = even[place] if step < 0 else E.const(0, FOUR_BYTES.word, lanes)
            if 0 <= step < plan.steps:
                value = E.binary("shl", even[step], bits)
            if step > 0:
                value = E.binary("or", value, E.binary("shr", even[step - 1], 32 - bits))
            parts.append(store(self.weights, tap * plan.steps_in_row + place, value))
        return seq(parts)

    def _any_strips(self) -> Stmt:
        """Strips of rows whose length is known at run time only."""
        plan, axis = self.plan, self.window.width
        count, size = axis.blocks(plan.strip, plan.width)

        def strip(number: Expr) -> Stmt:
            lets = list[Stmt]()
            first = loops.bound(number * size, lets, "first")
            outputs = loops.bound(axis.rest(size, first), lets, "outputs")
            return seq(lets, self._strip(first, outputs))

        return loops.serial("strip", count, strip)

    def _strip(self, first: Expr, outputs: int | Expr) -> Stmt:
        """All rows of ``outputs`` from column ``first``, which is a constant at borders of rows of known length."""
        height, copies = self.window.height, _Copies(self, first, outputs)
        overlap = max(0, height.reach - height.stride)

        def row(number: Expr) -> Stmt:
            start = E.select(number.eq(0), E.const(0), number * height.stride + overlap)
            count = number * height.stride + height.reach - start
            copied = loops.serial("copied_row", count, lambda k: self._copy_row(copies, k), start)
            lets, bases = list[Stmt](), list[Expr]()
            if height.kernel <= MAX_ROWS:
                bases = [loops.bound(self._place(number, E.const(tap)), lets, "base") for tap in range(height.kernel)]
            return seq(copied, lets, self._tiles(number, bases, first, outputs))

        return loops.serial("row", self.rows, row)

    def _copy_row(self, copies: _Copies, number: Expr) -> Stmt:
        """Row ``number`` of those under the task."""
        height, parts = self.window.height, list[Stmt]()
        base = loops.bound(self._slot(number), parts, "slot")
        h = loops.bound(height.start(self.first_row) + number, parts, "h")
        inside = height.holds(h) if height.padded else E.const(True, "bool")
        return seq(parts, loops.guard(inside, copies.data(base, h), copies.padding(base)))

    def _slot(self, number: Expr) -> Expr:
        """Where row ``number`` of those under the task begins in the copies."""
        is_ring = self.plan.slots < self.window.height.span(self.plan.row_block)
        return (number % self.plan.slots if is_ring else number) * self.row_size

    def _place(self, row: Expr, tap: Expr) -> Expr:
        height = self.window.height
        return self._slot(row * height.stride + tap * height.dilation)

    def _tiles(self, row: Expr, bases: list[Expr], first: Expr, outputs: int | Expr) -> Stmt:
        """The outputs of one row; tiles have an even number of them, so that each begins at a group."""
        width = self.plan.width
        tile = partial(self._tile, row, bases, first)
        if isinstance(outputs, Expr):
            return self._any_tiles(outputs, tile)
        if width < outputs:
            width -= width % STEP
        return known_tiles("tile", outputs, width, lambda _: True, tile)

    def _any_tiles(self, outputs: Expr, tile: Callable[..., Stmt]) -> Stmt:
        """Wide tiles, then narrow ones. The last one begins so early that at most its last output is one too many."""
        width, parts = self.plan.width, list[Stmt]()
        wide = loops.bound(outputs // width, parts, "wide")
        last = loops.bound((outputs - (NARROW - STEP + 1)) // STEP * STEP, parts, "last")

        def narrow(number: Expr) -> Stmt:
            lets, begin = loops.bind("begin", E.binary("min", wide * width + number * NARROW, last))
            return seq(lets, tile(begin, NARROW, outputs, NARROW - STEP + 1))

        parts += [loops.serial("tile", wide, lambda i: tile(i * width, width)),
                  loops.serial("rest", loops.ceildiv(outputs - wide * width, NARROW), narrow)]
        return loops.guard(outputs >= NARROW, seq(parts), tile(E.const(0), NARROW, outputs))

    def _tile(
        self, row: Expr, bases: list[Expr], first: Expr, begin: Expr, count: int, limit: Expr | None = None, sure: int = 0,
    ) -> Stmt:
        """``count`` outputs from ``begin`` of a strip; those from ``limit`` on are not written, but the ``sure`` first."""
        plan = self.plan
        acc = Accumulators(RegisterTile(count, 1, self.window.block, "int32"))
        start = begin * plan.window.width.stride // STEP * plan.size
        if bases:
            sums = seq(self._tap_row(acc, E.const(tap), base + start) for tap, base in enumerate(bases))
        else:
            sums = loops.serial("tap_row", self.window.height.kernel,
                                lambda tap: self._tap_row(acc, tap, self._place(row, tap) + start))

        def write(position: Expr) -> Stmt:
            written = self.window.write(self.image, self.block, self.first_row + row, first + begin + position,
                                        E.ramp(0, 1, self.window.block), acc.get(position, 0))
            return written if limit is None else loops.guard(position < E.binary("max", limit - begin, sure), written)

        return seq(acc.allocate(), acc.clear(), sums, acc.each(lambda position, _: write(position)))

    def _tap_row(self, acc: Accumulators, tap: Expr, base: Expr) -> Stmt:
        """One row of taps: each group of positions once."""
        plan, parts, micro = self.plan, list[Stmt](), micro_kernel(self.plan.unit, self.plan.target)
        for place, meeting in plan.meeting(acc.tile.rows).items():
            data = loops.bound(plan.unit.words(self.patch, base + place // STEP * plan.size, self.window.block), parts, "x")
            for output, number in meeting:
                weight = plan.unit.factor(E.load(self.weights, tap * plan.steps_in_row + number))
                parts.append(acc.set(output, 0, micro.multiply_add(data, weight, acc.get(output, 0))))
        return seq(parts)


class _Copies:
    """What copies the groups of a row under ``outputs`` outputs from ``first`` on.

    Of rows of known length, both are numbers where groups may reach outside of data.
    """

    def __init__(self, task: _Task, first: Expr, outputs: int | Expr) -> None:
        self.task = task
        self.plan = plan = task.plan
        self.data_in = task.window.data
        self.axis = axis = task.window.width
        self.start = axis.start(first)
        self.outputs = outputs
        self.groups: Expr = E.const(plan.groups(plan.strip if isinstance(outputs, Expr) else outputs))
        if isinstance(outputs, Expr):
            reach = (max(plan.steps_from(0), plan.steps_from(1)) - 1) * plan.unit.size
            self.groups = E.binary("min", self.groups, ((outputs - 1) * axis.stride + reach) // STEP + 1)

    def data(self, base: Expr, h: Expr) -> Stmt:
        """Row ``h`` of the data, and padding on both sides of it."""
        return self._any_data(base, h) if isinstance(self.outputs, Expr) else self._known_data(base, h)

    def padding(self, base: Expr) -> Stmt:
        """A row outside of data."""
        return loops.unroll_by("k", self.groups, COPIES, lambda k: self._store(base, k, self._pads()))

    def _read(self, h: Expr, place: Expr) -> Expr:
        """A group's positions from ``place`` on; those past the end of a row are those before it."""
        task, size, block = self.task, self.plan.unit.size, self.task.window.block
        extent = self.axis.extent if self.axis.is_known else size  # the caller asked
        buffer = self.data_in.buffer
        if buffer is not None and extent >= size:
            return E.load(buffer, E.ramp(buffer.offset(*task.source, h, place, 0), 1, size * block))
        places = [place + k if extent >= size else E.const(min(k, extent - 1)) for k in range(size)]
        parts = [self.data_in.read([*task.source, h, w, E.ramp(0, 1, block)]) for w in places]
        while len(parts) > 1:
            parts = [_shuffled(a, b, range(2 * a.lanes)) for a, b in zip(parts[::2], parts[1::2])]
        return parts[0]

    def _grouped(self, values: Expr, sources: Sequence[int | None] = ()) -> Expr:
        """Positions of all channels as channels of all positions.

        ``sources`` says which position is in which place, if not each in its own, None: padding.
        """
        block, size = self.task.window.block, self.plan.unit.size
        order = [values.lanes if k is None else k * block + c for c in range(block) for k in sources or range(size)]
        return _shuffled(values, E.const(self.plan.pad_value, values.dtype, values.lanes) if sources else values, order)

    def _pads(self) -> Expr:
        return E.const(self.plan.pad_value, self.data_in.dtype, self.plan.size)

    def _store(self, base: Expr, number: Expr, values: Expr) -> Stmt:
        place = E.ramp(base + number * self.plan.size, 1, self.plan.size)
        return store(self.task.patch, place, E.cast(values, self.plan.unit.copied))

    def _known_data(self, base: Expr, h: Expr) -> Stmt:
        """Of rows of known length, groups that reach outside of data are written out."""
        count, first = loops.known(self.groups, "groups of a row"), loops.static(self.start)
        inside = range(count)
        if first is not None:
            on_data = [k for k in inside if 0 <= first + k * STEP <= self.axis.extent - self.plan.unit.size]
            inside = range(on_data[0], on_data[-1] + 1) if on_data else range(0)

        def inner(k: Expr) -> Stmt:
            place = self.start + (k + inside.start) * STEP
            return self._store(base, k + inside.start, self._grouped(self._read(h, place)))

        copied = loops.unroll_by("k", len(inside), COPIES, inner) if inside else seq()
        return seq(copied, (self._border(base, h, k) for k in range(count) if k not in inside))

    def _border(self, base: Expr, h: Expr, number: int) -> Stmt:
        """A group with positions outside of data."""
        extent, size = self.axis.extent, self.plan.unit.size
        begin = loops.known(self.start, "the first column at a border") + number * STEP
        held = min(max(begin, 0), max(0, extent - size))
        sources = [place - held if 0 <= place < extent else None for place in range(begin, begin + size)]
        if sources == [None] * size:
            return self._store(base, E.const(number), self._pads())
        return self._store(base, E.const(number), self._grouped(self._read(h, E.const(held)), sources))

    def _any_data(self, base: Expr, h: Expr) -> Stmt:
        """Of rows whose length is known at run time only, groups that reach outside of data are in loops."""
        axis, count, parts = self.axis, self.groups, list[Stmt]()
        start = loops.bound(self.start, parts, "start")
        # Groups from ``low`` to ``high`` have all of their positions on data.
        inside = loops.ceildiv(E.const(0) - start, STEP) if axis.padded else E.const(0)
        low = loops.bound(clamp(inside, E.const(0), count), parts, "low")
        high = loops.bound(clamp((axis.data - start - self.plan.unit.size) // STEP + 1, low, count), parts, "high")

        def inner(k: Expr) -> Stmt:
            return self._store(base, low + k, self._grouped(self._read(h, start + (low + k) * STEP)))

        def border(k: Expr) -> Stmt:
            return self._any_border(base, h, k, start + k * STEP)

        return seq(parts, loops.serial("k", low, border), loops.unroll_by("k", high - low, COPIES, inner),
                   loops.serial("k", count - high, border, high))

    def _any_border(self, base: Expr, h: Expr, number: Expr, place: Expr) -> Stmt:
        """A group of which any position may be outside of data."""
        task, size, block = self.task, self.plan.unit.size, self.task.window.block
        if self.data_in.buffer is not None and loops.supports_masks(self.plan.target, {dtypes.itemsize(self.data_in.dtype)}):
            return self._store(base, number, self._grouped(self._masked(h, place)))
        border = loops.local("border", self.data_in.dtype, size * block)

        def position(k: Expr) -> Stmt:
            at = E.ramp(k * block, 1, block)
            value = self.data_in.read([*task.source, h, place + k, E.ramp(0, 1, block)])
            outside = E.const(self.plan.pad_value, value.dtype, block)
            return loops.guard(self.axis.holds(place + k), store(border, at, value), store(border, at, outside))

        filled = loops.serial("position", size, position)
        values = E.load(border, E.ramp(0, 1, size * block))
        return seq(Allocate(border), filled, self._store(base, number, self._grouped(values)))

    def _masked(self, h: Expr, place: Expr) -> Expr:
        """A group's positions from ``place`` on, of which those outside of data, which are not read, are padding."""
        buffer, block, lanes = self.data_in.buffer, self.task.window.block, self.plan.size
        assert buffer is not None

        def before(end: Expr) -> Expr:
            """The lanes of positions before ``end``."""
            count = E.cast(clamp((end - place) * block, E.const(0), E.const(lanes)), "int8")
            return E.ramp(E.const(0, "int8"), E.const(1, "int8"), lanes) < E.broadcast(count, lanes)

        on_data = E.logical_and(before(self.axis.data), E.logical_not(before(E.const(0))))
        offset = buffer.offset(*self.task.source, h, place, 0)
        return E.select(on_data, E.load(buffer, E.ramp(offset, 1, lanes), on_data), self._pads())


def _shuffled(a: Expr, b: Expr, order: list[int] | range) -> Expr:
    return E.call("shuffle", a, b, *(E.const(k) for k in order), lanes=len(order))
