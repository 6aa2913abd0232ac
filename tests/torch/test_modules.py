"""Compiled models as modules, and Dynamo's graphs as modules of the IR."""

from __future__ import annotations

import copy
import pickle  # noqa: TID251 - of what this test made
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import forge  # noqa: E402
from forge.errors import ImportModelError, InputError, OpAttributeUnimplemented, OpNotImplemented, OptionError  # noqa: E402
from forge.relax.frontend.torch import detach_params, dynamo_capture_subgraphs, relax_dynamo  # noqa: E402

nn = torch.nn


class Pair(NamedTuple):
    total: Any
    parts: Any


class Structured(nn.Module):
    """Trees in and out, with constants among the leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Any, pair: Any, *, scale: float = 1.0, flag: Any = None) -> Any:
        y = self.linear(x) * scale
        return {"y": y, "none": flag, "parts": Pair(pair[0] + pair[1]["b"], [y.sum(), 3])}


def test_trees() -> None:
    model = Structured().eval()
    x, pair = torch.randn(2, 4), (torch.randn(3), {"b": torch.randn(3)})
    example = {"x": x, "pair": pair, "scale": 2.0}
    module = forge.torch.compile_module(model, example)
    with torch.no_grad():
        wanted = model(**example)
    for got in (module(**example), module(scale=2.0, pair=pair, x=x)):
        assert got["none"] is None and isinstance(got["parts"], Pair) and got["parts"].parts[1] == 3
        torch.testing.assert_close([got["y"], *got["parts"]], [wanted["y"], *wanted["parts"]])
    with pytest.raises(InputError, match=r"got 3\.0; expected 2\.0"):
        module(x=x, pair=pair, scale=3.0)
    with pytest.raises(InputError, match=r"arguments by name: got \['x'\]; expected those of the example"):
        module(x=x)
    with pytest.raises(InputError, match="the form of the example"):
        module(x=x, pair=list(pair), scale=2.0)


def test_arguments_by_name_and_in_order() -> None:
    model = Structured().eval()
    x, pair = torch.randn(2, 4), (torch.randn(3), {"b": torch.randn(3)})
    wanted = model(x, pair)["y"]
    for example in ((x, pair), {"x": x, "pair": pair}):
        module = forge.torch.compile_module(model, example)
        for got in (module(x, pair), module(x, pair=pair), module(pair=pair, x=x)):
            torch.testing.assert_close(got["y"], wanted.detach())
        with pytest.raises(InputError):
            module(x, x=x, pair=pair)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.count += x
        return self.count * 1


def test_copies_and_pickles(tmp_path: Path) -> None:
    x = torch.ones(3)
    module = forge.torch.compile_module(Counter(), x, output_path=tmp_path / "made")
    module(x)
    for again in (copy.copy(module), copy.deepcopy(nn.Sequential(module))[0], pickle.loads(pickle.dumps(module))):
        torch.testing.assert_close([again(x), again(x)], [x * 2, x * 3])
    torch.testing.assert_close(module(x), x * 2)
    in_memory = forge.torch.compile_module(nn.Linear(3, 3), x)
    torch.testing.assert_close(copy.deepcopy(in_memory)(x), in_memory(x))
    with pytest.raises(OptionError, match="got code that is only in memory; expected an artifact"):
        pickle.dumps(in_memory)


def test_artifact(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh()).eval()
    x = torch.randn(3, 4)
    rows = torch.export.Dim("rows")
    module = forge.torch.compile_module(model, x, dynamic_shapes=({0: rows},), output_path=tmp_path / "made", opt_level=2)
    again = forge.torch.CompiledModule(tmp_path / "made")
    for given in (x, torch.randn(7, 4)):
        with torch.no_grad():
            wanted = model(given)
        torch.testing.assert_close(module(given), wanted)
        torch.testing.assert_close(again(given), wanted)
    assert again.runtime.metadata["options"]["opt_level"] == 2
    assert not list(again.parameters()) and not again.training


def test_states_are_kept() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: Any) -> Any:
            self.count += 1
            return x * self.count

    module = forge.torch.compile_module(Counter(), torch.ones(2))
    assert [module(torch.ones(2))[0].item() for _ in range(3)] == [1, 2, 3]


def test_a_module_that_writes_to_its_arguments_is_refused() -> None:
    class Doubled(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.mul_(2)

    with pytest.raises(OpAttributeUnimplemented, match=r"writes to its arguments \['x'\]; supported"):
        forge.torch.compile_module(Doubled(), torch.ones(2))


def test_bad_arguments() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(OptionError, match="fallback: expected none"):
        forge.torch.compile_module(model, torch.ones(2), fallback=True)
    with pytest.raises(OptionError, match="'speed'; expected names of target"):
        forge.torch.compile_module(model, torch.ones(2), speed=3)
    with pytest.raises(OpNotImplemented, match="linalg_eig"):
        forge.torch.compile_module(Eigenvalues(), torch.ones(2, 2))
    with pytest.raises(AttributeError, match="no attribute 'compile_modul'"):
        forge.torch.compile_modul  # noqa: B018


class Eigenvalues(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.linalg.eigvals(x)


def test_captured_subgraphs() -> None:
    first, second = nn.Linear(4, 4).eval(), nn.Linear(4, 2).eval()

    def model(x: Any, y: Any = None) -> Any:
        z = torch.relu(first(x))
        torch._dynamo.graph_break()
        return second(z) + y

    x, y = torch.randn(3, 4), torch.randn(2)
    torch.compiler.reset()
    module = dynamo_capture_subgraphs(model, x, y=y)
    assert module.functions == ["subgraph_0", "subgraph_1"]
    middle = module.function("subgraph_0").get_inference_function()(x.numpy())
    by_name = {name: {"y": y.numpy()}.get(name, middle) for name in module.function("subgraph_1").input_names}
    np.testing.assert_allclose(
        module.function("subgraph_1").get_inference_function()(**by_name), model(x, y).detach().numpy(), rtol=1e-5, atol=1e-6)
    torch.compiler.reset()
    kept = dynamo_capture_subgraphs(model, x, y=y, keep_params_as_input=True)
    detached, values = detach_params(kept)
    assert {name: len(arrays) for name, arrays in values.items()} == {"subgraph_0": 2, "subgraph_1": 2}
    np.testing.assert_array_equal(values["subgraph_0"][0].numpy(), first.weight.detach().numpy())
    assert len(detached.function("subgraph_0").input_names) == 3


def test_nothing_captured() -> None:
    with pytest.raises(ImportModelError, match="captured no graph"):
        dynamo_capture_subgraphs(lambda x: x, torch.ones(2))
    with pytest.raises(OptionError, match="keep_params_as_input: got 1"):
        dynamo_capture_subgraphs(lambda x: x, torch.ones(2), keep_params_as_input=1)


def test_pipeline() -> None:
    seen = []

    def doubled(module: forge.IRModule) -> forge.IRModule:
        seen.append(module.functions)
        return forge.IRModule(str(module.main).replace("nn.relu", "tanh"))

    torch.compiler.reset()
    own = torch.compile(torch.relu, backend=relax_dynamo(doubled))
    x = torch.randn(3)
    torch.testing.assert_close(own(x), torch.tanh(x))
    assert seen == [["main"]]
    with pytest.raises(OptionError, match="pipeline: got 3"):
        relax_dynamo(3)  # type: ignore[arg-type]
