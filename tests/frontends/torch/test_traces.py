"""TorchScript graphs: what their nodes give, in traces and in scripts, with fixed and with dynamic sizes."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest

import forge

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")

X = torch.linspace(-1, 1, 24).reshape(2, 3, 4)


def leaves(found: Any) -> list[np.ndarray]:
    if isinstance(found, dict):
        found = list(found.values())
    return [a for item in found for a in leaves(item)] if isinstance(found, list | tuple) else [np.asarray(found)]


def check(model: Any, *inputs: Any, infos: Any = None, more: Any = ()) -> forge.IRModule:
    """The module of a trace or script gives what that gives, for these inputs and for others."""
    ir = forge.from_torch(model, infos, through_onnx=False)
    run = ir.get_inference_function()
    for given in (inputs, *more):
        expected = leaves([np.asarray(t.detach()) for t in torch.utils._pytree.tree_leaves(model(*[t.clone() for t in given]))])
        got = leaves(run(*[t.numpy() for t in given]))
        for g, e in zip(got, expected, strict=True):
            assert g.dtype == e.dtype
            np.testing.assert_allclose(g, e, rtol=1e-5, atol=1e-6)
    return ir


class Module(torch.nn.Module):
    """A module of a function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


FUNCTIONS: dict[str, Any] = {
    "sizes": lambda x: x.reshape(x.shape[0] * x.shape[1], -1),
    "sizes, divided": lambda x: x.reshape(x.shape[0], x.shape[1], 2, x.shape[2] // 2),
    "sizes, as values": lambda x: x * x.shape[0] + x.size(1) / 2,
    "sizes, in a slice": lambda x: x[:, 1:x.shape[1] // 2 + 1],
    "sizes, as results": lambda x: (torch.as_tensor(x.shape[1]) + 0, torch.as_tensor(x.shape[1] / 2) + 0),
    "sizes, as floats": lambda x: torch.as_tensor(x.shape[1]).to(torch.float32),
    "sizes, with tensors": lambda x: torch.stack([torch.as_tensor(x.shape[2]).float() / 2, x.sum()]),
    "sizes, with integers": lambda x: torch.div(torch.as_tensor(x.shape[2]), 4) + x.to(torch.int64),
    "sizes, rounded": lambda x: x.to(torch.int64) * torch.floor(torch.as_tensor(x.shape[2]) * 0.3),
    "sizes, cut": lambda x: x.to(torch.int64) * (torch.as_tensor(x.shape[1]) / 2).to(torch.int64),
    "sizes, compared": lambda x: x.to(torch.int32) * (torch.as_tensor(x.shape[2]) > 2),
    "sizes, least": lambda x: x * torch.tensor(x.shape).min() + torch.tensor(x.shape).prod(),
    "sizes, as a vector": lambda x: (torch.tensor(x.shape) * 2, torch.tensor(x.shape)[1:], torch.tensor(x.shape).float().mean()),
    "sizes, of a constant": lambda x: x[:, : (torch.as_tensor(x.shape[1]) // torch.tensor([2, 3]).min()) * 2],
    "sizes, scaled": lambda x: torch.nn.functional.interpolate(x, scale_factor=1.5, mode="area"),
    "sizes, scaled by a factor that float32 rounds": lambda x: torch.nn.functional.interpolate(x, scale_factor=0.7, mode="area"),
    "numbers": lambda x: (x * 2.0 + 1) / 3 - 1,
    "numbers of integers": lambda x: (x.to(torch.int32) + 2) * 3,
    "integers by a float": lambda x: x.to(torch.int64) * 0.5,
    "constants": lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0]),
    "types": lambda x: x.to(torch.float64).to(torch.float32) + x.half().float(),
    "in place": lambda x: torch.relu_(x + 1).add_(x, alpha=2),
    "in place through views": lambda x: _written(x.clone()),
    "indices": lambda x: x[:, torch.tensor([2, 0])],
    "several results": lambda x: x.split(2, dim=2),
    "unpacked": lambda x: x.unbind(1)[0] + x.chunk(2, dim=2)[1].sum(),
    "dictionaries": lambda x: {"a": x, "b": x + 1},
    "nested": lambda x: (x, (x + 1, [x + 2])),
    "new tensors": lambda x: torch.zeros(x.shape[0], 3) + torch.ones_like(x[:, :, 0]) + torch.arange(x.shape[1]),
    "joined": lambda x: torch.cat([x, x.transpose(0, 1).transpose(0, 1)], dim=-1),
}


def _written(x: Any) -> Any:
    x[:, 0] = 5.0
    x[..., 1:3].mul_(2)
    return x


@pytest.mark.parametrize("name", FUNCTIONS)
def test_traces(name: str) -> None:
    check(torch.jit.trace(Module(FUNCTIONS[name]), X, strict=False), X)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_traces_with_a_dynamic_size(name: str) -> None:
    trace = torch.jit.trace(Module(FUNCTIONS[name]), X, strict=False)
    ir = check(trace, X, infos=[("x", ("batch", 3, 4))], more=[(torch.cat([X, X + 1, X]),)])
    assert str(ir.input_shapes[0][0]) == "batch"


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 4))
        self.register_buffer("shift", torch.arange(4.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(x) + self.shift


def test_weights_and_nodes_have_the_names_of_the_modules() -> None:
    ir = check(torch.jit.trace(Net(), X), X)
    names = {v.name for node in ir.main for v in node.results if v.constant is not None}
    assert {"block.0.bias", "block.2.bias", "shift"} <= names
    assert "block/2/linear_1" in {node.location for node in ir.main}


def test_no_line_of_the_importer_stands_for_one_of_the_model() -> None:
    from forge.frontends.torch.loader import load

    assert not any("torch/script/" in step.source for step in load(torch.jit.trace(Net(), X)).steps)


def test_torchscript_is_imported_for_its_models_only(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = "forge.frontends.torch.script"
    for name in [name for name in sys.modules if name == folder or name.startswith(f"{folder}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(forge.frontends.torch, "script", raising=False)
    exported = torch.export.export(Net(), (X,))
    forge.from_torch(exported)
    assert folder not in sys.modules
    trace = torch.jit.trace(Net(), X)
    forge.from_torch(trace)
    assert folder in sys.modules


def test_a_trace_from_a_file_needs_its_shapes() -> None:
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(Net(), X), buffer)
    buffer.seek(0)
    check(torch.jit.load(buffer), X, infos=[("x", (2, 3, 4))])


def test_frozen_traces() -> None:
    check(torch.jit.freeze(torch.jit.trace(Net().eval(), X)), X, infos=[("x", (2, "n", 4))])


class Counting(torch.nn.Module):
    def forward(self, x: torch.Tensor, times: int = 3) -> torch.Tensor:
        found = [x]
        for k in range(times):
            if k % 2 == 0:
                found.append(found[-1] * float(k + 1))
            else:
                found.append(found[-1] + x.size(0))
        total = x
        k = 0
        while k < len(found):
            total = total + found[k]
            k += 1
        return total if x.dim() == 3 else -total


class Attributes(torch.nn.Module):
    """Tensors that are not buffers, which calls replace, and one in a module of it that is only read."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.zeros(1, 4)
        self.count = torch.tensor(0)
        self.inner = Constant()

    def forward(self, x: torch.Tensor) -> Any:
        before = self.last
        joined = self.inner(torch.cat([before, x], 1))
        self.last = x[:, -4:]
        self.count = self.count + 1
        return joined.sum(1), before, self.last + 1, self.count


class Constant(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = torch.tensor([2.0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


def test_tensors_that_are_attributes_are_states() -> None:
    script = torch.jit.script(Attributes())
    run = forge.from_torch(script, [("x", (1, 8))]).get_inference_function()
    for k in range(3):
        x = torch.arange(8.0)[None] + k
        for got, wanted in zip(run(x.numpy()), script(x), strict=True):
            np.testing.assert_array_equal(got, wanted.numpy())


def test_attributes_that_cannot_be_states_are_refused_by_name() -> None:
    class Counts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls = self.calls + 1
            return x * self.calls

    class Grows(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen = torch.zeros(1, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen = torch.cat([self.seen, x])
            return self.seen.sum(0)

    with pytest.raises(forge.OpNotImplemented, match="a call sets attribute 'calls', which is int; expected a tensor"):
        forge.from_torch(torch.jit.script(Counts()), [("x", (1, 4))])
    with pytest.raises(forge.OpNotImplemented, match=r"a call makes attribute 'seen' torch.float32\[2, 4\]; expected .*\[1, 4\]"):
        forge.from_torch(torch.jit.script(Grows()), [("x", (1, 4))])


class Wrapped(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Counting()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


def test_scripts_with_loops_branches_and_lists() -> None:
    check(torch.jit.script(Wrapped()), X, infos=[("x", ("n", 3, 4))], more=[(torch.cat([X, X]),)])


def test_tuples_as_inputs() -> None:
    class Sum(torch.nn.Module):
        def forward(self, pair: tuple[torch.Tensor, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
            return pair[0] + pair[1] * x

    ir = forge.from_torch(torch.jit.trace(Sum(), ((X, X + 1), X)))
    assert ir.input_shapes == [(2, 3, 4)] * 3
    got = ir.get_inference_function()(*[t.numpy() for t in (X, X + 1, X)])
    np.testing.assert_allclose(got, (X + (X + 1) * X).numpy(), rtol=1e-6)


def test_what_cannot_be_run_is_refused() -> None:
    class Endless(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() > 0:
                x = x + 1
            return x

    with pytest.raises(forge.ForgeError, match=r"torch\.export failed for inputs x"):
        forge.from_torch(torch.jit.script(Endless()), [("x", (2,))])

    class Raises(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.dim() == 1:
                raise ValueError("rank 1")
            return x

    with pytest.raises(forge.ForgeError, match="it raises 'rank 1' for these inputs"):
        forge.from_torch(torch.jit.script(Raises()), [("x", (2,))])


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, factor: float) -> Any:
        y = x * torch.sigmoid(x) * factor
        return y + w, y.reshape(x.shape[0], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise NotImplementedError


class Functions(torch.nn.Module):
    """Functions with gradients of their own, once within another."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.arange(4.0))

    def forward(self, x: torch.Tensor) -> Any:
        (a, b), (c, _) = Swish.apply(x, self.w, 3.0), Outer.apply(x, self.w)
        return a + c, b


class Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        return Swish.apply(x + 1, w, 2.0)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise NotImplementedError


def test_functions_with_gradients_of_their_own() -> None:
    trace = torch.jit.trace(Functions(), X, check_trace=False)
    check(trace, X, infos=[("x", ("batch", 3, 4))], more=[(torch.cat([X, X + 1, X]),)])


def test_functions_that_torchscript_ignores_are_refused() -> None:
    class Ignored(torch.nn.Module):
        @torch.jit.ignore
        def hidden(self, x):  # type: ignore[no-untyped-def]
            # type: (torch.Tensor) -> torch.Tensor
            return x + 1

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.hidden(x) * 2

    with pytest.raises(forge.OpNotImplemented, match=r"trace: hidden at .* is a function of Python, of which"):
        forge.from_torch(torch.jit.script(Ignored()), [("x", (2,))])


def test_functions_are_refused() -> None:
    with pytest.raises(forge.ForgeError, match="got a ScriptFunction; expected a module"):
        forge.from_torch(torch.jit.trace(lambda x: x + 1, X))
