"""Time and memory of calibration, next to plain inference of the same samples.

    python -m benchmarks.quantization.calibration [MODEL] [--samples 1000] [--small]

Each runs in a process of its own, with compiled models from the cache. Memory is the peak of what
is resident; the time of compilation is told apart.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import forge
from benchmarks import models
from benchmarks.models import MODELS

WAYS = ("inference", "calibrate")
DISTINCT = 16
"""Samples that are made once and taken in turns, so that making them does not count."""


def measured(name: str, way: str, count: int, small: bool) -> dict[str, float]:
    """Seconds of all samples, seconds before the first, and resident bytes."""
    ir = forge.from_onnx(models.build(name, small=small))
    distinct = [models.inputs(name, seed=k, small=small) for k in range(DISTINCT)]
    started: list[float] = []

    def samples() -> Iterator[Mapping[str, Any]]:
        for k in range(count):
            started.append(time.perf_counter())
            yield distinct[k % DISTINCT]

    begin = time.perf_counter()
    if way == "calibrate":
        ir.calibrate(samples())
    else:
        run = ir.get_inference_function()
        for sample in samples():
            run(sample)
    end = time.perf_counter()
    steps = sorted(b - a for a, b in zip(started, [*started[1:], end]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"each": steps[len(steps) // 2], "least": steps[0], "before": started[0] - begin, "whole": end - begin, "bytes": peak}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", choices=list(MODELS), default="resnet50")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--small", action="store_true", help="the small variant")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.way:
        print(json.dumps(measured(options.model, options.way, options.samples, options.small)))
        return 0
    found = {}
    for way in WAYS:
        command = [sys.executable, "-m", "benchmarks.quantization.calibration", options.model, "--way", way, "--samples",
                   str(options.samples), *(["--small"] if options.small else [])]
        found[way] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        text = "each {each:.5f} s (least {least:.5f}), before the first {before:.2f} s, in all {whole:.2f} s"
        shown = text.format(**found[way])
        print(f"{way}: {shown}, {found[way]['bytes'] / 1e6:.0f} MB", flush=True)
    real, calibrated = found["inference"], found["calibrate"]
    more = (calibrated["bytes"] - real["bytes"]) / 1e6
    print(f"calibrate takes {calibrated['each'] / real['each']:.2f} times as long, and {more:.0f} MB more")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
