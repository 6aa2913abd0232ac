"""Networks compiled for sizes that are known at run time only, next to the same compiled for each size, and to other runtimes.

    python -m benchmarks.dynamic --threads 1 --batch 1 --rounds 7 [--filter unet,hifi] [--json dynamic.json] [--markdown]

Each network of `benchmarks.dynamic_models` runs at five sizes: small, odd, typical, large, of an extreme aspect. The peers read
the file with symbolic sizes. All take turns in one process. Columns: milliseconds (minima) of Forge with sizes known at run time
only (*dynamic*) and when it is compiled (*static*); *static / dynamic* and *peer / dynamic*, the faster peer's time over ours:
above 1, the dynamic code is faster; *arena*: bytes of intermediate results, dynamic over static; the largest difference to
onnxruntime, relative to the largest output. A title says how many CPU seconds of all processes it took to compile with an empty
cache, for any size and for the typical one, and how much longer the first call at a new size takes than the next: the median of
some sizes that need no more memory than earlier ones.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import operator
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
import rich.box
from rich.console import Console
from rich.table import Table

import forge
from benchmarks import dynamic_models
from benchmarks.compilation import cpu_seconds
from benchmarks.dynamic_models import DYNAMIC, Sizes, Variant
from benchmarks.libraries import LIBRARIES, OURS
from benchmarks.results import geometric_mean
from benchmarks.turns import SETTLING_SECONDS
from forge import knobs, peers
from forge.backends.compiled import CompiledModel
from forge.driver import Compilation, check_options, compile_module, run_stages
from forge.driver.latency import Latencies, measure
from forge.lowering.memory import MemoryPlan

LEAST, WANTED = 0.85, 0.95
"""Of static / dynamic: of each row, and as the geometric mean."""

LIMIT = LIBRARIES[OURS["float32"]].limit
MAX_NEW_SIZES = 7
_FEWEST_ROUNDS = 3


@dataclass(frozen=True)
class Effort:
    """How long to measure at each size: ``rounds``, but after three of them no longer than ``seconds``."""

    rounds: int = 7
    seconds: float = 1.5


@dataclass(frozen=True)
class Row:
    """One network at one size.

    Attributes:
        latencies: by name: dynamic, static, and the peers.
        arena: bytes of intermediate results, dynamic and static.
        errors: of dynamic and static.
    """

    network: str
    sizes: Sizes
    latencies: Mapping[str, Latencies]
    arena: tuple[int, int]
    errors: tuple[float, float]

    @property
    def title(self) -> str:
        return f"{self.network} {' x '.join(map(str, self.sizes))}"

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
    def memory(self) -> float:
        return self.arena[0] / max(self.arena[1], 1)

    @property
    def agrees(self) -> bool:
        return all(error <= LIMIT for error in self.errors)


@dataclass(frozen=True)
class Measured:
    """A network at all sizes.

    Attributes:
        compile_seconds: CPU seconds for any size, and for the typical one.
        first: seconds that the first call at a new size took more than the next one.
    """

    network: str
    batch: int
    threads: int
    rows: tuple[Row, ...]
    compile_seconds: tuple[float, float]
    first: float


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


def _compiled(path: Path, shape: Mapping[str, tuple[int, ...]] | None = None) -> CompiledModel:
    return compile_module(forge.from_onnx(path, shape=shape).mod)


def _compiled_anew(path: Path, shape: Mapping[str, tuple[int, ...]] | None = None) -> tuple[CompiledModel, float]:
    """Also the CPU seconds of loading and compiling."""
    before = cpu_seconds()
    with _without_cache():
        return _compiled(path, shape), cpu_seconds() - before


def _memory_plan(path: Path) -> MemoryPlan:
    compilation = Compilation(forge.from_onnx(path).mod, check_options())
    run_stages(compilation, stop_after="memory_plan")
    return compilation.functions[0].plan


def run(name: str, batch: int, threads: int, effort: Effort, *, small: bool = False) -> Measured:
    """Compiles and measures a network; ``small`` is the small variant."""
    model, path = DYNAMIC[name], dynamic_models.build(name, small=small)
    variant = model.variant(small)
    static: dict[Sizes, CompiledModel] = {}
    dynamic, dynamic_cost = _compiled_anew(path)
    static[variant.typical], static_cost = _compiled_anew(path, {model.input: variant.extents(batch, variant.typical)})
    theirs = {"onnxruntime": peers.open_onnxruntime(path, threads), "openvino": peers.open_openvino(path, threads)}
    ours, plan = dynamic.runtime(num_threads=threads), _memory_plan(path)
    rows = []
    for sizes in variant.sizes:
        feed = dynamic_models.inputs(name, sizes, batch, small=small)
        fixed = static.get(sizes) or _compiled(path, {model.input: variant.extents(batch, sizes)})
        array = feed[model.input]
        calls: dict[str, Callable[[], peers.Outputs]]
        calls = {"dynamic": partial(ours, array), "static": partial(fixed.runtime(num_threads=threads), array)}
        calls |= {peer: partial(call, feed) for peer, call in theirs.items()}
        results = {name: peers.as_list(call()) for name, call in calls.items()}
        errors = [peers.disagreement(results[one], results["onnxruntime"]) for one in ("dynamic", "static")]
        known = {"batch": batch, **dict(zip(variant.symbols, sizes, strict=True))}
        arena = plan.arena_size_at(known), fixed.summary["arena_size"]
        rows.append(Row(name, sizes, _times(calls, threads, effort), arena, (errors[0], errors[1])))
    largest, *fresh = (dynamic_models.inputs(name, sizes, batch, small=small)[model.input]
                       for sizes in (max(variant.sizes, key=math.prod), *new_sizes(variant)))
    ours(largest)  # so that there is memory for all others
    first = statistics.median(_first_call_excess(ours, array) for array in fresh)
    return Measured(name, batch, threads, tuple(rows), (dynamic_cost, static_cost), first)


def _times(calls: Mapping[str, Callable[[], object]], threads: int, effort: Effort) -> dict[str, Latencies]:
    turn = 2 * sum(map(_time, calls.values()))
    rounds = max(_FEWEST_ROUNDS, min(effort.rounds, int(effort.seconds / turn)))
    return measure(calls, rounds, pause=SETTLING_SECONDS if threads > 1 else 0.0)


def new_sizes(variant: Variant) -> list[Sizes]:
    """Sizes turned around, and sums of two: valid, not among the sizes, and no larger than the largest."""
    turned = [sizes[::-1] for sizes in variant.sizes]
    sums = [tuple(map(operator.add, a, b)) for a, b in itertools.combinations_with_replacement(variant.sizes, 2)]
    largest = max(map(math.prod, variant.sizes))
    found = [sizes for sizes in dict.fromkeys([*turned, *sums]) if math.prod(sizes) <= largest and sizes not in variant.sizes]
    return sorted(found, key=math.prod)[:MAX_NEW_SIZES]


def _first_call_excess(call: Callable[[np.ndarray], object], array: np.ndarray) -> float:
    """Each call has an input that was just written, so that caches are as cold for the next ones as for the first."""
    first, *later = (_time(partial(call, array.copy())) for _ in range(4))
    return first - statistics.median(later)


def _time(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


NUMBERS: Mapping[str, Callable[[Row], float]] = MappingProxyType({
    "static / dynamic": lambda row: row.ratio, "peer / dynamic": lambda row: row.lead(),
    "peer / static": lambda row: row.lead("static"), "arena, dynamic / static": lambda row: row.memory,
})
COLUMNS = (
    "sizes", "dynamic ms", "static ms", "onnxruntime", "openvino", "static / dynamic", "peer / dynamic", "peer / static", "arena",
    "error",
)


def cells(row: Row) -> tuple[str, ...]:
    """What the table says of a row, in the order of `COLUMNS`."""
    times = (f"{1e3 * row.seconds(name):.2f}" for name in ("dynamic", "static", "onnxruntime", "openvino"))
    error = f"{max(row.errors):.0e}{'' if row.agrees else ' WRONG'}"
    ratio = f"{row.ratio:.2f}{'' if row.ratio >= LEAST else ' *'}"
    leads = (f"{row.lead(name):.2f}" for name in ("dynamic", "static"))
    return (" x ".join(map(str, row.sizes)), *times, ratio, *leads, f"{row.memory:.2f}", error)


def table(measured: Measured) -> Table:
    any_size, typical = measured.compile_seconds
    title = (f"{measured.network}, batch {measured.batch}, {measured.threads} thread(s); compiled in {any_size:.1f} CPU seconds, "
             f"static {typical:.1f}; first call at a new size: {1e6 * measured.first:+.0f} us")
    made = Table(title=title, box=rich.box.SIMPLE_HEAD, title_justify="left")
    for column in COLUMNS:
        made.add_column(column, justify="right", no_wrap=True)
    for row in measured.rows:
        made.add_row(*cells(row))
    return made


def markdown(measured: Sequence[Measured]) -> Iterator[str]:
    """A row for each network, as lines of a page."""
    yield "| network | ms | static / dynamic, five sizes | peer / dynamic | arena | new size, us | CPU s (static) |"
    yield "|---|---|---|---|---|---|---|"
    for m in measured:
        typical = m.rows[len(m.rows) // 2]
        ratios, leads = (", ".join(f"{x:.2f}" for x in xs) for xs in ([r.ratio for r in m.rows], [r.lead() for r in m.rows]))
        costs = f"{m.compile_seconds[0]:.1f} ({m.compile_seconds[1]:.1f})"
        yield (f"| {m.network} | {1e3 * typical.seconds('dynamic'):.2f} | {ratios} | {leads} | {typical.memory:.2f} | "
               f"{1e6 * m.first:.0f} | {costs} |")
    rows = [row for m in measured for row in m.rows]
    means = [geometric_mean(map(number, rows)) for number in NUMBERS.values()]
    yield f"| geometric mean | | {means[0]:.2f} | {means[1]:.2f} | {means[3]:.2f} | | |"


def conclusions(rows: Sequence[Row]) -> Iterator[str]:
    """Geometric means, and the rows that fall short."""
    for what, number in NUMBERS.items():
        values = [number(row) for row in rows]
        yield f"{what}: geometric mean {geometric_mean(values):.2f}, from {min(values):.2f} to {max(values):.2f}"
    slow = sorted((row for row in rows if row.ratio < LEAST), key=lambda row: row.ratio)
    yield f"{len(slow)} of {len(rows)} rows have static / dynamic below {LEAST} (marked *); wanted is a mean of {WANTED}"
    yield from (f"{row.ratio:.2f}: {row.title}" for row in slow)
    yield from (f"WRONG: {row.title}: {max(row.errors):.1e}" for row in rows if not row.agrees)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; the exit status is 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only networks whose name has one of these comma-separated parts")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=Effort.rounds)
    parser.add_argument("--seconds", type=float, default=Effort.seconds, help="after three rounds, the limit for one size")
    parser.add_argument("--small", action="store_true", help="the tiny variants, to try the benchmark itself")
    parser.add_argument("--json", type=Path, help="file for all samples")
    parser.add_argument("--markdown", action="store_true", help="also print the table of docs/reference/performance_dynamic.md")
    options = parser.parse_args(argv)
    parts = re.compile("|".join(map(re.escape, options.filter.split(","))))
    console = Console() if sys.stdout.isatty() else Console(width=150)
    measured: list[Measured] = []
    for name in filter(parts.search, DYNAMIC):
        effort = Effort(options.rounds, options.seconds)
        measured.append(run(name, options.batch, options.threads, effort, small=options.small))
        console.print(table(measured[-1]))
    rows = [row for m in measured for row in m.rows]
    for line in (*conclusions(rows), *(markdown(measured) if options.markdown else ())):
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    if options.json:
        options.json.write_text(json.dumps([dataclasses.asdict(m) for m in measured], indent=1), encoding="utf-8")
    return int(not all(row.agrees for row in rows))


if __name__ == "__main__":
    sys.exit(main())
