"""The database of choices: what is kept, replaced, carried to other machines and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forge.driver import tuning
from forge.driver.tuning import Record
from forge.errors import OptionError
from forge.target import Target
from forge.target.choices import Choices

HERE, OTHER = Target.parse("llvm -num-cores=1"), Target.parse("llvm -mcpu=x86-64-v3 -num-cores=1")
RECORD = Record("conv2d a", tuning.described(HERE), "2 7", 1.0, 2.0)


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "folder" / "tuning.sqlite"
    monkeypatch.setenv("FORGE_TUNING", str(path))
    return path


def test_records_belong_to_a_target() -> None:
    tuning.store([RECORD, Record("conv2d a", tuning.described(OTHER), "1 1", 1.0, 3.0)])
    assert tuning.choices(HERE) == Choices({"conv2d a": "2 7"})
    assert tuning.choices(OTHER) == Choices({"conv2d a": "1 1"})
    assert len(tuning.load()) == 2 and tuning.load(HERE)[0].measured
    with pytest.raises(OptionError, match="knows nothing"):
        tuning.choices(Target.parse("llvm -mcpu=x86-64 -num-cores=1"))


def test_a_newer_record_takes_the_place_of_an_older_one() -> None:
    tuning.store([RECORD])
    tuning.store([Record("conv2d a", RECORD.target, "9", 0.5, 2.0)])
    assert [r.choice for r in tuning.load()] == ["9"]
    assert tuning.clear() == 1 and tuning.load() == []


def test_annotations_of_a_target_do_not_matter() -> None:
    annotated = Target.parse("llvm -num-cores=1 -device=board -model=m")
    assert tuning.described(annotated) == tuning.described(HERE)


def test_json_travels(tmp_path: Path) -> None:
    tuning.store([RECORD])
    assert tuning.write_json(tmp_path / "t.json", tuning.load()) == 1
    assert tuning.read_json(tmp_path / "t.json") == tuning.load()


@pytest.mark.parametrize(("content", "message"), [
    ("{", "expected a file of 'forge tune --export'"),
    ("[" * 100_000, "expected a file of 'forge tune --export'"),
    ("[]", "no records of format 1"),
    ('{"format": 2, "records": []}', "no records of format 1"),
    ('{"format": 1, "records": [3]}', "record 0: got 3; expected exactly key"),
    ({"seconds": "fast"}, "record 0: seconds is 'fast'"),
    ({"seconds": True}, "record 0: seconds is True"),
    ({"key": 3}, "record 0: key is 3"),
    ({"more": 3}, "expected exactly key"),
])
def test_bad_files_are_refused(content: str | dict[str, Any], message: str, tmp_path: Path) -> None:
    if isinstance(content, dict):
        item = {**vars(RECORD), **content}
        content = json.dumps({"format": 1, "records": [item]})
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(OptionError, match=message):
        tuning.read_json(tmp_path / "t.json")


def test_a_damaged_database_is_said_to_be(database: Path) -> None:
    database.parent.mkdir()
    database.write_bytes(b"no database at all" * 100)
    with pytest.raises(OptionError, match="not a database; expected a database of 'forge tune'"):
        tuning.load()


def test_nothing_is_written_by_reading(database: Path) -> None:
    assert tuning.load() == [] and tuning.clear() == 0
    assert not database.exists()


def test_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORGE_TUNING")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert tuning.path() == Path("/data/forge/tuning.sqlite")
