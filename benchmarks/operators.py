"""Single operators at sizes of real networks beside onnxruntime and openvino, with sizes known and unknown.

    python -m benchmarks.operators                                # all rows on one thread: what is slow stands first
    python -m benchmarks.operators --filter "pool: max" conv3d    # some rows
    python -m benchmarks.operators --threads 1,2 --page           # also writes docs/reference/performance_operators.md

The rows are those of ``operator_table``: a slow operator gets a line there. Each has a static and a dynamic form; all engines run
both in turns. A ratio is the time of the faster peer over that of Forge: above 1, Forge is faster. Peers that are not installed
are left out; where an engine fails, or gives other results than the others, its cell says so.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import math
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import rich.box
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks import operator_results as results
from benchmarks.isolation import Worker, WorkerFailed
from benchmarks.operator_results import COLUMNS, FORMS, MEANS, PAGE, STORE, Form, Measured, Result
from benchmarks.operator_table import ROWS, Given, Row
from forge import peers
from forge.backends.core_rates import best_seconds
from forge.driver.latency import Latencies, measure

Array = NDArray[Any]
Load = Callable[[], peers.Call]
PATIENCE = 180.0
"""Seconds for one row, after which it is given up."""

TOLERANCE = 1e-3
"""Largest difference to a peer, relative to the largest result: sums in another order, Winograd."""

HALVES = 1e-2
"""Most bytes that may be rounded otherwise than by a peer, as a share."""

_SPECIFICATION = re.compile(r"(?:([a-z]+\d*)(<\d+|>0)? )?([\w=,]*)")
_PREAMBLE = re.compile(r"^(Exception from|Check '.*' failed|FrontEnd API failed|Model wasn't fully converted).*$", re.MULTILINE)
"""What stands in OpenVINO's messages before the reason: places in its sources."""

_CALL_SECONDS = 4e-3
"""What a round takes at least: a sample of 2 ms, and about as long again for the untimed call and what surrounds both."""

_SLOW_SECONDS = 2.0
"""A round that takes longer is not repeated."""


def shape_of(text: str, *, dynamic: bool) -> list[int | str]:
    """``64,h=56`` is (64, 56), and (64, "h") where it is dynamic."""
    given = [part.partition("=") for part in text.split(",") if part]
    return [name if size and dynamic else int(size or name) for name, _, size in given]


def array(given: Given, rng: np.random.Generator) -> Array:
    """What a row says of an input or a constant."""
    if not isinstance(given, str):
        made = np.asarray(given)
        return made.astype(np.float32) if made.dtype == np.float64 else made
    kind, limit, sizes = _parts(given)
    shape = tuple(map(int, shape_of(sizes, dynamic=False)))
    match kind:
        case "boxes":
            corner = rng.uniform(0, 150, (*shape[:-1], 2))
            return np.concatenate([corner, corner + rng.uniform(5, 50, corner.shape)], -1).astype(np.float32)
        case "distinct":
            return rng.permutation(int(limit[1:]))[:math.prod(shape)].reshape(shape)
        case "float32" if limit:
            return rng.uniform(0.1, 2.0, shape).astype(np.float32)
        case "float32" | "float16":
            return rng.standard_normal(shape, np.float32).astype(kind)
    bound = int(limit[1:]) if limit else {"bool": 2, "uint8": 256}[kind]
    return rng.integers(-bound if kind in ("int8", "int32") else 0, bound, shape).astype(kind)


def _parts(given: str) -> tuple[str, str, str]:
    """The element type or kind, its limit, and the shape."""
    found = _SPECIFICATION.fullmatch(given)
    assert found is not None, f"not a type and a shape: {given!r}"
    return found[1] or "float32", found[2] or "", found[3]


def model(row: Row, feed: Mapping[str, Array], constants: Mapping[str, Array], *, dynamic: bool) -> Any:
    """The row as an ONNX model; the last node's results are its outputs."""
    import onnx.parser
    from onnx import helper, numpy_helper

    nodes = [onnx.parser.parse_node(text) for text in row.nodes.split(";")]
    shapes = {name: shape_of(_parts(given)[2], dynamic=dynamic) for name, given in row.inputs.items()}
    kinds = {name: helper.np_dtype_to_tensor_dtype(values.dtype) for name, values in feed.items()}
    inputs = [helper.make_tensor_value_info(name, kinds[name], shape) for name, shape in shapes.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in nodes[-1].output]
    weights = [numpy_helper.from_array(values, name) for name, values in constants.items()]
    graph = helper.make_graph(nodes, "row", inputs, outputs, weights)
    others = sorted({node.domain for node in nodes} - {""})
    opsets = [helper.make_opsetid("", row.opset), *(helper.make_opsetid(domain, 1) for domain in others)]
    untyped = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return onnx.shape_inference.infer_shapes(untyped, data_prop=True)


def load_forge(path: Path, feed: peers.Feed, threads: int, target: str) -> peers.Call:
    import forge

    runtime: Any = forge.from_onnx(path).get_inference_function(target)
    runtime.set_num_threads(threads)
    arrays = [feed[name] for name in runtime.input_names]
    return lambda: peers.as_list(runtime(*arrays))


def measure_row(row: Row, threads: int, target: str, rounds: int, seconds: float) -> Result:
    """Both forms of a row on all engines that are installed, in turns."""
    rng = np.random.default_rng(0)
    feed = {name: array(given, rng) for name, given in row.inputs.items()}
    constants = {name: _weights(given, rng) for name, given in row.constants.items()}
    calls: dict[str, dict[str, Callable[[], Any]]] = {}
    failures: dict[str, dict[str, str]] = {}
    outputs: list[Array] = []
    with tempfile.TemporaryDirectory() as folder:
        import onnx

        for form in FORMS[:1 + row.dynamic]:
            path = Path(folder) / f"{form}.onnx"
            onnx.save(model(row, feed, constants, dynamic=form == "dynamic"), path)
            calls[form], found, failures[form] = _first_calls(_loaders(path, feed, threads, target))
            failures[form] |= disagreeing(found)
            outputs = next(iter(found.values()), outputs)
    times = _turns({f"{form} {name}": call for form in calls for name, call in calls[form].items()}, threads, rounds, seconds)
    forms = {form: Form({name: _summary(times[f"{form} {name}"]) for name in calls[form]}, failures[form]) for form in calls}
    return Result(row.title, threads, sum(a.nbytes for a in (*feed.values(), *outputs)), forms)


def _summary(taken: Latencies) -> tuple[float, float]:
    return taken.minimum, taken.median


def _weights(given: Given, rng: np.random.Generator) -> Array:
    """Random floats of constants are small, so that sums of products stay near 1."""
    made = array(given, rng)
    return made * np.float32(0.1) if isinstance(given, str) and _parts(given)[:2] == ("float32", "") else made


def _loaders(path: Path, feed: peers.Feed, threads: int, target: str) -> dict[str, Load]:
    installed = {name: load for name, load in peers.LOADERS.items() if importlib.util.find_spec(name)}
    others = {name: partial(load, path, feed, threads) for name, load in installed.items()}
    return {"forge": partial(load_forge, path, feed, threads, target), **others}


def _first_calls(loaders: Mapping[str, Load]) -> tuple[dict[str, peers.Call], dict[str, list[Array]], dict[str, str]]:
    """What runs, the results of its first call, and why the others do not run."""
    calls, outputs, failures = {}, {}, {}
    for name, load in loaders.items():
        try:
            call = load()
            outputs[name] = [np.array(output) for output in call()]
            calls[name] = call
        except Exception as error:  # noqa: BLE001
            failures[name] = _brief(f"{type(error).__name__}: {_PREAMBLE.sub('', str(error))}")
    return calls, outputs, failures


def _brief(text: str) -> str:
    return " ".join(text.split())[:100]


def disagreeing(outputs: Mapping[str, Sequence[Array]]) -> dict[str, str]:
    """By engine, whom it contradicts: Forge if no peer has its results, else the peers that have others."""
    if "forge" not in outputs:
        return {}
    errors = {peer: difference(outputs["forge"], found) for peer, found in outputs.items() if peer != "forge"}
    wrong = {peer: error for peer, error in errors.items() if not error <= TOLERANCE}
    if wrong and len(wrong) == len(errors):
        return {"forge": "wrong: differs " + ", ".join(f"from {peer} by {error:.1g}" for peer, error in wrong.items())}
    return {peer: f"wrong: differs by {error:.1g}" for peer, error in wrong.items()}


def difference(found: Sequence[Array], expected: Sequence[Array]) -> float:
    """As `peers.disagreement`; few bytes may differ by one, where a sum lies halfway between two of them."""
    pairs = list(zip(found, expected, strict=True))
    if all(a.dtype == b.dtype == np.uint8 and a.shape == b.shape for a, b in pairs):
        steps = np.concatenate([np.abs(a.astype(np.int32) - b).ravel() for a, b in pairs])
        if steps.max(initial=0) <= 1 and steps.sum() <= HALVES * steps.size:
            return 0.0
    return peers.disagreement(found, expected)


def _turns(calls: Mapping[str, Callable[[], Any]], threads: int, rounds: int, seconds: float) -> Mapping[str, Latencies]:
    """As many rounds as fit into ``seconds`` for each call, three at least where a call is not very slow."""
    if not calls:
        return {}
    once = sum(max(2 * best_seconds(call, 1), _CALL_SECONDS) for call in calls.values())
    fitting = int(seconds * len(calls) / once)
    return measure(calls, max(1 if once > _SLOW_SECONDS else 3, min(rounds, fitting)), pause=0.001 * (threads > 1))


def serve(indices: Sequence[int], threads: int, target: str, rounds: int, seconds: float) -> Iterator[dict[str, Any]]:
    """In a process of its own: the rows of the table with these numbers, one for each line of the standard input."""
    import dataclasses

    for index, _ in zip(indices, sys.stdin, strict=False):
        yield dataclasses.asdict(measure_row(ROWS[index], threads, target, rounds, seconds))


def run(rows: Sequence[Row], threads: int, target: str, rounds: int, seconds: float) -> Iterator[Result]:
    """Measures rows in a process that is replaced when it dies or hangs: then Forge's cell says how."""
    waiting = [ROWS.index(row) for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        while waiting:
            arguments = ("rows", ",".join(map(str, waiting)), threads, target, rounds, seconds)
            with Worker(*arguments, log=Path(folder) / "log") as worker:
                try:
                    while waiting:
                        yield results.result(worker.request(PATIENCE))
                        del waiting[0]
                except WorkerFailed as failure:
                    row = ROWS[waiting.pop(0)]
                    failed = Form({}, {"forge": _brief(str(failure))})
                    yield Result(row.title, threads, 0, dict.fromkeys(FORMS[:1 + row.dynamic], failed))


def versions() -> dict[str, str]:
    """Of the peers that are installed."""
    return {name: importlib.metadata.version(name) for name in peers.LOADERS if importlib.util.find_spec(name)}


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str) -> Table:
    made = Table(title=title, box=rich.box.SIMPLE_HEAD, title_justify="left")
    for number, column in enumerate(columns):
        made.add_column(column, justify="right" if number else "left", no_wrap=not number, max_width=24 if number else None)
    for row in rows:
        made.add_row(*(cell.replace("[", r"\[") for cell in row))
    return made


def show(found: Sequence[Result], console: Console) -> None:
    """What is below 1 first, then the means, then the other rows."""
    slow = results.behind(found)
    parts = {f"below 1.0, worst first: {len(slow)} of {len(found)} rows": slow, "others": [r for r in found if r not in slow]}
    for title, rows in parts.items():
        if rows:
            console.print(table(COLUMNS, map(results.cells, rows), f"{title}; ms"))
    console.print(table(MEANS, results.means(found), "time of the faster peer / forge"))


def line(result: Result) -> str:
    """Of a row that has just been measured."""
    ratios = (f"{form} {'-' if (ratio := result.ratio(form)) is None else f'{ratio:.2f}'}" for form in result.forms)
    failures = {f"{name}: {why}" for form in result.forms.values() for name, why in form.failures.items()}
    return f"{result.title:56} {'  '.join(ratios):28} {'; '.join(sorted(failures))}"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; the exit status is 1 if Forge failed on a row or its results were wrong."""
    options = _parse(argv)
    console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 200)
    chosen = [row for row in ROWS if any(part in row.title for part in options.filter)]
    kept = STORE if options.page else options.json
    here = results.environment(versions() | ({} if options.target == "llvm" else {"target": options.target}))
    try:
        measured = results.load(kept, here) if kept else Measured(here)
    except ValueError as error:
        raise SystemExit(f"benchmarks.operators: {error}") from error
    console.print(f"{len(chosen)} rows on {here['cpu']}, {here['cpus']} CPUs, {here['versions']}")
    failed = False
    for threads in options.threads:
        found = []
        for result in run(chosen, threads, options.target, options.rounds, options.seconds):
            found.append(result)
            console.print(f"{len(found):3} of {len(chosen)}  {line(result)}")
            measured = measured.add([result])
            for path in {kept, options.json} - {None}:
                results.save(path, measured)
        console.print(f"{threads} thread(s)", style="bold")
        show(found, console)
        failed |= any(r.failed for r in found)
    if options.page:
        PAGE.write_text(results.page(measured), encoding="utf-8")
    return int(failed)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", nargs="+", default=[""], metavar="NAME", help="parts of the rows' titles, `family: name`")
    parser.add_argument("--threads", type=lambda text: [int(part) for part in text.split(",")], default=[1], help="default: 1")
    parser.add_argument("--rounds", type=int, default=40, help="most rounds")
    parser.add_argument("--seconds", type=float, default=0.1, help="for each engine and form, after three rounds")
    parser.add_argument("--target", default="llvm", help="what Forge compiles for")
    parser.add_argument("--json", type=Path, help="keep all results in a file; rows that it holds from this machine stay")
    parser.add_argument("--page", action="store_true", help="keep them in benchmarks/operators.json, and write the page")
    options = parser.parse_args(argv)
    if options.page and options.target != "llvm":
        parser.error("the page is for the default target")
    return options


if __name__ == "__main__":
    sys.exit(main())
