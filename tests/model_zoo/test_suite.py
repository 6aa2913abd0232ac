"""Architectures of model libraries against the lists of what agrees; with ``--sweeps`` a few of them.

``python -m tests.model_zoo --update`` writes the lists.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.model_zoo.lists import LIBRARIES, OK, OUTCOMES, SPEED, STATES, TIMED, WAYS, Speed, Zoo, exports

LISTED = [(Zoo(library), way) for library in LIBRARIES for way in WAYS if Zoo(library).path(way).exists()]
PART = 6
"""Of as many architectures as other sweeps take one runs: some ten of transformers with ``--sweeps=10``."""

LACKS = re.compile(r"no model: ImportError: \w+ requires the (\w+) library")
"""What is said of an architecture that takes its layers from another package, which is not installed; it counts as not drawn."""


@pytest.mark.parametrize(("zoo", "way"), LISTED, ids=lambda x: getattr(x, "library", x))
def test_lists_are_well_formed(zoo: Zoo, way: str) -> None:
    states, outcomes = zoo.read(), zoo.read(way)
    assert {s.partition(":")[0] for s in states.values()} <= set(STATES)
    assert {s.partition(":")[0] for s in outcomes.values()} <= set(OUTCOMES)
    assert list(states) == sorted(states) and list(outcomes) == sorted(outcomes)
    assert set(outcomes) <= set(exports(states))


@pytest.mark.parametrize("library", LIBRARIES)
def test_times_are_of_what_is_equal(library: str) -> None:
    times, equal = Zoo(library).read(SPEED), Zoo(library).read("compile")
    for name, text in times.items():
        assert equal[name] == OK
        assert not text.startswith(TIMED) or str(Speed.of(text)) == text


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("zoo", "way"), LISTED, ids=lambda x: getattr(x, "library", x))
def test_what_is_listed_agrees(zoo: Zoo, way: str, take: Callable[..., list[str]]) -> None:
    for package in ("torch", zoo.library):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    names = take([name for name, outcome in zoo.read(way).items() if outcome == OK], PART)
    command = [sys.executable, "-m", "tests.model_zoo", "--library", zoo.library, "--way", way, "-k", ",".join(names)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr[-2000:]
    needed = LACKS.findall(done.stdout)
    assert not [package for package in needed if importlib.util.find_spec(package)], done.stdout
    assert done.stdout.count(f"| {OK}\n") == len(names) - len(needed), done.stdout
