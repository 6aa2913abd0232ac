"""Files that appear whole or not at all, and what killed processes leave."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forge
from forge import files
from tests.driver.support import files as listed


def test_a_file_appears_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "a"
    with files.replacing(target) as stream:
        stream.write(b"one")
        assert not target.exists()
    assert (target.read_bytes(), listed(tmp_path)) == (b"one", ["a"])


def test_the_mask_of_the_user_holds(tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        with files.replacing(tmp_path / "a") as stream:
            stream.write(b"mine")
    finally:
        os.umask(mask)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_a_writer_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), files.replacing(tmp_path / "a") as stream:
        stream.write(b"new")
        raise KeyboardInterrupt
    assert ((tmp_path / "a").read_bytes(), listed(tmp_path)) == (b"old", ["a"])


def test_errors_name_the_file_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere/a") as caught, files.replacing(tmp_path / "nowhere" / "a"):
        pass
    assert ".forge-" not in str(caught.value)


def test_what_takes_a_place_lies_on_the_disk_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def noted(name: str, original: Callable[..., None], *arguments: Any) -> None:
        calls.append(name)
        original(*arguments)

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, functools.partial(noted, name, getattr(os, name)))
    for _ in range(2):
        with files.replacing(tmp_path / "a") as stream:
            stream.write(b"x")
    assert calls == ["replace", "fsync", "replace"]


KILLED = """
import os, signal, sys
from pathlib import Path
from forge import files
home = Path(sys.argv[1])
with files.temporary_folder(home) as folder, files.replacing(home / "a") as stream:
    (folder / "objects").write_bytes(b"large")
    stream.write(b"half")
    stream.flush()
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_a_killed_process_is_cleaned_up_after(tmp_path: Path) -> None:
    mine = [".forge-notes", ".forge-0123456789abcdeg", "forge-0123456789abcdef"]
    for name in mine:
        (tmp_path / name).write_text("mine")
    writer = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert writer.stdout is not None and writer.stdin is not None
    with writer.stdin, writer.stdout:
        assert writer.stdout.readline() == b"ready\n"
        files.remove_abandoned(tmp_path)
        assert len(listed(tmp_path)) == len(mine) + 3, "what a process holds stays"
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    with files.replacing(tmp_path / "b") as stream:
        stream.write(b"whole")
    assert listed(tmp_path) == sorted([*mine, "b"])


def test_compiling_removes_what_a_killed_compilation_left(digits: forge.IRModule, tmp_path: Path) -> None:
    build = tmp_path / "build"
    for home in (tmp_path, build):
        left = home / ".forge-0123456789abcdef"
        left.mkdir(parents=True)
        (left / "weights.o").write_bytes(b"x")
    digits.compile(output_path=build, force_overwrite=True, opt_level=1)
    assert listed(build) == ["modelLibrary.so"]
    digits.compile(output_path=tmp_path / "other", opt_level=1)
    assert listed(tmp_path) == ["build", "build/modelLibrary.so", "other", "other/modelLibrary.so"]


@pytest.mark.parametrize("write", [
    lambda module, home: module.save(home / "a.forge"), lambda module, home: module.to_onnx(home / "a.onnx")])
def test_saving_removes_what_a_killed_process_left(
    digits: forge.IRModule, tmp_path: Path, write: Callable[[forge.IRModule, Path], None]
) -> None:
    (tmp_path / ".forge-0123456789abcdef").write_bytes(b"half")
    write(digits, tmp_path)
    assert [name[0] for name in listed(tmp_path)] == ["a"]


def test_what_cannot_be_removed_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".forge-0123456789abcdef").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(tmp_path).st_uid + 1)
    files.remove_abandoned(tmp_path)
    files.remove_abandoned(tmp_path / "nowhere")
    assert listed(tmp_path) == [".forge-0123456789abcdef"]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "a").write_text("mine")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".forge-0123456789abcdef").symlink_to(tmp_path / "kept")
    files.remove_abandoned(tmp_path / "home")
    assert (tmp_path / "kept" / "a").exists()


def test_one_at_a_time(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def enter(number: int) -> None:
        for _ in range(20):
            with files.alone_in(tmp_path):
                inside.append(number)
                most.append(len(inside))
                inside.remove(number)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads meet in the middle of everything
    try:
        threads = [threading.Thread(target=enter, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert most == [1] * 160
    assert listed(tmp_path) == []


def test_a_lock_that_its_holder_removes_is_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fstat, removed = os.fstat, []

    def and_remove(handle: int) -> os.stat_result:
        if not removed:
            removed.extend(tmp_path.iterdir())
            removed[0].unlink()
        return fstat(handle)

    monkeypatch.setattr(os, "fstat", and_remove)
    with files.alone_in(tmp_path):
        assert listed(tmp_path) == [".forge-lock"]
    assert (len(removed), listed(tmp_path)) == (1, [])


def test_errors_of_the_last_step_name_the_file_too(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError) as raised, files.replacing(tmp_path / "taken"):
        pass
    assert (raised.value.filename, raised.value.filename2) == (str(tmp_path / "taken"), None)
    assert listed(tmp_path) == ["taken"]
