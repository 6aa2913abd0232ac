"""Recurrent layers. Gates are i, f, g, o in LSTM and r, z, n in GRU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forge.compose import recurrent
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import REGISTRY, converts
from forge.ir.nodes import Value

_LSTM, _GRU = (0, 3, 1, 2), (1, 0, 2)
"""Where Forge's gates (i, o, f, c and z, r, n) are among torch's."""

for _op in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
    REGISTRY.refuse(f"{_op}.data", "packed sequences have no shape that is known; give the layer padded ones")


@dataclass(frozen=True, kw_only=True)
class Layers:
    has_biases: bool
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool

    def cells(self, g: Context, params: Sequence[Value]) -> list[Sequence[Value]]:
        """The parameters of each layer and direction."""
        if self.train and self.dropout > 0 and self.num_layers > 1:
            raise g.unsupported("train: got True with dropout; supported: False; export the model after eval()")
        each = len(params) // (self.num_layers * (2 if self.bidirectional else 1))
        return [params[k : k + each] for k in range(0, len(params), each)]

    @property
    def options(self) -> dict[str, Any]:
        return {"directions": 2 if self.bidirectional else 1, "batch_first": self.batch_first}


@converts("lstm.input")
def lstm(
    g: Context, input: Value, hx: Sequence[Value], params: Sequence[Value], *, layers: Layers  # noqa: A002
) -> list[Value]:
    cells = layers.cells(g, params)
    if len(cells[0]) % 2:
        return recurrent.projected_lstm(g, input, hx, cells, **layers.options)
    return recurrent.layers(
        g, "nn.lstm", input, hx, cells, activations=("sigmoid", "tanh", "tanh"), order=_LSTM, **layers.options)


@converts("gru.input")
def gru(g: Context, input: Value, hx: Value, params: Sequence[Value], *, layers: Layers) -> list[Value]:  # noqa: A002
    return recurrent.layers(
        g, "nn.gru", input, [hx], layers.cells(g, params), activations=("sigmoid", "tanh"), order=_GRU, linear_before_reset=True,
        **layers.options,
    )


def _plain(activation: str, op: str) -> None:
    @converts(f"rnn_{activation}.input")
    def rnn(g: Context, input: Value, hx: Value, params: Sequence[Value], *, layers: Layers) -> list[Value]:  # noqa: A002
        cells = layers.cells(g, params)
        return recurrent.layers(g, "nn.rnn", input, [hx], cells, activations=(activation,), order=(0,), **layers.options)

    @converts(f"rnn_{activation}_cell.default")
    def cell(
        g: Context, input: Value, hx: Value, w_ih: Value, w_hh: Value, b_ih: Value | None = None,  # noqa: A002
        b_hh: Value | None = None,
    ) -> Value:
        return recurrent.rnn_cell(g, op, input, hx, w_ih, w_hh, b_ih, b_hh)


_plain("tanh", "tanh")
_plain("relu", "nn.relu")


@converts("lstm_cell.default")
def lstm_cell(
    g: Context, input: Value, hx: Sequence[Value], w_ih: Value, w_hh: Value, b_ih: Value | None = None,  # noqa: A002
    b_hh: Value | None = None,
) -> list[Value]:
    h, c = hx
    return list(recurrent.lstm_cell(g, input, h, c, w_ih, w_hh, b_ih, b_hh))


@converts("gru_cell.default")
def gru_cell(
    g: Context, input: Value, hx: Value, w_ih: Value, w_hh: Value, b_ih: Value | None = None,  # noqa: A002
    b_hh: Value | None = None,
) -> Value:
    return recurrent.gru_cell(g, input, hx, w_ih, w_hh, b_ih, b_hh)
