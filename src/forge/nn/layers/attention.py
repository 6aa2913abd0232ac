"""Attention layers."""

from __future__ import annotations

import math
from typing import Any

from forge.errors import OptionError
from forge.nn import op
from forge.nn.layers.linear import Linear
from forge.nn.layers.normalization import GroupNorm
from forge.nn.module import Module, ModuleList
from forge.nn.tensor import Parameter, Tensor


class MultiHeadAttention(Module):
    """Attention of several heads (Vaswani et al., 2017), with the parameters of ``torch.nn.MultiheadAttention``.

    Args:
        embed_dim: numbers of the last axis of queries and results, a multiple of ``num_heads``.
        bias: whether projections have one.
        kdim, vdim: numbers of the last axis of keys and values; by default ``embed_dim``.
        dtype: of the parameters; by default that of `get_default_dtype`.

    Attributes:
        in_proj_weight: ``(3 * embed_dim, embed_dim)``; instead ``q_proj_weight`` and so on where ``kdim`` or ``vdim`` differ.
        in_proj_bias: ``(3 * embed_dim,)``, or None.
        out_proj: the linear layer at the end.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, bias: bool = True, kdim: int | None = None, vdim: int | None = None,
        dtype: str | None = None,
    ) -> None:  # fmt: skip
        if embed_dim % num_heads:
            expected = f"expected a multiple of num_heads, which is {num_heads}"
            raise OptionError(f"MultiHeadAttention: embed_dim: got {embed_dim}; {expected}")
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.is_joined = (kdim or embed_dim) == (vdim or embed_dim) == embed_dim
        if self.is_joined:
            self.in_proj_weight = Parameter((3 * embed_dim, embed_dim), dtype)
        else:
            self.q_proj_weight = Parameter((embed_dim, embed_dim), dtype)
            self.k_proj_weight = Parameter((embed_dim, kdim or embed_dim), dtype)
            self.v_proj_weight = Parameter((embed_dim, vdim or embed_dim), dtype)
        self.in_proj_bias = Parameter((3 * embed_dim,), dtype) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype)

    def forward(
        self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, attn_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Attention of queries to keys.

        Args:
            query: ``(batch, length, embed_dim)``.
            key: ``(batch, other length, kdim)``; by default ``query``.
            value: ``(batch, other length, vdim)``; by default ``key``.
            attn_mask: bool, True where a query sees a key, or numbers that are added to scores; it broadcasts to
                ``(batch, heads, length, other length)``.
            is_causal: a query sees keys up to its own place.

        Returns:
            ``(batch, length, embed_dim)``.
        """
        key = query if key is None else key
        value = key if value is None else value
        q, k, v = (self._by_head(x) for x in self._projected(query, key, value))
        attended = op.scaled_dot_product_attention(q, k, v, attn_mask, is_causal)
        return self.out_proj(op.reshape(attended, (*query.shape[:2], self.embed_dim)))  # type: ignore[no-any-return]

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        biases = [None] * 3 if self.in_proj_bias is None else op.split(self.in_proj_bias, 3)
        if self.is_joined and query is key is value:
            return list(op.split(op.linear(query, self.in_proj_weight, self.in_proj_bias), 3, axis=-1))
        own = [] if self.is_joined else [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        weights = own or op.split(self.in_proj_weight, 3)
        return [op.linear(x, weight, bias) for x, weight, bias in zip((query, key, value), weights, biases)]

    def _by_head(self, x: Tensor) -> Tensor:
        return op.reshape(x, (*x.shape[:2], self.num_heads, self.embed_dim // self.num_heads))


class Attention(Module):
    """The attention of diffusion models: normalization by groups, projections without joined weights, and a residual.

    Args:
        query_dim: numbers of the last axis of hidden states.
        cross_attention_dim: numbers of the last axis of what they attend to; by default ``query_dim``.
        norm_num_groups: groups of the normalization before; None: there is none.
        out_bias: whether the last projection has a bias.
        scale_qk: scores are divided by ``sqrt(dim_head)``.
    """

    def __init__(
        self, query_dim: int, cross_attention_dim: int | None = None, heads: int = 8, dim_head: int = 64, bias: bool = False,
        norm_num_groups: int | None = None, out_bias: bool = True, scale_qk: bool = True,
    ) -> None:  # fmt: skip
        inner = heads * dim_head
        context = query_dim if cross_attention_dim is None else cross_attention_dim
        self.heads, self.dim_head = heads, dim_head
        self.scale = 1 / math.sqrt(dim_head) if scale_qk else 1.0
        self.group_norm = None if norm_num_groups is None else GroupNorm(norm_num_groups, query_dim)
        self.to_q = Linear(query_dim, inner, bias)
        self.to_k = Linear(context, inner, bias)
        self.to_v = Linear(context, inner, bias)
        self.to_out = ModuleList([Linear(inner, query_dim, out_bias)])

    def forward(
        self, hidden_states: Tensor, encoder_hidden_states: Tensor | None = None, attention_mask: Tensor | None = None,
        **cross_attention_kwargs: Any,
    ) -> Tensor:  # fmt: skip
        """Attention of hidden states to themselves, or to those of an encoder.

        Args:
            hidden_states: ``(batch, length, query_dim)``.
            encoder_hidden_states: ``(batch, other length, cross_attention_dim)``.
            attention_mask: as of `scaled_dot_product_attention`.

        Returns:
            ``(batch, length, query_dim)``.
        """
        if cross_attention_kwargs:
            raise OptionError(f"Attention: got {next(iter(cross_attention_kwargs))!r}; expected no further arguments")
        if self.group_norm is not None:
            hidden_states = self.group_norm(hidden_states, channel_axis=2, axes=[1])
        context = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        projected = (self.to_q(hidden_states), self.to_k(context), self.to_v(context))
        query, key, value = (op.reshape(x, (*x.shape[:2], self.heads, self.dim_head)) for x in projected)
        attended = op.scaled_dot_product_attention(query, key, value, attention_mask, scale=self.scale)
        return self.to_out(op.reshape(attended, (*query.shape[:2], self.heads * self.dim_head)))  # type: ignore[no-any-return]
