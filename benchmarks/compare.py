"""Forge next to other runtimes on all benchmark models: one command, tables, a picture, JSON.

    python -m benchmarks.compare --output build/comparison
    python -m benchmarks.compare --models resnet18,bert --threads 1 --batch 1 --rounds 20
    python -m benchmarks.compare --batch 1 --page   # also adds the table of this CPU to docs/reference/performance.md

Every library has a process of its own; one that crashes, hangs or refuses a model is said to, and the rest goes on. The
processes take turns, and all but one are held still. What is finished is kept in OUTPUT/results.json, and the same
command measures what is missing. A ratio is the time of the fastest peer of the same precision over Forge's, by minima:
above 1, Forge is faster. The error is the largest difference to unoptimized onnxruntime, relative to the largest output.

    python -m benchmarks.compare --libraries forge,forge-bfloat16,forge-float16

says below its tables what `set_bfloat16` and `set_float16` gain over float32; `benchmarks.quantized` says so of 8-bit integers.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks import machine_tables, models, report, results
from benchmarks.isolation import Worker, WorkerFailed, run
from benchmarks.libraries import DISTRIBUTIONS, LIBRARIES, OPTIONAL, OURS, Case
from benchmarks.results import Measurement, Result
from forge import peers
from forge.driver.machines import Table

_CPUS = len(os.sched_getaffinity(0))
_FEWEST_ROUNDS = 3
_USUAL = [name for name in LIBRARIES if name not in OPTIONAL]


@dataclasses.dataclass(frozen=True)
class Effort:
    """How long to measure: ``rounds``, but after three of them no longer than ``seconds``; ``patience`` for one answer."""

    rounds: int = 20
    seconds: float = 60.0
    patience: float = 600.0


def prepare(case: Case, folder: Path, threads: Sequence[int], libraries: Sequence[str], effort: Effort) -> None:
    """Exports the model and lets each library make its own form of it; what the folder has already is kept.

    Raises:
        WorkerFailed: the model could not be exported, or onnxruntime gives no expected outputs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    notes = folder / "prepared.json"
    if not notes.exists():
        (folder / "case.json").write_text(json.dumps(dataclasses.asdict(case)))
        known = run("describe", folder, log=folder / "describe.log", seconds=effort.patience)
        notes.write_text(json.dumps({"known": known, "rows": {}}))
    for library in libraries:
        stored = json.loads(notes.read_text())
        if library not in stored["rows"]:
            stored["rows"][library] = _prepare(library, folder, threads, effort)
            notes.write_text(json.dumps(stored))


def _prepare(library: str, folder: Path, threads: Sequence[int], effort: Effort) -> dict[str, Any]:
    try:
        return run("prepare", folder, library, *threads, log=folder / f"{library}.log", seconds=effort.patience)
    except WorkerFailed as failure:
        return {"failure": str(failure)}


def compare(
    case: Case, folder: Path, threads: Sequence[int], libraries: Sequence[str], effort: Effort
) -> Iterator[Measurement]:
    """Measures what `prepare` made, all libraries in turns, once for each number of threads."""
    stored = json.loads((folder / "prepared.json").read_text())
    ready = {library: Result(library, **stored["rows"][library]) for library in libraries}
    for count in threads:
        yield _measure(case, count, stored["known"], ready, folder, effort)


def _measure(
    case: Case, threads: int, known: Mapping[str, int], ready: Mapping[str, Result], folder: Path, effort: Effort
) -> Measurement:
    rows = dict(ready)
    workers: dict[str, Worker] = {}
    gauge = Worker("peaks", folder, threads, log=folder / "peaks.log")
    try:
        peaks = [gauge.answer(effort.patience)]
        gauge.hold()
        for library in [name for name, row in ready.items() if not row.failure]:
            workers[library] = Worker("serve", folder, library, threads, log=folder / f"{library}.log")
            rows[library] = _load(rows[library], workers[library], folder, effort)
        serving = {name: worker for name, worker in workers.items() if not rows[name].failure}
        peaks += _take_turns(rows, serving, gauge, effort)
    finally:
        for worker in (gauge, *workers.values()):
            worker.close()
    flops, bandwidth = (max(peak[what] for peak in peaks) for what in ("flops", "bandwidth"))
    return Measurement(case, threads, known["flops"], known["bytes"], flops, bandwidth, results.last_cache_bytes(),
                       tuple(rows.values()))


def _load(row: Result, worker: Worker, folder: Path, effort: Effort) -> Result:
    """Waits until the library has run once, and compares its outputs."""
    try:
        answer = worker.answer(effort.patience)
    except WorkerFailed as failure:
        worker.close()
        return dataclasses.replace(row, failure=str(failure))
    worker.hold()
    error = peers.disagreement(_arrays(folder / f"{row.library}.npz"), _arrays(folder / "expected.npz"))
    row = dataclasses.replace(row, load_seconds=answer["load_seconds"], peak_bytes=answer["peak_bytes"])
    if not np.isfinite(error):
        return dataclasses.replace(row, failure="outputs have other shapes or are not finite")
    return dataclasses.replace(row, error=error)


def _arrays(path: Path) -> list[np.ndarray]:
    with np.load(path) as stored:
        return [stored[name] for name in stored.files]


def _take_turns(
    rows: dict[str, Result], serving: dict[str, Worker], gauge: Worker, effort: Effort
) -> Iterator[dict[str, float]]:
    """Adds samples to ``rows``; the order moves on by one from round to round. Gives the machine's peaks in each round."""
    begin = time.monotonic()
    for number in range(effort.rounds):
        if number >= _FEWEST_ROUNDS and time.monotonic() - begin > effort.seconds:
            return
        names = list(serving)
        first = number % max(1, len(names))
        for name in names[first:] + names[:first]:
            rows[name] = _sample(rows[name], serving[name], effort)
            if rows[name].failure:
                serving.pop(name).close()
        gauge.go_on()
        yield gauge.request(effort.patience)
        gauge.hold()


def _sample(row: Result, worker: Worker, effort: Effort) -> Result:
    worker.go_on()
    try:
        answer = worker.request(effort.patience)
    except WorkerFailed as failure:
        return dataclasses.replace(row, samples=(), failure=str(failure))
    worker.hold()
    return dataclasses.replace(row, samples=(*row.samples, answer["seconds"]))


def _names(text: str, known: Mapping[str, object], what: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"{what} {', '.join(unknown)} unknown; expected of: {', '.join(known)}")
    return names


def _counts(text: str, most: int, what: str) -> list[int]:
    numbers = text.split(",")
    if not all(number.isdecimal() and 1 <= int(number) <= most for number in numbers):
        raise argparse.ArgumentTypeError(f"got {text}; expected numbers from 1 to {most}, {what}, separated by commas")
    return [int(number) for number in numbers]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = partial(partial, _names)
    threads = partial(_counts, most=_CPUS, what="the CPUs this process may use")
    batches = partial(_counts, most=1 << 16, what="batch sizes")
    parser.add_argument("--models", type=names(known=models.MODELS, what="model"), default=list(models.MODELS),
                        help="comma-separated; default: all")
    parser.add_argument("--libraries", type=names(known=LIBRARIES, what="library"), default=_USUAL,
                        help=f"comma-separated; default: {','.join(_USUAL)}; more: {', '.join(OPTIONAL)}")
    parser.add_argument("--threads", type=threads, default=[n for n in (1, 2) if n <= _CPUS],
                        help="numbers of threads, and of CPUs that a library is kept on; default: 1,2")
    parser.add_argument("--batch", type=batches, default=[1, 8], help="batch sizes; default: 1,8")
    parser.add_argument("--rounds", type=int, default=Effort.rounds)
    parser.add_argument("--seconds", type=float, default=Effort.seconds, help="after three rounds, the limit for one case")
    parser.add_argument("--patience", type=float, default=Effort.patience, help="seconds after which a library is given up")
    parser.add_argument("--dynamic", action="store_true", help="models with symbolic dimensions")
    parser.add_argument("--small", action="store_true", help="the tiny variants, to try the benchmark itself")
    parser.add_argument("--prepare", action="store_true", help="only export and compile; the measurements come with another call")
    parser.add_argument("--output", type=Path, default=Path("build/comparison"), help="folder; default: build/comparison")
    parser.add_argument("--fresh", action="store_true", help="forget what the folder holds, compiled models too")
    machine_tables.add_arguments(parser)
    return parser.parse_args(arguments)


def _kept(options: argparse.Namespace, path: Path) -> list[Measurement]:
    if options.fresh or not path.exists():
        return []
    try:
        return results.load(path)
    except ValueError as error:
        raise SystemExit(f"benchmarks.compare: {error}") from error


def _missing(case: Case, options: argparse.Namespace, done: Sequence[Measurement]) -> list[int]:
    """Numbers of threads for which not all libraries have been measured on this case."""
    wanted = set(options.libraries)
    finished = {m.threads for m in done if m.case == case and wanted <= {row.library for row in m.results}}
    return [threads for threads in options.threads if threads not in finished]


def _take(case: Case, missing: Sequence[int], options: argparse.Namespace) -> Iterator[Measurement]:
    """Prepares and measures one case, in a folder that is removed when all is measured."""
    effort = Effort(options.rounds, options.seconds, options.patience)
    folder = options.output / "cases" / case.name
    prepare(case, folder, options.threads, options.libraries, effort)
    if options.prepare:
        return
    yield from compare(case, folder, missing, options.libraries, effort)
    shutil.rmtree(folder)


def _measure_all(options: argparse.Namespace, path: Path, console: Console) -> list[Measurement]:
    """What was asked for, in its order; everything measured, earlier or now, is in the file."""
    cases = [Case(name, batch, options.small, options.dynamic) for batch in options.batch for name in options.models]
    done = _kept(options, path)
    for number, case in enumerate(cases, 1):
        missing = _missing(case, options, done)
        title = f"{number} of {len(cases)}: {case.model}, batch {case.batch}"
        try:
            for made in _take(case, missing, options) if missing else ():
                done = [m for m in done if m.case != case or m.threads != made.threads] + [made]
                results.save(path, done)
                console.print(report.table([made], f"{title}, {made.threads} thread(s)"))
        except WorkerFailed as failure:
            console.print(f"{title}: {failure}", style="red", highlight=False)
    return [m for case in cases for m in done if m.case == case and m.threads in options.threads]


def _publish(taken: Sequence[Measurement], options: argparse.Namespace) -> None:
    """Puts the table on the page; rates are the best of any round."""
    rounds = [len(row.samples) for m in taken for row in m.results if row.samples] or [0]
    facts = [f"minima of {' to '.join(map(str, sorted({min(rounds), max(rounds)})))} rounds"]
    for threads in sorted({m.threads for m in taken}):
        flops = max(m.peak_flops for m in taken if m.threads == threads) / 1e9
        bandwidth = max(m.bandwidth for m in taken if m.threads == threads) / 1e9
        facts.append(f"{threads} thread(s): {flops:.0f} GFLOP/s of float32 multiply-adds, copies move {bandwidth:.0f} GB/s")
    line = machine_tables.command("compare", options, _parse([]))
    peers_used = [DISTRIBUTIONS.get(name, name) for name in options.libraries if name not in OURS.values()]
    table = Table(line, *report.page_table(taken), machine_tables.versions(peers_used), facts)
    machine_tables.publish(table, options.note)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison; the exit status is 1 if a model or Forge on it failed, or Forge's outputs disagreed."""
    options = _parse(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    options.output = options.output.resolve()
    if options.fresh:
        shutil.rmtree(options.output / "cases", ignore_errors=True)
    console = Console() if sys.stdout.isatty() else Console(width=report.WIDTH)
    taken = _measure_all(options, options.output / "results.json", console)
    if options.prepare:
        return 0
    report.write(taken, options.output, console)
    if options.page and taken:
        _publish(taken, options)
    expected = len(options.models) * len(options.batch) * len(options.threads)
    ours = [row for m in taken for row in m.results if row.ours]
    return int(len(taken) < expected or not all(row.counts for row in ours))


if __name__ == "__main__":
    sys.exit(main())
