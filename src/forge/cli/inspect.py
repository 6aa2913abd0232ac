"""``forge inspect``: what is in a model or a compiled library."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from forge.cli import source
from forge.driver.analysis import ModelSummary, summarize
from forge.module import IRModule

EXAMPLE = "Example: `forge inspect model.onnx`, `forge inspect build/ --json`"


def inspect(
    model: Annotated[Path, typer.Argument(help="A model (.onnx, .forge, .relay), or a compiled one (directory or .so).")],
    text: Annotated[bool, typer.Option("--text", help="Print the module as text, with types.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Shows operators, inputs and outputs, parameters, arithmetic and memory."""
    if source.is_artifact(model):
        _inspect_artifact(model, as_json)
        return
    module = source.load_model(model)
    if text:
        typer.echo(str(module.typed_mod), nl=False)
        return
    summary = summarize(module.main)
    if as_json:
        source.print_json(_as_json(model, module, summary))
    else:
        _print(model, module, summary)


def _as_json(path: Path, module: IRModule, summary: ModelSummary) -> dict[str, Any]:
    return {
        "model": str(path),
        "fingerprint": module.fingerprint,
        "inputs": [_tensor_json(v.name, v.shape, v.dtype) for v in module.input_nodes],
        "outputs": [_tensor_json(n, v.shape, v.dtype) for n, v in zip(module.output_names, module.main.outputs)],
        "parameters": summary.parameters,
        "parameter_bytes": summary.parameter_bytes,
        "flops": summary.flops_text.replace(",", ""),
        "arena_bytes": summary.arena.replace(",", ""),
        "operators": [dataclasses.asdict(o) for o in summary.operators],
        "uncompilable": summary.uncompilable,
    }


def _tensor_json(name: str, shape: Any, dtype: str) -> dict[str, Any]:
    return {"name": name, "shape": [d if isinstance(d, int) else str(d) for d in shape], "dtype": dtype}


def _print(path: Path, module: IRModule, summary: ModelSummary) -> None:
    console = Console()
    operators = source.table(f"{path.name}: operators", "operator", "count", "FLOPs", "parameters", "native", right=("count", "FLOPs", "parameters"))
    for o in summary.operators:
        operators.add_row(o.name, str(o.count), o.flops_text, f"{o.parameters:,}", "yes" if o.compilable else "no")
    console.print(operators)
    tensors = source.table("inputs and outputs", "", "name", "shape", "dtype")
    for v in module.input_nodes:
        tensors.add_row("input", v.name, source.shape_text(v.shape), v.dtype)
    for name, v in zip(module.output_names, module.main.outputs):
        tensors.add_row("output", name, source.shape_text(v.shape), v.dtype)
    console.print(tensors)
    console.print(f"parameters {summary.parameters:,} ({source.bytes_text(summary.parameter_bytes)})", highlight=False)
    console.print(f"FLOPs {summary.flops_text}; memory for intermediate results {summary.arena} bytes", highlight=False)
    if summary.uncompilable:
        console.print(f"no native code yet: {', '.join(summary.uncompilable)}", highlight=False)


def _inspect_artifact(path: Path, as_json: bool) -> None:
    from forge_runtime import read_metadata

    metadata = read_metadata(path)
    if as_json:
        source.print_json(metadata)
        return
    console = Console()
    fields = source.table(f"{path}", "field", "value")
    for key, value in metadata.items():
        if key not in ("inputs", "outputs"):
            fields.add_row(key, ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value))
    console.print(fields)
    tensors = source.table("inputs and outputs", "", "name", "shape", "dtype")
    for role in ("inputs", "outputs"):
        for t in metadata.get(role, []):
            tensors.add_row(role[:-1], t["name"], source.shape_text(t.get("shape", [])), t["dtype"])
    console.print(tensors)
