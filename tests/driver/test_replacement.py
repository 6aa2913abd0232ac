"""Taking the place of an artifact: whoever loads it, and whatever ends the process, there is the old one or the new one."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import forge
from forge.driver import replacement
from forge.files import temporary_folder
from forge_runtime import artifact as loading
from forge_runtime import encryption
from tests.driver.support import files

KINDS = ("plain", "large", "encrypted")
PASSWORD = "secret"
STEPS = ("replace", "unlink", "mkdir", "fsync")
"""Calls of ``os`` before which a process is killed or interrupted."""


@pytest.fixture(scope="module")
def store(digits: forge.IRModule, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts to be copied: of each kind an old one and a new one."""
    home = tmp_path_factory.mktemp("artifacts")
    quick = functools.partial(encryption.encrypt_file, log2_cost=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORGE_CACHE", "1")
        patch.setenv("FORGE_CACHE_DIR", str(home / "cache"))
        patch.setattr(encryption, "encrypt_file", quick)
        for kind in KINDS:
            password = PASSWORD if kind == "encrypted" else None
            for age in ("old", "new"):
                module = digits.copy()
                if age == "new":  # other weights, which so lie in a file of another name
                    node = next(n for n in module.main.nodes if n.op == "constant" and n.result.constant.size > 10)
                    node.attrs = type(node.attrs)(node.attrs.value * 2)
                module.compile(output_path=home / kind / age, encrypt_password=password, uuid=f"{kind} {age}", opt_level=1,
                               weights="beside" if kind == "large" else None, export_relay=age == "old", export_metadata=True)
    return home


@pytest.fixture
def final(tmp_path: Path) -> Path:
    return tmp_path / "build"


def loaded(final: Path) -> str:
    """The model's identity; what stands next to the library must say the same, where it is there."""
    encrypted = (final / "modelLibrary.so").read_bytes().startswith(encryption.MAGIC)
    runtime = forge.Runtime(final, password=PASSWORD, key=final / "modelLibrary.key") if encrypted else forge.Runtime(final)
    try:
        described = json.loads((final / "metadata.json").read_text())["uuid"]
    except FileNotFoundError:
        return runtime.model_id
    assert described == runtime.model_id
    return runtime.model_id


def put(source: Path, final: Path) -> None:
    """Replaces ``final`` by a copy of ``source``."""
    with temporary_folder(final) as work:
        shutil.copytree(source, work, dirs_exist_ok=True)
        replacement.replace(work, final)


def before(number: int, act: Callable[[], Any], patch: pytest.MonkeyPatch) -> list[str]:
    """Calls ``act`` before the call of that number among ``STEPS``; returns the names of the calls, which grow."""
    calls: list[str] = []

    def counted(name: str, original: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        calls.append(name)
        if len(calls) == number + 1:
            act()
        return original(*arguments, **named)

    for name in STEPS:
        patch.setattr(os, name, functools.partial(counted, name, getattr(os, name)))
    return calls


def killed_before(number: int, source: Path, final: Path) -> bool:
    """Replaces in a process that ends in the middle; whether it came so far."""
    child = os.fork()
    if child == 0:
        try:
            before(number, lambda: os.kill(os.getpid(), signal.SIGKILL), pytest.MonkeyPatch())
            put(source, final)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize(("first", "second"), [(k, k) for k in KINDS] + [("plain", "encrypted"), ("encrypted", "large")])
def test_a_killed_process_leaves_the_old_or_the_new(store: Path, final: Path, first: str, second: str) -> None:
    old, new = store / first / "old", store / second / "new"
    seen = []
    while True:
        shutil.rmtree(final, ignore_errors=True)
        shutil.copytree(old, final)
        (final / "notes.txt").write_text("mine")
        if not killed_before(len(seen), new, final):
            break
        seen.append(loaded(final))
        put(new, final)
        assert files(final) == sorted([*files(new), "notes.txt"]), "nothing of the killed process is left"
        assert loaded(final) == f"{second} new"
    assert seen == sorted(seen, key=[f"{first} old", f"{second} new"].index)
    assert len(set(seen)) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_process_leaves_the_old_or_the_new(
    store: Path, final: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    seen = []
    for number in range(1000):
        shutil.rmtree(final, ignore_errors=True)
        shutil.copytree(store / kind / "old", final)
        known = {name: (final / name).read_bytes() for name in files(final)}
        with monkeypatch.context() as patch:
            before(number, interrupt, patch)
            try:
                put(store / kind / "new", final)
                break
            except KeyboardInterrupt:
                pass
        seen.append(loaded(final))
        assert seen[-1] == f"{kind} new" or {name: (final / name).read_bytes() for name in files(final)} == known
    assert set(seen) == {f"{kind} old", f"{kind} new"}


@pytest.mark.parametrize("kind", KINDS)
def test_it_can_be_loaded_after_every_step(store: Path, final: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(store / kind / "old", final)
    seen = []
    for name in STEPS:
        def then_load(original: Callable[..., Any], *arguments: Any, **named: Any) -> None:
            original(*arguments, **named)
            seen.append(loaded(final))

        monkeypatch.setattr(os, name, functools.partial(then_load, getattr(os, name)))
    put(store / kind / "new", final)
    assert set(seen) == {f"{kind} old", f"{kind} new"}


@pytest.mark.parametrize("kind", KINDS)
def test_loading_while_it_is_replaced(store: Path, final: Path, kind: str) -> None:
    shutil.copytree(store / kind / "old", final)
    errors: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        try:
            while not stop.is_set():
                key = {"password": PASSWORD, "key": final / "modelLibrary.key"} if kind == "encrypted" else {}
                assert forge.Runtime(final, **key).model_id in (f"{kind} old", f"{kind} new")
        except BaseException as error:  # noqa: BLE001 - told by the test
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for age in ("new", "old") * 10:
        put(store / kind / age, final)
    stop.set()
    reader.join()
    assert errors == []


@pytest.mark.parametrize(("kind", "module", "step"), [
    ("large", loading, "open_weights"), ("encrypted", encryption, "_unwrap_key")])
def test_what_is_replaced_while_it_is_loaded_is_loaded_again(
    store: Path, final: Path, kind: str, module: Any, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(store / kind / "old", final)
    original, replaced = getattr(module, step), []

    def meanwhile(*arguments: Any) -> Any:
        if not replaced:
            replaced.append(step)
            put(store / kind / "new", final)
        return original(*arguments)

    monkeypatch.setattr(module, step, meanwhile)
    assert loaded(final) == f"{kind} new"


def test_writers_take_turns(store: Path, final: Path) -> None:
    shutil.copytree(store / "encrypted" / "old", final)
    writers = [threading.Thread(target=put, args=(store / "encrypted" / age, final)) for age in ("new", "old") * 4]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert loaded(final) in ("encrypted old", "encrypted new")
    assert files(final) in (files(store / "encrypted" / "old"), files(store / "encrypted" / "new"))


@pytest.fixture(autouse=True)
def nothing_is_left(final: Path) -> Iterator[None]:
    yield
    assert [name for name in files(final) if name.startswith(".forge-")] == []
