"""What a program may be, what is said of it, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge.errors import ForgeError, ImportModelError, OpNotImplemented, OptionError
from forge.frontends import tensorflow as door
from forge.frontends.tensorflow.messages import message_of
from tests.frontends.tensorflow.record_programs import kept
from tests.frontends.tensorflow.writer import Graph, Sizes

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def chain() -> Graph:
    """``relu(x * 2) - 3``, in nodes ``double``, ``cut``, ``out``."""
    graph = Graph()
    x = graph.placeholder("float32", (-1, 3), name="x")
    graph.node("Mul", [x, graph.constant(np.float32(2), name="two")], name="double", T="float32")
    graph.node("Relu", ["double"], name="cut", T="float32")
    graph.node("Sub", ["cut", graph.constant(np.float32(3), name="three")], name="out", T="float32")
    return graph


def run(source: Any, *inputs: np.ndarray, **options: Any) -> Any:
    return forge.from_tensorflow(source, **options).get_inference_function("reference")(*inputs)


def test_the_last_node_is_the_result() -> None:
    ir = forge.from_tensorflow(chain().data())
    assert (ir.input_names, ir.output_names) == (["x"], ["out"])
    assert [str(size) for size in ir.input_shapes[0]] == ["x_dim0", "3"]
    np.testing.assert_array_equal(run(chain().data(), X), np.maximum(X * 2, 0) - 3)


def test_files_and_their_text(tmp_path: Path) -> None:
    from google.protobuf import text_format

    (tmp_path / "model.pb").write_bytes(chain().data())
    (tmp_path / "model.pbtxt").write_text(text_format.MessageToString(chain().message))
    for name in ("model.pb", "model.pbtxt"):
        np.testing.assert_array_equal(forge.load(tmp_path / name).get_inference_function("reference")(X), X * 2 - 3)
    assert forge.IRModule.from_tensorflow(str(tmp_path / "model.pb")).output_names == ["out"]


def test_outputs_by_name_and_number() -> None:
    graph = chain()
    graph.node("Split", [graph.constant(np.int32(1)), "out"], name="parts", T="float32", num_split=3)
    first, last, middle = run(graph.data(), X, outputs=["parts", "parts:2", "double"])
    np.testing.assert_array_equal(np.concatenate([first, last], 1), (X * 2 - 3)[:, [0, 2]])
    np.testing.assert_array_equal(middle, X * 2)
    assert forge.from_tensorflow(graph.data()).output_names == ["parts", "parts:1", "parts:2"]


def test_a_node_with_a_shape_is_an_input() -> None:
    ir = forge.from_tensorflow(chain().data(), shape={"cut": (2, 3)})
    assert (ir.input_names, ir.input_shapes) == (["cut"], [(2, 3)])
    np.testing.assert_array_equal(ir.get_inference_function("reference")(X), X - 3)


def test_defaults_are_constants_unless_they_get_a_shape() -> None:
    graph = Graph()
    graph.node("PlaceholderWithDefault", [graph.constant(np.float32([1, 2]))], name="x", dtype="float32", shape=Sizes((2,)))
    graph.node("Neg", ["x"], name="out", T="float32")
    np.testing.assert_array_equal(run(graph.data()), [-1, -2])
    np.testing.assert_array_equal(run(graph.data(), np.float32([5, 6]), shape={"x": (2,)}), [-5, -6])


@pytest.mark.parametrize("layout", [None, "NHWC", "NCHW"])
def test_layouts(layout: str | None) -> None:
    graph = Graph()
    x = graph.placeholder("float32", (1, 6, 6, 3), name="x")
    weight = graph.constant(np.arange(108, dtype=np.float32).reshape(3, 3, 3, 4) / 50 - 1)
    graph.node("Conv2D", [x, weight], name="y", T="float32", strides=[1, 1, 1, 1], padding="SAME")
    graph.node("MaxPool", ["y"], name="out", T="float32", ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    ir = forge.from_tensorflow(graph.data(), layout)
    written = {n.attrs.data_layout for n in ir.main.nodes if n.op == "nn.conv2d"}
    assert written == {layout or "NHWC"}
    assert ir.output_shapes == [(1, 3, 3, 4)]
    image = np.linspace(-1, 1, 108, dtype=np.float32).reshape(1, 6, 6, 3)
    np.testing.assert_allclose(ir.get_inference_function()(image), run(graph.data(), image), rtol=1e-5, atol=1e-5)


def test_convert_config() -> None:
    graph = Graph()
    x = graph.placeholder("float32", (2, 3), name="x")
    graph.node("MatMul", [x, graph.constant(np.ones((3, 4), np.float32))], name="out", T="float32")
    ops = {flag: {n.op for n in forge.from_tensorflow(graph.data(), convert_config={"use_dense": flag}).main.nodes}
           for flag in (True, False)}
    assert "nn.dense" in ops[True] and "nn.matmul" in ops[False]


def test_own_converters() -> None:
    graph = chain()
    graph.node("AcmeScaled", ["out"], name="scaled", factor=3.0, T="float32")
    told = r"1 operator is not supported:\n  tensorflow.AcmeScaled: 1x, first at node 'scaled'"
    with pytest.raises(OpNotImplemented, match=told):
        forge.from_tensorflow(graph.data())

    @door.register("AcmeScaled")
    def scaled(g: Any, x: Any, *, factor: float = 1.0) -> Any:
        return g.call("multiply", x, g.scalar(factor, x))

    try:
        np.testing.assert_array_equal(run(graph.data(), X), (X * 2 - 3) * 3)
    finally:
        door.unregister("AcmeScaled")


def test_functions_are_operators() -> None:
    graph = chain()
    function = graph.message.library.function.add()
    function.signature.name = "Twice"
    function.signature.input_arg.add(name="v", type=1)
    function.signature.output_arg.add(name="w", type=1)
    function.node_def.add(name="sum", op="AddV2", input=["v", "v"])
    function.ret["w"] = "sum:z:0"
    graph.node("Twice", ["out"], name="called")
    np.testing.assert_array_equal(run(graph.data(), X), (X * 2 - 3) * 2)


def test_messages_do_not_clash_with_those_of_others() -> None:
    assert message_of("GraphDef").DESCRIPTOR.full_name == "forge.tensorflow.GraphDef"


def broken(change: Any) -> bytes:
    graph = chain()
    change(graph)
    return graph.data()


def _circle(graph: Graph) -> None:
    graph.message.node[2].input[0] = "out"


def _missing(graph: Graph) -> None:
    graph.message.node[2].input[0] = "nothing"


def _twice(graph: Graph) -> None:
    graph.message.node[2].name = "two"


def _recursive(graph: Graph) -> None:
    function = graph.message.library.function.add()
    function.signature.name = "Again"
    function.signature.output_arg.add(name="w", type=1)
    function.node_def.add(name="inner", op="Again")
    function.ret["w"] = "inner:w:0"
    graph.node("Again", name="called")


def _huge(graph: Graph) -> None:
    tensor = graph.message.node[1].attr["value"].tensor
    for _ in range(3):
        tensor.tensor_shape.dim.add(size=1 << 20)


@pytest.mark.parametrize(("change", "told"), [
    (_circle, "reads what it gives itself"), (_missing, "'nothing' is read, and there is none"),
    (_twice, "'two' is there twice"), (_recursive, "nested more than"), (_huge, "expected at most .* bytes"),
], ids=lambda v: getattr(v, "__name__", ""))
def test_invalid_graphs(change: Any, told: str) -> None:
    with pytest.raises(ForgeError, match=told):
        forge.from_tensorflow(broken(change))


@pytest.mark.parametrize(("options", "told"), [
    ({"layout": "NDHWC"}, "layout: got 'NDHWC'; expected one of: NHWC, NCHW"),
    ({"outputs": "out"}, "outputs: got 'out'; expected a list of names"),
    ({"outputs": ["nowhere"]}, "got 'nowhere', which is not a node"),
    ({"convert_config": {"use_dens": True}}, "got 'use_dens': True; expected True or False for: use_dense, use_nt_batch_matmul"),
    ({"shape": {"y": (2, 3)}}, "y"),
])
def test_wrong_options(options: Any, told: str) -> None:
    with pytest.raises((OptionError, ImportModelError), match=told):
        forge.from_tensorflow(chain().data(), **options)


def test_wrong_sources(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"from_tensorflow: got int; expected a path of a \.pb"):
        forge.from_tensorflow(3)
    with pytest.raises(ImportModelError, match=r"is a folder without saved_model\.pb"):
        forge.from_tensorflow(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01\x12\xff")
    with pytest.raises(ImportModelError, match=r"saved_model\.pb: got bytes that are not a SavedModel"):
        forge.from_tensorflow(tmp_path)


def test_the_file_of_a_saved_model_is_as_good_as_its_folder(tmp_path: Path) -> None:
    folder = kept()["counted_loop"].write(tmp_path)
    assert forge.load(folder / "saved_model.pb").fingerprint == forge.load(folder).fingerprint


def test_variables_without_contents(tmp_path: Path) -> None:
    folder = kept()["images"].write(tmp_path)
    for path in (folder / "variables").iterdir():
        path.unlink()
    with pytest.raises(ImportModelError, match=r"variable 'Variable.*' has no contents; expected a SavedModel with its"):
        forge.from_tensorflow(folder)


def test_checkpoints_that_are_cut_short(tmp_path: Path) -> None:
    folder = kept()["images"].write(tmp_path)
    data = next((folder / "variables").glob("variables.data*"))
    data.write_bytes(data.read_bytes()[:-9])
    with pytest.raises(ImportModelError, match="lies outside of its file; the checkpoint is damaged"):
        forge.from_tensorflow(folder)


def test_signatures_are_functions(tmp_path: Path) -> None:
    run = forge.compile(forge.load(kept()["two_signatures"].write(tmp_path)))
    np.testing.assert_array_equal(run["read"](np.float32([1, 2])), [1, 2])


def test_sizes_cost_nothing(tmp_path: Path) -> None:
    ir = forge.from_tensorflow(kept()["keras_images"].write(tmp_path))
    assert not [node.op for node in ir.main.nodes if node.op in ("shape_of", "transpose")]
