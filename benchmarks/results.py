"""What the comparison has measured, as data: ratios, fractions of the machine's limits, JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.libraries import LIBRARIES, OURS, Case, Precision
from forge.driver.latency import Latencies
from forge.driver.machines import Machine

_LAST_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True)
class Result:
    """One library on one case; ``failure`` says why there is nothing else.

    Attributes:
        compile_seconds: to make the library's own form of the model; None where it has none.
        load_seconds: until the first outputs, in a new process.
        peak_bytes: most memory that this process had resident until the second outputs.
        error: largest difference to unoptimized onnxruntime, relative to the largest output.
    """

    library: str
    compile_seconds: float | None = None
    load_seconds: float | None = None
    peak_bytes: int = 0
    samples: tuple[float, ...] = ()
    error: float | None = None
    failure: str = ""

    @property
    def latencies(self) -> Latencies:
        return Latencies(self.samples)

    @property
    def counts(self) -> bool:
        """Whether it was measured and its outputs are right."""
        return bool(self.samples) and self.error is not None and self.error <= LIBRARIES[self.library].limit

    @property
    def precision(self) -> Precision:
        return LIBRARIES[self.library].precision

    @property
    def ours(self) -> bool:
        return self.library == OURS[self.precision]


@dataclass(frozen=True)
class Measurement:
    """All libraries on one case with one number of threads.

    Attributes:
        flops, bytes: arithmetic of a call, and bytes that it reads and writes at least.
        peak_flops, bandwidth: per second, of as many threads: the most in any round.
        cache_bytes: the last cache: less than that need not come from memory in each call.
    """

    case: Case
    threads: int
    flops: int
    bytes: int
    peak_flops: float
    bandwidth: float
    cache_bytes: int
    results: tuple[Result, ...] = field(default=())

    def ours(self, precision: Precision = "float32") -> Result | None:
        """Forge's row, if its outputs are right."""
        return next((r for r in self.results if r.library == OURS[precision] and r.counts), None)

    def peers(self, precision: Precision = "float32") -> list[Result]:
        """The other libraries of a precision whose outputs are right."""
        return [r for r in self.results if not r.ours and r.counts and r.precision == precision]

    def best_peer(self, precision: Precision = "float32") -> Result | None:
        return min(self.peers(precision), key=lambda r: r.latencies.minimum, default=None)

    def ratio(self, precision: Precision = "float32") -> float | None:
        """Time of the best peer of the same precision over ours, by their minima: above 1, Forge is faster."""
        ours, best = self.ours(precision), self.best_peer(precision)
        return None if ours is None or best is None else best.latencies.minimum / ours.latencies.minimum

    def gain(self, precision: Precision) -> float | None:
        """Forge's time in float32 over that with the option for another precision: below 1, the option makes it slower."""
        plain, narrow = self.ours(), self.ours(precision)
        return None if plain is None or narrow is None else plain.latencies.minimum / narrow.latencies.minimum

    def leanest_peer(self) -> Result | None:
        """The peer of any precision with the smallest peak memory."""
        peers = [r for r in self.results if not r.ours and r.counts]
        return min(peers, key=lambda r: r.peak_bytes, default=None)

    @property
    def limit(self) -> tuple[str, float]:
        """What bounds the model on this machine, "FMA" or "memory", and the seconds that a call takes at that bound."""
        arithmetic = self.flops / self.peak_flops
        traffic = self.bytes / self.bandwidth if self.bytes > self.cache_bytes else 0.0
        return ("memory", traffic) if traffic > arithmetic else ("FMA", arithmetic)


def geometric_mean(values: Iterable[float]) -> float:
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else math.nan


def mean_ratios(measurements: Sequence[Measurement], precision: Precision = "float32") -> dict[str, float]:
    """Per peer of a precision, and of the best one, the geometric mean over the measurements of its minimum over ours."""
    found: dict[str, list[float]] = {}
    for taken in measurements:
        ours, ratio = taken.ours(precision), taken.ratio(precision)
        if ours is None or ratio is None:
            continue
        found.setdefault("best peer", []).append(ratio)
        for peer in taken.peers(precision):
            found.setdefault(peer.library, []).append(peer.latencies.minimum / ours.latencies.minimum)
    return {name: geometric_mean(values) for name, values in found.items()}


def last_cache_bytes() -> int:
    """Size of the largest cache of the first CPU; 0 where the system does not say."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    texts = [path.read_text().strip() for path in _LAST_CACHE.glob("index*/size")]
    return max((int(text[:-1]) * units[text[-1]] for text in texts), default=0)


def save(path: Path, measurements: Sequence[Measurement]) -> None:
    """Writes all of them; a reader never sees half a file."""
    text = json.dumps({"machine": Machine.here().facts, "measurements": [dataclasses.asdict(m) for m in measurements]}, indent=1)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(text)
    unfinished.replace(path)


def load(path: Path) -> list[Measurement]:
    """What `save` wrote.

    Raises:
        ValueError: it was measured on another machine.
    """
    stored, here = json.loads(path.read_text()), Machine.here().facts
    if stored["machine"] != here:
        raise ValueError(f"{path}: measured on {stored['machine']}; this is {here}; give another --output or --fresh")
    return [_measurement(entry) for entry in stored["measurements"]]


def _measurement(entry: Mapping[str, Any]) -> Measurement:
    results = tuple(Result(**{**row, "samples": tuple(row["samples"])}) for row in entry["results"])
    return Measurement(**{**entry, "case": Case(**entry["case"]), "results": results})
