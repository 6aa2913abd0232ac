"""What measurements found to be fast: an SQLite database of choices, by CPU.

A record belongs to a key (which kernel, which problem), the CPU that it was measured on, the instruction set of the code and
a number of threads; a newer one takes the place of an older one. Records of several CPUs lie side by side, travel between
machines as JSON, and are used for their own CPU only.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from forge import knobs
from forge._version import __version__
from forge.errors import OptionError, TargetError, option
from forge.target import Target
from forge.target.choices import Choices

FORMAT = 2
_MAX_BYTES = 256 << 20
_TABLE = """
create table if not exists choices (
  key text not null, cpu text not null, instruction_set text not null, threads integer not null, choice text not null,
  seconds real not null, default_seconds real not null, version text not null, measured text not null,
  primary key (key, cpu, instruction_set, threads)
)"""
_EARLIER = ("key", "target", "choice", "seconds", "default_seconds", "version", "measured")
"""What records of format 1 had: in place of the CPU, the target as JSON. Databases kept them in a table ``records``."""
_GROUPS = 5
"""How many kinds of records a message lists."""


@dataclass(frozen=True)
class Record:
    """One measured choice.

    Attributes:
        cpu: which it was measured on, as `Target.machine` names it; "": an earlier version of Forge did not write that down.
        instruction_set: of the code, as `Target.instruction_set`.
        seconds, default_seconds: of the kernels that the choice is about, in one call of the model, measured side by side.
        version: of Forge.
        measured: when, in UTC.
    """

    key: str
    cpu: str
    instruction_set: str
    threads: int
    choice: str
    seconds: float
    default_seconds: float
    version: str = __version__
    measured: str = ""

    @staticmethod
    def of(target: Target, key: str, choice: str, seconds: float, default_seconds: float) -> Record:
        """What was measured for ``target``, on its CPU."""
        return Record(key, target.machine, target.instruction_set, target.num_cores, choice, seconds, default_seconds)

    @property
    def group(self) -> str:
        """What it was measured for, in words."""
        threads = f"{self.threads} thread{'s' * (self.threads != 1)}"
        return f"{self.cpu or 'a CPU that was not written down'}, {self.instruction_set}, {threads}"


def path() -> Path:
    """The database's file.

    Raises:
        OptionError: this user has no home directory, and nothing else is set.
    """
    if knobs.TUNING.text:
        return Path(knobs.TUNING.text)
    return knobs.user_folder("tuning", "XDG_DATA_HOME", ".local/share", f"{knobs.TUNING.name} to a file") / "tuning.sqlite"


def store(records: Iterable[Record]) -> None:
    """Adds records, each in the place of what was known for its key, CPU, instruction set and number of threads.

    Raises:
        OptionError: the database cannot be written.
    """
    with _opened() as database:
        _insert(database, records)


def _insert(database: sqlite3.Connection, records: Iterable[Record]) -> None:
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    columns = [f.name for f in fields(Record)]
    command = f"insert or replace into choices ({', '.join(columns)}) values ({', '.join(':' + c for c in columns)})"
    database.executemany(command, [{**asdict(record), "measured": record.measured or now} for record in records])


def load(target: Target | None = None) -> list[Record]:
    """All records by CPU, instruction set, threads and key; or those for ``target``.

    Raises:
        OptionError: the database is damaged.
    """
    if not path().exists():
        return []
    columns = ", ".join(f.name for f in fields(Record))
    where = "" if target is None else "where cpu = ? and instruction_set = ? and threads = ?"
    values = () if target is None else (target.machine, target.instruction_set, target.num_cores)
    query = f"select {columns} from choices {where} order by cpu, instruction_set, threads, key"
    with _opened() as database:
        return [Record(*row) for row in database.execute(query, values)]


def clear() -> int:
    """Removes all records; returns how many there were."""
    if not path().exists():
        return 0
    with _opened() as database:
        database.execute("drop table if exists records")
        return database.execute("delete from choices").rowcount


def choices(target: Target) -> Choices:
    """What is known for ``target``: measured on its CPU, for its instruction set and number of threads.

    Raises:
        OptionError: nothing is, or the database is damaged.
    """
    known = load(target)
    if not known:
        wanted = Record.of(target, "", "", 0, 0).group
        raise OptionError(f"{option('tuned')}: {path()} knows nothing about this CPU, instruction set and number of threads; "
                          f"got records of {_groups_text(load())}; expected some of {wanted}; "
                          f"run {option('ir.tune()')} first, on that CPU")
    return Choices({record.key: record.choice for record in known})


def _groups_text(records: Sequence[Record]) -> str:
    groups = list(dict.fromkeys(record.group for record in records))
    return "; ".join(groups[:_GROUPS]) + "; and others" * (len(groups) > _GROUPS) or "nothing"


@contextlib.contextmanager
def _opened() -> Iterator[sqlite3.Connection]:
    place = path()
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        database = sqlite3.connect(place, timeout=30)
        try:
            with database:
                database.execute(_TABLE)
                _take_over(database)
                yield database
        finally:
            database.close()
    except (sqlite3.Error, OSError) as error:
        raise OptionError(f"tuning: {place}: {error}; expected a database of 'forge tune' that can be written; "
                          f"remove it, or set {knobs.TUNING.name} to another file") from error


def _take_over(database: sqlite3.Connection) -> None:
    """Copies what a database of format 1 has, once; its own table stays, so that earlier versions of Forge go on using it."""
    (version,) = database.execute("pragma user_version").fetchone()
    if version > FORMAT:
        raise OptionError(f"tuning: {path()}: got format {version} of a later version of Forge; expected at most {FORMAT}; "
                          f"set {knobs.TUNING.name} to another file")
    if version == FORMAT:
        return
    if database.execute("select 1 from sqlite_master where name = 'records'").fetchone():
        for row in database.execute(f"select {', '.join(_EARLIER)} from records order by measured").fetchall():
            with contextlib.suppress(TargetError):  # such a target was never asked for
                _insert(database, [_of_format_1(dict(zip(_EARLIER, row, strict=True)))])
    database.execute(f"pragma user_version = {FORMAT}")


def _of_format_1(item: Mapping[str, Any]) -> Record:
    """Its CPU is known where Forge found it out: as what code for this machine was to be tuned for.

    Raises:
        TargetError: its target means nothing.
    """
    target = Target.parse(item["target"])
    kept = {name: value for name, value in item.items() if name != "target"}
    return Record(cpu=target.tune, instruction_set=target.instruction_set, threads=target.num_cores, **kept)


def write_json(file: Path, records: Iterable[Record]) -> int:
    """Writes records for another machine; returns how many."""
    listed = [asdict(record) for record in records]
    file.write_text(json.dumps({"format": FORMAT, "records": listed}, indent=1), encoding="utf-8")
    return len(listed)


def read_json(file: Path) -> list[Record]:
    """The records that `write_json` wrote.

    Raises:
        OptionError: the file cannot be read, or is of another form.
    """
    try:
        if file.stat().st_size > _MAX_BYTES:
            raise OptionError(f"{file}: got {file.stat().st_size} bytes; expected at most {_MAX_BYTES}")
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise OptionError(f"{file}: {error}; expected a file of 'forge tune --export'") from error
    version = content.get("format") if isinstance(content, dict) else None
    if version not in (1, FORMAT) or not isinstance(content.get("records"), list):
        raise OptionError(f"{file}: got no records of format {FORMAT}; expected a file of 'forge tune --export'")
    names = _EARLIER if version == 1 else tuple(f.name for f in fields(Record))
    records = []
    for number, item in enumerate(content["records"]):
        problem = _problem(item, names)
        if problem:
            raise OptionError(f"{file}: record {number}: {problem}")
        try:
            records.append(Record(**item) if version == FORMAT else _of_format_1(item))
        except TargetError as error:
            raise OptionError(f"{file}: record {number}: {error}") from error
    return records


def _problem(item: Any, names: Sequence[str]) -> str:
    """What is wrong with a record; "" where nothing is."""
    if not isinstance(item, dict) or item.keys() != set(names):
        return f"got {str(item)[:80]}; expected exactly {', '.join(names)}"
    for name, value in item.items():
        kind = int if name == "threads" else int | float if name.endswith("seconds") else str
        if not isinstance(value, kind) or isinstance(value, bool):
            return f"{name} is {value!r}; expected text, a number of seconds, or of threads"
    return ""
