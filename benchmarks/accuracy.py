"""Errors of compiled elementwise functions in units in the last place, over all float32 values.

    python -m benchmarks.accuracy --write                       # everything in the table: about half an hour of one CPU
    python -m benchmarks.accuracy --functions tanh,erf --every 101

``accuracy_table`` lists the functions, ``oracle`` gives the truth. ``--write`` stores what was measured in ``accuracy.json``,
function by function, from which the documentation and the bounds of tests come; what is stored there for more values stays, so
that a function whose code changes needs its entry removed first.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.accuracy_results import Errors, load, save
from benchmarks.accuracy_table import BY_NAME, Function
from benchmarks.oracle import Oracle
from forge import dims, dtypes
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Module
from forge.ir.types import TensorType

Array = np.ndarray[Any, Any]
CHUNK = 1 << 18
PATTERNS = 1 << 32
PAIRS = 100_000_000
NARROW = ("float16", "bfloat16")


def compiled(function: Function, dtype: str, target: str = "llvm") -> Callable[..., Array]:
    """The operator as machine code, on vectors of any size."""
    builder = Builder()
    types = [TensorType((dims.symbol("n"),), dtype)] * function.operands
    operands = [builder.input(type_, f"x{k}") for k, type_ in enumerate(types)]
    graph = builder.output(builder.call(function.operator, *operands, **function.attributes))
    graph.outputs[0].name = "y"
    runtime = compile_module(Module(graph), check_options(target), use_cache=False).runtime()
    runtime.set_num_threads(1)
    return lambda *x: np.asarray(runtime(*x))


class Meter:
    """Collects the errors of chunks of float32 results."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.largest = -1.0
        self.at: tuple[float, ...] = ()
        self.total, self.wrong, self.values = 0.0, 0, 0

    def add(self, actual: Array, *operands: Array) -> None:
        """Compares results with the truth."""
        truth, scratch = np.empty(actual.size), np.empty(actual.size)
        self.oracle.truth(operands[0], operands[1] if len(operands) > 1 else None, truth)
        found = self.oracle.compare(actual, truth, scratch)
        place = found.first_wrong if found.wrong and not self.wrong else found.at
        if found.largest > self.largest and not self.wrong or found.wrong and not self.wrong:
            self.at = tuple(float(x[place]) for x in operands)
        self.largest = max(self.largest, found.largest)
        self.total += found.total
        self.wrong += found.wrong
        self.values += actual.size

    def errors(self) -> Errors:
        return Errors(self.largest, self.at, self.total / max(1, self.values), self.wrong, self.values)


def sweep(function: Function, every: int = 1, target: str = "llvm") -> Errors:
    """Errors over every ``every``-th float32 bit pattern, from 0 to -NaN."""
    run, oracle = compiled(function, "float32", target), Oracle.compile(function.truth)
    meter = Meter(oracle)
    for first in range(0, PATTERNS, CHUNK * every):
        x = np.empty(min(CHUNK, -(-(PATTERNS - first) // every)), np.float32)
        oracle.patterns(x, first, every)
        meter.add(run(x), x)
    return meter.errors()


def pair_chunks(count: int) -> Iterator[tuple[Array, Array]]:
    """``count`` pairs of float32: first the edges with each other, then in turn all magnitudes and ordinary ones."""
    edges = np.array([0, 1, 2, 3, 0.5, 1.5, np.inf, np.nan, 1e-45, 1e-38, 3e38, 1e30, 7, 1e10, 16777216, 0.99999994], np.float32)
    edges = np.concatenate([edges, -edges])
    yield np.repeat(edges, edges.size), np.tile(edges, edges.size)
    rng = np.random.default_rng(20)
    for k in range(-(-count // CHUNK)):
        if k % 2:
            x, y = rng.integers(0, PATTERNS, (2, CHUNK), dtype=np.uint64).astype(np.uint32).view(np.float32)
        else:
            x = np.exp(rng.normal(size=CHUNK) * 4).astype(np.float32) * rng.choice(np.array([1, 1, 1, -1], np.float32), CHUNK)
            y = (rng.normal(size=CHUNK) * 12).astype(np.float32)
            y[::4] = np.round(y[::4])
        yield x, y


def sweep_pairs(function: Function, count: int = PAIRS, target: str = "llvm") -> Errors:
    """Errors over ``count`` random pairs and the edges."""
    run, meter = compiled(function, "float32", target), Meter(Oracle.compile(function.truth))
    for x, y in pair_chunks(count):
        meter.add(run(x, y), x, y)
    return meter.errors()


def sweep_narrow(function: Function, dtype: str) -> Errors:
    """Errors of float16 or bfloat16 over all 65,536 values."""
    kind = dtypes.numpy_dtype(dtype)
    x = np.arange(1 << 16, dtype=np.uint16).view(kind)
    wide, truth = x.astype(np.float32), np.empty(1 << 16)
    Oracle.compile(function.truth).truth(wide, None, truth)
    got = compiled(function, dtype)(x)
    with np.errstate(all="ignore"):
        rounded = truth.astype(kind).astype(np.float64)
    info = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
    return _summarized(got.astype(np.float64), truth, rounded, info, wide)


def _summarized(got: Array, truth: Array, rounded: Array, info: Any, x: Array) -> Errors:
    finite = np.isfinite(rounded) & np.isfinite(got)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    signs = (got == 0) & (np.signbit(got) != np.signbit(truth))
    wrong = ~finite & ~same | signs
    exponents = np.frexp(np.where(finite, truth, 1.0))[1]
    unit = np.maximum(np.ldexp(1.0, exponents - info.nmant - 1), float(info.smallest_subnormal))
    error = np.abs(np.where(finite, got, 0.0) - np.where(finite, truth, 0.0)) / unit
    worst = int(np.argmax(wrong)) if wrong.any() else int(np.argmax(error))
    return Errors(float(error.max()), (float(x[worst]),), float(error.mean()), int(wrong.sum()), x.size)


def double_points() -> Array:
    """Float64 values: every magnitude, the usual ranges, and where exponentials underflow."""
    rng = np.random.default_rng(21)
    magnitudes = np.exp(rng.uniform(-700, 700, 800)) * rng.choice([-1, 1], 800)
    parts = [rng.normal(size=900), rng.normal(size=600) * 20, rng.uniform(-1, 1, 900), -rng.uniform(600, 750, 200),
             1 + rng.normal(size=300) / 50, magnitudes]
    return np.concatenate(parts)


def sweep_double(function: Function, target: str = "llvm") -> Errors:
    """Errors of float64 over random points, against mpmath."""
    x = double_points()
    pairs = (x, np.random.default_rng(22).permutation(x)) if function.operands == 2 else (x,)
    got = compiled(function, "float64", target)(*pairs)
    errors = [_double_error(function, operands, float(result)) for *operands, result in zip(*pairs, got)]
    known = [e for e in errors if e is not None]
    worst = max(range(len(errors)), key=lambda k: -1.0 if errors[k] is None else float(errors[k] or 0.0))
    wrong = sum(e == float("inf") for e in known)
    at = tuple(float(p[worst]) for p in pairs)
    return Errors(max(known), at, float(np.mean(known)), wrong, len(known))


def _double_error(function: Function, operands: Sequence[float], got: float) -> float | None:
    """In ulp; None where mpmath has no real value, infinity where exactly one side is infinite or NaN."""
    import mpmath as mp

    with mp.workdps(60):
        try:
            truth = function.exact(mp, *(mp.mpf(float(v)) for v in operands))
        except (ValueError, ZeroDivisionError, OverflowError):
            return None
        if not isinstance(truth, mp.mpf) or mp.isnan(truth):
            return 0.0 if np.isnan(got) else float("inf")
        if abs(truth) >= mp.mpf(2) ** 1024:
            return 0.0 if np.isinf(got) else float("inf")
        unit = mp.ldexp(1, max(int(mp.frexp(truth)[1]) - 53, -1074))
        return float(abs(mp.mpf(got) - truth) / unit) if np.isfinite(got) else float("inf")


def measure(name: str, every: int) -> dict[str, Errors]:
    """Everything that the table says of one function."""
    function = BY_NAME[name]
    if function.operands == 2:
        return {"float32": sweep_pairs(function, PAIRS // every), "float64": sweep_double(function)}
    narrow = {dtype: sweep_narrow(function, dtype) for dtype in NARROW}
    return {"float32": sweep(function, every), "float64": sweep_double(function), **narrow}


def store(name: str, found: dict[str, Errors]) -> None:
    """Adds to ``accuracy.json``, but keeps what was measured there over more values."""
    results = load()
    old = results.get(name, {})
    kept = {dtype: old[dtype] for dtype, e in found.items() if dtype in old and old[dtype].values > e.values}
    results[name] = {**old, **found, **kept}
    save(results, BY_NAME)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--functions", default=",".join(BY_NAME), help="comma-separated names of the table")
    parser.add_argument("--every", type=int, default=1, help="take one of this many float32 values")
    parser.add_argument("--processes", type=int, default=1, help="functions measured at a time")
    parser.add_argument("--merge", type=Path, help="store what another such file holds instead of measuring")
    parser.add_argument("--write", action="store_true", help="store the results in benchmarks/accuracy.json")
    options = parser.parse_args(argv)
    if options.merge:
        for name, found in load(options.merge).items():
            store(name, found)
        return 0
    names = options.functions.split(",")
    with ProcessPoolExecutor(options.processes) as pool:
        for name, found in zip(names, pool.map(measure, names, [options.every] * len(names))):
            for dtype, e in found.items():
                print(f"{name:26s} {dtype:9s} {e.largest:8.3f} ulp at {e.at}, mean {e.mean:.3f}, wrong {e.wrong} of {e.values:,}",
                      flush=True)
            if options.write:
                store(name, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
