"""Layers of quantized models next to the same layers in float32, and in bfloat16 where the CPU multiplies it.

    python -m benchmarks.quantized_layers [MODEL ...] [--threads 1] [--seconds 6] [--by nncf] [--target TARGET]

A layer is a convolution or a product with what is fused into its kernels. The quantized model and the one that it was made of are
compiled with a clock between their kernels and run in turns; times are the least of each kernel. Listed are the layers that take
longer as integers than in the faster of the others.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import models
from benchmarks.quantized import USUAL, quantized
from forge.driver import check_options
from forge.driver.layer_times import Way, in_turns, way
from forge.frontends.onnx import import_model
from forge.ir.nodes import Node
from forge.target import Target
from forge.target.blocking import group_size

MIN_SHARE = 0.002
"""Of the time of the model: shorter layers are not told from noise."""

Layer = tuple[str, int, str]
"""Its sizes and how many layers of the same come before, which are equal in each way; and its shapes."""


def timed(path: Path, feed: Mapping[str, Any], threads: int, target: str, bfloat16: bool) -> Way:
    return way(import_model(path), check_options(target, bfloat16=bfloat16), feed, threads)


def layers_of(found: Way) -> dict[int, Layer]:
    """The layers of a model by the numbers of their kernels."""
    layers: dict[int, Layer] = {}
    seen: Counter[str] = Counter()
    for number, nodes in found.products.items():
        for node in nodes:
            size = sizes_of(node)
            shapes = " x ".join(str(v.shape) for v in node.operands[:2] if v is not None)
            layers[number] = (size, seen[size], f"{node.op.removeprefix('nn.').removeprefix('contrib_')} {shapes}")
            seen[size] += 1
    return layers


def sizes_of(node: Node) -> str:
    """Text that a layer has in each way: elements of the result, channels or depth, and the window of a convolution."""
    operand, attributes = node.operands[0], node.attributes
    assert operand is not None
    depth = attributes.get("in_channels") or operand.shape[-1]
    return f"{node.results[0].size} {depth} {attributes.get('kernel_size')}"


def measured(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds by way, of each layer; the last is the whole model."""
    feed = models.inputs(name, small=options.small)
    with tempfile.TemporaryDirectory() as folder:
        prepared, made = quantized(name, Path(folder), by=options.by, small=options.small)
        ways = {"int8": (made, False), "float32": (prepared, False)}
        if group_size(Target.parse(options.target), "bfloat16", "bfloat16") > 1:
            ways["bfloat16"] = (prepared, True)
        runs = {kind: timed(path, feed, options.threads, options.target, narrow) for kind, (path, narrow) in ways.items()}
        best = in_turns(runs, options.seconds)
    found: dict[tuple[str, int], dict[str, Any]] = defaultdict(dict)
    for kind, one in runs.items():
        for number, (size, position, label) in layers_of(one).items():
            times = {kind: float(best[kind][number])}
            found[size, position] |= times | ({"layer": label} if kind == "int8" else {})
    return [*found.values(), {kind: float(times.sum()) for kind, times in best.items()}]


def is_slower(times: Mapping[str, Any], whole: float) -> bool:
    """Whether a layer takes longer as integers."""
    others = [times[way] for way in ("float32", "bfloat16") if way in times]
    return "int8" in times and bool(others) and times["int8"] > max(min(others), MIN_SHARE * whole)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=USUAL, metavar="MODEL")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6.0, help="of calls, for each model")
    parser.add_argument("--by", choices=("onnxruntime", "nncf"), default="onnxruntime", help="what quantizes")
    parser.add_argument("--small", action="store_true", help="the small variants, as tests take them")
    parser.add_argument("--target", default="llvm")
    options = parser.parse_args(arguments)
    table = Table("model", "layer", "int8, us", "float32, us", "bfloat16, us", "of the model, %")
    for name in options.models:
        *layers, whole = measured(name, options)
        rows = [times for times in layers if is_slower(times, whole["int8"])]
        compared = sum("int8" in times and len(times) > 2 for times in layers)
        shown = ", ".join(f"{way} {1e3 * seconds:.2f} ms" for way, seconds in whole.items())
        print(f"{name}\t{len(rows)} of {compared} layers are slower\t{shown}", flush=True)
        for times in rows:
            cells = [f"{1e6 * times[way]:.0f}" if way in times else "-" for way in ("int8", "float32", "bfloat16")]
            table.add_row(name, times["layer"], *cells, f"{100 * times['int8'] / whole['int8']:.1f}")
    Console(width=120).print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
