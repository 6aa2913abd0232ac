"""How far long work is: what it reports, and a bar that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[str, int, int], None]
"""Called with phase, number done, number in all; 0: not known."""


@contextmanager
def shown(given: Progress | None = None, quiet: bool = False) -> Iterator[Progress]:
    """What moves a progress bar with the time left, on standard error where that is a terminal; or what is ``given`` instead."""
    if given is not None:
        yield given
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda phase, done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(),
               TimeElapsedColumn(), TextColumn("elapsed"), TimeRemainingColumn(), TextColumn("left"))
    with Bar(*columns, console=console, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = bar.add_task(phase, total=total or None)
            bar.update(tasks[phase], completed=done, total=total or None)

        yield report
