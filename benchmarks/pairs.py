"""Forge beside one other runtime: each model in a process of its own with empty caches, calls in turns, a table of ratios."""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

Measure = Callable[[str, argparse.Namespace], dict[str, Any]]
"""Of a model: ``first``, seconds to the first result, and ``times`` of calls, both by runtime; ``error``, and more of its own."""


@dataclass(frozen=True)
class Comparison:
    """A benchmark that compares Forge with ``peer``.

    Attributes:
        module: that runs it, ``benchmarks.jax_jit``.
        peer: its name in `Measure`, and in the table.
        names: of the models.
        tolerance: of errors; larger ones are marked as wrong.
        flags: options that are on or off.
        environment: of the processes, beside what is there.
    """

    module: str
    peer: str
    names: Sequence[str]
    measure: Measure
    tolerance: float
    flags: Mapping[str, str]
    environment: Mapping[str, str]

    def run(self, description: str | None, arguments: Sequence[str] | None) -> int:
        """Reads the command line, runs the models, and shows and writes what was found."""
        parser = self._parser(description)
        options = parser.parse_args(arguments)
        if unknown := [name for name in options.models if name not in self.names]:
            parser.error(f"got {unknown[0]!r}; expected some of {', '.join(self.names)}")
        if options.worker:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
            print(json.dumps(self.measure(options.models[0], options)))
            return 0
        table = Table(
            "model", f"ms: {self.peer}", "ms: forge", "ratio: least", "median", f"first, s: {self.peer}", "forge", "error",
            "failed")
        found = {}
        ratios = []
        for name in options.models or self.names:
            found[name] = self._in_process(name, options)
            cells, own = self.row(name, found[name])
            table.add_row(*cells)
            print("\t".join(cells), file=sys.stderr, flush=True)
            ratios += [own] if own else []
        if ratios:
            means = [math.exp(statistics.fmean(map(math.log, column))) for column in zip(*ratios)]
            table.caption = (
                f"geometric means of {len(ratios)}: {means[0]:.2f} of the least, {means[1]:.2f} of the median; "
                f"least ratio {min(r[0] for r in ratios):.2f}")
        Console(width=160).print(table)
        if options.json:
            options.json.write_text(json.dumps(found))
        return 0

    def _parser(self, description: str | None) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(
            prog=f"python -m {self.module}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("models", nargs="*", metavar="MODEL", help=f"all if none is given: {', '.join(self.names)}")
        for flag, meaning in self.flags.items():
            parser.add_argument(f"--{flag}", action="store_true", help=meaning)
        parser.add_argument("--batch", type=int, default=1)
        parser.add_argument("--threads", type=int, default=1)
        parser.add_argument("--seconds", type=float, default=10.0, help="of calls, for each model")
        parser.add_argument("--json", type=Path, help="where to write all that was found")
        parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
        return parser

    def _in_process(self, name: str, options: argparse.Namespace) -> dict[str, Any]:
        """What `measure` finds in a process of its own."""
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "FORGE_CACHE_DIR": folder, **self.environment}
            flags = [f"--{flag}" for flag in self.flags if getattr(options, flag)]
            numbers = [f"--{n}={getattr(options, n)}" for n in ("threads", "batch", "seconds")]
            command = [sys.executable, "-W", "ignore", "-m", self.module, name, "--worker", *flags, *numbers]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        lines = done.stdout.strip().splitlines()
        if done.returncode != 0 or not lines:
            return {"failed": " ".join((done.stderr.strip().splitlines() or ["?"])[-1].split())[:300]}
        found: dict[str, Any] = json.loads(lines[-1])
        return found

    def row(self, name: str, found: Mapping[str, Any]) -> tuple[list[str], tuple[float, float] | None]:
        """Cells of the table, and the ratios of the least time and of the median."""
        if "times" not in found:
            return [name, *[""] * 7, found["failed"]], None
        both = (self.peer, "forge")
        least, median = ({b: f(t) for b, t in found["times"].items()} for f in (min, statistics.median))
        ratios = least[self.peer] / least["forge"], median[self.peer] / median["forge"]
        error = f"{found['error']:.0e}{'' if found['error'] < self.tolerance else ' WRONG'}"
        times, firsts = [f"{1e3 * least[b]:.3f}" for b in both], [f"{found['first'][b]:.1f}" for b in both]
        return [name, *times, f"{ratios[0]:.2f}", f"{ratios[1]:.2f}", *firsts, error, ""], ratios
