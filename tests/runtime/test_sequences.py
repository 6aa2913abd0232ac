"""Sequences in the C runtime, under sanitizers: random operators against Python's lists."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.building import compile_c, runtime_objects
from tests.runtime.sanitizers import compile_sanitized
from tests.runtime.test_native import has_sanitizer

CONSTRUCT, INSERT, ERASE, AT, LENGTH, CONCAT, SPLIT = range(7)
LONGEST = 8
Command = tuple[int, int, int, int, int, int]
Vector = list[int]

register = st.integers(0, 3)
command = st.tuples(st.integers(0, 6), register, register, st.integers(0, 40), st.integers(-6, 6), st.integers(0, 1))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("sequences") / "sequences"
    source = Path(__file__).parent / "sequences.c"
    if has_sanitizer("address,undefined"):
        compile_sanitized("address,undefined", source, built)
    else:
        compile_c("-g", source, *runtime_objects("-g"), "-lm", "-o", built)
    return built


def vector(value: int) -> Vector:
    return [value] * (value % LONGEST)


def place(position: int, length: int, last: int) -> int | None:
    found = position + length if position < 0 else position
    return found if 0 <= found <= last else None


def changed(source: list[Vector], operator: int, value: int, position: int, given_: int) -> list[Vector] | None:
    """The sequence after an insertion or a removal; None: an error."""
    length = len(source)
    inserts = operator == INSERT
    at = place(position if given_ else (length if inserts else -1), length, length if inserts else length - 1)
    if at is None:
        return None
    return [*source[:at], vector(value), *source[at:]] if inserts else source[:at] + source[at + 1 :]


def parts(value: int, size: int) -> list[Vector] | None:
    whole = vector(value)
    if size < 1:
        return None
    return [whole[k : k + size] for k in range(0, len(whole), size)] or [[]]


def looked_at(source: list[Vector], operator: int, position: int) -> Vector | int | None:
    if operator == LENGTH:
        return len(source)
    if operator == CONCAT:
        return [x for v in source for x in v] if source else None
    at = place(position, len(source), len(source) - 1)
    return None if at is None else source[at]


def text(value: list[Vector] | Vector | int | None) -> str:
    if value is None:
        return "error"
    if isinstance(value, int):
        return f"[{value}]"
    if value and isinstance(value[0], list):
        return f"[{''.join(text(v) for v in value)}]"
    return f"[{','.join(map(str, value))}]"


def expected(commands: list[Command]) -> str:
    registers = [[vector(9), vector(11)] for _ in range(4)]
    lines = []
    for operator, target, source, value, position, given_ in commands:
        result: list[Vector] | Vector | int | None
        if operator == CONSTRUCT:
            result = [vector(value + k) for k in range(value % 4)]
        elif operator == SPLIT:
            result = parts(value, position) if given_ else [[value]] * (value % LONGEST)
        elif operator in (INSERT, ERASE):
            result = changed(registers[source], operator, value, position, given_)
        else:
            result = looked_at(registers[source], operator, position)
        if operator in (CONSTRUCT, INSERT, ERASE, SPLIT) and isinstance(result, list):
            registers[target] = [v for v in result if isinstance(v, list)]
        lines.append(text(result))
    return "".join(f"{line}\n" for line in lines) + text(registers[0])


def run(program: Path, commands: list[Command]) -> str:
    script = "\n".join(" ".join(map(str, c)) for c in commands)
    done = subprocess.run([program], input=script, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@settings(max_examples=60)
@given(commands=st.lists(command, max_size=40))
def test_operators_act_as_on_lists(program: Path, commands: list[Command]) -> None:
    assert run(program, commands) == expected(commands)


def test_appending_to_two_versions_of_one_sequence(program: Path) -> None:
    grow = [(INSERT, 0, 0, k, 0, 0) for k in range(20)]
    fork = [(INSERT, 1, 0, 33, 0, 0), (INSERT, 2, 0, 34, 0, 0), (ERASE, 3, 0, 0, 0, 1), (INSERT, 3, 3, 35, 0, 0)]
    again = [(ERASE, 0, 0, 0, 0, 0), (INSERT, 0, 0, 36, 0, 0), (CONCAT, 0, 1, 0, 0, 0), (CONCAT, 0, 2, 0, 0, 0)]
    commands: list[Command] = [*grow, *fork, *again, (CONCAT, 0, 3, 0, 0, 0)]
    assert run(program, commands) == expected(commands)
