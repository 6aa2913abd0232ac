"""Attention."""

from __future__ import annotations

from forge import dims
from forge.compose import attention
from forge.errors import OptionError
from forge.nn.tensor import Tensor
from forge.nn.tracing import Context


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool | None = False,
    scale: float | None = None,
    name: str = "scaled_dot_product_attention",
) -> Tensor:
    """``softmax(scale * query @ key.T + mask) @ value`` for each head.

    Args:
        query: ``(batch, length, heads, size)``.
        key: ``(batch, other length, groups, size)``; each group of keys serves ``heads / groups`` heads.
        value: ``(batch, other length, groups, other size)``.
        attn_mask: bool, True where a query sees a key, or numbers that are added to scores. It broadcasts to
            ``(batch, heads, length, other length)``.
        is_causal: query k sees keys up to number k.
        scale: by default ``1 / sqrt(size)``.

    Returns:
        ``(batch, length, heads, other size)``.

    Raises:
        OptionError: sizes do not fit.

    >>> nn.scaled_dot_product_attention([[[[0.0, 1.0]]]], [[[[1.0, 0.0]], [[1.0, 0.0]]]], [[[[1.0]], [[3.0]]]]).numpy().tolist()
    [[[[2.0]]]]
    """
    g = Context(name)
    q, k, v = g.alike(query, key, value)
    if any(operand.rank != 4 for operand in (q, k, v)):
        raise OptionError(f"{name}: got {q.type}, {k.type} and {v.type}; expected (batch, length, heads, size)")
    heads, groups = q.shape[2], k.shape[2]
    if dims.different(q.shape[3], k.shape[3]) or not dims.equal(dims.floormod(heads, groups), 0) or groups != v.shape[2]:
        raise OptionError(f"{name}: got {q.type}, {k.type} and {v.type}; expected equal sizes, and heads that groups divide")
    q, k, v = (g.call("transpose", operand, axes=(0, 2, 1, 3)) for operand in (q, k, v))
    mask = None if attn_mask is None else g.value(attn_mask)
    found, _ = attention.broadcast_attention(g, q, k, v, mask, is_causal=bool(is_causal), scale=scale, grouped=True)
    return g.tensor(g.call("transpose", found, axes=(0, 2, 1, 3)))
