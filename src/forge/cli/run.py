"""``forge run``: one inference."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from forge.cli import source
from forge.cli.peers import as_list
from forge.errors import ForgeError
from forge_runtime import Runtime

EXAMPLE = "Example: `forge run build/ --input x.npy`, `forge run build/ -i image=x.npy -o outputs.npz`"


def run(
    model: Annotated[Path, typer.Argument(help="A compiled model (directory or .so), or a model to compile in memory.")],
    inputs: Annotated[list[str], typer.Option("--input", "-i", help="FILE.npy, NAME=FILE.npy or FILE.npz.")] = [],  # noqa: B006
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the outputs to this .npz.")] = None,
    key: Annotated[Path | None, typer.Option(help="Key file of an encrypted model; the password is FORGE_PASSWORD or asked for.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Number of threads.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Runs a model once on the given arrays and shows what comes out."""
    runtime = open_runtime(model, key)
    if threads is not None:
        runtime.set_num_threads(threads)
    arrays = source.load_arrays(inputs, runtime.input_names)
    missing = [n for n in runtime.input_names if n not in arrays]
    if missing:
        raise ForgeError(f"run: input {missing[0]!r} is missing; pass --input {missing[0]}=FILE.npy (inputs: {', '.join(runtime.input_names)})")
    outputs = dict(zip(runtime.output_names, as_list(runtime(**arrays))))
    if output is not None:
        _save(output, outputs)
    if as_json:
        source.print_json([{"name": n, "shape": list(a.shape), "dtype": str(a.dtype), **_statistics(a)} for n, a in outputs.items()])
        return
    shown = source.table("outputs", "name", "shape", "dtype", "minimum", "maximum", "mean", right=("minimum", "maximum", "mean"))
    for name, array in outputs.items():
        shown.add_row(name, source.shape_text(array.shape), str(array.dtype), *[f"{x:.6g}" for x in _statistics(array).values()])
    Console().print(shown)


def open_runtime(model: Path, key: Path | None = None) -> Runtime:
    """The runtime of a compiled model, or of a model compiled in memory."""
    if not source.is_artifact(model):
        from forge.driver import compile_module

        return compile_module(source.load_model(model).mod).runtime()
    if key is None:
        return Runtime(model)
    password = os.environ.get("FORGE_PASSWORD") or str(typer.prompt("Password", hide_input=True))
    return Runtime(model, password=password, key=key)


def _statistics(array: np.ndarray) -> dict[str, float]:
    if array.size == 0:
        return {"minimum": float("nan"), "maximum": float("nan"), "mean": float("nan")}
    values = np.abs(array) if np.iscomplexobj(array) else array.astype(np.float64)
    return {"minimum": float(values.min()), "maximum": float(values.max()), "mean": float(values.mean())}


def _save(path: Path, outputs: dict[str, np.ndarray]) -> None:
    temporary = path.with_name(f".{path.name}.part.npz")
    np.savez(temporary, allow_pickle=False, **outputs)
    os.replace(temporary, path)
