"""A decoder as in Llama: rotary embeddings, grouped heads, gated layers, and caches that a session keeps.

python -m examples.nn.llama
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from examples.nn.weights import fill
from examples.nn.whisper import seen
from forge import nn
from forge.nn import spec


@dataclass(frozen=True)
class Config:
    """Sizes, by the names of Hugging Face's configurations."""

    vocab_size: int = 128
    hidden_size: int = 64
    intermediate_size: int = 160
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    size_of_head: int = 0
    """Numbers of a head, where they do not follow from the others."""

    @property
    def head_dim(self) -> int:
        return self.size_of_head or self.hidden_size // self.num_attention_heads


def rotated(x: nn.Tensor, places: nn.Tensor, theta: float) -> nn.Tensor:
    """``(1, n, heads, size)`` with each pair of halves turned by an angle that grows with the place."""
    half = int(x.shape[-1]) // 2
    rates = nn.Tensor.from_const((theta ** (-np.arange(half) / half)).astype(np.float32))
    angles = nn.unsqueeze(nn.astype(places, "float32"), 1) * rates
    cos, sin = (nn.astype(f(angles), x.dtype)[None, :, None, :] for f in (nn.cos, nn.sin))
    a, b = nn.split(x, 2, axis=-1)
    return nn.concat([a * cos - b * sin, b * cos + a * sin], -1)


class Attention(nn.Module):
    """Attention over all places so far, whose keys and values are kept."""

    def __init__(self, config: Config) -> None:
        self.config = config
        heads, groups, size = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, heads * size, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(config.hidden_size, groups * size, bias=False) for _ in range(2))
        self.o_proj = nn.Linear(heads * size, config.hidden_size, bias=False)
        self.keys, self.values = (nn.KVCache(64, (groups, size)) for _ in range(2))

    def forward(self, x: nn.Tensor, places: nn.Tensor, total: Any) -> nn.Tensor:
        config, (one, new, _) = self.config, x.shape
        query = nn.reshape(self.q_proj(x), (one, new, config.num_attention_heads, config.head_dim))
        key, value = (
            nn.reshape(f(x), (one, new, config.num_key_value_heads, config.head_dim)) for f in (self.k_proj, self.v_proj)
        )
        query, key = (rotated(part, places, config.rope_theta) for part in (query, key))
        self.keys.append(nn.squeeze(key, 0))
        self.values.append(nn.squeeze(value, 0))
        keys, values = (nn.unsqueeze(cache.view(total), 0) for cache in (self.keys, self.values))
        attended = nn.scaled_dot_product_attention(query, keys, values, seen(new, total))
        return self.o_proj(nn.reshape(attended, (one, new, -1)))


class Mlp(nn.Module):
    """Gated linear layers."""

    def __init__(self, config: Config) -> None:
        self.gate_proj, self.up_proj = (nn.Linear(config.hidden_size, config.intermediate_size, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.down_proj(nn.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Attention and gated layers, each with a normalization before and a residual."""

    def __init__(self, config: Config) -> None:
        self.self_attn, self.mlp = Attention(config), Mlp(config)
        self.input_layernorm, self.post_attention_layernorm = (
            nn.RMSNorm(config.hidden_size, -1, config.rms_norm_eps, bias=False) for _ in range(2)
        )

    def forward(self, x: nn.Tensor, places: nn.Tensor, total: Any) -> nn.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), places, total)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Words ``(1, new)`` to scores ``(1, vocab_size)`` of the next one; ``total``: how many words there are with the new ones."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Layer(config) for _ in range(config.num_hidden_layers)])
        self.norm = nn.RMSNorm(config.hidden_size, -1, config.rms_norm_eps, bias=False)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, words: nn.Tensor, total: Any) -> nn.Tensor:
        x = self.embed_tokens(words)
        places = nn.arange(total, dtype="int64")[total - words.shape[1] :]
        for layer in self.layers:
            x = layer(x, places, total)
        return self.lm_head(self.norm(x[:, -1:]))[:, 0]


SPEC = {"forward": {"words": spec.Tensor([1, "new"], "int64"), "total": "int"}}


def generate(run: Any, prompt: list[int], count: int) -> list[int]:
    """``count`` words after ``prompt``, the most likely one each time."""
    words = list(prompt)
    new = words
    for _ in range(count):
        words.append(int(run(np.array([new]), len(words)).argmax()))
        new = words[-1:]
    return words


def main() -> None:
    model = Llama(Config())
    fill(model)
    run = model.jit(SPEC, out_format="numpy")
    print(f"words {generate(run, [3, 1, 4, 1, 5], 8)}")


if __name__ == "__main__":
    main()
