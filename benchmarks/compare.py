"""Latency of the benchmark models under Forge and its peers, in one process and in turns.

    python -m benchmarks.compare --models resnet18,bert --threads 1 --rounds 20

Prints a table per number of threads and, with ``--json``, writes all samples. The ratio is Forge's latency over the
peer's: below 1, Forge is faster. The error is the largest difference to unoptimised onnxruntime, relative to the
largest output.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import rich.box
from rich.console import Console
from rich.table import Table

import forge
from benchmarks import models
from forge.cli import peers
from forge.cli.latency import Latencies, measure
from forge.errors import ForgeError
from forge_runtime import ForgeRuntimeError

FORGE = "forge"
_PAUSE = 0.01
_CPUS = frozenset(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Case:
    """One model at one size, ready to be loaded by any library."""

    name: str
    batch: int
    dynamic: bool
    small: bool
    threads: int

    @property
    def path(self) -> Path:
        return models.build(self.name, self.batch, dynamic=self.dynamic, small=self.small)

    @property
    def feed(self) -> models.Inputs:
        return models.inputs(self.name, self.batch, small=self.small)


@dataclass(frozen=True)
class Result:
    """What was measured of one library on one case; ``failure`` says why it could not be."""

    library: str
    load_seconds: float = math.nan
    latencies: Latencies | None = None
    error: float = math.nan
    failure: str = ""


Loader = Callable[[Case], peers.Call]


def load_forge(case: Case) -> peers.Call:
    """Compiles the model for this machine and loads it, as a user would."""
    module = forge.from_onnx(case.path)
    with tempfile.TemporaryDirectory() as folder, all_cpus():
        module.compile(output_path=folder, force_overwrite=True)
        runtime = forge.Runtime(folder)
    runtime.set_num_threads(case.threads)
    arrays = [case.feed[name] for name in runtime.input_names]
    return lambda: peers.as_list(runtime(*arrays))


def load_torch(case: Case) -> peers.Call:
    """The eager torch network that the ONNX file was exported from."""
    import torch

    torch.set_num_threads(case.threads)
    network = models.network(case.name, small=case.small)
    tensors = [torch.from_numpy(array) for array in case.feed.values()]

    def call() -> peers.Outputs:
        with torch.inference_mode():
            outputs = network(*tensors)
        return [output.numpy() for output in (outputs if isinstance(outputs, tuple) else (outputs,))]

    return call


def _load_peer(loader: peers.Loader, case: Case) -> peers.Call:
    return loader(case.path, case.feed, case.threads)


LOADERS: Mapping[str, Loader] = MappingProxyType(
    {
        FORGE: load_forge,
        **{name: partial(_load_peer, loader) for name, loader in peers.LOADERS.items()},
        "torch": load_torch,
    }
)


@contextmanager
def all_cpus() -> Iterator[None]:
    """Lifts the restriction to some CPUs for as long as the compiler works; its processes inherit it."""
    restricted = os.sched_getaffinity(0)
    os.sched_setaffinity(0, _CPUS)
    try:
        yield
    finally:
        os.sched_setaffinity(0, restricted)


def compare(case: Case, libraries: Sequence[str], rounds: int) -> list[Result]:
    """Loads the model in each library, checks its outputs and measures all of them in turns."""
    os.sched_setaffinity(0, sorted(_CPUS)[: case.threads])
    expected = peers.load_reference(case.path, case.feed, case.threads)()
    loaded = {library: _load(library, case, expected) for library in libraries}
    calls = {library: call for library, (_, call) in loaded.items() if call is not None}
    latencies = measure(calls, rounds, pause=_PAUSE if case.threads > 1 else 0.0)
    return [
        Result(result.library, result.load_seconds, latencies.get(library), result.error, result.failure)
        for library, (result, _) in loaded.items()
    ]


def _load(library: str, case: Case, expected: peers.Outputs) -> tuple[Result, peers.Call | None]:
    start = time.perf_counter()
    try:
        call = LOADERS[library](case)
        outputs = call()
    except (ForgeError, ForgeRuntimeError) as failure:
        return Result(library, failure=str(failure)), None
    seconds = time.perf_counter() - start
    return Result(library, seconds, error=peers.disagreement(outputs, expected)), call


def table(results: Mapping[str, Sequence[Result]], title: str) -> Table:
    """One row per model and library."""
    made = Table(title=title, box=rich.box.SIMPLE_HEAD, title_justify="left")
    for column in ("model", "library"):
        made.add_column(column)
    for column in ("load s", "min ms", "median ms", "forge / it", "error"):
        made.add_column(column, justify="right")
    for model, rows in results.items():
        ours = next((row.latencies for row in rows if row.library == FORGE), None)
        for row in rows:
            made.add_row(model, row.library, *_cells(row, ours))
            model = ""
        made.add_section()
    return made


def _cells(row: Result, ours: Latencies | None) -> tuple[str, ...]:
    if row.latencies is None:
        return ("", "", "", "", f"[red]{row.failure}[/red]")
    ratio = "" if ours is None or row.library == FORGE else f"{ours.median / row.latencies.median:.2f}"
    agrees = row.error <= 1e-4
    return (
        f"{row.load_seconds:.2f}",
        f"{row.latencies.minimum * 1e3:.3f}",
        f"{row.latencies.median * 1e3:.3f}",
        ratio,
        f"{row.error:.1e}" if agrees else f"[red]{row.error:.1e}[/red]",
    )


def geometric_means(results: Mapping[str, Sequence[Result]]) -> dict[str, float]:
    """Per peer, the geometric mean over the models of Forge's median latency over the peer's."""
    logarithms: dict[str, list[float]] = {}
    for rows in results.values():
        medians = {row.library: row.latencies.median for row in rows if row.latencies}
        if FORGE in medians:
            for library in medians.keys() - {FORGE}:
                logarithms.setdefault(library, []).append(math.log(medians[FORGE] / medians[library]))
    return {library: math.exp(sum(taken) / len(taken)) for library, taken in sorted(logarithms.items())}


def as_json(results: Mapping[str, Sequence[Result]]) -> list[dict[str, Any]]:
    """All results with all samples, in seconds."""
    return [
        {
            "model": model,
            "library": row.library,
            "load_seconds": row.load_seconds,
            "samples": list(row.latencies.samples) if row.latencies else [],
            "error": row.error,
            "failure": row.failure,
        }
        for model, rows in results.items()
        for row in rows
    ]


def _names(text: str, known: Mapping[str, object], what: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"{what} {', '.join(unknown)} unknown; expected of: {', '.join(known)}")
    return names


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    model_names = partial(_names, known=models.MODELS, what="model")
    library_names = partial(_names, known=LOADERS, what="library")
    parser.add_argument("--models", type=model_names, default=list(models.MODELS), help="comma-separated; default: all")
    parser.add_argument("--libraries", type=library_names, default=list(LOADERS), help="comma-separated; default: all")
    parser.add_argument("--threads", type=int, default=1, help="number of threads, and of CPUs the process is kept on")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--dynamic", action="store_true", help="models with symbolic dimensions")
    parser.add_argument("--small", action="store_true", help="the tiny variants, to try the benchmark itself")
    parser.add_argument("--json", type=Path, help="file for all samples")
    options = parser.parse_args(arguments)
    if not 1 <= options.threads <= len(_CPUS):
        parser.error(f"--threads: got {options.threads}; expected 1 to {len(_CPUS)}, the CPUs this process may use")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison; the exit status is 1 if Forge failed or disagreed on a model."""
    options = _parse(arguments)
    console = Console()
    results: dict[str, list[Result]] = {}
    for name in options.models:
        case = Case(name, options.batch, options.dynamic, options.small, options.threads)
        with console.status(f"{name} ..."):
            results[name] = compare(case, options.libraries, options.rounds)
    console.print(table(results, f"{options.threads} thread(s), batch {options.batch}, {options.rounds} rounds"))
    for library, ratio in geometric_means(results).items():
        console.print(f"forge / {library}, geometric mean: {ratio:.2f}")
    if options.json:
        options.json.write_text(json.dumps(as_json(results), indent=1))
    ours = [row for rows in results.values() for row in rows if row.library == FORGE]
    return int(any(row.failure or not row.error <= 1e-4 for row in ours))


if __name__ == "__main__":
    sys.exit(main())
