"""Names, types, control flow, files, opsets and refusals of the ONNX exporter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

pytest.importorskip("onnxruntime")

import forge
from forge import dims
from forge.errors import OpNotImplemented, OptionError
from forge.exporters.onnx import export_model, save_model, unsupported_nodes
from forge.ir import interp
from forge.ir.builder import Builder
from forge.ir.graph import Module
from forge.ir.types import TensorType
from tests.exporters.onnx.support import check, exported, onnxruntime_outputs
from tests.frontends.onnx.support import example, model


def onnx_of(ir: forge.IRModule, **options: Any) -> onnx.ModelProto:
    made = ir.to_onnx(**options)
    assert made is not None
    check(made)
    return made


def round_trip(text: str, *inputs: Any, opset: int = 21, **weights: Any) -> onnx.ModelProto:
    """A model, imported and exported: onnxruntime gives the same results for both."""
    original = model(text, opset, **weights)
    made = onnx_of(forge.from_onnx(original))
    arrays = [np.asarray(x) for x in inputs]
    expected = onnxruntime_outputs(original, arrays)
    for got, want in zip(onnxruntime_outputs(made, arrays), expected, strict=True):
        np.testing.assert_array_equal(got, want)
    return made


def test_names_are_kept() -> None:
    text = """
    g (float[n, 3] data) => (float[n, 2] result) {
        [first] hidden = MatMul(data, weight)
        [second] result = Relu(hidden)
    }"""
    made = round_trip(text, example(0, 4, 3), weight=example(1, 3, 2))
    assert [i.name for i in made.graph.input] == ["data"]
    assert [o.name for o in made.graph.output] == ["result"]
    assert [n.name for n in made.graph.node] == ["first", "second"]
    assert made.graph.node[0].output[0] == "hidden"
    assert made.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "n"
    assert made.producer_name == "forge"


def test_outputs_that_are_inputs_or_listed_twice() -> None:
    builder = Builder()
    x = builder.input(TensorType((2,), "float32"), "x")
    y = builder.call("nn.relu", x)
    module = Module(builder.output(x, y, y))
    made = exported(module)
    names = [o.name for o in made.graph.output]
    assert names == module.main.output_names
    assert len(set(names)) == 3
    data = np.array([-1.0, 2.0], np.float32)
    for got, want in zip(onnxruntime_outputs(made, [data]), [data, data.clip(0), data.clip(0)], strict=True):
        np.testing.assert_array_equal(got, want)


def test_equal_names_become_unique() -> None:
    builder = Builder()
    x = builder.input(TensorType((2,), "float32"), "a")
    first = builder.node("nn.relu", [x], {}, name="n", result_names=["a"]).result
    second = builder.node("exp", [first], {}, name="n", result_names=["a"]).result
    made = exported(Module(builder.output(second)))
    values = ["a", *(o for n in made.graph.node for o in n.output)]
    assert len(set(values)) == len(values)
    assert len({n.name for n in made.graph.node}) == len(made.graph.node)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4", "bool", "string"])
def test_weights_of_all_kinds(dtype: str, tmp_path: Path) -> None:
    values: Any = np.array([["a", "é", ""]], object) if dtype == "string" else np.array([[1, 0, 3]])
    if dtype != "string":
        values = values.astype(getattr(ml_dtypes, dtype) if hasattr(ml_dtypes, dtype) else dtype)
    builder = Builder()
    module = Module(builder.output(builder.call("copy", builder.constant(values, name="w"))))
    check(exported(module))
    proto, document = export_model(module)
    save_model(proto, document.tensors, tmp_path / "m.onnx", external_bytes=0)
    back = forge.from_onnx(tmp_path / "m.onnx")
    (got,) = interp.run_module(back.mod, {})
    assert got.dtype == values.dtype
    np.testing.assert_array_equal(got, values)


def test_params_become_initializers_under_their_names() -> None:
    text = "g (float[2, 3] x) => (float[2, 2] y) { y = MatMul(x, weight) }"
    ir = forge.from_onnx(model(text, weight=example(1, 3, 2)), freeze_params=False)
    made = onnx_of(ir)
    assert [t.name for t in made.graph.initializer] == ["weight"]
    assert [i.name for i in made.graph.input] == ["x"]


def test_if_loop_and_scan() -> None:
    round_trip("""
    g (bool c, float[n] x, float k) => (float[n] y) {
        y = If (c) <then_branch = t () => (a) { a = Add(x, k) }, else_branch = e () => (b) { b = Mul(x, k) }>
    }""", True, example(0, 4), np.float32(3))
    round_trip("""
    g (float[2] x, int64 count) => (float[2] y, float[m, 2] all) {
        go = Constant <value = bool {1}> ()
        y, all = Loop (count, go, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] u) {
            d = Identity(c)
            t = Add(s, x)
            u = Mul(t, t)
        }>
    }""", example(1, 2), np.int64(3))
    round_trip("""
    g (float[2] start, float[k, 2] rows) => (float[2] last, float[k, 2] sums) {
        last, sums = Scan <num_scan_inputs = 1, body = b (float[2] s, float[2] r) => (float[2] t, float[2] u) {
            t = Add(s, r)
            u = Identity(t)
        }> (start, rows)
    }""", example(2, 2), example(3, 5, 2))


def test_functions_are_inlined() -> None:
    text = "g (float[2, 3] x) => (float[2, 2] y) { h = MatMul(x, w)\n y = Relu(h) }"
    ir = forge.from_onnx(model(text, w=example(1, 3, 2)))
    assert ir.partition("dsp", lambda node: True) == 1
    made = onnx_of(ir)
    assert not made.functions
    assert ir.subgraph_count == 1
    data = example(4, 2, 3)
    np.testing.assert_allclose(onnxruntime_outputs(made, [data])[0], np.maximum(data @ example(1, 3, 2), 0), rtol=1e-6)


def test_symbolic_sizes_are_computed() -> None:
    builder = Builder()
    n, m = dims.symbol("n"), dims.symbol("m")
    x = builder.input(TensorType((n, m), "float32"), "x")
    flat = builder.call("reshape", x, newshape=(n * m,))
    grown = builder.call("broadcast_to", builder.constant(np.float32(2)), shape=(dims.floordiv(n + m, 2), dims.maximum(n, m)))
    made = exported(Module(builder.output(flat, grown)))
    data = example(5, 3, 4)
    got = onnxruntime_outputs(made, [data])
    np.testing.assert_array_equal(got[0], data.reshape(-1))
    assert got[1].shape == (3, 4)


@pytest.mark.parametrize("opset", range(18, 27))
def test_opsets(opset: int) -> None:
    builder = Builder()
    x = builder.input(TensorType((2, 3, 4), "float32"), "x")
    y = builder.call("nn.gelu", builder.call("nn.silu", x))
    y = builder.call("nn.rms_norm", y, builder.constant(np.ones(4, np.float32)))
    y = builder.call("max", builder.call("nn.softmax", y), axis=(1,))
    module = Module(builder.output(y))
    made = exported(module, opset)
    assert made.opset_import[0].version == opset
    data = example(6, 2, 3, 4)
    np.testing.assert_allclose(onnxruntime_outputs(made, [data])[0], interp.run_graph(module.main, [data])[0], rtol=1e-5)


@pytest.mark.parametrize("opset", [17, 27, True, "21"])
def test_wrong_opset(opset: Any) -> None:
    builder = Builder()
    module = Module(builder.output(builder.input(TensorType((), "float32"), "x")))
    with pytest.raises(OptionError, match=r"opset: got .*; expected 18 to 26"):
        export_model(module, opset)


def test_all_that_cannot_be_written_is_listed() -> None:
    builder = Builder()
    x = builder.input(TensorType((3, 3), "float32"), "x")
    y = builder.call("linalg.inverse", x, name="inv")
    z = builder.call("linalg.cholesky", builder.call("nn.relu", y), name="chol")
    module = Module(builder.output(z))
    with pytest.raises(OpNotImplemented) as raised:
        forge.IRModule(module).to_onnx()
    message = str(raised.value)
    assert message.startswith("to_onnx: 2 nodes cannot be written as ONNX of opset 26 (linalg.cholesky, linalg.inverse)")
    assert "inv (linalg.inverse): ONNX has no such operator" in message and "chol (linalg.cholesky)" in message
    assert [label for label, _ in unsupported_nodes(module)] == ["inv (linalg.inverse)", "chol (linalg.cholesky)"]


def weighted(size: int) -> forge.IRModule:
    text = f"g (float[2, {size}] x) => (float[2, {size}] y) {{ h = MatMul(x, w)\n y = Add(h, b) }}"
    return forge.from_onnx(model(text, w=example(1, size, size), b=example(2, size)))


def test_external_data(tmp_path: Path) -> None:
    ir = weighted(64)
    path = tmp_path / "m.onnx"
    ir.to_onnx(path, external_bytes=1024)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    onnx.checker.check_model(str(path), full_check=True)
    inline = onnx.load(path)
    locations = {t.name: t.data_location for t in onnx.load(path, load_external_data=False).graph.initializer}
    assert sorted(locations.values()) == [onnx.TensorProto.DEFAULT, onnx.TensorProto.EXTERNAL]
    data = example(3, 2, 64)
    import onnxruntime

    got = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": data})
    np.testing.assert_array_equal(got[0], onnxruntime.InferenceSession(inline.SerializeToString()).run(None, {"x": data})[0])
    assert hash(forge.from_onnx(path)) == hash(ir)


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ir = weighted(64)
    path = tmp_path / "m.onnx"
    ir.to_onnx(path, external_bytes=0)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("forge.exporters.onnx.files._write", fail)
    with pytest.raises(OSError, match="disk full"):
        weighted(32).to_onnx(path, external_bytes=0)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="external_bytes: got -1; expected a number of bytes from 0 on"):
        weighted(4).to_onnx(tmp_path / "m.onnx", external_bytes=-1)
    with pytest.raises(OSError, match=r"there is no folder .*missing; create it first"):
        weighted(4).to_onnx(tmp_path / "missing" / "m.onnx")


def test_bias_joins_its_product() -> None:
    text = """
    g (float[1, 2, 5, 5] x) => (float[1, 3, 3, 3] y) {
        c = Conv(x, w)
        d = Add(c, b)
        y = Relu(d)
    }"""
    made = round_trip(text, example(0, 1, 2, 5, 5), w=example(1, 3, 2, 3, 3), b=example(2, 3, 1, 1))
    assert [n.op_type for n in made.graph.node][-1] == "Relu"
    made = round_trip("g (float[2, 3] x) => (float[2, 4] y) { y = Gemm <transB = 1> (x, w, b) }", example(3, 2, 3),
                      w=example(4, 4, 3), b=example(5, 4))
    assert [n.op_type for n in made.graph.node] == ["Gemm"]
    assert made.graph.output[0].name == "y"


def quantized(seed: int, *shape: int, dtype: str = "uint8") -> np.ndarray:
    low, high = (-127, 127) if dtype == "int8" else (0, 255)
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_products_of_narrow_integers(dtype: str) -> None:
    made = round_trip(f"""
    g ({dtype}[1, 2, 5, 5] x, float s, {dtype} z) => ({dtype}[1, 3, 3, 3] y) {{
        y = QLinearConv(x, s, z, w, ws, wz, s, z)
    }}""", quantized(0, 1, 2, 5, 5, dtype=dtype), np.float32(0.5), np.array(7, dtype),
        w=quantized(1, 3, 2, 3, 3, dtype="int8"), ws=np.float32(0.01), wz=np.int8(0))
    assert "ConvInteger" in {n.op_type for n in made.graph.node}
    assert "Sub" not in {n.op_type for n in made.graph.node}
    made = round_trip(f"""
    g ({dtype}[4, 5] a, {dtype} az, uint8[5, 3] b, uint8 bz) => (int32[4, 3] y) {{ y = MatMulInteger(a, b, az, bz) }}""",
        quantized(2, 4, 5, dtype=dtype), np.array(3, dtype), quantized(3, 5, 3), np.uint8(100))
    assert [n.op_type for n in made.graph.node if n.op_type != "Reshape"] == ["MatMulInteger"]


def test_what_nobody_reads_is_left_out() -> None:
    builder = Builder()
    x = builder.input(TensorType((2,), "float32"), "x")
    builder.call("exp", builder.call("add", x, builder.constant(np.ones(2, np.float32), name="unused")))
    made = exported(Module(builder.output(builder.call("nn.relu", x))))
    assert [n.op_type for n in made.graph.node] == ["Relu"]
    assert not made.graph.initializer


def test_a_later_opset_is_taken_where_it_is_needed() -> None:
    builder = Builder()
    x = builder.input(TensorType((2,), "float32"), "x")
    module = Module(builder.output(builder.call("reinterpret", x, dtype="int32")))
    assert exported(module).opset_import[0].version == 26
    with pytest.raises(OpNotImplemented, match="needs ONNX's BitCast, which opset 25 lacks"):
        export_model(module, 25)


def test_names_that_nodes_without_one_would_get_are_kept() -> None:
    """As in a model that was exported before."""
    ir = forge.IRModule("""def @main(%x: Tensor[(2, 3), float32]) { exp(nn.relu(nn.relu(tan(%x)))) }""")
    with ir.edit() as e:
        for node, name in zip(ir.main, ("Relu_7", "Relu_1", "Tan_0")):
            e.rename(node.result, name)
    once = ir.to_onnx()
    assert once is not None
    twice = forge.from_onnx(once).to_onnx()
    assert twice is not None
    for made in (once, twice):
        assert [name for node in made.graph.node for name in node.output][:3] == ["Relu_7", "Relu_1", "Tan_0"]
