"""What LLVM made is kept: once for equal texts, checked on every use, bounded, shared by processes."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forge.codegen import compile as compile_module
from forge.codegen import object_store
from forge.codegen.compile import compile_modules
from forge.codegen.jit import JitLibrary
from forge.codegen.object_store import GROUPS, ObjectStore
from forge.codegen.objects import renamed, symbols
from forge.errors import CompileError, OptionError
from forge.target import Target

TEXT = 'target triple = "x86_64-linux-gnu"\ndefine i32 @f() {\n  ret i32 7\n}\n'
OTHER = TEXT.replace("7", "8")
PLAIN = Target.parse("llvm -mcpu=x86-64")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORGE_CACHE", "objects")
    monkeypatch.setenv("FORGE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "objects"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by the names of the modules that LLVM compiles."""
    names: list[str] = []
    pool = compile_module.shared_pool()
    original = pool.compile

    def noted(jobs: Any, progress: Any = None) -> Any:
        names.extend(name for name, _ in jobs)
        return original(jobs, progress)

    monkeypatch.setattr(pool, "compile", noted)
    return names


def kept(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_equal_texts_are_compiled_once(asked: list[str], folder: Path) -> None:
    steps: list[tuple[int, int]] = []
    first = compile_modules([("a", TEXT), ("b", OTHER), ("c", TEXT)], PLAIN)
    again = compile_modules([("x", OTHER), ("y", TEXT), ("z", TEXT + "\n")], PLAIN, progress=lambda *step: steps.append(step))
    assert asked == ["c", "b", "z"]
    assert first[0] == first[2] != first[1]
    assert again[:2] == [first[1], first[0]]
    assert len(kept(folder)) == 3
    assert steps == [(2, 3), (3, 3)]


def test_kernels_that_differ_in_their_names_only_are_compiled_once(asked: list[str]) -> None:
    def kernel(name: str) -> tuple[str, str]:
        symbol = f'@"forge_kernel_{name}'
        part = f'define internal i32 {symbol}.chunk1"() noinline {{\n  ret i32 7\n}}\n'
        return name, (f'target triple = "x86_64-linux-gnu"\n{part}'
                      f'define i32 {symbol}"() {{\n  %x = call i32 {symbol}.chunk1"()\n  ret i32 %x\n}}\n')

    names = ["k0_add", "k0_add_relu", "k1", "k" * 300]
    codes = compile_modules([kernel(name) for name in names], PLAIN)
    assert len(asked) == 1
    library = JitLibrary(codes, [f"forge_kernel_{name}" for name in names])
    assert len(set(library.addresses.values())) == len(names)
    assert all(ctypes.CFUNCTYPE(ctypes.c_int32)(address)() == 7 for address in library.addresses.values())
    for name, code in zip(names, codes, strict=True):
        assert dict(symbols(code))[f"forge_kernel_{name}"]
        assert renamed(code, "no such symbol", "x") == code


def test_the_key_has_all_that_an_object_depends_on(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    variants: list[tuple[str, str, int]] = [
        (TEXT, "llvm -mcpu=x86-64", 3), (OTHER, "llvm -mcpu=x86-64", 3), (TEXT, "llvm -mcpu=x86-64", 1),
        (TEXT, "llvm -mcpu=x86-64-v3", 3), (TEXT, "llvm -mcpu=x86-64-v3 -mattr=-fma", 3)]
    for text, target, level in variants:
        compile_modules([("m", text)], Target.parse(target), level)
    monkeypatch.setattr(compile_module, "_compiler_identity", lambda: b"another LLVM")
    compile_modules([("m", TEXT)], PLAIN)
    assert len(asked) == len(variants) + 1


def test_a_refused_text_is_not_kept(asked: list[str], folder: Path) -> None:
    for _ in range(2):
        with pytest.raises(CompileError, match=r"(?s)broken: LLVM IR parsing error.*also: LLVM IR parsing error"):
            compile_modules([("fine", TEXT), ("broken", "nonsense"), ("also", "nonsense")], PLAIN)
    assert asked.count("fine") == 1
    assert len(asked) == 3
    assert len(kept(folder)) == 1


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "swap", "folder"])
def test_a_damaged_object_is_compiled_anew(asked: list[str], folder: Path, damage: str) -> None:
    known = compile_modules([("a", TEXT), ("b", OTHER)], PLAIN)
    path, other = kept(folder)
    content = path.read_bytes()
    if damage == "folder":
        path.unlink()
        (path / "x").mkdir(parents=True)
    else:
        path.write_bytes({"flip": content[:99] + bytes([content[99] ^ 1]) + content[100:], "truncate": content[:300],
                          "empty": b"", "swap": other.read_bytes()}[damage])
    for _ in range(2):
        assert compile_modules([("a", TEXT), ("b", OTHER)], PLAIN) == known
    assert len(asked) == (4 if damage == "folder" else 3)


@pytest.mark.parametrize(("setting", "is_kept"), [("0", False), ("1", True), ("objects", True)])
def test_the_setting(asked: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, setting: str, is_kept: bool) -> None:
    monkeypatch.setenv("FORGE_CACHE", setting)
    for _ in range(2):
        compile_modules([("a", TEXT)], PLAIN)
    assert len(asked) == (1 if is_kept else 2)
    assert bool(kept(folder)) == is_kept


def test_a_setting_without_meaning_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_CACHE", "perhaps")
    with pytest.raises(OptionError, match="FORGE_CACHE: got 'perhaps'; expected 0, 1 or objects"):
        compile_modules([("a", TEXT)], PLAIN)


@pytest.mark.parametrize("place", ["file/cache", "/proc/nothing"])
def test_a_folder_that_cannot_be_written_costs_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FORGE_CACHE_DIR", str(tmp_path / place))
    assert compile_modules([("a", TEXT)], PLAIN)[0][:4] == b"\x7fELF"


def test_without_a_home_directory_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("FORGE_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert compile_modules([("a", TEXT)], PLAIN)
    assert object_store.KERNELS.size() == 0


@pytest.fixture
def bounded(tmp_path: Path) -> Callable[[int], ObjectStore]:
    return lambda limit: ObjectStore(lambda: tmp_path / "bounded", lambda: limit)


def test_the_least_recently_used_go_first(bounded: Callable[[int], ObjectStore], tmp_path: Path) -> None:
    store = bounded(GROUPS * 400)
    for number, name in enumerate("abc"):
        store.store("00", name, bytes(100))
        os.utime(tmp_path / "bounded" / "00" / name, (number, number))
    assert store.load("00", "a") == bytes(100), "which counts as use"
    store.store("00", "d", bytes(100))
    assert sorted(p.name for p in kept(tmp_path / "bounded")) == ["a", "c", "d"]
    store.store("01", "b", bytes(100))
    assert len(kept(tmp_path / "bounded")) == 4, "another group has room of its own"


def test_what_is_larger_than_the_limit_is_not_kept(bounded: Callable[[int], ObjectStore], tmp_path: Path) -> None:
    bounded(0).store("00", "a", b"x")
    assert kept(tmp_path / "bounded") == []


def test_writers_and_readers_at_the_same_time(bounded: Callable[[int], ObjectStore]) -> None:
    store, wrong = bounded(GROUPS * 4000), list[object]()

    def work(number: int) -> None:
        for turn in range(60):
            name = f"{(turn + number) % 7}"
            store.store("00", name, name.encode() * 1000)
            found = store.load("00", name)
            if found not in (None, name.encode() * 1000):
                wrong.append((name, found))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert store.size() <= 4000


COMPILER = """
from forge.codegen.compile import compile_modules
from forge.target import Target
import hashlib
texts = [(str(k), 'target triple = "x86_64-linux-gnu"\\ndefine i32 @f() {\\n  ret i32 %d\\n}\\n' % k) for k in range(20)]
codes = compile_modules(texts, Target.parse("llvm -mcpu=x86-64"), 0)
print(hashlib.sha256(b"".join(codes)).hexdigest())
"""


def test_processes_share_it(folder: Path) -> None:
    processes = [subprocess.Popen([sys.executable, "-c", COMPILER], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    results = {process.communicate()[0] for process in processes}
    assert len(results) == 1 and results.pop().strip()
    assert len(kept(folder)) == 20


def test_the_number_of_processes_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_COMPILE_PROCESSES", "3")
    pool = compile_module._pool_of.__wrapped__(0)
    assert pool._size == 3
    monkeypatch.setenv("FORGE_COMPILE_PROCESSES", "many")
    with pytest.raises(OptionError, match="FORGE_COMPILE_PROCESSES: got 'many'; expected a whole number"):
        compile_module._pool_of.__wrapped__(0)
