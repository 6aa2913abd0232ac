"""``.pt2`` files, read without torch; what is damaged or hostile is refused at once."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forge.errors import ImportModelError, OpNotImplemented
from forge.frontends.torch import import_model, model_operators
from forge.frontends.torch.archive import read_program
from forge.ir.functions.reference import Reference
from forge.ir.saved.hashing import structural_hash
from tests.frontends.torch.archives import CONSTANTS, MODEL, NETWORK, WEIGHTS, edited, entries, packed

DATA = NETWORK.read_bytes()
WEIGHT = "data/weights/weight_0"


def refused(folder: Path, data: bytes, match: str) -> None:
    path = folder / "model.pt2"
    path.write_bytes(data)
    with pytest.raises(ImportModelError, match=match):
        import_model(path)


def with_entry(name: str, data: bytes | None) -> bytes:
    contents = {n: d for n, d in entries(DATA).items() if n != name}
    return packed(contents if data is None else {**contents, name: data})


def graph(document: Any) -> Any:
    return document["graph_module"]["graph"]


def test_a_file_is_a_module() -> None:
    module = import_model(NETWORK)
    (x,) = (i for i in module.main.inputs if i.name not in module.main.states)
    assert (x.dtype, len(x.shape)) == ("float32", 2)
    value = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    y, first, *_ = Reference(module)(value)
    expected = np.maximum(value @ (np.arange(12, dtype=np.float32).reshape(3, 4) / 4).T, 0)
    np.testing.assert_allclose(y, expected + 1, rtol=1e-6)
    np.testing.assert_allclose(first, expected[:, :2] * 2, rtol=1e-6)
    assert module.main.output_names[:2] == ["y", "first"]
    assert list(module.main.states) == ["calls"]


def test_torch_is_not_imported() -> None:
    read = f"from forge.frontends.torch import import_model; import_model({str(NETWORK)!r})"
    code = f"import sys; {read}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_weights_are_views_of_the_file() -> None:
    array = read_program(NETWORK).weights["p_weight"].read()
    assert not array.flags.owndata
    assert not array.flags.writeable
    np.testing.assert_array_equal(array, np.arange(12, dtype=np.float32).reshape(3, 4) / 4)


def test_steps_know_where_they_come_from() -> None:
    program = read_program(NETWORK)
    (step,) = (step for step in program.steps if step.target == "aten.linear.default")
    assert step.source == "network.py:24: y = linear(x, self.weight)"
    assert {use.op for use in model_operators(NETWORK)} >= {"linear.default", "add_.Tensor", "relu_.default"}


def test_archives_of_other_writers_are_read(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(packed(entries(DATA)))
    assert structural_hash(import_model(path)) == structural_hash(import_model(NETWORK))


def long_archive(data: bytes) -> bytes:
    """The archive with a directory for more than 4 GiB."""
    end = data.rindex(b"PK\5\6")
    *_, count, size, start, _comment = struct.unpack("<4s4H2LH", data[end : end + 22])
    directory = b""
    position = start
    while position < start + size:
        fields = list(struct.unpack_from("<4s6H3L5H2L", data, position))
        name_size, extra_size, comment_size = fields[10:13]
        name = data[position + 46 : position + 46 + name_size]
        long = struct.pack("<2H3Q", 1, 24, fields[9], fields[8], fields[16])
        fields[8] = fields[9] = fields[16] = 0xFFFFFFFF
        fields[11:13] = len(long), 0
        directory += struct.pack("<4s6H3L5H2L", *fields) + name + long
        position += 46 + name_size + extra_size + comment_size
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(directory), start)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, start + len(directory), 1)
    short = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return data[:start] + directory + end64 + locator + short


def test_long_archives(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(long_archive(DATA))
    assert structural_hash(import_model(path)) == structural_hash(import_model(NETWORK))


def test_files_of_other_kinds(tmp_path: Path) -> None:
    refused(tmp_path, b"", "not a zip archive; expected a .pt2 file")
    refused(tmp_path, b"\x80\x02}", "pickle, which Forge never loads")
    refused(tmp_path, packed({"data.pkl": b"x"}), "a PyTorch checkpoint; .*weights without a program")
    refused(tmp_path, packed({"m/constants.pkl": b"x", "m/code/a.py": b"x"}), "a TorchScript archive; .*torch.jit.load")
    refused(tmp_path, packed({"serialized_exported_program.json": b"{}"}), "pickled weights, which Forge never loads")
    refused(tmp_path, with_entry("data/weights/model.pt", b"x"), "pickled weights, which Forge never loads")
    refused(tmp_path, packed({"data/aotinductor/model/a.so": b""}), "AOTInductor")
    refused(tmp_path, packed({**entries(DATA), "models/b.json": b"{}"}), r"holds 2 programs \(b, model\)")
    refused(tmp_path, with_entry("archive_format", b"pt3"), "archive_format: got b'pt3'")
    refused(tmp_path, with_entry("byteorder", b"big"), "byteorder: got b'big'; expected b'little'")
    with pytest.raises(ImportModelError, match="no such file"):
        import_model(tmp_path / "missing.pt2")
    with pytest.raises(ImportModelError, match="is a folder"):
        import_model(tmp_path)


def test_damaged_archives(tmp_path: Path) -> None:
    refused(tmp_path, DATA[:-30], "no end of a zip archive")
    refused(tmp_path, DATA[: len(DATA) // 2], "no end of a zip archive")
    refused(tmp_path, DATA + b"more", "no end of a zip archive")
    refused(tmp_path, DATA.replace(b'"as_int": 1', b'"as_int": 2'), "its checksum differs")
    refused(tmp_path, with_entry(WEIGHT, None), "has no entry 'data/weights/weight_0'")
    refused(tmp_path, with_entry(WEIGHTS, None), "has no entry")
    refused(tmp_path, with_entry(CONSTANTS, None), "has no entry")
    refused(tmp_path, with_entry(f" {WEIGHT}", b"x" * 48), "is there twice")
    refused(tmp_path, with_entry(WEIGHT, b"x" * 47), "got 47 bytes; float32.* needs 48")
    refused(tmp_path, packed(entries(DATA), 8), "is compressed or encrypted")


def test_entries_that_overlap_or_leave_the_file(tmp_path: Path) -> None:
    def changed(field: int, value: Callable[[int], int]) -> bytes:
        """The second entry of the directory with another number."""
        data = bytearray(packed(entries(DATA)))
        (start,) = struct.unpack_from("<L", data, len(data) - 6)
        position = data.index(b"PK\1\2", start + 4)
        fields = list(struct.unpack_from("<4s6H3L5H2L", data, position))
        for index in (8, 9) if field == 8 else (field,):
            fields[index] = value(fields[index])
        struct.pack_into("<4s6H3L5H2L", data, position, *fields)
        return bytes(data)

    refused(tmp_path, changed(16, lambda at: 0), "overlaps another")
    refused(tmp_path, changed(16, lambda at: at + 1), "got b'.*'; expected b'PK")
    refused(tmp_path, changed(16, lambda at: 0x7FFFFFFF), "outside of the file")
    refused(tmp_path, changed(16, lambda at: 0xFFFFFFFF), "lacks its sizes")
    refused(tmp_path, changed(8, lambda size: size + 200), "overlaps another")
    refused(tmp_path, changed(8, lambda size: 0x7FFFFFFF), "reach out of the archive")
    refused(tmp_path, changed(10, lambda size: 0xFFFF), "reaches out of the directory")


Edit = Callable[[Any], Any]


def payload(document: Any, label: str = "weight") -> Any:
    return document["config"][label]


def weight(**changes: Any) -> Edit:
    return lambda document: payload(document).update(changes)


def meta(**changes: Any) -> Edit:
    return lambda document: payload(document)["tensor_meta"].update(changes)


def sizes(*values: int) -> list[dict[str, int]]:
    return [{"as_int": value} for value in values]


WEIGHT_EDITS: dict[str, tuple[Edit, str]] = {
    "pickled": (weight(use_pickle=True), "is pickled .*Forge loads no pickles"),
    "absent": (lambda d: d["config"].pop("weight"), "the archive has no data of it"),
    "elsewhere": (weight(path_name="../../models/model.json"), "has no entry"),
    "huge": (meta(sizes=sizes(2**62, 2**62)), "got 48 bytes; .* needs"),
    "repeated": (meta(sizes=sizes(2**40, 2**40), strides=sizes(0, 0)), "stand for 48 in the file"),
    "negative": (meta(strides=sizes(-4, 1)), "a number that is not negative"),
    "symbolic": (meta(sizes=[{"as_expr": {"expr_str": "Symbol('s')"}}, {"as_int": 4}]), "a number that is not negative"),
    "behind": (meta(storage_offset={"as_int": 1}), "needs 52"),
    "ranks": (meta(strides=[]), "2 of them, as there are sizes"),
    "many axes": (meta(sizes=sizes(*[1] * 100), strides=sizes(*[1] * 100)), "is not an array"),
    "sparse": (meta(layout=1), "7, a dense tensor"),
    "element type": (meta(dtype=99), "unknown dtype"),
    "other type": (meta(dtype=4), "weight 'weight' is int32.* as the graph says"),
    "half complex": (meta(dtype=9), "got complex32"),
    "no meta": (weight(tensor_meta=None), "expected an object with 'layout'"),
}


@pytest.mark.parametrize("name", WEIGHT_EDITS)
def test_hostile_weights(name: str, tmp_path: Path) -> None:
    edit, match = WEIGHT_EDITS[name]
    refused(tmp_path, edited(DATA, edit, WEIGHTS), match)


def test_truth_values_are_0_and_1(tmp_path: Path) -> None:
    def as_bool(document: Any) -> None:
        payload(document, "calls")["tensor_meta"]["dtype"] = 12

    contents = entries(edited(DATA, as_bool, WEIGHTS))
    refused(tmp_path, packed({**contents, "data/weights/weight_1": b"\2\0\0\0"}), "bytes other than 0 and 1")


def nested(depth: int) -> Any:
    inner: Any = {"nodes": [], "inputs": [], "outputs": [], "tensor_values": {}, "sym_int_values": {}, "sym_bool_values": {}}
    for _ in range(depth):
        node: dict[str, Any] = {"target": "torch.ops.higher_order.cond", "outputs": [], "metadata": {}, "name": "c"}
        node["inputs"] = [{"name": "", "kind": 1, "arg": {"as_graph": {"name": "g", "graph": inner}}}]
        inner = {**inner, "nodes": [node]}
    return inner["nodes"][0]


def argument(position: int, value: Any) -> Edit:
    """Of the last node."""
    return lambda document: graph(document)["nodes"][-1]["inputs"][position].update(arg=value)


def rows(value: Any) -> Edit:
    """The first size of the input."""
    return lambda document: graph(document)["tensor_values"]["x"]["sizes"].__setitem__(0, value)


def signature(kind: str, position: int, value: Any) -> Edit:
    return lambda document: document["graph_module"]["signature"][kind].__setitem__(position, value)


def returned(tree: Any) -> Edit:
    return lambda document: document["graph_module"]["module_call_graph"][0]["signature"].update(out_spec=json.dumps(tree))


def deep_tree(depth: int) -> list[Any]:
    tree: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    for _ in range(depth):
        tree = {"type": "builtins.tuple", "context": "null", "children_spec": [tree]}
    return [1, tree]


TENSOR = {"arg": {"name": "y"}}
MODEL_EDITS: dict[str, tuple[Edit, str]] = {
    "version": (lambda d: d["schema_version"].update(major=9), r"schema_version.major: got 9; expected 8"),
    "no graph": (lambda d: d["graph_module"].pop("graph"), "graph_module: got dict; expected an object with 'graph'"),
    "no types": (lambda d: graph(d)["tensor_values"].clear(), "the graph says"),
    "twice": (lambda d: graph(d)["nodes"].append(graph(d)["nodes"][-1]), "is defined already"),
    "undefined": (argument(0, {"as_tensor": {"name": "z"}}), "'z'.*nothing defines it"),
    "two kinds": (argument(0, {"as_int": 1, "as_bool": True}), "an object with one field"),
    "kind": (argument(0, {"as_custom_obj": {}}), "which as_custom_obj is not"),
    "number": (argument(1, {"as_int": 2**70}), "an integer of 64 bits"),
    "truth": (argument(1, {"as_bool": 1}), "true or false"),
    "expression": (rows({"as_expr": {"expr_str": "__import__('os')"}}), "expected integers"),
    "negative": (rows({"as_int": -1}), "a size that is not negative"),
    "graphs": (lambda d: graph(d)["nodes"].append(nested(100)), "nested more than 64 deep"),
    "count": (lambda d: d["graph_module"]["signature"]["output_specs"].pop(), "output_specs.*as the graph has outputs"),
    "token": (signature("output_specs", -1, {"token": TENSOR}), "expected 1 outputs, and not 2"),
    "gradient": (signature("output_specs", -1, {"gradient_to_parameter": TENSOR}), "got gradient_to_parameter; expected results"),
    "mutation": (signature("output_specs", -1, {"buffer_mutation": {**TENSOR, "buffer_name": "no"}}), "an input, a buffer or a"),
    "object": (signature("input_specs", 0, {"custom_obj": {}}), "got custom_obj; expected inputs that are tensors"),
    "labels": (returned([1, None]), "children_spec"),
    "leaves": (returned(deep_tree(1)), "2 outputs, and not 1"),
    "tree": (returned(deep_tree(100)), "a tree of at most 64 levels"),
    "calls": (lambda d: d["graph_module"].update(module_call_graph=[]), "the call of the model itself"),
}


@pytest.mark.parametrize("name", MODEL_EDITS)
def test_hostile_programs(name: str, tmp_path: Path) -> None:
    edit, match = MODEL_EDITS[name]
    refused(tmp_path, edited(DATA, edit), match)


@pytest.mark.parametrize("text, match", [
    (b"[" * 100_000, "nested too deeply"),
    (b'{"a": NaN}', "NaN is not a number"),
    (b'{"a": 1, "a": 2}', "the key 'a' is there twice"),
    (b'{"a": %s}' % (b"9" * 5000), "got no JSON"),
    (b"\xff", "got no JSON"),
    (b"3", "an object with 'schema_version'"),
])  # fmt: skip
def test_hostile_json(text: bytes, match: str, tmp_path: Path) -> None:
    refused(tmp_path, with_entry(MODEL, text), match)


def test_giant_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forge.frontends.torch.archive.MAX_JSON_BYTES", 1000)
    refused(tmp_path, DATA, "expected at most 1000")


def test_operators_without_converters_are_listed_with_their_lines(tmp_path: Path) -> None:
    def rename(document: Any) -> None:
        for node in graph(document)["nodes"]:
            if "linear" in node["target"] or "relu" in node["target"]:
                node["target"] = node["target"].replace("aten.linear", "aten.knit").replace("aten.relu_", "aten.purl_")

    path = tmp_path / "model.pt2"
    path.write_bytes(edited(DATA, rename))
    with pytest.raises(OpNotImplemented) as caught:
        import_model(path)
    message = str(caught.value)
    assert "2 operators are not supported" in message
    assert "knit.default" in message and "network.py:24: y = linear(x, self.weight)" in message
    assert "purl_.default" in message and "network.py:25: y.relu_()" in message
    assert "run_decompositions()" in message
