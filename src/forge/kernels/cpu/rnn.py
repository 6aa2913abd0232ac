"""Recurrent layers: LSTM, GRU and plain RNN with the semantics of ONNX.

Directions and blocks of batch rows run in parallel. In each, the products of the input with its weights are computed for
several steps at once, then step by step the products of the state with the recurrent weights, and the cell. Products are dot
products along the rows of the weights as they are: a tile of as many accumulators as a vector has lanes, whose lanes are
summed together at the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from forge import dtypes, loops
from forge.errors import CompileError
from forge.kernels.cpu.activations import activate
from forge.loops import Accumulators, Loop, RegisterTile, Vectorizer, pairs
from forge.loops.contract import KernelCall, Reader, Writer, kernel
from forge.schedule.transpose import lane_sums
from forge.target.blocking import dots_of_pairs
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Function, If, Let, Stmt, loop, seq, store

# The products of the input take at most this many bytes of stack.
INPUT_BYTES: Final = 1 << 18

# Several threads share the recurrent products of a step, which take at least this many multiply-adds of vectors, where
# directions and blocks of rows leave threads idle: each then finds its share of the weights in its own cache at every step.
SHARED_WORK: Final = 8192
SHARES: Final = 16

MAX_STEPS = 16
MAX_BATCH = 4


@dataclass(frozen=True, eq=False)
class Units:
    """``lanes`` hidden units from ``at`` on, of row ``row`` of a block of batch rows."""

    row: int
    at: Expr
    lanes: int
    mask: Expr | None


@kernel("rnn")
def rnn(call: KernelCall) -> Function:
    """Family of ``nn.lstm``, ``nn.gru`` and ``nn.rnn``.

    Operands: x [T, B, I], w [D, G*H, I], r [D, G*H, H], bias [D, 2*G*H]?, lengths [B]?, h0 [D, B, H]?, and for LSTM c0 [D, B,
    H]?, peephole [D, 3*H]?; G gates: i o f c, or z r h, or one. Where w is absent, x [T, B, D*G*H] holds its products
    already. With float32, w and r may be bfloat16: x and the states are rounded to it for their products. Attributes:
    direction, activations, activation_alpha, activation_beta (one entry for each function and direction), clip, layout (1:
    the batch comes first in x, y and the states), input_forget (LSTM), linear_before_reset (GRU). Results: y [T, D, B, H], h
    [D, B, H], and for LSTM c [D, B, H]. Steps from a row's length on give y = 0 and leave its state as it is.

    Raises:
        CompileError: the hidden size is symbolic.
    """
    build = _CELLS.get(call.operator)
    if build is None:
        raise CompileError(f"kernel rnn: operator {call.operator}; expected one of {', '.join(_CELLS)}")
    return _Layer(call, *build).function()


class _Layer:
    """One recurrent layer. ``gates``: rows of weights per hidden unit; ``functions``: activations per direction."""

    def __init__(self, call: KernelCall, gates: int, functions: int, cell: Callable[[_Step], Stmt]) -> None:
        self.call, self.attrs, self.target = call, call.attrs, call.target
        self.gates, self.functions, self.cell = gates, functions, cell
        x, self.w, r, self.bias, self.lengths, self.h0, self.c0, self.peephole = map(call.operand, range(8))
        if x is None or r is None:
            raise CompileError("kernel rnn: x and r are operands that must be there")
        self.x, self.r = x, r
        self.directions = loops.known(self.r.shape[0], "rnn: the number of directions")
        self.hidden = loops.known(self.r.shape[2], "rnn: the hidden size")
        self.rows = gates * self.hidden
        self.batch_first = bool(getattr(self.attrs, "layout", 0))
        self.steps, self.batch = (self.x.shape[1], self.x.shape[0]) if self.batch_first else (self.x.shape[0], self.x.shape[1])
        self.dtype = "float64" if self.x.dtype == "float64" else "float32"
        self.lanes = self.target.lanes(self.dtype)
        sizes = {dtypes.itemsize(r.dtype) for r in call.operands if r is not None}
        self.masked = loops.supports_masks(self.target, sizes)
        self.narrow = self.r.dtype == "bfloat16"
        self.paired = self.narrow and dots_of_pairs(self.target) and self.hidden % (2 * self.lanes) == 0
        batch = loops.static(self.batch)
        # Batch rows that are computed together: 1, 2 or 4.
        self.block = min(MAX_BATCH if batch is None or batch >= 3 else max(1, batch), self.lanes)

    def activation(self, direction: int, function: int, x: Expr, clipped: bool) -> Expr:
        """Activation number ``function`` of a direction, of ``x``, clipped or not."""
        place = direction * self.functions + function
        clip = getattr(self.attrs, "clip", None)
        if clip and clipped:
            x = E.binary("max", E.binary("min", x, E.const(clip, x.dtype, x.lanes)), E.const(-clip, x.dtype, x.lanes))
        return activate(self.attrs.activations[place], x, self.attrs.activation_alpha[place], self.attrs.activation_beta[place])

    def function(self) -> Function:
        blocks, first, _ = loops.blocks(self.batch, self.block)
        per_step = E.const(self.directions * self.block * self.rows * self.hidden // self.lanes)
        bodies = [_Direction(self, d, first).body() for d in range(self.directions)]
        if len(bodies) == 1:
            return self.call.function(loops.parallel_nest([blocks], bodies[0], self.steps * per_step))
        which = Loop(E.var("d"), E.const(2))
        both = If(which.var.eq(0), bodies[0], bodies[1])
        return self.call.function(loops.parallel_nest([which, blocks], both, self.steps * per_step))


class _Direction:
    """All steps of one direction for the batch rows from ``first`` on. Local buffers hold one row per batch row of the block."""

    def __init__(self, layer: _Layer, direction: int, first: Expr) -> None:
        self.layer, self.direction = layer, direction
        self.padded = loops.round_up(layer.hidden, layer.lanes)
        self.width = loops.round_up(layer.rows, layer.lanes) + layer.lanes
        room = INPUT_BYTES // (self.width * layer.block * dtypes.itemsize(layer.dtype))
        self.chunk = max(1, min(MAX_STEPS, room))
        self.inside = [E.compare("lt", first + m, layer.batch) for m in range(layer.block)]
        self.rows = [E.var(f"b{m}") for m in range(layer.block)]
        self.lengths = [E.var(f"length{m}") for m in range(layer.block)]
        self._first = first
        size = layer.block * self.padded
        self.state, self.cell = loops.local("h", layer.dtype, size), loops.local("c", layer.dtype, size)
        self.rounded = loops.local("rounded", "bfloat16", size)
        self.products = loops.local("z", layer.dtype, layer.block * self.width)
        self.inputs = loops.local("xw", layer.dtype, self.chunk * layer.block * self.width)

    def body(self) -> Stmt:
        layer = self.layer
        chunk, start, count = loops.blocks(layer.steps, self.chunk)
        s = E.var("s")
        steps = loop(s, count, layer.cell(_Step(self, start + s, s)))
        chunks = loops.nest([chunk], seq(self._input_products(start, count), steps))
        buffers = [self.state, self.cell, self.products, *([] if layer.w is None else [self.inputs])]
        if layer.narrow:
            buffers.append(self.rounded)
        ends = [self._final(1, self.state), *([self._final(2, self.cell)] if len(layer.call.results) > 2 else [])]
        return seq(
            self._bind_rows(),
            (Allocate(b) for b in buffers),
            self._start(self.state, layer.h0),
            self._start(self.cell, layer.c0),
            chunks,
            ends,
        )

    def _bind_rows(self) -> list[Stmt]:
        lets: list[Stmt] = []
        for m, (row, length) in enumerate(zip(self.rows, self.lengths)):
            lets.append(Let(row, E.binary("min", self._first + m, self.layer.batch - 1)))
            known = self.layer.steps
            if self.layer.lengths is not None:
                known = E.binary("min", E.cast(self.layer.lengths.read((row,)), E.INDEX), known)
            lets.append(Let(length, known))
        return lets

    def time(self, row: int, step: Expr) -> Expr:
        """Which element of x and y a batch row handles at ``step``."""
        if self.layer.attrs.direction != "reverse" and self.direction != 1:
            return step
        back = self.lengths[row] - 1 - step
        return E.select(E.compare("lt", step, self.lengths[row]), back, step)

    def units(self, row: int, body: Callable[[Units], Stmt]) -> Stmt:
        """``body`` over all hidden units of a batch row in vectors."""
        layer = self.layer

        def vector(at: Expr, width: int, mask: Expr | None) -> Stmt:
            return body(Units(row, at, width, mask))

        return loops.vector_loop(E.const(layer.hidden), layer.lanes, vector, 1, layer.masked)

    def read(self, reader: Reader, indices: Sequence[Expr], units: Units, offset: int = 0) -> Expr:
        """``reader`` at ``indices`` and the units as innermost index."""
        j = E.var("j")
        value = Vectorizer(j, units.at, units.lanes, units.mask).expr(reader.read((*indices, j + offset)))
        return E.broadcast(E.cast(value, self.layer.dtype), units.lanes)

    def write(self, writer: Writer, indices: Sequence[Expr], value: Expr, units: Units) -> Stmt:
        j, y = E.var("j"), E.Var(writer.dtype, 1, "y")
        statement = writer.write((*indices, j), y)
        return Vectorizer(j, units.at, units.lanes, units.mask, {y: E.cast(value, writer.dtype)}).stmt(statement)

    def state_indices(self, units: Units) -> tuple[Expr, Expr]:
        d, row = E.const(self.direction), self.rows[units.row]
        return (row, d) if self.layer.batch_first else (d, row)

    def load(self, buffer: Buffer, units: Units) -> Expr:
        """The units of a state."""
        return E.load(buffer, self._place(units))

    def save(self, buffer: Buffer, units: Units, value: Expr) -> Stmt:
        return store(buffer, self._place(units), value, units.mask)

    def _place(self, units: Units) -> Expr:
        return E.ramp(E.const(units.row * self.padded) + units.at, 1, units.lanes)

    def _start(self, buffer: Buffer, initial: Reader | None) -> Stmt:
        k, lanes = E.var("k"), self.layer.lanes
        zero = E.const(0, self.layer.dtype, lanes)
        fill = loop(k, self.layer.block * self.padded // lanes, store(buffer, E.ramp(k * lanes, 1, lanes), zero))
        if initial is None:
            return fill

        def load(units: Units) -> Stmt:
            return self.save(buffer, units, self.read(initial, self.state_indices(units), units))

        return seq(fill, (self.units(row, load) for row in range(self.layer.block)))

    def _final(self, result: int, buffer: Buffer) -> Stmt:
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
        samples: list[_Sample] = []
        for u in range(together):
            step = E.binary("min", start + group * together + u, last)
            samples += [_Sample(self._x(m, step), (group * together + u) * layer.block + m) for m in range(layer.block)]
        weights = _weight_rows(layer.w, self.direction)
        tiles = Tiles(layer, layer.w.shape[2], weights, samples, self.inputs, self.width)
        inner = loop(group, (count + (together - 1)) // together, tiles.tile())
        return loop(tiles.number, -(-layer.rows // tiles.columns), inner)

    def x_indices(self, row: int, step: Expr) -> tuple[Expr, Expr]:
        time = self.time(row, step)
        return (self.rows[row], time) if self.layer.batch_first else (time, self.rows[row])

    def _x(self, row: int, step: Expr) -> Callable[[Expr], Expr]:
        at = self.x_indices(row, step)
        if self.layer.w is not None and self.layer.w.dtype == "bfloat16":
            return lambda k: E.cast(E.cast(self.layer.x.read((*at, k)), "bfloat16"), self.layer.dtype)
        return lambda k: E.cast(self.layer.x.read((*at, k)), self.layer.dtype)

    def recurrent_products(self, state: Buffer, first: int, rows: int) -> Stmt:
        """Products of ``rows`` recurrent weights from ``first`` on with ``state``, into ``products``."""
        layer = self.layer
        source = self.rounded if layer.narrow else state
        samples = [_Sample(self._state_element(source, m), E.const(m)) for m in range(layer.block)]
        weights = _weight_rows(layer.r, self.direction, first, rows)
        kind = PairTiles if layer.paired else Tiles
        tiles = kind(layer, E.const(layer.hidden), weights, samples, self.products, self.width, first)
        count = -(-rows // tiles.columns)
        kept = [self._round(state)] if layer.narrow else []
        if rows * layer.hidden * layer.block // layer.lanes < SHARED_WORK * (2 if layer.paired else 1):
            return seq(*kept, loop(tiles.number, count, tiles.tile()))
        return seq(*kept, loop(tiles.number, count, tiles.tile(), "parallel", grain=E.const(max(1, count // SHARES))))

    def _round(self, state: Buffer) -> Stmt:
        """``state`` in bfloat16, into ``rounded``."""
        k, lanes = E.var("k"), self.layer.lanes
        at = E.ramp(k * lanes, 1, lanes)
        return loop(k, self.layer.block * self.padded // lanes, store(self.rounded, at, E.cast(E.load(state, at), "bfloat16")))

    def _state_element(self, state: Buffer, row: int) -> Callable[[Expr], Expr]:
        return lambda k: E.load(state, k + row * self.padded)


def _weight_rows(weights: Reader, direction: int, first: int = 0, rows: int | None = None) -> Callable[[Expr, Expr], Expr]:
    """Reads row n (from ``first`` on; the last one again past the end) of one direction's weights."""
    count = loops.known(weights.shape[1], "rnn: the number of gates") if rows is None else rows
    return lambda n, k: weights.read((E.const(direction), E.binary("min", n, E.const(count - 1)) + first, k))


@dataclass(frozen=True, eq=False)
class _Sample:
    """One vector to multiply with: its element k, and its row in the buffer of products."""

    read: Callable[[Expr], Expr]
    row: Expr


class Tiles:
    """Dot products of samples with consecutive rows of weights: ``out[sample.row, first + n] = sum_k weights[n, k] * sample[k]``.

    A tile has ``columns`` rows of weights, so that there are as many products as lanes; ``number`` is the loop variable over
    tiles.
    """

    def __init__(
        self,
        layer: _Layer,
        depth: Expr,
        weights: Callable[[Expr, Expr], Expr],
        samples: Sequence[_Sample],
        out: Buffer,
        width: int,
        first: int = 0,
    ) -> None:
        self.layer, self.depth, self.weights, self.samples = layer, depth, weights, samples
        self.out, self.width, self.first = out, width, first
        self.columns = layer.lanes // len(samples)
        self.number = E.var("tile")

    def tile(self) -> Stmt:
        layer = self.layer
        accumulators = Accumulators(RegisterTile(1, layer.lanes, layer.lanes, layer.dtype), "sum", layer.target)
        columns = [E.var(f"n{n}") for n in range(self.columns)]
        parts: list[Stmt] = [Let(name, self.number * self.columns + n) for n, name in enumerate(columns)]
        parts.append(accumulators.start())
        left_over = self._multiply(accumulators, columns, parts)
        total = lane_sums([accumulators.get(0, k) for k in range(layer.lanes)], parts)
        if left_over is not None:
            total = total + E.load(left_over, E.ramp(0, 1, layer.lanes))
        return seq(parts, self._save(total))

    def _multiply(self, accumulators: Accumulators, columns: Sequence[Expr], parts: list[Stmt]) -> Buffer | None:
        """Appends the loop over the depth to ``parts``; returns the sums of what is left over after its vectors, if any."""
        layer = self.layer
        depth = loops.static(self.depth)
        exact = layer.masked or depth is not None and depth % layer.lanes == 0
        left_over = loops.local("rest", layer.dtype, layer.lanes)

        def step(at: Expr, lanes: int, mask: Expr | None, count: int) -> Stmt:
            lets, products = self._products(columns, at, lanes, mask)
            if lanes == layer.lanes:
                return seq(lets, (accumulators.step(k, p, mask) for k, p in enumerate(products)))
            return seq(lets, (store(left_over, k, E.load(left_over, k) + p) for k, p in enumerate(products)))

        if not exact:
            zero = E.const(0, layer.dtype)
            parts += [Allocate(left_over), *(store(left_over, k, zero) for k in range(layer.lanes))]
        parts.append(loops.group_loop(self.depth, layer.lanes, step, 1, layer.masked))
        return None if exact else left_over

    def _products(self, columns: Sequence[Expr], at: Expr, lanes: int, mask: Expr | None) -> tuple[list[Stmt], list[Expr]]:
        k = E.var("k")
        vector = Vectorizer(k, at, lanes, mask)
        lets: list[Stmt] = []

        def bound(x: Expr, name: str) -> Expr:
            return loops.bound(E.broadcast(E.cast(vector.expr(x), self.layer.dtype), lanes), lets, name)

        samples = [bound(sample.read(k), "x") for sample in self.samples]
        weights = [bound(self.weights(n, k), "w") for n in columns]
        return lets, [w * x for x, w in itertools.product(samples, weights)]

    def _save(self, total: Expr) -> list[Stmt]:
        """Lanes of one sample lie together."""
        name = E.Var(self.layer.dtype, self.layer.lanes, "total")
        parts: list[Stmt] = [Let(name, total)]
        for m, sample in enumerate(self.samples):
            order = [E.const(m * self.columns + n) for n in range(self.columns)]
            value = name if len(self.samples) == 1 else E.call("shuffle", name, name, *order, lanes=self.columns)
            start = sample.row * self.width + self.number * self.columns + self.first
            parts.append(store(self.out, E.ramp(start, 1, self.columns), value))
        return parts


class PairTiles(Tiles):
    """Tiles of bfloat16, whose products are added in pairs; the depth is whole vectors of pairs."""

    def _multiply(self, accumulators: Accumulators, columns: Sequence[Expr], parts: list[Stmt]) -> None:
        layer = self.layer
        at, k = E.var("k"), E.var("element")
        lets: list[Stmt] = []

        def bound(x: Expr, name: str) -> Expr:
            vector = Vectorizer(k, at * (2 * layer.lanes), 2 * layer.lanes, None).expr(x)
            pair = E.call("reinterpret", E.cast(vector, "bfloat16"), dtype=pairs.PAIR, lanes=layer.lanes)
            return loops.bound(pair, lets, name)

        samples = [bound(sample.read(k), "x") for sample in self.samples]
        weights = [bound(self.weights(n, k), "w") for n in columns]
        added = [
            accumulators.set(0, slot, loops.multiply_add(w, x, accumulators.get(0, slot)))
            for slot, (x, w) in enumerate(itertools.product(samples, weights))
        ]
        parts.append(loop(at, layer.hidden // (2 * layer.lanes), seq(lets, added)))


class _Step:
    """One step of one direction: ``local`` is its number within the chunk."""

    def __init__(self, direction: _Direction, step: Expr, local: Expr) -> None:
        self.direction, self.layer, self.step, self._local = direction, direction.layer, step, local

    def each(self, body: Callable[[Units], Stmt], results: bool = True) -> Stmt:
        """``body`` for every batch row and vector of units.

        Rows past their length get y = 0 (where ``results``) and keep their state.
        """
        d = self.direction
        parts: list[Stmt] = []
        for row in range(self.layer.block):
            work = d.units(row, body)
            if self.layer.lengths is not None:
                past = d.units(row, self._write_zero) if results else None
                work = If(E.compare("lt", self.step, d.lengths[row]), work, past)
            parts.append(If(d.inside[row], work))
        return seq(parts)

    def _write_zero(self, units: Units) -> Stmt:
        return self._write(units, E.const(0, self.layer.dtype, units.lanes))

    def _bias(self, gate: int, units: Units, recurrent: bool) -> Expr | None:
        if self.layer.bias is None:
            return None
        offset = gate * self.layer.hidden + (self.layer.rows if recurrent else 0)
        return self.direction.read(self.layer.bias, (E.const(self.direction.direction),), units, offset)

    def gate(self, gate: int, units: Units) -> Expr:
        """What a gate is the activation of: the products of input and state, with their biases."""
        return self.input(gate, units) + self.recurrent(gate, units)

    def input(self, gate: int, units: Units) -> Expr:
        """The product of the input for one gate, with its bias."""
        d, layer = self.direction, self.layer
        offset = gate * layer.hidden
        if layer.w is None:
            value = d.read(layer.x, d.x_indices(units.row, self.step), units, d.direction * layer.rows + offset)
        else:
            row = self._local * layer.block + units.row
            value = E.load(d.inputs, E.ramp(row * d.width + units.at + offset, 1, units.lanes))
        return _plus(value, self._bias(gate, units, recurrent=False))

    def recurrent(self, gate: int, units: Units) -> Expr:
        """The product of the state for one gate, with its bias."""
        index = units.at + (units.row * self.direction.width + gate * self.layer.hidden)
        return _plus(E.load(self.direction.products, E.ramp(index, 1, units.lanes)), self._bias(gate, units, recurrent=True))

    def activation(self, function: int, x: Expr, clipped: bool = True) -> Expr:
        return self.layer.activation(self.direction.direction, function, x, clipped)

    def finish(self, units: Units, h: Expr) -> Stmt:
        """The new state is the result of the step, too."""
        return seq(self.direction.save(self.direction.state, units, h), self._write(units, h))

    def _write(self, units: Units, value: Expr) -> Stmt:
        d = self.direction
        number, time, row = E.const(d.direction), d.time(units.row, self.step), d.rows[units.row]
        indices = (row, time, number) if self.layer.batch_first else (time, number, row)
        return d.write(self.layer.call.results[0], indices, value, units)

    def peephole(self, gate: int, units: Units, cell: Expr) -> Expr | None:
        """Gates are numbered i, o, f."""
        if self.layer.peephole is None:
            return None
        at = (E.const(self.direction.direction),)
        return self.direction.read(self.layer.peephole, at, units, gate * self.layer.hidden) * cell


def _plus(a: Expr, b: Expr | None) -> Expr:
    return a if b is None else a + b


def _lstm(step: _Step) -> Stmt:
    """``C = f * C + i * g(x_c)``, ``H = o * h(C)``."""
    d = step.direction

    def cell(u: Units) -> Stmt:
        lets: list[Stmt] = []
        old = loops.bound(d.load(d.cell, u), lets, "c")
        z = [step.gate(g, u) for g in range(4)]
        i = loops.bound(step.activation(0, _plus(z[0], step.peephole(0, u, old))), lets, "i")
        if getattr(step.layer.attrs, "input_forget", False):
            f = loops.bound(E.const(1.0, i.dtype, i.lanes) - i, lets, "f")
        else:
            f = loops.bound(step.activation(0, _plus(z[2], step.peephole(2, u, old))), lets, "f")
        new = loops.bound(f * old + i * step.activation(1, z[3]), lets, "cell")
        o = step.activation(0, _plus(z[1], step.peephole(1, u, new)))
        h = loops.bound(o * step.activation(2, new, clipped=False), lets, "h")
        return seq(lets, d.save(d.cell, u, new), step.finish(u, h))

    return seq(d.recurrent_products(d.state, 0, step.layer.rows), step.each(cell))


def _gru(step: _Step) -> Stmt:
    """``H = (1 - z) * g(...) + z * H``."""
    d, hidden = step.direction, step.layer.hidden

    def reset(u: Units) -> Expr:
        return step.activation(0, step.gate(1, u))

    if getattr(step.layer.attrs, "linear_before_reset", False):
        products = d.recurrent_products(d.state, 0, step.layer.rows)
        return seq(products, _gru_blend(step, lambda u: reset(u) * step.recurrent(2, u)))
    return seq(
        d.recurrent_products(d.state, 0, 2 * hidden),
        step.each(lambda u: d.save(d.cell, u, reset(u) * d.load(d.state, u)), results=False),
        d.recurrent_products(d.cell, 2 * hidden, hidden),
        _gru_blend(step, lambda u: step.recurrent(2, u)),
    )


def _gru_blend(step: _Step, candidate: Callable[[Units], Expr]) -> Stmt:
    d = step.direction

    def cell(u: Units) -> Stmt:
        lets: list[Stmt] = []
        z = loops.bound(step.activation(0, step.gate(0, u)), lets, "z")
        n = step.activation(1, step.input(2, u) + candidate(u))
        h = loops.bound((E.const(1.0, z.dtype, z.lanes) - z) * n + z * d.load(d.state, u), lets, "h")
        return seq(lets, step.finish(u, h))

    return step.each(cell)


def _rnn(step: _Step) -> Stmt:
    """``H = f(x + H R)``."""
    d = step.direction

    def cell(u: Units) -> Stmt:
        lets: list[Stmt] = []
        h = loops.bound(step.activation(0, step.gate(0, u)), lets, "h")
        return seq(lets, step.finish(u, h))

    return seq(d.recurrent_products(d.state, 0, step.layer.rows), step.each(cell))


_CELLS: dict[str, tuple[int, int, Callable[[_Step], Stmt]]] = {
    "nn.lstm": (4, 3, _lstm),
    "nn.gru": (3, 2, _gru),
    "nn.rnn": (1, 1, _rnn),
}
