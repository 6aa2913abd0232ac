"""Tables for terminals of any width: lines are broken between words, and columns left out before words are cut."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

PIPE_WIDTH = 10_000
GAP = 2
COMFORTABLE = 20
"""Characters that a column of longer texts should have: while one has less, columns are left out."""
_CONSOLE: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}  # names of a model may look like markup


class _Wrapper(textwrap.TextWrapper):
    """Breaks lines at spaces, after slashes of names such as /layer1/layer1.0/conv1/Conv, and after commas."""

    wordsep_simple_re = re.compile(r"(\s+|(?<=[/,])(?=\S))")

    def __init__(self, width: int) -> None:
        super().__init__(max(1, width), break_on_hyphens=False)


@dataclass(frozen=True)
class _Column:
    head: str
    cells: list[str]
    is_right: bool

    @property
    def natural(self) -> int:
        """Its width without line breaks."""
        return max(map(cell_len, [self.head, *self.cells]))

    @property
    def least(self) -> int:
        """Its width where lines break wherever they can: in numbers they cannot."""
        split = _Wrapper(1).wordsep_simple_re.split
        pieces = [*split(self.head), *(self.cells if self.is_right else [p for cell in self.cells for p in split(cell)])]
        return max(map(cell_len, pieces))

    @property
    def comfortable(self) -> int:
        return max(self.least, min(self.natural, COMFORTABLE))


def show(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = (), spare: Sequence[str] = ()
) -> None:
    """Prints a table. Without a terminal, lines are neither wrapped nor padded.

    Args:
        title: a line above it.
        columns: their heads.
        rows: their cells.
        right: columns of numbers, which are right-aligned.
        spare: columns that narrow terminals go without, the first to go first.
    """
    cells: Sequence[Sequence[str]] = list(zip(*rows, strict=True)) or [()] * len(columns)
    made = [_Column(head, [*own], head in right) for head, own in zip(columns, cells, strict=True)]
    terminal = Console(**_CONSOLE)
    if terminal.is_terminal:
        shown = _without_spare(made, spare, terminal.width)
        terminal.print(_table(title, shown, _widths(shown, terminal.width)))
        if left := [column.head for column in made if column not in shown]:
            typer.echo(f"columns that a wider terminal shows: {', '.join(left)}")
        return
    text = io.StringIO()
    Console(**_CONSOLE, width=PIPE_WIDTH, file=text).print(_table(title, made, [column.natural for column in made]))
    typer.echo("".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines()), nl=False)


def _without_spare(columns: Sequence[_Column], spare: Sequence[str], width: int) -> list[_Column]:
    shown = list(columns)
    for name in spare:
        if sum(column.comfortable + GAP for column in shown) - GAP <= width:
            break
        shown = [column for column in shown if column.head != name]
    return shown


def _widths(columns: Sequence[_Column], width: int) -> list[int]:
    """Widths that fit: the widest column that can still break its lines gives way; where none can, words are cut."""
    room = width - GAP * (len(columns) - 1)
    widths = [min(column.natural, width) for column in columns]
    least = [column.least for column in columns]
    while sum(widths) > max(room, len(columns)):
        loose = [k for k, taken in enumerate(widths) if taken > least[k]] or range(len(columns))
        widths[max(loose, key=widths.__getitem__)] -= 1
    return widths


def _table(title: str, columns: Sequence[_Column], widths: Sequence[int]) -> Table:
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False)
    for column, width in zip(columns, widths):
        side: Any = "right" if column.is_right else "left"
        made.add_column(_wrapped(column.head, width), justify=side, overflow="fold", width=width)
    for row in zip(*(column.cells for column in columns)):
        made.add_row(*map(_wrapped, row, widths))
    return made


def _wrapped(text: str, width: int) -> str:
    return text if cell_len(text) <= width else "\n".join(_Wrapper(width).wrap(text))
