"""``forge profile``: where the time of a model goes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from forge.cli import source, tables
from forge.cli.profile_page import page
from forge.cli.records import takes_records
from forge.driver.feeds import specs_of, states_of
from forge.driver.profiler import Profile, ProfileRow, of_copy, profile_module, rate
from forge.options import CompileOptions

EXAMPLES = (
    "forge profile model.onnx",
    "forge profile model.onnx --dim batch=8 --threads 2 --rounds 5 --by-operator",
    "forge profile model.onnx --html profile.html",
)


@takes_records()
def profile(
    model: Annotated[Path, typer.Argument(help="A model (.onnx, .pt2, .forge, .relay).")],
    *,
    inputs: source.InputOption = None,
    shape: source.ShapeOption = None,
    function: source.FunctionOption = None,
    dim: source.DimOption = None,
    options: CompileOptions,
    threads: Annotated[int, typer.Option(min=1, help="Threads.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, help="Calls that are timed, at least.")] = 20,
    top: Annotated[int, typer.Option(min=1, help="Rows to print.")] = 25,
    by_operator: Annotated[bool, typer.Option("--by-operator", help="One row for all kernels of the same operators.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page with all kernels here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Times every kernel, beside the machine's measured peaks."""
    if html is not None:
        source.check_output(html, force=True)
    with source.progress(quiet=as_json) as report:
        module = source.load_model(model, shape, report, function)
        feed = source.feed_of(specs_of(module.input_nodes), inputs, dim, states_of(module.main))
        found = profile_module(module.mod, feed, options, threads=threads, rounds=rounds, progress=report)
    if html is not None:
        source.write_text(html, page(found, model.name))
    if as_json:
        source.print_json(dataclasses.asdict(found))
    else:
        _print(found, model.name, top, by_operator)


def _print(found: Profile, name: str, top: int, by_operator: bool) -> None:
    groups = list(found.by_operator.values()) if by_operator else [[r] for r in sorted(found.rows, key=lambda r: -r.seconds)]
    numbers = ("ms", "share", "GFLOP/s", "of peak", "GB/s", "of copy")
    title = f"{name}: {1e3 * found.seconds:.4g} ms, {source.count_text(found.threads, 'thread')}"
    shown = [(*_what(rows), *cells(rows, found)) for rows in groups[:top]]
    tables.show(title, ("layer", "operators", "shapes", *numbers), shown, right=numbers,
                spare=("shapes", "GB/s", "GFLOP/s", "of copy"))
    if len(groups) > top:
        source.say(f"{source.count_text(len(groups) - top, 'more row')}; --top {len(groups)} prints all")
    source.say(f"peaks measured now: {found.peaks.flops / 1e9:.0f} GFLOP/s, copy {found.peaks.bandwidth / 1e9:.1f} GB/s in "
               "memory; cached: what moves faster")


def _what(rows: Sequence[ProfileRow]) -> tuple[str, str, str]:
    """The layer, the operators and the shapes of a row, or of several with the same operators."""
    one, several = rows[0], source.count_text(len(rows), "kernel")
    operators = " + ".join(one.operators)
    return (one.layer, operators, one.shapes) if len(rows) == 1 else (several, operators, "")


def cells(rows: Sequence[ProfileRow], found: Profile) -> list[str]:
    """Milliseconds, share of all kernels, and rates, as text; empty where unknown."""
    seconds = sum(r.seconds for r in rows)
    whole = sum(r.seconds for r in found.rows) or 1.0
    texts = [f"{1e3 * seconds:.4f}", f"{seconds / whole:.1%}"]
    flops, moved = rate(rows, "flops"), rate(rows, "bytes")
    texts += ["", ""] if flops is None else [f"{flops / 1e9:.1f}", f"{flops / found.peaks.flops:.0%}"]
    return texts + (["", ""] if moved is None else [f"{moved / 1e9:.1f}", of_copy(moved, found.peaks.bandwidth)])
