"""``forge tune``: measures alternatives to what the cost models choose."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Annotated

import typer

from forge.cli import source, tables
from forge.cli.records import takes_records
from forge.driver import tuning
from forge.driver.feeds import specs_of
from forge.driver.tuner import Tuned, tune_module
from forge.errors import OptionError
from forge.options import CompileOptions
from forge.target import host

EXAMPLES = (
    "forge tune model.onnx --seconds 5",
    "forge tune --show",
    "forge tune --export tuning.json",
    "forge tune --import tuning.json",
    "forge tune --clear",
)


@takes_records("--tuned")
def tune(
    model: Annotated[Path | None, typer.Argument(help="A model (.onnx, .pt2, .forge, .relay).")] = None,
    *,
    seconds: Annotated[float, typer.Option(help="Time to look for something faster.")] = 60,
    inputs: source.InputOption = None,
    shape: source.ShapeOption = None,
    dim: source.DimOption = None,
    options: CompileOptions,
    show: Annotated[bool, typer.Option("--show", help="List what is known.")] = False,
    export: Annotated[Path | None, typer.Option("--export", help="Write what is known to this file.")] = None,
    take: Annotated[Path | None, typer.Option("--import", help="Add what another machine wrote.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Forget everything.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measures alternatives to the kernels on this machine.

    'forge compile --tuned' then uses what was faster, for this CPU, instruction set and number of threads only: records of other
    CPUs, which --import brings, lie beside.
    """
    if (model is not None) + show + (export is not None) + (take is not None) + clear != 1:
        raise OptionError("tune: expected exactly one of: a model, --show, --export, --import, --clear")
    if model is None:
        _manage(show, export, take, as_json)
        return
    with source.progress(quiet=as_json) as report:
        module = source.load_model(model, shape, report)
        feed = source.feed_of(specs_of(module.input_nodes), inputs, dim)
        found = tune_module(module.mod, feed, options, seconds=seconds, progress=report)
    tuning.store(found.records)
    if as_json:
        source.print_json(dataclasses.asdict(found))
    else:
        _print(found, model.name)


def _manage(show: bool, export: Path | None, take: Path | None, as_json: bool) -> None:
    if show:
        records = tuning.load()
        if as_json:
            source.print_json([dataclasses.asdict(record) for record in records])
        else:
            for group, known in itertools.groupby(records, lambda record: record.group):
                source.say(group)
                _print_records(list(known), "")
            source.say(f"{tuning.path()}: {source.count_text(len(records), 'record')}")
    elif export is not None:
        _say(f"wrote {export}", tuning.write_json(export, tuning.load()), as_json)
    elif take is not None:
        records = tuning.read_json(take)
        tuning.store(records)
        cpus = ", ".join(sorted({record.cpu or "a CPU that was not written down" for record in records}))
        _say(f"{tuning.path()} took", len(records), as_json, f" of {cpus}; this machine is {host.name()}" * bool(cpus))
    else:
        _say(f"{tuning.path()} forgot", tuning.clear(), as_json)


def _say(what: str, count: int, as_json: bool, of: str = "") -> None:
    if as_json:
        source.print_json({"records": count})
    else:
        source.say(f"{what}: {source.count_text(count, 'record')}{of}")


def _print(found: Tuned, name: str) -> None:
    if found.records:
        _print_records(list(found.records), name)
    rest = "" if found.finished else "; there was no time for all: pass more --seconds"
    gain = f"{1e3 * found.before:.4g} ms before, {1e3 * found.after:.4g} ms with what is faster"
    source.say(f"{name}: {source.count_text(found.tried, 'alternative')} measured, {len(found.records)} faster{rest}; {gain}")


def _print_records(records: list[tuning.Record], title: str) -> None:
    rows = []
    for record in records:
        times = [f"{1e3 * s:.4f}" for s in (record.default_seconds, record.seconds)]
        rows.append([record.key, record.choice, *times, f"{record.seconds / record.default_seconds:.2f}"])
    numbers = ("default ms", "ms", "ratio")
    tables.show(title, ("kernel and problem", "choice", *numbers), rows, right=numbers, spare=("default ms",))
