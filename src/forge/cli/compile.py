"""``forge compile``: from a model to ``modelLibrary.so``."""

from __future__ import annotations

import dataclasses
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from forge.cli import source, tables
from forge.cli.records import takes_records
from forge.driver import GRAPH_STAGES, STAGES, Compilation, CompiledModel, Stage, artifact, compile_module, run_stages
from forge.driver.integers import Layers
from forge.driver.pipeline import Observer, stage_of
from forge.driver.replacement import KEY_NAME, LIBRARY_NAME
from forge.errors import OptionError
from forge.ir.edits import journal
from forge.ir.functions import joining
from forge.module import IRModule
from forge.options import CompileOptions, OutputOptions

EXAMPLES = (
    "forge compile model.onnx -o build/",
    "forge compile model.onnx -o portable/ --target 'llvm -mcpu=x86-64-v3' --export-metadata",
    "forge compile model.onnx -o dumped/ --dump all",
    "forge compile model.onnx --stop-after fold_constants",
)

_NOTED = 0.1
"""The part of a library for Winograd's algorithm that is worth a line."""


@takes_records("--encrypt")
def compile_(
    model: Annotated[Path, typer.Argument(help="A model (.onnx, .pt2, .forge, .relay).")],
    *,
    shape: source.ShapeOption = None,
    functions: Annotated[
        list[str] | None, typer.Option("--function", metavar="NAME", help="A function to compile, may be repeated; else all.")
    ] = None,
    options: CompileOptions,
    output: OutputOptions,
    encrypt: Annotated[bool, typer.Option("--encrypt", help="Encrypt; the password is FORGE_PASSWORD or asked for.")] = False,
    dump: Annotated[str | None, typer.Option(help="Text of what this stage makes, or 'all', to OUTPUT.stages/.")] = None,
    stop_after: Annotated[str | None, typer.Option(help="Print what this stage makes and stop.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print which rules rewrote nodes, and why others did not.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compiles a model into one self-contained native library."""
    if explain and as_json and stop_after is not None:
        raise OptionError("--explain: got --json and --stop-after too, which prints text; expected one of them")
    last = None if stop_after is None else stage_of(stop_after, "--stop-after")
    dumper = None if dump is None else _Dumper(output.path, dump)
    if encrypt:
        output = dataclasses.replace(output, encrypt_password=source.password(True))
    if last in (None, STAGES[-1]):
        artifact.check(output, options.target)
    began = time.perf_counter()
    with source.progress(quiet=as_json) as report, journal.recorded() as kept:
        module = source.load_model(model, shape, report)
        if functions:
            module = IRModule(joining.select(module.mod, functions, "--function"), fold_constants=False, fold_batch_norms=False)
        kept.clear()
        layers = Layers(kept)
        observer = _both(dumper, layers) if explain else dumper  # one that is there keeps the cache out
        if last is not None:
            with artifact.draft(output) if last is STAGES[-1] else nullcontext() as draft:
                compilation = Compilation(module.mod, options, draft=draft, progress=report)
                run_stages(compilation, stop_after=last.name, observer=observer)
        else:
            compiled = compile_module(module.mod, options, output=output, observer=observer, progress=report)
    if explain and not as_json:
        _explain(kept, layers)
    if last is not None:
        typer.echo(last.text(compilation), nl=False)
    else:
        found = {"rules": _explained(kept), "layers": [dataclasses.asdict(layer) for layer in layers.found]} if explain else {}
        _report(output.path, compiled, time.perf_counter() - began, encrypt, found if as_json else None)


def _both(first: Observer | None, second: Observer) -> Observer:
    def observe(stage: Stage, compilation: Compilation) -> None:
        if first is not None:
            first(stage, compilation)
        second(stage, compilation)

    return observe


def _explained(kept: journal.Journal) -> dict[str, list[Any]]:
    """Which rules rewrote nodes, and why others did not."""
    return {
        "fired": [{"stage": s, "rule": r, "times": count, "nodes": labels} for s, r, count, labels in kept.fired()],
        "declined": [{"stage": a.stage, "rule": a.rule, "node": a.label, "reason": a.reason} for a in kept.declined()],
        "moved": kept.moved(),
    }


def _explain(kept: journal.Journal, layers: Layers) -> None:
    fired = [(stage, rule, str(count), ", ".join(labels)) for stage, rule, count, labels in kept.fired()]
    tables.show("rules that rewrote nodes", ("stage", "rule", "times", "nodes"), fired, right=("times",), spare=("stage",))
    declined = [(a.stage, a.rule, a.label, a.reason) for a in kept.declined()]
    tables.show("rules that declined", ("stage", "rule", "node", "reason"), declined, spare=("stage",))
    if layers.found:
        rows = [(layer.label, layer.operator, "no" if layer.reason else "yes", layer.reason) for layer in layers.found]
        tables.show("layers of the quantized model", ("layer", "operator", "integers", "reason"), rows)
    if moved := kept.moved():
        counted = source.count_text(len(moved), "rounding")
        source.say(f"{counted} to quantized numbers moved, and may be one step off; --exact leaves them: {', '.join(moved)}")


def _report(final: Path, compiled: CompiledModel, seconds: float, encrypted: bool, more: dict[str, Any] | None) -> None:
    """Says what was written; as JSON, with ``more``, where that is given."""
    library = final / LIBRARY_NAME
    size = library.stat().st_size
    key = final / KEY_NAME
    if more is not None:
        written = {"output": str(final), "key": str(key) if encrypted else None, "library_bytes": size, "seconds": seconds}
        source.print_json({**written, **compiled.summary, "phases": compiled.seconds, **more})
        return
    cached = "" if compiled.seconds else ", from the cache"
    calls, kernels = (int(compiled.summary[what]) for what in ("groups", "kernels"))
    different = f", {kernels} of them different" if kernels < calls else ""
    source.say(f"wrote {library} ({source.bytes_text(size)}) in {seconds:.1f} s{cached}; "
               f"a call runs {source.count_text(calls, 'kernel')}{different}")
    if (grown := compiled.summary["winograd_bytes"]) > _NOTED * size:
        source.say(f"{source.bytes_text(grown)} of it are for Winograd's algorithm; --no-winograd is smaller and slower")
    if compiled.summary["registered"]:
        source.say(f"calls registered functions: {', '.join(compiled.summary['registered'])}")
    if encrypted:
        source.say(f"wrote {key}: loading the library needs this file and the password")


class _Dumper:
    """Writes what stages made."""

    def __init__(self, output: Path, wanted: str) -> None:
        self.folder = output.parent / f"{output.name}.stages"
        self.wanted = STAGES if wanted == "all" else (stage_of(wanted, "--dump"),)

    def __call__(self, stage: Stage, compilation: Compilation) -> None:
        if stage in self.wanted:
            self.folder.mkdir(parents=True, exist_ok=True)
            place = self.folder / f"{STAGES.index(stage) + 1:02d}_{stage.name}.{'relay' if stage in GRAPH_STAGES else 'txt'}"
            place.write_text(stage.text(compilation), encoding="utf-8")
