"""Random PyTorch modules: layers and functions with unusual parameters, views, writes in place, several types, dynamic sizes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Tensor = Any  # torch's, whose types are not checked here
Step = Callable[[Tensor], Tensor]
Maker = Callable[[random.Random, Tensor], Step | None]
"""A step for tensors like the one given, with random parameters; None where it does not fit."""


TYPES = (torch.float32, torch.float64, torch.bfloat16)


class RandomModule(nn.Module):
    """Applies steps one after the other; some also see what the one before gave, through a residual."""

    def __init__(self, steps: list[tuple[str, Step]]) -> None:
        super().__init__()
        self.names = [name for name, _ in steps]
        self.layers = nn.ModuleList(step for _, step in steps if isinstance(step, nn.Module))
        self.steps = [step for _, step in steps]

    def forward(self, x: Tensor) -> Tensor:
        for step in self.steps:
            x = step(x)
        return x


@dataclass
class RandomCase:
    """A module, its example, and the sizes of the first dimension to call it with."""

    module: nn.Module
    example: Tensor
    names: list[str]
    is_dynamic: bool


def make(seed: int, most: int = 6) -> RandomCase:
    """The case of a seed: up to ``most`` steps, of which each was run once in eager mode."""
    choose = random.Random(seed)
    torch.manual_seed(seed)
    rank = choose.choice((2, 3, 3, 4, 4, 4))
    shape = [choose.randint(2, 3), choose.choice((3, 4, 6, 8)), *(choose.randint(4, 11) for _ in range(rank - 2))]
    example = torch.randn(shape)
    steps: list[tuple[str, Step]] = []
    x = example.clone()
    for _ in range(choose.randint(1, most)):
        name = choose.choice(sorted(MAKERS))
        step = MAKERS[name](choose, x)
        if step is None:
            continue
        if isinstance(step, nn.Module):
            step.eval()
        try:
            with torch.no_grad():
                y = step(x.clone())
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
            continue
        if not 0 < y.numel() <= 20_000 or y.dtype not in TYPES or not bool(y.isfinite().all()):
            continue
        x = y
        steps.append((name, step))
    return RandomCase(RandomModule(steps).eval(), example, [n for n, _ in steps], choose.random() < 0.5)


def _window(choose: random.Random, count: int) -> Any:
    return choose.randint(1, 3) if choose.random() < 0.5 else tuple(choose.randint(1, 3) for _ in range(count))


def _conv(choose: random.Random, x: Tensor) -> Step | None:
    if x.dim() not in (3, 4):
        return None
    count, channels = x.dim() - 2, x.shape[1]
    groups = choose.choice([g for g in (1, 2, 3, channels) if channels % g == 0])
    kind = choose.choice(("zeros", "zeros", "reflect", "replicate", "circular"))
    padding: Any = choose.choice((0, 1, 2, "same", "valid")) if kind == "zeros" else choose.randint(0, 2)
    stride = 1 if padding == "same" else _window(choose, count)
    made = (nn.Conv1d, nn.Conv2d)[count - 1](
        channels, groups * choose.randint(1, 4), _window(choose, count), stride=stride, padding=padding,
        dilation=_window(choose, count), groups=groups, bias=choose.random() < 0.7, padding_mode=kind)
    return made.to(x.dtype)


def _conv_transpose(choose: random.Random, x: Tensor) -> Step | None:
    if x.dim() not in (3, 4):
        return None
    count, channels = x.dim() - 2, x.shape[1]
    groups = choose.choice([g for g in (1, 2, channels) if channels % g == 0])
    stride = choose.randint(1, 3)
    made = (nn.ConvTranspose1d, nn.ConvTranspose2d)[count - 1](
        channels, groups * choose.randint(1, 3), _window(choose, count), stride=stride, padding=choose.randint(0, 1),
        output_padding=choose.randint(0, stride - 1), groups=groups, bias=choose.random() < 0.7, dilation=choose.randint(1, 2))
    return made.to(x.dtype)


def _pool(choose: random.Random, x: Tensor) -> Step | None:
    if x.dim() not in (3, 4):
        return None
    count, kernel = x.dim() - 2, choose.randint(1, 4)
    options: dict[str, Any] = {"stride": choose.randint(1, 3), "padding": choose.randint(0, kernel // 2)}
    kind = choose.choice(("max", "avg", "adaptive avg", "adaptive max", "lp"))
    pick = count - 1
    if kind == "max":
        return (nn.MaxPool1d, nn.MaxPool2d)[pick](kernel, **options, dilation=choose.randint(1, 2), ceil_mode=_flip(choose))
    if kind == "avg":
        return (nn.AvgPool1d, nn.AvgPool2d)[pick](kernel, **options, ceil_mode=_flip(choose), count_include_pad=_flip(choose))
    if kind == "lp":
        return (nn.LPPool1d, nn.LPPool2d)[pick](2.0, kernel, options["stride"], _flip(choose))
    size = choose.randint(1, 5)
    return {"adaptive avg": (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d), "adaptive max": (nn.AdaptiveMaxPool1d,
                                                                                        nn.AdaptiveMaxPool2d)}[kind][pick](size)


def _flip(choose: random.Random) -> bool:
    return choose.random() < 0.5


def _norm(choose: random.Random, x: Tensor) -> Step | None:
    channels = x.shape[1]
    made: nn.Module
    kind = choose.choice(("batch", "layer", "group", "instance", "rms", "local"))
    if kind == "batch":
        made = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}[x.dim()](channels, eps=1e-3, affine=_flip(choose))
        nn.init.uniform_(made.running_mean)
        nn.init.uniform_(made.running_var, 0.5, 2)
    elif kind == "layer":
        made = nn.LayerNorm(x.shape[-choose.randint(1, x.dim() - 1):], elementwise_affine=_flip(choose))
    elif kind == "group":
        made = nn.GroupNorm(choose.choice([g for g in (1, 2, 3, channels) if channels % g == 0]), channels, affine=_flip(choose))
    elif kind == "rms":
        made = nn.RMSNorm(x.shape[-1], eps=1e-6, elementwise_affine=_flip(choose))
    elif kind == "local":
        made = nn.LocalResponseNorm(choose.randint(1, 4), alpha=0.1)
    elif x.dim() > 2:
        made = (nn.InstanceNorm1d, nn.InstanceNorm2d)[x.dim() - 3](channels, affine=_flip(choose))
    else:
        return None
    return made.to(x.dtype)


def _activation(choose: random.Random, x: Tensor) -> Step:
    a = choose.uniform(0.1, 2)
    return choose.choice((
        nn.ReLU(_flip(choose)), nn.ReLU6(), nn.LeakyReLU(a), nn.ELU(a), nn.CELU(a), nn.SELU(), nn.GELU(choose.choice(("none",
        "tanh"))),
        nn.SiLU(_flip(choose)), nn.Mish(), nn.Softplus(a, choose.uniform(1, 20)), nn.Softshrink(a / 4), nn.Hardshrink(a / 4),
        nn.Hardsigmoid(), nn.Hardswish(), nn.Hardtanh(-a, 2 * a), nn.PReLU(x.shape[1]).to(x.dtype), nn.Threshold(0.1, a),
        nn.Sigmoid(),
        nn.Tanh(), nn.Softsign(), nn.Tanhshrink(), nn.LogSigmoid(), nn.Softmax(choose.randint(-x.dim(), x.dim() - 1)),
        nn.LogSoftmax(choose.randint(0, x.dim() - 1)), nn.Softmin(-1), nn.GLU(choose.randint(0, x.dim() - 1)),
    ))


def _recurrent(choose: random.Random, x: Tensor) -> Step | None:
    if x.dim() != 3:
        return None
    kind = choose.choice((nn.LSTM, nn.GRU, nn.RNN))
    options = {"proj_size": 2} if kind is nn.LSTM and choose.random() < 0.2 else {}
    layer = kind(x.shape[2], choose.randint(3, 5), num_layers=choose.randint(1, 2), bias=_flip(choose), batch_first=_flip(choose),
                 bidirectional=_flip(choose), **options).to(x.dtype)
    return First(layer)


class First(nn.Module):
    """The first result of a module."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.inner(x)[0]
        return found


def _linear(choose: random.Random, x: Tensor) -> Step:
    return nn.Linear(x.shape[-1], choose.randint(1, 9), bias=_flip(choose)).to(x.dtype)


def _encoder(choose: random.Random, x: Tensor) -> Step | None:
    if x.dim() != 3 or x.shape[2] % 2:
        return None
    return nn.TransformerEncoderLayer(x.shape[2], 2, 12, activation=choose.choice(("relu", "gelu")), batch_first=_flip(choose),
                                      norm_first=_flip(choose)).to(x.dtype)


def _reduction(choose: random.Random, x: Tensor) -> Step:
    axes = tuple(sorted(choose.sample(range(x.dim()), choose.randint(1, x.dim() - 1))))
    keep = _flip(choose) or x.dim() - len(axes) < 2
    return choose.choice((
        lambda t: t.sum(axes, keepdim=keep), lambda t: t.mean(axes, keepdim=keep), lambda t: t.amax(axes, keepdim=keep),
        lambda t: t.std(axes, keepdim=keep), lambda t: t.var(axes, correction=0, keepdim=keep),
        lambda t: torch.logsumexp(t, axes, keepdim=keep), lambda t: t.norm(dim=axes, keepdim=keep),
        lambda t: t.max(axes[0], keepdim=True).values, lambda t: t.cumsum(axes[0]), lambda t: t.cummax(axes[0]).values,
        lambda t: t.prod(axes[0], keepdim=True), lambda t: t.median(axes[0], keepdim=True).values,
        lambda t: F.normalize(t, dim=axes[0]), lambda t: t.any(axes[0], keepdim=True).to(t.dtype),
    ))


def _shape(choose: random.Random, x: Tensor) -> Step:
    a, b = (choose.randint(-x.dim(), x.dim() - 1) for _ in range(2))
    order = choose.sample(range(x.dim()), x.dim())
    begin, step = choose.randint(-2, 1), choose.randint(1, 2)
    size = choose.randint(1, 3)
    return choose.choice((
        lambda t: t.transpose(a, b), lambda t: t.permute(order), lambda t: t.flip(a), lambda t: t.roll(size, a),
        lambda t: t.unsqueeze(1).expand(-1, 2, *t.shape[1:]).flatten(0, 1) if t.dim() < 4 else t,
        lambda t: t.flatten(1) if t.dim() > 2 else t.unsqueeze(2), lambda t: t[:, begin:], lambda t: t[:, ::step],
        lambda t: torch.cat([t, t * 2], a), lambda t: torch.stack(t.unbind(1), 1), lambda t: t.narrow(1, 0, min(2, t.shape[1])),
        lambda t: torch.cat(t.split(size, 1)[::-1], 1), lambda t: torch.cat(t.chunk(2, 1), 1),
        lambda t: t.repeat(*[1] * (t.dim() - 1), 2),
        lambda t: t.reshape(t.shape[0], -1, t.shape[-1]), lambda t: t.repeat_interleave(2, 1), lambda t: t.tril(),
        lambda t: F.pad(t, (1, 2), value=0.5), lambda t: F.pad(t, (1, -1, 0, 1)), lambda t: t.diff(dim=1),
        lambda t: t.movedim(a, b),
        lambda t: t.index_select(1, torch.tensor([0, 1, 0])), lambda t: t[:, [1, 0]], lambda t: t.topk(2, dim=1).values,
        lambda t: t.sort(dim=-1, descending=True).values, lambda t: t.gather(1, t.argsort(1)),
        lambda t: t.unfold(1, 2, 1).sum(-1),
    ))


def _arithmetic(choose: random.Random, x: Tensor) -> Step:
    a, bias = choose.uniform(0.3, 2), torch.randn(x.shape[-1], dtype=x.dtype)
    return choose.choice((
        lambda t: t * a + 1, lambda t: t - t.mean(), lambda t: a / (t.abs() + 1), lambda t: t @ t.transpose(-1, -2),
        lambda t: torch.where(t > 0, t, -a), lambda t: t.clamp(-a, a), lambda t: t.masked_fill(t < -a, 0.25), lambda t: t + bias,
        lambda t: torch.sin(t).exp(), lambda t: t.abs().sqrt().rsqrt().clamp(max=3), lambda t: t.pow(3),
        lambda t: t.square().log1p(),
        lambda t: torch.maximum(t, t.roll(1, 1)), lambda t: torch.lerp(t, t.flip(0), 0.25), lambda t: t.remainder(a),
        lambda t: t.fmod(a),
        lambda t: torch.einsum("b...i,b...i->b...", t, t).unsqueeze(-1), lambda t: t.atan2(t.roll(1, 1) + 3), lambda t: t // a,
        lambda t: torch.logaddexp(t, t * a), lambda t: t.erf() + t.tanh(), lambda t: t.floor() + t.ceil() + t.round() + t.trunc(),
        lambda t: t.to(torch.float64), lambda t: t.to(torch.float32), lambda t: (t > 0).to(t.dtype) + (t != t).logical_not(),
        lambda t: t.addcmul(t, t, value=a), lambda t: t * t.shape[0], lambda t: t + torch.arange(t.shape[-1], dtype=t.dtype),
        lambda t: t + torch.ones_like(t) * t.new_full((1,), a), lambda t: t.softmax(-1) @ t.transpose(-1, -2),
    ))


def _in_place(choose: random.Random, x: Tensor) -> Step:
    a = choose.uniform(0.3, 2)

    def assigned(t: Tensor) -> Tensor:
        u = t.clone()
        u[:, 0] = a
        u[:, 1:].mul_(2)
        return u

    def through_views(t: Tensor) -> Tensor:
        u = t + 1
        v = u.transpose(0, 1)
        v[0].add_(a)
        u.select(1, 1).zero_()
        return u * v.sum()

    def in_parts(t: Tensor) -> Tensor:
        u = t * 1
        first, *rest = u.split(1, 1)
        first.fill_(a)
        return u + (rest[0] if rest else first)

    def updated(t: Tensor) -> Tensor:
        u = t.clone()
        u.relu_().add_(t, alpha=a).clamp_(max=2)
        u.unsqueeze(0).sub_(1)
        return u

    def masked(t: Tensor) -> Tensor:
        u = t.clone()
        u[u > a] = 0
        u.index_fill_(1, torch.tensor([0]), 3.0)
        return u

    return choose.choice((assigned, through_views, in_parts, updated, masked))


def _resample(choose: random.Random, x: Tensor) -> Step | None:
    if x.dim() == 4:
        mode = choose.choice(("nearest", "nearest-exact", "bilinear", "bicubic", "area"))
        corners = {"align_corners": _flip(choose)} if mode in ("bilinear", "bicubic") else {}
        size = (choose.randint(3, 9), choose.randint(3, 9))
        return choose.choice((
            lambda t: F.interpolate(t, size=size, mode=mode, **corners),
            lambda t: F.interpolate(t, scale_factor=1.5, mode=mode, **corners),
            lambda t: F.pad(t, (1, 1, 1, 1), mode="reflect"), lambda t: F.pad(t, (2, 1), mode="replicate"),
            lambda t: F.unfold(t, 2, stride=2),
            lambda t: F.pixel_unshuffle(t[:, :, : t.shape[2] // 2 * 2, : t.shape[3] // 2 * 2], 2),
            lambda t: F.grid_sample(t, F.affine_grid(torch.eye(2, 3).expand(t.shape[0], 2, 3), (t.shape[0], t.shape[1], 4, 5),
                                                     align_corners=False), align_corners=False),
        ))
    if x.dim() == 3:
        return choose.choice((
            lambda t: F.interpolate(t, scale_factor=2, mode="linear"), lambda t: F.interpolate(t, size=5), nn.ZeroPad1d(1),
            lambda t: F.scaled_dot_product_attention(t, t, t, is_causal=True), lambda t: F.pad(t, (1, 2), mode="circular"),
            lambda t: F.scaled_dot_product_attention(t, t, t * 2, attn_mask=t @ t.transpose(1, 2) > -1),
        ))
    return None


MAKERS: Mapping[str, Maker] = MappingProxyType({
    "conv": _conv, "conv_transpose": _conv_transpose, "pool": _pool, "norm": _norm, "activation": _activation,
    "recurrent": _recurrent,
    "linear": _linear, "encoder": _encoder, "reduction": _reduction, "shape": _shape, "arithmetic": _arithmetic,
    "in_place": _in_place, "resample": _resample,
})
