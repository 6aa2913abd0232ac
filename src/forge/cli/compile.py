"""``forge compile``: from a model to ``modelLibrary.so``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from forge.cli import source
from forge.driver import GRAPH_STAGES, CompiledModel, Stage, artifact, compile_module
from forge.errors import ForgeError
from forge.ir.nodes import Graph, Module
from forge.ir.printer import print_module

EXAMPLE = "Example: `forge compile model.onnx -o build/`, `forge compile model.onnx -o build/ --target 'llvm -mcpu=x86-64-v3'`"


def compile_(
    model: Annotated[Path, typer.Argument(help="A model (.onnx, .forge, .relay).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The directory to create.")] = Path("compile_output"),
    target: Annotated[str, typer.Option(help="Target text, tag or JSON; 'llvm' is this machine.")] = "llvm",
    opt_level: Annotated[int, typer.Option("--opt-level", "-O", min=0, max=4, help="Optimisation level.")] = 3,
    float16: Annotated[bool, typer.Option("--float16", help="Compute in float16 where that is safe.")] = False,
    channel_layout: Annotated[str | None, typer.Option(help="Inner layout of convolutions: first or last.")] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the output directory.")] = False,
    export_relay: Annotated[bool, typer.Option("--export-relay", help="Also write model.relay.")] = False,
    export_metadata: Annotated[bool, typer.Option("--export-metadata", help="Also write metadata.json.")] = False,
    uuid: Annotated[str | None, typer.Option(help="Identifier to record.")] = None,
    encrypt: Annotated[bool, typer.Option("--encrypt", help="Encrypt; the password is FORGE_PASSWORD or asked for.")] = False,
    dump: Annotated[str | None, typer.Option(help="Write the module after this stage, or after 'all', to OUTPUT.stages/.")] = None,
    stop_after: Annotated[str | None, typer.Option(help="Print the module after this stage and stop.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compiles a model into a directory with one self-contained native library."""
    if stop_after is not None:
        _print_stage(model, target, opt_level, stop_after)
        return
    options = artifact.Options(output, export_relay, export_metadata, force, uuid, _password() if encrypt else None)
    options.check()
    console = Console(stderr=True)
    began = time.perf_counter()
    with source.progress(console, quiet=as_json) as report:
        report("load", 0, 1)
        module = source.load_model(model)
        report("load", 1, 1)
        dumper = _Dumper(output, dump)
        compiled = compile_module(
            module.mod, target=target, opt_level=opt_level, float16=float16, channel_layout=channel_layout,
            observer=dumper.see, progress=report,
        )
        report("link", 0, 1)
        final = artifact.write(compiled, module.mod, options)
        report("link", 1, 1)
    _report(final, compiled, time.perf_counter() - began, as_json)


def _report(final: Path, compiled: CompiledModel, seconds: float, as_json: bool) -> None:
    size = (final / artifact.LIBRARY_NAME).stat().st_size
    if as_json:
        source.print_json({
            "output": str(final), "library_bytes": size, "seconds": seconds, **compiled.summary,
            "phases": compiled.seconds,
        })
        return
    Console().print(
        f"wrote {final / artifact.LIBRARY_NAME} ({source.bytes_text(size)}, {compiled.summary['groups']} kernel calls, "
        f"{compiled.summary['kernels']} kernels) in {seconds:.1f} s", highlight=False, soft_wrap=True,
    )


def _password() -> str:
    password = os.environ.get("FORGE_PASSWORD")
    return password or str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))


class _Dumper:
    """Writes the text of the module after stages."""

    def __init__(self, output: Path, wanted: str | None) -> None:
        names = [s.name for s in GRAPH_STAGES]
        if wanted is not None and wanted != "all" and wanted not in names:
            raise ForgeError(f"--dump {wanted}: no such stage; expected 'all' or one of: {', '.join(names)}")
        self.folder = output.parent / f"{output.name}.stages"
        self.wanted = wanted
        self.count = 0

    def see(self, stage: Stage, graph: Graph) -> None:
        self.count += 1
        if self.wanted in ("all", stage.name):
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / f"{self.count:02d}_{stage.name}.relay").write_text(print_module(Module(graph), types=True), encoding="utf-8")


def _print_stage(model: Path, target: str, opt_level: int, stop_after: str) -> None:
    from forge.driver import run_graph_stages
    from forge.passes.base import PassContext
    from forge.target import Target

    module = source.load_model(model)
    graph = module.main.copy()
    context = PassContext(Target.parse(target), opt_level, {"module": module.mod})
    run_graph_stages(graph, context, stop_after)
    typer.echo(print_module(Module(graph), types=True), nl=False)
