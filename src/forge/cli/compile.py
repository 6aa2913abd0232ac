"""``forge compile``: from a model to ``modelLibrary.so``."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Annotated

import typer

from forge.cli import source
from forge.cli.records import takes_records
from forge.driver import GRAPH_STAGES, CompiledModel, Stage, artifact, compile_module, optimized_graph
from forge.driver.replacement import KEY_NAME, LIBRARY_NAME
from forge.errors import OptionError
from forge.ir.nodes import Graph, Module
from forge.ir.printer import print_module
from forge.options import CompileOptions, OutputOptions

EXAMPLES = (
    "forge compile model.onnx -o build/",
    "forge compile model.onnx -o portable/ --target 'llvm -mcpu=x86-64-v3' --export-metadata",
    "forge compile model.onnx -o dumped/ --dump all",
    "forge compile model.onnx --stop-after fold_constants",
)


@takes_records("--encrypt")
def compile_(
    model: Annotated[Path, typer.Argument(help="A model (.onnx, .forge, .relay).")],
    *,
    shape: source.ShapeOption = None,
    options: CompileOptions,
    output: OutputOptions,
    encrypt: Annotated[bool, typer.Option("--encrypt", help="Encrypt; the password is FORGE_PASSWORD or asked for.")] = False,
    dump: Annotated[str | None, typer.Option(help="Text of the module after this stage, or 'all', to OUTPUT.stages/.")] = None,
    stop_after: Annotated[str | None, typer.Option(help="Print the module after this stage and stop.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compiles a model into one self-contained native library."""
    if stop_after is not None:
        _check_stage("--stop-after", stop_after)
        graph = optimized_graph(source.load_model(model, shape).mod, options, stop_after)
        typer.echo(print_module(Module(graph), types=True), nl=False)
        return
    dumper = None if dump is None else _Dumper(output.path, dump)
    if encrypt:
        output = dataclasses.replace(output, encrypt_password=source.password(True))
    artifact.check(output)
    began = time.perf_counter()
    with source.progress(quiet=as_json) as report:
        report("load", 0, 1)
        module = source.load_model(model, shape)
        report("load", 1, 1)
        compiled = compile_module(module.mod, options, observer=None if dumper is None else dumper.see, progress=report)
        report("link", 0, 1)
        final = artifact.write(compiled, module.mod, output)
        report("link", 1, 1)
    _report(final, compiled, time.perf_counter() - began, encrypt, as_json)


def _report(final: Path, compiled: CompiledModel, seconds: float, encrypted: bool, as_json: bool) -> None:
    library = final / LIBRARY_NAME
    size = library.stat().st_size
    key = final / KEY_NAME
    if as_json:
        source.print_json({
            "output": str(final), "key": str(key) if encrypted else None, "library_bytes": size, "seconds": seconds,
            **compiled.summary, "phases": compiled.seconds,
        })
        return
    calls, kernels = (int(compiled.summary[what]) for what in ("groups", "kernels"))
    counts = f"{source.count_text(calls, 'kernel call')}, {source.count_text(kernels, 'kernel')}"
    source.say(f"wrote {library} ({source.bytes_text(size)}, {counts}) in {seconds:.1f} s")
    if encrypted:
        source.say(f"wrote {key}: loading the library needs this file and the password")


def _check_stage(option: str, name: str, *others: str) -> None:
    names = [*others, *(s.name for s in GRAPH_STAGES)]
    if name not in names:
        raise OptionError(f"{option} {name}: no such stage; expected one of: {', '.join(names)}")


class _Dumper:
    """Writes the text of the module after stages."""

    def __init__(self, output: Path, wanted: str) -> None:
        _check_stage("--dump", wanted, "all")
        self.folder = output.parent / f"{output.name}.stages"
        self.wanted = wanted

    def see(self, stage: Stage, graph: Graph) -> None:
        if self.wanted in ("all", stage.name):
            self.folder.mkdir(parents=True, exist_ok=True)
            place = self.folder / f"{GRAPH_STAGES.index(stage) + 1:02d}_{stage.name}.relay"
            place.write_text(print_module(Module(graph), types=True), encoding="utf-8")
