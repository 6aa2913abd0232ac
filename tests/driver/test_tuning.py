"""The database of choices: what is kept, replaced, carried to other machines and refused."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from forge.driver import tuning
from forge.driver.tuning import Record
from forge.errors import OptionError
from forge.target import Target, host
from forge.target.choices import Choices

HERE, OTHER = Target.parse("llvm -num-cores=1"), Target.parse("llvm -mcpu=x86-64-v2 -num-cores=1")
RECORD = Record.of(HERE, "conv2d a", "2 7", 1.0, 2.0)
ZEN5 = dataclasses.replace(RECORD, cpu="znver5", instruction_set=Target.parse("llvm -mcpu=znver5").instruction_set, choice="4 4")
EARLIER = {"key": "conv2d a", "choice": "2 7", "seconds": 1.0, "default_seconds": 2.0, "version": "0.9.0", "measured": "2026"}
"""A record of format 1, without its target."""


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "folder" / "tuning.sqlite"
    monkeypatch.setenv("FORGE_TUNING", str(path))
    return path


def test_records_belong_to_a_target() -> None:
    tuning.store([RECORD, Record.of(OTHER, "conv2d a", "1 1", 1.0, 3.0)])
    assert tuning.choices(HERE) == Choices({"conv2d a": "2 7"})
    assert tuning.choices(OTHER) == Choices({"conv2d a": "1 1"})
    assert len(tuning.load()) == 2 and tuning.load(HERE)[0].measured
    with pytest.raises(OptionError, match="knows nothing"):
        tuning.choices(Target.parse("llvm -mcpu=x86-64 -num-cores=1"))


def test_a_newer_record_takes_the_place_of_an_older_one() -> None:
    tuning.store([RECORD])
    tuning.store([dataclasses.replace(RECORD, choice="9")])
    assert [r.choice for r in tuning.load()] == ["9"]
    assert tuning.clear() == 1 and tuning.load() == []


def test_records_of_several_cpus_lie_side_by_side() -> None:
    tuning.store([RECORD, ZEN5])
    assert [r.cpu for r in tuning.load()] == sorted([host.name(), "znver5"])
    assert tuning.choices(HERE) == Choices({"conv2d a": "2 7"})
    for target in ("-mcpu=znver5", "-mtune=znver5 -mcpu=znver5", "-mcpu=znver5 -l3-cache=4096 -device=board -model=m"):
        assert tuning.choices(Target.parse(f"llvm -num-cores=1 {target}")) == Choices({"conv2d a": "4 4"})


@pytest.mark.parametrize("target", [
    "-mcpu=znver4 -num-cores=1", "-mcpu=znver5 -num-cores=2", "-mcpu=znver5 -mattr=-avxvnni -num-cores=1",
    "-mcpu=znver5 -mtune=sapphirerapids -num-cores=1", "-mcpu=x86-64 -num-cores=1"])
def test_records_of_another_cpu_are_not_used(target: str) -> None:
    parsed = Target.parse(f"llvm {target}")
    tuning.store([ZEN5])
    with pytest.raises(OptionError) as error:
        tuning.choices(parsed)
    wanted = Record.of(parsed, "", "", 0, 0).group
    assert f"got records of {ZEN5.group}; expected some of {wanted}; run ir.tune() first, on that CPU" in str(error.value)
    assert ZEN5.group == f"znver5, {ZEN5.instruction_set}, 1 thread"


def test_this_machine_has_one_name_however_a_target_spells_it() -> None:
    """A level names no CPU, so what is measured for it belongs to the machine that runs it."""
    for target in ("llvm", "llvm -mcpu=native", "llvm -mcpu=x86-64-v2", "llvm -mcpu=x86-64-v3 -device=board"):
        if Target.parse(target).is_of_host:
            assert Target.parse(target).machine == host.name() != ""
    assert [Target.parse(f"llvm -mcpu={cpu}").instruction_set for cpu in ("x86-64-v3", "znver2")] == ["x86-64-v3"] * 2
    assert Target.parse("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1").machine == "neoverse-v1"


def test_a_cpu_without_a_name_has_the_numbers_of_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    cpuinfo = "vendor_id\t: AuthenticAMD\ncpu family\t: 99\nmodel\t\t: 7\nmodel name\t: AMD EPYC\n"
    monkeypatch.setattr(host, "_read", lambda path: cpuinfo)
    monkeypatch.setattr(host, "cpu", host.cpu.__wrapped__)
    assert host.name.__wrapped__() == "AuthenticAMD-99-7"


def test_records_of_format_1_are_taken_over(database: Path) -> None:
    """Where Forge had found out the CPU, it is known; the others are listed and not used, and the old table stays."""
    texts = ("-mcpu=x86-64-v4 -mtune=znver4 -num-cores=2", "-mcpu=x86-64-v3 -num-cores=2", "-mcpu=haswell -num-cores=1")
    here, level, named = (json.dumps(Target.parse(f"llvm {text}").to_dict()) for text in texts)
    database.parent.mkdir()
    with sqlite3.connect(database) as old:
        old.execute("create table records (key, target, choice, seconds, default_seconds, version, measured)")
        for target in (here, level, named, "no target"):
            old.execute("insert into records values (:key, :target, :choice, :seconds, :default_seconds, :version, :measured)",
                        {**EARLIER, "target": target})
    assert [(r.cpu, r.instruction_set, r.threads) for r in tuning.load()] == [
        ("", "x86-64-v3", 1), ("", "x86-64-v3", 2), ("znver4", "x86-64-v4", 2)]
    assert tuning.choices(Target.parse(here)) == Choices({"conv2d a": "2 7"})
    with pytest.raises(OptionError, match="a CPU that was not written down"):
        tuning.choices(Target.parse(named))
    assert tuning.load() == tuning.load()
    with sqlite3.connect(database) as old:
        assert old.execute("select count(*) from records").fetchone() == (4,)
    assert tuning.clear() == 3 and tuning.load() == []


def test_a_file_of_format_1_is_read(tmp_path: Path) -> None:
    item = {**EARLIER, "target": json.dumps(Target.parse("llvm -mcpu=x86-64-v4 -mtune=znver4 -num-cores=2").to_dict())}
    (tmp_path / "t.json").write_text(json.dumps({"format": 1, "records": [item]}))
    [record] = tuning.read_json(tmp_path / "t.json")
    assert (record.cpu, record.instruction_set, record.threads, record.choice) == ("znver4", "x86-64-v4", 2, "2 7")
    (tmp_path / "t.json").write_text(json.dumps({"format": 1, "records": [{**item, "target": "llvm -mcpu=best"}]}))
    with pytest.raises(OptionError, match="record 0: target: unknown mcpu 'best'"):
        tuning.read_json(tmp_path / "t.json")


def test_a_database_of_a_later_version_is_left_alone(database: Path) -> None:
    tuning.store([RECORD])
    with sqlite3.connect(database) as newer:
        newer.execute("pragma user_version = 3")
    with pytest.raises(OptionError, match="format 3 of a later version of Forge"):
        tuning.load()


def test_json_travels(tmp_path: Path) -> None:
    tuning.store([RECORD])
    assert tuning.write_json(tmp_path / "t.json", tuning.load()) == 1
    assert tuning.read_json(tmp_path / "t.json") == tuning.load()


@pytest.mark.parametrize(("content", "message"), [
    ("{", "expected a file of 'forge tune --export'"),
    ("[" * 100_000, "expected a file of 'forge tune --export'"),
    ("[]", "no records of format 2"),
    ('{"format": 3, "records": []}', "no records of format 2"),
    ('{"format": 2, "records": [3]}', "record 0: got 3; expected exactly key, cpu"),
    ('{"format": 1, "records": [3]}', "record 0: got 3; expected exactly key, target"),
    ({"seconds": "fast"}, "record 0: seconds is 'fast'"),
    ({"seconds": True}, "record 0: seconds is True"),
    ({"key": 3}, "record 0: key is 3"),
    ({"threads": 1.5}, "record 0: threads is 1.5"),
    ({"more": 3}, "expected exactly key"),
])
def test_bad_files_are_refused(content: str | dict[str, Any], message: str, tmp_path: Path) -> None:
    if isinstance(content, dict):
        item = {**vars(RECORD), **content}
        content = json.dumps({"format": 2, "records": [item]})
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
