"""``forge export``: a model in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from forge.cli import source
from forge.errors import OptionError
from forge.module import IRModule

EXAMPLES = ("forge export model.onnx exported.onnx --opset 23", "forge export model.onnx model.forge")
FORMATS = (".onnx", ".forge", ".relay")


def export(
    model: Annotated[Path, typer.Argument(help="A model (.onnx, .pt2, .forge, .relay).")],
    output: Annotated[Path, typer.Argument(help="The file to write: .onnx, .forge, or .relay (text, weights next to it).")],
    opset: Annotated[
        int | None, typer.Option(help="Version of ONNX's operators, 18 to 26; without it 21, or a later one that is needed.")
    ] = None,
    external_bytes: Annotated[
        int | None, typer.Option(help="Weights of at least this many bytes go to a second file, OUTPUT.data (.onnx).")
    ] = None,
    shape: source.ShapeOption = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the file if it exists.")] = False,
) -> None:
    """Writes a model in the format that the file's ending names."""
    if output.suffix not in FORMATS:
        raise OptionError(f"{output}: unknown format {output.suffix!r}; expected one of {', '.join(FORMATS)}")
    if output.suffix != ".onnx" and (opset is not None or external_bytes is not None):
        raise OptionError(f"--opset, --external-bytes: {output} is not an ONNX file; expected an output that ends in .onnx")
    source.check_output(output, force)
    with source.progress() as report:
        module = source.load_model(model, shape, report)
        _write(module, output, opset, external_bytes)
    source.say(f"wrote {output} ({source.bytes_text(output.stat().st_size)})")


def _write(module: IRModule, output: Path, opset: int | None, external_bytes: int | None) -> None:
    if output.suffix == ".onnx":
        module.to_onnx(output, opset, external_bytes)
    else:
        module.save(output)
