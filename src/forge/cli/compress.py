"""``forge compress``: weights of few bits."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from forge.cli import source, tables
from forge.errors import OptionError
from forge.quantization.chosen.compression import Compressed

EXAMPLES = (
    "forge compress model.onnx -o small.forge --bits 4 --group 32 --scheme gptq --data x.npy",
    "forge compress model.onnx -o small.onnx --bits 8 --exclude 'nn.conv*'",
)


def compress(
    model: Annotated[Path, typer.Argument(help="A model (.onnx, .pt2, .forge, .relay).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write: .forge or .onnx.")],
    bits: Annotated[int, typer.Option(help="Bits of a weight: 2, 4 or 8.")] = 4,
    group: Annotated[int, typer.Option(help="Elements that share a scale; -1: those of a row.")] = 32,
    scheme: Annotated[str | None, typer.Option(help="rtn, awq or gptq; with --data gptq, else rtn.")] = None,
    data: Annotated[Path | None, typer.Option(help="Samples: a .npy or .npz, or a folder of them.")] = None,
    size: Annotated[
        float | None, typer.Option(help="Bytes of all weights, or their share (0.2); layers that lose most get more bits.")
    ] = None,
    symmetric: Annotated[bool, typer.Option("--symmetric", help="No zero points.")] = False,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Name or pattern of layers or operators that stay in float.")
    ] = None,
    embeddings: Annotated[int, typer.Option(help="Bits of embedding tables: 2, 4 or 8; 0 leaves them in float.")] = 8,
    convolutions: Annotated[bool, typer.Option("--convolutions", help="Weights of convolutions too, in the file only.")] = False,
    target: Annotated[str, typer.Option(metavar="TARGET", help="Of code that runs samples; this machine runs it.")] = "llvm",
    shape: source.ShapeOption = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the file if it exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Writes a model with weights of few bits."""
    if output.suffix not in (".forge", ".onnx"):
        raise OptionError(f"{output}: unknown format {output.suffix!r}; expected .forge or .onnx")
    source.check_output(output, force)
    with source.progress(quiet=as_json) as report:
        module = source.load_model(model, shape, report)
        found = module.compress(
            bits, group, scheme, calib_data=None if data is None else str(data), size=size, symmetric=symmetric,
            exclude=exclude or (), embeddings=embeddings, convolutions=convolutions, target=target)
        if output.suffix == ".onnx":
            module.to_onnx(output)
        else:
            module.save(output)
    if as_json:
        source.print_json({"output": str(output), **dataclasses.asdict(found)})
    else:
        _print(found, output)


def _print(found: Compressed, output: Path) -> None:
    tables.show(output.name, found.COLUMNS, found.rows, right=found.COLUMNS[2:4] + found.COLUMNS[5:8],
                spare=("scheme", "kind", "bytes before", "group"))
    sizes = [source.bytes_text(n) for n in (found.bytes_before, found.bytes_after)]
    source.say(f"wrote {output} ({source.bytes_text(output.stat().st_size)}); weights: {sizes[0]} before, {sizes[1]} after")
