"""``forge.from_torch``: what it takes, ``input_infos``, converters of a call, and what it says of wrong arguments."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge import optional
from forge.compose.expr import op
from forge.errors import OpAttributeUnimplemented

torch = pytest.importorskip("torch")


class Dense(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 6)
        self.rest = torch.nn.Sequential(torch.nn.Linear(6, 3), torch.nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rest(torch.tanh(self.first(x)))


class Pair(torch.nn.Module):
    def forward(self, pair: Any, scale: Any) -> Any:
        a, b = pair
        return {"sum": (a + b) * scale, "rest": [a * scale]}


@pytest.fixture(scope="module")
def dense() -> Any:
    torch.manual_seed(0)
    return Dense().eval()


X = torch.linspace(-1, 1, 24).reshape(2, 3, 4)


def check(ir: forge.IRModule, model: Any, *inputs: Any) -> None:
    """Compiled code gives what eager torch gives."""
    got = ir.get_inference_function()(*[x.numpy() for x in inputs])
    expected = model(*inputs).detach().numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


FORMS: dict[str, Callable[[Any], Any]] = {
    "module": lambda m: m,
    "trace": lambda m: torch.jit.trace(m, X),
    "script": torch.jit.script,
    "graph module": torch.fx.symbolic_trace,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_model(dense: Any, form: str) -> None:
    ir = forge.from_torch(FORMS[form](dense), [("input0", (2, 3, 4))])
    assert ir.input_names == ["input0"]
    assert ir.input_shapes == [(2, 3, 4)]
    check(ir, dense, X)


def test_an_exported_program_and_its_own_names(dense: Any) -> None:
    exported = torch.export.export(dense, (X,), dynamic_shapes=({0: torch.export.Dim("rows")},))
    ir = forge.from_torch(exported)
    assert ir.input_names == ["x"]
    assert [str(d) for d in ir.input_shapes[0]] == ["rows", "3", "4"]
    check(ir, dense, torch.cat([X, X, X]))
    renamed = forge.IRModule.from_torch(exported, [("data", ("batch", 3, 4))])
    assert (renamed.input_names, [str(d) for d in renamed.input_shapes[0]]) == (["data"], ["batch", "3", "4"])
    assert forge.from_torch(exported, [("data", (5, 3, 4))]).input_shapes == [(5, 3, 4)]


@pytest.mark.parametrize("form", ["module", "trace", "graph module"])
def test_names_in_shapes_are_dynamic_dimensions(dense: Any, form: str) -> None:
    ir = forge.from_torch(FORMS[form](dense), [("x", ("batch", "length", 4))])
    assert [str(d) for d in ir.input_shapes[0]] == ["batch", "length", "4"]
    check(ir, dense, X)
    check(ir, dense, torch.ones(5, 7, 4))


def test_sizes_that_are_open_without_a_name(dense: Any) -> None:
    ir = forge.from_torch(dense, [("x", (None, -1, 4))])
    assert [str(d) for d in ir.input_shapes[0]] == ["x_dim0", "x_dim1", "4"]
    check(ir, dense, X)


def test_dims_of_torch_in_shapes(dense: Any) -> None:
    ir = forge.from_torch(dense, [("x", (torch.export.Dim("n", min=2, max=8), 3, 4))])
    assert str(ir.input_shapes[0][0]) == "n"
    check(ir, dense, X)


@pytest.mark.parametrize("target", ["llvm", "reference"])
def test_bounds_are_checked_by_the_name_of_the_dimension(dense: Any, target: str) -> None:
    run = forge.from_torch(dense, [("x", (torch.export.Dim("rows", min=3, max=8), 3, 4))]).get_inference_function(target)
    for rows in (3, 8):
        assert run(np.ones((rows, 3, 4), "float32")).shape == (rows, 3, 3)
    for rows in (2, 9):
        with pytest.raises(forge.ForgeError, match=r"dimension rows is .*expected 3 to 8"):
            run(np.ones((rows, 3, 4), "float32"))


class Positions(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.places = torch.nn.Embedding(64, 4)
        self.register_buffer("numbers", torch.arange(64)[None])

    def forward(self, x: Any) -> Any:
        return x + self.places(self.numbers[:, : x.shape[1]])


@pytest.mark.parametrize("form", ["module", "trace"])
def test_bounds_that_a_model_sets_are_found_and_checked(form: str) -> None:
    model = Positions()
    ir = forge.from_torch(FORMS[form](model), [("x", ("batch", "tokens", 4))])
    assert [str(d) for d in ir.input_shapes[0]] == ["batch", "tokens", "4"]
    for shape in ((2, 3, 4), (3, 64, 4), (1, 1, 4)):
        check(ir, model, torch.ones(shape))
    with pytest.raises(forge.ForgeError, match=r"dimension tokens is .*expected 0 to 64"):
        ir.get_inference_function()(np.ones((2, 65, 4), "float32"))


def test_what_torch_finds_of_sizes_besides_bounds_is_checked() -> None:
    class Pool(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.nn.functional.max_pool2d(x, 2, 2, ceil_mode=True)

    ir = forge.from_torch(Pool(), [("x", (1, 3, "height", "width"))])
    for shape in ((1, 3, 7, 8), (1, 3, 8, 7), (1, 3, 3, 3)):
        check(ir, Pool(), torch.randn(shape))


LAYERS = {
    "LSTM": lambda: torch.nn.LSTM(4, 3, num_layers=2, bidirectional=True, batch_first=True),
    "GRU": lambda: torch.nn.GRU(4, 3, batch_first=True, bias=False),
    "RNN": lambda: torch.nn.RNN(4, 3, nonlinearity="relu"),
}


@pytest.mark.parametrize(("kind", "form"), [
    *itertools.product(LAYERS, ["module", "trace"]), pytest.param("GRU", "through ONNX", marks=pytest.mark.slow)])
def test_recurrent_layers_over_any_number_of_steps(kind: str, form: str) -> None:
    layer = LAYERS[kind]()

    class Steps(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            return self.layer(x)[0].sum(-1, keepdim=True) * x

    model = Steps().eval()
    given = model if form == "through ONNX" else FORMS[form](model)
    ir = forge.from_torch(given, [("x", ("a", "b", 4))], through_onnx=form == "through ONNX")
    for shape in ((2, 3, 4), (5, 2, 4), (3, 40, 4)):
        check(ir, model, torch.randn(shape))


@pytest.mark.parametrize("target", ["llvm", "reference"])
def test_dimensions_that_only_depend_on_others(target: str) -> None:
    class Halves(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.reshape(x.shape[0] // 2, 2) * 2

    half = torch.export.Dim("half", max=10)
    exported = torch.export.export(Halves(), (torch.ones(12),), dynamic_shapes=({0: 2 * half},))
    ir = forge.from_torch(exported)
    assert str(ir.input_shapes[0][0]) == "x_dim0"
    run = ir.get_inference_function(target)
    assert run(np.ones(6, "float32")).shape == (3, 2)
    for wrong in (5, 22):
        with pytest.raises(forge.ForgeError, match=r"x_dim0|expected"):
            run(np.ones(wrong, "float32"))


ASSUMPTIONS: dict[str, Any] = {
    "a quotient, rounded": (lambda x: x[:, : int(x.shape[1] / 2)], (6, 7), (4, 7)),
    "a remainder": (lambda x: x + 1 if x.shape[1] % 2 == 0 else x - 1, (8, 7), (9, 7)),
    "different sizes": (lambda x: x + 1 if x.shape[1] != x.shape[2] else x - 1, (5, 7), (7, 7)),
    "equal sizes": (lambda x: x + 1 if x.shape[1] == x.shape[2] - 1 else x - 1, (8, 9), (8, 8)),
    "a product": (lambda x: x + 1 if x.shape[1] * x.shape[2] > 30 else x - 1, (5, 7), (3, 7)),
}
"""Modules whose Python asks about sizes; other sizes that take the way of (6, 7), and some that do not."""


@pytest.mark.parametrize("form", ["program", "file"])
@pytest.mark.parametrize("name", ASSUMPTIONS)
def test_what_torch_assumed_of_sizes_is_checked(name: str, form: str, tmp_path: Path) -> None:
    function, fits, other = ASSUMPTIONS[name]

    class Branch(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return function(x)

    sizes = dict.fromkeys((1, 2), torch.export.Dim.DYNAMIC)
    model: Any = torch.export.export(Branch(), (torch.ones(2, 6, 7),), dynamic_shapes=(sizes,))
    if form == "file":
        torch.export.save(model, tmp_path / "model.pt2")
        model = tmp_path / "model.pt2"
    ir = forge.from_torch(model, through_onnx=False)
    check(ir, Branch(), torch.ones(2, *fits))
    with pytest.raises(forge.ForgeError, match="expected"):
        ir.get_inference_function()(np.ones((2, *other), "float32"))


def test_sizes_that_float64_scales() -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.nn.functional.interpolate(x, scale_factor=1.5)

    sizes = dict.fromkeys((2, 3), torch.export.Dim.DYNAMIC)
    ir = forge.from_torch(torch.export.export(Scaled(), (torch.ones(1, 2, 6, 7),), dynamic_shapes=(sizes,)), through_onnx=False)
    for h, w in ((6, 7), (9, 4)):
        check(ir, Scaled(), torch.randn(1, 2, h, w))


def test_sizes_of_0_and_1_pass_where_torch_lets_them(dense: Any) -> None:
    run = forge.from_torch(dense, [("x", ("rows", 3, 4))]).get_inference_function()
    for rows in (0, 1):
        assert run(np.ones((rows, 3, 4), "float32")).shape == (rows, 3, 3)
    exported = torch.export.export(dense, (X,), dynamic_shapes=({0: torch.export.Dim("rows")},))
    assert forge.from_torch(exported, [("x", (1, 3, 4))]).input_shapes == [(1, 3, 4)]


def test_equal_names_are_equal_sizes() -> None:
    class Add(torch.nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return a + b

    ir = forge.from_torch(Add(), [("a", ("n", 3)), ("b", ("n", 3))])
    check(ir, Add(), torch.ones(7, 3), torch.ones(7, 3))
    with pytest.raises(forge.ForgeError, match="n"):
        ir.get_inference_function()(np.ones((7, 3), "float32"), np.ones((1, 3), "float32"))


def test_example_tensors_and_arguments_by_name(dense: Any) -> None:
    assert forge.from_torch(dense, [X]).input_names == ["x"]
    assert forge.from_torch(dense, (X,), dynamic_shapes=({0: torch.export.Dim("rows")},)).input_shapes[0][1:] == (3, 4)
    assert forge.from_torch(dense, [("data", X)]).input_names == ["data"]
    ir = forge.from_torch(Pair(), {"scale": torch.ones(2), "pair": (torch.ones(2), torch.ones(2))})
    assert sorted(ir.input_names) == ["pair_0", "pair_1", "scale"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("shapes", [({0: torch.export.Dim.DYNAMIC},), {"x": {0: torch.export.Dim.DYNAMIC}}])
def test_dynamic_shapes_of_a_trace(dense: Any, shapes: Any) -> None:
    trace = torch.jit.trace(dense, X)
    ir = forge.from_torch(trace, [("x", X)], dynamic_shapes=shapes)
    check(ir, dense, torch.ones(X.shape[0] + 3, *X.shape[1:]))
    with pytest.raises(forge.ForgeError, match=r"dynamic_shapes: got .* an entry for each input of the trace: x"):
        forge.from_torch(trace, [("x", X)], dynamic_shapes=({}, {}))


@pytest.mark.parametrize("infos", [
    [("p", ((2, 3), (2, 3))), ("s", (1,))],
    [("p", (((2, 3), "float"), ((2, 3), torch.float32))), ("s", ((1,), np.float32))],
    [("p", (((2, 3), (2, 3)), "float32")), ("s", ((1,), "torch.float32"))],
])
def test_tuples_of_tensors(infos: Any) -> None:
    ir = forge.from_torch(Pair(), infos)
    assert ir.input_names == ["p_0", "p_1", "s"]
    a, b, s = (np.full(shape, k + 1, "float32") for k, shape in enumerate([(2, 3), (2, 3), (1,)]))
    total, scaled = ir.get_inference_function()(a, b, s)
    np.testing.assert_array_equal(total, (a + b) * s)
    np.testing.assert_array_equal(scaled, a * s)


@pytest.mark.parametrize(("alias", "dtype"), [
    ("int", "int32"), ("long", "int64"), ("double", "float64"), ("short", "int16"), ("byte", "uint8"), (torch.int64, "int64"),
    (np.int8, "int8"), (np.dtype("int16"), "int16"), (int, "int64"),
])
def test_types_by_alias(alias: Any, dtype: str) -> None:
    class Twice(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x + x

    assert forge.from_torch(Twice(), [("x", ((2, 3), alias))]).input_dtypes == [dtype]


def test_the_type_where_none_is_given() -> None:
    class Twice(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x + x

    assert forge.from_torch(Twice(), [("x", (2,))], default_type="int").input_dtypes == ["int32"]
    assert forge.from_torch(Twice(), [("x", (2,))], default_dtype="float64").input_dtypes == ["float64"]
    trace = torch.jit.trace(Twice(), torch.ones(2, dtype=torch.int16))
    assert forge.from_torch(trace, [("x", (2,))]).input_dtypes == ["int16"]
    with pytest.raises(forge.ForgeError, match="default_type='int8', default_dtype='int16'; expected one"):
        forge.from_torch(Twice(), [("x", (2,))], default_type="int8", default_dtype="int16")


def test_parser_friendly_names(dense: Any) -> None:
    def constants(ir: forge.IRModule) -> set[str]:
        return {v.name for node in ir.main for v in node.results if v.constant is not None and "bias" in v.name}

    assert constants(forge.from_torch(dense, [X])) == {"first.bias", "rest.0.bias"}
    assert constants(forge.from_torch(dense, [X], use_parser_friendly_name=True)) == {"first_bias", "rest_0_bias"}


def test_custom_converters_in_the_form_of_torchscript(dense: Any) -> None:
    seen = []

    def relu(inputs: Any, input_types: Any) -> Any:
        seen.append((len(inputs), input_types))
        return op.maximum(inputs[0], 0.25)

    ir = forge.from_torch(dense, [X], {"aten::relu": relu})
    assert seen == [(1, ["float32"])]
    np.testing.assert_allclose(ir.get_inference_function()(X.numpy()), np.maximum(dense(X).detach().numpy(), 0.25), rtol=1e-5)
    check(forge.from_torch(dense, [X]), dense, X)


def test_custom_converters_get_the_defaults_of_the_schema() -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.add(x, x, alpha=3) + x.clone().add_(x)

    seen = []

    def add(inputs: Any, input_types: Any) -> Any:
        seen.append((inputs[2], input_types))
        return inputs[0] + inputs[1] * float(inputs[2])

    ir = forge.from_torch(Scaled(), [("x", (2,))], {"aten::add": add})
    np.testing.assert_allclose(ir.get_inference_function()(np.ones(2, "float32")), [6, 6])
    assert seen == [(alpha, ["float32", "float32", "int64"]) for alpha in (3, 1, 1)]


def test_custom_converters_in_the_form_of_fx_importers(dense: Any) -> None:
    def relu(node: Any, importer: Any) -> Any:
        assert (node.op, node.target, str(node.args[0])) == ("call_function", "aten.relu.default", "linear_1")
        assert node.meta["val"].shape == (2, 3, 3)
        x = importer.env[node.args[0]]
        assert importer.retrieve_args(node)[0].shape == x.shape
        return importer.block_builder.emit(op.nn.relu(x) + 1.0)

    ir = forge.from_torch(dense, [X], {"relu.default": relu, "tanh.out": relu})
    np.testing.assert_allclose(ir.get_inference_function()(X.numpy()), dense(X).detach().numpy() + 1, rtol=1e-5)


@pytest.mark.parametrize(("convert_map", "message"), [
    ({"aten::relu": lambda inputs, types: 1 / 0}, r"custom_convert_map\['aten::relu'\] failed with ZeroDivisionError"),
    ({"relu.default": lambda node, importer: 3}, "it gave int 3; expected an expression"),
    ({torch.nn.ReLU: lambda node, importer: node}, "operators go by name"),
    ([1], "custom_convert_map: got list; expected {'aten::relu'"),
])
def test_wrong_custom_converters(dense: Any, convert_map: Any, message: str) -> None:
    with pytest.raises(forge.ForgeError, match=message):
        forge.from_torch(dense, [X], convert_map)


@pytest.mark.parametrize(("infos", "message"), [
    ([("x", (2, 3))], r"'x': got shape \(2, 3\); it was traced with \(2, 3, 4\)"),
    ([("x", (2, 3, 4)), ("y", (1,))], r"got 2 inputs; the trace has 1: x float32\[2, 3, 4\]"),
    ([("x", ((2, 3, 4), "int"))], "'x': got int32; it was traced with float32"),
    ([("x", 5)], "got 5; it was traced with shape"),
    (5, "input_infos: got 5; expected a list of inputs"),
    ([("a b", (2,))], "got the name 'a b'; expected an identifier"),
    ([("x", (2, -3))], "got the size -3; expected a number"),
    ([("x", (2,)), ("x", (2,))], "got the name 'x' twice"),
    ([("x", ((2, 3, 4), "float31"))], "unknown dtype 'float31'"),
    ([("x", object())], r"expected \(name, shape\)"),
])
def test_wrong_input_infos(dense: Any, infos: Any, message: str) -> None:
    with pytest.raises(forge.ForgeError, match=message):
        forge.from_torch(torch.jit.trace(dense, X), infos)


@pytest.mark.parametrize(("infos", "message"), [
    ([("x", (2, 3, 5))], r"axis 2: got 5; the model takes x: float32\[rows, 3, 4\]"),
    ([("x", ("rows", "n", 4))], r"axis 1: got n; the model takes x: float32\[rows, 3, 4\]"),
    ([("x", (2, 3))], r"got rank 2; the model takes x: float32\[rows, 3, 4\]"),
    ([("x", ((2, 3, 4), "half"))], "got float16; the model takes x: float32"),
    ([("x", (9, 3, 4))], "axis 0: got 9; the model takes"),
    ([("x", (2, 3, 4)), ("y", (2,))], r"got 2 inputs \(x, y\); the model has 1: x: float32\[rows, 3, 4\]"),
])
def test_input_infos_that_contradict_an_exported_program(dense: Any, infos: Any, message: str) -> None:
    exported = torch.export.export(dense, (X,), dynamic_shapes=({0: torch.export.Dim("rows", max=8)},))
    with pytest.raises(forge.ForgeError, match=message):
        forge.from_torch(exported, infos)


def test_other_wrong_arguments(dense: Any) -> None:
    with pytest.raises(forge.ForgeError, match="got int; expected a trace, a module, an ExportedProgram"):
        forge.from_torch(5)
    with pytest.raises(forge.ForgeError, match="got Linear; expected a trace"):
        forge.from_torch(torch.nn.Linear)
    with pytest.raises(forge.ForgeError, match="input_infos: got None for a module; expected example tensors"):
        forge.from_torch(dense)
    with pytest.raises(forge.ForgeError, match="input_infos: got None, and the module does not say its shapes"):
        forge.from_torch(torch.jit.script(dense))
    with pytest.raises(forge.ForgeError, match="keep_quantized_weight: got 1; expected True or False"):
        forge.from_torch(dense, [X], keep_quantized_weight=1)  # type: ignore[arg-type]
    with pytest.raises(forge.ForgeError, match="use_parser_friendly_name: got 1; expected True or False"):
        forge.from_torch(dense, [X], use_parser_friendly_name=1)  # type: ignore[arg-type]
    exported = torch.export.export(dense, (X,))
    with pytest.raises(forge.ForgeError, match=r"dynamic_shapes: got .* an ExportedProgram has its own"):
        forge.from_torch(exported, dynamic_shapes=({},))


def test_what_torch_cannot_export(dense: Any) -> None:
    class Branch(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    with pytest.raises(forge.ForgeError, match=r"torch.export failed for inputs x: .*GuardOnDataDependent"):
        forge.from_torch(Branch(), [("x", (2,))])


class Unusual(torch.nn.Module):
    """Its operator has no converter here and no decomposition, but one in torch's exporter to ONNX."""

    def forward(self, x: Any) -> Any:
        return torch.nonzero(x) * 2


@pytest.fixture
def without_nonzero(monkeypatch: pytest.MonkeyPatch) -> None:
    from forge.frontends.torch import steps

    found = steps.lookup
    monkeypatch.setattr(steps, "lookup", lambda target: None if "nonzero" in target else found(target))


@pytest.mark.usefixtures("without_nonzero")
def test_what_has_no_converter_goes_through_onnx() -> None:
    x = np.array([[0, 1], [2, 0]], "float32")
    with pytest.warns(UserWarning, match=r"through ONNX; the reason: .*aten.nonzero.default: 1x.*through_onnx=False forbids"):
        ir = forge.from_torch(Unusual(), [("data", ("n", 2))])
    assert ir.input_names == ["data"]
    np.testing.assert_array_equal(ir.get_inference_function()(x), [[0, 2], [2, 0]])
    with pytest.raises(forge.OpNotImplemented, match=r"aten\.nonzero\.default"):
        forge.from_torch(Unusual(), [("data", ("n", 2))], through_onnx=False)


@pytest.mark.usefixtures("without_nonzero")
def test_what_torch_fails_to_take_apart_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("of torch")

    monkeypatch.setattr("forge.frontends.torch.loader.decomposed", fail)
    with pytest.raises(forge.OpNotImplemented, match=r"aten\.nonzero\.default: 1x"):
        forge.from_torch(Unusual(), [("data", ("n", 2))], through_onnx=False)


@pytest.fixture
def refused_norm() -> Iterator[None]:
    """A converter of layer_norm that refuses what it is given."""
    from forge.frontends.torch import register, unregister

    @register("layer_norm.default")
    def refuse(g: Any, input: Any, **_: Any) -> Any:  # noqa: A002
        raise OpAttributeUnimplemented("got a norm; supported: none")

    yield
    unregister("layer_norm.default")


@pytest.mark.usefixtures("refused_norm")
def test_what_a_converter_refuses_is_taken_apart_by_torch() -> None:
    model = torch.nn.LayerNorm(4)
    check(forge.from_torch(model, [("x", (2, 3, 4))], through_onnx=False), model, X)


@pytest.mark.usefixtures("refused_norm")
def test_refusals_that_nothing_helps_are_reported_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("of torch")

    monkeypatch.setattr("forge.frontends.torch.loader.decomposed", fail)
    with pytest.raises(OpAttributeUnimplemented, match="got a norm; supported: none"):
        forge.from_torch(torch.nn.LayerNorm(4), [("x", (2, 3, 4))], through_onnx=False)


def test_at_once_through_onnx(dense: Any) -> None:
    ir = forge.from_torch(dense, [("data", ("batch", 3, 4))], use_parser_friendly_name=True, through_onnx=True)
    assert (ir.input_names, str(ir.input_shapes[0][0])) == (["data"], "batch")
    check(ir, dense, X)
    with pytest.raises(forge.ForgeError, match="through_onnx=True and custom_convert_map; expected one"):
        forge.from_torch(dense, [X], {"aten::relu": print}, through_onnx=True)
    with pytest.raises(forge.ForgeError, match="through_onnx: got 'yes'; expected None, True or False"):
        forge.from_torch(dense, [X], through_onnx="yes")  # type: ignore[arg-type]


def test_writes_to_buffers_are_not_lost_on_the_way_through_onnx() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x: Any) -> Any:
            self.count += x
            return self.count * 1

    with pytest.raises(forge.ForgeError, match="the model writes to count"):
        forge.from_torch(Counter(), [torch.ones(2)], through_onnx=True)


def test_an_older_torch_is_named(dense: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional, "installed", lambda package: "2.9.1+cpu")
    with pytest.warns(UserWarning, match=r"from_torch: torch 2\.9\.1\+cpu is older than torch 2\.13, .* update it") as caught:
        forge.from_torch(dense, [("x", (2, 3, 4))])
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match=r"forge\.torch: torch 2\.9\.1\+cpu is older than torch 2\.13"):
        importlib.reload(forge.torch)


@pytest.mark.parametrize("first", ["n", "2*n", "2*n + 1"])
def test_sizes_that_are_computed_of_others(first: str) -> None:
    class Joined(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x.sum(0) + y[:, 0].sum()

    ir = forge.from_torch(Joined(), [("x", (first, 4)), ("y", ("n", "m"))])
    for n in (3, 7):
        rows = {"n": n, "2*n": 2 * n, "2*n + 1": 2 * n + 1}[first]
        check(ir, Joined(), torch.ones(rows, 4), torch.ones(n, 5))
    with pytest.raises(forge.ForgeError):
        check(ir, Joined(), torch.ones(4, 4), torch.ones(7, 5))


def test_products_bear_the_names_of_layers() -> None:
    """Not the biases after them; and modules name them, too."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 4)).eval()
    ir = forge.from_torch(model, [torch.ones(1, 3, 8, 8)])
    assert [(n.op, n.name, n.location) for n in ir.main.nodes if n.op in ("nn.conv2d", "nn.dense")] == [
        ("nn.conv2d", "conv2d", "0/conv2d"), ("nn.dense", "linear", "3/linear")]
    ir.quantize(calib_data=[np.ones((1, 3, 8, 8), np.float32)], exclude="3", check=False)
    assert {n.op: n.operands[1].op for n in ir.main.nodes if n.name in ("conv2d", "linear")} == {  # type: ignore[union-attr]
        "nn.conv2d": "qnn.dequantize", "nn.dense": "constant"}


class Outer(torch.nn.Module):
    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


def test_modules_that_are_nested_deeply() -> None:
    model: torch.nn.Module = Dense()
    for _ in range(200):
        model = Outer(model)
    x, limit = torch.randn(2, 4), sys.getrecursionlimit()
    found = forge.from_torch(model.eval(), [("x", ((2, 4), "float32"))]).get_inference_function()(x.numpy())
    np.testing.assert_allclose(found, model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    for _ in range(2000):
        model = Outer(model)
    with pytest.raises(forge.errors.ImportModelError, match="more than 2000 modules in each other"):
        forge.from_torch(model, [("x", ((2, 4), "float32"))])
    assert sys.getrecursionlimit() == limit
