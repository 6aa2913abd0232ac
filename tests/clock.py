"""Shows how long the tests took: by folder, by file, the slowest cases, and what they waited for.

python -m tests.clock                   # the last `make test`
python -m tests.clock test-all -n 30    # the last `make test-all`, 30 lines a table
python -m tests.clock --below tests/kernels

`make test` and `make test-all` record it; so does `pytest --clock=NAME`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.runs.clock import PARTS, path_of


@dataclass(frozen=True)
class Phase:
    """Setup, call or teardown of one case; ``parts``: seconds in what is named in ``PARTS``."""

    case: str
    when: str
    seconds: float
    parts: dict[str, float]

    @property
    def path(self) -> PurePosixPath:
        return PurePosixPath(self.case.partition("::")[0])

    @property
    def function(self) -> str:
        return self.case.partition("[")[0]


def phases(name: str) -> tuple[list[Phase], float]:
    """Those of the run ``name``, and how long it took.

    Raises:
        OSError: none is recorded.
    """
    rows = [json.loads(line) for line in path_of(name).read_text(encoding="utf-8").splitlines()]
    *cases, (_, _, _, whole, _) = rows
    return [Phase(case, when, seconds, parts) for case, when, _, seconds, parts in cases], whole


def main(arguments: list[str] | None = None) -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.clock", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", default="test", help="test, test-all or another name that was recorded")
    parser.add_argument("-n", type=int, default=100, dest="count", help="lines of the table of cases; the others have a third")
    parser.add_argument("--below", default="", metavar="PATH", help="only cases of this folder or file")
    options = parser.parse_args(arguments)
    try:
        found, whole = phases(options.run)
    except OSError:
        return _say(f"clock: no run {options.run!r} is recorded in {path_of(options.run).parent}; run make test first")
    chosen = [phase for phase in found if phase.case.startswith(options.below)]
    if not chosen:
        return _say(f"clock: the run {options.run!r} has no case below {options.below!r}")
    console, rows = Console(), max(1, options.count // 3)
    console.print(f"{len({p.case for p in chosen})} cases, {sum(p.seconds for p in chosen):.0f} s in all processes; the run took "
                  f"{whole:.0f} s")
    _parts(console, chosen)
    for title, key in (("folder", _folder), ("file", lambda p: str(p.path)), ("function", lambda p: p.function)):
        _table(console, title, chosen, key, rows)
    _table(console, "case", chosen, lambda p: p.case, options.count)
    return 0


def _say(problem: str) -> int:
    sys.stderr.write(problem + "\n")
    return 1


def _folder(phase: Phase) -> str:
    """Two levels: `tests/kernels`, `tests/frontends/onnx`."""
    parts = phase.path.parent.parts
    return "/".join(parts[: 3 if parts[1:2] == ("frontends",) else 2])


def _parts(console: Console, chosen: Iterable[Phase]) -> None:
    seconds, total = Counter[str](), 0.0
    for phase in chosen:
        seconds.update(phase.parts)
        total += phase.seconds
    table = Table("what cases waited for", "s", "%")
    for part, meaning in [*PARTS.items(), ("", "the rest: Forge's Python, compiled code, references")]:
        spent = seconds[part] if part else total - sum(seconds.values())
        table.add_row(meaning, f"{spent:.1f}", f"{100 * spent / (total or 1):.0f}")
    console.print(table)


def _table(console: Console, title: str, chosen: Iterable[Phase], key: Callable[[Phase], str], rows: int) -> None:
    groups: defaultdict[str, list[Phase]] = defaultdict(list)
    for phase in chosen:
        groups[key(phase)].append(phase)
    table = Table("cases", "s", *PARTS, title)
    for name, members in sorted(groups.items(), key=lambda item: -sum(p.seconds for p in item[1]))[:rows]:
        table.add_row(*_row(members), escape(name))
    *numbers, names = table.columns
    names.overflow = "fold"
    for column in numbers:
        column.justify = "right"
    console.print(table)


def _row(members: list[Phase]) -> Iterator[str]:
    yield str(len({phase.case for phase in members}))
    yield f"{sum(phase.seconds for phase in members):.1f}"
    for part in PARTS:
        spent = sum(phase.parts.get(part, 0.0) for phase in members)
        yield f"{spent:.1f}" if spent >= 0.05 else ""


if __name__ == "__main__":
    sys.exit(main())
