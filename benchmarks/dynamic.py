"""Networks compiled for sizes that are known at run time only, next to the same compiled for each size, and to other runtimes.

    python -m benchmarks.dynamic --threads 1 --batch 1 --rounds 7 [--filter unet,hifi] [--json dynamic.json]

Each network of `benchmarks.dynamic_models` runs at five sizes: small, odd, typical, large, of an extreme aspect. The peers read
the file with symbolic sizes. All take turns in one process. Columns: milliseconds (minima) of Forge with sizes known at run time
only (*dynamic*) and when it is compiled (*static*); *static / dynamic* and *peer / dynamic*, the faster peer's time over ours:
above 1, the dynamic code is faster; *arena*: bytes of intermediate results, dynamic over static; *first*: microseconds that the
first call at a size took more than the next one; the largest difference to onnxruntime, relative to the largest output. A title
says how many CPU seconds of all processes it took to compile with an empty cache, for any size and for the typical one.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import rich.box
from rich.console import Console
from rich.table import Table

import forge
from benchmarks import dynamic_models
from benchmarks.compilation import cpu_seconds
from benchmarks.dynamic_models import DYNAMIC, Sizes
from benchmarks.libraries import LIBRARIES, OURS
from benchmarks.results import geometric_mean
from benchmarks.turns import SETTLING_SECONDS
from forge import dims, knobs, peers
from forge.driver import compile_module
from forge.driver.compiled import CompiledModel
from forge.driver.latency import Latencies, measure

LEAST, WANTED = 0.85, 0.95
"""Of static / dynamic: of each row, and as the geometric mean."""

LIMIT = LIBRARIES[OURS["float32"]].limit
_FEWEST_ROUNDS = 3


@dataclass(frozen=True)
class Row:
    """One network at one size.

    Attributes:
        latencies: by name: dynamic, static, and the peers.
        arena: bytes of intermediate results, dynamic and static.
        first: seconds that the first call took more than the second.
        errors: of dynamic and static.
    """

    network: str
    batch: int
    threads: int
    sizes: Sizes
    latencies: dict[str, Latencies]
    arena: tuple[int, int]
    first: float
    errors: tuple[float, float]

    def seconds(self, name: str) -> float:
        return self.latencies[name].minimum

    @property
    def ratio(self) -> float:
        """Static time over dynamic time."""
        return self.seconds("static") / self.seconds("dynamic")

    def lead(self, name: str = "dynamic") -> float:
        """Time of the faster peer over ours."""
        return min(self.seconds(peer) for peer in self.latencies if peer not in ("dynamic", "static")) / self.seconds(name)

    @property
    def agrees(self) -> bool:
        return all(error <= LIMIT for error in self.errors)


@contextmanager
def _without_cache() -> Iterator[None]:
    """Lets compilations start from nothing."""
    before = os.environ.get(knobs.CACHE.name)
    os.environ[knobs.CACHE.name] = "0"
    try:
        yield
    finally:
        os.environ.pop(knobs.CACHE.name)
        if before is not None:
            os.environ[knobs.CACHE.name] = before


def _compiled(path: Path, shape: tuple[str, tuple[int, ...]] | None = None) -> CompiledModel:
    return compile_module(forge.from_onnx(path, shape=None if shape is None else dict([shape])).mod)


def compile_seconds(path: Path, shape: tuple[str, tuple[int, ...]]) -> tuple[float, float]:
    """CPU seconds of loading and compiling a file for any size, and for ``shape``."""
    found = []
    with _without_cache():
        for given in (None, shape):
            before = cpu_seconds()
            _compiled(path, given)
            found.append(cpu_seconds() - before)
    return found[0], found[1]


def _arena(compiled: CompiledModel, symbols: dict[str, int]) -> int:
    """Bytes of intermediate results, but for those whose sizes depend on data."""
    size = dims.parse(str(compiled.summary["arena_size"]))
    return dims.evaluate(size, dict.fromkeys(dims.symbols(size), 0) | symbols)


def run(name: str, batch: int, threads: int, rounds: int, seconds: float, *, small: bool = False) -> Iterator[Row]:
    """Compiles and measures a network, size by size.

    Args:
        rounds: of calls in turns; no more of them than take ``seconds`` at each size, but three.
        small: the small variant.
    """
    model, path = DYNAMIC[name], dynamic_models.build(name, small=small)
    variant, dynamic = model.variant(small), _compiled(path)
    theirs = {"onnxruntime": peers.open_onnxruntime(path, threads), "openvino": peers.open_openvino(path, threads)}
    ours = dynamic.runtime(num_threads=threads)
    for sizes in variant.sizes:
        feed = dynamic_models.inputs(name, sizes, batch, small=small)
        array = feed[model.input]
        static = _compiled(path, (model.input, variant.extents(batch, sizes)))
        once = partial(ours, array)
        first = _time(once) - _time(once)
        calls = {"dynamic": once, "static": partial(static.runtime(num_threads=threads), array)}
        calls |= {peer: partial(call, feed) for peer, call in theirs.items()}
        results = {name: peers.as_list(call()) for name, call in calls.items()}
        errors = [peers.disagreement(results[one], results["onnxruntime"]) for one in ("dynamic", "static")]
        turn = 2 * sum(map(_time, calls.values()))
        affordable = max(_FEWEST_ROUNDS, min(rounds, int(seconds / turn)))
        taken = measure(calls, affordable, pause=SETTLING_SECONDS if threads > 1 else 0.0)
        known = {"batch": batch, **dict(zip(variant.symbols, sizes, strict=True))}
        yield Row(name, batch, threads, sizes, taken, (_arena(dynamic, known), _arena(static, {})), first, (errors[0], errors[1]))


def _time(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


COLUMNS = (
    "sizes", "dynamic ms", "static ms", "onnxruntime", "openvino", "static / dynamic", "peer / dynamic", "peer / static", "arena",
    "first", "error",
)


def cells(row: Row) -> tuple[str, ...]:
    """What the table says of a row, in the order of `COLUMNS`."""
    times = (f"{1e3 * row.seconds(name):.2f}" for name in ("dynamic", "static", "onnxruntime", "openvino"))
    dynamic, static = row.arena
    arena = f"{dynamic / max(static, 1):.2f}"
    error = f"{max(row.errors):.0e}{'' if row.agrees else ' WRONG'}"
    ratio = f"{row.ratio:.2f}{'' if row.ratio >= LEAST else ' *'}"
    return (" x ".join(map(str, row.sizes)), *times, ratio, f"{row.lead():.2f}", f"{row.lead('static'):.2f}", arena,
            f"{1e6 * row.first:.0f}", error)


def table(rows: Sequence[Row], title: str) -> Table:
    made = Table(title=title, box=rich.box.SIMPLE_HEAD, title_justify="left")
    for column in COLUMNS:
        made.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        made.add_row(*cells(row))
    return made


def conclusions(rows: Sequence[Row]) -> Iterator[str]:
    """Geometric means, and the rows that fall short."""
    for what, values in (("static / dynamic", [row.ratio for row in rows]), ("peer / dynamic", [row.lead() for row in rows]),
                         ("peer / static", [row.lead("static") for row in rows]),
                         ("arena, dynamic / static", [row.arena[0] / max(row.arena[1], 1) for row in rows])):
        yield f"{what}: geometric mean {geometric_mean(values):.2f}, from {min(values):.2f} to {max(values):.2f}"
    slow = [row for row in rows if row.ratio < LEAST]
    yield f"{len(slow)} of {len(rows)} rows have static / dynamic below {LEAST} (marked *); wanted is a mean of {WANTED}"
    for row in rows:
        if not row.agrees:
            yield f"WRONG: {row.network}, batch {row.batch}, {row.sizes}: {max(row.errors):.1e}"


def as_json(rows: Sequence[Row], compiled: dict[str, tuple[float, float]]) -> str:
    return json.dumps({"rows": [dataclasses.asdict(row) for row in rows], "compile_cpu_seconds": compiled}, indent=1)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; the exit status is 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only networks whose name has one of these comma-separated parts")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.5, help="after three rounds, the limit for one size")
    parser.add_argument("--small", action="store_true", help="the tiny variants, to try the benchmark itself")
    parser.add_argument("--json", type=Path, help="file for all samples")
    options = parser.parse_args(argv)
    parts = re.compile("|".join(map(re.escape, options.filter.split(","))))
    console = Console() if sys.stdout.isatty() else Console(width=150)
    rows: list[Row] = []
    compiled = {}
    for name, model in DYNAMIC.items():
        if not parts.search(name):
            continue
        variant = model.variant(options.small)
        path = dynamic_models.build(name, small=options.small)
        compiled[name] = compile_seconds(path, (model.input, variant.extents(options.batch, variant.typical)))
        made = list(run(name, options.batch, options.threads, options.rounds, options.seconds, small=options.small))
        spent = f"CPU seconds to compile: dynamic {compiled[name][0]:.1f}, static {compiled[name][1]:.1f}"
        console.print(table(made, f"{name} ({', '.join(variant.symbols)}), batch {options.batch}; {spent}"))
        rows += made
    for line in conclusions(rows):
        console.print(line, highlight=False, soft_wrap=True)
    if options.json:
        options.json.write_text(as_json(rows, compiled), encoding="utf-8")
    return int(not all(row.agrees for row in rows))


if __name__ == "__main__":
    sys.exit(main())
