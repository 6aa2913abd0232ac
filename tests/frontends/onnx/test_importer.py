"""Inputs, symbols, parameters, names, functions, sub-graphs and errors of the importer."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge.errors import ForgeError, ImportModelError, OpAttributeInvalid, OpNotImplemented, OptionError
from forge.frontends import scope
from forge.frontends.onnx import convert, import_model, register, unregister, unsupported_operators
from forge.ir.graph import Module
from tests.frontends.onnx.support import evaluate, example, model, ops, run

DENSE = "g (float[batch, 4] x) => (float[batch, 2] y) { h = MatMul(x, w)  y = Add(h, b) }"


def dense() -> onnx.ModelProto:
    return model(DENSE, w=example(0, 4, 2), b=example(1, 2))


def shapes(module: Module) -> list[str]:
    return [str(v.type) for v in module.main.inputs]


def test_names_of_values_and_nodes_are_kept() -> None:
    module = import_model(dense())
    assert [v.name for v in module.main.inputs] == ["x"]
    assert [v.name for v in module.main.outputs] == ["y"]
    assert {"h", "y"} <= {v.name for n in module.main.nodes for v in n.results}
    assert {n.name for n in module.main.nodes if n.op != "constant"} == {"MatMul_0", "Add_1"}


def test_names_that_functions_repeat_are_made_unique() -> None:
    functions = '<domain: "f", opset_import: ["" : 21]> Twice (a) => (b) { t = Add(a, a)  b = Relu(t) }'
    graph = "g (float[2] x) => (float[2] y) { t = f.Twice(x)  y = f.Twice(t) }"
    module = import_model(model(graph, functions=functions, domains={"f": 1}))
    names = [v.name for n in module.main.nodes for v in n.results]
    assert len(set(names)) == len(names)
    assert module.main.outputs[0].name == "y"


def test_symbols_are_shared_by_name() -> None:
    graph = "g (float[batch, 4] x, float[batch, 4] z) => (float[batch, 4] y) { y = Add(x, z) }"
    module = import_model(model(graph))
    assert shapes(module) == ["Tensor[(batch, 4), float32]"] * 2
    assert str(module.main.outputs[0].type) == "Tensor[(batch, 4), float32]"


def test_sizes_without_a_name_get_one() -> None:
    proto = model("g (float[2] x, float[3, 4] z) => (float[2] y) { y = Relu(x) }")
    for dim in proto.graph.input[1].type.tensor_type.shape.dim:
        dim.Clear()
    assert shapes(import_model(proto))[1] == "Tensor[(input_1_dim0, input_1_dim1), float32]"


def test_shape_fixes_symbols_everywhere() -> None:
    graph = "g (float[batch, 4] x, float[batch, n] z) => (float[batch, 4] y) { y = Relu(x) }"
    module = import_model(model(graph), shape={"x": (3, 4)})
    assert shapes(module) == ["Tensor[(3, 4), float32]", "Tensor[(3, n), float32]"]


def test_shape_may_keep_and_rename() -> None:
    module = import_model(dense(), shape={"x": ("rows", None)})
    assert shapes(module) == ["Tensor[(rows, 4), float32]"]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"x": (3, 5)}, r"axis 1: shape= gives 5; the model declares 4"),
        ({"x": (3,)}, r"shape= gives \(3,\); the model declares Tensor\[\(batch, 4\), float32\] of rank 2"),
        ({"x": (-2, 4)}, r"shape= gives -2; expected a size"),
        ({"x": (1.5, 4)}, r"shape= gives 1.5; expected a size"),
        ({"w": (4, 2)}, r"shape= names 'w'; expected an input: x"),
    ],
)
def test_shape_that_contradicts_the_model(shape: Any, message: str) -> None:
    with pytest.raises(ImportModelError, match=message):
        import_model(dense(), shape=shape)


def test_shape_that_contradicts_itself() -> None:
    graph = "g (float[batch, 4] x, float[batch, 4] z) => (float[batch, 4] y) { y = Add(x, z) }"
    message = r"input 'z', axis 0: shape= gives 3; the model declares batch; input 'x', axis 0 gives 2 for 'batch'; expected them"
    with pytest.raises(ImportModelError, match=message):
        import_model(model(graph), shape={"x": (2, 4), "z": (3, 4)})


def test_input_without_shape_needs_one() -> None:
    proto = dense()
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ImportModelError, match=r"input 'x': the model declares no shape.*give it one with shape="):
        import_model(proto)
    assert shapes(import_model(proto, shape={"x": (3, 4)})) == ["Tensor[(3, 4), float32]"]


def test_dtype_by_name_replaces_and_a_single_one_fills_in() -> None:
    graph = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
    assert shapes(import_model(model(graph), dtype={"x": "float64"})) == ["Tensor[(2), float64]"]
    proto = model(graph)
    proto.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UNDEFINED
    assert shapes(import_model(proto, dtype="float64")) == ["Tensor[(2), float64]"]
    with pytest.raises(ImportModelError, match="unknown dtype"):
        import_model(proto, dtype="float31")


def test_single_dtype_that_contradicts_the_model() -> None:
    mixed = model("g (float[2] x, int64[2] i) => (float[2] y) { y = Relu(x) }")
    for dtype in ("float32", "int64"):
        assert shapes(import_model(mixed, dtype=dtype)) == ["Tensor[(2), float32]", "Tensor[(2), int64]"]
    message = r"input 'x': dtype= gives float64; the model declares float32; pass dtype=\{'x': 'float64'\} to replace that"
    with pytest.raises(ImportModelError, match=message):
        import_model(mixed, dtype="float64")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shape": [(2, 4)]}, r"shape: got \[\(2, 4\)\]; expected shapes by name"),
        ({"shape": {0: (2, 4)}}, r"shape: got \{0: \(2, 4\)\}; expected shapes by name"),
        ({"shape": {"x": 2}}, "shape: got 2 for 'x'; expected a tuple of sizes"),
        ({"shape": {"x": "24"}}, "shape: got '24' for 'x'; expected a tuple of sizes"),
        ({"dtype": np.float32}, "dtype: got <class 'numpy.float32'>; expected an element type"),
        ({"dtype": {"x": 1}}, r"dtype: got \{'x': 1\}; expected an element type"),
        ({"opset": "13"}, "opset: got '13'; expected a number"),
        ({"opset": True}, "opset: got True; expected a number"),
        ({"freeze_params": None}, "freeze_params: got None; expected True or False"),
        ({"convert_config": {"fast": True}}, "convert_config: unknown entry 'fast'; expected use_nt_batch_matmul"),
        ({"convert_config": {"use_nt_batch_matmul": 1}}, "use_nt_batch_matmul: got 1; expected True or False"),
        ({"convert_config": ["drop_zipmap"]}, r"convert_config: got \['drop_zipmap'\]; expected options by name, as in {'use_nt"),
        ({"export_node_renamed_model_path": 3}, r"export_node_renamed_model_path: got 3; expected a path"),
    ],
)
def test_arguments_of_the_wrong_kind(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        import_model(dense(), **arguments)


def test_initializer_that_is_an_input_as_well_is_a_parameter() -> None:
    proto = dense()
    proto.graph.input.append(onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [4, 2]))
    assert [v.name for v in import_model(proto).main.inputs] == ["x"]


def test_parameters_stay_inputs_in_the_order_of_the_model() -> None:
    nodes = "h = Gemm(x, w2, b2)  z = Gemm(h, w1)  y = Reshape(z, s)"
    weights = {"w1": example(0, 3, 8), "b2": example(1, 3), "w2": example(2, 4, 3), "unused": example(3, 5)}
    proto = model(f"g (float[1, 4] x) => (float[1, 8] y) {{ {nodes} }}", **weights, s=np.array([1, 8]))
    module = import_model(proto, freeze_params=False)
    assert [v.name for v in module.main.inputs] == ["x", "w1", "b2", "w2"]
    assert list(module.params) == ["w1", "b2", "w2"]
    x = example(4, 1, 4)
    np.testing.assert_allclose(evaluate(module, x)[0], run(proto, x)[0], rtol=1e-6)


def test_parameter_that_stands_for_an_attribute_is_no_input() -> None:
    proto = model("g (float[2, 3] x) => (float[2, 3] y) { y = Clip(x, low, high) }", low=np.float32(-0.5), high=np.float32(0.5))
    module = import_model(proto, freeze_params=False)
    assert [v.name for v in module.main.inputs] == ["x"]
    assert module.main.find("clip").attributes == {"a_min": -0.5, "a_max": 0.5}


def test_convert_config() -> None:
    graph = "g (float[2, 3, 4] x, float[2, 4, 5] z) => (float[2, 3, 5] y) { y = MatMul(x, z) }"
    assert ops(import_model(model(graph), convert_config={"use_nt_batch_matmul": False})) == ["nn.matmul"]
    assert ops(import_model(model(graph))) == ["transpose", "nn.batch_matmul"]
    assert ops(import_model(model(graph.replace("float[2, 4, 5]", "float[1, 4, 5]")))) == ["nn.matmul"]
    proto = model(graph)
    x, z = example(0, 2, 3, 4), example(1, 2, 4, 5)
    np.testing.assert_allclose(run(proto, x, z, convert_config={"use_nt_batch_matmul": True})[0], x @ z, rtol=1e-5, atol=1e-6)


def test_opset_override() -> None:
    proto = model("g (float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax<axis=1>(x) }", opset=13)
    x = example(0, 2, 3, 4)
    along = run(proto, x)[0]
    flat = run(proto, x, opset=11)[0]
    np.testing.assert_allclose(along.sum(axis=1), np.ones((2, 4)), rtol=1e-5)
    np.testing.assert_allclose(flat.sum(axis=(1, 2)), np.ones(2), rtol=1e-5)


def test_outputs_that_repeat_or_pass_through_are_values_of_their_own() -> None:
    nodes = "a = Identity(x)  b = Relu(x)  c = Identity(b)  d = Identity(w)"
    graph = f"g (float[2] x) => (float[2] a, float[2] b, float[2] c, float[2] d) {{ {nodes} }}"
    module = import_model(model(graph, w=example(0, 2)))
    assert [v.name for v in module.main.outputs] == ["a", "b", "c", "d"]
    assert len({id(v) for v in module.main.outputs}) == 4
    x = example(1, 2)
    results = evaluate(module, x)
    np.testing.assert_array_equal(results[0], x)
    np.testing.assert_array_equal(results[2], np.maximum(x, 0))


def test_shape_arithmetic_is_resolved() -> None:
    graph = """g (float[batch, length, 12] x) => (float[batch, length, 3, 4] y) {
        s = Shape(x)
        b = Gather(s, i0)
        l = Gather(s, i1)
        b1 = Unsqueeze(b, a0)
        l1 = Unsqueeze(l, a0)
        t = Concat<axis=0>(b1, l1, tail)
        y = Reshape(x, t)
    }"""
    weights = {"i0": np.array(0), "i1": np.array(1), "a0": np.array([0]), "tail": np.array([-1, 4])}
    module = import_model(model(graph, **weights))
    assert ops(module) == ["reshape"]
    assert str(module.main.outputs[0].type) == "Tensor[(batch, length, 3, 4), float32]"


def test_shape_arithmetic_of_numbers_is_folded() -> None:
    graph = """g (float[2, 6] x) => (float[2, 6] y) {
        s = Shape(x)
        n = Gather(s, i1)
        f = Cast<to=1>(n)
        r = Sqrt(f)
        y = Div(x, r)
    }"""
    module = import_model(model(graph, i1=np.array(1)))
    assert ops(module) == ["divide"]


def test_position_table_cut_to_the_length_lines_up() -> None:
    graph = """g (float[batch, length, 3] x) => (float[batch, length, 3] y) {
        s = Shape<start=1, end=2>(x)
        p = Slice(table, zero, s, zero)
        y = Add(x, p)
    }"""
    module = import_model(model(graph, table=example(0, 8, 3), zero=np.array([0])))
    assert str(module.main.outputs[0].type) == "Tensor[(batch, length, 3), float32]"
    x = example(1, 2, 5, 3)
    np.testing.assert_allclose(evaluate(module, x)[0], x + example(0, 8, 3)[:5], rtol=1e-6)
    with pytest.raises((ForgeError, ValueError)):
        evaluate(module, example(1, 2, 9, 3))


def test_all_unsupported_operators_are_reported_at_once() -> None:
    graph = """g (bool c, float[2] x) => (float[2] y) {
        a = acme.Foo(x)
        b = acme.Foo(a)
        d = Mystery(b)
        y = If(c) <
            then_branch = t () => (float[2] z) { z = acme.Bar(d) },
            else_branch = e () => (float[2] z) { z = f.Own(d) }
        >
    }"""
    functions = '<domain: "f", opset_import: ["" : 21, "acme" : 1]> Own (a) => (b) { b = acme.Baz(a) }'
    proto = model(graph, functions=functions, domains={"acme": 1, "f": 1})
    assert unsupported_operators(proto) == ["acme.Foo", "ai.onnx.Mystery", "acme.Bar", "acme.Baz"]
    with pytest.raises(OpNotImplemented) as caught:
        import_model(proto)
    message = str(caught.value)
    assert "4 operators are not supported" in message
    assert "acme.Foo (opset 1): 2x, first at node 'Foo_0'" in message
    assert "ai.onnx.Mystery (opset 21): 1x, first at node 'Mystery_2'" in message
    assert "acme.Bar (opset 1): 1x, first at node 'If_3/Bar_0'" in message
    assert "forge.frontends.onnx.register" in message
    assert isinstance(caught.value, NotImplementedError)


def test_errors_name_model_node_operator_and_opset() -> None:
    proto = model("graph_name (float[2, 3] x) => (float[2] y) { h = Relu(x)  y = Concat<axis=5>(h, h) }")
    proto.graph.node[1].name = "joined"
    with pytest.raises(
        OpAttributeInvalid, match=r"graph_name: node 'joined' \(Concat, opset 21\): axis: got 5; expected -2 to 1 for rank 2"
    ):
        import_model(proto)


def test_errors_of_type_inference_become_import_errors() -> None:
    proto = model("g (float[2, 3] x, float[4] z) => (float[2] y) { y = Add(x, z) }")
    with pytest.raises(ImportModelError, match=r"node 'Add_0' \(Add, opset 21\).*broadcast"):
        import_model(proto)


def test_errors_in_sub_graphs_name_the_whole_path() -> None:
    graph = """g (bool c, float[2, 3] x) => (float[2] y) {
        y = If(c) <
            then_branch = t () => (float[2] z) { z = Transpose<perm=[0, 0]>(x) },
            else_branch = e () => (float[2] z) { z = Identity(x) }
        >
    }"""
    with pytest.raises(ImportModelError, match=r"node 'If_0' \(If, opset 21\): node 'Transpose_0'"):
        import_model(model(graph))


def test_value_that_nothing_defines() -> None:
    with pytest.raises(ImportModelError, match="value 'z' is used but nothing defines it"):
        import_model(model("g (float[2] x) => (float[2] y) { y = Add(x, z) }"))


def test_value_defined_twice() -> None:
    with pytest.raises(ImportModelError, match="value 'x' is defined twice"):
        import_model(model("g (float[2] x) => (float[2] x) { x = Relu(x) }"))


def test_output_that_nothing_defines() -> None:
    with pytest.raises(ImportModelError, match="value 'z' is used"):
        import_model(model("g (float[2] x) => (float[2] z) { y = Relu(x) }"))


def test_too_many_outputs() -> None:
    with pytest.raises(ImportModelError, match="got 2 outputs; expected at most 1"):
        import_model(model("g (float[2] x) => (float[2] y) { y, z = Relu(x) }"))


def test_model_local_function_with_attributes_and_defaults() -> None:
    functions = """<domain: "f", opset_import: ["" : 21]>
        Leaky <slope: float = 0.5> (a) => (b) { b = LeakyRelu<alpha: float = @slope>(a) }"""
    graph = "g (float[2] x) => (float[2] y, float[2] z) { y = f.Leaky<slope: float = 0.25>(x)  z = f.Leaky(x) }"
    x = np.array([-1.0, 1.0], np.float32)
    y, z = run(model(graph, functions=functions, domains={"f": 1}), x)
    assert y.tolist() == [-0.25, 1.0]
    assert z.tolist() == [-0.5, 1.0]


def test_model_local_function_hides_a_built_in_operator() -> None:
    functions = '<domain: "", opset_import: ["" : 21]> Relu (a) => (b) { b = Neg(a) }'
    graph = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
    assert run(model(graph, functions=functions), np.ones(2, np.float32))[0].tolist() == [-1, -1]


def test_function_imports_its_own_opset() -> None:
    functions = '<domain: "f", opset_import: ["" : 11]> Flat (a) => (b) { b = Softmax<axis=1>(a) }'
    graph = "g (float[2, 3, 4] x) => (float[2, 3, 4] y) { y = f.Flat(x) }"
    (y,) = run(model(graph, functions=functions, domains={"f": 1}), example(0, 2, 3, 4))
    np.testing.assert_allclose(y.sum(axis=(1, 2)), np.ones(2), rtol=1e-5)


def test_function_with_absent_optional_input() -> None:
    functions = '<domain: "f", opset_import: ["" : 21]> Limit (a, low) => (b) { b = Clip(a, low) }'
    graph = "g (float[2] x) => (float[2] y) { y = f.Limit(x) }"
    x = example(0, 2)
    np.testing.assert_array_equal(run(model(graph, functions=functions, domains={"f": 1}), x)[0], x)


def test_functions_that_call_each_other_for_ever() -> None:
    functions = """<domain: "f", opset_import: ["" : 21, "f" : 1]> A (a) => (b) { b = f.B(a) }
        <domain: "f", opset_import: ["" : 21, "f" : 1]> B (a) => (b) { b = f.A(a) }"""
    with pytest.raises(ImportModelError, match="nested more than"):
        import_model(model("g (float[2] x) => (float[2] y) { y = f.A(x) }", functions=functions, domains={"f": 1}))


def test_functions_that_expand_to_billions_of_nodes_are_refused_before_any_is_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "convert_node", lambda *_: pytest.fail("a node was converted"))
    calls = [
        f'<domain: "f", opset_import: ["" : 21, "f" : 1]> F{i} (a) => (b) {{ c = f.F{i + 1}(a)  b = f.F{i + 1}(c) }}'
        for i in range(30)
    ]
    last = '<domain: "f", opset_import: ["" : 21]> F30 (a) => (b) { b = Relu(a) }'
    graph = "g (float[2] x) => (float[2] y) { y = f.F0(x) }"
    with pytest.raises(ImportModelError, match="expand to more than 56200 nodes"):
        import_model(model(graph, functions="\n".join([*calls, last]), domains={"f": 1}))


def test_branches_that_expand_too_far_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope, "MIN_EXPANSION", 20)
    monkeypatch.setattr(scope, "EXPANSION_FACTOR", 0)
    calls = [
        f"""<domain: "f", opset_import: ["" : 21, "f" : 1]> F{i} (a) => (b) {{
            k = Constant<value = bool {{1}}>()
            b = If (k) <
                then_branch = t () => (u) {{ v = f.F{i + 1}(a)  u = f.F{i + 1}(v) }}, else_branch = e () => (w) {{ w = Relu(a) }}
            >
        }}"""
        for i in range(10)
    ]
    last = '<domain: "f", opset_import: ["" : 21]> F10 (a) => (b) { b = Relu(a) }'
    graph = "g (float[2] x) => (float[2] y) { y = f.F0(x) }"
    with pytest.raises(ImportModelError, match="expand to more than 20 nodes"):
        import_model(model(graph, functions="\n".join([*calls, last]), domains={"f": 1}))


def test_schema_body_stands_in_for_a_missing_row() -> None:
    x = example(0, 2, 6)
    (y,) = run(model("g (float[2, 6] x) => (float[2, 6] y) { y = SwiGLU(x, x) }", opset=28), x)
    np.testing.assert_allclose(y, x / (1 + np.exp(-x)) * x, rtol=1e-5)


BRANCHES = """
    then_branch = t () => (float[n] z) { z = Add(x, w) },
    else_branch = e () => (float[n] z) { u = Mul(x, x)  z = Sub(u, v) }
"""


def test_branches_are_closed_regions() -> None:
    graph = f"g (bool c, float[2] x, float[2] v) => (float[n] y) {{ y = If(c) <{BRANCHES}> }}"
    proto = model(graph, w=np.array([1, 2], np.float32))
    module = import_model(proto)
    node = module.main.find("if")
    assert [v.name for v in node.operands if v is not None] == ["c", "x", "v"]
    assert all(len(region.inputs) == 2 for region in node.regions)
    x, v = example(0, 2), example(1, 2)
    np.testing.assert_allclose(evaluate(module, np.array(True), x, v)[0], x + np.array([1, 2]), rtol=1e-6)
    np.testing.assert_allclose(evaluate(module, np.array(False), x, v)[0], x * x - v, rtol=1e-6)


@pytest.mark.parametrize("taken", [True, False])
def test_branch_that_is_known_is_converted_in_place(taken: bool) -> None:
    graph = f"g (float[2] x, float[2] v) => (float[n] y) {{ y = If(c) <{BRANCHES}> }}"
    module = import_model(model(graph, w=np.array([1, 2], np.float32), c=np.array(taken)))
    assert ops(module) == (["add"] if taken else ["multiply", "subtract"])


def test_loop_with_a_size_that_grows() -> None:
    graph = """g (int64 n, float[1] x) => (float[m] y, float[k, 2] trace) {
        y, trace = Loop(n, , x) <body = b (int64 i, bool c, float[p] a) => (bool d, float[p] q, float[2] s) {
            d = Identity(c)
            q = Concat<axis=0>(a, x)
            s = Concat<axis=0>(x, x)
        }>
    }"""
    module = import_model(model(graph))
    x = np.array([3.0], np.float32)
    y, trace = evaluate(module, np.array(4), x)
    assert y.tolist() == [3.0] * 5
    assert trace.shape == (4, 2)


def test_scan_accumulates() -> None:
    graph = """g (float[2] s, float[3, 2] x) => (float[2] last, float[3, 2] sums) {
        last, sums = Scan(s, x) <num_scan_inputs = 1, body = b (float[2] a, float[2] e) => (float[2] t, float[2] u) {
            t = Add(a, e)
            u = Identity(t)
        }>
    }"""
    x = example(0, 3, 2)
    last, sums = run(model(graph), np.zeros(2, np.float32), x)
    np.testing.assert_allclose(sums, np.cumsum(x, axis=0), rtol=1e-6)
    np.testing.assert_allclose(last, x.sum(axis=0), rtol=1e-6)


@pytest.mark.parametrize(("value", "got"), [("one", "STRING"), (1.5, "FLOAT"), ([0, 1], "INTS")])
def test_attribute_of_another_kind(value: Any, got: str) -> None:
    proto = model("g (float[2, 3] x) => (float[2, 3] y) { y = Softmax<axis=0>(x) }")
    proto.graph.node[0].attribute[0].CopyFrom(onnx.helper.make_attribute("axis", value))
    with pytest.raises(OpAttributeInvalid, match=f"attribute 'axis': got kind {got}; expected INT"):
        import_model(proto)


def test_attribute_of_another_kind_without_a_schema() -> None:
    register("Twice", lambda g, x, *, factor=2: x, domain="com.acme")
    try:
        proto = model("g (float[2] x) => (float[2] y) { y = com.acme.Twice<factor=[1]>(x) }", domains={"com.acme": 1})
        with pytest.raises(OpAttributeInvalid, match=r"attribute 'factor': got \(1,\); expected int"):
            import_model(proto)
    finally:
        unregister("Twice", domain="com.acme")


def test_whole_number_for_a_float() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = LeakyRelu(x) }")
    proto.graph.node[0].attribute.append(onnx.helper.make_attribute("alpha", 2))
    assert run(proto, np.array([-1, 1], np.float32))[0].tolist() == [-2, 1]


def test_attribute_given_twice() -> None:
    proto = model("g (float[2, 3] x) => (float[2, 3] y) { y = Softmax<axis=0>(x) }")
    proto.graph.node[0].attribute.append(onnx.helper.make_attribute("axis", 1))
    with pytest.raises(OpAttributeInvalid, match="'axis' is given twice"):
        import_model(proto)


@settings(max_examples=120)
@given(st.data())
def test_mutilated_models_raise_located_errors_only(data: st.DataObject) -> None:
    graph = """g (float[n, 4] x) => (float[n, 2] y) {
        h = Gemm<transB=1>(x, w, b)
        s = Softmax<axis=1>(h)
        t = Transpose<perm=[1, 0]>(s)
        u = Reshape(t, shape)
        y = Slice(u, start, end, axes)
    }"""
    proto = model(graph, w=example(0, 6, 4), b=example(1, 6), shape=np.array([-1, 6]), start=np.array([0]), end=np.array([2]),
                  axes=np.array([1]))  # fmt: skip
    node = data.draw(st.sampled_from(list(proto.graph.node)))
    match data.draw(st.sampled_from(["input", "attribute", "output", "type", "weight"])):
        case "input":
            node.input[data.draw(st.integers(0, len(node.input) - 1))] = data.draw(
                st.sampled_from(["", "x", "w", "shape", "gone"])
            )
        case "attribute" if node.attribute:
            values: list[Any] = [-7, 99, 1.5, [3, 3], "text"]
            made = onnx.helper.make_attribute(node.attribute[0].name, data.draw(st.sampled_from(values)))
            empty = onnx.AttributeProto(name=node.attribute[0].name, type=onnx.AttributeProto.INTS)
            node.attribute[0].CopyFrom(data.draw(st.sampled_from([made, empty, onnx.helper.make_attribute("axis", 7)])))
        case "output":
            node.output.append("more")
        case "type":
            node.op_type = data.draw(
                st.sampled_from(["Conv", "Expand", "Gather", "LSTM", "TopK", "If", "Loop", "Resize", "Pad", "Nope"])
            )
        case "weight":
            tensor = data.draw(st.sampled_from(list(proto.graph.initializer)))
            tensor.CopyFrom(
                onnx.numpy_helper.from_array(data.draw(st.sampled_from([example(0, 3), np.array([1 << 62, -5])])), tensor.name)
            )
    try:
        import_model(proto)
    except ForgeError as error:
        assert str(error).startswith("g: ")


def test_an_input_that_is_an_initializer_is_given_where_its_shape_is() -> None:
    proto = model("g (float[n, 3] x, float[a, 3] w) => (float[n, 3] y) { y = Add(x, w) }", w=np.ones((1, 3), np.float32))
    x, w = example(0, 2, 3), example(1, 2, 3)
    np.testing.assert_allclose(run(proto, x)[0], x + 1)
    np.testing.assert_allclose(run(proto, x, w, shape={"w": (None, 3)})[0], x + w)
