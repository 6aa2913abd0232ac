"""Looks for choices that are faster than the cost models' by measuring them in the model itself.

Every round compiles the model once with the next alternative of all choices that do not disturb each other, and times each kernel
among its neighbours, with the caches as they are there. What seems to be faster is measured again, in turns with the default,
before it is believed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from forge.driver import profiler
from forge.driver.compiler import compile_module
from forge.driver.pass_context import check_options
from forge.driver.tuning import Record
from forge.errors import OptionError, option
from forge.ir.graph import Module
from forge.options import CompileOptions
from forge.progress import Progress
from forge.target import Target, host
from forge.target.choices import LIMIT, Choice, Choices, as_text

_CALLS = 8
_TURNS = 4
_GAIN = 0.98
"""What a choice must take of the default's time to be worth a second look."""


_SURE = 0.99
"""What it must take of it when both are measured in turns."""


@dataclass(frozen=True)
class Tuned:
    """What `tune_module` found.

    Attributes:
        records: choices that are faster than the default.
        tried: number of alternatives that were measured.
        finished: whether there was time for all.
        before, after: seconds of one call with the default choices and with the new ones, minima of calls in turns.
    """

    records: tuple[Record, ...]
    tried: int
    finished: bool
    before: float
    after: float


def tune_module(
    module: Module, feed: Mapping[str, np.ndarray], options: CompileOptions | None = None, *, seconds: float,
    progress: Progress | None = None,
) -> Tuned:
    """Measures alternatives for the kernels of ``main`` with as many threads as the target has cores.

    Args:
        feed: an array for each input, by name.
        options: as of `compile_module`.
        seconds: when to stop; a compilation that has begun, and the last comparison, are finished.
        progress: called with phase, seconds that passed, seconds in all.

    Raises:
        OptionError: ``seconds`` is not positive, the target is for another CPU than this machine's, or has more cores than this
            process may use.
        What `compile_module` and the runtime raise.
    """
    options = options or check_options()
    target = options.target
    available = Target.parse("llvm").num_cores
    if not seconds > 0:
        raise OptionError(f"tune: {option('seconds')}: got {seconds}; expected a positive number")
    if target.machine != host.name():
        raise OptionError(f"tune: {option('target')}: is for {target.machine}, and this machine is {host.name()}; expected the "
                          "CPU that it runs on; tune there, and carry the records here by 'forge tune --export' and '--import'")
    if target.num_cores > available:
        raise OptionError(f"tune: the target has {target.num_cores} cores, this process may use {available}; "
                          f"expected at most as many; set -num-cores={available}")

    def build(chosen: Mapping[str, str]) -> _Build:
        explorer = _Explorer(chosen)
        return _Build(module, feed, replace(options, target=replace(target, choices=explorer)), explorer)

    return _Search(build, time.monotonic() + seconds, _reporter(progress, seconds)).run(target)


def _reporter(progress: Progress | None, seconds: float) -> Callable[[], None]:
    begin, total = time.monotonic(), max(1, round(seconds))
    return lambda: None if progress is None else progress("tune", min(total, round(time.monotonic() - begin)), total)


class _Explorer(Choices):
    """Notes what was asked, besides answering."""

    def __init__(self, entries: Mapping[str, str]) -> None:
        super().__init__(entries)
        self.offered: dict[str, list[str]] = {}
        self.notes: dict[str, list[str]] = {}
        self.picks: dict[str, list[str]] = {}

    def pick(self, key: str, default: Choice, alternatives: Callable[[], Iterable[Choice]], kernel: str = "") -> Choice:
        if key not in self.offered:
            texts = [as_text(default), *map(as_text, alternatives())]
            self.offered[key] = list(dict.fromkeys(texts))[: LIMIT + 1]
        if kernel:
            self.picks.setdefault(kernel, []).append(key)
        return super().pick(key, default, alternatives, kernel)

    def note(self, key: str, kernel: str) -> None:
        if key in self.offered:
            self.notes.setdefault(kernel, []).append(key)


class _Build:
    """The model with some choices, ready to be timed."""

    def __init__(self, module: Module, feed: Mapping[str, np.ndarray], options: CompileOptions, explorer: _Explorer) -> None:
        compiled = compile_module(module, options, profile=True)
        self.explorer = explorer
        self.kernels = [kernel for _, kernel in profiler.items_of(compiled)]
        self.runtime = compiled.runtime(num_threads=options.target.num_cores)
        self.arrays = [feed[name] for name in self.runtime.input_names]
        session = self.runtime.session() if self.runtime.states else None
        self.called = session or self.runtime
        self.prepare: Callable[[], object] = session.reset if session else lambda: None
        self.items: list[np.ndarray] = []
        self.walls: list[np.ndarray] = []

    def sample(self) -> None:
        """Adds measurements."""
        items, walls = profiler.sample(lambda: self.called.run(self.arrays), _CALLS, self.prepare)
        self.items.append(items)
        self.walls.append(walls)

    def seconds(self, key: str) -> tuple[float, float]:
        """Minimum and median of the sum of the kernels that came out of the choice for ``key``; infinite if there are none."""
        explorer = self.explorer
        mine = [key in explorer.notes.get(k, []) or key in explorer.picks.get(k, []) for k in self.kernels]
        if not any(mine):
            return np.inf, np.inf
        taken = np.concatenate(self.items)[:, mine]
        return float(taken.min(axis=0).sum()), float(np.median(taken, axis=0).sum())

    @property
    def fastest(self) -> float:
        """Seconds of the fastest call."""
        return float(min(walls.min() for walls in self.walls))


@dataclass
class _Key:
    """One choice: its alternatives, the default first; what they took; and under which choices of passes it arises."""

    alternatives: list[str]
    seconds: dict[str, float] = field(default_factory=dict)
    parents: set[tuple[str, str]] = field(default_factory=set)

    @property
    def untried(self) -> list[str]:
        return [choice for choice in self.alternatives if choice not in self.seconds]

    @property
    def best(self) -> str:
        default = self.alternatives[0]
        best = min(self.seconds, key=lambda choice: self.seconds[choice], default=default)
        return best if self.seconds.get(best, np.inf) < _GAIN * self.seconds.get(default, np.inf) else default


class _Search:
    def __init__(self, build: Callable[[Mapping[str, str]], _Build], deadline: float, report: Callable[[], None]) -> None:
        self.build = build
        self.deadline = deadline
        self.report = report
        self.keys: dict[str, _Key] = {}

    def run(self, target: Target) -> Tuned:
        default = self._try({})
        while (active := self._next()) and time.monotonic() < self.deadline:
            self._try(active)
        tried = sum(max(0, len(key.seconds) - 1) for key in self.keys.values())
        records, before, after = self._confirm(default, target)
        return Tuned(tuple(records), tried, not active, before, after)

    def _try(self, active: Mapping[str, str]) -> _Build:
        """Compiles the best known choices with ``active`` in place of some, and takes their times."""
        self.report()
        build = self.build({**self._best(), **active})
        build.sample()
        self._learn(build)
        for name, key in self.keys.items():
            choice = active.get(name, key.best if key.seconds else key.alternatives[0])
            taken, _ = build.seconds(name)
            if choice not in key.seconds and (np.isfinite(taken) or name in active):
                key.seconds[choice] = taken
        self.report()
        return build

    def _learn(self, build: _Build) -> None:
        explorer = build.explorer
        for name, texts in explorer.offered.items():
            self.keys.setdefault(name, _Key(texts))
        for kernel, names in explorer.picks.items():
            for name in names:
                parents = {(n, explorer.entries.get(n, explorer.offered[n][0])) for n in explorer.notes.get(kernel, [])}
                self.keys[name].parents |= parents

    def _arises(self, key: _Key) -> bool:
        """Whether the best choices of passes lead to it."""
        return not key.parents or any(self.keys[name].best == choice for name, choice in key.parents)

    def _settled(self, key: _Key) -> bool:
        return all(not self.keys[name].untried for name, _ in key.parents)

    def _next(self) -> dict[str, str]:
        """The next alternative of each choice that does not depend on another open one."""
        return {name: key.untried[0] for name, key in self.keys.items()
                if key.untried and key.seconds and self._settled(key) and self._arises(key)}

    def _best(self) -> dict[str, str]:
        return {name: key.best for name, key in self.keys.items() if key.best != key.alternatives[0] and self._arises(key)}

    def _confirm(self, default: _Build, target: Target) -> tuple[list[Record], float, float]:
        """Measures in turns, and keeps what is faster by minimum and by median."""
        chosen = self._best()
        if not chosen:
            return [], default.fastest, default.fastest
        build = self.build(chosen)
        default.items.clear()
        default.walls.clear()
        for _ in range(_TURNS):
            default.sample()
            build.sample()
            self.report()
        records = [record for name in chosen if (record := self._record(name, chosen, default, build, target)) is not None]
        return records, default.fastest, build.fastest

    def _record(self, name: str, chosen: Mapping[str, str], default: _Build, build: _Build, target: Target) -> Record | None:
        """A choice is judged with the choice of a pass that it depends on, because only together they were measured."""
        parents = [parent for parent, choice in self.keys[name].parents if chosen.get(parent) == choice]
        judged = parents[0] if parents else name
        (least, median), (least_default, median_default) = build.seconds(judged), default.seconds(judged)
        if not (least < _SURE * least_default and median < _SURE * median_default):
            return None
        return Record.of(target, name, chosen[name], least, least_default)
