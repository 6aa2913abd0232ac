"""How much accuracy models lose by quantization, with Forge, onnxruntime, NNCF and torchao.

    python -m benchmarks.quantization [TASK ...] [--seeds 5] [--methods METHOD ...] [--json FILE] [--small]

Networks are trained on the spot, a minute each, and kept (``tasks.py`` has the tasks, ``methods.py`` the methods). All methods
get the same networks, calibration inputs and test samples. With ``--json``, what the file has is not measured again, but for
``--again METHOD ...``.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.quantization.methods import METHODS, Method, Quantized, in_float, quiet
from benchmarks.quantization.results import FLOAT, Result, Results, failures, tables
from benchmarks.quantization.tasks import TASKS, Case, prepare

WIDTH = 200


def measured(case: Case, method: Method) -> Result:
    """Quantizes and judges; a failure is a result too."""
    made = Result(case.task.name, case.seed, case.folder.name, method.name)
    if importlib.util.find_spec(method.package) is None:
        return _failed(made, f"{method.package} is not installed")
    start = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory() as folder, quiet():
            quantized = method.make(case, Path(folder))
            seconds = time.perf_counter() - start
            return _judged(case, method.name, quantized, seconds)
    except Exception as error:  # noqa: BLE001 peers raise classes of their own
        return _failed(made, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")


def _failed(result: Result, failure: str) -> Result:
    return Result(result.task, result.seed, result.model, result.method, failure=failure)


def _judged(case: Case, name: str, quantized: Quantized, seconds: float = 0.0) -> Result:
    points = quantized.points(case, case.test)
    return Result(case.task.name, case.seed, case.folder.name, name, points, quantized.size, seconds)


def measure(case: Case, names: Iterable[str], results: Results, again: Sequence[str] = ()) -> None:
    """Adds to the results what they lack of a case."""
    if (case.folder.name, FLOAT) not in results.rows:
        results.add(_judged(case, FLOAT, in_float(case)))
    whole = results.rows[case.folder.name, FLOAT].points
    for name in names:
        method, known = METHODS[name], results.rows.get((case.folder.name, name))
        if not method.applies(case.task) or known is not None and not known.failure and name not in again:
            continue
        result = measured(case, method)
        results.add(result)
        outcome = result.failure or f"lost {whole - result.points:.3f} of {case.task.metric.shown(whole)}, {result.size} bytes"
        print(f"{case.task.name}\t{case.seed}\t{name}\t{outcome}\t{result.seconds:.1f} s", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    results = Results(options.json)
    models: dict[str, list[str]] = {name: [] for name in options.tasks}
    for seed in range(options.seeds):
        for name in options.tasks:
            case = prepare(name, seed, small=options.small, folder=options.folder)
            models[name].append(case.folder.name)
            measure(case, options.methods, results, options.again)
    console = Console(width=WIDTH)
    for table in tables(results, models, options.methods):
        console.print(table)
    for line in failures(results, models, options.methods):
        print(line)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=list(TASKS), metavar="TASK", help=f"of: {', '.join(TASKS)}")
    parser.add_argument("--seeds", type=int, default=5, help="networks trained for each task")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS), metavar="METHOD",
                        help=f"of: {', '.join(METHODS)}")
    parser.add_argument("--again", nargs="+", default=[], choices=list(METHODS), metavar="METHOD",
                        help="measure these though the file has them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where results are kept")
    parser.add_argument("--folder", type=Path, help="where trained networks are kept")
    parser.add_argument("--small", action="store_true", help="tiny training and samples, as tests take them")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
