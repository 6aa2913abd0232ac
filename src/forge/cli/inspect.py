"""``forge inspect``: what is in a model or a compiled library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from forge.cli import source, tables
from forge.dims import Dim
from forge.driver.analysis import ModelSummary, summarize
from forge.driver.feeds import states_of
from forge.errors import OptionError
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.module import IRModule
from forge_runtime import read_metadata

EXAMPLES = ("forge inspect model.onnx", "forge inspect model.onnx --text", "forge inspect build/ --json")


def inspect(
    model: Annotated[Path, typer.Argument(help="A model (.onnx, .pt2, .forge, .relay), or a compiled one (directory or .so).")],
    shape: source.ShapeOption = None,
    function: source.FunctionOption = None,
    text: Annotated[bool, typer.Option("--text", help="Print the module as text, with types.")] = False,
    key: Annotated[Path | None, typer.Option(help="Key file of an encrypted model, if not next to it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Shows a model's operators, inputs, outputs, size and cost."""
    if source.is_artifact(model):
        if text:
            raise OptionError(f"--text: {model} is compiled; expected a model; 'forge compile --export-relay' keeps the text")
        _print_artifact(model, source.open_artifact(model, key, read_metadata), as_json)
        return
    with source.progress(quiet=as_json) as report:
        module = source.load_model(model, shape, report, function)
        shown = str(module.typed_mod) if text else summarize(module.main)
    if isinstance(shown, str):
        typer.echo(shown, nl=False)
    elif as_json:
        source.print_json(_as_json(model, module, shown))
    else:
        _print(model, module, shown)


def _as_json(path: Path, module: IRModule, summary: ModelSummary) -> dict[str, Any]:
    return {
        "model": str(path),
        "fingerprint": module.fingerprint,
        "inputs": [_tensor_json(v.name, *_described(v)) for v in module.input_nodes],
        "outputs": [_tensor_json(n, *_described(v)) for n, v in zip(module.output_names, module.output_nodes)],
        "states": [_tensor_json(name, shape, dtype) for name, dtype, shape in states_of(module.main)],
        "functions": module.functions,
        "parameters": summary.parameters,
        "parameter_bytes": summary.parameter_bytes,
        "flops": _number(summary.flops),
        "arena_bytes": _number(summary.arena),
        "operators": [vars(o) | {"flops": _number(o.flops)} for o in summary.operators],
        "uncompilable": summary.uncompilable,
        "registered": summary.registered,
        "external": summary.external,
    }


def _number(value: Dim | str) -> int | str:
    """A number, or the text of an expression."""
    return value if isinstance(value, int) else str(value)


def _text(value: Dim | str) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _described(value: Value) -> tuple[tuple[Any, ...], str]:
    """Sizes and element type; for anything but a ranked tensor, no sizes and the type as text."""
    return (value.shape, value.dtype) if isinstance(value.type, TensorType) else ((), str(value.type))


def _cells(value: Value) -> tuple[str, str]:
    shape, dtype = _described(value)
    return (source.shape_text(shape) if isinstance(value.type, TensorType) else ""), dtype


def _tensor_json(name: str, shape: Any, dtype: str) -> dict[str, Any]:
    return {"name": name, "shape": [d if isinstance(d, int) else str(d) for d in shape], "dtype": dtype}


def _print(path: Path, module: IRModule, summary: ModelSummary) -> None:
    numbers = ("count", "FLOPs", "parameters")
    native = {True: "yes", False: "no"}
    rows = [(o.name, str(o.count), _text(o.flops), f"{o.parameters:,}", native[o.compilable]) for o in summary.operators]
    tables.show(f"{path.name}: operators", ("operator", *numbers, "native"), rows, right=numbers,
                spare=("parameters",))
    tensors = [("input", v.name, *_cells(v)) for v in module.input_nodes]
    tensors += [("output", name, *_cells(v)) for name, v in zip(module.output_names, module.output_nodes)]
    tensors += [("state", name, source.shape_text(shape), dtype) for name, dtype, shape in states_of(module.main)]
    tables.show("inputs and outputs", ("", "name", "shape", "dtype"), tensors)
    if len(module.functions) > 1:
        source.say(f"@{module.functions[0]} of {', '.join(module.functions)}; --function NAME shows another")
    source.say(f"parameters {summary.parameters:,} ({source.bytes_text(summary.parameter_bytes)})")
    source.say(f"FLOPs {_text(summary.flops)}; memory for intermediate results {_text(summary.arena)} bytes")
    if summary.registered:
        source.say(f"calls registered functions: {', '.join(summary.registered)}")
    if summary.external:
        source.say(f"calls functions of external modules: {', '.join(summary.external)}")
    if summary.uncompilable:
        source.say(f"no native code yet: {', '.join(summary.uncompilable)}")


def _print_artifact(path: Path, metadata: dict[str, Any], as_json: bool) -> None:
    metadata = {**metadata, "cpu_features": metadata.get("cpu_features", "").split(",")}
    if as_json:
        source.print_json(metadata)
        return
    fields = {key: value for key, value in metadata.items() if key not in ("inputs", "outputs", "functions", "states")}
    tables.show(str(path), ("field", "value"), [(key, _field_text(value)) for key, value in fields.items()])
    functions = metadata.get("functions") or {"main": metadata}
    described = [(f, role[:-1], t) for f, own in functions.items() for role in ("inputs", "outputs") for t in own.get(role, [])]
    described += [("", "state", state) for state in metadata.get("states", [])]
    tensors = [(f, r, t["name"], source.shape_text(t.get("shape", [])), t["dtype"], t.get("layout", "")) for f, r, t in described]
    tables.show("inputs and outputs", ("function", "", "name", "shape", "dtype", "layout"), tensors)


def _field_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
