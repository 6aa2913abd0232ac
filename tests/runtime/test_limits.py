"""Calls that end early: signals, limits of memory and time; and the floating-point environment of a call's threads."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forge_runtime import InputError, MemoryLimitError, OutOfMemoryError, Runtime, TimeLimitError
from tests.runtime.building import Build, compile_c
from tests.runtime.sanitizers import compile_sanitized
from tests.runtime.test_native import execute, has_sanitizer

SOURCE = Path(__file__).parent / "limits.c"
AT_ONCE = np.zeros(1, np.float32)
VERY_LONG = np.full(1, 10_000, np.float32)
HELD = 4 + 4096  # the output, and a chunk of the heap


@pytest.fixture
def folder(build: Build) -> Path:
    return build("patient")


@pytest.fixture
def patient(folder: Path) -> Runtime:
    return Runtime(folder)


def test_limits_stops_and_environments_in_c(tmp_path: Path, runtime_objects: list[Path]) -> None:
    compile_c(SOURCE, *runtime_objects, "-lm", "-o", tmp_path / "limits")
    execute(tmp_path / "limits", "3")


def test_limits_under_the_thread_sanitizer(tmp_path: Path) -> None:
    if not has_sanitizer("thread"):
        pytest.skip("this compiler has no -fsanitize=thread")
    compile_sanitized("thread", SOURCE, tmp_path / "limits")
    execute(tmp_path / "limits", "2")


class Interruption(Exception):
    """What the signal handler of a test raises."""


@pytest.fixture
def interrupt() -> Iterator[Callable[[], None]]:
    """A function that sends this thread a signal soon, whose handler raises Interruption."""

    def raise_it(*_: Any) -> None:
        raise Interruption

    before = signal.signal(signal.SIGUSR1, raise_it)
    timers = []

    def soon() -> None:
        timers.append(threading.Timer(0.02, signal.pthread_kill, (threading.main_thread().ident, signal.SIGUSR1)))
        timers[-1].start()

    yield soon
    for timer in timers:
        timer.join()
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_ends_a_call(patient: Runtime, interrupt: Callable[[], None]) -> None:
    for model in (patient, patient.limited(time_limit=1e6, memory_limit=1 << 30)):
        with pytest.raises(Interruption):
            interrupt()  # within: on a busy machine the signal may come before the call
            model(VERY_LONG)
        assert model(AT_ONCE).tolist() == [0]


def test_a_handler_that_raises_nothing_ends_nothing(patient: Runtime) -> None:
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(patient(AT_ONCE)))
    try:
        thread = threading.Timer(0.02, signal.pthread_kill, (threading.main_thread().ident, signal.SIGUSR1))
        thread.start()
        while not seen:
            assert patient(np.full(1, 3, np.float32)).tolist() == [3]
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_time_limit(folder: Path, patient: Runtime) -> None:
    for model in (Runtime(folder, time_limit=0.01), patient.limited(time_limit=0.01)):
        message = r"^model 'patient': time limit; not done after \S+ s; expected at most 0.01 s; raise the limit, or pass smaller"
        with pytest.raises(TimeLimitError, match=message) as caught:
            model(VERY_LONG)
        assert isinstance(caught.value, TimeoutError)
        assert model.limited(time_limit=1000)(AT_ONCE).tolist() == [0]


def test_memory_limit(folder: Path, patient: Runtime) -> None:
    for model in (Runtime(folder, memory_limit=HELD - 1), patient.limited(memory_limit=HELD - 1)):
        message = f"^model 'patient': memory limit; needs {HELD} bytes at once; expected at most {HELD - 1}; raise the limit"
        with pytest.raises(MemoryLimitError, match=message) as caught:
            model(AT_ONCE)
        assert isinstance(caught.value, OutOfMemoryError)
        assert model.limited(memory_limit=HELD)(AT_ONCE).tolist() == [0]
        with pytest.raises(MemoryLimitError, match="needs 4 bytes at once; expected at most 3"):
            model.limited(memory_limit=3).run([AT_ONCE])


def test_memory_of_the_caller_is_not_counted(patient: Runtime) -> None:
    given = np.ones(1, np.float32)
    assert patient.limited(memory_limit=HELD - 4).run([AT_ONCE], [given])[0] is given and given.tolist() == [0]


def test_kept_memory_does_not_pass_a_limit(build: Build) -> None:
    model, x = Runtime(build("nonzero")), np.ones(100_000, np.float32)
    assert len(model(x)) == len(x)
    limited = model.limited(memory_limit=8 * len(x))
    for _ in range(3):
        with pytest.raises(MemoryLimitError, match="needs 800008 bytes at once; expected at most 800000"):
            limited(x)
        assert len(limited(x[1:])) == len(x) - 1


def test_limits_add_up_and_leave_the_model_as_it_is(patient: Runtime) -> None:
    both = patient.limited(time_limit=0.01).limited(memory_limit=HELD)
    with pytest.raises(TimeLimitError):
        both(VERY_LONG)
    with pytest.raises(MemoryLimitError):
        both.limited(memory_limit=1)(AT_ONCE)
    assert patient.limited() is not patient and patient(AT_ONCE).tolist() == [0]
    assert both.name == patient.name and both.limited().get_metadata() == patient.get_metadata()


def test_a_view_keeps_the_model_alive(folder: Path) -> None:
    view = Runtime(folder).limited(memory_limit=HELD)
    assert view(AT_ONCE).tolist() == [0]


@pytest.mark.parametrize("limit", [0, -1, 1 << 63, 1.5, True, "1", float("nan")])
def test_memory_limits_that_are_none(patient: Runtime, limit: Any) -> None:
    with pytest.raises(InputError, match=r"memory_limit: got .*; expected a positive number of bytes, or None for no limit"):
        patient.limited(memory_limit=limit)


@pytest.mark.parametrize("limit", [0, -0.5, float("nan"), float("inf"), True, "1", 1j])
def test_time_limits_that_are_none(patient: Runtime, limit: Any) -> None:
    with pytest.raises(InputError, match=r"time_limit: got .*; expected a positive number of seconds, or None for no limit"):
        patient.limited(time_limit=limit)


@pytest.mark.parametrize("limit", [1, 0.5, np.float32(2), Fraction(1, 3), 10**400])
def test_numbers_of_all_kinds_are_time_limits(patient: Runtime, limit: Any) -> None:
    assert patient.limited(time_limit=limit, memory_limit=np.int64(1 << 20))(AT_ONCE).tolist() == [0]
