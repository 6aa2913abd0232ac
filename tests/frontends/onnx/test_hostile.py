"""Models that mean harm or make no sense: a clear error, soon and without much memory. Most were found by the fuzzer."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from forge.errors import ForgeError, ImportModelError, OpAttributeInvalid, OpAttributeUnimplemented
from forge.frontends.onnx import import_model
from tests.frontends.onnx.support import evaluate, model, ops

IDENTITY = "g (float[2] x) => (float[2] y) { y = Relu(x) }"


def nested(depth: int) -> onnx.ModelProto:
    """Conditions in one another, whose outcomes are known."""
    node = onnx.helper.make_node("Relu", ["x"], ["y0"])
    for level in range(1, depth + 1):
        out = [onnx.ValueInfoProto(name=f"y{level - 1}")]
        branch = onnx.helper.make_graph([node], "then", [], out)
        other = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], [f"y{level - 1}"])], "else", [], out)
        node = onnx.helper.make_node("If", ["c"], [f"y{level}"], then_branch=branch, else_branch=other)
    proto = model(IDENTITY, c=np.array(True))
    proto.graph.node[0].CopyFrom(node)
    proto.graph.output[0].name = f"y{depth}"
    return proto


def test_names_in_nested_branches_grow_with_depth_only() -> None:
    module = import_model(nested(30))
    assert ops(module) == ["nn.relu"]
    assert [n.name for n in module.main.nodes if n.op == "nn.relu"] == ["If_0/" * 30 + "Relu_0"]


def test_many_values_of_one_name() -> None:
    functions = '<domain: "f", opset_import: ["" : 21]> Twice (a) => (b) { t = Add(a, a)  b = Relu(t) }'
    proto = model("g (float[2] x) => (float[2] y) { y = f.Twice(x) }", functions=functions, domains={"f": 1})
    call = proto.graph.node.pop()
    names = ["x", *(f"v{k}" for k in range(3000))]
    for before, after in itertools.pairwise(names):
        proto.graph.node.append(onnx.helper.make_node("Twice", [before], [after], name="same", domain=call.domain))
    proto.graph.output[0].name = names[-1]
    values = [v.name for n in import_model(proto).main.nodes for v in n.results]
    assert len(set(values)) == len(values) == 6000


@pytest.mark.parametrize("text", [b"\x22\x04Relu", b"\x0a\x01x"])
def test_names_that_are_no_text(text: bytes) -> None:
    data = model(IDENTITY).SerializeToString()
    damaged = data.replace(text, text[:-1] + b"\xff")
    assert damaged != data
    with pytest.raises(ImportModelError, match=r"expected UTF-8; the file is damaged"):
        import_model(damaged)


@pytest.mark.parametrize("location", ["x" * 5000, "a\0b"])
def test_external_data_with_a_name_that_is_none(tmp_path: Path, location: str) -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Add(x, w) }", w=np.zeros(2, np.float32))
    tensor = proto.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ImportModelError, match="external data location"):
        import_model(path)


def test_model_that_is_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.onnx")
    with pytest.raises(ImportModelError, match="is a device or a pipe"):
        import_model(tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("count", "indices", "dims"),
    [
        (2, np.array([1]), [6]), (2, np.array([[1, 2]]), [2, 3]), (1, np.array([[1, 2, 3]]), [2, 3]), (1, np.array([7]), [2, 3]),
        (1, np.array([[0, 3]]), [2, 3]), (1, np.array([-1]), [6]), (1, np.zeros((1, 0), np.int64), []),
        (1, np.array([0]), [0]),
        (1, np.array(0), [6]), (-1, np.array([0]), [6]), (1, np.array([0], np.int32), [6]),
        (1, np.array([0]), [1 << 32, 1 << 32]),
    ],
)
def test_sparse_tensor_that_does_not_fit(count: int, indices: np.ndarray, dims: list[int]) -> None:
    proto = model("g (float[2] x) => (float[n] y) { y = Add(w, w) }")
    sparse = proto.graph.sparse_initializer.add(dims=dims)
    sparse.values.CopyFrom(onnx.numpy_helper.from_array(np.ones(() if count < 0 else count, np.float32), "w"))
    sparse.indices.CopyFrom(onnx.numpy_helper.from_array(indices, "i"))
    with pytest.raises(ImportModelError, match="sparse tensor 'w'"):
        import_model(proto)


def test_sparse_tensor_by_rows_of_indices() -> None:
    proto = model("g () => (float[2, 3] y) { y = Identity(w) }")
    sparse = proto.graph.sparse_initializer.add(dims=[2, 3])
    sparse.values.CopyFrom(onnx.numpy_helper.from_array(np.array([5, 7], np.float32), "w"))
    sparse.indices.CopyFrom(onnx.numpy_helper.from_array(np.array([[0, 1], [1, 2]]), "i"))
    assert evaluate(import_model(proto))[0].tolist() == [[0, 5, 0], [0, 0, 7]]


def test_absurd_version_of_another_domain() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Relu(x) }", domains={"ai.onnx.ml": 1})
    proto.graph.node[0].op_type, proto.graph.node[0].domain = "CastMap", "ai.onnx.ml"
    proto.opset_import[1].version = 1 << 62
    with pytest.raises(ForgeError, match=r"ai\.onnx\.ml\.CastMap"):
        import_model(proto)


@pytest.mark.parametrize(
    ("body", "weights"),
    [
        ("y = ConstantOfShape(s)", {"s": np.array([-2])}),
        ("y = ConstantOfShape(s)", {"s": np.array([-1, 1 << 62])}),
        ("y = Slice(x, s, e)", {"s": np.array([0, 0, 0]), "e": np.array([1])}),
    ],
)
def test_steering_operands_that_make_no_sense(body: str, weights: dict[str, Any]) -> None:
    with pytest.raises((ImportModelError, OpAttributeInvalid), match="got"):
        import_model(model(f"g (float[2] x) => (float[n] y) {{ {body} }}", **weights))


@pytest.mark.parametrize(
    ("inputs", "body"),
    [
        ("int64[2, 2] s", "y = ReduceSum(x, s)"),
        ("int64[3] s, uint64[4] e", "y = Slice(x, s, e)"),
        ("float[2] s", "y = Reshape(x, s)"),
        ("string[1] s", "y = ReduceLogSumExp(x, s)"),
        ("int64[1, 1] s", "y = Unsqueeze(x, s)"),
        ("int64[N] s", "y = Squeeze(x, s)"),
    ],
)
def test_run_time_operands_of_a_wrong_type(inputs: str, body: str) -> None:
    with pytest.raises(ImportModelError, match="expected"):
        import_model(model(f"g (float[2, 3, 4] x, {inputs}) => (float[n] y) {{ {body} }}"))


@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
@pytest.mark.parametrize("size", [1 << 40, 1 << 62])
def test_images_of_absurd_size(mode: str, size: int) -> None:
    body = f"y = Resize<mode='{mode}', antialias={int(mode != 'nearest')}>(x, , , s)".replace("'", '"')
    graph = f"g (float[1, 1, 4, 4] x) => (float[n, m, o, p] y) {{ {body} }}"
    with pytest.raises(OpAttributeUnimplemented, match="expected at most"):
        import_model(model(graph, s=np.array([1, 1, 2, size])))


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), -1.0, 0.0])
def test_scales_that_are_none(scale: float) -> None:
    graph = "g (float[1, 1, 4, 4] x) => (float[n, m, o, p] y) { y = Resize(x, , s) }"
    with pytest.raises(OpAttributeInvalid, match="positive numbers"):
        import_model(model(graph, s=np.array([1, 1, 1, scale], np.float32)))


def test_faults_of_operands_say_what_to_do() -> None:
    body = "y = Attention<q_num_heads=1, kv_num_heads=1>(x, x, x, mask)"
    graph = f"g (float[2, 3, 4] x, float mask) => (float[2, 3, 4] y) {{ {body} }}"
    with pytest.raises(ImportModelError, match=r"node 'Attention_0' \(Attention, opset 23\): operands .* specification says"):
        import_model(model(graph, opset=23))


@pytest.mark.parametrize("count", [0, -1, 1 << 62])
def test_absurd_numbers_of_parts(count: int) -> None:
    proto = model("g (float[6] x) => (float[n] y) { y = Split<num_outputs=2>(x) }")
    proto.graph.node[0].attribute[0].i = count
    with pytest.raises(OpAttributeInvalid, match="attribute 'num_outputs': got"):
        import_model(proto)


def test_padding_that_would_not_fit_into_memory() -> None:
    """It is not computed while the model is imported; the interpreter refuses it."""
    huge = 1 << 31
    body = f"y = MaxPool<kernel_shape=[{huge}], pads=[{huge - 1}, {huge - 1}], strides=[{huge}]>(w)"
    module = import_model(model(f"g () => (float[1, 1, n] y) {{ {body} }}", w=np.ones((1, 1, 4), np.float32)))
    with pytest.raises(ForgeError, match="padding: elements of the result; got"):
        evaluate(module)


def test_split_without_sizes() -> None:
    with pytest.raises(OpAttributeInvalid, match="split: got no sizes"):
        import_model(model("g (float[6] x) => (float[n] y) { y = Split(x, s) }", s=np.zeros(0, np.int64)))


def test_function_of_a_schema_that_cannot_be_built() -> None:
    """The names of a sub-graph's weights become part of a text that the onnx package parses."""
    from tests.onnx_backend.cases import collect

    proto = onnx.ModelProto()
    proto.CopyFrom(collect()["test_flexattention_relative_positional"].model)
    graph = proto.graph.node[0].attribute[0].g
    old = graph.initializer[0].name
    graph.initializer[0].name = "k^"
    for inner in graph.node:
        inner.input[:] = ["k^" if name == old else name for name in inner.input]
    with pytest.raises(ForgeError, match="function cannot be built"):
        import_model(proto)
