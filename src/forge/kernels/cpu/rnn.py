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
from functools import partial
from typing import Any, Final

from forge import dtypes
from forge.errors import CompileError
from forge.kernels.cpu.activations import activate
from forge.loops import (
    Accumulators,
    Loop,
    RegisterTile,
    Vectorizer,
    group_loop,
    known,
    pairs,
    parallel_nest,
    round_up,
    supports_masks,
    vector_loop,
)
from forge.loops.contract import KernelCall, Reader, Writer, kernel
from forge.schedule.transpose import lane_sums
from forge.target.blocking import dots_of_pairs
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, Var
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
    """``lanes`` hidden units from ``at`` on."""

    at: Expr
    lanes: int
    mask: Expr | None


@kernel("rnn")
def rnn(call: KernelCall) -> Function:
    """Family of ``nn.lstm``, ``nn.gru`` and ``nn.rnn``.

    Operands: x [T, B, I], w [D, G*H, I], r [D, G*H, H], bias [D, 2*G*H]?, lengths [B]?, h0 [D, B, H]?, and for LSTM c0 [D, B,
    H]?, peephole [D, 3*H]?; G gates: i o f c, or z r h, or one. Where w is absent, x [T, B, D*G*H] holds its products
    already. Beside float32, w and r may be bfloat16: x and the states are rounded to it for their products. Attributes:
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
        self.x, self.w, self.r, self.bias, self.lengths, self.h0, self.c0, self.peephole = self._operands()
        self.directions = known(self.r.shape[0], "rnn: the number of directions")
        self.hidden = known(self.r.shape[2], "rnn: the hidden size")
        self.rows = gates * self.hidden
        self.batch_first = bool(getattr(self.attrs, "layout", 0))
        self.steps, self.batch = (self.x.shape[1], self.x.shape[0]) if self.batch_first else (self.x.shape[0], self.x.shape[1])
        self.dtype = "float64" if self.x.dtype == "float64" else "float32"
        self.lanes = self.target.lanes(self.dtype)
        sizes = {dtypes.itemsize(r.dtype) for r in call.operands if r is not None}
        self.masked = supports_masks(self.target, sizes)
        self.narrow = self.r.dtype == "bfloat16"
        self.paired = self.narrow and dots_of_pairs(self.target) and self.hidden % (2 * self.lanes) == 0
        self.block = self._batch_block()

    def _operands(self) -> tuple[Any, ...]:
        padded = (*self.call.operands, *[None] * (8 - len(self.call.operands)))
        if padded[0] is None or padded[2] is None:
            raise CompileError("kernel rnn: x and r are operands that must be there")
        return padded

    def _batch_block(self) -> int:
        """Batch rows that are computed together: 1, 2 or 4."""
        batch = int(self.batch.value) if isinstance(self.batch, E.Const) else MAX_BATCH  # type: ignore[arg-type]
        widest = MAX_BATCH if batch >= 3 else max(1, batch)
        return min(widest, self.lanes)

    def activation(self, direction: int, function: int, x: Expr) -> Expr:
        """Activation number ``function`` of a direction, of the clipped ``x``."""
        place = direction * self.functions + function
        clip = getattr(self.attrs, "clip", None)
        if clip:
            x = E.binary("max", E.binary("min", x, E.const(clip, x.dtype, x.lanes)), E.const(-clip, x.dtype, x.lanes))
        return activate(self.attrs.activations[place], x, self.attrs.activation_alpha[place], self.attrs.activation_beta[place])

    def reverse(self, direction: int) -> bool:
        return self.attrs.direction == "reverse" or direction == 1

    def function(self) -> Function:
        blocks = Loop(E.var("bb"), (self.batch + (self.block - 1)) // self.block)
        per_step = E.const(self.directions * self.block * self.rows * self.hidden // self.lanes)
        bodies = [_Direction(self, d, blocks.var * self.block).body() for d in range(self.directions)]
        if len(bodies) == 1:
            return self.call.function(parallel_nest([blocks], bodies[0], self.steps * per_step))
        which = Loop(E.var("d"), E.const(2))
        both = If(which.var.eq(0), bodies[0], bodies[1])
        return self.call.function(parallel_nest([which, blocks], both, self.steps * per_step))


class _Direction:
    """All steps of one direction for the batch rows from ``first`` on. Local buffers hold one row per batch row of the block."""

    def __init__(self, layer: _Layer, direction: int, first: Expr) -> None:
        self.layer, self.direction = layer, direction
        self.padded = round_up(layer.hidden, layer.lanes)
        self.width = round_up(layer.rows, layer.lanes) + layer.lanes
        room = INPUT_BYTES // (self.width * layer.block * dtypes.itemsize(layer.dtype))
        self.chunk = max(1, min(MAX_STEPS, room))
        self.inside = [E.compare("lt", first + m, layer.batch) for m in range(layer.block)]
        self.rows: list[Expr] = [E.var(f"b{m}") for m in range(layer.block)]
        self._first = first
        self.lengths: list[Expr] = [E.var(f"length{m}") for m in range(layer.block)]
        self.state = self.local("h", layer.block * self.padded)
        self.cell = self.local("c", layer.block * self.padded)
        self.rounded = Buffer("rounded", "bfloat16", (E.const(layer.block * self.padded),), scope="local", alignment=64)
        self.products = self.local("z", layer.block * self.width)
        self.inputs = self.local("xw", self.chunk * layer.block * self.width)

    def local(self, name: str, size: int) -> Buffer:
        return Buffer(name, self.layer.dtype, (E.const(size),), scope="local", alignment=64)

    def body(self) -> Stmt:
        layer = self.layer
        s0 = E.var("s0")
        count = E.binary("min", E.const(self.chunk), layer.steps - s0 * self.chunk)
        start = s0 * self.chunk
        s = E.var("s")
        steps = loop(s, count, _Step(self, start + s, s).body())
        chunks = loop(s0, (layer.steps + (self.chunk - 1)) // self.chunk, seq(self._input_products(start, count), steps))
        buffers = [self.state, self.cell, self.products, *([] if layer.w is None else [self.inputs])]
        if layer.narrow:
            buffers.append(self.rounded)
        ends = [self._final(1, self.state), *([self._final(2, self.cell)] if len(layer.call.results) > 2 else [])]
        return seq(
            *self._bind_rows(),
            *(Allocate(b) for b in buffers),
            self._start(self.state, layer.h0),
            self._start(self.cell, layer.c0),
            chunks,
            *ends,
        )

    def _bind_rows(self) -> list[Stmt]:
        lets: list[Stmt] = []
        for m, (row, length) in enumerate(zip(self.rows, self.lengths)):
            lets.append(Let(_variable(row), E.binary("min", self._first + m, self.layer.batch - 1)))
            known = self.layer.steps
            if self.layer.lengths is not None:
                known = E.binary("min", E.cast(self.layer.lengths.read((row,)), E.INDEX), known)
            lets.append(Let(_variable(length), known))
        return lets

    def time(self, m: int, step: Expr) -> Expr:
        """Which element of x and y batch row ``m`` handles at ``step``."""
        if not self.layer.reverse(self.direction):
            return step
        back = self.lengths[m] - 1 - step
        return E.select(E.compare("lt", step, self.lengths[m]), back, step)

    def units(self, body: Callable[[Units], Stmt]) -> Stmt:
        """``body`` over all hidden units in vectors."""
        layer = self.layer
        lanes = layer.lanes
        return vector_loop(E.const(layer.hidden), lanes, lambda at, width, mask: body(Units(at, width, mask)), 1, layer.masked)

    def read(self, reader: Reader, indices: Sequence[Expr], units: Units, offset: int = 0) -> Expr:
        """``reader`` at ``indices`` and the units as innermost index."""
        j = E.var("j")
        value = Vectorizer(j, units.at, units.lanes, units.mask).expr(reader.read((*indices, j + offset)))
        return E.broadcast(E.cast(value, self.layer.dtype), units.lanes)

    def write(self, writer: Writer, indices: Sequence[Expr], value: Expr, units: Units) -> Stmt:
        j, y = E.var("j"), E.Var(writer.dtype, 1, "y")
        statement = writer.write((*indices, j), y)
        return Vectorizer(j, units.at, units.lanes, units.mask, {y: E.cast(value, writer.dtype)}).stmt(statement)

    def state_indices(self, m: int) -> tuple[Expr, Expr]:
        d = E.const(self.direction)
        return (self.rows[m], d) if self.layer.batch_first else (d, self.rows[m])

    def place(self, buffer: Buffer, m: int, units: Units) -> Expr:
        """The index of a state's units of batch row ``m``."""
        return E.ramp(E.const(m * self.padded) + units.at, 1, units.lanes)

    def _start(self, buffer: Buffer, initial: Reader | None) -> Stmt:
        k = E.var("k")
        zero = E.const(0, self.layer.dtype, self.layer.lanes)
        size = self.layer.block * self.padded
        fill = loop(k, size // self.layer.lanes, store(buffer, E.ramp(k * self.layer.lanes, 1, self.layer.lanes), zero))
        if initial is None:
            return fill

        def load(m: int, units: Units) -> Stmt:
            return store(buffer, self.place(buffer, m, units), self.read(initial, self.state_indices(m), units), units.mask)

        return seq(fill, *(self.units(partial(load, m)) for m in range(self.layer.block)))

    def _final(self, result: int, buffer: Buffer) -> Stmt:
        def save(m: int, units: Units) -> Stmt:
            value = E.load(buffer, self.place(buffer, m, units))
            return self.write(self.layer.call.results[result], self.state_indices(m), value, units)

        return seq(*(If(self.inside[m], self.units(partial(save, m))) for m in range(self.layer.block)))

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

    def _x(self, m: int, step: Expr) -> Callable[[Expr], Expr]:
        time, row = self.time(m, step), self.rows[m]
        at = (row, time) if self.layer.batch_first else (time, row)
        if self.layer.w is not None and self.layer.w.dtype == "bfloat16":
            return lambda k: E.cast(E.cast(self.layer.x.read((*at, k)), "bfloat16"), self.layer.dtype)
        return lambda k: E.cast(self.layer.x.read((*at, k)), self.layer.dtype)

    def recurrent_products(self, state: Buffer, first: int, rows: int) -> Stmt:
        """Products of ``rows`` recurrent weights from ``first`` on with ``state``, into ``products``."""
        layer = self.layer
        source = self.rounded if layer.narrow else state
        samples = [_Sample(partial(self._state_element, source, m), E.const(m)) for m in range(layer.block)]
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

    def _state_element(self, state: Buffer, m: int, k: Expr) -> Expr:
        return E.load(state, k + m * self.padded)


def _variable(x: Expr) -> Var:
    assert isinstance(x, Var)
    return x


def _weight_rows(weights: Reader, direction: int, first: int = 0, rows: int | None = None) -> Callable[[Expr, Expr], Expr]:
    """Reads row n (from ``first`` on; the last one again past the end) of one direction's weights."""
    count = known(weights.shape[1], "rnn: the number of gates") if rows is None else rows
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
        left_over = Buffer("rest", layer.dtype, (E.const(layer.lanes),), scope="local", alignment=64)
        exact = layer.masked or (isinstance(self.depth, E.Const) and int(self.depth.value) % layer.lanes == 0)  # type: ignore[arg-type]
        columns = [E.var(f"n{n}") for n in range(self.columns)]
        bind = [Let(name, self.number * self.columns + n) for n, name in enumerate(columns)]

        def step(at: Expr, lanes: int, mask: Expr | None, count: int) -> Stmt:
            lets, products = self._products(columns, at, lanes, mask)
            if lanes == layer.lanes:
                return seq(*lets, *(accumulators.step(k, p, mask) for k, p in enumerate(products)))
            return seq(*lets, *(store(left_over, k, E.load(left_over, k) + p) for k, p in enumerate(products)))

        parts: list[Stmt] = [*bind, accumulators.start()]
        if not exact:
            zero = E.const(0, layer.dtype)
            parts += [Allocate(left_over), *(store(left_over, k, zero) for k in range(layer.lanes))]
        parts.append(group_loop(self.depth, layer.lanes, step, 1, layer.masked))
        total = lane_sums([accumulators.get(0, k) for k in range(layer.lanes)], parts)
        if not exact:
            total = total + E.load(left_over, E.ramp(0, 1, layer.lanes))
        return seq(*parts, *self._save(total))

    def _products(self, columns: Sequence[Expr], at: Expr, lanes: int, mask: Expr | None) -> tuple[list[Stmt], list[Expr]]:
        k = E.var("k")
        vector = Vectorizer(k, at, lanes, mask)
        lets: list[Stmt] = []

        def bound(x: Expr, name: str) -> Expr:
            value = E.Var(self.layer.dtype, lanes, name)
            lets.append(Let(value, E.broadcast(E.cast(vector.expr(x), self.layer.dtype), lanes)))
            return value

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

    def tile(self) -> Stmt:
        layer = self.layer
        accumulators = Accumulators(RegisterTile(1, layer.lanes, layer.lanes, layer.dtype), "sum", layer.target)
        columns = [E.var(f"n{n}") for n in range(self.columns)]
        bind = [Let(name, self.number * self.columns + n) for n, name in enumerate(columns)]
        at = E.var("k")
        lets: list[Stmt] = []

        def bound(read: Callable[[Expr], Expr], name: str) -> Expr:
            vector = Vectorizer(k, at * (2 * layer.lanes), 2 * layer.lanes, None).expr(read(k))
            pair = E.Var(pairs.PAIR, layer.lanes, name)
            lets.append(Let(pair, E.call("reinterpret", E.cast(vector, "bfloat16"), dtype=pairs.PAIR, lanes=layer.lanes)))
            return pair

        k = E.var("element")
        samples = [bound(sample.read, "x") for sample in self.samples]
        weights = [bound(partial(self.weights, n), "w") for n in columns]
        added = [store(accumulators.buffer, slot, E.call("dot_bf16", accumulators.get(0, slot), w, x))
                 for slot, (x, w) in enumerate(itertools.product(samples, weights))]
        steps = loop(at, layer.hidden // (2 * layer.lanes), seq(*lets, *added))
        parts: list[Stmt] = [*bind, accumulators.start(), steps]
        total = lane_sums([accumulators.get(0, slot) for slot in range(layer.lanes)], parts)
        return seq(*parts, *self._save(total))


class _Step:
    """One step of one direction: ``local`` is its number within the chunk."""

    def __init__(self, direction: _Direction, step: Expr, local: Expr) -> None:
        self.direction, self.layer, self.step, self._local = direction, direction.layer, step, local

    def body(self) -> Stmt:
        return self.layer.cell(self)

    def each(self, body: Callable[[int, Units], Stmt], results: bool = True) -> Stmt:
        """``body`` for every batch row and vector of units.

        Rows past their length get y = 0 (where ``results``) and keep their state.
        """
        parts: list[Stmt] = []
        for m in range(self.layer.block):
            work = self.direction.units(partial(body, m))
            if self.layer.lengths is not None:
                past = self.direction.units(partial(self._write_zero, m)) if results else None
                work = If(E.compare("lt", self.step, self.direction.lengths[m]), work, past)
            parts.append(If(self.direction.inside[m], work))
        return seq(*parts)

    def _write_zero(self, m: int, units: Units) -> Stmt:
        return self.write_y(m, units, E.const(0, self.layer.dtype, units.lanes))

    def bias(self, gate: int, units: Units, recurrent: bool) -> Expr | None:
        if self.layer.bias is None:
            return None
        offset = gate * self.layer.hidden + (self.layer.rows if recurrent else 0)
        return self.direction.read(self.layer.bias, (E.const(self.direction.direction),), units, offset)

    def input(self, m: int, gate: int, units: Units) -> Expr:
        """The product of the input for one gate, with its bias."""
        d, layer = self.direction, self.layer
        offset = gate * layer.hidden
        if layer.w is None:
            time = d.time(m, self.step)
            at = (d.rows[m], time) if layer.batch_first else (time, d.rows[m])
            value = d.read(layer.x, at, units, d.direction * layer.rows + offset)
        else:
            row = self._local * layer.block + m
            value = E.load(d.inputs, E.ramp(row * d.width + units.at + offset, 1, units.lanes))
        return _plus(value, self.bias(gate, units, recurrent=False))

    def recurrent(self, m: int, gate: int, units: Units) -> Expr:
        """The product of the state for one gate, with its bias."""
        index = units.at + (m * self.direction.width + gate * self.layer.hidden)
        return _plus(E.load(self.direction.products, E.ramp(index, 1, units.lanes)), self.bias(gate, units, recurrent=True))

    def activation(self, function: int, x: Expr) -> Expr:
        return self.layer.activation(self.direction.direction, function, x)

    def load(self, buffer: Buffer, m: int, units: Units) -> Expr:
        return E.load(buffer, self.direction.place(buffer, m, units))

    def save(self, buffer: Buffer, m: int, units: Units, value: Expr) -> Stmt:
        return store(buffer, self.direction.place(buffer, m, units), value, units.mask)

    def write_y(self, m: int, units: Units, value: Expr) -> Stmt:
        d = self.direction
        number, time, row = E.const(d.direction), d.time(m, self.step), d.rows[m]
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


class _Names:
    """Binds vectors to names, so that each is computed once."""

    def __init__(self) -> None:
        self.lets: list[Stmt] = []

    def __call__(self, name: str, value: Expr) -> Expr:
        variable = E.Var(value.dtype, value.lanes, name)
        self.lets.append(Let(variable, value))
        return variable


def _lstm(step: _Step) -> Stmt:
    """``C = f * C + i * g(x_c)``, ``H = o * h(C)``."""
    d = step.direction

    def cell(m: int, u: Units) -> Stmt:
        name = _Names()
        old = name("c", step.load(d.cell, m, u))
        z = [step.input(m, g, u) + step.recurrent(m, g, u) for g in range(4)]
        i = name("i", step.activation(0, _plus(z[0], step.peephole(0, u, old))))
        if getattr(step.layer.attrs, "input_forget", False):
            f = name("f", E.const(1.0, i.dtype, i.lanes) - i)
        else:
            f = name("f", step.activation(0, _plus(z[2], step.peephole(2, u, old))))
        new = name("cell", f * old + i * step.activation(1, z[3]))
        o = step.activation(0, _plus(z[1], step.peephole(1, u, new)))
        h = name("h", o * _unclipped(step, 2, new))
        return seq(*name.lets, step.save(d.cell, m, u, new), step.save(d.state, m, u, h), step.write_y(m, u, h))

    return seq(d.recurrent_products(d.state, 0, step.layer.rows), step.each(cell))


def _unclipped(step: _Step, function: int, x: Expr) -> Expr:
    place = step.direction.direction * step.layer.functions + function
    attrs = step.layer.attrs
    return activate(attrs.activations[place], x, attrs.activation_alpha[place], attrs.activation_beta[place])


def _gru(step: _Step) -> Stmt:
    """``H = (1 - z) * g(...) + z * H``."""
    if getattr(step.layer.attrs, "linear_before_reset", False):
        return _gru_linear_first(step)
    d, hidden = step.direction, step.layer.hidden

    def reset(m: int, u: Units) -> Stmt:
        r = step.activation(0, step.input(m, 1, u) + step.recurrent(m, 1, u))
        return step.save(d.cell, m, u, r * step.load(d.state, m, u))

    return seq(
        d.recurrent_products(d.state, 0, 2 * hidden),
        step.each(reset, results=False),
        d.recurrent_products(d.cell, 2 * hidden, hidden),
        _gru_blend(step, lambda m, u: step.recurrent(m, 2, u)),
    )


def _gru_linear_first(step: _Step) -> Stmt:
    def candidate(m: int, u: Units) -> Expr:
        r = step.activation(0, step.input(m, 1, u) + step.recurrent(m, 1, u))
        return r * step.recurrent(m, 2, u)

    return seq(step.direction.recurrent_products(step.direction.state, 0, step.layer.rows), _gru_blend(step, candidate))


def _gru_blend(step: _Step, candidate: Callable[[int, Units], Expr]) -> Stmt:
    d = step.direction

    def cell(m: int, u: Units) -> Stmt:
        name = _Names()
        z = name("z", step.activation(0, step.input(m, 0, u) + step.recurrent(m, 0, u)))
        n = step.activation(1, step.input(m, 2, u) + candidate(m, u))
        h = name("h", (E.const(1.0, z.dtype, z.lanes) - z) * n + z * step.load(d.state, m, u))
        return seq(*name.lets, step.save(d.state, m, u, h), step.write_y(m, u, h))

    return step.each(cell)


def _rnn(step: _Step) -> Stmt:
    """``H = f(x + H R)``."""
    d = step.direction

    def cell(m: int, u: Units) -> Stmt:
        h = E.Var(step.layer.dtype, u.lanes, "h")
        value = step.activation(0, step.input(m, 0, u) + step.recurrent(m, 0, u))
        return seq(Let(h, value), step.save(d.state, m, u, h), step.write_y(m, u, h))

    return seq(d.recurrent_products(d.state, 0, step.layer.rows), step.each(cell))


_CELLS: dict[str, tuple[int, int, Callable[[_Step], Stmt]]] = {
    "nn.lstm": (4, 3, _lstm),
    "nn.gru": (3, 2, _gru),
    "nn.rnn": (1, 1, _rnn),
}
