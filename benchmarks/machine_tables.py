"""The tables of ``docs/reference/performance.md``: each machine that a benchmark ran on with ``--page`` has its own.

A command puts its table into ``benchmarks/machines.json``, in the place of what the same command measured before on a machine of
the same CPU, instruction set and number of CPUs, and writes the page anew. Text that is written by hand stays: generated is what
stands between two comments, one pair for each CPU. A CPU that has none yet gets a heading at the end.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from forge._version import __version__
from forge.driver import machines
from forge.driver.machines import Machine, Table

STORE = Path(__file__).parent / "machines.json"
PAGE = Path(__file__).parent.parent / "docs" / "reference" / "performance.md"
_GENERATED = re.compile(r"<!-- measured on (\S+) -->\n.*?<!-- end -->\n", re.DOTALL)
_SILENT = ("page", "note", "output", "fresh", "prepare", "patience")
"""Options that leave numbers as they are."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--page", action="store_true", help="put the table into docs/reference/performance.md")
    parser.add_argument("--note", default="", help="with --page: what readers should know, such as that others used the machine")


def command(program: str, options: argparse.Namespace, usual: argparse.Namespace, separator: str = ",") -> str:
    """The command line that gives ``options``, without what is ``usual`` or changes no number."""
    given = {name: value for name, value in vars(options).items() if name not in _SILENT and value != getattr(usual, name)}
    texts = {name: separator.join(map(str, v)) if isinstance(v, list | tuple) else "" if v is True else str(v)
             for name, v in given.items()}
    return " ".join([f"python -m benchmarks.{program}", *(f"--{name} {text}".rstrip() for name, text in texts.items())])


def versions(distributions: Iterable[str]) -> dict[str, str]:
    """Of Forge and of those libraries that are installed."""
    found = {"forge": __version__}
    for name in dict.fromkeys(distributions):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def publish(table: Table, note: str = "") -> None:
    """Keeps a table of this machine, and writes the page."""
    facts = [*table.facts, *([note] if note else [])]
    machines.add(STORE, Table(table.command, table.columns, table.rows, table.versions, facts))
    PAGE.write_text(page(), encoding="utf-8")


def page(known: Sequence[Machine] | None = None, text: str | None = None) -> str:
    """The page with the tables of ``known`` machines (by default those of the store) in ``text`` (what the page has now)."""
    by_cpu: dict[str, str] = {}
    for machine in machines.read(STORE) if known is None else known:
        by_cpu[machine.cpu] = by_cpu.get(machine.cpu, "") + "".join(_section(machine, table) for table in machine.tables)
    text = PAGE.read_text(encoding="utf-8") if text is None else text
    shown = {found[1] for found in _GENERATED.finditer(text)}
    text = _GENERATED.sub(lambda found: _block(found[1], by_cpu), text)
    return text + "".join(f"\n## {cpu}\n\n{_block(cpu, by_cpu)}" for cpu in by_cpu if cpu not in shown)


def _block(cpu: str, by_cpu: Mapping[str, str]) -> str:
    return f"<!-- measured on {cpu} -->\n{by_cpu.get(cpu, '')}<!-- end -->\n"


def _section(machine: Machine, table: Table) -> str:
    """What was measured, on what and with what, and the numbers."""
    said = [f"{name} {value}" for name, value in table.versions.items()]
    lines = [table.columns, ["---"] * len(table.columns), *table.rows]
    rows = "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)
    return f"\n{machine}; {table.measured}; {'; '.join([*said, *table.facts])}.\n\n    {table.command}\n\n{rows}\n"
