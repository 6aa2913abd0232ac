"""Time and memory of compilation: from an ONNX file to a library, cold and from the compile cache.

    python -m benchmarks.compilation [--small] [--weights beside] [MODEL ...]

Every measurement runs in a process of its own, with a compile cache that starts empty. Memory is the largest sum of anonymous
pages (``RssAnon``) of that process and all its descendants, sampled every few milliseconds: what a machine without swap must
have. Pages of mapped files are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import models

MEGABYTE = 10**6
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


def measure(path: Path, arguments: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    """For ``cold`` and ``cached``: seconds of the phases, megabytes of the peak and of the artifact."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as folder:
        return {state: _child(path, Path(folder), state, arguments) for state in ("cold", "cached")}


def _child(path: Path, folder: Path, state: str, arguments: Sequence[str]) -> dict[str, float]:
    environment = {**os.environ, "FORGE_CACHE": "1", "FORGE_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-m", "benchmarks.compilation", "--child", str(path), "--output", str(folder / state), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child, PeakMemory(child.pid) as peak:
        printed, _ = child.communicate()
    if child.returncode:
        raise RuntimeError(f"compilation of {path} failed with exit status {child.returncode}")
    phases: dict[str, float] = json.loads(printed)
    size = sum(f.stat().st_size for f in (folder / state).iterdir())
    return phases | {"peak": peak.bytes / MEGABYTE, "artifact": size / MEGABYTE}


def run_child(path: str, output: str, options: dict[str, Any]) -> None:
    """Loads and compiles one model and prints the seconds as JSON."""
    import forge

    times = [time.perf_counter()]
    module = forge.from_onnx(path)
    times.append(time.perf_counter())
    module.compile(output_path=output, **options)
    times.append(time.perf_counter())
    print(json.dumps({"load": times[1] - times[0], "compile": times[2] - times[1]}))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", choices=[*models.MODELS, []], help="all if none is given")
    parser.add_argument("--small", action="store_true", help="the small variants")
    parser.add_argument("--child", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--output", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        run_child(options.child, options.output, {})
        return 0
    results: dict[str, Any] = {}
    columns = ("load", "compile", "peak", "artifact")
    table = Table("model", *(f"{state} {column}" for state in ("cold", "cached") for column in columns))
    for name in options.models or models.MODELS:
        found = results[name] = measure(models.build(name, small=options.small))
        table.add_row(name, *(f"{found[state][column]:.2f}" for state in ("cold", "cached") for column in columns))
    Console(width=160).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
