"""One step of the comparison, in a process of its own: a library that crashes or hangs takes nothing else with it.

    python -m benchmarks.worker describe FOLDER
    python -m benchmarks.worker peaks FOLDER THREADS
    python -m benchmarks.worker prepare FOLDER LIBRARY THREADS...
    python -m benchmarks.worker serve FOLDER LIBRARY THREADS
    python -m benchmarks.worker rows NUMBERS THREADS TARGET ROUNDS SECONDS

Answers are lines of JSON on the standard output. What libraries print goes to the standard error.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import itertools
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from benchmarks.libraries import LIBRARIES, Case

if TYPE_CHECKING:
    from forge.ir.graph import Graph
    from forge.ir.nodes import Value

_SAMPLE_SECONDS = 2e-3
_DIE_WITH_PARENT = 1
_LOOKUPS = ("take", "embedding", "gather", "gather_nd")
Answer = dict[str, Any]


def describe(folder: Path) -> Iterator[Answer]:
    """Exports the model, writes inputs and expected outputs, and counts arithmetic and bytes."""
    import forge
    from benchmarks import models
    from forge import peers

    case = _case(folder)
    path = models.build(case.model, case.batch, dynamic=case.dynamic, small=case.small)
    (folder / "model.onnx").unlink(missing_ok=True)
    (folder / "model.onnx").symlink_to(path)
    feed: dict[str, Any] = models.inputs(case.model, case.batch, small=case.small)
    np.savez(folder / "inputs.npz", **feed)
    expected = peers.load_reference(path, feed, len(os.sched_getaffinity(0)))()
    save_arrays(folder / "expected.npz", expected)
    graph = forge.from_onnx(path).mod.main
    (folder / "outputs.txt").write_text("\n".join(str(value.name) for value in graph.outputs))
    moved = sum(array.nbytes for array in [*feed.values(), *expected])
    yield {"flops": _flops(graph, feed), "bytes": weight_bytes(graph) + moved}


def _case(folder: Path) -> Case:
    return Case(**json.loads((folder / "case.json").read_text()))


def _flops(graph: Graph, feed: dict[str, np.ndarray]) -> int:
    from forge import dims
    from forge.driver import analysis
    from forge.ir.interp import bind_symbols

    symbols: dict[str, int] = {}
    for value in graph.inputs:
        bind_symbols(value, feed[str(value.name)], symbols)
    return sum(dims.evaluate(analysis.flops_of(node), symbols) for node in graph.walk())


def weight_bytes(graph: Graph) -> int:
    """Bytes of the constants that every call reads wholly: all but tables that rows are looked up in."""
    read: list[Value] = [v for node in graph.walk() if node.op not in _LOOKUPS for v in node.operands if v is not None]
    arrays = {id(v.constant): v.constant for v in read if v.constant is not None}
    return sum(array.nbytes for array in arrays.values())


def measure_peaks(threads: int) -> Iterator[Answer]:
    """What the CPUs that the libraries run on can do now, once and then again for each line of the standard input."""
    from forge.driver import peaks
    from forge.target import Target

    _restrict(threads)
    for _ in itertools.chain([""], sys.stdin):
        yield dataclasses.asdict(peaks.measure(Target.parse("llvm"), threads))


def prepare(folder: Path, library: str, threads: list[int]) -> Iterator[Answer]:
    make = LIBRARIES[library].prepare
    yield {"compile_seconds": make(_case(folder), folder, threads) if make else None}


def serve(folder: Path, library: str, threads: int) -> Iterator[Answer]:
    """Loads the model and then times it once for each line of the standard input."""
    cpus = _restrict(threads)
    with np.load(folder / "inputs.npz") as stored:
        feed = {name: stored[name] for name in stored.files}
    start = time.perf_counter()
    call = LIBRARIES[library].load(folder, feed, threads)
    call()
    seconds = time.perf_counter() - start
    outputs = call()
    peak = peak_bytes()
    save_arrays(folder / f"{library}.npz", outputs)
    del outputs
    repeats = max(1, math.ceil(_SAMPLE_SECONDS / max(_time(call, 1), 1e-7)))
    yield {"load_seconds": seconds, "peak_bytes": peak}
    for _ in sys.stdin:
        spread(call, cpus)
        yield {"seconds": _time(call, repeats)}


def spread(call: Callable[[], object], cpus: list[int]) -> None:
    """Calls once, and gives each of the threads that were busiest meanwhile a CPU of its own.

    Threads that were stopped may all wake up on one CPU, and stay there for long while another idles.
    """
    before = _thread_seconds()
    call()
    if len(cpus) == 1:
        return
    spent = {thread: seconds - before.get(thread, 0.0) for thread, seconds in _thread_seconds().items()}
    for rank, thread in enumerate(sorted(spent, key=lambda thread: -spent[thread])):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(thread, cpus[rank:rank + 1] or cpus)


def _thread_seconds() -> dict[int, float]:
    """CPU time of each thread of this process."""
    found = {}
    for thread in map(int, os.listdir("/proc/self/task")):
        with contextlib.suppress(OSError):
            found[thread] = time.clock_gettime(_thread_clock(thread))
    return found


def _thread_clock(thread: int) -> int:
    """Linux' number of a thread's clock of CPU time: the inverted thread id above three bits of kind."""
    return (~thread << 3) | 6


def _restrict(threads: int) -> list[int]:
    """Keeps this process on as many CPUs, and tells which."""
    cpus = sorted(os.sched_getaffinity(0))[:threads]
    os.sched_setaffinity(0, cpus)
    return cpus


def _time(call: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def save_arrays(path: Path, arrays: Any) -> None:
    np.savez(path, **{f"output{index}": array for index, array in enumerate(arrays)})


def peak_bytes() -> int:
    """Most memory that this process has had resident."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def _answer_on_stdout() -> TextIO:
    """The standard output, for answers only: it becomes the standard error for everyone else, C code included."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return answers


def _steps(arguments: list[str]) -> Iterator[Answer]:
    match arguments:
        case ["describe", folder]:
            return describe(Path(folder))
        case ["peaks", _, threads]:
            return measure_peaks(int(threads))
        case ["prepare", folder, library, *threads]:
            return prepare(Path(folder), library, list(map(int, threads)))
        case ["serve", folder, library, threads]:
            return serve(Path(folder), library, int(threads))
        case ["rows", numbers, threads, target, rounds, seconds]:
            from benchmarks import operators

            return operators.serve(list(map(int, numbers.split(","))), int(threads), target, int(rounds), float(seconds))
    raise SystemExit(__doc__)


def main(arguments: list[str]) -> None:
    """Answers ``{"failure": text}`` where a library raises; it may raise anything."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    answers = _answer_on_stdout()
    try:
        for answer in _steps(arguments):
            answers.write(json.dumps(answer) + "\n")
    except ImportError as error:
        answers.write(json.dumps({"failure": f"not installed: {error}"}) + "\n")
    except Exception as error:  # noqa: BLE001
        answers.write(json.dumps({"failure": f"{type(error).__name__}: {error}"}) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
