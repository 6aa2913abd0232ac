"""Files of measurements: a table for each machine and command, which are never mixed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forge.driver import machines
from forge.driver.machines import Machine, Table
from forge.errors import OptionError
from forge.target import host

COLUMNS = ("model", "ms")


def table(command: str, milliseconds: str) -> Table:
    return Table(command, COLUMNS, [["mlp [b=1]", milliseconds]], {"forge": "1"}, ["3 rounds"])


def elsewhere(monkeypatch: pytest.MonkeyPatch, cpu: str, *, cpus: int = 8) -> Machine:
    """From now on this is another machine."""
    other = Machine(cpu, "AMD EPYC", cpus, "x86-64-v4")
    monkeypatch.setattr(Machine, "here", staticmethod(lambda: other))
    return other


def test_each_machine_has_its_own_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where virtual machines call several generations by one name, or have another number of CPUs."""
    file = tmp_path / "speed.json"
    machines.add(file, table("bench a", "1"))
    elsewhere(monkeypatch, "znver5")
    machines.add(file, table("bench a", "2"))
    elsewhere(monkeypatch, "znver5", cpus=2)
    machines.add(file, table("bench a", "3"))
    last = elsewhere(monkeypatch, "znver4", cpus=2)
    found = machines.add(file, table("bench a", "4"))
    assert found[0].facts == last.facts
    assert sorted(t.rows[0][1] for machine in found for t in machine.tables) == ["1", "2", "3", "4"]
    assert {str(machine) for machine in machines.read(file)} == {str(machine) for machine in found}
    assert str(last) == "znver4 (AMD EPYC), 2 CPUs, x86-64-v4"


def test_the_same_command_replaces_its_own_table_only(tmp_path: Path) -> None:
    file = tmp_path / "speed.json"
    for command, milliseconds in (("bench a", "1"), ("bench b", "2"), ("bench a", "3")):
        machines.add(file, table(command, milliseconds))
    [here] = machines.read(file)
    assert (here.cpu, [t.rows[0] for t in here.tables]) == (host.name(), [["mlp [b=1]", "3"], ["mlp [b=1]", "2"]])
    assert here.tables[0].measured.startswith("20") and here.tables[0].versions == {"forge": "1"}
    assert '"columns": [ "model", "ms" ]' in file.read_text()


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 2, "machines": []}', '{"format": 1, "machines": [{"cpu": "znver5"}]}',
                                     '{"format": 1}', "[" * 100_000])
def test_other_files_are_refused_and_kept(content: str, tmp_path: Path) -> None:
    file = tmp_path / "speed.json"
    file.write_text(content)
    with pytest.raises(OptionError, match=r"speed\.json: .*; expected a file of measurements by machine of format 1"):
        machines.add(file, table("bench a", "1"))
    assert file.read_text() == content
    assert machines.read(tmp_path / "nowhere.json") == []


def test_this_machine_is_described() -> None:
    here = Machine.here()
    assert here.cpus >= 1 and here.instruction_set and json.dumps(here.facts)
