"""Speed of the hand-designed kernels on the layers of real networks, against the measured peak of one core.

    python -m benchmarks.kernels [--target "llvm -mcpu=x86-64-v3"] [--only resnet50] [--repeat 30]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from forge.backends import core_rates
from forge.driver import peaks
from forge.kernels.layouts import CpuLayouts
from forge.target import Target
from forge.target.blocking import channel_block
from tests.codegen.compiled import aligned, build
from tests.kernels.case import Case, Spec


@dataclass(frozen=True)
class Layer:
    """One kernel call of a network: its name, the case, the floating-point operations of one call."""

    name: str
    case: Case
    flops: int


def dense(target: Target, rows: int, depth: int, units: int) -> Layer:
    panel = CpuLayouts(target).dense_panel("float32", units, rows, depth)
    case = Case("dense_pack", [spec(rows, depth), spec(-(-units // panel), depth, panel)], spec(rows, units), {"units": units})
    return Layer(f"dense {rows}x{depth}x{units}", case, 2 * rows * depth * units)


def matmul(_: Target, batch: int, rows: int, depth: int, columns: int, transpose_b: bool) -> Layer:
    right = spec(batch, columns, depth) if transpose_b else spec(batch, depth, columns)
    case = Case("matmul", [spec(batch, rows, depth), right], spec(batch, rows, columns),
                {"transpose_a": False, "transpose_b": transpose_b})
    return Layer(f"matmul {batch}x[{rows}x{depth}x{columns}]{' b^T' if transpose_b else ''}", case,
                 2 * batch * rows * depth * columns)


def conv(target: Target, inner: int, out: int, size: int, kernel: int, stride: int) -> Layer:
    block, pad = channel_block(target), kernel // 2
    in_block = min(block, inner)
    positions = (size + 2 * pad - kernel) // stride + 1
    in_blocks, out_blocks = -(-inner // in_block), -(-out // block)
    case = Case("conv2d_nchwc", [spec(1, in_blocks, size, size, in_block),
                                 spec(out_blocks, in_blocks, kernel, kernel, in_block, block)],
                spec(1, out_blocks, positions, positions, block), attributes(kernel, stride) | {"in_channels": inner})
    return Layer(f"conv {inner}->{out} {size}x{size} k{kernel} s{stride}", case, 2 * inner * out * kernel**2 * positions**2)


def winograd(target: Target, inner: int, out: int, size: int, tile: int) -> Layer:
    """Counted as the direct sum, so that the rate compares with it."""
    block, positions = channel_block(target), (tile + 2) ** 2
    in_blocks, out_blocks = -(-inner // block), -(-out // block)
    weight = spec(out_blocks, positions, in_blocks, block, block)
    case = Case("conv2d_winograd_nchwc", [spec(1, in_blocks, size, size, block), weight], spec(1, out_blocks, size, size, block),
                attributes(3, 1) | {"in_channels": inner})
    return Layer(f"winograd {inner}->{out} {size}x{size} F({tile}x{tile})", case, 2 * inner * out * 9 * size**2)


def depthwise(target: Target, channels: int, size: int, kernel: int, stride: int) -> Layer:
    block = channel_block(target)
    blocks, pad = -(-channels // block), kernel // 2
    positions = (size + 2 * pad - kernel) // stride + 1
    case = Case("depthwise_conv2d_nchwc", [spec(1, blocks, size, size, block), spec(blocks, kernel, kernel, block)],
                spec(1, blocks, positions, positions, block), attributes(kernel, stride))
    return Layer(f"depthwise {channels} {size}x{size} k{kernel} s{stride}", case, 2 * channels * kernel**2 * positions**2)


def spec(*shape: int) -> Spec:
    return Spec(shape, alignment=64)


def attributes(kernel: int, stride: int) -> dict[str, object]:
    return {"strides": (stride, stride), "padding": (kernel // 2,) * 4, "dilation": (1, 1)}


NETWORKS: dict[str, list[tuple[Callable[..., Layer], tuple[object, ...]]]] = {
    "resnet50": [(conv, sizes) for sizes in [
        (3, 64, 224, 7, 2), (64, 64, 56, 1, 1), (64, 64, 56, 3, 1), (64, 256, 56, 1, 1), (256, 64, 56, 1, 1),
        (256, 128, 56, 1, 1), (128, 128, 56, 3, 2), (256, 512, 56, 1, 2), (128, 512, 28, 1, 1), (512, 128, 28, 1, 1),
        (128, 128, 28, 3, 1), (512, 256, 28, 1, 1), (256, 256, 28, 3, 2), (512, 1024, 28, 1, 2), (256, 1024, 14, 1, 1),
        (1024, 256, 14, 1, 1), (256, 256, 14, 3, 1), (1024, 512, 14, 1, 1), (512, 512, 14, 3, 2), (1024, 2048, 14, 1, 2),
        (512, 2048, 7, 1, 1), (2048, 512, 7, 1, 1), (512, 512, 7, 3, 1)]] + [(dense, (1, 2048, 1000))],
    "mobilenetv2": [
        (conv, (3, 32, 224, 3, 2)), (depthwise, (32, 112, 3, 1)), (conv, (32, 16, 112, 1, 1)), (conv, (16, 96, 112, 1, 1)),
        (depthwise, (96, 112, 3, 2)), (conv, (96, 24, 56, 1, 1)), (conv, (24, 144, 56, 1, 1)), (depthwise, (144, 56, 3, 1)),
        (conv, (144, 24, 56, 1, 1)), (depthwise, (144, 56, 3, 2)), (conv, (144, 32, 28, 1, 1)), (conv, (32, 192, 28, 1, 1)),
        (depthwise, (192, 28, 3, 1)), (conv, (192, 64, 14, 1, 1)), (conv, (64, 384, 14, 1, 1)), (depthwise, (384, 14, 3, 1)),
        (conv, (576, 96, 14, 1, 1)), (depthwise, (576, 14, 3, 2)), (conv, (160, 960, 7, 1, 1)), (depthwise, (960, 7, 3, 1)),
        (conv, (960, 160, 7, 1, 1)), (conv, (320, 1280, 7, 1, 1))],
    "bert": [(dense, (128, 768, 768)), (dense, (128, 768, 2304)), (dense, (128, 768, 3072)), (dense, (128, 3072, 768)),
             (matmul, (12, 128, 64, 128, True)), (matmul, (12, 128, 128, 64, False)), (dense, (1, 768, 768)),
             (dense, (1, 768, 3072))],
    "vit": [(dense, (197, 768, 768)), (dense, (197, 768, 3072)), (dense, (197, 3072, 768)),
            (matmul, (12, 197, 64, 197, True)), (matmul, (12, 197, 197, 64, False))],
    "winograd": [(winograd, (*sizes, tile)) for sizes in [
        (64, 64, 56), (128, 128, 28), (256, 256, 14), (512, 512, 7), (512, 512, 14), (64, 64, 224), (256, 256, 56),
        (512, 512, 28),
    ] for tile in (2, 4)],
    "vgg16": [(conv, sizes) for sizes in [(3, 64, 224, 3, 1), (64, 64, 224, 3, 1), (128, 128, 112, 3, 1),
                                          (256, 256, 56, 3, 1), (512, 512, 28, 3, 1), (512, 512, 14, 3, 1)]],
}


def measure(layer: Layer, target: Target, repeat: int) -> tuple[float, float]:
    """(seconds of one call, seconds to compile)."""
    rng = np.random.default_rng(0)
    begin = time.perf_counter()
    function = layer.case.function(target)
    kernel = build(function, target)
    compiled = time.perf_counter() - begin
    arrays = []
    for buffer in function.buffers:
        array = aligned(tuple(int(e.value) for e in buffer.shape))  # type: ignore[attr-defined]
        array[...] = rng.standard_normal(array.shape)
        arrays.append(array)
    return core_rates.best_seconds(lambda: kernel(*arrays), repeat), compiled


def selected(only: str | None) -> Iterator[tuple[str, Callable[..., Layer], tuple[object, ...]]]:
    for network, layers in NETWORKS.items():
        if only in (None, network):
            yield from ((network, make, sizes) for make, sizes in layers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--only", choices=list(NETWORKS))
    parser.add_argument("--repeat", type=int, default=30)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    target = Target.parse(options.target)
    peak = peaks.measure(target).flops / 1e9
    print(f"target {target}\npeak of one core: {peak:.0f} GFLOP/s (multiply-adds, {target.vector_bits} bits)\n")
    print(f"{'network':12}{'layer':34}{'ms':>9}{'GFLOP/s':>9}{'peak':>6}{'compile s':>11}")
    for network, make, sizes in selected(options.only):
        layer = make(target, *sizes)
        seconds, compiled = measure(layer, target, options.repeat)
        rate = layer.flops / seconds / 1e9
        print(f"{network:12}{layer.name:34}{1e3 * seconds:9.3f}{rate:9.1f}{rate / peak:6.0%}{compiled:11.2f}", flush=True)


if __name__ == "__main__":
    main()
