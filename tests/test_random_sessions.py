"""Random functions with states and donated inputs: compiled sessions against the interpreter, call by call.

``FORGE_RANDOM_SESSIONS=2000`` sets how many modules the slow test takes, and makes them new ones.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from forge.backends.compiled import CompiledModel
from forge.driver import check_options, compile_module
from forge.errors import ForgeError, InputError, MemoryLimitError
from forge.ir.functions.reference import Reference
from forge.ir.graph import Module
from forge.ir.printer import print_module
from forge.tir.library import StateMemory
from forge_runtime import Session, donate
from tests.guard_runtime import GuardedSession
from tests.random_sessions import random_inputs, random_module

COUNT = int(os.environ.get("FORGE_RANDOM_SESSIONS", "200"))
RANDOM = settings(phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None)
OPTIONS = ((0, None), (3, None))
TARGETS = ((3, "llvm -mcpu=x86-64-v2"), (3, "llvm -mcpu=x86-64-v3"))
CALLS = 6
SAVED = 4096
"""Bytes up to which a session saves a state before a call writes over it: ``SAVED_BYTES`` of ``forge_session.c``."""
TALLY = Counter[str]()


@dataclass
class Pair:
    """A session, and what the interpreter makes of the same calls."""

    session: Session
    reference: Reference

    def call(self, function: str, inputs: dict[str, np.ndarray], donated: set[str]) -> None:
        kept = {name: array.copy() for name, array in inputs.items()}
        expected = self.reference[function](**inputs)
        given = {name: donate(array.copy()) if name in donated else array for name, array in inputs.items()}
        results = self.session[function](**given)
        for name in inputs:
            np.testing.assert_array_equal(inputs[name], kept[name], f"input {name} was written", strict=True)
        expect_equal(f"@{function}", results, expected)
        states = self.session.state()
        for name, wanted in self.reference.states.items():
            np.testing.assert_array_equal(states[name], wanted, f"after @{function}: state {name}", strict=True)

    def starve(self, function: str, inputs: dict[str, np.ndarray], limit: int) -> None:
        """A call that gets too little memory leaves the states as they were, but for large ones."""
        kept = self.session.copy()
        before = kept.state()
        try:
            self.session.limited(memory_limit=limit)[function](**inputs)
        except MemoryLimitError:
            TALLY["starved"] += 1
            try:
                after = self.session.state()
            except InputError:
                assert max(value.nbytes for value in before.values()) > SAVED, f"@{function}: a small state is lost"
                self.session = kept
                return
            for name, wanted in before.items():
                np.testing.assert_array_equal(after[name], wanted, f"@{function} failed: state {name}", strict=True)
        else:
            self.session = kept

    def disturb(self, rng: np.random.Generator, path: Path) -> None:
        """What must not change the calls that follow, or does so alike."""
        action = rng.integers(8)
        if action == 0:
            self.session = self.session.copy()
        elif action == 1:
            self.session.save(path)
            self.session.reset()
            self.session.load_state(path)
        elif action == 2:
            self.session.reset()
            self.reference.states.clear()


def expect_equal(where: str, results: Any, expected: Any) -> None:
    """Of a call: one result, or a list."""
    both = [r if isinstance(r, list) else [r] for r in (results, expected)]
    for number, (got, wanted) in enumerate(zip(*both, strict=True)):
        np.testing.assert_array_equal(np.asarray(got), wanted, f"{where}: result {number}", strict=True)


def check_module(seed: int, path: Path, options: Sequence[tuple[int, str | None]] = OPTIONS) -> None:
    module = random_module(seed)
    for level, target in options:
        try:
            _check_calls(seed, module, level, target, path)
        except (AssertionError, ForgeError, RuntimeError) as error:
            raise AssertionError(f"seed {seed}, level {level}, target {target}: {error}\n{print_module(module)}") from error
    TALLY["modules"] += 1


def _check_guarded(seed: int, module: Module, compiled: CompiledModel) -> None:
    """The same calls with memory whose ends are guarded; nothing is donated."""
    session, reference, rng = GuardedSession(compiled, capacity=seed % 3), Reference(module), np.random.default_rng(seed)
    batch = int(rng.integers(1, 5))
    for _ in range(CALLS):
        function = str(rng.choice(list(module.public)))
        inputs = random_inputs(rng, module.public[function], batch)
        expected = reference[function](**inputs)
        expect_equal(f"guarded @{function}", session.call(module.public[function], inputs), expected)
        if rng.random() < 0.1:
            session.reset()
            reference.states.clear()
    session.close()


def _check_calls(seed: int, module: Module, level: int, target: str | None, path: Path) -> None:
    compiled = compile_module(module.copy(), check_options(target, opt_level=level), use_cache=False)
    rng = np.random.default_rng(seed)
    pair = Pair(compiled.runtime(num_threads=1).session(capacity=int(rng.choice([1, 7]))), Reference(module))
    batch = int(rng.integers(1, 5))
    _check_guarded(seed, module, compiled)
    assert compiled.lowered is not None
    TALLY.update(b.memory.name for program in compiled.lowered.library.programs for b in program.bindings)
    for _ in range(CALLS):
        function = str(rng.choice(list(module.public)))
        graph = module.public[function]
        inputs = random_inputs(rng, graph, batch)
        if rng.random() < 0.3:
            pair.starve(function, inputs, int(2 ** rng.uniform(0, 13)))
        pair.call(function, inputs, {name for name in graph.donated if rng.random() < 0.6})
        pair.disturb(rng, path)


@settings(RANDOM, max_examples=5, derandomize=True)
@given(st.integers(0, 2**32))
def test_random_sessions(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    check_module(seed, tmp_path_factory.getbasetemp() / "states")


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_random_sessions(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """All of them run, with ``--sweeps`` the first half, whichever fail; states are changed in all the ways that there are."""
    failures: list[str] = []
    count = COUNT // 2 if request.config.getoption("--sweeps") else COUNT
    TALLY.clear()

    @settings(RANDOM, max_examples=count, derandomize="FORGE_RANDOM_SESSIONS" not in os.environ)
    @given(st.integers(0, 2**32))
    def check_one(seed: int) -> None:
        try:
            check_module(seed, tmp_path / "states", [*OPTIONS, TARGETS[seed % len(TARGETS)]])
        except AssertionError as error:
            failures.append(str(error))

    check_one()
    logging.getLogger(__name__).info("%s, %d failures", dict(TALLY), len(failures))
    assert not failures, "\n\n".join(failures)
    assert all(TALLY[name] > count // 10 for name in (*(memory.name for memory in StateMemory), "starved"))
