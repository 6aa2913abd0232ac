"""What became of faults: a file to go on from, a table, and the share that was caught in each area."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.mutations.areas import AREAS
from tests.mutations.catalogue import Fault
from tests.mutations.trial import STALE, Outcome

Results = Mapping[str, Outcome]


def read(path: Path | None) -> dict[str, Outcome]:
    """Outcomes by the key of their fault; none where there is no file."""
    if path is None or not path.exists():
        return {}
    return {entry["key"]: Outcome(**entry["outcome"]) for entry in json.loads(path.read_text(encoding="utf-8"))}


def write(path: Path | None, results: Results) -> None:
    if path is not None:
        entries = [{"key": key, "outcome": asdict(outcome)} for key, outcome in sorted(results.items())]
        path.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")


def share(faults: Iterable[Fault], results: Results, slow: bool) -> float:
    """The part of the faults that the quick run caught, or with ``slow`` any run; stale ones count as not caught."""
    outcomes = [results[fault.key] for fault in faults if fault.key in results]
    caught = [o for o in outcomes if o.caught and (slow or not o.slow)]
    return len(caught) / len(outcomes) if outcomes else 1.0


def show(console: Console, faults: list[Fault], results: Results) -> None:
    """Prints what became of every fault, then the areas."""
    table = Table(show_lines=True)
    for title in ("file", "change", "caught by", "seconds"):
        table.add_column(title, overflow="fold")
    for fault in faults:
        outcome = results.get(fault.key)
        if outcome is not None:
            place, change = escape(f"{fault.file}\n{fault.function}"), escape(f"- {fault.before}\n+ {fault.after}")
            table.add_row(place, change, _caught_by(outcome), f"{outcome.seconds:.0f}")
    console.print(table)
    areas = Table("area", "faults", "quick run", "with slow tests")
    judged = [fault for fault in faults if fault.key in results]
    for name in [*(area.name for area in AREAS), "all"]:
        own = [fault for fault in judged if name in (fault.area, "all")]
        if own:
            areas.add_row(name, str(len(own)), f"{share(own, results, slow=False):.1%}", f"{share(own, results, slow=True):.1%}")
    console.print(areas)


def _caught_by(outcome: Outcome) -> str:
    if outcome.caught:
        return f"{escape(outcome.test)}{' [yellow](slow)[/]' if outcome.slow else ''}"
    return "[yellow]stale[/]" if outcome.state == STALE else "[red]SURVIVED[/]"
