"""Random functions with states, called in random order in sessions, against the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import forge
from forge.driver import check_options, compile_module
from forge.ir.interp import run_module

VECTOR, ROWS = "Tensor[(3), int64]", "Tensor[({}, 3), int64]"
QUICK = 8


class Writer:
    """The text of one function, whose states ``a`` and ``b`` are vectors, ``s`` and ``t`` rows of them."""

    def __init__(self, rng: np.random.Generator, name: str) -> None:
        self.rng = rng
        self.name = name
        self.lines: list[str] = []
        self.states = [s for s in "abst" if rng.random() < 0.7] or ["a", "s"]
        self.vectors = ["%x", *(f"%{s}" for s in self.states if s in "ab")]
        self.rows = ["%y", *(f"%{s}" for s in self.states if s in "st")]

    def pick(self, values: list[str]) -> str:
        return str(self.rng.choice(values))

    def add(self, values: list[str], expression: str) -> None:
        values.append(f"%{len(self.lines)}")
        self.lines.append(f"{values[-1]} = {expression};")

    def step(self) -> None:
        """One more vector or one more tensor of rows."""
        v, w, r, q = self.pick(self.vectors), self.pick(self.vectors), self.pick(self.rows), self.pick(self.rows)
        steps = [
            (self.vectors, f"add({v}, {w})"), (self.vectors, f"maximum({v}, {w})"), (self.vectors, f"reverse({v}, axis=[0])"),
            (self.vectors, f"sum({r}, axis=[0])"), (self.vectors, f"cumsum({v}, axis=0)"),
            (self.rows, f"concatenate({r}, {q})"), (self.rows, f"concatenate({r}, expand_dims({v}, axis=0))"),
            (self.rows, f"concatenate(expand_dims({v}, axis=0), {r})"), (self.rows, f"add({r}, {v})"),
            (self.rows, f"reverse({r}, axis=[0])"), (self.rows, f"subtract({r}, {r})"),
        ]
        self.add(*steps[self.rng.integers(len(steps))])

    def text(self) -> str:
        for _ in range(self.rng.integers(1, 6)):
            self.step()
        replaced = [s for s in self.states if self.rng.random() < 0.8]
        results = [f"%{s} = {self.pick(self.vectors if s in 'ab' else self.rows)}" for s in replaced]
        results += [f"add({self.pick(self.vectors)}, {self.pick(self.vectors)})", f"add({self.pick(self.rows)}, %x)"]
        donated = "donated " if self.rng.random() < 0.4 else ""
        if donated:
            results.append(f"%x = {self.pick(self.vectors)}")
        self.rng.shuffle(results)
        states = [f"state %{s}: {VECTOR if s in 'ab' else ROWS.format(s + '_rows')}" for s in self.states]
        inputs = [f"{donated}%x: {VECTOR}", f"%y: {ROWS.format('n')}", *states]
        self.rng.shuffle(inputs)
        return f"def @{self.name}({', '.join(inputs)}, public=True) {{ {' '.join(self.lines)} ({', '.join(results)}) }}"


class Interpreter:
    """What a session does, in NumPy."""

    def __init__(self, ir: forge.IRModule) -> None:
        self.ir = ir
        self.states: dict[str, Any] = {s: np.zeros(3 if s in "ab" else (0, 3), np.int64) for s in "abst"}

    def call(self, name: str, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
        graph = self.ir.graphs[name]
        results = run_module(self.ir.mod, {"x": x, "y": y, **{s: self.states[s] for s in graph.states}}, graph=graph)
        numbers = {state.output: s for s, state in graph.states.items() if state.output is not None}
        self.states.update({s: results[number] for number, s in numbers.items()})
        return [result for number, result in enumerate(results) if number not in numbers]


def check(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ir = forge.IRModule("\n".join(Writer(rng, name).text() for name in ("f", "g")))
    level = int(rng.integers(4))
    run = compile_module(ir.mod, check_options("llvm", opt_level=level), use_cache=False).runtime()
    pairs = [(run.session(capacity=int(rng.integers(1, 20))), Interpreter(ir))]
    for _ in range(12):
        session, expected = pairs[rng.integers(len(pairs))]
        x, y = rng.integers(-9, 9, 3), rng.integers(-9, 9, (int(rng.integers(0, 4)), 3))
        name = str(rng.choice(["f", "g"]))
        if max(len(expected.states["s"]), len(expected.states["t"])) > 5000:
            return
        donates = "x" in ir.graphs[name].donated and rng.random() < 0.5
        passed = x.copy()
        given = session[name].run({"x": forge.donate(passed) if donates else passed, "y": y})
        assert donates or passed.tolist() == x.tolist()
        for left, right in zip(given, expected.call(name, x, y), strict=True):
            np.testing.assert_array_equal(left, right)
        for state, value in session.state().items():
            np.testing.assert_array_equal(value, expected.states[state])
        if rng.random() < 0.2 and len(pairs) < 3:
            pairs.append((session.copy(), Interpreter(ir)))
            pairs[-1][1].states = dict(expected.states)


@pytest.mark.parametrize("seed", range(QUICK))
def test_random_sessions(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(QUICK, 200))
def test_more_random_sessions(seed: int) -> None:
    check(seed)
