"""``forge run`` within limits, and when Ctrl-C is pressed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forge.cli import main
from forge_runtime import Runtime

Command = Callable[..., int]

LOOP = """def @main(%x: Tensor[(2), float32], %n: int64) {
  loop(%n, None, %x, num_carried=1) { body = fn (%i: int64, %k: bool, %c: Tensor[(2), float32]) {
    %0 = nn.relu(%c);
    (%k, %0)
  } }
}"""


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """``command(trips, options...)``: the exit status of a run."""
    (tmp_path / "loop.txt").write_text(LOOP)
    np.save(tmp_path / "x.npy", np.zeros(2, np.float32))

    def run(trips: int, *options: str) -> int:
        np.save(tmp_path / "n.npy", np.array(trips))
        inputs = [f"--input={name}={tmp_path}/{name}.npy" for name in ("x", "n")]
        return main(["run", str(tmp_path / "loop.txt"), *inputs, *options])

    return run


def test_within_limits(command: Command) -> None:
    assert command(3, "--memory-limit", "1M", "--time-limit", "1000") == 0


def test_time_limit(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(10**12, "--time-limit", "0.01") == 1
    assert "error: model 'main': time limit; not done after 0.0" in capsys.readouterr().err


def test_memory_limit(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(3, "--memory-limit", "7") == 1
    error = capsys.readouterr().err
    assert error.startswith("error: model 'main': memory limit; needs ") and "expected at most 7; raise the limit" in error


@pytest.mark.parametrize(("option", "value"), [
    *(("--memory-limit", value) for value in ("0", "-1", "1.5", "x", "5X", "9999999999T", "")),
    *(("--time-limit", value) for value in ("0", "-1", "nan", "inf"))])
def test_limits_that_are_none(command: Command, option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(3, f"{option}={value}") == 1
    error = capsys.readouterr().err
    assert error.startswith(f"error: {option} {value}") and "expected a positive number of" in error


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C is heard, also where the tests run in the background of a shell, which has them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_interrupt(command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run, timers = Runtime.run, []

    def run_and_press(self: Runtime, *arguments: Any) -> list[Any]:
        timers.append(threading.Timer(0.02, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)))
        timers[0].start()
        return run(self, *arguments)

    monkeypatch.setattr(Runtime, "run", run_and_press)
    assert command(10**12) == 130
    timers[0].join()
    assert capsys.readouterr().err == "error: interrupted\n"
