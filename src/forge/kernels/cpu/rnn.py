"""Recurrent layers: LSTM, GRU and plain RNN with the semantics of ONNX.

Directions and blocks of batch rows run in parallel. In each, the products of the input with its weights are computed for
several steps at once, then step by step the products of the state with the recurrent weights, and the cell. Products are dot
products along the rows of the weights as they are: a tile of as many accumulators as a vector has lanes, whose lanes are
summed together at the end. Weights in panels are multiplied by broadcast elements of the state instead, or in tile registers by
the states of several rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from forge import loops
from forge.errors import CompileError
from forge.kernels.cpu.rnn_fixed import FixedDirection
from forge.kernels.cpu.rnn_layer import Direction, Layer, Span, Units
from forge.kernels.cpu.rnn_rounded import FarDirection, RoundedDirection, near_rows
from forge.loops import Loop
from forge.loops.contract import KernelCall, kernel
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Function, If, Stmt, seq

# Batches of which the extent is known at run time only have code of their own where it is one of these: blocks of more rows would
# compute rows that are not there. So do those that tile registers gain nothing for.
FEW_ROWS: Final = (2, 1)


@kernel("rnn")
def rnn(call: KernelCall) -> Function:
    """Family of ``nn.lstm``, ``nn.gru`` and ``nn.rnn``.

    Operands: x [T, B, I], w [D, G*H, I], r [D, G*H, H], bias [D, 2*G*H]?, lengths [B]?, h0 [D, B, H]?, and for LSTM c0 [D, B,
    H]?, peephole [D, 3*H]?; G gates: i o f c, or z r h, or one. Where w is absent, x [T, B, D*G*H] holds its products
    already. With float32, w and r may be bfloat16: x and the states are rounded to it for their products. r may be int8, with
    r_scale [D, G*H] and r_zero_point [D, G*H]? after the others and two absent operands. r of int8 or bfloat16 may be packed. w
    is absent where r is packed or int8.
    Attributes: direction, activations, activation_alpha, activation_beta (one entry for each function and direction), clip,
    layout (1: the batch comes first in x, y and the states), input_forget (LSTM), linear_before_reset (GRU),
    dynamic_quantization (LSTM: r is int8, and the states are rounded to uint8 at each step; r_sums [D, G*H] follows a packed r's
    zero points). Results: y [T, D, B, H], h [D, B, H], and for LSTM c [D, B, H]. Steps from a row's length on give y = 0 and
    leave its state as it is.

    Raises:
        CompileError: the hidden size is symbolic, or w consists of codes.
    """
    build = _CELLS.get(call.operator)
    if build is None:
        raise CompileError(f"kernel rnn: operator {call.operator}; expected one of {', '.join(_CELLS)}")
    gates, functions, cell = build

    def layer(batch: int | None = None) -> Layer:
        return Layer(call, gates, functions, lambda d, step, local: cell(_Step(d, step, local)), batch)

    general = layer()
    body = _all_rows(general)
    if loops.static(general.batch) is None:
        for few in (n for n in FEW_ROWS if n < (general.least_rows if general.in_tiles else general.block)):
            body = If(general.batch.eq(few), _all_rows(layer(few)), body)
    return call.function(body)


def _all_rows(layer: Layer) -> Stmt:
    """The layer, with spans of batch rows in parallel, or rounded together."""
    spans, span = layer.spans()
    directions = range(layer.directions)
    if not layer.dynamic:
        kind = FixedDirection if layer.is_fixed else Direction
        return _both(layer, span, [kind(layer, d, span).body() for d in directions], [spans])
    near, far = ([kind(layer, d, span, spans).body() for d in directions] for kind in (RoundedDirection, FarDirection))
    known = loops.static(layer.batch)
    if known is not None:
        return _both(layer, span, near if known <= near_rows(layer) else far, [])
    return If(E.compare("le", layer.batch, E.const(near_rows(layer))), _both(layer, span, near, []), _both(layer, span, far, []))


def _both(layer: Layer, span: Span, bodies: Sequence[Stmt], over: Sequence[Loop]) -> Stmt:
    """One or two directions."""
    per_step = E.const(layer.directions * span.size * layer.rows * layer.hidden // layer.lanes)
    if len(bodies) == 1:
        return loops.parallel_nest(over, bodies[0], layer.steps * per_step)
    which = Loop(E.var("d"), E.const(2))
    both = If(which.var.eq(0), bodies[0], bodies[1])
    return loops.parallel_nest([which, *over], both, layer.steps * per_step)


class _Step:
    """One step of one direction: ``local`` is its number within the chunk."""

    def __init__(self, direction: Direction, step: Expr, local: Expr) -> None:
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
                past = d.units(row, lambda u: self._write(u, E.const(0, self.layer.dtype, u.lanes))) if results else None
                work = If(E.compare("lt", self.step, d.lengths[row]), work, past)
            parts.append(If(d.inside[row], work))
        return d.each(seq(parts))

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
        return _plus(self.direction.recurrent_sum(gate, units), self._bias(gate, units, recurrent=True))

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

    return seq(d.recurrent_products(d.state, 0, step.layer.gates, step.step), step.each(cell))


def _gru(step: _Step) -> Stmt:
    """``H = (1 - z) * g(...) + z * H``."""
    d = step.direction

    def reset(u: Units) -> Expr:
        return step.activation(0, step.gate(1, u))

    if getattr(step.layer.attrs, "linear_before_reset", False):
        products = d.recurrent_products(d.state, 0, step.layer.gates, step.step)
        return seq(products, _gru_blend(step, lambda u: reset(u) * step.recurrent(2, u)))
    return seq(
        d.recurrent_products(d.state, 0, 2, step.step),
        step.each(lambda u: d.save(d.cell, u, reset(u) * d.load(d.state, u)), results=False),
        d.recurrent_products(d.cell, 2, 1, step.step),
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

    return seq(d.recurrent_products(d.state, 0, step.layer.gates, step.step), step.each(cell))


_CELLS: dict[str, tuple[int, int, Callable[[_Step], Stmt]]] = {
    "nn.lstm": (4, 3, _lstm),
    "nn.gru": (3, 2, _gru),
    "nn.rnn": (1, 1, _rnn),
}
