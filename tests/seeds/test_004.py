"""Seed 004: the frontends of Relax."""

from __future__ import annotations

import importlib
import inspect
import warnings

import numpy as np
import onnx
import pytest

import forge
from forge.errors import ImportModelError, OptionError
from forge.relax.frontend import nn
from tests.frontends.onnx.support import model
from tests.seeds.items import differs, later, works
from tests.seeds.models import X, network
from tests.seeds.nn_signatures import SIGNATURES

CLASSES = """
Effect Module ModuleList Object Parameter Tensor ExternModule ObjectModule SourceModule GELU Conv1D Conv2D Conv3D
ConvTranspose1D Embedding GroupNorm IOEffect KVCache LayerNorm Linear ReLU RMSNorm SiLU SubroutineMixin Mutator
""".split()
FUNCTIONS = """
add add_extern argsort broadcast_to ccl_allgather ccl_allreduce ccl_broadcast_from_worker0 chunk conv1d
conv1d_transpose conv2d conv3d cumsum debug_func divide empty equal exp extern full gelu get_default_dtype
get_timestep_embedding greater greater_equal group_norm interpolate layer_norm less less_equal matmul maximum minimum
multinomial_from_uniform multiply negative not_equal ones pad permute permute_dims print_ relu
renormalize_top_p_top_k_prob repeat reshape rms_norm sample_top_p_top_k_from_sorted_prob scaled_dot_product_attention
sigmoid silu softmax sort split sqrt square subtract sum take tanh tensor_expr_op tensor_ir_inplace_op tensor_ir_op
topk triu where
""".split()


@works(
    '`relax.frontend.onnx.from_onnx(model, shape_dict=None, dtype_dict="float32", opset=None, keep_params_in_input=False, '
    "sanitize_input_names=True)`",
    "paths `relax.frontend.onnx` and `relax.frontend`",
    note="`forge.relax.from_onnx` is the same",
)
def test_from_onnx() -> None:
    function = importlib.import_module("forge.relax.frontend.onnx").from_onnx
    assert function is forge.relax.from_onnx
    assert {n: p.default for n, p in inspect.signature(function).parameters.items() if n != "model"} == {
        "shape_dict": None,
        "dtype_dict": "float32",
        "opset": None,
        "keep_params_in_input": False,
        "sanitize_input_names": True,
    }


@works("parameter `shape_dict`", "parameter `dtype_dict`: None, str or dict", "parameter `opset`", note="errors name them")
def test_shapes_and_types() -> None:
    assert forge.relax.from_onnx(network(), {"x": (2, 3, 6, 6)}, None, 21).input_shapes == [(2, 3, 6, 6)]
    assert forge.relax.from_onnx(network(), dtype_dict={"x": "float32"}).input_dtypes == ["float32"]
    with pytest.raises(ImportModelError, match="shape_dict"):
        forge.relax.from_onnx(network(), {"z": (1,)})
    with pytest.raises(ImportModelError, match="dtype_dict"):
        forge.relax.from_onnx(network(), dtype_dict="int8")


@works("parameter `keep_params_in_input`: parameters are input variables, else constants")
def test_keep_params_in_input() -> None:
    assert forge.relax.from_onnx(network()).params == {}
    kept = forge.relax.from_onnx(network(), keep_params_in_input=True)
    assert [v.name for v in kept.main.inputs][1:] == list(kept.params)


@works("parameter `sanitize_input_names`: input names are valid identifiers")
@pytest.mark.parametrize(("name", "expected"), [("input.1", "input_1"), ("193", "input_193"), ("x y", "x_y")])
def test_sanitize_input_names(name: str, expected: str) -> None:
    proto = model("g (float[n] x) => (float[n] y) { y = Relu(x) }")
    proto.graph.input[0].name = proto.graph.node[0].input[0] = name
    assert forge.relax.from_onnx(proto).input_names == [expected]
    assert forge.relax.from_onnx(proto, sanitize_input_names=False).input_names == [name]


@differs(
    "parameter `model` is a `GraphProto` by its annotation", why="a `ModelProto`, as its description says: a graph has no opset"
)
def test_graph_proto() -> None:
    with pytest.raises(ImportModelError, match="GraphProto"):
        forge.relax.from_onnx(network().graph)  # type: ignore[arg-type]
    assert isinstance(forge.relax.from_onnx(onnx.ModelProto.FromString(network().SerializeToString())), forge.IRModule)


@works(
    "`relax.frontend.detach_params(mod) -> (IRModule, Dict[str, List[NDArray]])`",
    'function attribute `params`: `mod["main"].attrs["params"]`',
)
def test_detach_params() -> None:
    kept = forge.relax.from_onnx(network(), keep_params_in_input=True)
    detached, params = forge.relax.frontend.detach_params(kept)
    assert list(params) == ["main"]
    for got, expected in zip(params["main"], kept.params.values(), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert detached.params == {}
    run = detached.get_inference_function("reference")
    np.testing.assert_allclose(run(X, *params["main"]), kept.get_inference_function("reference")(X), rtol=1e-5, atol=1e-6)
    assert len(kept["main"].attrs["params"]) == len(kept.params)
    with pytest.raises(KeyError, match="expected one of main"):
        kept["other"]
    assert forge.relax.detach_params(forge.relax.from_onnx(network()))[1] == {}


@works("`mod.script()`", note="the text of the module")
def test_script() -> None:
    assert "nn.conv2d" in forge.relax.from_onnx(network()).script()


LATER = (
    "ExternModule", "ObjectModule", "SourceModule", "add_extern", "extern", "ccl_allgather", "ccl_allreduce",
    "ccl_broadcast_from_worker0",
)


@later(*(f"`relax.frontend.nn.{name}`" for name in LATER), note="the `nn` interface")
def test_later() -> None:
    assert not [name for name in LATER if hasattr(nn, name)]


BUILT = [name for name in (*CLASSES, *FUNCTIONS) if name not in LATER]


@works(*(f"`relax.frontend.nn.{name}`" for name in BUILT), note="`tests/nn` compares results")
@pytest.mark.parametrize("signature", [s for s in SIGNATURES.split("\n") if s and s.partition("(")[0] not in LATER])
def test_nn(signature: str) -> None:
    name, _, rest = signature.removesuffix(")").partition("(")
    described = inspect.signature(eval(f"lambda {rest}: None")).parameters.values()  # noqa: S307 - of this repository
    own = list(inspect.signature(getattr(nn, name)).parameters.values())
    for wanted, got in zip(described, own):
        same_kind = wanted.kind is got.kind or (wanted.kind, got.kind) == (wanted.POSITIONAL_OR_KEYWORD, got.VAR_POSITIONAL)
        default = got.default if wanted.default is wanted.empty else wanted.default  # Forge may have one where the seed has none
        assert (wanted.name, default, same_kind) == (got.name, got.default, True)
    assert len(own) >= len(described)


def test_nn_is_complete() -> None:
    assert [name for name in (*CLASSES, *FUNCTIONS) if name not in LATER and not hasattr(nn, name)] == []


@works("`relax.frontend.stablehlo.from_stablehlo`")
def test_stablehlo() -> None:
    from forge.relax.frontend.stablehlo import from_stablehlo

    text = """func.func public @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %0 = stablehlo.add %x, %y : tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    }"""
    parameters = list(inspect.signature(from_stablehlo).parameters)
    assert parameters == ["stablehlo_module", "input_info"]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(from_stablehlo(text).get_inference_function()(x, x), x + x)


@works("`relax.frontend.torch.from_exported_program`", "`relax.frontend.torch.from_fx`")
@differs(
    "`from_exported_program` and `from_fx`: `unwrap_unit_return_tuple`, `no_bind_return_tuple`",
    why="results are a flat list, and one result is an array: there is no tuple to unwrap or bind, so that both change nothing",
)
def test_torch() -> None:
    torch = pytest.importorskip("torch")
    from forge.relax.frontend.torch import from_exported_program, from_fx

    linear, x = torch.nn.Linear(2, 3), torch.ones(1, 2)
    loaded = from_exported_program(torch.export.export(linear, (x,)), keep_params_as_input=True)
    assert list(forge.relax.detach_params(loaded)[1]) == ["main"]
    assert from_fx(torch.fx.symbolic_trace(linear), [((1, 2), "float32")]).input_names == ["inp_0"]


@works(
    "`from tvm.relax.frontend.torch_fx import from_fx`, and the page's example of it",
    note="`import forge as tvm`, `from forge.relax...`; what `dynamo.export` gives is taken as it is",
)
def test_example_of_fx() -> None:
    torch = pytest.importorskip("torch")
    from torch import _dynamo as dynamo

    from forge.relax.frontend.torch_fx import from_fx

    torch_model = torch.nn.Linear(in_features=10, out_features=7, bias=True)
    input_info = [((128, 10), "float32")]
    input_tensors = [torch.ones(shape) for shape, _ in input_info]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph_module = dynamo.export(torch_model, *input_tensors)
    mod = from_fx(graph_module, input_info)
    assert "nn.dense" in mod.script()
    np.testing.assert_allclose(mod.get_inference_function()(np.ones((128, 10), "float32")),
                               torch_model(input_tensors[0]).detach().numpy(), rtol=1e-5, atol=1e-6)


@works(
    "`relax_dynamo(pipeline: tvm.transform.Pass)`",
    note="`forge.transform` has `Pass`, `Sequential` and `module_pass`; a function from a module to a module is one, too",
)
def test_pipeline_of_passes() -> None:
    torch = pytest.importorskip("torch")
    from forge import transform
    from forge.relax.frontend.torch import relax_dynamo

    seen: list[tuple[int, bool]] = []

    @transform.module_pass(opt_level=1, name="look")
    def look(mod: forge.IRModule, ctx: forge.PassContext | None) -> forge.IRModule:
        seen.append((mod.input_count, ctx is not None))
        return mod

    linear, x = torch.nn.Linear(2, 3), torch.ones(1, 2)
    with torch.no_grad():
        got = torch.compile(linear, backend=relax_dynamo(transform.Sequential([look, lambda mod: mod])))(x)
        torch.testing.assert_close(got, linear(x))
    assert isinstance(look, transform.Pass)
    assert len(seen) == 1
    with forge.PassContext(opt_level=0):
        look(forge.relax.from_onnx(network()))
    assert len(seen) == 1
    with pytest.raises(OptionError, match="pass 'sequential': got int; expected an IRModule"):
        transform.Sequential([look])(1)  # type: ignore[arg-type]


@works("`relax.frontend.torch.relax_dynamo`", "`relax.frontend.torch.dynamo_capture_subgraphs`")
def test_dynamo() -> None:
    torch = pytest.importorskip("torch")
    from forge.relax.frontend.torch import dynamo_capture_subgraphs, relax_dynamo

    linear, x = torch.nn.Linear(2, 3), torch.ones(1, 2)
    assert list(inspect.signature(relax_dynamo).parameters) == ["pipeline"]
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(linear, backend=relax_dynamo())(x), linear(x))
    captured = dynamo_capture_subgraphs(linear, x, keep_params_as_input=True)
    assert {name: len(arrays) for name, arrays in forge.relax.detach_params(captured)[1].items()} == {"subgraph_0": 2}
