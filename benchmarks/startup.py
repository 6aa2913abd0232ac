"""Time to a ready model: from the loaded module to a ``Runtime``, cold and from the compile cache; and of ``import forge``.

    python -m benchmarks.startup [--small] [MODEL ...]

Every measurement runs in a process of its own, with a compile cache that starts empty.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import models

IMPORT = "import time; start = time.perf_counter(); import forge; {use}; print(time.perf_counter() - start)"
IMPORTS = {"import forge": "None", "... and forge.from_onnx": "forge.from_onnx", "... and forge.Runtime": "forge.Runtime"}


def measure_imports(repeats: int = 5) -> dict[str, float]:
    """Seconds of the quickest of several fresh interpreters."""
    found = {}
    for name, use in IMPORTS.items():
        command = [sys.executable, "-c", IMPORT.format(use=use)]
        found[name] = min(_seconds(command) for _ in range(repeats))
    return found


def _seconds(command: list[str]) -> float:
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure_model(path: Path) -> dict[str, dict[str, float]]:
    """Seconds of the phases, cold and cached."""
    with tempfile.TemporaryDirectory() as folder:
        return {state: _child(path, folder) for state in ("cold", "cached")}


def _child(path: Path, cache: str) -> dict[str, float]:
    environment = {**os.environ, "FORGE_CACHE": "1", "FORGE_CACHE_DIR": cache}
    command = [sys.executable, "-m", "benchmarks.startup", "--child", str(path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    phases: dict[str, float] = json.loads(printed)
    return phases


def run_child(path: str) -> None:
    """Loads and compiles one model and prints the seconds as JSON."""
    import forge
    from forge.driver import compile_module

    times = [time.perf_counter()]
    module = forge.from_onnx(path)
    times.append(time.perf_counter())
    compiled = compile_module(module.mod)
    times.append(time.perf_counter())
    compiled.runtime()
    times.append(time.perf_counter())
    load, make, link = (after - before for before, after in itertools.pairwise(times))
    print(json.dumps({"load": load, "compile": make, "runtime": link}))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", choices=[*models.MODELS, []], help="all if none is given")
    parser.add_argument("--small", action="store_true", help="the small variants")
    parser.add_argument("--child", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        run_child(options.child)
        return 0
    console = Console()
    for name, seconds in measure_imports().items():
        console.print(f"{name}: {seconds:.3f} s", highlight=False)
    shown = Table("model", "load ONNX", "ready, cold", "ready, cached", title="seconds")
    for name in options.models or models.MODELS:
        shown.add_row(name, *_cells(measure_model(models.build(name, small=options.small))))
    console.print(shown)
    return 0


def _cells(found: dict[str, dict[str, Any]]) -> list[str]:
    cold, cached = found["cold"], found["cached"]
    return [f"{cold['load']:.2f}", f"{cold['compile'] + cold['runtime']:.2f}", f"{cached['compile'] + cached['runtime']:.3f}"]


if __name__ == "__main__":
    sys.exit(main())
