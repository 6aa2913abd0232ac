"""Random convolutions and matrix products next to oneDNN, as torch calls it.

    python -m benchmarks.shapes --count 300 --threads 1
    ONEDNN_MAX_CPU_ISA=AVX2 python -m benchmarks.shapes --target "llvm -mcpu=x86-64-v3"

Shapes are seeded and drawn from what networks have and what they rarely have: primes, few channels, strides, dilations, groups,
one to 4096 rows. A ratio is the time of torch over that of Forge: above 1, Forge is faster. Of a convolution the better of two
layouts of torch counts. Prints every shape as it is measured, then quantiles and the slowest shapes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from forge.driver import check_options, compile_module
from forge.driver.latency import measure
from forge.ir.builder import Builder
from forge.ir.graph import Module
from forge.ir.types import TensorType
from forge.target import Target

Array = NDArray[Any]
CHANNELS = (1, 3, 4, 7, 8, 13, 16, 24, 31, 32, 40, 48, 61, 64, 96, 100, 128, 160, 192, 256, 320, 384, 512, 768)
SIDES = (5, 7, 8, 13, 14, 17, 20, 28, 31, 40, 56, 64, 80, 112)
LENGTHS = (1, 3, 10, 24, 40, 64, 67, 100, 128, 197, 256, 333, 500, 512, 768, 1000, 1024, 1536, 3072)
MIN_WORK, MAX_WORK = 1e5, 1.5e9
"""Multiply-adds of a shape."""
TOLERANCE = 1e-3
"""Largest difference to torch, relative to the largest result: Winograd's, and sums in another order."""
_CPUS = frozenset(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Convolution:
    """Of one image, padded so that a stride of 1 keeps its size."""

    channels: int
    out_channels: int
    height: int
    width: int
    kernel: int
    stride: int
    dilation: int
    groups: int

    @property
    def work(self) -> float:
        area = (self.height // self.stride) * (self.width // self.stride)
        return area * self.out_channels * (self.channels // self.groups) * self.kernel**2

    @property
    def text(self) -> str:
        extra = "".join(f" {name}{value}" for name, value in (("s", self.stride), ("d", self.dilation), ("g", self.groups))
                        if value != 1)
        return f"conv {self.channels}x{self.height}x{self.width} {self.kernel}x{self.kernel} to {self.out_channels}{extra}"

    def arrays(self, rng: np.random.Generator) -> tuple[Array, Array]:
        weight = (self.out_channels, self.channels // self.groups, self.kernel, self.kernel)
        return _normal(rng, 1, self.channels, self.height, self.width), _normal(rng, *weight) / math.sqrt(math.prod(weight[1:]))

    @property
    def padding(self) -> int:
        return self.dilation * (self.kernel - 1) // 2

    def module(self, weight: Array) -> Module:
        b = Builder()
        x = b.input(TensorType((1, self.channels, self.height, self.width), "float32"), "x")
        made = b.call("nn.conv2d", x, b.constant(weight), channels=self.out_channels, kernel_size=(self.kernel,) * 2,
                      padding=(self.padding,) * 2, strides=(self.stride,) * 2, dilation=(self.dilation,) * 2, groups=self.groups)
        return Module(b.output(made))

    def torch(self, x: Array, weight: Array) -> dict[str, Callable[[], Any]]:
        import torch

        def call(layout: torch.memory_format) -> Callable[[], Any]:
            data, kernel = (torch.from_numpy(a).to(memory_format=layout) for a in (x, weight))
            return lambda: torch.nn.functional.conv2d(data, kernel, None, self.stride, self.padding, self.dilation, self.groups)

        return {"torch": call(torch.contiguous_format), "torch, channels last": call(torch.channels_last)}


@dataclass(frozen=True)
class Product:
    """``rows x depth`` times ``depth x columns``, for each of a batch; the right side is constant unless there is a batch."""

    batch: int
    rows: int
    depth: int
    columns: int

    @property
    def work(self) -> float:
        return self.batch * self.rows * self.depth * self.columns

    @property
    def text(self) -> str:
        return f"matmul {f'{self.batch} of ' if self.batch > 1 else ''}{self.rows}x{self.depth}x{self.columns}"

    def arrays(self, rng: np.random.Generator) -> tuple[Array, Array]:
        if self.batch == 1:
            return _normal(rng, self.rows, self.depth), _normal(rng, self.columns, self.depth)
        return _normal(rng, self.batch, self.rows, self.depth), _normal(rng, self.batch, self.depth, self.columns)

    def module(self, right: Array) -> Module:
        b = Builder()
        if self.batch == 1:
            x = b.input(TensorType((self.rows, self.depth), "float32"), "x")
            return Module(b.output(b.call("nn.dense", x, b.constant(right), units=self.columns)))
        x = b.input(TensorType((self.batch, self.rows, self.depth), "float32"), "x")
        y = b.input(TensorType(right.shape, "float32"), "y")
        return Module(b.output(b.call("nn.matmul", x, y)))

    def torch(self, x: Array, right: Array) -> dict[str, Callable[[], Any]]:
        import torch

        data, other = torch.from_numpy(x), torch.from_numpy(right)
        if self.batch == 1:
            return {"torch": lambda: torch.nn.functional.linear(data, other)}
        return {"torch": lambda: torch.matmul(data, other)}


Shape = Convolution | Product


@dataclass(frozen=True)
class Row:
    """What was measured of one shape: minima in seconds, and the largest relative difference."""

    shape: str
    work: float
    forge: float
    torch: float
    error: float

    @property
    def ratio(self) -> float:
        return self.torch / self.forge


def _normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape, np.float32)


def draw(count: int, seed: int, kinds: Sequence[str]) -> Iterator[Shape]:
    """``count`` shapes; the first ones of a seed are the same for every count."""
    rng = np.random.default_rng(seed)
    while count:
        shape = _convolution(rng) if rng.random() < 0.6 else _product(rng)
        wanted = ("conv" if isinstance(shape, Convolution) else "matmul") in kinds
        if wanted and MIN_WORK <= shape.work <= MAX_WORK:
            yield shape
            count -= 1


def _convolution(rng: np.random.Generator) -> Convolution:
    channels, out = (int(rng.choice(CHANNELS)) for _ in range(2))
    height, width = (int(rng.choice(SIDES)) for _ in range(2))
    kernel = int(rng.choice((1, 1, 3, 3, 3, 5, 7)))
    stride, dilation = int(rng.choice((1, 1, 2))), int(rng.choice((1, 1, 1, 2)))
    kind = rng.random()
    if kind < 0.2:
        return Convolution(channels, channels, height, width, kernel, stride, dilation, channels)
    groups = int(rng.choice((2, 4, 8))) if kind < 0.35 else 1
    groups = groups if channels % groups == 0 and out % groups == 0 else 1
    return Convolution(channels, out, height, width, kernel, stride, dilation if kernel > 1 else 1, groups)


def _product(rng: np.random.Generator) -> Product:
    rows = int(2 ** rng.uniform(0, 12))
    depth, columns = (int(rng.choice(LENGTHS)) for _ in range(2))
    batch = int(rng.choice((1, 1, 4, 12)))
    return Product(batch, rows, depth, columns)


@contextmanager
def all_cpus() -> Iterator[None]:
    """Lifts the restriction to some CPUs for as long as the compiler works; its processes inherit it."""
    restricted = os.sched_getaffinity(0)
    os.sched_setaffinity(0, _CPUS)
    try:
        yield
    finally:
        os.sched_setaffinity(0, restricted)


def run(shape: Shape, target: str, threads: int, rounds: int, seed: int) -> Row:
    """Compiles, compares and times one shape."""
    import torch

    torch.set_num_threads(threads)
    x, right = shape.arrays(np.random.default_rng(seed))
    with all_cpus():
        runtime = compile_module(shape.module(right), check_options(Target.parse(target))).runtime(num_threads=threads)
    inputs = [x] if len(runtime.input_names) == 1 else [x, right]
    calls: dict[str, Callable[[], Any]] = {"forge": lambda: runtime(*inputs)}
    with torch.inference_mode():
        calls |= shape.torch(x, right)
        results = {name: np.asarray(call()) for name, call in calls.items()}
        taken = measure(calls, rounds)
    expected = results[list(calls)[1]]
    error = float(np.abs(results["forge"] - expected).max() / max(np.abs(expected).max(), 1e-30))
    peers = min(found.minimum for name, found in taken.items() if name != "forge")
    return Row(shape.text, shape.work, taken["forge"].minimum, peers, error)


def summary(rows: Sequence[Row], worst: int) -> Iterator[str]:
    """Quantiles of the ratios, the slowest shapes and those that disagree, as lines."""
    ratios = np.array([row.ratio for row in rows])
    quantiles = ", ".join(f"{q:.0%}: {np.quantile(ratios, q):.2f}" for q in (0, 0.05, 0.25, 0.5, 0.75, 1))
    yield f"{len(rows)} shapes, ratio by quantile: {quantiles}"
    for row in sorted(rows, key=lambda row: row.ratio)[:worst]:
        yield line(row)
    yield from (f"WRONG {line(row)}" for row in rows if not row.error <= TOLERANCE)


def line(row: Row) -> str:
    ours, theirs = (f"{2e-9 * row.work / seconds:7.1f}" for seconds in (row.forge, row.torch))
    return f"{row.ratio:5.2f}  {1e3 * row.forge:8.3f} ms  forge {ours}  torch {theirs} GFLOP/s  {row.error:.0e}  {row.shape}"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; the exit status is 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("conv", "matmul"))
    parser.add_argument("--target", default="llvm", help="what Forge compiles for")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--worst", type=int, default=20, help="slow shapes to list")
    parser.add_argument("--json", type=Path, help="file for all rows")
    options = parser.parse_args(argv)
    console, rows = Console(highlight=False, soft_wrap=True), []
    kinds = (options.only,) if options.only else ("conv", "matmul")
    for shape in draw(options.count, options.seed, kinds):
        rows.append(run(shape, options.target, options.threads, options.rounds, options.seed))
        console.print(line(rows[-1]))
    for text in summary(rows, options.worst):
        console.print(text)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")
    return int(any(not row.error <= TOLERANCE for row in rows))


if __name__ == "__main__":
    sys.exit(main())
