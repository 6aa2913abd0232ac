"""Tables of the command line in terminals of some widths."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

from forge.cli import tables

ROWS = [
    ("/stages/stages.0/residual.0/Conv", "conv2d + add + relu", "0.0123", "56.5%", "1,600"),
    ("/stem/Conv", "layout_transform", "12.5", "24.0%", "12"),
]
COLUMNS = ("layer", "operators", "ms", "share", "bytes read")
NUMBERS = COLUMNS[2:]
Shown = Callable[..., list[str]]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shown:
    """What a terminal of a number of columns shows of a table."""
    def shown(width: int, spare: tuple[str, ...] = (), rows: Sequence[tuple[str, ...]] = ROWS) -> list[str]:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", str(width))
        tables.show("title", COLUMNS, rows, right=NUMBERS, spare=spare)
        text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
        return [line.rstrip() for line in text.splitlines()]
    return shown


def test_a_wide_terminal_shows_all_on_one_line_each(lines: Shown) -> None:
    found = lines(100, spare=("share",))
    assert len(found) == 4
    assert found[2].split("  ")[0] == ROWS[0][0]


def test_narrow_terminals_go_without_columns_in_order(lines: Shown) -> None:
    found = lines(60, spare=("bytes read", "share"))
    assert found[1].split() == ["layer", "operators", "ms", "share"]
    assert found[-1] == "columns that a wider terminal shows: bytes read"
    assert lines(44, spare=("bytes read", "share"))[-1] == "columns that a wider terminal shows: share, bytes read"


@pytest.mark.parametrize("width", [52, 60, 66])
def test_words_and_numbers_are_never_cut(lines: Shown, width: int) -> None:
    found = lines(width)
    assert max(map(len, found)) <= width
    pieces = " ".join(found).split()
    whole = {piece for row in ROWS for cell in row for piece in re.split(r"(?<=/)(?=.)|\s", cell)}
    assert all(any(word in piece for piece in pieces) for word in whole)


def test_what_fits_no_line_is_folded_as_the_last_resort(lines: Shown) -> None:
    digest = "0123456789abcdef" * 4
    found = lines(44, rows=[(digest, "conv2d", "1", "2", "3")])
    assert max(map(len, found)) <= 44
    assert "".join(line.split()[0] for line in found[-8:] if line.strip()).endswith(digest[-8:])


def test_a_table_without_rows_has_its_heads(lines: Shown) -> None:
    assert lines(80, rows=[])[-1].split() == ["layer", "operators", "ms", "share", "bytes", "read"]
