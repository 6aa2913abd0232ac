"""The comparison on paper: a table for each batch size and number of threads, and a picture of the ratios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import rich.box
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from benchmarks.libraries import OURS, Precision
from benchmarks.results import Measurement, Result, geometric_mean, mean_ratios

_COLUMNS = ("compile s", "load s", "peak MiB", "min ms", "median ms", "of limit", "it / forge", "error")
WIDTH = 140
_PRECISIONS: tuple[Precision, ...] = get_args(Precision)


def write(measurements: Sequence[Measurement], folder: Path, console: Console) -> None:
    """Writes all tables and conclusions to ``table.txt`` and a picture to ``ratios.png``, and prints the conclusions."""
    with (folder / "table.txt").open("w", encoding="utf-8") as file:
        paper = Console(file=file, width=WIDTH)
        for key in sorted({(m.case.batch, m.threads) for m in measurements}):
            group = [m for m in measurements if (m.case.batch, m.threads) == key]
            title = f"batch {key[0]}, {key[1]} thread(s)"
            paper.print(table(group, title))
            console.print(title, style="bold")
            for line in conclusions(group):
                for target in (console, paper):
                    target.print(line, highlight=False, soft_wrap=True)
    picture(measurements, folder / "ratios.png")


def table(measurements: Sequence[Measurement], title: str) -> Table:
    """One row per model and library. A star: the fastest peer of its precision. A failure takes the place of the error."""
    made = Table(title=title, box=rich.box.SIMPLE_HEAD, title_justify="left")
    for column in ("model", "library"):
        made.add_column(column, no_wrap=True)
    for column in _COLUMNS:
        made.add_column(column, justify="right", no_wrap=column != "error")
    for measurement in measurements:
        for number, row in enumerate(measurement.results):
            best = row == measurement.best_peer(row.precision)
            made.add_row("" if number else measurement.case.model, row.library + " *" * best, *_cells(row, measurement))
        made.add_section()
    return made


def _cells(row: Result, measurement: Measurement) -> tuple[str, ...]:
    spent = [f"{x:.2f}" if x is not None else "" for x in (row.compile_seconds, row.load_seconds)]
    memory = f"{row.peak_bytes / 2**20:.0f}" if row.peak_bytes else ""
    if row.failure:
        return (*spent, memory, "", "", "", "", f"[red]{_plain(row.failure)}[/red]")
    fastest, ours = row.latencies.minimum, measurement.ours(row.precision)
    bound, seconds = measurement.limit
    ratio = f"{fastest / ours.latencies.minimum:.2f}" if ours and not row.ours else ""
    error = f"{row.error:.1e}"
    return (*spent, memory, f"{fastest * 1e3:.3f}", f"{row.latencies.median * 1e3:.3f}", f"{seconds / fastest:.0%} {bound}",
            ratio, error if row.counts else f"[red]wrong: {error}[/red]")


def page_table(measurements: Sequence[Measurement]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows for the page: minima in ms by library, ratios by precision, memory; the means of each kind at the end."""
    libraries = list(dict.fromkeys(row.library for m in measurements for row in m.results))
    precisions = [precision for precision in _PRECISIONS if OURS[precision] in libraries]
    columns = ["model", "batch", "threads", *(f"{library}, ms" for library in libraries),
               *(f"peer / forge, {precision}" for precision in precisions), "of limit", "MiB", "least of peers"]
    rows, means = [], []
    for key in sorted({(m.case.batch, m.threads) for m in measurements}):
        group = [m for m in measurements if (m.case.batch, m.threads) == key]
        rows += [_page_row(m, libraries, precisions) for m in group]
        ratios = [mean_ratios(group, precision).get("best peer") for precision in precisions]
        means.append(["geometric mean", *map(str, key), *[""] * len(libraries), *map(_ratio_text, ratios), "", "", ""])
    return columns, rows + means


def _page_row(measurement: Measurement, libraries: Sequence[str], precisions: Sequence[Precision]) -> list[str]:
    found = {row.library: row for row in measurement.results}
    times = [_time_text(found[library]) if library in found else "" for library in libraries]
    ours, leanest, (bound, seconds) = measurement.ours(), measurement.leanest_peer(), measurement.limit
    share = f"{seconds / ours.latencies.minimum:.0%} {bound}" if ours else ""
    memory = [f"{row.peak_bytes / 2**20:.0f}" if row else "" for row in (ours, leanest)]
    case = measurement.case
    return [case.model, str(case.batch), str(measurement.threads), *times,
            *(_ratio_text(measurement.ratio(precision)) for precision in precisions), share, *memory]


def _time_text(row: Result) -> str:
    return f"{row.latencies.minimum * 1e3:.4g}" if row.counts else "failed" if row.failure else "wrong"


def _ratio_text(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _plain(text: str) -> str:
    """Not read as markup."""
    return text.replace("[", r"\[")


def conclusions(measurements: Sequence[Measurement]) -> list[str]:
    """For each precision geometric means and where Forge is slower; where a peer needs less memory."""
    lines = []
    for precision in _PRECISIONS:
        ratios = mean_ratios(measurements, precision)
        lines += [f"{precision}: {name} / forge, geometric mean: {ratio:.2f}" for name, ratio in ratios.items()]
        behind = [f"{m.case.model} {ratio:.2f}" for m in measurements if (ratio := m.ratio(precision)) is not None and ratio < 1]
        if behind:
            lines.append(f"{precision}: best peer / forge below 1: {', '.join(behind)}")
        gains = {m.case.model: gain for m in measurements if (gain := m.gain(precision)) is not None and precision != "float32"}
        if gains:
            each = ", ".join(f"{model} {gain:.2f}" for model, gain in gains.items())
            lines.append(f"{precision}: forge in float32 / with it, geometric mean: {geometric_mean(gains.values()):.2f}; {each}")
        own = [(m, row) for m in measurements for row in m.results if row.ours and row.precision == precision]
        wrong = [m.case.model for m, row in own if not row.counts]
        if wrong:
            lines.append(f"{precision}: forge failed: {', '.join(wrong)}")
    heavier = [text for m in measurements if (text := _excess_memory(m))]
    return lines + [f"more memory than the leanest peer: {', '.join(heavier)}"] * bool(heavier)


def _excess_memory(measurement: Measurement) -> str:
    """By how much Forge needs more; empty where it does not."""
    ours, leanest = measurement.ours(), measurement.leanest_peer()
    if ours is None or leanest is None or ours.peak_bytes <= leanest.peak_bytes:
        return ""
    return f"{measurement.case.model} {(ours.peak_bytes - leanest.peak_bytes) / 2**20:.0f} MiB ({leanest.library})"


def picture(measurements: Sequence[Measurement], path: Path) -> None:
    """Bars of the ratio to the best peer: a panel for each batch size and precision, a colour for each number of threads."""
    batches = sorted({m.case.batch for m in measurements})
    panels = [(batch, precision) for batch in batches for precision in _PRECISIONS if precision != "float16"]
    names = list(dict.fromkeys(m.case.model for m in measurements))
    figure = Figure(figsize=(max(6.0, 0.7 * len(names)), 3.2 * max(1, len(panels))), layout="constrained")
    for number, (batch, precision) in enumerate(panels, 1):
        axes = figure.add_subplot(len(panels), 1, number)
        _draw(axes, [m for m in measurements if m.case.batch == batch], precision, names)
        axes.set_title(f"batch {batch}, {precision}: time of the best peer / forge (above 1: forge is faster)")
    figure.savefig(path, dpi=120)


def _draw(axes: Any, measurements: Sequence[Measurement], precision: Precision, names: Sequence[str]) -> None:
    counts = sorted({m.threads for m in measurements})
    width = 0.8 / max(1, len(counts))
    for number, threads in enumerate(counts):
        ratios = {m.case.model: m.ratio(precision) or 0.0 for m in measurements if m.threads == threads}
        positions = [index + (number - (len(counts) - 1) / 2) * width for index in range(len(names))]
        axes.bar(positions, [ratios.get(name, 0.0) for name in names], width, label=f"{threads} thread(s)")
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
    axes.legend()
