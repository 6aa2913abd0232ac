"""A recurrent layer, and one of its directions for a block of batch rows: sizes, local memory, what is read and written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from forge import dtypes, loops
from forge.errors import CompileError
from forge.kernels.cpu.activations import activate
from forge.kernels.cpu.gemm import Rows
from forge.kernels.cpu.micro import COLUMNS, MIN_WORDS, OuterProduct, TileProduct, micro_kernel, step_words
from forge.kernels.cpu.rnn_tiles import GroupTiles, PanelTiles, RegisterTiles, Sample, Tiles, weight_rows
from forge.kernels.cpu.tiles import STACK_LIMIT
from forge.loops import Loop, Vectorizer
from forge.loops.contract import KernelCall, Reader, Writer
from forge.loops.dots import Group
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import TILE_ROWS, Allocate, If, Let, Stmt, loop, seq, store

# The products of the input take at most this many bytes of stack.
INPUT_BYTES: Final = 1 << 18

# Several threads share the recurrent products of a step, which take at least this many multiply-adds of vectors, where
# directions and blocks of rows leave threads idle: each then finds its share of the weights in its own cache at every step.
SHARED_WORK: Final = 8192
SHARES: Final = 16

MAX_STEPS = 16
MAX_BATCH = 4

# States that are multiplied by codes, and are none, become whole numbers of this many bits.
BITS: Final = 24


@dataclass(frozen=True, eq=False)
class Units:
    """``lanes`` hidden units from ``at`` on, of row ``row`` of a block of batch rows."""

    row: int
    at: Expr
    lanes: int
    mask: Expr | None


@dataclass(frozen=True, eq=False)
class Span:
    """Batch rows that are computed together at each step: ``count`` from ``first`` on, ``size`` at most.

    ``blocks`` is a loop over blocks of rows, whose code is written out; None: they are one block.
    """

    first: Expr
    count: Expr
    size: int
    blocks: Loop | None = None


class Layer:
    """A recurrent layer. ``gates``: rows of weights per hidden unit; ``functions``: activations per direction.

    ``cell``: a step of a direction, of the step's number and its number within the chunk. ``batch``: its extent in this layer,
    where that is known only here.
    """

    def __init__(self, call: KernelCall, gates: int, functions: int, cell: Callable[[Direction, Expr, Expr], Stmt],
                 batch: int | None = None) -> None:
        self.call, self.attrs, self.target = call, call.attrs, call.target
        self.gates, self.functions, self.cell = gates, functions, cell
        self._locals: dict[tuple[str, str, int], Buffer] = {}
        x, self.w, r, self.bias, self.lengths, self.h0 = map(call.operand, range(6))
        more = 8 if call.operator == "nn.lstm" else 6
        self.c0, self.peephole = (call.operand(k) if k < more else None for k in (6, 7))
        w_scale, _, self.r_scale, self.r_zero, self.r_sums = map(call.operand, range(more, more + 5))
        if x is None or r is None or w_scale is not None:
            raise CompileError("kernel rnn: x and r are operands that must be there, and codes of w none of it")
        self.x, self.r = x, r
        self.directions = loops.known(self.r.shape[0], "rnn: the number of directions")
        self.packed, self.narrow = len(r.shape) > 3, self.r.dtype == "bfloat16"
        self.dynamic = bool(getattr(self.attrs, "dynamic_quantization", False))
        self.hidden = self._hidden()
        self.rows = gates * self.hidden
        self.batch_first = bool(getattr(self.attrs, "layout", 0))
        self.steps, extent = (self.x.shape[1], self.x.shape[0]) if self.batch_first else (self.x.shape[0], self.x.shape[1])
        self.batch = extent if batch is None else E.const(batch)
        self.dtype = "float64" if self.x.dtype == "float64" else "float32"
        self.lanes = self.target.lanes(self.dtype)
        sizes = {dtypes.itemsize(o.dtype) for o in call.operands if o is not None and not (self.packed and o is r)}
        self.masked = loops.supports_masks(self.target, sizes)
        # Groups of bfloat16 are multiplied where the depth is whole vectors of them.
        whole = self.hidden // self.lanes if self.hidden % self.lanes == 0 else 1
        weight = self.r.dtype if self.narrow else self.dtype
        self.rows_group = Group.chosen(self.target, weight, weight, E.const(whole), self.dtype)
        known = loops.static(self.batch)
        # Batch rows that are computed together: 1, 2 or 4.
        self.block = min(MAX_BATCH if known is None or known >= 3 else max(1, known), self.lanes)

    def _hidden(self) -> int:
        if not self.packed:
            return loops.known(self.r.shape[2], "rnn: the hidden size")
        if self.r_scale is None and not self.narrow:
            raise CompileError("kernel rnn: packed weights without scales")
        return loops.known(self.x.shape[2], "rnn: the products of the input") // (self.directions * self.gates)

    @property
    def depth(self) -> int:
        """Numbers of a state that weights are multiplied by, with those that are 0."""
        return loops.known(self.r.shape[2], "rnn: packed weights") * self.group.size if self.packed else self.hidden

    @property
    def is_fixed(self) -> bool:
        """Whether states are multiplied as whole numbers of ``BITS`` bits."""
        return self.packed and self.group.size > 1 and not self.dynamic and not self.narrow

    @property
    def plane_bits(self) -> int:
        """Bits of the parts in which whole numbers are multiplied."""
        return 8 if self.group.size == 4 else 12

    @property
    def planes(self) -> int:
        """Vectors that stand for a state in products."""
        return BITS // self.plane_bits if self.is_fixed else 1

    @cached_property
    def micro(self) -> OuterProduct:
        """The micro-kernel of packed weights: in tile registers where there may be enough rows, and sums are long enough."""
        steps, panel = (loops.known(extent, "rnn: packed weights") for extent in self.r.shape[2:4])
        known, words = loops.static(self.batch), step_words(steps)
        fits = panel % COLUMNS == 0 and words >= MIN_WORDS and (known is None or known >= self.least_rows)
        micro = micro_kernel(self.group, self.target, tiles=fits)
        return replace(micro, words=words) if isinstance(micro, TileProduct) else micro

    @property
    def in_tiles(self) -> bool:
        """Whether tile registers multiply the states."""
        return self.packed and self.micro.in_tiles

    @property
    def dots(self) -> float:
        """Dot products of vectors of groups that start in a cycle."""
        return self.target.costs.bfloat16_dots if self.narrow else self.target.costs.byte_dots

    @property
    def least_rows(self) -> int:
        """Rows from which on dot products of vectors take longer than to load the weights, which bounds few rows in tiles."""
        return 1 + max(1, int(self.dots / self.target.costs.loads))

    def spans(self) -> tuple[Loop, Span]:
        """Makes a loop over the rows of the batch that are computed together: a block, or in tile registers several.

        Those are fewer where cores would have none, unless all rows are rounded together.
        """
        if not self.in_tiles:
            over, first, _ = loops.blocks(self.batch, self.block)
            return over, Span(first, E.const(self.block), self.block)
        row_bytes = 4 * (self.planes * self.gates * self.gate_width + 3 * loops.round_up(self.depth, self.lanes))
        most = max(1, min(2 * TILE_ROWS, STACK_LIMIT // row_bytes) // self.block)
        tasks = 1 if self.dynamic else max(1, self.target.num_cores // self.directions)
        share = E.binary("max", loops.ceildiv(self.batch, self.block * tasks), E.const(1))
        size = E.binary("min", share, E.const(most)) * self.block
        over, first, count = loops.blocks(self.batch, size)
        if E.is_const(self.batch % size, 0):
            count = size
        blocks = Loop(E.var("block"), loops.ceildiv(count, self.block))
        return over, Span(first, count, loops.static(size) or most * self.block, blocks)

    def local(self, name: str, dtype: str, size: int) -> Buffer:
        """Makes local memory, which directions share: a task works off one of them, or one after the other."""
        return self._locals.setdefault((name, dtype, size), loops.local(name, dtype, size))

    @property
    def gate_width(self) -> int:
        """Products of one gate lie so far from those of the next."""
        return loops.round_up(self.hidden, loops.known(self.r.shape[3], "rnn: a panel")) if self.packed else self.hidden

    @property
    def group(self) -> Group:
        """The order in which packed weights, and what they are multiplied by, lie together."""
        size = loops.known(self.r.shape[4], "rnn: a group")
        return Group.of(self.r.dtype, size, self.dtype)

    def activation(self, direction: int, function: int, x: Expr, clipped: bool) -> Expr:
        """Applies activation number ``function`` of a direction to ``x``, clipped or not."""
        place = direction * self.functions + function
        clip = getattr(self.attrs, "clip", None)
        if clip and clipped:
            x = E.binary("max", E.binary("min", x, E.const(clip, x.dtype, x.lanes)), E.const(-clip, x.dtype, x.lanes))
        return activate(self.attrs.activations[place], x, self.attrs.activation_alpha[place], self.attrs.activation_beta[place])


class Direction:
    """All steps of one direction for the batch rows of a span. Local buffers hold one row for each of them.

    ``first`` is the first row of a block, in the batch, and ``inner`` in the span.
    """

    def __init__(self, layer: Layer, direction: int, span: Span) -> None:
        self.layer, self.direction, self.span = layer, direction, span
        self.inner = E.const(0) if span.blocks is None else span.blocks.var * layer.block
        self.first = first = span.first + self.inner
        self.padded = loops.round_up(max(layer.hidden, layer.depth), layer.lanes)
        self.width = loops.round_up(layer.rows, layer.lanes) + layer.lanes
        room = INPUT_BYTES // (self.width * layer.block * dtypes.itemsize(layer.dtype))
        self.chunk = max(1, min(MAX_STEPS, room))
        self.inside = [E.compare("lt", first + m, layer.batch) for m in range(layer.block)]
        self.rows = [E.var(f"b{m}") for m in range(layer.block)]
        self.lengths = [E.var(f"length{m}") for m in range(layer.block)]
        size = span.size * self.padded
        self.state, self.cell = layer.local("h", layer.dtype, size), layer.local("c", layer.dtype, size)
        self.rounded = layer.local("rounded", "bfloat16", size)
        self.sums_width = layer.gates * layer.gate_width if layer.packed else self.width
        self.products = layer.local("z", "int32" if layer.dynamic else layer.dtype, self.samples * self.sums_width)
        self.inputs = layer.local("xw", layer.dtype, self.chunk * layer.block * self.width)

    @property
    def buffers(self) -> list[Buffer]:
        """Local memory."""
        layer = self.layer
        more = [*([] if layer.w is None else [self.inputs]), *([self.rounded] if layer.narrow else [])]
        return [self.state, self.cell, self.products, *more]

    @property
    def samples(self) -> int:
        """The number of vectors that are multiplied by weights."""
        return self.span.size * self.layer.planes

    def sample(self, row: int, plane: int = 0) -> Expr:
        """Returns the number of a vector that stands for the state of a row of the block."""
        return self.inner + row

    def body(self) -> Stmt:
        """Returns all steps between the first and the last states."""
        layer = self.layer
        chunk, start, count = loops.blocks(layer.steps, self.chunk)
        s = E.var("s")
        steps = loop(s, count, layer.cell(self, start + s, s))
        chunks = loops.nest([chunk], seq(self._input_products(start, count), steps))
        ends = [self.final(1, self.state), *([self.final(2, self.cell)] if len(layer.call.results) > 2 else [])]
        return seq(
            self.bind_block(),
            (Allocate(b) for b in self.buffers),
            self.each(seq(self.start(self.state, layer.h0), self.start(self.cell, layer.c0))),
            chunks,
            self.each(seq(ends)),
        )

    def bind_block(self) -> list[Stmt]:
        """Binds the rows of a span that is one block."""
        return self.bind_rows() if self.span.blocks is None else []

    def each(self, body: Stmt) -> Stmt:
        """Runs ``body`` for each block of the span."""
        return body if self.span.blocks is None else loops.nest([self.span.blocks], seq(self.bind_rows(), body))

    def bind_rows(self) -> list[Stmt]:
        """Binds each row of the batch and its number of steps."""
        lets: list[Stmt] = []
        for m, (row, length) in enumerate(zip(self.rows, self.lengths)):
            lets.append(Let(row, E.binary("min", self.first + m, self.layer.batch - 1)))
            known = self.layer.steps
            if self.layer.lengths is not None:
                known = E.binary("min", E.cast(self.layer.lengths.read((row,)), E.INDEX), known)
            lets.append(Let(length, known))
        return lets

    def time(self, row: int, step: Expr) -> Expr:
        """Returns the element of x and y that a batch row handles at ``step``."""
        if self.layer.attrs.direction != "reverse" and self.direction != 1:
            return step
        back = self.lengths[row] - 1 - step
        return E.select(E.compare("lt", step, self.lengths[row]), back, step)

    def units(self, row: int, body: Callable[[Units], Stmt]) -> Stmt:
        """Runs ``body`` over all hidden units of a batch row in vectors."""
        layer = self.layer

        def vector(at: Expr, width: int, mask: Expr | None) -> Stmt:
            return body(Units(row, at, width, mask))

        return loops.vector_loop(E.const(layer.hidden), layer.lanes, vector, 1, layer.masked)

    def read(self, reader: Reader, indices: Sequence[Expr], units: Units, offset: int = 0, dtype: str = "") -> Expr:
        """Reads ``indices`` and the units as innermost index, as ``dtype``: by default that of the states."""
        j = E.var("j")
        value = Vectorizer(j, units.at, units.lanes, units.mask).expr(reader.read((*indices, j + offset)))
        return E.broadcast(E.cast(value, dtype or self.layer.dtype), units.lanes)

    def write(self, writer: Writer, indices: Sequence[Expr], value: Expr, units: Units) -> Stmt:
        """Writes a vector of units of a result."""
        j, y = E.var("j"), E.Var(writer.dtype, 1, "y")
        statement = writer.write((*indices, j), y)
        return Vectorizer(j, units.at, units.lanes, units.mask, {y: E.cast(value, writer.dtype)}).stmt(statement)

    def state_indices(self, units: Units) -> tuple[Expr, Expr]:
        """Returns the leading indices of the units' row in states."""
        d, row = E.const(self.direction), self.rows[units.row]
        return (row, d) if self.layer.batch_first else (d, row)

    def load(self, buffer: Buffer, units: Units) -> Expr:
        """Loads the units of a state."""
        return E.load(buffer, self._place(units))

    def save(self, buffer: Buffer, units: Units, value: Expr) -> Stmt:
        """Stores the units of a state."""
        return store(buffer, self._place(units), value, units.mask)

    def _place(self, units: Units) -> Expr:
        return E.ramp(self.place(units.row) + units.at, 1, units.lanes)

    def place(self, row: int) -> Expr:
        """Returns where the state of a row of the block begins."""
        return (self.inner + row) * self.padded

    def start(self, buffer: Buffer, initial: Reader | None) -> Stmt:
        """Fills a state with its initial value; padding is 0."""
        k, lanes = E.var("k"), self.layer.lanes
        zero = E.const(0, self.layer.dtype, lanes)
        fill = loop(k, self.layer.block * self.padded // lanes, store(buffer, E.ramp(self.place(0) + k * lanes, 1, lanes), zero))
        if initial is None:
            return fill

        def load(units: Units) -> Stmt:
            return self.save(buffer, units, self.read(initial, self.state_indices(units), units))

        return seq(fill, (self.units(row, load) for row in range(self.layer.block)))

    def final(self, result: int, buffer: Buffer) -> Stmt:
        """Writes the last state to result number ``result``."""
        def save(units: Units) -> Stmt:
            writer = self.layer.call.results[result]
            return self.write(writer, self.state_indices(units), self.load(buffer, units), units)

        return seq(If(self.inside[row], self.units(row, save)) for row in range(self.layer.block))

    def _input_products(self, start: Expr, count: Expr) -> Stmt:
        """Products of x with w for ``count`` steps from ``start`` on, into ``inputs``."""
        layer = self.layer
        if layer.w is None:
            return seq()
        together = max(1, min(MAX_BATCH, layer.lanes) // layer.block)
        group = E.var("g")
        last = layer.steps - 1
        samples: list[Sample] = []
        for u in range(together):
            step = E.binary("min", start + group * together + u, last)
            samples += [Sample(self._x(m, step), (group * together + u) * layer.block + m) for m in range(layer.block)]
        weights = weight_rows(layer.w, self.direction)
        tiles = Tiles(layer, layer.w.shape[2], weights, samples, self.inputs, self.width, layer.rows)
        inner = loop(group, (count + (together - 1)) // together, tiles.tile())
        return loop(tiles.number, tiles.count, inner)

    def x_indices(self, row: int, step: Expr) -> tuple[Expr, Expr]:
        """Returns the leading indices of a row of the input at ``step``."""
        time = self.time(row, step)
        return (self.rows[row], time) if self.layer.batch_first else (time, self.rows[row])

    def _x(self, row: int, step: Expr) -> Callable[[Expr], Expr]:
        at = self.x_indices(row, step)
        if self.layer.w is not None and self.layer.w.dtype == "bfloat16":
            return lambda k: E.cast(E.cast(self.layer.x.read((*at, k)), "bfloat16"), self.layer.dtype)
        return lambda k: E.cast(self.layer.x.read((*at, k)), self.layer.dtype)

    def recurrent_products(self, state: Buffer, first: int, gates: int, step: Expr) -> Stmt:
        """Products of the recurrent weights of ``gates`` gates from number ``first`` on with ``state``, into ``products``.

        Every other step of one thread takes weights backwards that the first-level cache cannot hold: it has the last ones.
        """
        layer = self.layer
        tiles: Tiles | PanelTiles
        if layer.packed:
            kind, count = RegisterTiles if layer.in_tiles else PanelTiles, self.span.count * layer.planes
            samples = Rows(E.const(0), count, loops.static(count), self.samples)
            tiles = kind(layer, self.direction, self.group_of(state), samples, self.products, self.sums_width, (first, gates))
            together = layer.group.size * tiles.speed
        else:
            tiles, together = self._row_tiles(state, first * layer.hidden, gates * layer.hidden), layer.rows_group.size
        kept = self.prepared(state, first, gates)
        work = gates * layer.hidden * layer.hidden * self.samples // layer.lanes
        if work >= SHARED_WORK * together:
            grain = E.const(max(1, tiles.count // SHARES))
            return seq(kept, loop(tiles.number, tiles.count, tiles.tile(), "parallel", grain=grain))
        if gates * layer.hidden * layer.hidden * dtypes.itemsize(layer.r.dtype) <= layer.target.l1_cache // 2:
            return seq(kept, loop(tiles.number, tiles.count, tiles.tile()))
        turn = E.var("turn")
        number = E.select((step % 2).eq(0), turn, tiles.count - 1 - turn)
        return seq(kept, loop(turn, tiles.count, seq(Let(tiles.number, number), tiles.tile())))

    def prepared(self, state: Buffer, first: int, gates: int) -> Stmt:
        """Copies what the products of some gates take of ``state`` into local memory."""
        if not self.layer.narrow:
            return seq()
        k, lanes = E.var("k"), self.layer.lanes
        at = E.ramp(self.place(0) + k * lanes, 1, lanes)
        rounded = store(self.rounded, at, E.cast(E.load(state, at), "bfloat16"))
        return self.each(loop(k, self.layer.block * self.padded // lanes, rounded))

    def _row_tiles(self, state: Buffer, first: int, rows: int) -> Tiles:
        layer = self.layer
        samples = [Sample(self.element(self.rounded if layer.narrow else state, m), E.const(m)) for m in range(layer.block)]
        weights = weight_rows(layer.r, self.direction, first, rows, layer.r_zero)
        kind = GroupTiles if layer.rows_group.size > 1 else Tiles
        return kind(layer, E.const(layer.hidden), weights, samples, self.products, self.sums_width, rows, first)

    def group_of(self, state: Buffer) -> Callable[[Expr, Expr], Expr]:
        """Returns group k of a row of ``state``, as packed weights are multiplied by it."""
        group, buffer = self.layer.group, self.rounded if self.layer.narrow else state
        return lambda row, k: group.load(buffer, row * self.padded + k * group.size)

    def recurrent_sum(self, gate: int, units: Units) -> Expr:
        """Returns the products of the state for one gate."""
        layer = self.layer
        total = E.load(self.products, self.sums_at(gate, units))
        if layer.r_scale is None:
            return total
        return total * self.read(layer.r_scale, (E.const(self.direction),), units, gate * layer.hidden)

    def sums_at(self, gate: int, units: Units, plane: int = 0) -> Expr:
        """Returns where the products of a gate with a vector of the row's state lie."""
        row = self.sample(units.row, plane) * self.sums_width
        return E.ramp(units.at + (row + gate * self.layer.gate_width), 1, units.lanes)

    def element(self, state: Buffer, row: int) -> Callable[[Expr], Expr]:
        """Returns element k of the state of a row, as plain weights are multiplied by it."""
        return lambda k: E.load(state, self.place(row) + k)
