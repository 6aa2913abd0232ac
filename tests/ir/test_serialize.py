"""Files of modules: damaged, hostile and newer ones are refused; nothing is half written."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge.errors import ImportModelError
from forge.ir import Builder, Graph, Module, TensorType
from forge.ir.saved.hashing import fingerprint
from forge.ir.saved.serialize import load, save

some = settings(max_examples=150)


def example() -> Module:
    module = Module(Graph())
    builder = Builder(module.main)
    x = builder.input(TensorType((2, 3), "float32"), "x")
    builder.input(TensorType((3,), "float32"), "weight/é")
    y = builder.call("add", x, builder.constant(np.arange(3, dtype=np.float32), name="bias"), name="node")
    y.name = "y"
    module.main.outputs = [y, builder.constant(np.array(["a", "é"], dtype=object)), x]
    module.params["weight/é"] = np.ones(3, np.float32)
    return module


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save(example(), tmp_path / "m.forge")
    return tmp_path / "m.forge"


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path: Path, contents: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


def test_names_params_and_contents_come_back(saved: Path) -> None:
    module = load(saved)
    assert fingerprint(module) == fingerprint(example())
    assert [v.name for v in module.main.inputs] == ["x", "weight/é"]
    assert [v.name for v in module.main.outputs] == ["y", "", "x"]
    assert module.main.find("add").name == "node"
    assert module.main.find("bias").op == "constant"
    assert module.params["weight/é"].tolist() == [1, 1, 1]


def test_places_come_back(tmp_path: Path) -> None:
    module = example()
    (node,) = [n for n in module.main.nodes if n.op == "add"]
    cases = (("node", ""), ("node", "node"), ("node", "net/block/node"), ("", "net/block/x"), ("node", "*/ /* \n\"é"))
    for node.name, place in cases:
        node.location = place
        save(module, tmp_path / "placed.forge")
        back = load(tmp_path / "placed.forge").main.find("add")
        assert back.location == ("" if place == node.name else place)


def test_equal_modules_give_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save(example(), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_format_is_plain(saved: Path) -> None:
    contents = members(saved)
    assert set(contents) == {"forge.json", "module.relay", "weights.safetensors"}
    assert json.loads(contents["forge.json"])["format_version"] == 2
    assert contents["module.relay"].startswith(b"def @main(")


def test_saving_replaces_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.forge"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(OSError, match="No space"):
        save(example(), path)
    assert [p.name for p in tmp_path.iterdir()] == ["m.forge"]
    assert path.read_text() == "old"


def test_saving_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        save(example(), tmp_path / "none" / "m.forge")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ImportModelError, match=r"m\.forge: no such file"):
        load(tmp_path / "m.forge")


def test_folder_and_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        told = r"is a folder; .*forge\.Runtime opens" if path.is_dir() else "is not a file"
        with pytest.raises(ImportModelError, match=told):
            load(path)


def test_newer_format_is_refused_by_name(saved: Path) -> None:
    contents = members(saved)
    contents["forge.json"] = json.dumps({**json.loads(contents["forge.json"]), "format_version": 3}).encode()
    rewrite(saved, contents)
    with pytest.raises(ImportModelError, match=r"m\.forge: is of format version 3; this Forge reads up to 2; update Forge"):
        load(saved)


def described(**changes: object) -> Callable[[dict[str, bytes]], None]:
    def change(contents: dict[str, bytes]) -> None:
        description = json.loads(contents["forge.json"])
        for key, value in changes.items():
            holder = description["functions"]["main"] if key in ("params", "outputs") else description
            holder[key] = value
            if value == "gone":
                del holder[key]
        contents["forge.json"] = json.dumps(description).encode()

    return change


def replaced(member: str, content: bytes) -> Callable[[dict[str, bytes]], None]:
    return lambda contents: contents.update({member: content})


def removed(member: str) -> Callable[[dict[str, bytes]], None]:
    def change(contents: dict[str, bytes]) -> None:
        del contents[member]

    return change


HUGE_HEADER = struct.pack("<Q", 1 << 62) + b"{}"
LYING_HEADER = (lambda h: struct.pack("<Q", len(h)) + h)(
    b'{"constant.0":{"dtype":"U8","shape":[9999999999],"data_offsets":[0,9999999999]}}'
)


@pytest.mark.parametrize(
    "damage",
    [
        removed("forge.json"), removed("module.relay"), removed("weights.safetensors"), replaced("forge.json", b""),
        replaced("forge.json", b"[]"),
        replaced("forge.json", b"[" * 100_000), replaced("forge.json", b"\xff"), replaced("module.relay", b""),
        replaced("module.relay", b"\xff"),
        replaced("module.relay", b"def @main() { exp() }"), replaced("module.relay", b"def @main(%x: float32) { %x }"),
        replaced("weights.safetensors", b""), replaced("weights.safetensors", HUGE_HEADER),
        replaced("weights.safetensors", LYING_HEADER),
        described(format_version="gone"), described(format_version=0), described(format_version="1"),
        described(format_version=True),
        described(constants="gone"), described(constants=2), described(constants=[["float32", [3]]] * 5),
        described(constants=[["float32", [4]]] * 2),
        described(constants=[["float33", [3]], ["string", [2]]]), described(constants=[["float32", [-3]], ["string", [2]]]),
        described(constants=[[["a"], {}], ["string", [2]]]), described(constants=[["float32"], ["string", [2]]]),
        described(constants=[["float32", [10**40]], ["string", [2]]]), described(constants=[["float32", [3]], ["string", [3]]]),
        described(params="gone"), described(params=[["weight/é", "float32", [4]]]),
        described(params=[["other", "float32", [3]]]), described(params=[[]]),
        described(params=[[["x"], "float32", [3]]]), described(outputs=3), described(outputs="gone"),
    ],
)  # fmt: skip
def test_damaged_contents(saved: Path, damage: Callable[[dict[str, bytes]], None]) -> None:
    contents = members(saved)
    damage(contents)
    rewrite(saved, contents)
    with pytest.raises(ImportModelError, match=r"m\.forge: damaged, or no Forge module"):
        load(saved)


def test_compressed_members_are_refused(saved: Path) -> None:
    rewrite(saved, {**members(saved), "module.relay": b"def @main() { () }" + b" " * 10_000_000}, zipfile.ZIP_DEFLATED)
    with pytest.raises(ImportModelError, match="compressed or larger"):
        load(saved)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_members_are_refused(saved: Path) -> None:
    with zipfile.ZipFile(saved, "a") as archive:
        archive.writestr("module.relay", "def @main() { () }")
    with pytest.raises(ImportModelError, match="occurs twice"):
        load(saved)


def test_declared_sizes_are_not_believed(saved: Path) -> None:
    data = bytearray(saved.read_bytes())
    directory = data.index(b"PK\x01\x02")
    struct.pack_into("<II", data, directory + 20, 0xFFFFFFF0, 0xFFFFFFF0)
    saved.write_bytes(data)
    with pytest.raises(ImportModelError, match="damaged"):
        load(saved)


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\x05\x06" + bytes(18), b"hello" * 100, bytes(1000)])
def test_other_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.forge"
    path.write_bytes(content)
    with pytest.raises(ImportModelError):
        load(path)


@some
@given(st.floats(0, 1))
def test_truncated_files(saved: Path, where: float) -> None:
    data = saved.read_bytes()
    path = saved.with_suffix(".cut")
    path.write_bytes(data[: int(where * (len(data) - 1))])
    with pytest.raises(ImportModelError):
        load(path)


@some
@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4))
def test_flipped_bytes(saved: Path, flips: list[tuple[float, int]]) -> None:
    data = bytearray(saved.read_bytes())
    for where, value in flips:
        data[int(where * len(data))] = value
    path = saved.with_suffix(".flipped")
    path.write_bytes(data)
    try:
        module = load(path)
    except ImportModelError:
        return
    assert fingerprint(module) == fingerprint(example())


@some
@given(
    st.sampled_from(["forge.json", "module.relay", "weights.safetensors"]),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=3),
)
def test_flipped_bytes_with_valid_checksums(saved: Path, member: str, flips: list[tuple[float, int]]) -> None:
    contents = members(saved)
    data = bytearray(contents[member])
    for where, value in flips:
        data[int(where * len(data))] = value
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, bytes(data) if name == member else content)
    path = saved.with_suffix(".flipped")
    path.write_bytes(buffer.getvalue())
    try:
        load(path)
    except ImportModelError:
        return
