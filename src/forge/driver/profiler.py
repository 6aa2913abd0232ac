"""Where the time of a compiled model goes: seconds, arithmetic and memory traffic of each kernel."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from forge import dims
from forge.backends.compiled import CompiledModel
from forge.dims import Dim
from forge.driver import analysis, peaks
from forge.driver.compiler import compile_module
from forge.ir.graph import Module
from forge.ir.interp import bind_symbols
from forge.ir.nodes import Node, Value
from forge.ir.op import Category
from forge.ir.types import TensorType
from forge.lowering.groups import Group
from forge.lowering.late import Definition
from forge.lowering.program import Item
from forge.lowering.texts import parts
from forge.options import CompileOptions
from forge.progress import Progress

SHORTEST = 0.2
"""Seconds of calls that are timed at least, so that the cycle counter can be told from the clock."""
SHORTEST_RATED = 1e-7
"""Of what takes fewer seconds, most is the call itself: it has no rate."""

MAX_OF_COPY = 1.1
"""Of the bandwidth that copies in memory have, what lies there moves no faster than this."""


@dataclass(frozen=True)
class ProfileRow:
    """One kernel call of the model.

    Attributes:
        kernel: name of its function; empty for control flow and for sizes that are computed or checked at run time.
        operators: names of the operators that it computes, in order; "sizes of ..." where it computes or checks what they need.
        nodes: what their nodes are called in the model, where that is known.
        layer: of these, that of the product or else of the result.
        shapes: of what it reads and writes, as text.
        seconds: median over the rounds.
        flops: arithmetic operations; None where they depend on the contents of inputs.
        bytes: read and written once each; None likewise.
    """

    kernel: str
    operators: tuple[str, ...]
    nodes: tuple[str, ...]
    layer: str
    shapes: str
    seconds: float
    flops: int | None
    bytes: int | None


def rate(rows: Sequence[ProfileRow], what: Literal["flops", "bytes"]) -> float | None:
    """Operations or bytes per second of kernels; None where their number is unknown or 0, or they take no time to speak of."""
    amounts, seconds = [getattr(row, what) for row in rows], sum(row.seconds for row in rows)
    if None in amounts or not sum(amounts) or seconds < SHORTEST_RATED:
        return None
    return float(sum(amounts) / seconds)


def of_copy(bandwidth: float, peak: float) -> str:
    """A rate of bytes next to that of copies in memory; of what moves faster, that it lies in a cache."""
    return "cached" if bandwidth > MAX_OF_COPY * peak else f"{bandwidth / peak:.0%}"


@dataclass(frozen=True)
class Profile:
    """``seconds``: median of the whole call, which is a little more than the sum of its rows."""

    rows: tuple[ProfileRow, ...]
    seconds: float
    threads: int
    rounds: int
    peaks: peaks.Peaks

    @property
    def by_operator(self) -> dict[tuple[str, ...], list[ProfileRow]]:
        """Rows with equal operators, those that take longest first."""
        found: dict[tuple[str, ...], list[ProfileRow]] = {}
        for row in self.rows:
            found.setdefault(row.operators, []).append(row)
        return dict(sorted(found.items(), key=lambda item: -sum(r.seconds for r in item[1])))


def profile_module(
    module: Module, feed: Mapping[str, np.ndarray], options: CompileOptions | None = None, *,
    threads: int = 1, rounds: int = 20, progress: Progress | None = None,
) -> Profile:
    """Compiles ``main`` with a clock between its kernels and runs it on ``feed``.

    Args:
        feed: an array for each input, by name; and for states, what they are at the beginning of each call.
        options: as of `compile_module`.
        rounds: calls at least; more where they are short.

    Raises:
        What `compile_module` and the runtime raise.
    """
    compiled = compile_module(module, options, progress=progress, profile=True)
    runtime = compiled.runtime(num_threads=threads)
    arrays = [feed[name] for name in runtime.input_names]
    if module.main.states:
        session, states = runtime.session(), {name: feed[name] for name in module.main.states if name in feed}
        durations, walls = sample(lambda: session.run(arrays), rounds, lambda: session.load_state(states))
    else:
        durations, walls = sample(lambda: runtime.run(arrays), rounds)
    symbols = _symbols(module, feed)
    timed = zip(items_of(compiled), np.median(durations, axis=0))
    rows = [_row(item, kernel, float(seconds), symbols) for (item, kernel), seconds in timed]
    return Profile(tuple(rows), float(np.median(walls)), threads, rounds, peaks.measure(compiled.target, threads))


def items_of(compiled: CompiledModel) -> list[tuple[Item, str]]:
    """What a model that was compiled with ``profile`` does in order, and the names of the kernels; "" for other items."""
    assert compiled.lowered is not None
    lowered = compiled.lowered.functions[0]
    steps = iter(lowered.steps)
    return [(item, next(steps) if isinstance(item, Group) else "") for item in lowered.items]


def sample(
    call: Callable[[], Sequence[np.ndarray]], rounds: int, prepare: Callable[[], object] = lambda: None
) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of items, ``[calls, items]``, and of whole calls of a model that was compiled with ``profile``.

    Args:
        prepare: comes before each call, and is not timed.
    """
    prepare()
    call()
    stamps: list[np.ndarray] = []
    walls: list[float] = []
    begin = time.perf_counter()
    while len(stamps) < rounds or time.perf_counter() - begin < SHORTEST:
        prepare()
        start = time.perf_counter()
        *_, times = call()
        walls.append(time.perf_counter() - start)
        stamps.append(np.array(times))
    end = time.perf_counter()
    cycles = np.array(stamps)
    elapsed = float(cycles[-1, -1] - cycles[0, 0]) or 1.0
    return np.diff(cycles, axis=1) * ((end - begin) / elapsed), np.array(walls)


def _symbols(module: Module, feed: Mapping[str, np.ndarray]) -> dict[str, int]:
    symbols: dict[str, int] = {}
    for value in module.main.inputs:
        if value.name in feed:
            bind_symbols(value, feed[value.name], symbols)
    return symbols


def _row(item: Item, kernel: str, seconds: float, symbols: Mapping[str, int]) -> ProfileRow:
    nodes, read, written = parts(item)
    operators, shapes = tuple(_label(n) for n in nodes), ", ".join(_shape(v, symbols) for v in written)
    moved = [_known(analysis.bytes_of(v), symbols) for v in [*read, *written]]
    work = [_known(analysis.flops_of(n), symbols) for n in nodes]
    if isinstance(item, Definition):
        read, work = [v for v in item.node.operands if v is not None], []
        operators, shapes = (f"sizes of {operators[0]}",), "sizes"
    shapes = f"{', '.join(_shape(v, symbols) for v in read)} -> {shapes}"
    names = {n: n.name or n.location for n in nodes if n.name or n.location}
    heart = next((n for n in names if n.op_def.category is Category.CONTRACTION), next(reversed(names), None))
    layer = "" if heart is None else names[heart]
    known = tuple(dict.fromkeys(names.values()))
    return ProfileRow(kernel, operators, known, layer, shapes, seconds, _total(work), _total(moved))


def _label(node: Node) -> str:
    return node.op.removeprefix("nn.").removeprefix("contrib_")


def _shape(value: Value, symbols: Mapping[str, int]) -> str:
    if not isinstance(value.type, TensorType):
        return str(value.type)
    extents = [_known(d, symbols) for d in value.shape]
    return "x".join("?" if d is None else str(d) for d in extents) or "scalar"


def _known(dim: Dim, symbols: Mapping[str, int]) -> int | None:
    try:
        return dims.evaluate(dim, symbols)
    except KeyError:
        return None


def _total(values: Sequence[int | None]) -> int | None:
    return None if None in values else sum(v for v in values if v is not None)
