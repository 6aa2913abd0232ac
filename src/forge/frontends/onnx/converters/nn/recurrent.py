"""Recurrent layers: LSTM, GRU and RNN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from forge.compose.checks import checked_lengths
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts
from forge.ops.nn.recurrent import DIRECTIONS

Names = tuple[str, ...]
Floats = tuple[float, ...]
_ACTIVATIONS = {  # lower case -> (name, default alpha, default beta)
    "relu": ("relu", None, None),
    "tanh": ("tanh", None, None),
    "sigmoid": ("sigmoid", None, None),
    "affine": ("affine", 1.0, 0.0),
    "leakyrelu": ("leaky_relu", 0.01, None),
    "thresholdedrelu": ("thresholded_relu", 1.0, None),
    "scaledtanh": ("scaled_tanh", 1.0, 1.0),
    "hardsigmoid": ("hard_sigmoid", 0.2, 0.5),
    "elu": ("elu", 1.0, None),
    "softsign": ("softsign", None, None),
    "softplus": ("softplus", None, None),
}


def activations(
    g: Context, names: Names | None, alpha: Floats | None, beta: Floats | None, default: Names, directions: int
) -> dict[str, Any]:
    """Attributes with the name, alpha and beta of each gate function of each direction.

    The model lists alpha and beta only for functions that have one, in order.
    """
    chosen = tuple(names) if names else default * directions
    if len(chosen) != len(default) * directions:
        raise g.invalid(f"attribute 'activations': got {len(chosen)} names; expected {len(default) * directions}")
    unknown = [name for name in chosen if name.lower() not in _ACTIVATIONS]
    if unknown:
        raise g.invalid(f"attribute 'activations': got {unknown[0]!r}; expected one of {', '.join(_ACTIVATIONS)}")
    rows = [_ACTIVATIONS[name.lower()] for name in chosen]
    alphas, betas = list(alpha or ()), list(beta or ())
    return {
        "activations": tuple(kind for kind, _, _ in rows),
        "activation_alpha": tuple(_parameter(alphas, default_alpha) for _, default_alpha, _ in rows),
        "activation_beta": tuple(_parameter(betas, default_beta) for _, _, default_beta in rows),
    }


def _parameter(given: list[float], default: float | None) -> float:
    if default is None:
        return 0.0
    return given.pop(0) if given else default


def direction_count(g: Context, direction: str) -> int:
    """2 for both directions, else 1."""
    if direction not in DIRECTIONS:
        raise g.invalid(f"attribute 'direction': got {direction!r}; expected one of {', '.join(DIRECTIONS)}")
    return 2 if direction == "bidirectional" else 1


@dataclass(frozen=True, kw_only=True)
class CellAttributes:
    """What quantized layers have, too."""

    activation_alpha: Floats | None = None
    activation_beta: Floats | None = None
    activations: Names | None = None
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int | None = None


@dataclass(frozen=True, kw_only=True)
class RecurrentAttributes(CellAttributes):
    layout: int = 0
    output_sequence: int = 0


@dataclass(frozen=True, kw_only=True)
class RNNAttributes(RecurrentAttributes):
    activations: Names = ("Tanh", "Tanh")


@converts("LSTM")
def lstm(
    g: Context, x: Value, w: Value, r: Value, bias: Value | None = None, lengths: Value | None = None, h0: Value | None = None,
    c0: Value | None = None, peephole: Value | None = None, *, input_forget: int = 0, attrs: RecurrentAttributes,
) -> list[Value]:
    lengths = lengths_within(g, lengths, x, attrs.layout)
    layer = _layer(g, r, attrs, attrs.activations, ("Sigmoid", "Tanh", "Tanh"))
    return g.multi("nn.lstm", x, w, r, bias, lengths, h0, c0, peephole, input_forget=bool(input_forget), **layer)


@converts("GRU")
def gru(
    g: Context, x: Value, w: Value, r: Value, bias: Value | None = None, lengths: Value | None = None, h0: Value | None = None,
    *, linear_before_reset: int = 0, attrs: RecurrentAttributes,
) -> list[Value]:
    lengths = lengths_within(g, lengths, x, attrs.layout)
    layer = _layer(g, r, attrs, attrs.activations, ("Sigmoid", "Tanh"))
    return g.multi("nn.gru", x, w, r, bias, lengths, h0, linear_before_reset=bool(linear_before_reset), **layer)


@converts("RNN")
def rnn(
    g: Context, x: Value, w: Value, r: Value, bias: Value | None = None, lengths: Value | None = None, h0: Value | None = None,
    *, attrs: RNNAttributes,
) -> list[Value]:
    lengths = lengths_within(g, lengths, x, attrs.layout)
    layer = _layer(g, r, attrs, attrs.activations[: direction_count(g, attrs.direction)], ("Tanh",))
    return g.multi("nn.rnn", x, w, r, bias, lengths, h0, **layer)


def lengths_within(g: Context, lengths: Value | None, x: Value, layout: int) -> Value | None:
    """Lengths of sequences, which are at most as long as ``x``."""
    return lengths if lengths is None or x.rank != 3 else checked_lengths(g, lengths, x.shape[1 if layout else 0])


def _layer(g: Context, r: Value, attrs: RecurrentAttributes, names: Names | None, default: Names) -> dict[str, Any]:
    return {"layout": attrs.layout, **layer_attributes(g, r, attrs, names, default)}


def layer_attributes(g: Context, r: Value, attrs: CellAttributes, names: Names | None, default: Names) -> dict[str, Any]:
    """Attributes that Forge's layers share but for the layout; the last axis of ``r`` is the hidden size."""
    direction = {"foward": "forward"}.get(attrs.direction, attrs.direction)
    count = direction_count(g, direction)
    if attrs.hidden_size is not None and r.shape[-1] != attrs.hidden_size:
        raise g.invalid(
            f"attribute 'hidden_size': got {attrs.hidden_size}; the recurrence weight has {r.shape[-1]}; expected equal sizes"
        )
    chosen = activations(g, names, attrs.activation_alpha, attrs.activation_beta, default, count)
    return {"direction": direction, "clip": attrs.clip, **chosen}
