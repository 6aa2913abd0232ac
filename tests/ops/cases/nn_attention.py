"""Rows of attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.case import Case, Fixed, boolean, f16, f32, f64, row

QKV = (f32(2, 4, 5, 8), f32(2, 4, 7, 8), f32(2, 4, 7, 3))
HOLES = np.array([[[[True, False, True, True, False, True, True]], [[False] * 7]]])  # [1, 2, 1, 7]; nothing visible for head 1


def attention(scale: float | None = None, softcap: float = 0.0, scores: str | None = None, visible: Any = None) -> Any:
    """Loops over batch, heads and queries."""

    def oracle(query: Any, key: Any, value: Any, mask: Any = None, offset: Any = None, lengths: Any = None) -> Any:
        group = query.shape[1] // key.shape[1]
        factor = 1 / np.sqrt(query.shape[3]) if scale is None else scale
        out = np.zeros((*query.shape[:3], value.shape[3]))
        found = np.zeros((*query.shape[:3], key.shape[2]))
        added = np.broadcast_to(0.0 if mask is None or mask.dtype == bool else mask, found.shape)
        allowed = np.broadcast_to(mask if mask is not None and mask.dtype == bool else True, found.shape)
        for b, h, i in np.ndindex(query.shape[:3]):
            start = 0 if offset is None else np.atleast_1d(offset)[min(b, np.size(offset) - 1)]
            keys = [j for j in range(key.shape[2]) if (visible is None or visible(start + i, j)) and allowed[b, h, i, j]]
            keys = [j for j in keys if (lengths is None or j < lengths[b]) and added[b, h, i, j] > -np.inf]
            if not keys:
                continue
            s = np.array([factor * query[b, h, i].astype(np.float64) @ key[b, h // group, j] for j in keys])
            s = softcap * np.tanh(s / softcap) if softcap else s
            p = np.exp(s + added[b, h, i, keys] - (s + added[b, h, i, keys]).max())
            found[b, h, i, keys] = p / p.sum()
            out[b, h, i] = found[b, h, i, keys] @ value[b, h // group, keys]
        return [out, found] if scores else out

    return oracle


def rows() -> list[Case]:
    queries, keys, values = QKV
    causal = attention(visible=lambda i, j: j <= i)
    narrow = (f16(1, 2, 3, 8, low=-1, high=1), f16(1, 2, 4, 8, low=-1, high=1), f16(1, 2, 4, 8))
    few = (Fixed(f32(2, 6, 5, 8)), Fixed(f32(2, 2, 7, 8)), Fixed(f32(2, 2, 7, 3)))
    return [
        row("nn.attention", QKV, attention()),
        row("nn.attention", QKV, attention(scale=0.7), scale=0.7),
        row("nn.attention", QKV, attention(scale=-0.3), scale=-0.3),
        row("nn.attention", QKV, attention(softcap=2.0), softcap=2.0),
        row("nn.attention", QKV, causal, is_causal=True),
        row("nn.attention", [*QKV, f32(5, 7)], attention()),
        row("nn.attention", [*QKV, boolean(2, 1, 5, 7)], attention()),
        row("nn.attention", [*QKV, f32(7, special=(-np.inf,))], causal, is_causal=True),
        row("nn.attention", [f32(1, 2, 3, 4), f32(1, 2, 7, 4), f32(1, 2, 7, 4), HOLES], attention(), note="masked"),
        row("nn.attention", [*QKV, None, np.array(2)], causal, is_causal=True),
        row("nn.attention", [*QKV, None, [-3, 1]], causal, is_causal=True, symbolic=False, note="negative offset"),
        row("nn.attention", [*QKV, None, None, [3, 0]], attention(), symbolic=False),
        row("nn.attention", [*QKV, None, [1, 2], [3, 6]], attention(visible=lambda i, j: i - 2 <= j <= i + 1), symbolic=False,
            left_window=2, right_window=1),
        row("nn.attention", QKV, attention(visible=lambda i, j: i - 1 <= j <= i), is_causal=True, left_window=1, right_window=3),
        row("nn.attention", few, attention()),
        row("nn.attention", few, causal, is_causal=True),
        row("nn.attention", [f64(2, 4, 5, 8), f64(2, 4, 7, 8), f64(2, 4, 7, 3)], attention(scores="probabilities"),
            scores="probabilities"),
        row("nn.attention", QKV, scores="product"),
        row("nn.attention", [*QKV, f32(5, 7)], softcap=1.5, scores="capped"),
        row("nn.attention", [*QKV, boolean(5, 7)], softcap=1.5, scores="biased"),
        row("nn.attention", narrow, softmax_dtype="float32"),
        row("nn.attention", narrow),
        row("nn.attention", [f32(1, 2, 3, 4), f32(1, 2, 0, 4), f32(1, 2, 0, 5)], attention(), note="no keys"),
        row("nn.attention", [f32(1, 2, 0, 4), f32(1, 2, 3, 4), f32(1, 2, 3, 5)], attention(), note="no queries"),
        row("nn.attention", [queries, keys, values, f32(2, 4, 5, 7)], attention(), softmax_dtype="float64"),
    ]


CASES = rows()
