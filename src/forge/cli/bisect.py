"""``forge bisect``: where compiled code leaves the interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from forge.cli import source
from forge.cli.records import takes_records
from forge.numerics.bisection import Bisection
from forge.numerics.bisection import bisect as search
from forge.options import CompileOptions

EXAMPLES = (
    "forge bisect model.onnx --data inputs.npz",
    "forge bisect model.onnx --dim batch=8 --opt-level 4 --tolerance 60dB -o reproducer",
)


@takes_records()
def bisect(
    model: Annotated[Path, typer.Argument(help="A model (.onnx, .pt2, .forge, .relay).")],
    *,
    data: Annotated[
        Path | None, typer.Option(metavar="FILES", help="A .npz or .npy of samples, or a folder of them; else random.")
    ] = None,
    tolerance: Annotated[
        str | None, typer.Option(metavar="LIMIT", help="Relative difference (1e-3) or SQNR (60dB) that is allowed.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="NAME", help="Write NAME.forge, .npz and .py; else MODEL_bisect.")
    ] = None,
    shape: source.ShapeOption = None,
    function: source.FunctionOption = None,
    dim: source.DimOption = None,
    options: CompileOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Finds the stage or kernel where compiled code goes wrong.

    Exits with 0 where they agree. Else a part of the model that shows the difference is written with its inputs and a script, and
    the exit status is 1.
    """
    base = model.with_name(f"{model.stem}_bisect") if output is None else output
    for suffix in (".forge", ".npz", ".py"):
        source.check_output(base.with_name(base.name + suffix), force=True)
    with source.progress(quiet=as_json) as report:
        module = source.load_model(model, shape, report, function)
        sizes = source.parse_sizes(dim)
        found = search(module, data, options=options, tolerance=tolerance, sizes=sizes, progress=report)
    files = [] if found.reproducer is None else found.reproducer.write(base, found.blame)
    if as_json:
        source.print_json(found.as_dict() | {"reproducer": [str(path) for path in files]})
    else:
        _print(found, files)
    if not found.agrees:
        raise typer.Exit(1)


def _print(found: Bisection, files: list[Path]) -> None:
    d = found.difference
    source.say(found.blame)
    limit = f", where {found.allowed:.1e} is expected of rounding" if found.allowed else ""
    source.say(f"output {found.output!r} differs by {d.relative:.1e} of its largest element (SQNR {d.sqnr:.1f} dB){limit}; "
               f"{source.count_text(found.samples, 'sample')}")
    if found.nodes:
        source.say(f"nodes: {', '.join(found.nodes)}")
    if files:
        source.say(f"wrote {', '.join(map(str, files))}; run 'python {files[-1]}'")
