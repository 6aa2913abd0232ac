"""``forge bench``: latency, beside other runtimes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from forge import optional, peers
from forge._version import __version__
from forge.cli import source, tables
from forge.cli.records import takes_records
from forge.driver import machines
from forge.driver.feeds import Spec, specs_of
from forge.driver.latency import Latencies, measure
from forge.errors import OptionError
from forge.options import CompileOptions
from forge.target import Target, host
from forge_runtime import Runtime

EXAMPLES = (
    "forge bench model.onnx --rounds 3",
    "forge bench model.onnx --vs onnxruntime --threads 1 --dim batch=8 --rounds 3",
    "forge bench build/ --json --rounds 3",
    "forge bench model.onnx --rounds 3 --record speed.json",
)

_QUANTILES = {"minimum": 0.0, "median": 0.5, "p90": 0.9, "p99": 0.99, "maximum": 1.0}
_NUMBERS = (*_QUANTILES, "Forge is", "difference")
_COLUMNS = ("runtime", *_NUMBERS)
_SPARE = ("p99", "p90", "maximum", "minimum", "difference")


@takes_records()
def bench(
    model: Annotated[Path, typer.Argument(help="A model (.onnx, .pt2, .forge, .relay), or a compiled one (directory or .so).")],
    *,
    vs: Annotated[str, typer.Option(help="Peers, separated by commas: onnxruntime, openvino, torch.")] = "",
    torch_program: Annotated[Path | None, typer.Option(help="For --vs torch: the model as torch.export.save wrote it.")] = None,
    inputs: source.InputOption = None,
    shape: source.ShapeOption = None,
    function: source.FunctionOption = None,
    dim: source.DimOption = None,
    options: CompileOptions,
    threads: Annotated[int, typer.Option(min=1, help="Threads of every runtime.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, help="Samples of each.")] = 30,
    key: Annotated[Path | None, typer.Option(help="Key file of an encrypted model, if not next to it.")] = None,
    record: Annotated[Path | None, typer.Option(help="Keep the result in this file, in the table of this CPU.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measures latency, beside other runtimes on the same inputs.

    Rounds are interleaved; the largest difference of the outputs is shown, too. Calls of a model with states follow each other in
    one session. The file of --record has a table for each machine that added to it.
    """
    if record is not None:
        machines.read(record)
    torch_program = model if torch_program is None and model.suffix == ".pt2" else torch_program
    names = _peer_names(vs, model, torch_program)
    with source.progress(quiet=as_json) as report:
        runtime, specs, target, chosen = _load(model, key, shape, function, options, report)
        feed = source.feed_of(specs, inputs, dim)
        runtime.set_num_threads(threads)
        arrays = list(feed.values())
        called = runtime.session() if runtime.states else runtime
        calls: dict[str, peers.Call] = {"forge": lambda: peers.as_list(called(*arrays))}
        calls |= {name: _load_peer(name, model, torch_program, feed, threads) for name in names}
        outputs = {name: list(call()) for name, call in calls.items()}
        report("measure", 0, 1)
        latencies = measure(calls, rounds, pause=0.01 if threads > 1 else 0.0)
        report("measure", 1, 1)
    agreement = {name: peers.disagreement(outputs["forge"], outputs[name]) for name in names}
    rows, code = _rows(latencies, agreement), target.instruction_set
    if as_json:
        taken = {name: _milliseconds(latency) for name, latency in latencies.items()}
        source.print_json({"cpu": host.name(), "instruction_set": code, "threads": threads, "rounds": rounds,
                           "latencies_ms": taken, "difference": agreement})
    else:
        counts = f"{source.count_text(threads, 'thread')}, {source.count_text(rounds, 'round')}"
        source.say(f"latency in ms on {host.name()}, {code}, {counts}")
        tables.show("", _COLUMNS, rows, right=_NUMBERS, spare=_SPARE)
    if record is not None:
        given = {"--vs": [",".join(names)] if names else (), "--input": inputs, "--dim": dim, "--shape": shape,
                 "--function": [function] if function else ()}
        line = _command(model, threads, given, chosen, target)
        versions = {"forge": __version__, **{name: optional.installed(name) or "" for name in names}}
        table = machines.Table(line, _COLUMNS, rows, versions, [code, source.count_text(rounds, "round")])
        _show_kept(machines.add(record, table), record, quiet=as_json)


def _command(
    model: Path, threads: int, given: Mapping[str, Sequence[str] | None], chosen: Sequence[str], target: Target
) -> str:
    """What was measured, in one line: results of the same take the place of one another."""
    words = [f"{flag} {value}" for flag, values in given.items() for value in values or ()]
    code, usual = ([f"for {t.machine}, {t.instruction_set}"] for t in (target, Target.parse("llvm")))
    return " ".join([f"forge bench {model} --threads {threads}", *words, *chosen, *(code if code != usual else [])])


def _show_kept(known: Sequence[machines.Machine], record: Path, *, quiet: bool) -> None:
    """The table of this machine, and which others the file has."""
    if quiet:
        return
    here, *others = known
    rows = [[table.command, *row] for table in here.tables if tuple(table.columns) == _COLUMNS for row in table.rows]
    source.say(f"{record}: {here}")
    tables.show("", ("command", *_COLUMNS), rows, right=_NUMBERS, spare=_SPARE)
    for other in others:
        source.say(f"{record}: {other}: {source.count_text(len(other.tables), 'other table')}")


def _peer_names(vs: str, model: Path, torch_program: Path | None) -> list[str]:
    """The peers that are asked for, in order.

    Raises:
        OptionError: one is unknown, or cannot run this model.
    """
    names = [n.strip() for n in vs.split(",") if n.strip()]
    known = (*peers.LOADERS, "torch")
    for name in names:
        if name not in known:
            raise OptionError(f"--vs {name}: unknown runtime; expected some of: {', '.join(known)}")
        if name in peers.LOADERS and model.suffix != ".onnx":
            raise OptionError(f"--vs {name}: reads ONNX files; got {model}; expected a .onnx file")
        if name == "torch" and (torch_program is None or not torch_program.is_file()):
            raise OptionError("--vs torch: torch cannot read ONNX; pass --torch-program FILE.pt2, written by torch.export.save")
    return list(dict.fromkeys(names))


def _load(
    model: Path, key: Path | None, shape: list[str] | None, function: str | None, options: CompileOptions, report: source.Report
) -> tuple[Runtime, list[Spec], Target, list[str]]:
    """The runtime, what its inputs are, what it was compiled for, and with which options besides the defaults."""
    if source.is_artifact(model):
        runtime = source.open_artifact(model, key, Runtime)
        runtime = runtime if function is None else runtime[function]
        shapes = [shape or () for shape in runtime.input_shapes]
        target = Target.parse(runtime.metadata["target"])
        return runtime, list(zip(runtime.input_names, runtime.input_dtypes, shapes)), target, _chosen(runtime.metadata["options"])
    from forge.driver import compile_module

    module = source.load_model(model, shape, report, function)
    compiled = compile_module(module.mod, options, progress=report)
    return compiled.runtime(), specs_of(module.input_nodes), options.target, _chosen(options.recorded)


def _chosen(recorded: Mapping[str, Any]) -> list[str]:
    """Options that are not the defaults, in words."""
    usual = CompileOptions().recorded
    return [f"{name}={value}" for name, value in recorded.items() if value != usual.get(name)]


def _load_peer(name: str, model: Path, torch_program: Path | None, feed: peers.Feed, threads: int) -> peers.Call:
    """Raises OptionError where the package is not installed, or refuses the model."""
    try:
        if torch_program is not None and name == "torch":
            return peers.load_torch_program(torch_program, feed, threads)
        return peers.LOADERS[name](model, feed, threads)
    except ImportError as error:
        raise OptionError(f"--vs {name}: the package {name} is not installed; pip install {name}") from error
    except Exception as error:
        raise OptionError(f"--vs {name}: cannot load the model: {type(error).__name__}: {error}") from error


def _milliseconds(latencies: Latencies) -> dict[str, float]:
    return {name: latencies.quantile(fraction) * 1e3 for name, fraction in _QUANTILES.items()}


def _rows(latencies: dict[str, Latencies], agreement: dict[str, float]) -> list[list[str]]:
    """As `_NUMBERS`, after the name."""
    own = latencies["forge"]
    rows = []
    for name, taken in latencies.items():
        speed = "" if name == "forge" else f"{taken.median / own.median:.2f}x as fast"
        difference = f"{agreement[name]:.1e}" if name in agreement else ""
        rows.append([name, *[f"{x:.4g}" for x in _milliseconds(taken).values()], speed, difference])
    return rows
