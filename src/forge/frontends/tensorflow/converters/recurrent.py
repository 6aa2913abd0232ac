"""Cells of recurrent layers, and layers of these, as single nodes."""

from __future__ import annotations

from collections.abc import Sequence

from forge.compose.recurrent import MAX_STEPS
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term

_OUTPUTS = "i cs f o ci co h"


def _sigmoid(t: Term) -> Term:
    return Term(t.g, t.g.call("sigmoid", t.value))


def _tanh(t: Term) -> Term:
    return Term(t.g, t.g.call("tanh", t.value))


def _lstm(
    g: Context, x: Value, state: Value, h: Value, w: Value, peepholes: Sequence[Value], bias: Value, forget_bias: float,
    cell_clip: float, order: Sequence[int],
) -> list[Value]:
    """``i cs f o ci co h`` of one step; ``order`` says where the gates i, ci, f and o are in the product.

    Args:
        peepholes: factors of the state in the gates i, f and o, or none.
    """
    product = g.call("nn.matmul", g.call("concatenate", x, h, axis=1), w)
    parts = g.multi("split", g.call("add", product, bias), indices_or_sections=4, axis=1)
    i, ci, f, o = (Term(g, parts[k]) for k in order)
    before, f = Term(g, state), f + forget_bias
    if peepholes:
        i, f = i + before * Term(g, peepholes[0]), f + before * Term(g, peepholes[1])
    i, f, ci = _sigmoid(i), _sigmoid(f), _tanh(ci)
    cs = ci * i + before * f
    if cell_clip > 0:
        cs = cs.maximum(-cell_clip).minimum(cell_clip)
    o = _sigmoid(o + cs * Term(g, peepholes[2]) if peepholes else o)
    co = _tanh(cs)
    return [t.value for t in (i, cs, f, o, ci, co, o * co)]


@converts("LSTMBlockCell", outputs=_OUTPUTS)
def lstm_block_cell(
    g: Context, x: Value, state: Value, h: Value, w: Value, wci: Value, wcf: Value, wco: Value, bias: Value, *,
    forget_bias: float = 1.0, cell_clip: float = 3.0, use_peephole: bool = False,
) -> list[Value]:
    peepholes = [wci, wcf, wco] if use_peephole else []
    return _lstm(g, x, state, h, w, peepholes, bias, forget_bias, cell_clip, (0, 1, 2, 3))


@converts("BlockLSTM", outputs=_OUTPUTS)
def block_lstm(
    g: Context, length: Value, x: Value, state: Value, h: Value, w: Value, wci: Value, wcf: Value, wco: Value, bias: Value, *,
    forget_bias: float = 1.0, cell_clip: float = 3.0, use_peephole: bool = False,
) -> list[Value]:
    peepholes = [wci, wcf, wco] if use_peephole else []
    return _steps(g, length, x, state, h, w, peepholes, bias, forget_bias, cell_clip, (0, 1, 2, 3))


@converts("BlockLSTMV2", outputs=_OUTPUTS)
def block_lstm_v2(
    g: Context, length: Value, x: Value, state: Value, h: Value, w: Value, wci: Value, wcf: Value, wco: Value, bias: Value, *,
    cell_clip: float = 0.0, use_peephole: bool = False,
) -> list[Value]:
    peepholes = [wci, wcf, wco] if use_peephole else []
    return _steps(g, length, x, state, h, w, peepholes, bias, 0.0, cell_clip, (0, 2, 1, 3))


def _steps(
    g: Context, length: Value, x: Value, state: Value, h: Value, w: Value, peepholes: Sequence[Value], bias: Value,
    forget_bias: float, cell_clip: float, order: Sequence[int],
) -> list[Value]:
    """The outputs of all steps, one after the other; those after ``length`` are 0."""
    count, steps = g.one_int(length, "seq_len_max"), x.shape[0]
    if not isinstance(steps, int) or steps > MAX_STEPS or not 0 <= count <= steps:
        raise g.unsupported(f"got {steps} steps, of which {count} are computed; expected a known number, at most {MAX_STEPS}")
    found: list[list[Value]] = []
    for step in range(count):
        data = g.call("take", x, g.constant(step, "int64"), axis=0)
        found.append(_lstm(g, data, state, h, w, peepholes, bias, forget_bias, cell_clip, order))
        state, h = found[-1][1], found[-1][6]
    zero = g.call("zeros_like", h)
    found += [[zero] * 7] * (steps - count)
    return [g.call("stack", *values, axis=0) if steps > 1 else g.call("expand_dims", values[0], axis=0) for values in zip(*found)]


@converts("GRUBlockCell", outputs="r u c h")
def gru_block_cell(
    g: Context, x: Value, h: Value, w_ru: Value, w_c: Value, b_ru: Value, b_c: Value
) -> list[Value]:
    both = g.call("nn.matmul", g.call("concatenate", x, h, axis=1), w_ru)
    r, u = (_sigmoid(Term(g, v)) for v in g.multi("split", g.call("add", both, b_ru), indices_or_sections=2, axis=1))
    before = Term(g, h)
    new = g.call("nn.matmul", g.call("concatenate", x, (before * r).value, axis=1), w_c)
    c = _tanh(Term(g, g.call("add", new, b_c)))
    return [t.value for t in (r, u, c, u * before + (1 - u) * c)]
