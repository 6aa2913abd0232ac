"""One model called by many threads at once: calls a second with 1, 2, 4 and 16 callers, beside onnxruntime.

    python -m benchmarks.callers [--small] [--seconds 1] [--rounds 5] [--threads 1] [MODEL ...]

Every caller has inputs of its own. Runtimes and numbers of callers take turns; the best and the median round are shown. With one
thread a call, calls a second should grow with the callers until the CPUs are busy, and then stay.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import forge
from benchmarks import models
from forge import peers

CALLERS = (1, 2, 4, 16)
MODELS = ("mlp", "resnet18", "bert")


def rate(call: Callable[[], Any], callers: int, seconds: float) -> float:
    """Calls a second of all callers together."""
    counts = [0] * callers
    start = threading.Barrier(callers + 1)
    stop = threading.Event()

    def work(number: int) -> None:
        start.wait()
        while not stop.is_set():
            call()
            counts[number] += 1

    workers = [threading.Thread(target=work, args=(number,)) for number in range(callers)]
    for worker in workers:
        worker.start()
    start.wait()
    began = time.perf_counter()
    time.sleep(seconds)
    stop.set()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - began)


def variants(name: str, small: bool, threads: int) -> dict[str, Callable[[], Any]]:
    """A call of the model by each runtime."""
    path = Path(models.build(name, small=small))
    feed = models.inputs(name, small=small)
    runtime = forge.Runtime(_compiled(path), num_threads=threads)
    arrays = [feed[name] for name in runtime.input_names]
    return {"forge": lambda: runtime(*arrays), "onnxruntime": peers.LOADERS["onnxruntime"](path, feed, threads)}


def _compiled(path: Path) -> Path:
    folder = path.with_suffix(".callers")
    forge.from_onnx(path).compile(output_path=folder, force_overwrite=True)
    return folder


def measure(calls: dict[str, Callable[[], Any]], seconds: float, rounds: int) -> dict[tuple[str, int], list[float]]:
    """Calls a second by runtime and number of callers, one for each round."""
    found: dict[tuple[str, int], list[float]] = {}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for callers in CALLERS:
            for name, call in calls.items():
                found.setdefault((name, callers), []).append(rate(call, callers, seconds))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"one of {', '.join(models.MODELS)}; else {', '.join(MODELS)}")
    parser.add_argument("--small", action="store_true", help="the small variants")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of each call")
    options = parser.parse_args(arguments)
    console = Console()
    for name in options.models or MODELS:
        found = measure(variants(name, options.small, options.threads), options.seconds, options.rounds)
        shown = Table("callers", "forge", "against 1", "onnxruntime", "forge is", title=f"{name}: calls a second, best (median)")
        for callers in CALLERS:
            own, other = found["forge", callers], found["onnxruntime", callers]
            growth, ratio = max(own) / max(found["forge", 1]), max(own) / max(other)
            shown.add_row(str(callers), _cell(own), f"{growth:.2f}x", _cell(other), f"{ratio:.2f}x as fast")
        console.print(shown)
    return 0


def _cell(rates: Sequence[float]) -> str:
    return f"{max(rates):.1f} ({statistics.median(rates):.1f})"


if __name__ == "__main__":
    sys.exit(main())
