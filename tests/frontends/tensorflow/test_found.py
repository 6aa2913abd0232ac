"""What files by others showed: forms that TensorFlow's own exporters of today do not write."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import forge
from forge.errors import ImportModelError
from forge.frontends.tensorflow.bundle import Bundle
from forge.frontends.tensorflow.messages import message_of
from forge.frontends.tensorflow.packing import decompressed


def node(name: str, op: str, *inputs: str, **attributes: str) -> str:
    given = "".join(f' input: "{text}"' for text in inputs)
    found = "".join(f' attr {{ key: "{key}" value {{ {value} }} }}' for key, value in attributes.items())
    return f'node {{ name: "{name}" op: "{op}"{given}{found} }}\n'


def typed(name: str, op: str, *inputs: str, **attributes: str) -> str:
    return node(name, op, *inputs, T="type: DT_FLOAT", **attributes)


def placeholder(name: str, shape: str = "", dtype: str = "DT_FLOAT") -> str:
    return node(name, "Placeholder", dtype=f"type: {dtype}", **({"shape": f"shape {{ {shape} }}"} if shape else {}))


def constant(name: str, dtype: str, values: str) -> str:
    return node(name, "Const", dtype=f"type: {dtype}", value=f"tensor {{ dtype: {dtype} {values} }}")


def signature(name: str, inputs: dict[str, tuple[str, str]], outputs: dict[str, str]) -> str:
    """``inputs``: by name, the tensor and its sizes."""
    sides = "".join(
        f' inputs {{ key: "{key}" value {{ name: "{ref}" dtype: DT_FLOAT tensor_shape {{ {sizes} }} }} }}'
        for key, (ref, sizes) in inputs.items())
    sides += "".join(f' outputs {{ key: "{key}" value {{ name: "{ref}" dtype: DT_FLOAT }} }}' for key, ref in outputs.items())
    return f'signature_def {{ key: "{name}" value {{{sides} }} }}\n'


def graph(folder: Path, text: str, producer: int = 1000) -> Path:
    path = folder / "graph.pbtxt"
    path.write_text(f"{text} versions {{ producer: {producer} }}")
    return path


def saved(folder: Path, nodes: str, *signatures: str) -> Path:
    (folder / "saved_model.pbtxt").write_text(
        f'meta_graphs {{ meta_info_def {{ tags: "serve" }} graph_def {{ {nodes} versions {{ producer: 1000 }} }}\n'
        f"{''.join(signatures)} }}")
    return folder


def results(model: Path, *inputs: np.ndarray, **options: object) -> np.ndarray:
    return np.asarray(forge.from_tensorflow(model, **options).get_inference_function()(*inputs))  # type: ignore[arg-type]


SIZES = "dim { size: 3 }"
SCALAR = node("x", "Placeholder", dtype="type: DT_FLOAT", shape="shape { }")
X = np.array([1, -2, 3], np.float32)


class TestPlaceholders:
    """Up to version 21 of graphs, rank 0 meant a rank that is not known."""

    @pytest.mark.parametrize("producer", [0, 21])
    def test_rank_is_not_known(self, tmp_path: Path, producer: int) -> None:
        path = graph(tmp_path, SCALAR + typed("y", "Neg", "x"), producer)
        with pytest.raises(ImportModelError, match="rank is not known"):
            forge.from_tensorflow(path)
        np.testing.assert_array_equal(results(path, X, shape={"x": (3,)}), -X)

    def test_rank_is_0(self, tmp_path: Path) -> None:
        path = graph(tmp_path, SCALAR + typed("y", "Neg", "x"), 22)
        assert results(path, np.array(2, np.float32)).shape == ()

    def test_graph_knows_more_than_the_signature(self, tmp_path: Path) -> None:
        nodes = placeholder("x", SIZES) + typed("y", "Neg", "x")
        model = saved(tmp_path, nodes, signature("f", {"x": ("x:0", "")}, {"y": "y:0"}))
        np.testing.assert_array_equal(results(model, X), -X)

    def test_signature_says_rank_0_of_a_computed_node(self, tmp_path: Path) -> None:
        nodes = node("text", "Placeholder", dtype="type: DT_STRING") + node("parsed", "ParseExample", "text")
        nodes += typed("x", "Identity", "parsed") + typed("y", "Neg", "x")
        model = saved(tmp_path, nodes, signature("f", {"x": ("x:0", "")}, {"y": "y:0"}))
        np.testing.assert_array_equal(results(model, X, shape={"x": (3,)}), -X)


class TestSignatures:
    """Estimators export some that parse texts; theirs are refused, and the others load without them."""

    NODES = placeholder("a", "unknown_rank: true") + typed("y", "Neg", "a") + placeholder("b", "unknown_rank: true")
    NODES += typed("z", "Abs", "b") + node("text", "Placeholder", dtype="type: DT_STRING")
    NODES += node("parsed", "ParseExample", "text")
    FIRST = signature("serving_default", {"x": ("a:0", "unknown_rank: true")}, {"y": "y:0"})

    def test_shapes_are_those_of_all(self, tmp_path: Path) -> None:
        model = saved(tmp_path, self.NODES, self.FIRST, signature("g", {"delta": ("b:0", "unknown_rank: true")}, {"z": "z:0"}))
        run = forge.from_tensorflow(model, shape={"x": (3,), "delta": (2,)}).get_inference_function()
        np.testing.assert_array_equal(run(X), -X)
        np.testing.assert_array_equal(run["g"](X[:2]), abs(X[:2]))  # type: ignore[index]

    def test_unknown_names_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ImportModelError, match="nothing"):
            forge.from_tensorflow(saved(tmp_path, self.NODES, self.FIRST), shape={"x": (3,), "nothing": (2,)})

    def test_others_need_what_is_missing(self, tmp_path: Path) -> None:
        parsing = signature("classify", {"inputs": ("b:0", "unknown_rank: true")}, {"scores": "parsed:0"})
        model = saved(tmp_path, self.NODES, self.FIRST, parsing)
        with pytest.raises(forge.OpNotImplemented, match=r"(?s)outputs=\['y'\] leaves out: .*ParseExample"):
            forge.from_tensorflow(model, shape={"x": (3,)})
        np.testing.assert_array_equal(results(model, X, shape={"x": (3,)}, outputs=["y"]), -X)


class TestRandomNumbers:
    """Old graphs keep their dropout: ``x / keep * floor(keep + uniform)``."""

    @staticmethod
    def dropout(prefix: str, x: str, keep: str, **seeds: str) -> str:
        found = typed(f"{prefix}shape", "Shape", x, out_type="type: DT_INT32")
        found += node(f"{prefix}uniform", "RandomUniform", f"{prefix}shape", dtype="type: DT_FLOAT", T="type: DT_INT32", **seeds)
        found += typed(f"{prefix}sum", "Add", f"{prefix}uniform", keep) + typed(f"{prefix}mask", "Floor", f"{prefix}sum")
        return found + typed(f"{prefix}div", "RealDiv", x, keep) + typed(f"{prefix}out", "Mul", f"{prefix}div", f"{prefix}mask")

    @pytest.mark.parametrize("sizes", ["dim { size: 1000 }", "dim { size: -1 }"])
    def test_dropout(self, tmp_path: Path, sizes: str) -> None:
        path = graph(tmp_path, placeholder("x", sizes) + node("keep", "Placeholder", dtype="type: DT_FLOAT", shape="shape { }")
                     + self.dropout("", "x", "keep"))
        run = forge.from_tensorflow(path).get_inference_function()
        x = np.arange(1, 1001, dtype=np.float32)
        np.testing.assert_array_equal(run(x, np.array(1, np.float32)), x)
        kept = np.asarray(run(x, np.array(0.5, np.float32)))
        assert set(np.unique(kept / x)) == {0, 2} and 400 < np.count_nonzero(kept) < 600

    def test_seeds(self, tmp_path: Path) -> None:
        shape = constant("s", "DT_INT32", "tensor_shape { dim { size: 1 } } int_val: 64")

        def numbers(name: str, op: str, seed: str) -> str:
            return node(name, op, "s", dtype="type: DT_FLOAT", T="type: DT_INT32", seed=seed)

        path = graph(tmp_path, shape + numbers("a", "RandomUniform", "i: 3") + numbers("b", "RandomUniform", "i: 3")
                     + numbers("c", "RandomUniform", "i: 0") + numbers("d", "RandomUniform", "i: 0")
                     + numbers("e", "RandomStandardNormal", "i: 0"))
        a, b, c, d, e = map(np.asarray, forge.from_tensorflow(path, outputs=list("abcde")).get_inference_function()())
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(c, d)
        assert ((a >= 0) & (a < 1)).all() and (e < 0).any()

    def test_branch_that_is_not_taken(self, tmp_path: Path) -> None:
        nodes = placeholder("x", SIZES) + constant("no", "DT_BOOL", "tensor_shape { } bool_val: false")
        nodes += node("training", "PlaceholderWithDefault", "no", dtype="type: DT_BOOL", shape="shape { }")
        nodes += typed("switch", "Switch", "x", "training") + constant("half", "DT_FLOAT", "tensor_shape { } float_val: 0.5")
        nodes += typed("still", "Identity", "switch:0") + self.dropout("d_", "switch:1", "half")
        path = graph(tmp_path, nodes + typed("merge", "Merge", "still", "d_out", N="i: 2") + typed("y", "Neg", "merge"))
        np.testing.assert_array_equal(results(path, X), -X)
        both = forge.from_tensorflow(path, shape={"x": (3,), "training": ()}).get_inference_function()
        np.testing.assert_array_equal(both(X, np.array(False)), -X)


def test_what_inputs_are_computed_of_is_not_needed(tmp_path: Path) -> None:
    nodes = typed("lost", "NoSuchOperator") + node("x", "PlaceholderWithDefault", "lost", dtype="type: DT_FLOAT")
    path = graph(tmp_path, nodes + typed("y", "Neg", "x"))
    with pytest.raises(forge.OpNotImplemented, match="NoSuchOperator"):
        forge.from_tensorflow(path)
    np.testing.assert_array_equal(results(path, X, shape={"x": (3,)}), -X)


@pytest.mark.parametrize("name, op, dtype, attributes", [
    ("a", "StringToHashBucketFast", "int64", {}), ("a", "Less", "bool", {"T": "type: DT_FLOAT"}),
    ("a", "ArgMax", "int64", {"T": "type: DT_FLOAT", "output_type": "type: DT_INT64"}),
    ("a", "Cast", "int32", {"SrcT": "type: DT_STRING", "DstT": "type: DT_INT32"}),
])
def test_type_of_a_node_that_becomes_an_input(
    tmp_path: Path, name: str, op: str, dtype: str, attributes: dict[str, str]
) -> None:
    path = graph(tmp_path, node(name, op, "lost", **attributes) + node("y", "Identity", name))
    assert forge.from_tensorflow(path, shape={name: (3,)}).input_dtypes == [dtype]


def test_data_of_an_iterator_are_inputs(tmp_path: Path) -> None:
    nodes = node("data", "IteratorV2") + node(
        "next", "IteratorGetNext", "data", output_types="list { type: [DT_INT32, DT_FLOAT, DT_FLOAT] }",
        output_shapes=f"list {{ shape {{ }} shape {{ {SIZES} }} shape {{ unknown_rank: true }} }}")
    path = graph(tmp_path, nodes + typed("y", "Sub", "next:2", "next:1"))
    module = forge.from_tensorflow(path, shape={"next:2": (2, 3)})
    assert list(module.input_names) == ["next:1", "next:2"]
    both = np.stack([X, 2 * X])
    np.testing.assert_array_equal(np.asarray(module.get_inference_function()(X, both)), both - X)


class TestArrays:
    """Arrays that loops write: those that grow, and those whose elements are of different sizes."""

    ROWS = np.arange(10, dtype=np.float32).reshape(5, 2)

    @staticmethod
    def loop(item: str, last: str, start: int = 0) -> str:
        """A loop of three rounds that writes ``item``, which may read the round ``i`` and the input ``x_in``."""
        numbers = {"start": start, "one": 1, "end": start + 3, "none": 0}
        found = "".join(
            constant(name, "DT_INT32", f"tensor_shape {{ }} int_val: {number}") for name, number in numbers.items())
        found += placeholder("x", "dim { size: -1 } dim { size: 2 }") + node(
            "array", "TensorArrayV3", "none", dtype="type: DT_FLOAT", dynamic_size="b: true",
            element_shape="shape { dim { size: -1 } dim { size: 2 } }")
        for name, of in (("i", "start"), ("flow", "array:1")):
            found += node(f"{name}_enter", "Enter", of, frame_name='s: "loop"')
            found += node(f"{name}_merge", "Merge", f"{name}_enter", f"{name}_next") + node(
                f"{name}_switch", "Switch", f"{name}_merge", "goes_on") + node(f"{name}_exit", "Exit", f"{name}_switch")
            found += node(name, "Identity", f"{name}_switch:1") + node(f"{name}_next", "NextIteration", f"{name}_after")
        for name in ("x", "array", "one", "end"):
            found += node(f"{name}_in", "Enter", name, frame_name='s: "loop"', is_constant="b: true")
        found += node("less", "Less", "i_merge", "end_in") + node("goes_on", "LoopCond", "less")
        found += node("i_after", "Add", "i", "one_in") + item
        return found + node("flow_after", "TensorArrayWriteV3", "array_in", "i", "item", "flow") + last

    FIRST_ROWS = constant("first", "DT_INT32", "tensor_shape { dim { size: 2 } } int_val: 0 int_val: 0")
    FIRST_ROWS += constant("two", "DT_INT32", "tensor_shape { } int_val: 2") + node("sizes", "Pack", "i_after", "two", N="i: 2")
    FIRST_ROWS += node("item", "Slice", "x_in", "first", "sizes")
    CONCAT = node("y", "TensorArrayConcatV3", "array", "flow_exit")
    STACK = constant("all", "DT_INT32", "tensor_shape { dim { size: 3 } } int_val: 0 int_val: 1 int_val: 2")
    STACK += node("y", "TensorArrayGatherV3", "array", "all", "flow_exit")

    def test_different_sizes_put_together(self, tmp_path: Path) -> None:
        path = graph(tmp_path, self.loop(self.FIRST_ROWS, self.CONCAT))
        expected = np.concatenate([self.ROWS[:1], self.ROWS[:2], self.ROWS[:3]])
        np.testing.assert_array_equal(results(path, self.ROWS, outputs=["y"]), expected)

    def test_grows(self, tmp_path: Path) -> None:
        path = graph(tmp_path, self.loop(node("item", "Identity", "x_in"), self.STACK))
        np.testing.assert_array_equal(results(path, self.ROWS), np.stack([self.ROWS] * 3))

    @pytest.mark.parametrize("last, start", [(STACK, 0), (CONCAT, 1)], ids=["stacked", "from_1"])
    def test_different_sizes_are_refused(self, tmp_path: Path, last: str, start: int) -> None:
        with pytest.raises(forge.OpNotImplemented, match="list's elements are computed in the loop"):
            forge.from_tensorflow(graph(tmp_path, self.loop(self.FIRST_ROWS, last, start)), outputs=["y"])

    def test_lengths_are_refused(self, tmp_path: Path) -> None:
        path = graph(tmp_path, self.loop(self.FIRST_ROWS, self.CONCAT))
        with pytest.raises(forge.OpNotImplemented, match="lengths of elements"):
            forge.from_tensorflow(path, outputs=["y", "y:1"])


class TestSnappy:
    """Blocks by the description of the format: a length, literals, and copies with distances of 1, 2 and 4 bytes."""

    @pytest.mark.parametrize("data, expected", [
        (b"\x00", b""),
        (b"\x03\x08abc", b"abc"),
        (b"\x0b\x08abc\x11\x03", b"abcabcabcab"),
        (b"\x07\x08abc\x0e\x03\x00", b"abcabca"),
        (b"\x05\x08abc\x07\x02\x00\x00\x00", b"abcbc"),
        (b"\x40\x00a\xfa\x01\x00", b"a" * 64),
        (b"\x46\xf0\x45" + bytes(70), bytes(70)),
        (b"\xac\x02\xf4\x2b\x01" + bytes(300), bytes(300)),
    ], ids=["empty", "literal", "one_byte", "two_bytes", "four_bytes", "overlapping", "long", "longer"])
    def test_valid(self, data: bytes, expected: bytes) -> None:
        assert decompressed(memoryview(data)) == expected

    @pytest.mark.parametrize("data", [
        b"", b"\x80", b"\xff\xff\xff\xff\x0f\x00a", b"\x04\x08abc", b"\x02\x08abc", b"\x03\x08ab", b"\x03\xf0",
        b"\x07\x08abc\x0e\x04\x00", b"\x07\x08abc\x0e\x00\x00", b"\x07\x08abc\x0e\x03", b"\x09\x08abc\x0e\x03\x00",
    ])
    def test_damaged(self, data: bytes) -> None:
        with pytest.raises(ImportModelError, match="damaged"):
            decompressed(memoryview(data))


def varint(number: int) -> bytes:
    return bytes([number & 127 | 128]) + varint(number >> 7) if number > 127 else bytes([number])


def block(*entries: tuple[bytes, bytes]) -> bytes:
    body = b"".join(b"\0" + varint(len(key)) + varint(len(value)) + key + value for key, value in entries)
    return body + struct.pack("<II", 0, 1)


def literal(data: bytes) -> bytes:
    """As Snappy leaves what it cannot make smaller."""
    return varint(len(data)) + b"\xf4" + struct.pack("<H", len(data) - 1) + data


def checkpoint(folder: Path, packed: Callable[[bytes], bytes], compression: int, handles: int = 1, key: bytes = b"w") -> Path:
    """The prefix of a checkpoint that holds one tensor."""
    header, entry = message_of("BundleHeaderProto"), message_of("BundleEntryProto")
    header.num_shards, entry.dtype, entry.size = 1, 1, X.nbytes
    entry.shape.dim.add(size=3)
    data = packed(block((b"", header.SerializeToString()), (key, entry.SerializeToString())))
    places = varint(0) + varint(len(data))
    index = block(*((bytes([k]), places) for k in range(handles)))
    start = len(data) + 5
    footer = varint(start) + varint(len(index)) + varint(start) + varint(len(index))
    footer = footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)
    folder.mkdir(exist_ok=True)
    (folder / "variables.index").write_bytes(data + bytes([compression]) + bytes(4) + index + bytes(5) + footer)
    (folder / "variables.data-00000-of-00001").write_bytes(X.tobytes())
    return folder / "variables"


def plain(data: bytes) -> bytes:
    return data


@pytest.mark.parametrize("packed, compression", [(plain, 0), (literal, 1)])
def test_index(tmp_path: Path, packed: Callable[[bytes], bytes], compression: int) -> None:
    checkpoint(tmp_path / "variables", packed, compression)
    nodes = node("w", "VarHandleOp", dtype="type: DT_FLOAT", shape=f"shape {{ {SIZES} }}")
    nodes += node("read", "ReadVariableOp", "w", dtype="type: DT_FLOAT")
    nodes += placeholder("x", SIZES) + typed("y", "AddV2", "x", "read")
    model = saved(tmp_path, nodes, signature("f", {"x": ("x:0", SIZES)}, {"y": "y:0"}))
    np.testing.assert_array_equal(results(model, X), X + X)


@pytest.mark.parametrize("packed, compression, handles, key, message", [
    (plain, 2, 1, b"w", "compression 2"),
    (plain, 0, 2, b"w", "overlap"),
    (plain, 1, 1, b"w", "not what Snappy writes"),
    (lambda data: literal(data[:3]), 1, 1, b"w", "too short"),
    (plain, 0, 1, b"w" * 5000, "outside of its block"),
])
def test_damaged_index(
    tmp_path: Path, packed: Callable[[bytes], bytes], compression: int, handles: int, key: bytes, message: str
) -> None:
    prefix = checkpoint(tmp_path, packed, compression, handles, key)
    with pytest.raises(ImportModelError, match=message):
        Bundle(prefix)


def test_outputs_beyond_all_operators(tmp_path: Path) -> None:
    """The number of outputs is an attribute; a node that says a million of them is refused before they are counted."""
    nodes = placeholder("x") + placeholder("parts", dtype="DT_INT32")
    nodes += typed("y", "DynamicPartition", "x", "parts", num_partitions="i: 1048576")
    with pytest.raises(ImportModelError, match="'y': DynamicPartition has 1048576 outputs; expected at most 65536"):
        forge.from_tensorflow(graph(tmp_path, nodes))
