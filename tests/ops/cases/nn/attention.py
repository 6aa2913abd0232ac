"""Rows of attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.case import Case, Fixed, bf16, boolean, f16, f32, f64, row

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


def fused(scale: float = 1.0, softcap: float = 0.0, fill: float = -np.inf, zero_unseen: bool = False, transpose_key: bool = True,
          inner: int = 0) -> Any:
    """Written with einsum, where all operands have the leading axes of the scores."""

    def oracle(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        query, key, value = (np.asarray(x, np.float64) for x in (query, key, value))
        s = np.einsum("...ld,...sd->...ls" if transpose_key else "...ld,...ds->...ls", query, key) * scale
        s = softcap * np.tanh(s / softcap) if softcap else s
        if mask is not None:
            s = np.where(mask, s, fill) if mask.dtype == bool else s + mask.astype(np.float64)
        with np.errstate(invalid="ignore"):
            e = np.exp(s - s.max(axis=-1, keepdims=True, initial=-1e300))
            p = e / e.sum(axis=-1, keepdims=True)
        out = np.einsum("...ls,...se->...le", np.where(np.isnan(p) & zero_unseen, 0, p), value)
        return np.moveaxis(out, -2, -2 - inner)

    return oracle


def fused_rows() -> list[Case]:
    query, _, value = wide = (Fixed(f32(2, 4, 5, 8)), Fixed(f32(2, 4, 7, 8)), Fixed(f32(2, 4, 7, 3)))
    op = "nn.contrib_attention"
    return [
        row(op, wide, fused()),
        row(op, wide, fused(scale=-0.3), scale=-0.3),
        row(op, wide, fused(softcap=2.0, scale=0.5), softcap=2.0, scale=0.5),
        row(op, wide, fused(inner=1), inner=1),
        row(op, wide, fused(inner=2), inner=2),
        row(op, [query, Fixed(f32(2, 4, 8, 7)), value], fused(transpose_key=False), transpose_key=False),
        row(op, [*wide, Fixed(f32(4, 5, 7))], fused()),
        row(op, [*wide, Fixed(f32(7, special=(-np.inf,)))], fused()),
        row(op, [*wide, Fixed(boolean(2, 1, 5, 7))], fused(fill=-9.0), fill=-9.0),
        row(op, [f32(1, 2, 3, 4), f32(1, 2, 7, 4), f32(1, 2, 7, 4), HOLES], fused(), symbolic=False, note="NaN"),
        row(op, [f32(1, 2, 3, 4), f32(1, 2, 7, 4), f32(1, 2, 7, 4), HOLES], fused(zero_unseen=True), symbolic=False,
            zero_unseen=True),
        row(op, [f16(2, 5, 8, low=-1, high=1), f16(2, 7, 8, low=-1, high=1), f16(2, 7, 3), f32(5, 7)], fused(), symbolic=False),
        row(op, [bf16(2, 5, 8, low=-1, high=1), bf16(2, 7, 8, low=-1, high=1), bf16(2, 7, 3)], fused(), symbolic=False),
        row(op, [f64(2, 5, 8), f64(2, 7, 8), f64(2, 7, 3)], fused(), symbolic=False),
        row(op, [f32(5, 8), f32(0, 8), f32(0, 3)], fused(zero_unseen=True), symbolic=False, zero_unseen=True, note="no keys"),
        row(op, [f32(5, 0), f32(4, 0), f32(4, 3)], fused(), symbolic=False, note="no depth"),
        row(op, [f32(5, 3), f32(4, 3), f32(4, 0)], fused(), symbolic=False, note="no size"),
        row(op, [f32(0, 8), f32(4, 8), f32(4, 3)], fused(), symbolic=False, note="no queries"),
        row(op, [f32(2, 3, 5, 8), f32(2, 1, 7, 8), f32(7, 3)], fused(), symbolic=False, note="broadcast"),
        row(op, [f32(9, 8), f32(1300, 8), f32(1300, 20), f32(9, 1300)], fused(), symbolic=False, note="blocks"),
    ]


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


CASES = [*rows(), *fused_rows()]
