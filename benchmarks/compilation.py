"""Time and memory of compilation: from an ONNX file to a library, cold, changed, and from the compile cache.

    python -m benchmarks.compilation [--small] [--weights inside|beside] [--gigabytes SIZE] [MODEL ...]

Every measurement runs in a process of its own, with a compile cache that starts empty. ``changed`` is the model with its outputs
negated, which finds the object code of its other kernels, ``cached`` the same model again. ``cpu`` are seconds of all processes,
loading and ``import`` included. ``peak`` is the largest sum of anonymous pages (``RssAnon``) of the process and its descendants
in MB, sampled every few milliseconds: what a machine without swap must have. Pages of mapped files are not counted.
``--gigabytes`` measures a made-up model of that size, dense layers whose weights are external data, instead of the networks.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

from benchmarks import models

MEGABYTE = 10**6
WIDTH = 8192 + 8
"""Of the layers of a made-up model: 269 MB each, not a whole number of panels."""

SCRATCH = os.environ.get("TMPDIR", "/var/tmp")  # a disk: /tmp may be memory
STATES = ("cold", "changed", "cached")

INTERVAL = 0.005
"""Seconds between two looks at the memory of processes."""


class PeakMemory:
    """The largest sum of anonymous pages of a process and its descendants, in bytes, while the context is open."""

    def __init__(self, root: int) -> None:
        self.bytes = 0
        self._root = root
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(INTERVAL):
            self.bytes = max(self.bytes, sum(map(_anonymous_bytes, _descendants(self._root))))


def _descendants(root: int) -> list[int]:
    found = [root]
    for process in found:
        for task in Path(f"/proc/{process}/task").glob("*/children"):
            try:
                found.extend(map(int, task.read_text().split()))
            except OSError:
                continue  # it ended meanwhile
    return found


def _anonymous_bytes(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("RssAnon")), 0)


def cpu_seconds() -> float:
    """What this process and its descendants, those that have ended included, have spent so far."""
    ticks = sum(sum(map(int, text.rpartition(")")[2].split()[11:15])) for text in map(_statistics, _descendants(os.getpid())))
    return ticks / os.sysconf("SC_CLK_TCK")


def _statistics(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text()


def measure(path: Path, arguments: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    """For each of ``STATES``: seconds of the phases, megabytes of the peak and of the artifact."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        return {state: _child(path, Path(folder), state, arguments) for state in STATES}


def _child(path: Path, folder: Path, state: str, arguments: Sequence[str]) -> dict[str, float]:
    environment = {**os.environ, "FORGE_CACHE": "1", "FORGE_CACHE_DIR": str(folder / "cache")}
    os.sync()  # what was written before is not written to the disk now
    command = [sys.executable, "-m", "benchmarks.compilation", "--child", str(path), "--output", str(folder / state), *arguments]
    command += ["--changed"] if state == "changed" else []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child, PeakMemory(child.pid) as peak:
        printed, _ = child.communicate()
    if child.returncode:
        raise RuntimeError(f"compilation of {path} failed with exit status {child.returncode}")
    phases: dict[str, float] = json.loads(printed)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    size = sum(f.stat().st_size for f in (folder / state).iterdir())
    shutil.rmtree(folder / state)
    return phases | {"cpu": cpu, "peak": peak.bytes / MEGABYTE, "artifact": size / MEGABYTE}


def write_layers(path: Path, gigabytes: float) -> None:
    """A model of dense layers, whose weights, random and all different, are external data next to ``path``."""
    layers = max(1, round(gigabytes * 1e9 / (4 * WIDTH * WIDTH)))
    block = np.random.default_rng(0).standard_normal((WIDTH, WIDTH), np.float32) / math.sqrt(WIDTH)
    tensors, nodes = [], []
    with path.with_suffix(".data").open("wb") as data:
        for number in range(layers):
            block[0] += 1e-3
            described = {"location": path.with_suffix(".data").name, "offset": data.tell(), "length": block.nbytes}
            tensor = onnx.TensorProto(name=f"w{number}", data_type=onnx.TensorProto.FLOAT, dims=block.shape)
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.extend(onnx.StringStringEntryProto(key=k, value=str(v)) for k, v in described.items())
            tensors.append(tensor)
            nodes.append(onnx.helper.make_node("Gemm", [f"x{number}", f"w{number}"], [f"x{number + 1}"], transB=number % 2))
            block.tofile(data)
    ends = [onnx.helper.make_tensor_value_info(f"x{k}", onnx.TensorProto.FLOAT, [1, WIDTH]) for k in (0, layers)]
    graph = onnx.helper.make_graph(nodes, "layers", ends[:1], ends[1:], tensors)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10), path)


def run_child(path: str, output: str, changed: bool, options: dict[str, Any]) -> None:
    """Loads and compiles one model and prints the seconds as JSON."""
    import forge
    from forge.ir.builder import Builder

    times = [time.perf_counter()]
    module = forge.from_onnx(path)
    if changed:
        graph = module.mod.main
        graph.outputs = [Builder(graph).call("negative", value) for value in graph.outputs]
    times.append(time.perf_counter())
    module.compile(output_path=output, **options)
    times.append(time.perf_counter())
    print(json.dumps({"load": times[1] - times[0], "compile": times[2] - times[1]}))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", choices=[*models.MODELS, []], help="all if none is given")
    parser.add_argument("--small", action="store_true", help="the small variants")
    parser.add_argument("--weights", choices=("inside", "beside"), help="where they go")
    parser.add_argument("--gigabytes", type=float, help="measure a made-up model of this size")
    parser.add_argument("--child", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--changed", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--output", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        run_child(options.child, options.output, options.changed, {"weights": options.weights})
        return 0
    given = ["--weights", options.weights] if options.weights else []
    columns = ("load", "compile", "cpu", "peak", "artifact")
    table = Table("model", *(f"{state} {column}" for state in STATES for column in columns))

    def add(name: str, path: Path) -> None:
        found = measure(path, given)
        table.add_row(name, *(f"{found[state][column]:.2f}" for state in STATES for column in columns))

    if options.gigabytes is not None:
        with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
            write_layers(Path(folder) / "layers.onnx", options.gigabytes)
            add(f"{options.gigabytes:g} GB", Path(folder) / "layers.onnx")
    else:
        for name in options.models or models.MODELS:
            add(name, models.build(name, small=options.small))
    Console(width=200).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
