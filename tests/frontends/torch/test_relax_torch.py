"""Each argument of Relax's loaders of PyTorch models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import forge
import forge.relax.frontend.torch
from forge.compose.expr import op

torch = pytest.importorskip("torch")

from_exported_program = forge.relax.frontend.torch.from_exported_program
from_fx = forge.relax.frontend.torch.from_fx


class Dense(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(in_features=4, out_features=3, bias=True)
        self.register_buffer("shift", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, input: Any) -> Any:  # noqa: A002  (the name that the documentation has)
        return torch.relu(self.linear(input) + self.shift)


X = torch.linspace(-1, 1, 8).reshape(2, 4)


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    return Dense().eval()


def check(ir: forge.IRModule, model: Any) -> None:
    np.testing.assert_allclose(ir.get_inference_function()(X.numpy()), model(X).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_the_example_of_the_documentation(model: Any) -> None:
    ir = from_exported_program(torch.export.export(model, args=(X,)))
    assert (ir.input_names, ir.params) == (["input"], {})
    check(ir, model)


def test_the_example_of_the_documentation_of_fx(model: Any) -> None:
    ir = from_fx(torch.fx.symbolic_trace(model), [((2, 4), "float32")])
    assert (ir.input_names, ir.params) == (["inp_0"], {})
    check(ir, model)
    assert str(from_fx(torch.fx.symbolic_trace(model), [(("n", 4), "float32")]).input_shapes[0][0]) == "n"


@pytest.mark.parametrize("form", ["exported program", "fx"])
def test_parameters_as_inputs_and_their_values(model: Any, form: str) -> None:
    if form == "fx":
        ir = from_fx(torch.fx.symbolic_trace(model), [((2, 4), "float32")], keep_params_as_input=True)
    else:
        ir = from_exported_program(torch.export.export(model, (X,)), keep_params_as_input=True)
    assert list(ir.params) == ["linear.weight", "linear.bias"]
    check(ir, model)
    detached, values = forge.relax.frontend.detach_params(ir)
    assert detached.params == {}
    assert detached.input_names[1:] == ["linear.weight", "linear.bias"]
    weight, bias = values["main"]
    np.testing.assert_array_equal(weight.numpy(), model.linear.weight.detach().numpy())
    got = detached.get_inference_function()(X.numpy(), weight.numpy(), bias.numpy())
    np.testing.assert_allclose(got, model(X).detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("option", ["unwrap_unit_return_tuple", "no_bind_return_tuple"])
def test_results_are_a_flat_list_whatever_the_options(model: Any, option: str) -> None:
    exported = torch.export.export(model, (X,))
    check(from_exported_program(exported, **{option: True}), model)
    check(from_fx(torch.fx.symbolic_trace(model), [((2, 4), "float32")], **{option: True}), model)


def test_custom_converters_by_the_names_of_decomposed_programs(model: Any) -> None:
    def addmm(node: Any, importer: Any) -> Any:
        bias, x, weight = importer.retrieve_args(node)
        return x @ weight + bias + 1.0

    ir = from_exported_program(torch.export.export(model, (X,)), custom_convert_map={"addmm.default": addmm})
    expected = torch.relu(model.linear(X) + 1 + model.shift).detach().numpy()
    np.testing.assert_allclose(ir.get_inference_function()(X.numpy()), expected, rtol=1e-5, atol=1e-6)
    ir = from_fx(
        torch.fx.symbolic_trace(model), [((2, 4), "float32")],
        custom_convert_map={"relu": lambda node, importer: op.nn.relu(importer.env[node.args[0]]) * 2.0})
    np.testing.assert_allclose(ir.get_inference_function()(X.numpy()), 2 * model(X).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_without_decomposition_what_has_no_converter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from forge.frontends.torch import steps

    class Silu(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.nn.functional.silu(x)

    found = steps.lookup
    monkeypatch.setattr(steps, "lookup", lambda target: None if "silu" in target else found(target))
    exported = torch.export.export(Silu(), (X,))
    check(from_exported_program(exported), Silu())
    with pytest.raises(forge.OpNotImplemented, match="from_exported_program: 1 operator is not supported"):
        from_exported_program(exported, run_ep_decomposition=False)


GRAPH_INFO = [((2, 4), "float32")]


@pytest.mark.parametrize(("call", "message"), [
    (lambda m: from_exported_program(m), "got Dense; expected an ExportedProgram"),
    (lambda m: from_exported_program(torch.export.export(m, (X,)), keep_params_as_input=1), "params_as_input: got 1; expected"),
    (lambda m: from_fx(m, GRAPH_INFO), "got Dense; expected a GraphModule"),
    (lambda m: from_fx(torch.fx.symbolic_trace(m), GRAPH_INFO, default_image_layout="NHWC"), "got 'NHWC'; expected 'NCHW'"),
    (lambda m: from_fx(torch.fx.symbolic_trace(m), 3), "input_info: got int; expected a list"),
    (lambda m: from_fx(torch.fx.symbolic_trace(m), [((2, 5), "float32")]), "from_fx: torch.export failed for inputs inp_0"),
])
def test_wrong_arguments(model: Any, call: Any, message: str) -> None:
    with pytest.raises(forge.ForgeError, match=message):
        call(model)
