"""Partitions of models with symbolic and compound sizes, and the way back: every stage is a whole module."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge import dims
from forge.errors import OptionError, ParseError, TypeInferenceError
from forge.ir.builder import Builder
from forge.ir.call import bind_parameters
from forge.ir.edits.undetermined import name_whole_sizes, undetermined_symbols
from forge.ir.graph import Module
from forge.ir.interp import run_module
from forge.ir.parser import parse_module
from forge.ir.types import TensorType

LINES = "def @main(%x: Tensor[(b*s, 4), float32]) { %0 = sum(%x, axis=[1], keepdims=True); tan(%0) }"
FLATTENED = """def @main(%x: Tensor[(b, s, 4), float32], %w: Tensor[(b, s), float32]) {
  %0 = reshape(%x, newshape=[b*s, 4]); %1 = sum(%0, axis=[1]); %2 = reshape(%1, newshape=[b, s]); add(%2, %w) }"""


def text_of(ir: forge.IRModule) -> list[str]:
    return sorted(line.split(" = ")[-1] for line in str(ir.typed_mod).splitlines())


def check_there_and_back(ir: forge.IRModule, folder: Path, **flags: bool) -> int:
    """Partitions and inlines; returns the number of functions."""
    before = (ir.fingerprint, hash(ir), ir.input_shapes, ir.output_shapes, sorted(n.name for n in ir.main), len(text_of(ir)))
    ir.partition_for_tensorrt(**flags)
    count = ir.subgraph_count
    check_stage(ir, folder)
    ir.inline_partitions()
    check_stage(ir, folder)
    assert (ir.fingerprint, hash(ir), ir.input_shapes, ir.output_shapes, sorted(n.name for n in ir.main),
            len(text_of(ir))) == before
    return count


def check_stage(ir: forge.IRModule, folder: Path) -> None:
    ir.save(folder / "stage.forge")
    for other in (ir.copy(), forge.load(folder / "stage.forge")):
        assert other == ir and other.fingerprint == ir.fingerprint and str(other.typed_mod) == str(ir.typed_mod)
    with ir.edit():
        pass


SIZES = ("2*b*s", "b*s + b", "((b + 3) // 4)", "b + 1", "n", "3")


@pytest.mark.parametrize("text", [LINES, LINES.replace("tan", "nn.relu"), FLATTENED, *(LINES.replace("b*s", s) for s in SIZES)])
def test_text_modules_come_back_as_they_were(text: str, tmp_path: Path) -> None:
    assert check_there_and_back(forge.IRModule(text), tmp_path) == 1


@pytest.mark.parametrize("seed", range(12))
def test_random_regions_come_back_as_they_were(seed: int, tmp_path: Path) -> None:
    """Whatever is taken out, of reshapes between (b, s, 4), (b*s, 4), (s, b, 4) and (4*b*s) with operators between."""
    rng = np.random.default_rng(seed)
    batch, steps = dims.symbol("b"), dims.symbol("s")
    builder = Builder()
    values = [builder.input(TensorType((batch, steps, 4), "float32"), "x")]
    shapes = [(batch, steps, 4), (batch * steps, 4), (steps, batch, 4), (4 * batch * steps,), (batch, steps * 4)]
    for k in range(14):
        value = values[rng.integers(max(0, len(values) - 3), len(values))]
        match int(rng.integers(4)):
            case 0:
                made = builder.call("reshape", value, newshape=shapes[rng.integers(len(shapes))], name=f"n{k}")
            case 1:
                made = builder.call("tanh", value, name=f"n{k}")
            case 2:
                made = builder.call("cumsum", value, axis=-1, name=f"n{k}")
            case _:
                made = builder.call("add", value, builder.call("nn.relu", value, name=f"r{k}"), name=f"n{k}")
        values.append(made)
    ir = forge.IRModule(Module(builder.output(*[v for v in values[1:] if not v.uses])))
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    expected = run_module(ir.mod, {"x": x})
    before, names = ir.fingerprint, sorted(n.name for n in ir.main)
    chosen = {n.name for n in ir.main if rng.random() < 0.6}
    ir.partition("b", lambda node: node.name in chosen)
    check_stage(ir, tmp_path)
    for got, wanted in zip(run_module(ir.mod, {"x": x}), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    ir.inline_partitions()
    check_stage(ir, tmp_path)
    assert ir.fingerprint == before and sorted(n.name for n in ir.main) == names


def test_every_stage_runs_and_is_exported() -> None:
    pytest.importorskip("onnx")
    ir = forge.IRModule(FLATTENED)
    x, w = np.ones((2, 3, 4), np.float32), np.ones((2, 3), np.float32)
    for stage in (lambda: None, ir.partition_for_tensorrt, ir.inline_partitions):
        stage()
        np.testing.assert_array_equal(ir.get_inference_function()(x, w), np.full((2, 3), 5, np.float32))
        assert ir.to_onnx() is not None
        fixed = ir.copy()
        fixed.set_batch_size(2)
        assert [str(s) for s in fixed.output_shapes] == ["(2, s)"]
        np.testing.assert_array_equal(fixed.get_inference_function("reference")(x, w), np.full((2, 3), 5, np.float32))


def test_a_part_that_needs_more_than_the_whole_size_stays() -> None:
    """In terms of b*s, the sizes b and s cannot be told."""
    for ops, count in ((("sum",), 1), (("sum", "add"), 2)):
        ir = forge.IRModule(FLATTENED)
        assert ir.partition("b", lambda node, ops=ops: node.op in ops and node.operands[0].rank != 3) == count
    ir = forge.IRModule(FLATTENED)
    assert ir.partition("b", lambda node: node.op in ("sum", "reshape") and node.operands[0].rank < 3) == 0


@pytest.mark.parametrize(("size", "use", "expected"), [
    ("b*s", "2*b*s", "2*d_0"), ("b*s", "b*s + 1", "d_0 + 1"), ("2*b*s", "6*b*s", "3*d_0"), ("b*s + 1", "b*s", "d_0 - 1"),
    ("b*s", "((b*s + 3) // 4)", "((d_0 + 3) // 4)"), ("b*s", "b*b*s*s", "d_0*d_0"), ("b*s", "min(8, b*s)", "min(8, d_0)"),
])  # fmt: skip
def test_whole_sizes(size: str, use: str, expected: str) -> None:
    text = f"def @main(%x: Tensor[({size}), float32]) {{ %0 = zeros(shape=[{use}], dtype=\"int8\"); (%x, %0) }}"
    graph = parse_module(text).main
    assert undetermined_symbols(graph) == {"b", "s"}
    assert name_whole_sizes(graph) == set()
    assert [str(v.shape[0]) for v in graph.outputs] == ["d_0", expected]
    assert str(graph.nodes[0].attributes["shape"][0]) == expected


@pytest.mark.parametrize("use", ["b", "b + s", "((b + 3) // 4)"])
def test_whole_sizes_that_do_not_suffice_change_nothing(use: str) -> None:
    module = parse_module(f"def @main(%x: Tensor[(b*s), float32]) {{ %0 = zeros(shape=[{use}], dtype=\"int8\"); (%x, %0) }}")
    before = str(module)
    assert name_whole_sizes(module.main) <= {"b", "s"} and name_whole_sizes(module.main)
    assert str(module) == before


def test_sizes_that_are_linear_in_a_symbol_are_bound() -> None:
    function = parse_module("def @main(%a: Tensor[(2*k + m, 4), float32], %b: Tensor[(m), float32]) { (%a, %b) }").main
    n = dims.symbol("n")

    def bind(first: dims.Dim, second: dims.Dim) -> dict[str, dims.Dim]:
        builder = Builder()
        return bind_parameters("f", function, [builder.input(TensorType(s, "float32")) for s in ((first, 4), (second,))])

    assert bind(9, 3) == {"k": 3, "m": 3}
    assert bind(6 * n + 5, 2 * n + 5) == {"k": 2 * n, "m": 2 * n + 5}
    for sizes in ((8, 3), (1, 3), (n, 3)):
        with pytest.raises(TypeInferenceError, match=r"operand %a: got .* for Tensor\[\(2\*k \+ m, 4\), .* does not determine k"):
            bind(*sizes)


def test_a_parameter_that_does_not_tell_its_symbols() -> None:
    expected = r"for Tensor\[\(b\*s\), float32\], which does not determine b and s; expected .* one symbol"
    with pytest.raises(ParseError, match=expected):
        forge.IRModule("def @main(%x: Tensor[(b*s), float32]) { @f(%x) } def @f(%v: Tensor[(b*s), float32]) { exp(%v) }")


def test_names_that_others_have_get_the_name_of_the_call() -> None:
    ir = forge.IRModule("""
    def @main(%x: Tensor[(n), float32]) { %0 = @f(%x) /* name="one" */; %1 = @f(%0) /* name="two" */; exp(%1) /* name="b" */ }
    def @f(%v: Tensor[(n), float32]) { %0 = tanh(%v) /* name="a" */; sin(%0) /* name="s" */ }
    """, inline_partitions=True)
    assert [n.name for n in ir.main] == ["one/a", "one/s", "two/a", "two/s", "b"]


def test_symbols_of_results_stay_when_a_call_is_inlined() -> None:
    ir = forge.IRModule("""
    def @main(%x: Tensor[(n), float32]) { %0 = @f(%x) /* ty=Tensor[(found, 1), int64] */; abs(%0) }
    def @f(%v: Tensor[(k), float32]) { %0 = argwhere(%v) /* ty=Tensor[(d, 1), int64] */; negative(%0) }
    """)
    shapes = ir.output_shapes
    ir.inline_partitions()
    assert ir.output_shapes == shapes and ir.typed_mod


def test_symbols_are_defined_before_their_use_in_a_partitioned_graph() -> None:
    """%z has no operand, but a size that argwhere introduces: the call that reads %z comes after both."""
    ir = forge.IRModule("""
    def @main(%x: Tensor[(1, 4), float32]) {
      %a = nn.relu(%x); %u = sort(%a); %i = argwhere(%x) /* ty=Tensor[(found, 2), int64] */;
      %z = zeros(shape=[found, 4], dtype="float32"); %b = add(%a, %z); (%u, %b, %i) }
    """)
    before = ir.fingerprint
    assert ir.partition("b", lambda node: node.op in ("nn.relu", "add")) == 1
    ir.inline_partitions()
    assert ir.fingerprint == before


def test_a_symbol_between_two_parts_keeps_them_apart() -> None:
    """As one function they would need a size that is computed from its result."""
    ir = forge.IRModule("""
    def @main(%x: Tensor[(1, 4), float32]) {
      %a = nn.relu(%x); %i = argwhere(%a) /* ty=Tensor[(found, 2), int64] */;
      %z = zeros(shape=[found, 4], dtype="float32"); %b = add(%a, %z); (%b, %i) }
    """)
    assert ir.partition("b", lambda node: node.op in ("nn.relu", "add")) == 2


def test_extracted_graphs_have_sizes_of_their_own() -> None:
    ir = forge.IRModule(FLATTENED)
    reshaped, summed, split, _ = ir.main
    part = ir.extract([summed.result], [reshaped.result])
    np.testing.assert_array_equal(part.get_inference_function()(np.ones((6, 4), np.float32)), np.full(6, 4, np.float32))
    more = ir.extract([split.result], [reshaped.result])
    assert more.input_count == 2 and more.input_names[1] == "x"
    found = more.get_inference_function()(np.ones((6, 4), np.float32), np.ones((2, 3, 4), np.float32))
    np.testing.assert_array_equal(found, np.full((2, 3), 4, np.float32))


def exported(network: Any, x: Any, dynamic: dict[int, str], dynamo: bool) -> Any:
    import torch

    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            shapes = ({axis: torch.export.Dim(name) for axis, name in dynamic.items()},) if dynamic else None
            return torch.onnx.export(network.eval(), (x,), dynamo=True, dynamic_shapes=shapes, verbose=False).model_proto
        torch.onnx.export(network.eval(), (x,), file, dynamo=False, input_names=["x"], opset_version=17,
                          dynamic_axes={"x": dynamic} if dynamic else None)
    return file.getvalue()


@pytest.mark.parametrize("dynamic", [{}, {0: "batch"}, {0: "batch", 1: "seq"}], ids=["static", "batch", "batch and sequence"])
@pytest.mark.parametrize("dynamo", [False, True], ids=["legacy", "dynamo"])
def test_exported_transformer(dynamo: bool, dynamic: dict[int, str], tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if dynamo:
        pytest.importorskip("onnxscript")
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    network = torch.nn.Sequential(layer, torch.nn.Linear(8, 3))
    x = torch.randn(2, 5, 8)
    ir = forge.from_onnx(exported(network, x, dynamic, dynamo))
    assert check_there_and_back(ir, tmp_path) <= 4
    ir.partition_for_tensorrt()
    found = ir.get_inference_function("reference")(x.numpy())
    np.testing.assert_allclose(found, network(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_biases_go_into_the_function() -> None:
    rng = np.random.default_rng(0)
    builder = Builder()
    h = builder.input(TensorType((dims.symbol("n"), 8), "float32"), "x")
    for k in range(3):
        weight, bias = (builder.constant(rng.standard_normal(s).astype(np.float32)) for s in ((8, 8), (8,)))
        h = builder.call("nn.relu", builder.call("add", builder.call("nn.dense", h, weight), bias), name=f"relu{k}")
    ir = forge.IRModule(Module(builder.output(h)))
    ir.partition_for_tensorrt()
    assert ir.subgraph_count == 1 and [n.op for n in ir.main] == ["call"]


def test_scalars_stay_scalars(tmp_path: Path) -> None:
    ir = forge.IRModule("def @main(%x: Tensor[(n, 4), float32]) { %0 = add(%x, 2f); %1 = multiply(%0, 3f); mean(%1, axis=[1]) }")
    assert check_there_and_back(ir, tmp_path) == 1 and "add(%x, 2f)" in str(ir.mod)
    ir.partition_for_tensorrt(simplify_scalar_add=False)
    assert [n.op for n in ir.main if n.op != "constant"] == ["add", "call"]


@pytest.mark.parametrize("flag", ["remove_stacks", "simplify_batch_matmul", "simplify_scalar_add", "remove_no_mac_subgraphs"])
@pytest.mark.parametrize("value", [1, "yes", None])
def test_flags_are_bools(flag: str, value: Any) -> None:
    ir = forge.IRModule(LINES)
    with pytest.raises(OptionError, match=rf"partition_for_tensorrt: {flag}: got {value!r}; expected True or False"):
        ir.partition_for_tensorrt(**{flag: value})
    assert ir.subgraph_count == 0
