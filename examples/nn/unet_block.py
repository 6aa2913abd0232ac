"""A block of a diffusion U-Net: residual layers that know the step, attention to a prompt, and a change of resolution.

python -m examples.nn.unet_block
"""

from __future__ import annotations

import numpy as np

import forge
from examples.nn.weights import fill
from forge import nn
from forge.nn import spec


class ResidualLayer(nn.Module):
    """Two convolutions, between which the embedded step is added."""

    def __init__(self, inputs: int, channels: int, step_size: int, groups: int) -> None:
        self.norm1 = nn.GroupNorm(groups, inputs)
        self.conv1 = nn.Conv2D(inputs, channels, 3, padding=1)
        self.time_emb_proj = nn.Linear(step_size, channels)
        self.norm2 = nn.GroupNorm(groups, channels)
        self.conv2 = nn.Conv2D(channels, channels, 3, padding=1)
        self.conv_shortcut = nn.Conv2D(inputs, channels, 1) if inputs != channels else nn.Identity()

    def forward(self, x: nn.Tensor, step: nn.Tensor) -> nn.Tensor:
        y = self.conv1(nn.silu(self.norm1(x)))
        y = y + self.time_emb_proj(nn.silu(step))[:, :, None, None]
        y = self.conv2(nn.silu(self.norm2(y)))
        return self.conv_shortcut(x) + y


class TransformerLayer(nn.Module):
    """Attention of places to each other and to the prompt."""

    def __init__(self, channels: int, prompt_size: int, heads: int, groups: int) -> None:
        size = channels // heads
        self.norm = nn.GroupNorm(groups, channels, 1e-6)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(channels) for _ in range(3))
        self.attn1 = nn.Attention(channels, heads=heads, dim_head=size)
        self.attn2 = nn.Attention(channels, prompt_size, heads, size)
        self.up = nn.Linear(channels, 8 * channels)
        self.down = nn.Linear(4 * channels, channels)

    def forward(self, x: nn.Tensor, prompt: nn.Tensor) -> nn.Tensor:
        n, c, h, w = x.shape
        y = nn.reshape(nn.permute_dims(self.norm(x), [0, 2, 3, 1]), (n, h * w, c))
        y = y + self.attn1(self.norm1(y))
        y = y + self.attn2(self.norm2(y), prompt)
        value, gate = nn.split(self.up(self.norm3(y)), 2, axis=-1)
        y = y + self.down(value * nn.gelu(gate))
        return x + nn.permute_dims(nn.reshape(y, (n, h, w, c)), [0, 3, 1, 2])


class UNetBlock(nn.Module):
    """One level down and up again: ``(n, channels, h, w)`` to the same, for even ``h`` and ``w``."""

    def __init__(self, channels: int = 32, step_size: int = 128, prompt_size: int = 48, heads: int = 4, groups: int = 8) -> None:
        self.time_proj = nn.Timesteps(channels, flip_sin_to_cos=True, downscale_freq_shift=0)
        self.time_embedding = nn.TimestepEmbedding(channels, step_size)
        self.resnet1 = ResidualLayer(channels, channels, step_size, groups)
        self.downsample = nn.Conv2D(channels, 2 * channels, 3, 2, 1)
        self.resnet2 = ResidualLayer(2 * channels, 2 * channels, step_size, groups)
        self.attention = TransformerLayer(2 * channels, prompt_size, heads, groups)
        self.upsample = nn.Conv2D(2 * channels, channels, 3, padding=1)
        self.resnet3 = ResidualLayer(2 * channels, channels, step_size, groups)

    def forward(self, x: nn.Tensor, timestep: nn.Tensor, prompt: nn.Tensor) -> nn.Tensor:
        step = self.time_embedding(self.time_proj(timestep))
        skipped = self.resnet1(x, step)
        inner = self.attention(self.resnet2(self.downsample(skipped), step), prompt)
        back = self.upsample(nn.interpolate(inner, scale_factor=2.0, mode="nearest"))
        return self.resnet3(nn.concat([back, skipped], 1), step)


SPEC = {"forward": {
    "x": spec.Tensor(["batch", 32, 16, 16], "float32"),
    "timestep": spec.Tensor(["batch"], "float32"),
    "prompt": spec.Tensor(["batch", "words", 48], "float32"),
}}  # fmt: skip


def main() -> None:
    model = UNetBlock()
    fill(model)
    run = forge.compile(model.export(SPEC))
    rng = np.random.default_rng(0)
    image, prompt = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 32, 16, 16), (2, 7, 48)))
    print(f"result of shape {run(image, np.array([10, 500], np.float32), prompt).shape}")


if __name__ == "__main__":
    main()
