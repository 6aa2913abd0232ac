"""The page of measurements: a generated part for each CPU, between texts that stay."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks import machine_tables
from forge.driver import machines
from forge.driver.machines import Machine, Table

PAGE = """# Performance

## Zen 5 (znver5)

By hand.

<!-- measured on znver5 -->
what was there
<!-- end -->

## Others

Also by hand.
"""


def machine(cpu: str, *milliseconds: str, cpus: int = 2) -> Machine:
    tables = tuple(Table(f"python -m benchmarks.compare --rounds {ms}", ["model", "ms"], [["a|b", ms]], {"forge": "1"},
                         [f"{ms} rounds", "shared"], "2026-11-28") for ms in milliseconds)
    return Machine(cpu, "AMD EPYC", cpus, "x86-64-v3", tables)


def test_tables_stand_below_the_heading_of_their_cpu() -> None:
    known = [machine("znver1", "11"), machine("znver5", "51", "52"), machine("znver5", "53", cpus=8)]
    text = machine_tables.page(known, PAGE)
    places = [text.index(part) for part in (
        "By hand.", "<!-- measured on znver5 -->", "| a/b | 51 |", "| a/b | 52 |", "| a/b | 53 |", "<!-- end -->",
        "Also by hand.", "## znver1\n\n<!-- measured on znver1 -->", "| a/b | 11 |")]
    assert places == sorted(places) and "what was there" not in text
    assert "\nznver5 (AMD EPYC), 8 CPUs, x86-64-v3; 2026-11-28; forge 1; 53 rounds; shared.\n" in text
    assert machine_tables.page(known, text) == text
    assert "| a/b |" not in machine_tables.page([], text)


def test_the_page_is_written_with_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_tables, "STORE", tmp_path / "machines.json")
    monkeypatch.setattr(machine_tables, "PAGE", tmp_path / "page.md")
    machine_tables.PAGE.write_text(PAGE)
    machine_tables.publish(Table("python -m benchmarks.compare", ["model"], [["mlp"]]), "on a quiet day")
    here = machines.read(machine_tables.STORE)[0]
    assert f"<!-- measured on {here.cpu} -->" in machine_tables.PAGE.read_text()
    assert "; on a quiet day.\n\n    python -m benchmarks.compare\n" in machine_tables.PAGE.read_text()


def test_a_command_has_what_changes_its_numbers() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=lambda text: text.split(","), default=["a", "b"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--output")
    machine_tables.add_arguments(parser)

    def line(*arguments: str) -> str:
        return machine_tables.command("compare", parser.parse_args(arguments), parser.parse_args([]))

    assert line("--output", "somewhere", "--page", "--note", "n") == "python -m benchmarks.compare"
    assert line("--page", "--small", "--models", "a") == "python -m benchmarks.compare --models a --small"


def test_versions_are_of_what_is_installed() -> None:
    assert list(machine_tables.versions(["numpy", "no-such-distribution", "numpy"])) == ["forge", "numpy"]
