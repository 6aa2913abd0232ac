"""Measurements by the machine that they were taken on: a JSON file with tables of several machines, which it never mixes."""

from __future__ import annotations

import datetime
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from forge import files
from forge.errors import OptionError
from forge.target import Target, host

FORMAT = 1
_LIST_OF_CELLS = re.compile(r"\[\n[^\[\]{}]*\n +\]")


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


@dataclass(frozen=True)
class Table:
    """What one command measured.

    Attributes:
        command: what was run, in one line.
        columns, rows: heads and cells, as text.
        versions: of the libraries that took part, by name.
        facts: what else was measured or should be known, each in a few words: rates of a core, rounds.
        measured: the day, in UTC.
    """

    command: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    versions: Mapping[str, str] = field(default_factory=dict)
    facts: Sequence[str] = ()
    measured: str = field(default_factory=_today)


@dataclass(frozen=True)
class Machine:
    """A machine, by all that must be equal for measurements to stand in one table, and its tables.

    Attributes:
        cpu: as `forge.target.host.name` has it.
        model: what the kernel calls the CPU, which may be one name for several generations.
        cpus: how many of them the process may use.
        instruction_set: their features, as `Target.instruction_set`.
    """

    cpu: str
    model: str
    cpus: int
    instruction_set: str
    tables: tuple[Table, ...] = ()

    @staticmethod
    def here() -> Machine:
        """This one, without tables."""
        return Machine(host.name(), host.model(), len(os.sched_getaffinity(0)), Target.parse("llvm").instruction_set)

    @property
    def facts(self) -> dict[str, Any]:
        """What it is, for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "tables"}

    def __str__(self) -> str:
        model = f" ({self.model})" if self.model else ""
        return f"{self.cpu}{model}, {self.cpus} CPU{'s' * (self.cpus != 1)}, {self.instruction_set}"


def read(path: Path) -> list[Machine]:
    """The machines of a file by CPU; none where there is no such file.

    Raises:
        OptionError: the file cannot be read, or is of another form.
    """
    if not path.exists():
        return []
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"got format {content['format']!r}")
        return [Machine(**{**m, "tables": tuple(Table(**table) for table in m["tables"])}) for m in content["machines"]]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise OptionError(f"{path}: {error}; expected a file of measurements by machine of format {FORMAT}; "
                          "name another file") from error


def add(path: Path, table: Table) -> list[Machine]:
    """Puts a table of this machine into a file, in the place of an older one of the same command.

    Returns:
        All machines of the file, this one first.

    Raises:
        OptionError: the file is of another form; OSError: it cannot be written.
    """
    here, machines = Machine.here(), read(path)
    others = [machine for machine in machines if machine.facts != here.facts]
    known = [t for machine in machines if machine not in others for t in machine.tables if t.command != table.command]
    made = replace(here, tables=tuple(sorted([*known, table], key=lambda t: t.command)))
    content = {"format": FORMAT, "machines": [asdict(m) for m in sorted([made, *others], key=str)]}
    text = _LIST_OF_CELLS.sub(lambda cells: re.sub(r"\n +", " ", cells[0]), json.dumps(content, indent=1))
    with files.replacing(path) as file:
        file.write(f"{text}\n".encode())
    return [made, *others]
