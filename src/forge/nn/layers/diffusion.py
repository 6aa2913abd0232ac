"""Layers that tell a diffusion model which step it is at."""

from __future__ import annotations

from forge.errors import OptionError
from forge.nn import op
from forge.nn.layers.activations import GELU, ReLU, SiLU
from forge.nn.layers.linear import Linear
from forge.nn.module import Module
from forge.nn.tensor import Tensor

_ACTIVATIONS: dict[str, type[Module]] = {"silu": SiLU, "swish": SiLU, "gelu": GELU, "relu": ReLU}


def _activation(name: str, argument: str) -> Module:
    if name not in _ACTIVATIONS:
        raise OptionError(f"TimestepEmbedding: {argument}: got {name!r}; expected one of: {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]()


class Timesteps(Module):
    """`get_timestep_embedding` as a layer: ``(n,)`` to ``(n, num_channels)``."""

    def __init__(self, num_channels: int, flip_sin_to_cos: bool = False, downscale_freq_shift: float = 1) -> None:
        self.num_channels, self.flip_sin_to_cos, self.downscale_freq_shift = num_channels, flip_sin_to_cos, downscale_freq_shift

    def forward(self, x: Tensor) -> Tensor:
        """Steps ``(n,)``."""
        return op.get_timestep_embedding(x, self.num_channels, self.flip_sin_to_cos, self.downscale_freq_shift)


class TimestepEmbedding(Module):
    """Two linear layers with an activation between them, for embedded steps.

    Args:
        out_dim: numbers of the result; by default ``time_embed_dim``.
        post_act_fn: an activation at the end.
        cond_proj_dim: numbers of a condition, whose projection is added before.
    """

    def __init__(
        self, in_channels: int, time_embed_dim: int, act_fn: str = "silu", out_dim: int | None = None,
        post_act_fn: str | None = None, cond_proj_dim: int | None = None,
    ) -> None:  # fmt: skip
        self.linear_1 = Linear(in_channels, time_embed_dim)
        self.cond_proj = None if cond_proj_dim is None else Linear(cond_proj_dim, in_channels, bias=False)
        self.act = _activation(act_fn, "act_fn")
        self.linear_2 = Linear(time_embed_dim, time_embed_dim if out_dim is None else out_dim)
        self.post_act = None if post_act_fn is None else _activation(post_act_fn, "post_act_fn")

    def forward(self, sample: Tensor, condition: Tensor | None = None) -> Tensor:
        """``(n, in_channels)``, and a condition ``(n, cond_proj_dim)``."""
        if condition is not None:
            if self.cond_proj is None:
                raise OptionError("TimestepEmbedding: got a condition; expected none, as cond_proj_dim was not given")
            sample = sample + self.cond_proj(condition)
        hidden = self.linear_2(self.act(self.linear_1(sample)))
        return hidden if self.post_act is None else self.post_act(hidden)  # type: ignore[no-any-return]
