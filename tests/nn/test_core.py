"""Tensors, parameters, modules, specifications, effects and subroutines of ``forge.nn``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import forge
from forge import nn
from forge.errors import OptionError
from forge.nn import spec

FORWARD = {"forward": {"x": spec.Tensor(["batch", 4], "float32")}}


class Affine(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        self.weight = nn.Parameter((inputs, outputs))
        self.bias = nn.Parameter((outputs,))

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return nn.matmul(x, self.weight) + self.bias


class Shared(Affine):
    define_subroutine = True


class Stack(nn.Module):
    def __init__(self, layer: type[Affine] = Affine, count: int = 2) -> None:
        self.layers = nn.ModuleList([layer(4, 4) for _ in range(count)])

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.layers(x) * 2.0  # type: ignore[no-any-return]


def filled(module: Any) -> Any:
    rng = np.random.default_rng(0)
    for parameter in module.parameters():
        parameter.data = rng.standard_normal(parameter.shape).astype(parameter.dtype)
    return module


def computed(module: Stack, x: np.ndarray) -> np.ndarray:
    for layer in module.layers:
        x = x @ np.asarray(layer.weight.data) + np.asarray(layer.bias.data)
    return x * 2


X = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)


def test_names_of_parameters() -> None:
    module = Stack()
    names = ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]
    assert [name for name, _ in module.named_parameters()] == names
    assert list(module.state_dict()) == names
    assert [name for name, _ in module.named_parameters("m")] == [f"m.{name}" for name in names]
    module.layers[1].weight = module.layers[0].weight
    assert len(list(module.parameters())) == 3
    assert list(module.state_dict()) == names


def test_export_compiles() -> None:
    module = filled(Stack())
    ir = module.export(FORWARD)
    assert ir.functions == ["forward"]
    assert ir.input_names == ["x"]
    np.testing.assert_allclose(forge.compile(ir)(X), computed(module, X), rtol=1e-5)
    assert module.export({"x": FORWARD["forward"]["x"]}) == ir


def test_parameters_as_inputs() -> None:
    module = filled(Stack())
    kept = module.export(FORWARD, keep_params_as_input=True)
    assert list(kept.params) == [name for name, _ in module.named_parameters()]
    np.testing.assert_allclose(forge.compile(kept)(X), computed(module, X), rtol=1e-5)
    ir, parameters = module.export_tvm(FORWARD)
    assert ir.input_names == ["x", *(name for name, _ in parameters)]
    assert ir.main.attributes["num_input"] == 1
    result = forge.compile(ir)(X, *(np.asarray(parameter.data) for _, parameter in parameters))
    np.testing.assert_allclose(result, computed(module, X), rtol=1e-5)


@pytest.mark.parametrize("mode", ["packed", "none"])
def test_parameter_modes(mode: str) -> None:
    module = filled(Stack())
    arguments = {**FORWARD["forward"], "$": {"param_mode": mode}}
    ir, _ = module.export_tvm({"forward": arguments})
    assert ir.input_names == (["x"] if mode == "none" else ["x", *(f"packed_params.{k}" for k in range(4))])
    assert "$" in arguments


def test_data_of_parameters() -> None:
    parameter = nn.Parameter((2, "n"), "float64")
    assert parameter.data is None
    parameter.data = np.ones((2, 3))
    assert parameter.data.numpy().tolist() == [[1, 1, 1]] * 2
    with pytest.raises(OptionError, match=r"got Tensor\[\(3, 3\), float64\]; expected Tensor\[\(2, n\), float64\]"):
        parameter.data = np.ones((3, 3))
    with pytest.raises(OptionError, match=r"got Tensor.*float32"):
        parameter.data = np.ones((2, 3), np.float32)
    with pytest.raises(OptionError, match="convert the data"):
        parameter.to("float32")
    parameter.data = None
    parameter.to("float32")
    assert parameter.dtype == "float32"


def test_default_dtype() -> None:
    nn.set_default_dtype("float16")
    try:
        assert nn.Parameter((1,)).dtype == nn.get_default_dtype() == "float16"
    finally:
        nn.set_default_dtype("float32")
    with pytest.raises(OptionError, match="unknown dtype"):
        nn.set_default_dtype("float31")


def test_load_state_dict() -> None:
    source, module = filled(Stack()), Stack()
    assert module.load_state_dict(source.state_dict()) == ([], [])
    assert module.layers[0].weight.data is not None
    arrays = {name: np.asarray(parameter.data) for name, parameter in source.state_dict().items()}
    with pytest.raises(KeyError, match=r"missing: layers.0.weight; unexpected: other"):
        Stack().load_state_dict({**{n: a for n, a in arrays.items() if n != "layers.0.weight"}, "other": X})
    assert Stack().load_state_dict({"other": X}, strict=False) == (list(arrays), ["other"])
    with pytest.raises(OptionError, match=r"load_state_dict: 'layers.1.bias'.*expected"):
        Stack().load_state_dict({**arrays, "layers.1.bias": X})


def test_constants_are_computed_at_once() -> None:
    x = nn.Tensor.from_const([[1.0, 2.0]])
    assert (x * 2 + 1).numpy().tolist() == [[3, 5]]
    assert nn.Tensor.from_scalar(3, "int8").dtype == "int8"
    module = filled(Affine(4, 4))
    np.testing.assert_allclose(module(nn.Tensor.from_const(X)).numpy(), X @ module.weight.data + module.bias.data, rtol=1e-6)
    with pytest.raises(OptionError, match="not bound to data"):
        Affine(4, 4)(nn.Tensor.from_const(X))


def test_placeholders_have_no_contents() -> None:
    placeholder = nn.Tensor.placeholder(("n", 2), "int32")
    assert str(placeholder.shape[0]) == "n" and placeholder.dtype == "int32" and placeholder.ndim == 2
    assert nn.Tensor.from_struct_info(placeholder).shape == placeholder.shape
    with pytest.raises(OptionError, match="only states a type"):
        placeholder + 1
    with pytest.raises(OptionError, match="before the model runs"):
        placeholder.numpy()


class Nested(nn.Module):
    def forward(self, pair: Any, scale: Any) -> Any:
        a, (b, c) = pair
        return {"sum": a + b, "rest": [c * scale]}


def test_nested_arguments_and_results() -> None:
    vector = spec.Tensor([2], "float32")
    run = Nested().jit({"forward": {"pair": (vector, [vector, vector]), "scale": vector}}, out_format="numpy")
    a, b, c, d = (np.full(2, k, np.float32) for k in range(4))
    result = run((a, [b, c]), scale=d)
    assert result["sum"].tolist() == [1, 1] and result["rest"][0].tolist() == [6, 6]
    with pytest.raises(OptionError, match="got arguments 1 by position; expected: pair, scale"):
        run((a, [b, c]))
    with pytest.raises(OptionError, match="'other' is not a method"):
        run["other"]


class Cached(nn.Module):
    def __init__(self) -> None:
        self.cache = nn.KVCache(2, (4,))

    def forward(self, x: nn.Tensor, total: Any) -> nn.Tensor:
        self.cache.append(x)
        return self.cache.view(total)

    def rows(self) -> nn.Tensor:
        return self.cache.view()

    def double(self, x: nn.Tensor) -> nn.Tensor:
        return x * 2


def test_cache() -> None:
    tensor = FORWARD["forward"]["x"]
    specification = {"forward": {"x": tensor, "total": "int"}, "rows": {}, "double": {"x": tensor}}
    ir = Cached().export(specification)
    assert ir.state_names == ["cache"]
    assert [v.name for v in ir["double"].inputs] == ["x"]
    run = Cached().jit(specification, out_format="numpy")
    assert run["rows"]().shape == (0, 4)
    assert run(X, 3).tolist() == X.tolist()
    assert run(X[:1], total=4)[3].tolist() == X[0].tolist()
    assert run["rows"]().shape == (4, 4)
    with pytest.raises(forge.ForgeError, match="is not total"):
        run(X[:1], 9)
    run.reset()
    assert run["rows"]().shape == (0, 4)


def test_cache_checks_rows() -> None:
    class Wrong(Cached):
        def forward(self, x: nn.Tensor, total: Any) -> nn.Tensor:
            self.cache.append(x)
            return x

    with pytest.raises(OptionError, match=r"KVCache.append: got .*; expected \(rows, 4\) of float32"):
        Wrong().export({"forward": {"x": spec.Tensor([1, 3, 4], "float32"), "total": "int"}})
    with pytest.raises(OptionError, match="outside of an export"):
        nn.KVCache(1, (4,)).append(nn.Tensor.from_const(X))


class Counter(nn.Effect):
    """A state of the user's own: how often it was called."""

    def emit_init(self, name_hint: str, builder: Any) -> Any:
        return [builder.constant(np.int64(10))]

    def count(self) -> nn.Tensor:
        (before,) = self.state
        after = nn.wrap_nested(before, "count") + 1
        self.set_state([after.source])
        return after  # type: ignore[no-any-return]


class Counting(nn.Module):
    def __init__(self) -> None:
        self.counter = Counter()

    def forward(self) -> nn.Tensor:
        return self.counter.count()


def test_effects_of_the_user() -> None:
    run = Counting().jit({"forward": {}}, out_format="numpy")
    assert [int(run()) for _ in range(3)] == [11, 12, 13]


def test_subroutines_are_shared() -> None:
    plain, shared = filled(Stack()), filled(Stack(Shared, 2))
    ir = shared.export(FORWARD)
    assert list(ir.graphs) == ["forward", "shared"]
    assert ir.operators["call"] == 2
    np.testing.assert_allclose(forge.compile(ir)(X), forge.compile(plain.export(FORWARD))(X), rtol=1e-6)


def test_subroutines_that_differ() -> None:
    class Scaled(Shared):
        def __init__(self, scale: float) -> None:
            super().__init__(4, 4)
            self.scale = scale

        def forward(self, x: nn.Tensor) -> nn.Tensor:
            return super().forward(x) * self.scale

    class Both(nn.Module):
        def __init__(self) -> None:
            self.layers = nn.ModuleList([Scaled(1.5), Scaled(2.5), Scaled(1.5)])

        def forward(self, x: nn.Tensor) -> nn.Tensor:
            return self.layers(x)  # type: ignore[no-any-return]

    module = filled(Both())
    ir = module.export(FORWARD)
    assert sorted(ir.graphs) == ["forward", "scaled", "scaled_2"]
    expected = X
    for layer in module.layers:
        expected = (expected @ layer.weight.data + layer.bias.data) * layer.scale
    np.testing.assert_allclose(forge.compile(ir)(X), expected, rtol=1e-5)


class Widened(nn.Mutator):
    def visit_module(self, name: str, node: nn.Module) -> Any:
        return Shared(4, 4) if name == "layers.1" else self.visit(name, node)


def test_mutator() -> None:
    module = Widened().visit("", Stack())
    assert [type(layer) for layer in module.layers] == [Affine, Shared]


def test_containers() -> None:
    modules = nn.ModuleDict({"a": Affine(2, 2)})
    modules["b"] = Affine(2, 2)
    assert list(modules) == ["a", "b"] and "b" in modules and len(modules) == 2
    assert list(modules.state_dict()) == ["a.weight", "a.bias", "b.weight", "b.bias"]
    modules.to("float16")
    assert modules["a"].weight.dtype == "float16"
    assert modules.pop("a") is not None and modules.get("a") is None
    parameters = nn.ParameterList([nn.Parameter((1,))])
    parameters.append(nn.Parameter((2,)))
    assert [name for name, _ in parameters.named_parameters()] == ["0", "1"]
    assert [name for name, _ in nn.ParameterDict({"w": parameters[0]}).named_parameters()] == ["w"]
    assert nn.Sequential(Affine(4, 2), Affine(2, 3)).export(FORWARD).output_shapes[0][1] == 3  # type: ignore[index]


@pytest.mark.parametrize(("given", "message"), [
    ({"other": {}}, "'other' is not a method of Stack"),
    ({"forward": {"y": "int"}}, "'y' is not an argument; expected some of: x"),
    ({"forward": {}}, "argument 'x' is missing"),
    ({"forward": {"x": 3}}, "got 3; expected spec.Tensor"),
    ({"forward": {"x": "int", "$": {"param_mode": "tuple"}}}, "got 'tuple'; expected one of: plain, packed, none"),
    (3, "expected methods by name"),
])  # fmt: skip
def test_wrong_specifications(given: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Stack().export(given)


def test_wrong_tensors_in_specifications() -> None:
    with pytest.raises(OptionError, match="unknown dtype"):
        spec.Tensor([1], "float31")
    with pytest.raises(OptionError, match="got -1; expected sizes of at least 0"):
        spec.Tensor([-1], "float32")


def test_misuse_inside_methods() -> None:
    class Foreign(nn.Module):
        def forward(self, x: nn.Tensor) -> Any:
            return nn.matmul(x, OTHER)

    class Mixed(nn.Module):
        def forward(self, x: nn.Tensor) -> Any:
            return x + nn.Tensor.from_const(X.astype(np.float64)[:1])

    class Wrong(nn.Module):
        def forward(self, x: nn.Tensor) -> Any:
            return 3

    for module, message in ((Foreign(), "not bound to data; expected an attribute"), (Wrong(), "Wrong.forward: returns int")):
        with pytest.raises(OptionError, match=message):
            module.export(FORWARD)
    with pytest.raises(OptionError, match="got float32 and float64; expected one element type; convert with astype"):
        Mixed().export(FORWARD)
    with pytest.raises(OptionError, match=r"4 parameters have no data: layers.0.weight"):
        Stack().jit(FORWARD)
    with pytest.raises(NotImplementedError, match=r"Module\.forward"):
        nn.Module().forward()


OTHER = nn.Parameter((4, 4))


def test_errors_say_where() -> None:
    class Broken(Affine):
        def forward(self, x: nn.Tensor) -> nn.Tensor:
            return nn.matmul(x, x)

    with pytest.raises(forge.ForgeError) as raised:
        Stack(Broken).export({"x": spec.Tensor([3, 4], "float32")})
    assert raised.value.__notes__ == ["in layers.0 (Broken)"]


def test_import_path_of_relax() -> None:
    from forge.relax.frontend import nn as relax_nn

    assert relax_nn.Module is nn.Module and relax_nn.spec is spec


def test_examples_of_torch() -> None:
    torch = pytest.importorskip("torch")
    module = filled(Stack())
    method = spec.MethodSpec.from_torch([torch.zeros(3, 4)], module.forward)
    run = module.jit({"forward": method})
    torch.testing.assert_close(run(torch.from_numpy(X)), torch.from_numpy(computed(module, X)), rtol=1e-5, atol=1e-5)
