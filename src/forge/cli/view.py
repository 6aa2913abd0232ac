"""``forge view``: a model as a page for the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from forge.cli import source
from forge.errors import OptionError
from forge.view import page

EXAMPLES = ("forge view model.onnx", "forge view model.onnx -o graph.html")


def view(
    model: Annotated[Path, typer.Argument(help="A model (.onnx, .forge, .relay).")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The page; else MODEL.html in this folder.")] = None,
) -> None:
    """Writes the model's graph as one HTML page to search, zoom and open, with attributes, types and cost of every node."""
    if source.is_artifact(model):
        raise OptionError(f"{model}: is compiled; expected a model; 'forge compile --export-relay' keeps the text")
    with source.progress() as report:
        report("load", 0, 2)
        module = source.load_model(model)
        report("load", 1, 2)
        text = page(module.mod, model.name)
        report("load", 2, 2)
    path = output if output is not None else Path(model.with_suffix(".html").name)
    path.write_text(text, encoding="utf-8")
    source.say(f"{path} ({source.bytes_text(len(text))}): open it in a browser")
