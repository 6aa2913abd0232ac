"""``forge compare``: two models, or one that is run in two ways, layer by layer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from forge.cli import source, tables
from forge.driver import check_options
from forge.numerics.comparison import Comparison, Row
from forge.numerics.comparison import compare as compare_sides
from forge.numerics.sides import Side, check_way, source_way

EXAMPLES = (
    "forge compare model.onnx --run-a onnxruntime --data inputs.npz",
    "forge compare model.onnx model.onnx --run-a interpreter --opt-level-b 4 --dim batch=8",
    "forge compare model.onnx model.onnx --opt-level-a 0 --threshold 80 --json",
)

_WAY = "compiled, interpreter, onnxruntime (.onnx) or torch (.pt2)"
_SPARE = ("of largest", "shape", "operator")
_LEVEL = "Optimization level of code compiled from"


def compare(
    a: Annotated[Path, typer.Argument(help="A model (.onnx, .pt2, .forge, .relay).")],
    b: Annotated[Path | None, typer.Argument(help="What it is compared with; else the first model.")] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="FILES", help="A .npz or .npy of samples, or a folder of them; else random.")
    ] = None,
    run_a: Annotated[str | None, typer.Option(metavar="WAY", help=f"How A is run: {_WAY}.")] = None,
    run_b: Annotated[str | None, typer.Option(metavar="WAY", help="How B is run; else compiled.")] = None,
    opt_level_a: Annotated[int, typer.Option(min=0, max=4, help=f"{_LEVEL} A.")] = 3,
    opt_level_b: Annotated[int, typer.Option(min=0, max=4, help=f"{_LEVEL} B.")] = 3,
    threshold: Annotated[
        float | None, typer.Option(metavar="DB", help="Ratio of signal to noise below which values differ; else 60, or less.")
    ] = None,
    dim: source.DimOption = None,
    shape: source.ShapeOption = None,
    function: source.FunctionOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compares two models layer by layer on the same inputs.

    Each layer has the ratio of signal to noise in dB, the largest difference, and that relative to the largest element. A model
    alone is compared with the framework it comes from. Exits with 1 where something differs: below 60 dB, below 20 where a model
    is quantized.
    """
    alone = b is None or a.absolute() == b.absolute()
    if run_a is None and alone and run_b in (None, "compiled") and opt_level_a == opt_level_b:
        run_a = source_way(a) or "interpreter"
    with source.progress(quiet=as_json) as report:
        first = _side(a, run_a, opt_level_a, shape, function, report)
        second = _side(b or a, run_b, opt_level_b, shape, function, report)
        sizes = source.parse_sizes(dim)
        found = compare_sides(first, second, data, sizes=sizes, threshold=threshold, progress=report)
    if as_json:
        source.print_json(found.as_dict())
    else:
        _print(found)
    if not found.agrees:
        raise typer.Exit(1)


def _side(
    path: Path, way: str | None, level: int, shape: list[str] | None, function: str | None, report: source.Report
) -> Side:
    way = way or "compiled"
    check_way(way, path, str(path))
    module = source.load_model(path, shape, report, function)
    return Side(module, way, check_options(opt_level=level), path, path.name)


def _print(found: Comparison) -> None:
    numbers = ("SQNR", "max error", "of largest", "arg max")
    columns = ("layer", "operator", "shape", *numbers, "")
    title = f"{found.first} -> {found.second}, {source.count_text(found.samples, 'sample')}"
    rows = [(*_cells(row, is_output=False), _mark(row, found)) for row in found.layers]
    tables.show(title, columns, rows, right=numbers, spare=_SPARE)
    tables.show("outputs", columns, [(*_cells(row, is_output=True), _mark(row, found)) for row in found.outputs],
                right=numbers, spare=_SPARE)
    first = found.divergence
    if first is None:
        source.say(f"no value is below {found.threshold:g} dB")
    else:
        source.say(f"the first value below {found.threshold:g} dB is {first.name!r} ({first.operator}): {decibels(first.sqnr)}")


def _cells(row: Row, is_output: bool) -> list[str]:
    d = row.difference
    places = f"{d.agreeing}/{d.rows}" if is_output and d.rows else ""
    numbers = [decibels(d.sqnr), f"{d.error:.2e}", f"{d.relative:.2e}", places]
    return [row.name, row.operator, source.shape_text(row.shape), *numbers]


def _mark(row: Row, found: Comparison) -> str:
    if row is found.divergence:
        return "<- first difference"
    return "differs" if row.sqnr < found.threshold else ""


def decibels(value: float) -> str:
    """``36.5 dB``, or ``equal``."""
    return "equal" if value == math.inf else f"{value:.1f} dB"
