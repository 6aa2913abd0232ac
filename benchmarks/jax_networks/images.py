"""Networks of images in flax, channels last: each with its variables and an example of its argument, as `sequences` has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from benchmarks.jax_networks.sequences import Builder, Built, variables

Array = Any
Activation = Callable[[Array], Array]


class Norm(nn.BatchNorm):
    """Batch normalization with the statistics of training."""

    use_running_average: bool | None = True


class Convolution(nn.Module):
    """A convolution without bias, batch normalization and an activation."""

    channels: int
    kernel: int
    stride: int = 1
    groups: int = 1
    activation: Activation | None = nn.relu

    @nn.compact
    def __call__(self, x: Array) -> Array:
        half = self.kernel // 2
        convolution = nn.Conv(
            self.channels, (self.kernel,) * 2, self.stride, [(half, half)] * 2, feature_group_count=self.groups, use_bias=False)
        x = Norm()(convolution(x))
        return x if self.activation is None else self.activation(x)


class Residual(nn.Module):
    """A residual block with two 3x3 convolutions, or a bottleneck."""

    channels: int
    stride: int
    bottleneck: bool

    @nn.compact
    def __call__(self, x: Array) -> Array:
        width = self.channels * 4 if self.bottleneck else self.channels
        if self.bottleneck:
            y = Convolution(self.channels, 3, self.stride)(Convolution(self.channels, 1)(x))
            y = Convolution(width, 1, activation=None)(y)
        else:
            y = Convolution(width, 3, activation=None)(Convolution(width, 3, self.stride)(x))
        if x.shape != y.shape:
            x = Convolution(width, 1, self.stride, activation=None)(x)
        return nn.relu(x + y)


class ResNet(nn.Module):
    blocks: Sequence[int]
    bottleneck: bool
    width: int = 64
    classes: int = 1000

    @nn.compact
    def __call__(self, x: Array) -> Array:
        x = nn.max_pool(Convolution(self.width, 7, 2)(x), (3, 3), (2, 2), [(1, 1)] * 2)
        for stage, count in enumerate(self.blocks):
            for index in range(count):
                x = Residual(self.width << stage, 2 if stage and index == 0 else 1, self.bottleneck)(x)
        return nn.Dense(self.classes)(x.mean((1, 2)))


class VGG(nn.Module):
    stages: Sequence[Sequence[int]]
    hidden: int
    classes: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        for stage in self.stages:
            for channels in stage:
                x = nn.relu(nn.Conv(channels, (3, 3))(x))
            x = nn.max_pool(x, (2, 2), (2, 2))
        x = x.reshape((x.shape[0], -1))
        for _ in range(2):
            x = nn.relu(nn.Dense(self.hidden)(x))
        return nn.Dense(self.classes)(x)


class SqueezeExcite(nn.Module):
    hidden: int
    inner: Activation
    gate: Activation

    @nn.compact
    def __call__(self, x: Array) -> Array:
        y = self.inner(nn.Conv(self.hidden, (1, 1))(x.mean((1, 2), keepdims=True)))
        return x * self.gate(nn.Conv(x.shape[-1], (1, 1))(y))


class Inverted(nn.Module):
    """Expand, filter depthwise, perhaps weigh the channels, project; adds the input where the shapes allow."""

    hidden: int
    channels: int
    kernel: int
    stride: int
    activation: Activation
    squeeze: int = 0
    inner: Activation = nn.relu
    gate: Activation = nn.hard_sigmoid

    @nn.compact
    def __call__(self, x: Array) -> Array:
        y = x if self.hidden == x.shape[-1] else Convolution(self.hidden, 1, activation=self.activation)(x)
        y = Convolution(self.hidden, self.kernel, self.stride, self.hidden, self.activation)(y)
        if self.squeeze:
            y = SqueezeExcite(self.squeeze, self.inner, self.gate)(y)
        y = Convolution(self.channels, 1, activation=None)(y)
        return x + y if x.shape == y.shape else y


class Mobile(nn.Module):
    """A stem, blocks, and a head: MobileNet V2 and V3, and EfficientNet."""

    stem: int
    blocks: Sequence[Inverted]
    last: int
    classes: int
    activation: Activation
    hidden: int = 0

    @nn.compact
    def __call__(self, x: Array) -> Array:
        x = Convolution(self.stem, 3, 2, activation=self.activation)(x)
        for block in self.blocks:
            x = block(x)
        x = Convolution(self.last, 1, activation=self.activation)(x).mean((1, 2))
        if self.hidden:
            x = self.activation(nn.Dense(self.hidden)(x))
        return nn.Dense(self.classes)(x)


class ConvNeXt(nn.Module):
    depths: Sequence[int]
    widths: Sequence[int]
    classes: int = 1000

    @nn.compact
    def __call__(self, x: Array) -> Array:
        for stage, (depth, width) in enumerate(zip(self.depths, self.widths)):
            patch = 2 if stage else 4
            x = nn.LayerNorm(1e-6)(x) if stage else x
            x = nn.Conv(width, (patch,) * 2, patch, "VALID")(x)
            x = x if stage else nn.LayerNorm(1e-6)(x)
            for block in range(depth):
                y = nn.LayerNorm(1e-6)(nn.Conv(width, (7, 7), feature_group_count=width)(x))
                y = nn.Dense(width)(nn.gelu(nn.Dense(4 * width)(y), approximate=False))
                x = x + self.param(f"scale_{stage}_{block}", nn.initializers.constant(1e-6), (width,)) * y
        return nn.Dense(self.classes)(nn.LayerNorm(1e-6)(x.mean((1, 2))))


class DenseNet(nn.Module):
    blocks: Sequence[int]
    growth: int
    stem: int
    classes: int = 1000

    @nn.compact
    def __call__(self, x: Array) -> Array:
        def normed(x: Array, channels: int, kernel: int) -> Array:
            return nn.Conv(channels, (kernel,) * 2, use_bias=False)(nn.relu(Norm()(x)))

        x = nn.max_pool(Convolution(self.stem, 7, 2)(x), (3, 3), (2, 2), [(1, 1)] * 2)
        for position, count in enumerate(self.blocks):
            for _ in range(count):
                x = jnp.concatenate((x, normed(normed(x, 4 * self.growth, 1), self.growth, 3)), -1)
            if position < len(self.blocks) - 1:
                x = nn.avg_pool(normed(x, x.shape[-1] // 2, 1), (2, 2), (2, 2))
        return nn.Dense(self.classes)(nn.relu(Norm()(x)).mean((1, 2)))


class UNet(nn.Module):
    width: int
    depth: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        skips = []
        for level in range(self.depth):
            x = Convolution(self.width << level, 3)(Convolution(self.width << level, 3)(x))
            skips.append(x)
            x = nn.max_pool(x, (2, 2), (2, 2))
        x = Convolution(self.width << self.depth, 3)(Convolution(self.width << self.depth, 3)(x))
        for level in reversed(range(self.depth)):
            up = nn.ConvTranspose(self.width << level, (2, 2), (2, 2))(x)
            x = jnp.concatenate((up, skips[level]), -1)
            x = Convolution(self.width << level, 3)(Convolution(self.width << level, 3)(x))
        return nn.sigmoid(nn.Conv(1, (1, 1))(x))


class Segmenter(nn.Module):
    """A residual network with dilated last stages, and a pyramid of dilated convolutions (DeepLab V3)."""

    blocks: Sequence[int]
    width: int
    channels: int
    classes: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        size = x.shape[1:3]
        x = nn.max_pool(Convolution(self.width, 7, 2)(x), (3, 3), (2, 2), [(1, 1)] * 2)
        for stage, count in enumerate(self.blocks):
            for index in range(count):
                x = Residual(self.width << stage, 2 if stage == 1 and index == 0 else 1, bottleneck=True)(x)
        branches = [Convolution(self.channels, 1)(x)]
        for rate in (6, 12, 18):
            y = nn.Conv(self.channels, (3, 3), kernel_dilation=rate, use_bias=False)(x)
            branches.append(nn.relu(Norm()(y)))
        mean = Convolution(self.channels, 1)(x.mean((1, 2), keepdims=True))
        branches.append(jnp.broadcast_to(mean, branches[0].shape))
        x = Convolution(self.channels, 3)(Convolution(self.channels, 1)(jnp.concatenate(branches, -1)))
        return jax.image.resize(nn.Conv(self.classes, (1, 1))(x), (x.shape[0], *size, self.classes), "bilinear")


class Detector(nn.Module):
    """Convolutions with SiLU, features of three sizes joined up and down, and boxes with scores (as YOLO)."""

    width: int
    depth: int
    classes: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        def block(x: Array, channels: int) -> Array:
            a, b = jnp.split(Convolution(channels, 1, activation=nn.silu)(x), 2, -1)
            parts = [a, b]
            for _ in range(self.depth):
                y = Convolution(channels // 2, 3, activation=nn.silu)(parts[-1])
                parts.append(parts[-1] + Convolution(channels // 2, 3, activation=nn.silu)(y))
            return Convolution(channels, 1, activation=nn.silu)(jnp.concatenate(parts, -1))

        def enlarged(x: Array) -> Array:
            return jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)

        levels = []
        x = Convolution(self.width, 3, 2, activation=nn.silu)(x)
        for level in range(1, 5):
            x = block(Convolution(self.width << level, 3, 2, activation=nn.silu)(x), self.width << level)
            levels.append(x)
        small, middle, large = levels[1:]
        middle = block(jnp.concatenate((enlarged(large), middle), -1), self.width << 3)
        small = block(jnp.concatenate((enlarged(middle), small), -1), self.width << 2)
        outputs = []
        for features, stride in ((small, 8), (middle, 16), (large, 32)):
            boxes = nn.Conv(64, (1, 1))(Convolution(64, 3, activation=nn.silu)(features))
            scores = nn.Conv(self.classes, (1, 1))(Convolution(self.classes, 3, activation=nn.silu)(features))
            n, h, w, _ = boxes.shape
            distances = nn.softmax(boxes.reshape(n, h * w, 4, 16)) @ jnp.arange(16.0) * stride
            y, x = jnp.meshgrid(jnp.arange(h), jnp.arange(w), indexing="ij")
            centres = (jnp.stack((x, y), -1).reshape(1, h * w, 2) + 0.5) * stride
            corners = jnp.concatenate((centres - distances[..., :2], centres + distances[..., 2:]), -1)
            outputs.append(jnp.concatenate((corners, nn.sigmoid(scores.reshape(n, h * w, -1))), -1))
        return jnp.concatenate(outputs, 1)


class SuperResolution(nn.Module):
    channels: int
    blocks: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        x = y = nn.Conv(self.channels, (3, 3))(x)
        for _ in range(self.blocks):
            y = y + 0.2 * nn.Conv(self.channels, (3, 3))(nn.relu(nn.Conv(self.channels, (3, 3))(y)))
        x = nn.Conv(4 * self.channels, (3, 3))(x + nn.Conv(self.channels, (3, 3))(y))
        n, h, w, _ = x.shape
        x = x.reshape(n, h, w, 2, 2, self.channels).transpose(0, 1, 3, 2, 4, 5).reshape(n, 2 * h, 2 * w, self.channels)
        return nn.Conv(3, (3, 3))(x)


class ViT(nn.Module):
    patch: int
    layers: int
    width: int
    heads: int
    classes: int = 1000

    @nn.compact
    def __call__(self, x: Array) -> Array:
        x = nn.Conv(self.width, (self.patch,) * 2, self.patch, "VALID")(x)
        x = x.reshape(x.shape[0], -1, self.width)
        first = self.param("class", nn.initializers.zeros, (1, 1, self.width))
        x = jnp.concatenate((jnp.broadcast_to(first, (x.shape[0], 1, self.width)), x), 1)
        x = x + self.param("positions", nn.initializers.normal(0.02), (1, x.shape[1], self.width))
        for _ in range(self.layers):
            y = nn.LayerNorm(1e-6)(x)
            x = x + nn.MultiHeadDotProductAttention(self.heads)(y, y)
            y = nn.gelu(nn.Dense(4 * self.width)(nn.LayerNorm(1e-6)(x)), approximate=False)
            x = x + nn.Dense(self.width)(y)
        return nn.Dense(self.classes)(nn.LayerNorm(1e-6)(x)[:, 0])


def _of(module: nn.Module, batch: int, size: int) -> Built:
    image = np.random.default_rng(1).standard_normal((batch, size, size, 3), np.float32)
    return module, variables(module, image), (image,)


def resnet18(small: bool, batch: int) -> Built:
    return _of(ResNet((1, 1), False, 8, 10) if small else ResNet((2, 2, 2, 2), False), batch, 32 if small else 224)


def resnet50(small: bool, batch: int) -> Built:
    return _of(ResNet((1, 1), True, 8, 10) if small else ResNet((3, 4, 6, 3), True), batch, 32 if small else 224)


def vgg(small: bool, batch: int) -> Built:
    if small:
        return _of(VGG(((8,), (16, 16)), 32, 10), batch, 32)
    return _of(VGG(((64,) * 2, (128,) * 2, (256,) * 3, (512,) * 3, (512,) * 3), 4096, 1000), batch, 224)


def mobilenetv2(small: bool, batch: int) -> Built:
    stages = ((1, 4, 1, 1), (6, 8, 2, 2), (6, 16, 1, 2)) if small else (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    stem = before = 8 if small else 32
    blocks = []
    for expansion, channels, count, stride in stages:
        for index in range(count):
            blocks.append(Inverted(before * expansion, channels, 3, stride if index == 0 else 1, nn.relu6))
            before = channels
    made = Mobile(stem, blocks, 40, 10, nn.relu6) if small else Mobile(stem, blocks, 1280, 1000, nn.relu6)
    return _of(made, batch, 32 if small else 224)


def mobilenetv3(small: bool, batch: int) -> Built:
    rows = ((3, 8, 8, 0, 0, 1), (5, 24, 12, 1, 0, 2), (3, 36, 20, 1, 1, 2)) if small else (
        (3, 16, 16, 0, 0, 1), (3, 64, 24, 0, 0, 2), (3, 72, 24, 0, 0, 1), (5, 72, 40, 1, 0, 2), (5, 120, 40, 1, 0, 1),
        (5, 120, 40, 1, 0, 1), (3, 240, 80, 0, 1, 2), (3, 200, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1),
        (3, 480, 112, 1, 1, 1), (3, 672, 112, 1, 1, 1), (5, 672, 160, 1, 1, 2), (5, 960, 160, 1, 1, 1), (5, 960, 160, 1, 1, 1))
    blocks = [
        Inverted(hidden, channels, kernel, stride, nn.hard_swish if swishes else nn.relu,
                 max(8, (hidden // 4 + 4) // 8 * 8) if squeezes else 0)
        for kernel, hidden, channels, squeezes, swishes, stride in rows]
    made = Mobile(8, blocks, 40, 10, nn.hard_swish, 24) if small else Mobile(16, blocks, 960, 1000, nn.hard_swish, 1280)
    return _of(made, batch, 32 if small else 224)


def efficientnet(small: bool, batch: int) -> Built:
    stages = ((1, 3, 4, 1, 1), (6, 5, 12, 2, 2), (4, 3, 20, 1, 2)) if small else (
        (1, 3, 16, 1, 1), (6, 3, 24, 2, 2), (6, 5, 40, 2, 2), (6, 3, 80, 3, 2), (6, 5, 112, 3, 1), (6, 5, 192, 4, 2),
        (6, 3, 320, 1, 1))
    stem = before = 8 if small else 32
    blocks = []
    for expansion, kernel, channels, count, stride in stages:
        for index in range(count):
            blocks.append(Inverted(
                before * expansion, channels, kernel, stride if index == 0 else 1, nn.silu, max(1, before // 4), nn.silu,
                nn.sigmoid))
            before = channels
    made = Mobile(stem, blocks, 40, 10, nn.silu) if small else Mobile(stem, blocks, 1280, 1000, nn.silu)
    return _of(made, batch, 32 if small else 224)


def convnext(small: bool, batch: int) -> Built:
    made = ConvNeXt((1, 2), (12, 24), 10) if small else ConvNeXt((3, 3, 9, 3), (96, 192, 384, 768))
    return _of(made, batch, 32 if small else 224)


def densenet(small: bool, batch: int) -> Built:
    made = DenseNet((2, 3), 6, 8, 10) if small else DenseNet((6, 12, 24, 16), 32, 64)
    return _of(made, batch, 32 if small else 224)


def unet(small: bool, batch: int) -> Built:
    return _of(UNet(4, 2) if small else UNet(32, 4), batch, 16 if small else 256)


def segmentation(small: bool, batch: int) -> Built:
    made = Segmenter((1, 1), 4, 8, 5) if small else Segmenter((3, 4, 6, 3), 64, 256, 21)
    return _of(made, batch, 32 if small else 256)


def yolo(small: bool, batch: int) -> Built:
    return _of(Detector(4, 1, 5) if small else Detector(16, 1, 80), batch, 64 if small else 640)


def edsr(small: bool, batch: int) -> Built:
    return _of(SuperResolution(5, 1) if small else SuperResolution(32, 8), batch, 16 if small else 128)


def vit(small: bool, batch: int) -> Built:
    return _of(ViT(8, 2, 16, 2, 10) if small else ViT(16, 12, 384, 6), batch, 32 if small else 224)


IMAGES: Mapping[str, Builder] = MappingProxyType({
    builder.__name__: builder for builder in (
        resnet18, resnet50, vgg, mobilenetv2, mobilenetv3, efficientnet, convnext, densenet, unet, segmentation, yolo, edsr, vit)
})
"""By name: of a small variant or not, and a batch -> what the head of `sequences` says."""

__all__ = ["IMAGES"]
