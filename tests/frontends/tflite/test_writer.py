"""What the writer writes, the reader reads, and so does the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from forge.frontends.tflite.model import read_model
from forge.frontends.tflite.sources import read
from tests.frontends.tflite.writer import Graph, model

WEIGHTS = np.arange(-8, 7, dtype=np.int8).reshape(3, 5)


def everything(behind: bool = False) -> bytes:
    """A model with a tensor of each kind, two subgraphs and more."""
    graph, other = Graph(), Graph("other")
    x = graph.input((1, 5), signature=(-1, 5), name="x")
    weights = graph.constant(WEIGHTS, "int4", scale=[0.5, 0.25, 2], axis=0, name="weights")
    y = graph.tensor((1, 3), name="y")
    graph.op("FULLY_CONNECTED", [x, weights, None], [y], fused_activation_function="RELU", keep_num_dims=True, version=8)
    graph.constant(np.array([["a", "täxt"], ["", "b"]], object), name="texts")
    graph.constant(np.array([True, False]), name="flags")
    graph.tensor((2, 2), is_variable=True, name="kept")
    graph.constant(np.array([3.0, 4.0], np.float32), shape=(2, 2), name="sparse", sparsity={
        "traversal_order": [0, 1], "dim_metadata": [
            {"format": "DENSE", "dense_size": 2},
            {"format": "SPARSE_CSR", "array_segments": ("Int32Vector", {"values": [0, 1, 2]}),
             "array_indices": ("Uint8Vector", {"values": [1, 0]})}]})
    graph.outputs = [y]
    z = other.input((2,), name="z")
    other.outputs = list(other.op("Mine", [z], [other.tensor((2,))], custom_options=b"options"))
    return model(
        graph, other, signatures={"serve": (0, {"given": x}, {"found": y}), "two": (1, {"z": z}, {"w": other.outputs[0]})},
        metadata={"about": b"a model"}, behind=behind)


@pytest.mark.parametrize("behind", [False, True])
def test_reads_what_was_written(behind: bool) -> None:
    found = read_model(everything(behind))
    main, other = found.subgraphs
    tensors = {tensor.name: tensor for tensor in main.tensors}
    assert tensors["x"].shape == (None, 5) and tensors["kept"].is_variable
    how = tensors["weights"].quantization
    assert how is not None and how.scales.tolist() == [0.5, 0.25, 2] and how.axis == 0
    contents = {name: tensor.contents() for name, tensor in tensors.items() if tensor.contents is not None}
    np.testing.assert_array_equal(contents["weights"].astype(np.int8), WEIGHTS)
    assert contents["texts"].tolist() == [["a", "täxt"], ["", "b"]] and contents["flags"].tolist() == [True, False]
    assert contents["sparse"].tolist() == [[0, 3], [4, 0]]
    (operator,) = main.operators
    assert operator.inputs == (0, 1, -1) and operator.version == 8
    assert operator.attributes["fused_activation_function"] == "RELU" and operator.attributes["keep_num_dims"]
    assert (other.operators[0].domain, other.operators[0].name) == ("custom", "Mine")
    assert other.operators[0].custom_options == b"options"
    assert [signature.key for signature in found.signatures] == ["serve", "two"] and found.metadata == {"about": b"a model"}


@pytest.mark.parametrize("behind", [False, True])
def test_the_interpreter_reads_it(behind: bool) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    graph = Graph()
    x = graph.input((1, 5), "int8", scale=0.5, zero_point=3)
    y = graph.tensor((1, 5), "int8", scale=0.25, zero_point=-1)
    graph.op("ADD", [x, graph.constant(np.arange(5, dtype=np.int8), scale=0.5)], [y])
    graph.outputs = [y]
    data = model(graph, behind=behind)
    assert read(data).model.size == 1
    interpreter = litert.Interpreter(model_content=data)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.full((1, 5), 7, np.int8))
    interpreter.invoke()
    assert interpreter.get_tensor(y_number(interpreter)).tolist() == [[7, 9, 11, 13, 15]]


def y_number(interpreter: object) -> int:
    return int(interpreter.get_output_details()[0]["index"])  # type: ignore[attr-defined]
