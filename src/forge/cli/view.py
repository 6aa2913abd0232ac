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
    model: Annotated[Path, typer.Argument(help="A model (.onnx, .pt2, .forge, .relay).")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The page; else MODEL.html in this folder.")] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the page if it exists.")] = False,
    shape: source.ShapeOption = None,
    function: source.FunctionOption = None,
) -> None:
    """Writes the model's graph as one HTML page.

    The page can be searched and zoomed, groups of nodes opened; it shows attributes, types and cost of every node.
    """
    path = output if output is not None else Path(model.with_suffix(".html").name)
    source.check_output(path, force)
    if path.suffix not in (".html", ".htm"):
        raise OptionError(f"--output {path}: the page is HTML; expected a name that ends in .html; IRModule.plot() draws an .svg")
    with source.progress() as report:
        module = source.load_model(model, shape, report, function)
        text = page(module.mod, model.name)
    source.write_text(path, text)
    source.say(f"wrote {path} ({source.bytes_text(len(text))}): open it in a browser")
