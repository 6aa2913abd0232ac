"""An encoder and a decoder as in Whisper: sound is encoded once, then words are decoded one by one over caches.

python -m examples.nn.whisper
"""

from __future__ import annotations

from typing import Any

import numpy as np

from examples.nn.weights import fill
from forge import nn
from forge.nn import spec


class SelfAttention(nn.Module):
    """Attention of places to each other; with a cache, to all that were seen before, too."""

    def __init__(self, width: int, heads: int, cached: bool) -> None:
        self.heads, self.size = heads, width // heads
        self.q_proj, self.v_proj, self.out_proj = (nn.Linear(width, width) for _ in range(3))
        self.k_proj = nn.Linear(width, width, bias=False)
        self.keys, self.values = (nn.KVCache(64, (heads, self.size)) if cached else None for _ in range(2))

    def by_head(self, x: nn.Tensor) -> nn.Tensor:
        return nn.reshape(x, (*x.shape[:2], self.heads, self.size))

    def forward(self, x: nn.Tensor, total: Any = None) -> nn.Tensor:
        query, key, value = self.by_head(self.q_proj(x)), self.by_head(self.k_proj(x)), self.by_head(self.v_proj(x))
        mask = None
        if self.keys is not None and self.values is not None:
            self.keys.append(nn.squeeze(key, 0))
            self.values.append(nn.squeeze(value, 0))
            key, value = (nn.unsqueeze(cache.view(total), 0) for cache in (self.keys, self.values))
            mask = seen(x.shape[1], total)
        attended = nn.scaled_dot_product_attention(query, key, value, mask)
        return self.out_proj(nn.reshape(attended, x.shape))


def seen(new: Any, total: Any) -> nn.Tensor:
    """Which of ``total`` places the last ``new`` ones see: all before them and themselves."""
    places = nn.arange(total, dtype="int64")
    return nn.less_equal(places[None, :], nn.unsqueeze(places[total - new :], 1))


class CrossAttention(SelfAttention):
    """Attention to the encoder's states."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads, cached=False)

    def forward(self, x: nn.Tensor, states: nn.Tensor) -> nn.Tensor:  # type: ignore[override]
        query, key, value = self.by_head(self.q_proj(x)), self.by_head(self.k_proj(states)), self.by_head(self.v_proj(states))
        attended = nn.scaled_dot_product_attention(query, key, value)
        return self.out_proj(nn.reshape(attended, x.shape))


class Block(nn.Module):
    """Attention, attention to the encoder if it is a decoder's block, and two linear layers."""

    def __init__(self, width: int, heads: int, decodes: bool) -> None:
        self.self_attn, self.self_attn_layer_norm = SelfAttention(width, heads, decodes), nn.LayerNorm(width)
        if decodes:
            self.encoder_attn, self.encoder_attn_layer_norm = CrossAttention(width, heads), nn.LayerNorm(width)
        self.fc1, self.fc2, self.final_layer_norm = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.LayerNorm(width)

    def forward(self, x: nn.Tensor, states: nn.Tensor | None = None, total: Any = None) -> nn.Tensor:
        x = x + self.self_attn(self.self_attn_layer_norm(x), total)
        if states is not None:
            x = x + self.encoder_attn(self.encoder_attn_layer_norm(x), states)
        return x + self.fc2(nn.gelu(self.fc1(self.final_layer_norm(x))))


class Whisper(nn.Module):
    """``encode``: a spectrogram ``(1, mels, frames)`` to states; ``decode``: words ``(1, new)`` to scores of the next one."""

    def __init__(
        self, mels: int = 16, frames: int = 64, width: int = 48, heads: int = 4, layers: int = 2, words: int = 100, most: int = 32
    ) -> None:
        self.conv1, self.conv2 = nn.Conv1D(mels, width, 3, padding=1), nn.Conv1D(width, width, 3, 2, 1)
        self.embed_positions = nn.Embedding(frames // 2, width)
        self.encoder = nn.ModuleList([Block(width, heads, decodes=False) for _ in range(layers)])
        self.encoder_norm = nn.LayerNorm(width)
        self.embed_tokens, self.decoder_positions = nn.Embedding(words, width), nn.Embedding(most, width)
        self.decoder = nn.ModuleList([Block(width, heads, decodes=True) for _ in range(layers)])
        self.decoder_norm = nn.LayerNorm(width)

    def encode(self, spectrogram: nn.Tensor) -> nn.Tensor:
        x = nn.gelu(self.conv2(nn.gelu(self.conv1(spectrogram))))
        x = nn.permute_dims(x, [0, 2, 1]) + self.embed_positions.weight
        return self.encoder_norm(self.encoder(x))

    def decode(self, words: nn.Tensor, states: nn.Tensor, total: Any) -> nn.Tensor:
        places = nn.arange(total, dtype="int64")[total - words.shape[1] :]
        x = self.embed_tokens(words) + self.decoder_positions(places)
        for block in self.decoder:
            x = block(x, states, total)
        return nn.matmul(self.decoder_norm(x)[:, -1], nn.permute_dims(self.embed_tokens.weight, [1, 0]))


def specification(mels: int = 16, frames: int = 64, width: int = 48) -> dict[str, Any]:
    """Of both methods."""
    return {
        "encode": {"spectrogram": spec.Tensor([1, mels, frames], "float32")},
        "decode": {
            "words": spec.Tensor([1, "new"], "int64"), "states": spec.Tensor([1, frames // 2, width], "float32"), "total": "int"},
    }  # fmt: skip


def transcribe(run: Any, spectrogram: np.ndarray, begin: int = 1, most: int = 8) -> list[int]:
    """The words that the compiled model finds most likely, one by one."""
    states = run["encode"](spectrogram)
    words = [begin]
    while len(words) < most:
        words.append(int(run["decode"](np.array([words[-1:]]), states, len(words)).argmax()))
    return words


def main() -> None:
    model = Whisper()
    fill(model)
    run = model.jit(specification(), out_format="numpy")
    sound = np.random.default_rng(0).standard_normal((1, 16, 64)).astype(np.float32)
    print(f"words {transcribe(run, sound)}")


if __name__ == "__main__":
    main()
