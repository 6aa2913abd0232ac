"""Times of a random forest next to onnxruntime: ``python -m benchmarks.trees [--trees 100] [--depth 8]``.

The forest is trained on made-up data. Compiled model and onnxruntime take turns in one process; of many rounds the least and the
median time count. Each number of threads is measured in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

BATCHES = (1, 100, 10000)
FEATURES = 30


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trees", description=__doc__)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--depth", type=int, default=8, help="of the deepest leaf; 0 for no limit")
    parser.add_argument("--classes", type=int, default=0, help="a classifier of so many classes instead of a regressor")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each batch")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, os.cpu_count() or 1])
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        _measure(options)
        return 0
    for threads in dict.fromkeys(options.threads):
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "FORGE_NUM_THREADS": str(threads)}
        command = [sys.executable, "-m", "benchmarks.trees", *sys.argv[1:], "--inside", "--threads", str(threads)]
        subprocess.run(command, check=True, env=environment)
    return 0


def _measure(options: argparse.Namespace) -> None:
    import onnxruntime

    import forge
    from benchmarks.forests import sklearn_forest, to_onnx
    from benchmarks.turns import take_turns
    from forge.driver import compile_module

    (threads,) = options.threads
    data, estimator = sklearn_forest(options.trees, options.depth or None, options.classes, FEATURES)
    model = to_onnx(estimator, FEATURES)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    compiled = compile_module(forge.from_onnx(model).typed_mod).runtime()
    for batch in BATCHES:
        rows = np.resize(data, (batch, FEATURES))
        variants: dict[str, Callable[[], Any]] = {
            "forge": lambda rows=rows: compiled(rows),  # type: ignore[misc]
            "onnxruntime": lambda rows=rows: session.run(None, {"x": rows}),  # type: ignore[misc]
        }
        times = take_turns(variants, options.seconds)
        text = "  ".join(f"{name} {min(t) * 1e6:9.1f} / {statistics.median(t) * 1e6:9.1f} us" for name, t in times.items())
        ratio = min(times["onnxruntime"]) / min(times["forge"])
        sys.stdout.write(f"{threads} threads, batch {batch:6}: {text}  (least / median)  {ratio:.2f}x\n")


if __name__ == "__main__":
    sys.exit(main())
