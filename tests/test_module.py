"""The facade: what users see of a model, and what they may do to it without compiling."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import forge
from forge.errors import ForgeError, ImportModelError, InvalidGraphError, OptionError, ParseError, TVMError
from forge.ir import Builder, Module, Node, TensorType
from forge.ir.edits.rewrite import Rule, anything, call
from forge.ir.parser import parse_module
from forge.ir.printer import print_module

CLASSIFIER = """def @main(%image: Tensor[(n, 3, 8, 8), float32], %scale: Tensor[(3, 1, 1), float32], \
%w: Tensor[(4, 3, 3, 3), float32]) {
  %0 = multiply(%image, %scale);
  %1 = nn.conv2d(%0, %w, padding=[1, 1, 1, 1], kernel_size=[3, 3]);
  %2 = nn.relu(%1);
  %3 = nn.global_avg_pool2d(%2);
  %4 = nn.batch_flatten(%3);
  (nn.softmax(%4), %2)
}
"""
WEIGHTS = {"w": np.linspace(-1, 1, 108, dtype=np.float32).reshape(4, 3, 3, 3)}


def example() -> forge.IRModule:
    return forge.IRModule(CLASSIFIER, WEIGHTS)


def test_names() -> None:
    assert forge.RelayModule is forge.IRModule
    assert issubclass(ForgeError, TVMError) and forge.TVMError is TVMError
    assert {"IRModule", "RelayModule", "from_onnx", "load", "Runtime", "TVMError"} <= set(dir(forge))
    with pytest.raises(AttributeError, match="module 'forge' has no attribute 'from_nowhere'"):
        _ = forge.from_nowhere  # type: ignore[attr-defined]


def test_inputs_leave_out_what_params_binds() -> None:
    ir = example()
    assert ir.input_count == 2
    assert ir.input_names == ["image", "scale"]
    assert [str(s) for s in ir.input_shapes] == ["(n, 3, 8, 8)", "(3, 1, 1)"]
    assert ir.input_dtypes == ["float32", "float32"]
    assert [v.name for v in ir.input_nodes] == ["image", "scale"]
    assert list(ir.params) == ["w"]
    assert forge.IRModule(CLASSIFIER).input_count == 3


def test_shapes_and_dtypes_of_what_is_no_tensor_of_known_rank() -> None:
    ir = forge.IRModule(
        "def @main(%s: Sequence[Tensor[(n), float32]], %o: Optional[Tensor[(4), int64]], %x: Tensor[(2), bool]) "
        "{ (%s, %o, %x) }"
    )
    sequence, optional = "Sequence[Tensor[(n), float32]]", "Optional[Tensor[(4), int64]]"
    assert ir.input_shapes == ir.output_shapes == [None, None, (2,)]
    assert ir.input_dtypes == ir.output_dtypes == [sequence, optional, "bool"]


def test_outputs() -> None:
    ir = example()
    assert ir.output_count == 2
    assert [tuple(map(str, s)) for s in ir.output_shapes] == [("n", "4"), ("n", "4", "8", "8")]
    assert ir.output_dtypes == ["float32", "float32"]
    assert ir.output_names == ["output_0", "output_1"]
    assert isinstance(ir.output_node, Node) and ir.output_node.op == "nn.softmax"


@pytest.mark.parametrize("text", ["def @main(%x: float32) { %x }", "def @main() { () }"])
def test_output_node_needs_a_node(text: str) -> None:
    with pytest.raises(InvalidGraphError, match="output_node: no node produces the first output"):
        _ = forge.IRModule(text).output_node


def test_operators_are_counted_in_regions_and_functions_too() -> None:
    assert example().operators == {
        "multiply": 1, "nn.conv2d": 1, "nn.relu": 1, "nn.global_avg_pool2d": 1, "nn.batch_flatten": 1, "nn.softmax": 1,
    }  # fmt: skip
    ir = forge.IRModule(
        "def @main(%c: bool, %x: float32) { %0 = if(%c, %x) { then_branch = fn (%a: float32) { exp(%a) }, "
        "else_branch = fn (%a: float32) { exp(exp(%a)) } }; @f(add(%0, 1f)) } def @f(%v: float32) { abs(%v) }"
    )
    assert ir.operators == {"exp": 3, "if": 1, "add": 1, "call": 1, "abs": 1}
    assert next(iter(ir.operators)) == "exp"
    assert (ir.graph_count, ir.subgraph_count, list(ir.graphs)) == (2, 1, ["main", "f"])
    assert ir.main is ir.graphs["main"]


def test_iteration_is_over_the_nodes_of_main() -> None:
    ops = [node.op for node in example()]
    assert ops == ["multiply", "nn.conv2d", "nn.relu", "nn.global_avg_pool2d", "nn.batch_flatten", "nn.softmax"]


def test_mod_prints_without_and_typed_mod_with_types() -> None:
    ir = example()
    assert str(ir.mod) == repr(ir.mod) == CLASSIFIER.replace("(nn.softmax(%4), %2)", "%5 = nn.softmax(%4);\n  (%5, %2)")
    typed = str(ir.typed_mod)
    assert "%0 = multiply(%image, %scale) /* ty=Tensor[(n, 3, 8, 8), float32] */;" in typed
    assert "-> (Tensor[(n, 4), float32], Tensor[(n, 4, 8, 8), float32]) {" in typed
    assert str(parse_module(typed)) == str(ir.mod)
    assert "/* ty" not in str(ir.mod)
    assert "&lt;" in forge.IRModule('def @main(%"<": bool) { %"<" }')._repr_html_()


def test_typed_mod_verifies() -> None:
    ir = example()
    ir.main.nodes[0].result.type = TensorType((), "bool")
    with pytest.raises(TVMError, match=r"@main: node %\d+ \(multiply\): result 0 has type bool"):
        _ = ir.typed_mod


def test_repr() -> None:
    assert repr(forge.IRModule("def @main(%x: Tensor[(n), int8]) { abs(%x) }")) == (
        "<forge.IRModule (x: Tensor[(n), int8]) -> (Tensor[(n), int8]); 1 operators>"
    )


def test_hash_and_fingerprint() -> None:
    a, b = example(), example()
    assert a == b and hash(a) == hash(b) and a.fingerprint == b.fingerprint
    other_weights = forge.IRModule(CLASSIFIER, {"w": WEIGHTS["w"] + 1})
    assert other_weights == a and other_weights.fingerprint != a.fingerprint
    other_structure = forge.IRModule(CLASSIFIER.replace("nn.relu", "abs"), WEIGHTS)
    assert other_structure != a and other_structure.fingerprint != a.fingerprint
    assert a != "text" and len({a, b}) == 1


def test_copy_is_independent() -> None:
    ir = example()
    clone = ir.copy()
    assert clone == ir and clone.fingerprint == ir.fingerprint
    clone.main.find("nn.relu").result.name = "renamed"
    clone.params["w"] = WEIGHTS["w"] * 2
    clone.set_batch_size(4)
    assert str(ir.mod) == str(example().mod) and ir.fingerprint == example().fingerprint
    assert clone != ir


def test_what_it_is_given_stays_as_it_is() -> None:
    module = parse_module("def @main(%x: float32) { add(%x, add(1f, 2f)) }")
    before = print_module(module)
    ir = forge.IRModule(module)
    assert print_module(module) == before
    assert "add(%x, 3f)" in str(ir.mod)
    assert "add(%x, 3f)" not in str(forge.IRModule(module, fold_constants=False).mod)
    again = forge.IRModule(ir)
    assert again == ir and again.mod is not ir.mod


@pytest.mark.parametrize(
    ("name", "instead"),
    [("partition_for_tensorrt", r"use forge\.ONNXModule for TensorRT, or IRModule\.partition, which takes any backend"),
     ("inline_partitions", r"use forge\.ONNXModule for TensorRT; IRModule\(ir, inline_partitions=True\) makes one")],
)  # fmt: skip
def test_deprecated_methods_warn_the_caller(name: str, instead: str) -> None:
    ir = forge.IRModule("def @main(%x: Tensor[(2), float32]) { nn.relu(%x) }")
    told = rf"IRModule\.{name} is deprecated and will be removed in a future release; {instead}"
    with pytest.warns(DeprecationWarning, match=told) as caught:
        getattr(ir, name)()
    assert caught[0].filename == __file__


def test_what_stays_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ir = forge.IRModule("def @main(%x: Tensor[(2), float32]) { nn.relu(%x) }")
        assert ir.partition("acme", lambda node: True) == 1
        assert forge.IRModule(ir, inline_partitions=True).subgraph_count == 0


def test_inline_partitions() -> None:
    text = (
        "def @main(%x: Tensor[(n), float32]) { %0 = @f(%x); @f(%0) } def @f(%v: Tensor[(k), float32]) { add(%v, %v) } "
        "def @unused(%v: float32) { %v }"
    )
    assert forge.IRModule(text).graph_count == 3
    ir = forge.IRModule(text, inline_partitions=True)
    assert ir.graph_count == 1 and ir.operators == {"add": 2}
    assert ir.get_inference_function("reference")(np.ones(2, np.float32)).tolist() == [4, 4]


def test_fold_batch_norms() -> None:
    build = Builder()
    x = build.input(TensorType((1, 2, 4, 4), "float32"), "x")
    convolved = build.call("nn.conv2d", x, build.constant(np.ones((3, 2, 1, 1), np.float32)), kernel_size=(1, 1))
    statistics = [build.constant(np.full(3, v, np.float32)) for v in (2, 1, 0, 1)]
    module = Module(build.output(build.call("nn.batch_norm", convolved, *statistics)))
    folded, kept = forge.IRModule(module), forge.IRModule(module, fold_batch_norms=False)
    assert "nn.batch_norm" not in folded.operators and "nn.batch_norm" in kept.operators
    image = np.ones((1, 2, 4, 4), np.float32)
    results = [ir.get_inference_function("reference")(image) for ir in (folded, kept)]
    np.testing.assert_allclose(*results, rtol=1e-5)


@pytest.mark.parametrize("size", [1, 5, np.int64(3)])
def test_set_batch_size_of_a_symbolic_batch(size: int) -> None:
    ir = example()
    ir.set_batch_size(size)
    assert ir.input_shapes[0] == (size, 3, 8, 8)
    assert ir.output_shapes == [(size, 4), (size, 4, 8, 8)]
    assert "Tensor[(n" not in str(ir.typed_mod)


def test_set_batch_size_of_a_fixed_batch() -> None:
    ir = forge.IRModule(CLASSIFIER.replace("(n,", "(1,"), WEIGHTS)
    ir.set_batch_size(6)
    assert ir.output_shapes == [(6, 4), (6, 4, 8, 8)]
    assert ir.input_shapes[1] == (3, 1, 1)
    ir.set_batch_size(2)
    assert ir.get_inference_function("reference")(np.ones((2, 3, 8, 8), np.float32), np.ones((3, 1, 1), np.float32))[0].shape == (
        2,
        4,
    )


@pytest.mark.parametrize(
    ("text", "size", "message"),
    [
        (CLASSIFIER, 0, "got 0; expected a positive integer"),
        (CLASSIFIER, -3, "got -3; expected a positive integer"),
        (CLASSIFIER, True, "got True; expected a positive integer"),
        (CLASSIFIER, 2.0, "got 2.0; expected a positive integer"),
        ("def @main(%x: float32) { %x }", 2, "the model has no input with a dimension"),
        (
            "def @main(%x: Tensor[(2*n, 3), float32]) { %x }",
            3,
            r"got 3; the batch dimension is 2\*n; expected a size that it can have",
        ),
        (
            "def @main(%x: Tensor[(2, 4), float32]) { reshape(%x, newshape=[1, 8]) }",
            3,
            r"node %\d+ \(reshape\) fixes the batch size 2",
        ),
    ],
)
def test_set_batch_size_mistakes(text: str, size: int, message: str) -> None:
    ir = forge.IRModule(text)
    before = str(ir.typed_mod)
    with pytest.raises(ValueError, match=message):
        ir.set_batch_size(size)
    assert str(ir.typed_mod) == before


def test_a_batch_that_does_not_fit_is_refused_whole() -> None:
    ir = forge.IRModule("def @main(%x: Tensor[(n), float32]) { split(%x, indices_or_sections=2) }")
    with pytest.raises(ValueError):
        ir.set_batch_size(3)
    assert str(ir.input_shapes[0]) == "(n,)"
    ir.set_batch_size(4)
    assert ir.output_shapes == [(2,), (2,)]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"v": np.zeros(3, np.float32)}, "params: 'v' names no input of @main; expected one of: image, scale, w"),
        ({"scale": np.zeros((3, 1), np.float32)},
         r"params: 'scale': got float32 of shape \(3, 1\); expected Tensor\[\(3, 1, 1\), float32\]"),
        ({"scale": np.zeros((3, 1, 1))}, "params: 'scale': got float64"),
        ({"scale": None}, "params: 'scale'"),
    ],
)  # fmt: skip
def test_params_mistakes(params: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        forge.IRModule(CLASSIFIER, params)


def test_a_misspelt_option_is_named() -> None:
    ir = forge.IRModule("def @main(%x: Tensor[(2), float32]) { exp(%x) }")
    with pytest.raises(TypeError, match=r"compile: .*unexpected keyword argument 'optlevel'; did you mean opt_level"):
        ir.compile(optlevel=3)  # type: ignore[call-arg]


def test_what_is_no_module() -> None:
    with pytest.raises(
        InvalidGraphError, match=r"IRModule: got int; expected an ir\.Module, an IRModule or text; load models with "
    ):
        forge.IRModule(3)  # type: ignore[arg-type]
    with pytest.raises(ParseError, match="line 1, column 1"):
        forge.IRModule("no text of a module")
    for path in ("model.onnx", "a/m.pt2", "m.forge"):
        with pytest.raises(OptionError, match=r"looks like a path; .*; use forge\.load"):
            forge.IRModule(path)
    with pytest.raises(ImportModelError, match=r"load: model\.onnx: no such file; expected a model \(\.keras, "):
        forge.load("model.onnx")
    module = parse_module("def @main(%x: float32) { exp(%x) }")
    module.main.nodes[0].result.type = TensorType((), "int8")
    with pytest.raises(InvalidGraphError):
        forge.IRModule(module)


def test_reference_inference() -> None:
    run = forge.IRModule(
        "def @main(%x: Tensor[(n), float32], %y: Tensor[(n), float32]) { subtract(%x, %y) }"
    ).get_inference_function("reference")
    x, y = np.array([3, 4], np.float32), np.array([1, 1], np.float32)
    assert run(x, y).tolist() == run(x, y=y).tolist() == run(y=y, x=x).tolist() == [2, 3]
    two = example().get_inference_function("reference")(np.ones((1, 3, 8, 8), np.float32), np.ones((3, 1, 1), np.float32))
    assert isinstance(two, list) and len(two) == 2
    for wrong, message in (
        (lambda: run(x), "input 'y' has no value"), (lambda: run(x, y, y), "got 3 inputs; expected 2"),
        (lambda: run(x, y, z=y), "'z' is unknown"),
        (lambda: run(x, y, x=y), "'x' is given by position and by name"),
        (lambda: run(x, y.astype(np.float64)), "%y: got float64"),
        (lambda: run(x, np.ones(3, np.float32)), "%y: axis 0: got 3; expected 2"),
    ):  # fmt: skip
        with pytest.raises(ForgeError, match=message):
            wrong()


def test_save_and_load(tmp_path: Path) -> None:
    ir = example()
    ir.save(tmp_path / "m.forge")
    again = forge.load(tmp_path / "m.forge")
    assert again == ir and again.fingerprint == ir.fingerprint and str(again.mod) == str(ir.mod)
    assert again.input_names == ir.input_names and again.params["w"].tolist() == ir.params["w"].tolist()
    again.save(str(tmp_path / "again.forge"))
    assert (tmp_path / "again.forge").read_bytes() == (tmp_path / "m.forge").read_bytes()
    with pytest.raises(ImportModelError, match="no such file"):
        forge.load(tmp_path / "other.forge")


def test_data_dependent_symbols_do_not_depend_on_the_process() -> None:
    text = "def @main(%x: Tensor[(3), float32]) { %0 = argwhere(%x); (%0, argwhere(%0)) }"
    modules = [forge.IRModule(text) for _ in range(2)]
    assert str(modules[0].typed_mod) == str(modules[1].typed_mod)
    assert modules[0].fingerprint == modules[1].fingerprint


def test_is_quantized() -> None:
    assert not example().is_quantized
    product = "def @main(%x: Tensor[(2, 4), {x}], %w: Tensor[(3, 4), int8]) {{ nn.dense({a}, {b}, out_dtype=\"int32\") }}"
    wide = {"a": "subtract(cast(%x, dtype=\"int32\"), 3)", "b": "cast(%w, dtype=\"int32\")"}
    assert forge.IRModule(product.format(x="uint8", a="%x", b="%w")).is_quantized
    assert forge.IRModule(product.format(x="uint8", **wide)).is_quantized
    assert not forge.IRModule(product.format(x="int32", a="%x", b="%x").replace("(3, 4), int8", "(3, 4), int32")).is_quantized
    ir = forge.IRModule("def @main(%x: Tensor[(3), float32]) { qnn.quantize(%x, 0.5f, 0i8) }")
    assert ir.is_quantized


def test_import_is_quick_and_lazy() -> None:
    code = "import forge, sys; print('forge.module' in sys.modules, 'onnx' in sys.modules, 'llvmlite' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["src", "runtime/src"])}
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment).stdout
    assert printed.split() == ["False", "False", "False"]


def test_edits_through_the_module_and_reload() -> None:
    ir = example()
    before = str(ir.mod)
    relu = ir.main.find("nn.relu")
    with ir.edit() as e:
        e.rename(relu, "activation")
        e.insert_after(relu.result, "tanh", name="extra")
    assert ir.main.find("extra").pred == [relu] and ir.operators["tanh"] == 1
    with pytest.raises(InvalidGraphError, match=r"nn\.conv2d"), ir.edit() as e:
        e.rewire(ir.main.find("nn.conv2d"), 0, ir.main.inputs[1])
    assert ir.main.find("nn.conv2d").operands[0] is ir.main.find("multiply").result
    ir.reload()
    assert str(ir.mod) == before
    with pytest.raises(InvalidGraphError, match="graph 'side': does not exist; expected one of: main"):
        ir.edit("side")


def test_rules_through_the_module() -> None:
    ir = example()
    rule = Rule("relu to tanh", call("nn.relu", anything("x")), lambda b, v: b.call("tanh", v["x"]))
    assert ir.rewrite(rule) == 1 and "nn.relu" not in ir.operators


def test_explanation_of_a_node() -> None:
    ir = example()
    told = ir.explain("nn.conv2d")
    assert "made by" in told.splitlines()[0] and "use_winograd" not in told.splitlines()[0]
    ir.rewrite(Rule("relu to tanh", call("nn.relu", anything("x")), lambda b, v: b.call("tanh", v["x"])))
    assert ir.explain("tanh").splitlines()[0].endswith("made by relu to tanh")
    flat = ir.main.find("nn.batch_flatten")
    assert "canonicalize: view_as_reshape: replaced it by reshape" in ir.explain(flat)
    assert ir.explain(flat.result) == ir.explain(flat)
    with pytest.raises(InvalidGraphError, match="expected a node of main"):
        ir.explain(ir.main.inputs[0])


def test_extract_and_graft() -> None:
    ir, whole = example(), example()
    image = np.random.default_rng(0).random((2, 3, 8, 8), np.float32)
    scale = np.ones((3, 1, 1), np.float32)
    relu = whole.main.find("nn.relu").result
    head = whole.extract([whole.main.outputs[0]], [relu])
    body = whole.extract([relu])
    assert [n.op for n in head.main] == ["nn.global_avg_pool2d", "nn.batch_flatten", "nn.softmax"] and "w" in body.params
    features = body.get_inference_function("reference")(image, scale)
    expected = ir.get_inference_function("reference")(image, scale)[0]
    np.testing.assert_array_equal(head.get_inference_function("reference")(features), expected)
    with body.edit() as e:
        e.set_outputs(*e.graft(head.main, body.main.outputs[0]))
    np.testing.assert_array_equal(body.get_inference_function("reference")(image, scale), expected)
    np.testing.assert_allclose(body.get_inference_function()(image, scale), expected, atol=1e-6)
    with pytest.raises(InvalidGraphError, match="got Tensor"), body.edit() as e:
        e.graft(head.main, body.main.inputs[1])


def test_what_a_node_tells() -> None:
    ir = example()
    conv = ir.main.find("nn.conv2d")
    assert conv.shape[1:] == (4, 8, 8) and conv.dtype == "float32"
    flat = ir.main.find("nn.global_avg_pool2d")
    assert flat.size == flat.shape[0] * 4
    order = list(ir.main.dfs_iter())
    assert order[0] is ir.main.outputs[0].producer and {n.op for n in order} == {n.op for n in ir.main}
    assert [n.op for n in ir.main.dfs_iter(conv)] == ["nn.conv2d", "multiply"]
    assert all(order.index(p) > 0 for n in order for p in n.pred)


def test_constants_by_name() -> None:
    b = Builder()
    x = b.input(TensorType((2,), "float32"), "x")
    named = b.constant(np.ones(2, np.float32), name="bias")
    ir = forge.IRModule(Module(b.output(b.call("add", b.call("add", x, named), b.constant(np.zeros(2, np.float32))))))
    assert set(ir.main.constants) == {"bias", "constant_2"}
