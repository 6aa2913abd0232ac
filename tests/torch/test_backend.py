"""``torch.compile(model, backend="forge")`` does what eager PyTorch does."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._dynamo.exc import BackendCompilerFailed  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from forge.errors import GradientError, OpAttributeUnimplemented, OpNotImplemented, OptionError  # noqa: E402
from forge.torch import compiled  # noqa: E402
from forge.torch.tracing import _check_constants, _kept_levels  # noqa: E402
from forge_runtime import Runtime  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.usefixtures("fresh")


def forge(model: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(model, backend="forge", options=options or None)  # type: ignore[no-any-return]


def check(model: Callable[..., Any], *arguments: Any, fullgraph: bool = True) -> Callable[..., Any]:
    """Compares results and written arguments, and the memory that they share, with those of eager PyTorch."""
    own, others = copy.deepcopy((model, arguments))
    with torch.no_grad():
        compiled_model = torch.compile(own, backend="forge", fullgraph=fullgraph)
        got, wanted = compiled_model(*others), model(*arguments)
    torch.testing.assert_close(got, wanted)
    torch.testing.assert_close(others, arguments)
    leaves = [torch.utils._pytree.tree_leaves(tree) for tree in ((got, others), (wanted, arguments))]
    tensors = [[t for t in found if isinstance(t, torch.Tensor)] for found in leaves]
    shared = [[(i, j) for i, a in enumerate(found) for j, b in enumerate(found) if _share(a, b)] for found in tensors]
    assert shared[0] == shared[1]
    assert [t.stride() for t in tensors[0]] == [t.stride() for t in tensors[1]]
    return compiled_model  # type: ignore[no-any-return]


def _share(a: Any, b: Any) -> bool:
    return bool(a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() and a.untyped_storage().nbytes())


def network() -> Any:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(8, 4)).eval()


@pytest.mark.parametrize("case", [
    lambda x: x * 2 + 1,
    lambda x: (x.T, x.view(-1), x[0]),
    lambda x: ((x + 1).T, 3, None, x.shape[0]),
    lambda x: [y := torch.relu(x), y[1:], y.t()],
    lambda x: x.add_(1),
    lambda x: (x[0].mul_(2), x.sum()),
    lambda x: {"a": x.sum(0), "b": (x.mean(), [x.argmax(1)])},
    lambda x: (x.transpose(0, 1).contiguous(), x.expand(2, *x.shape).sum(0)),
    lambda x: x.to(torch.bfloat16) @ x.to(torch.bfloat16).T,
    lambda x: (x > 0, x.to(torch.int64), torch.empty(0, 3), torch.tensor(3.0)),
    lambda x: torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,)),
    lambda x: torch.fft.fft(x),
    lambda x: torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
])  # fmt: skip
def test_functions(case: Callable[..., Any]) -> None:
    check(case, torch.randn(4, 6))


def test_needs_no_import() -> None:
    code = (
        "import torch; f = torch.compile(lambda x: x + 1, backend='forge')\n"
        "from torch._dynamo import config; before = config.get_config_copy()\n"
        "assert torch.equal(f(torch.ones(3)), torch.full((3,), 2.0)); assert config.get_config_copy() == before")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_module() -> None:
    check(network(), torch.randn(2, 3, 8, 8))


@torch._dynamo.config.patch(inline_inbuilt_nn_modules=False)
def test_modules_that_dynamo_leaves_whole() -> None:
    model, x = network(), torch.randn(2, 3, 8, 8)
    own = check(model, x)
    with torch.no_grad():
        model = own._orig_mod  # type: ignore[attr-defined]
        model[0].weight.mul_(2)
        torch.testing.assert_close(own(x), model(x))


def test_channels_last() -> None:
    model = network().to(memory_format=torch.channels_last)
    check(model[:3], torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last))


def test_strided_arguments() -> None:
    check(lambda x, y: x @ y, torch.randn(6, 4).T, torch.randn(12, 4)[::2])


def test_weights_that_are_quantized_tensors() -> None:
    quantization = pytest.importorskip("torchao.quantization")
    model = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 8)).eval()
    quantization.quantize_(model, quantization.Int8WeightOnlyConfig())
    fast, x = forge(model), torch.randn(4, 32)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x))
        torch.testing.assert_close(fast(x * 2), model(x * 2))


def test_nested_tensors_are_refused_by_name() -> None:
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
    with pytest.raises(BackendCompilerFailed, match="got a nested tensor"):
        forge(lambda x: x * 2)(nested)
    with pytest.warns(UserWarning, match="all of a graph runs eagerly: torch.compile: got a nested tensor"):
        torch.testing.assert_close(forge(lambda x: x * 2, fallback=True)(nested).values(), torch.full((6, 3), 2.0))


def test_inference_mode() -> None:
    model, x = network(), torch.randn(2, 3, 8, 8)
    with torch.inference_mode():
        got = forge(model)(x)
        assert got.is_inference()
        torch.testing.assert_close(got, model(x))


def test_autocast() -> None:
    model, x = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 8)).eval(), torch.randn(4, 32)
    compiled_model = forge(model)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        got, wanted = compiled_model(x), model(x)
        assert got.dtype == wanted.dtype == torch.bfloat16
        torch.testing.assert_close(got, wanted, rtol=2e-2, atol=2e-2)

    def inner(x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            y = model(x)
        return y, y.float() + 1

    with torch.no_grad():
        got, wanted = forge(inner)(x), inner(x)
    assert [t.dtype for t in got] == [torch.bfloat16, torch.float32]
    torch.testing.assert_close(got, wanted, rtol=2e-2, atol=2e-2)


def test_bfloat16_modules() -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32)).eval().to(torch.bfloat16)
    with torch.no_grad():
        x = torch.randn(4, 32, dtype=torch.bfloat16)
        torch.testing.assert_close(forge(model)(x), model(x), rtol=2e-2, atol=2e-2)


def test_graph_breaks() -> None:
    class Breaks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            y = self.first(x)
            torch._dynamo.graph_break()
            return self.second(y) * (2 if y.sum() > 0 else 3)

    check(Breaks(), torch.randn(3, 4), fullgraph=False)


def test_one_symbolic_compilation(compilations: list[str]) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    own = torch.compile(model, backend="forge", dynamic=True)
    with torch.no_grad():
        for rows in (3, 5, 1024, 7):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(own(x), model(x))
    assert len(compilations) == 1
    torch.compiler.reset()
    compilations.clear()
    own = forge(model)
    with torch.no_grad():
        for rows in (3, 5, 1024, 7):
            own(torch.randn(rows, 8))
    assert len(compilations) == 2  # of fixed sizes first


def test_sizes_in_results() -> None:
    own = torch.compile(lambda x, n: (x.view(-1, n)[1:], x.numel() // n, x.reshape(n, -1).T), backend="forge", dynamic=True)
    for rows, n in ((6, 2), (9, 3), (20, 5)):
        x = torch.arange(rows * 10.0)
        got, wanted = own(x, n), (x.view(-1, n)[1:], x.numel() // n, x.reshape(n, -1).T)
        torch.testing.assert_close(got, wanted)
        assert got[0].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


@pytest.mark.parametrize("function", [
    lambda x, s: (x * int(s), int(s), s * 2),
    lambda x, s: (x + s // 2, x * round(s), x - math.ceil(s) + math.floor(s)),
    lambda x, s: x * (int(s) % 3) + int(s) // 2 + round(s, 1),
    lambda x, s: (y := x.repeat(int(abs(s)) + 1), y[1:], y.view(-1, 1)),
    lambda x, s: (x.roll(int(s)), x[: int(abs(s))], torch.zeros(int(abs(s)), 2)),
    lambda x, s: x * int((x.sum() * s).item()),
])  # fmt: skip
def test_floats_that_become_integers(function: Callable[..., Any]) -> None:
    own, x = forge(function), torch.arange(4.0)
    for number in (1.5, 2.6, -3.5, 4.0):
        torch.testing.assert_close(own(x, number), function(x, number))


@pytest.mark.parametrize("function", [
    lambda x: (x.nonzero().T + 1, x.nonzero().shape[0]),
    lambda x: x.nonzero().shape[0] * 2,
    lambda x: (y := x[x > 0], y.view(-1, 1), y[None]),
    lambda x: (y := torch.cat([x[x > 0], x]), y[1:], y[:1]),
    lambda x: (x * x.sum().int().item(), x.sum().int().item(), x[1].item(), (x > 1).any().item()),
    lambda x: (x.roll(x[1].int().item()), x.int().tolist()),
])  # fmt: skip
def test_sizes_that_data_decide(function: Callable[..., Any]) -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        for values in ([1.0, -1.0, 0.0, 2.0], [1.0, 1.0, 3.0, 1.0]):
            check(function, torch.tensor(values))


def test_integers_of_any_sign() -> None:
    own = torch.compile(lambda x, n: x * n, backend="forge", dynamic=True)
    for n in (2, 3, -3, 0, 5):
        torch.testing.assert_close(own(torch.ones(3), n), torch.ones(3) * n)


def test_weights_of_inference_mode() -> None:
    with torch.inference_mode():
        model, x = nn.Linear(4, 4), torch.randn(2, 4)
        own = forge(model)
        own(x)
        model.weight.add_(1)
        torch.testing.assert_close(own(x), model(x))


def test_buffers_that_calls_write() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
            self.register_buffer("last", torch.zeros(3))
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x: Any) -> Any:
            self.calls += 1
            self.last[1:] = x[0, 1:]
            return self.norm(x) * self.calls

    model = Counts().train()
    own = copy.deepcopy(model)
    compiled_model = forge(own)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(5, 3)
            torch.testing.assert_close(compiled_model(x), model(x))
            torch.testing.assert_close(own.state_dict(), model.state_dict())
        model.eval(), own.eval()
        torch.testing.assert_close(compiled_model(x), model(x))
        model.train(), own.train()
        model(x), compiled_model(x)
        model.eval(), own.eval()
        torch.testing.assert_close(compiled_model(x), model(x))


def test_random_numbers_are_those_of_the_generator() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8)).train()
    own, x = forge(lambda x: (model(x), torch.rand(3), torch.randn_like(x))), torch.randn(4, 8)
    with torch.no_grad():
        torch.manual_seed(5)
        got = own(x), own(x)
        torch.manual_seed(5)
        wanted = [(model(x), torch.rand(3), torch.randn_like(x)) for _ in range(2)]
    torch.testing.assert_close(list(got), wanted)


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient


LINEAR = nn.Linear(4, 4)


def in_mode(mode: Callable[[], Any]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        y = x * 2
        with mode():
            y = y + LINEAR(x)
        return y * 3

    return function


@pytest.mark.parametrize("records", [True, False])
@pytest.mark.parametrize("function", [
    in_mode(torch.no_grad), in_mode(torch.enable_grad), in_mode(torch.inference_mode), Swish.apply,
    lambda x: torch.cond(x.sum() > 0, lambda v: Swish.apply(v), lambda v: v - 1, (x,)),
    lambda x: checkpoint(lambda a, b: (a * b, checkpoint(LINEAR, a, use_reentrant=False)), x, x + 1, use_reentrant=False),
    lambda x: checkpoint(LINEAR, x, use_reentrant=True),
])  # fmt: skip
def test_blocks_that_say_what_autograd_records(function: Callable[..., Any], records: bool) -> None:
    x = torch.randn(3, 4, requires_grad=True)
    with torch.set_grad_enabled(records):
        got, wanted = forge(function)(x), function(x)
    torch.testing.assert_close(got, wanted)
    leaves = [[t.requires_grad for t in torch.utils._pytree.tree_leaves(tree)] for tree in (got, wanted)]
    assert leaves[0] == leaves[1]


def unsupported(x: Any) -> Any:
    y = torch.relu(x)
    row = y[0]
    values = torch.absolute(torch.linalg.eigvals(y @ y.T)).sum()
    y.add_(1)
    return y * 2, row, values, torch.linalg.eigvals(y.double() @ y.double().T).abs().sum()


def test_operators_without_a_converter_are_taken_apart() -> None:
    def names_of_numpy(x: Any, y: Any) -> Any:
        return torch.divide(torch.multiply(x, y), torch.absolute(torch.negative(y)) + 1)

    x, y = torch.randn(2, 3, 4)
    torch.testing.assert_close(forge(names_of_numpy)(x, y), names_of_numpy(x, y))


def test_what_is_not_supported_is_refused() -> None:
    with pytest.raises(Exception, match=r"linalg_eigvals.*2x, first at node.*test_backend.py:\d+") as caught:
        forge(unsupported)(torch.randn(3, 4))
    assert isinstance(caught.value.inner_exception, OpNotImplemented)


def test_functions_over_a_batch() -> None:
    from torch._higher_order_ops.associative_scan import associative_scan

    def masked(x: Any) -> Any:
        def may_see(query: Any, key: Any) -> Any:
            return query.new_ones((), dtype=torch.bool) & (key <= query)

        places = torch.arange(x.shape[0])
        mask = torch.vmap(torch.vmap(may_see, in_dims=(None, 0)), in_dims=(0, None))(places, places)
        return x.masked_fill(~mask, 0.0)

    def cumulated(x: Any) -> Any:
        return associative_scan(lambda a, b: a + b, x, dim=0, combine_mode="generic") * 2

    x = torch.randn(4, 4)
    assert torch.equal(forge(masked)(x), x.tril())
    torch.testing.assert_close(forge(cumulated)(x), x.cumsum(0) * 2)


def cubes(x: Any) -> Any:
    return (x**3).sum() * x.sum()


@pytest.mark.parametrize("function", [
    lambda x: torch.func.grad(cubes)(x),
    lambda x: torch.func.vmap(torch.func.grad(cubes))(x.expand(2, 3)),
    lambda x: torch.func.jvp(lambda y: y.sin() * y.sum(), (x,), (x,)),
    lambda x: torch.func.jacfwd(lambda y: y.sin() * y.sum())(x),
    lambda x: torch.func.jacrev(lambda y: y.sin() * y.sum())(x),
    lambda x: torch.func.hessian(cubes)(x),
    lambda x: torch.func.linearize(cubes, x)[1](x),
])  # fmt: skip
def test_functions_that_torch_func_transforms(function: Callable[..., Any]) -> None:
    x = torch.randn(3)
    torch.testing.assert_close(forge(function)(x), function(x))


def test_a_function_that_fails_while_it_is_transformed_leaves_torch_as_it_was() -> None:
    with pytest.raises(ZeroDivisionError), _kept_levels():
        torch._C._enter_dual_level()
        torch._C._functorch._vmap_increment_nesting(3, "error")
        torch._C._functorch._grad_increment_nesting()
        torch._C._set_grad_enabled(False)
        torch._C._autograd._saved_tensors_hooks_disable("of a gradient")
        raise ZeroDivisionError
    assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0
    assert torch.is_grad_enabled()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        torch.testing.assert_close(torch.func.jvp(torch.sin, (torch.zeros(3),), (torch.ones(3),))[1], torch.ones(3))


def test_compiled_code_in_functions_that_torch_func_transforms() -> None:
    x, compiled_sine = torch.randn(3), forge(lambda x: x.sin())
    torch.testing.assert_close(torch.vmap(compiled_sine)(x), x.sin())
    with pytest.raises(BackendCompilerFailed, match=r"torch\.func transforms \(FunctionalTensor\)"):
        torch.func.functionalize(forge(lambda x: x.sin()))(x)
    with pytest.warns(UserWarning, match="runs eagerly"):
        torch.testing.assert_close(torch.func.functionalize(forge(torch.sin, fallback=True))(x), x.sin())
    with torch.autograd.forward_ad.dual_level(), pytest.raises(GradientError, match="got a tensor with a tangent"):
        forge(lambda x: x.sin())(torch.autograd.forward_ad.make_dual(x, x))


def test_operators_in_place() -> None:
    def written(x: Any) -> Any:
        y, z = x.clone(), x.clone()
        y //= 2
        z.abs_().pow_(x).transpose_(0, 1)
        return y, z, torch.floor_divide(x, 2)

    x = torch.randn(3, 4)
    torch.testing.assert_close(forge(written)(x), written(x))


def test_functions_that_torch_does_not_trace() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    class Lost(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            with FakeTensorMode():
                self.constant = torch.ones(3)

        def forward(self, x: Any) -> Any:
            return x + self.constant

    with pytest.raises(OpNotImplemented, match=r"constant: torch does not trace this function.*fallback=True"):
        _check_constants(torch.fx.symbolic_trace(Lost()))


def test_what_is_not_supported_may_run_eagerly() -> None:
    x = torch.randn(3, 4)
    with pytest.warns(UserWarning, match=r"2 operators run eagerly: aten.linalg_eigvals.default \(node .*test_backend.py:\d+"):
        got = forge(unsupported, fallback=True)(x)
    torch.testing.assert_close(got, unsupported(x))
    assert got[1].untyped_storage().data_ptr() != got[0].untyped_storage().data_ptr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        forge(torch.sin, fallback=True)(x)


@pytest.mark.parametrize(("options", "message"), [
    ({"optlevel": 3}, "options: got 'optlevel'; expected names of target, .*fallback"),
    ({"opt_level": 9}, "opt_level: got 9"),
    ({"fallback": "yes"}, "fallback: got 'yes'; expected True or False"),
])
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message) as caught:
        forge(torch.sin, **options)(torch.ones(2))
    assert isinstance(caught.value.inner_exception, OptionError)


def test_modes_of_inductor() -> None:
    for mode, options in (("reduce-overhead", "the defaults"), ("max-autotune", "{'opt_level': 4}")):
        torch.compiler.reset()
        with pytest.warns(UserWarning, match=rf"mode '{mode}' is inductor's; options={options} come nearest"):
            torch.testing.assert_close(torch.compile(torch.sin, backend="forge", mode=mode)(torch.ones(2)), torch.ones(2).sin())
    with pytest.raises(Exception, match=r"mode: got 'fastest'; expected None, 'default', 'reduce-overhead'"):
        torch.compile(torch.cos, backend="forge", mode="fastest")(torch.ones(2))


def test_threads_are_those_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    original = Runtime.set_num_threads
    monkeypatch.setattr(Runtime, "set_num_threads", lambda run, threads: seen.append(threads) or original(run, threads))
    own, x, before = forge(torch.sin), torch.ones(2), torch.get_num_threads()
    try:
        for threads in (1, 1, 2):
            torch.set_num_threads(threads)
            own(x)
    finally:
        torch.set_num_threads(before)
    assert seen == [1, 2]


def test_options_reach_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    original = compiled.compile_module
    monkeypatch.setattr(compiled, "compile_module", lambda m, o, **k: seen.append(o) or original(m, o, **k))
    forge(torch.sin, opt_level=1, set_bfloat16=True, target="llvm -mcpu=x86-64-v3")(torch.ones(2))
    assert (seen[0].opt_level, seen[0].bfloat16, seen[0].target.cpu) == (1, True, "x86-64-v3")


def test_arguments_that_share_memory() -> None:
    def written(a: Any, b: Any) -> Any:
        return a.add_(1), b * 2, b[1:]

    own = forge(written)
    for first, second in ((x[:2], x[2:]) if parts else (x[:2].clone(), x[2:].clone()) for x in [torch.randn(4, 4)]
                          for parts in (True, False, True)):
        others = first.clone(), second.clone()
        torch.testing.assert_close(own(first, second), written(*others))
        torch.testing.assert_close((first, second), others)
    x = torch.ones(3)
    with pytest.raises(OpAttributeUnimplemented, match="writes to 'a', which overlaps another argument"):
        own(x, x.view(torch.int32))


@pytest.mark.parametrize("dynamic", [None, True])
def test_arguments_that_overlap(dynamic: bool | None) -> None:
    def written(a: Any, b: Any) -> Any:
        a.add_(1)
        b.mul_(2)
        return a, b[1:], a.sum() + b.sum()

    def check(parts: Callable[[Any], Any], rows: int) -> None:
        x = torch.randn(rows, 4)
        own, other = x.clone(), x.clone()
        with torch.no_grad():
            torch.testing.assert_close(own_written(*parts(own)), written(*parts(other)))
        torch.testing.assert_close(own, other)
        assert own._version > 0

    own_written = torch.compile(written, backend="forge", dynamic=dynamic)
    if dynamic:
        for rows in (6, 7):
            check(lambda x: (x[:3], x[2:]), rows)
            check(lambda x: (x[:3], x[3:]), rows)
    else:
        check(lambda x: (x[:3], x[3:]), 6)
        check(lambda x: (x[:3], x[2:5]), 6)
        torch.compiler.reset()
        check(lambda x: (x[:, ::2], x[:, 1::2]), 6)


def test_weights_in_which_an_argument_lies_that_is_written() -> None:
    def written(layer: Any, row: Any, x: Any) -> Any:
        row.mul_(2)
        return layer(x)

    layer, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
    other, compiled = copy.deepcopy(layer), forge(written)
    for _ in range(2):
        with torch.no_grad():
            torch.testing.assert_close(compiled(layer, layer.weight[1], x), written(other, other.weight[1], x))


SECOND = """
import os, sys, torch, forge.driver.compiler as compiler
def forbidden(*args): raise SystemExit("compiled again")
if sys.argv[1] == "again": compiler._run = forbidden
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh()).eval()
with torch.no_grad(): print(torch.compile(model, backend="forge")(torch.ones(2, 16)).sum().item())
"""


def test_a_second_process_is_served_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("FORGE_CACHE", "1")
    runs = [subprocess.run([sys.executable, "-c", SECOND, word], check=True, capture_output=True, text=True).stdout
            for word in ("first", "again")]
    assert runs[0] == runs[1]


def test_written_arguments_of_any_layout() -> None:
    check(lambda x: x.add_(1), torch.randn(4, 6).T)
    check(lambda x: x.mul_(2).sum(), torch.randn(4, 6)[:, ::2])
    model = nn.Linear(3, 3)
    wanted = model.weight * 0.5
    with torch.no_grad():
        forge(lambda: model.weight.mul_(0.5))()
    torch.testing.assert_close(model.weight, wanted)


def test_masks_that_keep_documents_apart() -> None:
    from torch.nn.attention.flex_attention import and_masks, create_block_mask, flex_attention

    documents, bias = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2]), torch.randn(15)
    mask = and_masks(lambda b, h, i, j: documents[i] == documents[j], lambda b, h, i, j: i >= j)
    blocks = create_block_mask(mask, None, None, 8, 8, device="cpu")

    def attend(q: Any, blocks: Any) -> Any:
        return flex_attention(q, q, q, score_mod=lambda s, b, h, i, j: s + bias[i - j + 7], block_mask=blocks)

    q = torch.randn(1, 2, 8, 4)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(attend, backend="forge", fullgraph=True)(q, blocks), attend(q, blocks))
