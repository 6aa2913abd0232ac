"""What measurements found to be fast: an SQLite database of choices, by target.

A record belongs to a key (which kernel, which problem), a target and a number of threads; a newer one takes the place of an
older one. Records travel between machines as JSON.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from forge import knobs
from forge._version import __version__
from forge.errors import OptionError
from forge.target import Target
from forge.target.choices import Choices

FORMAT = 1
_MAX_BYTES = 256 << 20
_TABLE = """
create table if not exists records (
  key text not null, target text not null, choice text not null, seconds real not null, default_seconds real not null,
  version text not null, measured text not null, primary key (key, target)
)"""


@dataclass(frozen=True)
class Record:
    """One measured choice.

    Attributes:
        target: as `described`.
        seconds, default_seconds: of the kernels that the choice is about, in one call of the model, measured side by side.
        version: of Forge.
        measured: when, in UTC.
    """

    key: str
    target: str
    choice: str
    seconds: float
    default_seconds: float
    version: str = __version__
    measured: str = ""


def path() -> Path:
    """The database's file.

    Raises:
        OptionError: this user has no home directory, and nothing else is set.
    """
    if knobs.TUNING.text:
        return Path(knobs.TUNING.text)
    return knobs.user_folder("tuning", "XDG_DATA_HOME", ".local/share", f"{knobs.TUNING.name} to a file") / "tuning.sqlite"


def described(target: Target) -> str:
    """The target in records: all that code depends on, but no annotations."""
    known = target.to_dict()
    return json.dumps({name: known[name] for name in sorted(known) if name not in dict(target.annotations)})


def store(records: Iterable[Record]) -> None:
    """Adds records, each in the place of what was known for its key and target.

    Raises:
        OptionError: the database cannot be written.
    """
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    columns = [f.name for f in fields(Record)]
    command = f"insert or replace into records ({', '.join(columns)}) values ({', '.join(':' + c for c in columns)})"
    rows = [{**asdict(record), "measured": record.measured or now} for record in records]
    with _opened() as database:
        database.executemany(command, rows)


def load(target: Target | None = None) -> list[Record]:
    """All records, or those for ``target``, by key.

    Raises:
        OptionError: the database is damaged.
    """
    if not path().exists():
        return []
    columns = ", ".join(f.name for f in fields(Record))
    where, values = ("", ()) if target is None else (" where target = ?", (described(target),))
    with _opened() as database:
        return [Record(*row) for row in database.execute(f"select {columns} from records{where} order by key, target", values)]


def clear() -> int:
    """Removes all records; returns how many there were."""
    if not path().exists():
        return 0
    with _opened() as database:
        return database.execute("delete from records").rowcount


def choices(target: Target) -> Choices:
    """What is known for ``target``.

    Raises:
        OptionError: nothing is, or the database is damaged.
    """
    known = load(target)
    if not known:
        raise OptionError(f"tuned: {path()} knows nothing about this target and number of cores; run 'forge tune MODEL' first")
    return Choices({record.key: record.choice for record in known})


@contextlib.contextmanager
def _opened() -> Iterator[sqlite3.Connection]:
    place = path()
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        database = sqlite3.connect(place, timeout=30)
        try:
            with database:
                database.execute(_TABLE)
                yield database
        finally:
            database.close()
    except (sqlite3.Error, OSError) as error:
        raise OptionError(f"tuning: {place}: {error}; expected a database of 'forge tune' that can be written; "
                          f"remove it, or set {knobs.TUNING.name} to another file") from error


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
    if not isinstance(content, dict) or content.get("format") != FORMAT or not isinstance(content.get("records"), list):
        raise OptionError(f"{file}: got no records of format {FORMAT}; expected a file of 'forge tune --export'")
    return [_record(file, number, item) for number, item in enumerate(content["records"])]


def _record(file: Path, number: int, item: Any) -> Record:
    kinds: Mapping[str, type | tuple[type, ...]] = {
        f.name: (int, float) if f.name.endswith("seconds") else str for f in fields(Record)}
    if not isinstance(item, dict) or item.keys() != kinds.keys():
        raise OptionError(f"{file}: record {number}: got {str(item)[:80]}; expected exactly {', '.join(kinds)}")
    for name, kind in kinds.items():
        if not isinstance(item[name], kind) or isinstance(item[name], bool):
            raise OptionError(f"{file}: record {number}: {name} is {item[name]!r}; expected text, or a number of seconds")
    return Record(**item)
