"""The compile cache: equal results, keys that change with everything that matters, no trust in what lies on the disk."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
import forge_runtime
from forge import files as atomic
from forge.backends import weights
from forge.driver import cache, check_options, compile_module, compiler
from forge.errors import OptionError, TargetError
from forge.ir.saved import hashing
from forge.target import Target
from tests.driver.support import files, pictures


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of compiled models, which is empty."""
    monkeypatch.setenv("FORGE_CACHE", "1")
    monkeypatch.setenv("FORGE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by one entry for each compilation that the cache did not answer."""
    found: list[str] = []
    original = compiler.run_stages

    def counted(compilation: Any, stages: Any, **rest: Any) -> None:
        if any(stage.name == "llvm" for stage in stages):
            found.append(compilation.options.target)
        original(compilation, stages, **rest)

    monkeypatch.setattr(compiler, "run_stages", counted)
    return found


def entry(folder: Path) -> Path:
    (place,) = folder.iterdir()
    return place


def test_a_hit_gives_equal_results(digits: forge.IRModule, compilations: list[str]) -> None:
    cold, cached = compile_module(digits.mod), compile_module(digits.mod)
    assert len(compilations) == 1
    assert cached.lowered is None
    assert cached.objects == cold.objects
    assert (cached.options, cached.summary) == (cold.options, cold.summary)
    assert cached.weights.tobytes() == cold.weights.tobytes()
    x = pictures()
    np.testing.assert_array_equal(cached.runtime()(x), cold.runtime()(x))


def test_weights_are_not_hashed_again(digits: forge.IRModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits.copy().compile(output_path=tmp_path / "cold")
    monkeypatch.setattr(weights.format_, "weights_digest", None)
    digits.copy().compile(output_path=tmp_path / "cached")
    monkeypatch.undo()  # loading compares the digest with the weights
    x = pictures()
    np.testing.assert_array_equal(forge_runtime.Runtime(tmp_path / "cached")(x), forge_runtime.Runtime(tmp_path / "cold")(x))


def test_an_equal_module_hits(digits: forge.IRModule, compilations: list[str]) -> None:
    compile_module(digits.mod)
    compile_module(digits.copy().mod)
    assert len(compilations) == 1


def key_of(module: forge.IRModule, target: str = "llvm", **options: Any) -> str:
    return cache.key(module.mod, check_options(target, **options), "main", hashing.fingerprint(module.mod))


def test_the_key_changes_with_everything_that_matters(digits: forge.IRModule, monkeypatch: pytest.MonkeyPatch) -> None:
    other = digits.copy()
    constant = next(n for n in other.main.nodes if n.op == "constant" and n.result.constant.size > 10)
    constant.attrs = dataclasses.replace(constant.attrs, value=constant.attrs.value * 2)
    renamed = digits.copy()
    renamed.main.inputs[0].name = "picture"
    keys = [
        key_of(digits),
        key_of(digits, opt_level=2),
        cache.key(digits.mod, check_options(), "main", hashing.fingerprint(digits.mod), quick=True),
        key_of(digits, float16=True),
        key_of(digits, channel_layout="first"),
        key_of(digits, "llvm -mcpu=x86-64-v3"),
        key_of(digits, "llvm -mcpu=x86-64-v3 -mattr=-fma"),
        key_of(digits, "llvm -l2-cache=65536"),
        key_of(digits, "llvm -num-cores=7"),
        key_of(other),
        key_of(renamed),
    ]
    monkeypatch.setattr(cache, "_compiler_digest", lambda: "other sources")
    keys.append(key_of(digits))
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(("rows", "node"), [("rows", ""), ("batch", "other")])
def test_names_that_a_model_tells_are_its_own(rows: str, node: str) -> None:
    keys = set()
    for symbol, name in (("batch", ""), (rows, node)):
        module = forge.IRModule(f"def @main(%x: Tensor[({symbol}, 4), float32]) {{ nn.relu(%x) }}")
        next(n for n in module.main.nodes).name = name
        keys.add(key_of(module))
        assert compile_module(module.mod).runtime().symbols == [symbol]
    assert len(keys) == 2


def test_places_that_messages_name_are_part_of_the_key() -> None:
    keys = set()
    for location in ("encoder", "decoder"):
        module = forge.IRModule('def @main(%x: Tensor[(4), float32]) { %0 = call_registered(%x, function="f"); abs(%x) }')
        next(n for n in module.main.nodes).location = location
        keys.add(key_of(module))
    assert len(keys) == 2


def test_a_refused_system_leaves_nothing(digits: forge.IRModule, folder: Path) -> None:
    compile_module(digits.mod, check_options(opt_level=1))
    known = files(folder)
    for _ in range(2):
        with pytest.raises(TargetError, match="no linker"):
            compile_module(digits.mod, check_options("llvm -mtriple=x86_64-pc-windows-msvc", opt_level=1))
        compile_module(digits.mod, check_options(opt_level=1))
    assert files(folder) == known


def test_the_digest_covers_the_compiler(tmp_path: Path) -> None:
    for name in ("codegen/emit.py", "kernels/cpu/dense.py", "cli/run.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    digests = [cache._source_digest(tmp_path)]
    (tmp_path / "kernels" / "cpu" / "dense.py").write_text("x = 2\n")
    digests.append(cache._source_digest(tmp_path))
    (tmp_path / "codegen" / "emit.py").rename(tmp_path / "codegen" / "other.py")
    digests.append(cache._source_digest(tmp_path))
    assert len(set(digests)) == 3
    (tmp_path / "cli" / "run.py").write_text("x = 3\n")
    assert cache._source_digest(tmp_path) == digests[-1]


@pytest.mark.parametrize("name", ["objects.bin", "weights.bin", "index.json"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "remove"])
def test_a_damaged_entry_is_thrown_away(
    digits: forge.IRModule, folder: Path, compilations: list[str], name: str, damage: str, template: Path
) -> None:
    shutil.copytree(template, folder)
    path = entry(folder) / name
    content = path.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes({"flip": flipped, "truncate": content[:middle], "empty": b""}[damage])
    key = entry(folder).name
    assert cache.load(key, Target.parse("llvm"), hashing.identify(digits.mod).arrays) is None
    assert files(folder) == []


@pytest.fixture(scope="module")
def template(digits: forge.IRModule, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with one sound entry, to be copied."""
    home = tmp_path_factory.mktemp("cache") / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORGE_CACHE", "1")
        patch.setenv("FORGE_CACHE_DIR", str(home))
        compile_module(digits.mod)
    return home / "models"


@pytest.mark.parametrize("index", [
    b"[]", b"{}", b'{"content": 3}', b"nonsense", b'{"content": {}, "sha256": ""}', b"\xff\xfe\0", b"null", b'"content"',
    b'{"content": null, "sha256": "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"}',
    pytest.param(b"[" * 200_000, id="deep")])
def test_an_index_of_another_form_is_thrown_away(digits: forge.IRModule, folder: Path, template: Path, index: bytes) -> None:
    shutil.copytree(template, folder)
    (entry(folder) / "index.json").write_bytes(index)
    assert cache.load(entry(folder).name, Target.parse("llvm"), hashing.identify(digits.mod).arrays) is None
    assert files(folder) == []


@pytest.mark.parametrize("damage", ["index.json", "objects.bin", "weights.bin", "empty", "file", "link"])
def test_a_damaged_entry_is_repaired(folder: Path, compilations: list[str], damage: str) -> None:
    compile_module(tiny(0).mod)
    place = entry(folder)
    if damage in ("empty", "file", "link"):
        shutil.rmtree(place)
    if damage == "empty":
        place.mkdir()
    elif damage == "file":
        place.write_text("no folder")
    elif damage == "link":
        place.symlink_to("nowhere")
    else:
        (place / damage).unlink()
    for _ in range(2):
        compile_module(tiny(0).mod)
    assert len(compilations) == 2
    assert files(place) == ["index.json", "objects.bin", "weights.bin"]


@pytest.mark.parametrize("sound", [True, False])
def test_storing_what_another_process_stored_meanwhile(folder: Path, sound: bool) -> None:
    compiled = compile_module(tiny(0).mod)
    place = entry(folder)
    if not sound:
        (place / "objects.bin").write_bytes(b"")
    kept = place.stat().st_ino
    cache.store(place.name, compiled, {})
    assert (place.stat().st_ino == kept) == sound
    assert cache.load(place.name, compiled.target, {}) is not None
    assert files(folder) == [place.name, *(f"{place.name}/{name}" for name in ("index.json", "objects.bin", "weights.bin"))]


def test_off(digits: forge.IRModule, folder: Path, monkeypatch: pytest.MonkeyPatch, compilations: list[str]) -> None:
    monkeypatch.setenv("FORGE_CACHE", "0")
    compile_module(digits.mod, check_options(opt_level=1))
    monkeypatch.setenv("FORGE_CACHE", "1")
    compile_module(digits.mod, check_options(opt_level=1), use_cache=False)
    assert not folder.exists()
    assert len(compilations) == 2
    monkeypatch.setenv("FORGE_CACHE", "maybe")
    with pytest.raises(OptionError, match="FORGE_CACHE: got 'maybe'; expected 0, 1 or objects"):
        compile_module(digits.mod)


def test_a_cache_that_cannot_be_written(digits: forge.IRModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FORGE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert compile_module(digits.mod, check_options(opt_level=1)).kernels


def test_without_a_home_directory_the_error_says_what_to_set(digits: forge.IRModule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORGE_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(OptionError, match="FORGE_CACHE_DIR"):
        compile_module(digits.mod)


def tiny(number: int) -> forge.IRModule:
    return forge.IRModule(f"def @main(%x: Tensor[(4,), float32]) {{ add(%x, {number}f) }}")


def test_the_least_recently_used_go_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        compile_module(tiny(number).mod)
        os.utime(cache.entries()[0][0], (number, number))
    oldest = cache.entries()[-1][0]
    compile_module(tiny(0).mod)
    assert cache.entries()[0][0] == oldest, "a hit counts as use"
    sizes = [size for _, size in cache.entries()]
    monkeypatch.setattr(cache.knobs, "CACHE_LIMIT", _Limit(sum(sizes[:2])))
    kept = [place for place, _ in cache.entries()[:2]]
    cache._trim()
    assert [place for place, _ in cache.entries()] == kept


class _Limit:
    """A limit in bytes where the knob has MiB."""

    def __init__(self, size: int) -> None:
        self.size = size

    @property
    def number(self) -> _Limit:
        return self

    def __lshift__(self, bits: int) -> int:
        return self.size


def test_a_limit_of_nothing_keeps_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_CACHE_LIMIT_MB", "0")
    compile_module(tiny(0).mod)
    assert files(folder) == []


def test_what_a_killed_writer_left_goes(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with atomic.temporary_folder(folder) as held:
        left = folder / ".forge-0123456789abcdef"
        left.mkdir()
        (left / "weights.bin").write_bytes(b"x")
        assert cache.entries() == []
        compile_module(tiny(0).mod)
        assert held.exists()
        assert not left.exists()


def test_clear(folder: Path) -> None:
    compile_module(tiny(0).mod)
    compile_module(tiny(1).mod)
    assert cache.clear() > 0
    assert files(folder) == []
    assert cache.clear() == 0


WRITER = """
import forge
import forge_runtime
from forge import files as atomic
from forge.driver import compile_module
module = forge.IRModule("def @main(%x: Tensor[(4,), float32]) { add(%x, 5f) }")
print(compile_module(module.mod).runtime()(__import__("numpy").zeros(4, "float32"))[0])
"""


def test_writers_at_the_same_time(folder: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [w.communicate()[0].strip() for w in writers] == ["5.0"] * 3
    assert len(cache.entries()) == 1
    assert not list(folder.glob(".forge-*"))
    assert cache.load(entry(folder).name, Target.parse("llvm"), {}) is not None


def test_the_index_is_json(folder: Path) -> None:
    compile_module(tiny(0).mod)
    content = json.loads((entry(folder) / "index.json").read_text())["content"]
    assert content["options"]["opt_level"] == 3
