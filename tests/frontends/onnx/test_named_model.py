"""``export_node_renamed_model_path``: the names are those of the module, and what is written loads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from forge.errors import ImportModelError, OpAttributeUnimplemented
from forge.frontends.onnx import import_model
from tests.frontends.onnx.support import assert_same, evaluate, example, model, onnxruntime_outputs

DENSE = "g (float[2, 4] x) => (float[2, 2] y) { h = MatMul(x, w)  y = Add(h, b) }"


def dense() -> onnx.ModelProto:
    return model(DENSE, w=example(0, 4, 2), b=example(1, 2))


def named(proto: onnx.ModelProto | str | Path, path: Path) -> onnx.ModelProto:
    import_model(proto, export_node_renamed_model_path=path)
    return onnx.load(path)


def test_nodes_are_called_by_operator_and_position(tmp_path: Path) -> None:
    proto = dense()
    written = named(proto, tmp_path / "named.onnx")
    assert [n.name for n in written.graph.node] == ["MatMul_0", "Add_1"]
    assert [n.name for n in proto.graph.node] == ["", ""]
    assert {n.name for n in import_model(proto).main.nodes if n.op != "constant"} == {"MatMul_0", "Add_1"}
    x = example(2, 2, 4)
    assert_same(onnxruntime_outputs(written, x), onnxruntime_outputs(proto, x), 0)


def test_names_that_exist_are_kept_and_stay_unique(tmp_path: Path) -> None:
    proto = dense()
    proto.graph.node[1].name = "MatMul_0"
    assert [n.name for n in named(proto, tmp_path / "named.onnx").graph.node] == ["MatMul_0_", "MatMul_0"]
    assert [n.name for n in import_model(proto).main.nodes if n.op != "constant"] == ["MatMul_0_", "MatMul_0"]


def test_names_are_those_of_errors(tmp_path: Path) -> None:
    node = "y, m = BatchNormalization<spatial=0>(x, s, b, v, w)"
    weights = {name: example(i, 2) for i, name in enumerate("sbvw")}
    proto = model(f"g (float[1, 2, 3] x) => (float[1, 2, 3] y, float[2] m) {{ {node} }}", opset=7, **weights)
    with pytest.raises(OpAttributeUnimplemented, match="'BatchNormalization_0'"):
        import_model(proto, export_node_renamed_model_path=tmp_path / "named.onnx")
    assert onnx.load(tmp_path / "named.onnx").graph.node[0].name == "BatchNormalization_0"


def test_sub_graphs_and_functions(tmp_path: Path) -> None:
    functions = '<domain: "f", opset_import: ["" : 21]> Twice (a) => (b) { t = Add(a, a)  b = Relu(t) }'
    graph = """g (bool c, float[2] x) => (float[2] y) {
        t = f.Twice(x)
        y = If (c) <then_branch = p () => (float[2] p1) { p1 = Neg(t) }, else_branch = q () => (float[2] q1) { q1 = Exp(t) }>
    }"""
    written = named(model(graph, functions=functions, domains={"f": 1}), tmp_path / "named.onnx")
    assert [n.name for n in written.graph.node] == ["Twice_0", "If_1"]
    assert [n.name for a in written.graph.node[1].attribute for n in a.g.node] == ["Neg_0", "Exp_0"]
    assert [n.name for n in written.functions[0].node] == ["Add_0", "Relu_1"]


def saved_externally(folder: Path) -> Path:
    folder.mkdir()
    onnx.save(dense(), folder / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    return folder / "model.onnx"


def test_external_data_goes_along(tmp_path: Path) -> None:
    source, target = saved_externally(tmp_path / "a"), tmp_path / "b" / "named.onnx"
    target.parent.mkdir()
    for _ in range(2):
        import_model(source, export_node_renamed_model_path=target)
    x = example(2, 2, 4)
    np.testing.assert_array_equal(evaluate(import_model(target), x)[0], evaluate(import_model(source), x)[0])
    beside = source.parent / "named.onnx"
    import_model(source, export_node_renamed_model_path=beside)
    np.testing.assert_array_equal(evaluate(import_model(beside), x)[0], evaluate(import_model(source), x)[0])


@pytest.mark.parametrize("same_size", [False, True])
def test_another_file_in_the_place_of_external_data_stays(tmp_path: Path, same_size: bool) -> None:
    source = saved_externally(tmp_path / "a")
    (tmp_path / "b").mkdir()
    other = tmp_path / "b" / "weights.bin"
    other.write_bytes(bytes((source.parent / "weights.bin").stat().st_size if same_size else 3))
    before = other.read_bytes()
    with pytest.raises(ImportModelError, match=r"weights\.bin: is another file; expected the model's external data"):
        import_model(source, export_node_renamed_model_path=tmp_path / "b" / "named.onnx")
    assert other.read_bytes() == before


def test_external_data_out_of_reach(tmp_path: Path) -> None:
    proto = onnx.load(saved_externally(tmp_path / "a"), load_external_data=False)
    with pytest.raises(ImportModelError, match="load it by path"):
        import_model(proto, export_node_renamed_model_path=tmp_path / "named.onnx")


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ImportModelError, match="cannot be written: No such file or directory; choose another path"):
        import_model(dense(), export_node_renamed_model_path=tmp_path / "no" / "named.onnx")
