"""The same network loaded from torch and through ONNX: time to load, and latency of the compiled models in turns.

    python -m benchmarks.doors [MODEL ...] [--seconds 5] [--threads 1] [--small]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks import models
from benchmarks.turns import take_turns


def measure(name: str, *, small: bool, threads: int, seconds: float) -> tuple[float, float, dict[str, list[float]]]:
    """Seconds to load from an exported program, and from an ONNX file; times of the calls by door."""
    import torch

    import forge
    from forge.driver import compile_module

    arrays = list(models.inputs(name, small=small).values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(models.network(name, small=small), tuple(map(torch.from_numpy, arrays)))
    path = models.build(name, small=small)
    loads, runs = [], {}
    doors: dict[str, Callable[[], forge.IRModule]] = {
        "torch": lambda: forge.from_torch(exported), "onnx": lambda: forge.from_onnx(path)}
    for door, load in doors.items():
        begin = time.perf_counter()
        module = load()
        loads.append(time.perf_counter() - begin)
        runs[door] = compile_module(module.mod).runtime(num_threads=threads)
    times = take_turns({door: lambda run=run: run(*arrays) for door, run in runs.items()}, seconds)  # type: ignore[misc]
    return loads[0], loads[1], times


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.doors", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", choices=[*models.MODELS, []], help="all if none is given")
    parser.add_argument("--small", action="store_true", help="the small variants")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0, help="of calls, for each model")
    options = parser.parse_args(arguments)
    table = Table("model", "load, s: torch", "onnx", "ms: torch", "onnx", "onnx / torch: least", "median")
    for name in options.models or models.MODELS:
        torch_load, onnx_load, times = measure(name, small=options.small, threads=options.threads, seconds=options.seconds)
        least, median = ({door: f(t) for door, t in times.items()} for f in (min, statistics.median))
        table.add_row(name, f"{torch_load:.2f}", f"{onnx_load:.2f}", *(f"{1e3 * least[d]:.3f}" for d in ("torch", "onnx")),
                      *(f"{by['onnx'] / by['torch']:.3f}" for by in (least, median)))
    Console(width=120).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
