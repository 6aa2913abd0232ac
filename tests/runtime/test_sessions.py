"""Sessions: states that live from one call to the next; functions of one library; donated arrays."""

from __future__ import annotations

import gc
import json
import shutil
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from forge_runtime import ExecutionError, InputError, MemoryLimitError, Runtime, Session, donate, state_files
from tests.runtime.building import Build

HERE = Path(__file__).parent
X = np.array([1, 2], np.float32)


@pytest.fixture
def run(build: Build) -> Runtime:
    return Runtime(build("sessions", fingerprint="abc"))


def test_functions_of_one_library(run: Runtime) -> None:
    assert run.functions == ["main", "tune", "find", "halve", "double", "sum"]
    assert (run.function, run["double"].function) == ("main", "double")
    assert run["double"] is run["double"]
    assert run["double"]["main"].input_names == run.input_names == ["x"]
    assert run["double"].input_names == ["x", "w"]
    assert repr(run["tune"]) == "<Runtime notes['tune'](new: float32[2]) -> >"
    assert run["double"](X, X).tolist() == [3, 6]
    with pytest.raises(InputError, match=r"no such name; got 'encode'; expected one of \['main', 'tune', "):
        run["encode"]


def test_functions_and_sessions_keep_the_library_loaded(build: Build) -> None:
    path = build("sessions")
    double, session = Runtime(path)["double"], Runtime(path).session()
    gc.collect()
    assert double(X, X).tolist() == [3, 6]
    assert session(X).tolist() == [210, 1]


def test_a_session_keeps_states(run: Runtime) -> None:
    session = run.session()
    assert session(X).tolist() == [210, 1]
    assert session(x=2 * X).tolist() == [210, 420, 3]
    assert session([X]).tolist() == [210, 420, 210, 4]
    log = session.state()["log"]
    assert log.tolist() == [[10, 20, 10], [200, 400, 200]]
    assert run.session()(X).tolist() == [210, 1]
    session.reset()
    assert session(X).tolist() == [210, 1]
    assert log.tolist() == [[10, 20, 10], [200, 400, 200]]


def test_functions_share_states(run: Runtime) -> None:
    session = run.session()
    assert session["tune"](new=X) == []
    assert session(X).tolist() == [5, 1]
    find = session["find"]
    assert find(X) == 0
    assert find(np.array([0, 3], np.float32)) == 2
    assert session.state()["found"].tolist() == [1]
    assert session.functions == run.functions
    assert session["find"] is session["find"]
    assert session["find"]["main"](X).tolist() == [5, 5, 2]


def test_states_before_the_first_call(run: Runtime) -> None:
    state = run.session().state()
    assert {name: value[:2].tolist() for name, value in state.items()} == {"total": [0], "gain": [10, 100], "sums": [0, 0]}
    halves = run["halve"].session()(np.ones(3, np.float32))
    assert (halves.dtype, halves.tolist()) == (ml_dtypes.bfloat16, [0, 0, 0])


@pytest.mark.parametrize("capacity", [None, 1, 5, 1000])
def test_capacity_changes_no_result(run: Runtime, capacity: int | None) -> None:
    session = run.session(capacity=capacity)
    for n in range(20):
        assert session(X).tolist() == [210.0] * (n + 1) + [n + 1]


@pytest.mark.parametrize("capacity", [0, -1, 1.5, True, 1 << 63])
def test_capacity_is_checked(run: Runtime, capacity: Any) -> None:
    with pytest.raises(InputError, match=r"capacity: got .*; expected a positive number of elements"):
        run.session(capacity=capacity)


def test_forks_go_their_own_way(run: Runtime) -> None:
    session = run.session()
    session(X)
    fork = session.copy()
    assert fork(-X).tolist() == [210, -210, 0]
    assert session(X).tolist() == [210, 210, 2]
    assert fork["main"].state()["log"].tolist() == [[10, -10], [200, -200]]


def test_states_are_saved_and_loaded(run: Runtime, tmp_path: Path) -> None:
    session = run.session()
    session(X)
    session["halve"](np.array([0.5, -2, 3], np.float32))
    before = session.state()
    session.save(tmp_path / "s.safetensors")
    session(X)
    other = run.session()
    other.load_state(tmp_path / "s.safetensors")
    after = other.state()
    assert {name: v.tolist() for name, v in after.items()} == {name: v.tolist() for name, v in before.items()}
    assert after["half"].dtype == ml_dtypes.bfloat16
    assert other(X).tolist() == [210, 210, 2]
    other.load_state({"total": np.array([7], np.float32)})
    assert other(X).tolist() == [210, 8]
    assert [path.name for path in tmp_path.glob("s.safetensors*")] == ["s.safetensors"]


def test_files_are_safetensors(run: Runtime, tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors")
    session = run.session()
    session(X)
    session.save(tmp_path / "s.safetensors")
    with safetensors.safe_open(tmp_path / "s.safetensors", "np") as opened:
        assert opened.metadata() == {"format": "forge-session-1", "fingerprint": "abc"}
        assert sorted(opened.keys()) == ["gain", "log", "sums", "total"]
        assert opened.get_tensor("log").tolist() == [[10], [200]]


def test_state_of_another_model(build: Build, tmp_path: Path) -> None:
    first = shutil.copytree(build("sessions", fingerprint="abc"), tmp_path / "first")
    Runtime(first).session().save(tmp_path / "s.safetensors")
    other = Runtime(build("sessions", fingerprint="def")).session()
    with pytest.raises(InputError, match=r"the state of another model; got fingerprint 'abc'; expected 'def'"):
        other.load_state(tmp_path / "s.safetensors")


@pytest.mark.parametrize(("states", "message"), [
    ({"sum": X}, r"no such state; got \['sum'\]; expected names of \['log', 'total', 'gain', 'found', 'half', 'sums'\]"),
    ({"total": X}, r"state 'total': wrong tensor; got float32 \[2\]; expected float32 \[1\]"),
    ({"total": X[:1], "log": np.ones((3, 2), np.float32)}, r"got float32 \[3, 2\]; expected float32 \[2, -1\]"),
    ({"total": np.ones(1)}, "state 'total': wrong dtype; got float64; expected float32"),
    ({"log": np.ones((1,) * 9, np.float32)}, "state 'log': wrong tensor; got rank 9; expected 2"),
    ({"total": "seven"}, "state 'total': not an array; got str"),
])
def test_wrong_states_change_nothing(run: Runtime, states: dict[str, Any], message: str) -> None:
    session = run.session()
    session(X)
    with pytest.raises(InputError, match=message):
        session.load_state(states)
    assert session(X).tolist() == [210, 210, 2]


@pytest.mark.parametrize("content", [
    b"", b"\0" * 7, b"\xff" * 20, (3).to_bytes(8, "little") + b"[1]", (2).to_bytes(8, "little") + b"{}",
    *((len(text)).to_bytes(8, "little") + text + b"\0" * 8 for text in (
        json.dumps({"total": entry}).encode() for entry in (
            {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}, {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
            {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}, {"dtype": "X8", "shape": [1], "data_offsets": [0, 1]},
            {"dtype": "F32", "shape": [1]}, {"dtype": "F32", "shape": ["a"], "data_offsets": [0, 4]}, 3))),
])
def test_damaged_files_are_refused(run: Runtime, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.safetensors"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"s.safetensors: (is not a state that `save` has written, or damaged|got format None)"):
        run.session().load_state(path)


def test_arrays_that_share_bytes_are_refused(run: Runtime, tmp_path: Path) -> None:
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    header = json.dumps({"total": entry, "gain": entry}).encode()
    path = tmp_path / "s.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(InputError, match=r"or damaged: arrays of 16 bytes in 8"):
        run.session().load_state(path)


def test_arrays_that_share_bytes_are_refused_before_one_is_copied(tmp_path: Path) -> None:
    """An array that ends before it begins does not make up for them."""
    size, count = 1 << 20, 200
    entries = {str(k): {"dtype": "U8", "shape": [size], "data_offsets": [0, size]} for k in range(count)}
    entries["last"] = {"dtype": "U8", "shape": [1], "data_offsets": [size * count, 0]}
    header = json.dumps(entries).encode()
    path = tmp_path / "s.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=rf"or damaged: arrays of {size * count} bytes in {size}"):
            state_files.read(path)
        assert tracemalloc.get_traced_memory()[1] < 10 * size
    finally:
        tracemalloc.stop()


def test_a_name_that_the_format_has_taken(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"got a state called '__metadata__'; expected another name"):
        state_files.write(tmp_path / "s.safetensors", {"__metadata__": X}, {})
    assert not list(tmp_path.iterdir())


def test_threads_save_to_one_path(run: Runtime, tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    values = [np.full((2, size), size, np.float32) for size in (50_000, 90_000)]

    def save(value: np.ndarray) -> None:
        session = run.session()
        session.load_state({"log": value})
        for _ in range(20):
            session.save(path)

    with ThreadPoolExecutor(len(values)) as pool:
        list(pool.map(save, values))
    session = run.session()
    session.load_state(path)
    log = session.state()["log"]
    assert any(np.array_equal(log, value) for value in values)
    assert not list(tmp_path.glob("s.safetensors.*"))


def test_files_cut_short_are_refused(run: Runtime, tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    run.session().save(path)
    content = path.read_bytes()
    for size in range(0, len(content), 7):
        path.write_bytes(content[:size])
        with pytest.raises(InputError, match=r"or damaged"):
            run.session().load_state(path)


def test_states_need_a_session(run: Runtime) -> None:
    with pytest.raises(InputError, match=r"function 'main' keeps states .*; got a call without a session; .*: run.session"):
        run(X)
    with pytest.raises(InputError, match=r"wrong number of inputs; got 2; expected 1"):
        run.session()(X, X)
    with pytest.raises(InputError, match=r"input 'x': wrong shape; got \[3\]"):
        run.session()(np.ones(3, np.float32))


def test_failed_calls(run: Runtime) -> None:
    session = run.session()
    bad = np.array([np.nan, 1], np.float32)
    with pytest.raises(ExecutionError, match=r"x is not a number"):
        session(bad)
    assert session(X).tolist() == [210, 1]  # nothing was set before
    with pytest.raises(ExecutionError, match=r"x is not a number"):
        session(bad)
    assert session(X).tolist() == [210, 210, 2]


def test_large_states_of_failed_calls(run: Runtime) -> None:
    session = run["sum"].session()
    good, bad = np.array([1], np.float32), np.array([np.nan], np.float32)
    assert session(good) == 1
    with pytest.raises(ExecutionError, match=r"x is not a number"):
        session(bad)
    with pytest.raises(InputError, match=r"state 'sums' is undefined"):
        session(good)
    with pytest.raises(InputError, match=r"state 'sums' is undefined"):
        session.state()
    assert session["main"](X).tolist() == [210, 1]
    session.reset()
    assert session(good) == 1


def test_limits_count_states(run: Runtime) -> None:
    session = run.session(capacity=1000)
    with pytest.raises(MemoryLimitError, match=r"needs 8000 bytes at once; expected at most 100"):
        session.limited(memory_limit=100)(X)
    assert session.limited(memory_limit=10000)(X).tolist() == [210, 1]
    assert session.limited(memory_limit=100)(X).tolist() == [210, 210, 2]
    assert run.limited(memory_limit=10000)["find"].session()(X) == 0
    with pytest.raises(MemoryLimitError):
        run.limited(memory_limit=1)["find"].session()(X)


def test_capacity_holds_for_states_that_are_set(run: Runtime) -> None:
    """A call that appends to such a state takes no memory but that of its result."""
    session = run.session(capacity=1000)
    session.load_state({"log": np.ones((2, 5), np.float32)})
    assert session.limited(memory_limit=100)(X).tolist() == [2, 2, 2, 2, 2, 210, 1]
    exact = run.session()
    exact.load_state({"log": np.ones((2, 100), np.float32)})
    with pytest.raises(MemoryLimitError, match=r"needs 1600 bytes at once"):
        exact.limited(memory_limit=1500)(X)


def test_one_thread_at_a_time(run: Runtime) -> None:
    session = run.session(capacity=4000)
    refused = []

    def append() -> None:
        for _ in range(1000):
            try:
                session(X)
            except InputError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=append) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.state()["log"].shape == (2, 4000 - len(refused))
    assert all("session: in use by another call; expected one thread at a time" in message for message in refused)


class Resetting:
    """An output that resets a session while the runtime asks for its memory, as another thread might."""

    def __init__(self, session: Session, array: np.ndarray) -> None:
        self.session, self.array = session, array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        self.session.reset()
        return self.array.__dlpack__(**options)


def test_a_call_has_its_session_from_the_first_look_at_shapes_on(run: Runtime) -> None:
    session = run.session()
    session(X)
    with pytest.raises(InputError, match=r"output 'y': cannot be written: .* session: in use by another call"):
        session.run([X], [Resetting(session, np.empty(3, np.float32))])
    assert session(X).tolist() == [210, 210, 2]


def test_states_are_those_of_one_moment(run: Runtime) -> None:
    """What `state` gives was there between two calls, also if another thread calls as soon as it can."""
    session = run.session()
    session(X)

    def call(frame: Any, event: str, function: Any) -> None:
        if event == "c_return" and getattr(function, "__self__", None) is session._native:
            session(X)

    sys.setprofile(call)
    try:
        state = session.state()
    finally:
        sys.setprofile(None)
    assert (state["log"].shape, state["total"].tolist()) == ((2, 1), [1])


def test_outputs_in_place(run: Runtime) -> None:
    session, y = run.session(), np.empty(2, np.float32)
    assert session.run([X], [y])[0] is y
    assert y.tolist() == [210, 1]
    with pytest.raises(InputError, match=r"output 'y': wrong array; got float32 \[2\]; expected float32 \[3\]"):
        session.run([X], {"y": y})


def test_donated_arrays(run: Runtime) -> None:
    double, x, w = run["double"], np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    assert double(x, w).tolist() == [1, 3, 5, 7]
    assert x.tolist() == [0, 1, 2, 3]
    given = donate(x)
    assert double(given, w) is x
    assert (x.tolist(), repr(given)) == ([1, 3, 5, 7], "<donated and spent>")
    with pytest.raises(InputError, match=r"input 'x': got a donated array that an earlier call has taken"):
        double(given, w)
    assert double(donate(x), w=w) is x
    assert x.tolist() == [3, 7, 11, 15]


def test_donation_is_checked(run: Runtime) -> None:
    double, x = run["double"], np.arange(4, dtype=np.float32)
    with pytest.raises(InputError, match=r"input 'w': got a donated array; .*no output takes the memory of this input"):
        double(x, donate(x))
    with pytest.raises(InputError, match=r"memory of output 'y' overlaps that of 'w'"):
        double(donate(x), x)
    with pytest.raises(InputError, match=r"output 'y': got an array and donated memory of input 'x'; expected one of them"):
        double.run([donate(x), x + 1], [np.empty(4, np.float32)])
    wrong = donate(np.ones(4))
    with pytest.raises(InputError, match=r"wrong dtype; got float64"):
        double(wrong, x)
    assert repr(wrong) == "<donated float64[4]>"
    with pytest.raises(InputError, match=r"donate: got list; expected a NumPy array"):
        donate([1.0])  # type: ignore[arg-type]
    for array in (x[::2], np.broadcast_to(x, (2, 4))):
        with pytest.raises(InputError, match=r"donate: the array is not C-contiguous, aligned and writable"):
            donate(array)
