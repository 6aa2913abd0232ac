"""Constants of compiled code follow the tensors of the model, whoever writes to them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from forge.torch import refresh  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.usefixtures("fresh")


def forge(model: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(model, backend="forge", options=options or None)  # type: ignore[no-any-return]


def _halve_data(model: Any) -> None:
    for parameter in model.parameters():
        parameter.data.mul_(0.5)


def _merge(model: Any) -> None:
    model[0].weight.data += torch.ones_like(model[0].weight)


def _clip(model: Any) -> None:
    for parameter in model.parameters():
        parameter.data.clamp_(-0.01, 0.01)


def _average(model: Any) -> None:
    averaged = torch.optim.swa_utils.AveragedModel(model)
    averaged.update_parameters(model)
    _halve_data(model)
    averaged.update_parameters(model)
    model.load_state_dict(averaged.module.state_dict())


def _write_by_numpy(model: Any) -> None:
    model[0].weight.detach().numpy()[:] = 0.25


def _change_signs_and_places(model: Any) -> None:
    model[0].weight.data.neg_()
    model[3].weight.data.copy_(model[3].weight.data.flip(1))


def _swap_memory(model: Any) -> None:
    nn.utils.vector_to_parameters(torch.rand(sum(p.numel() for p in model.parameters())), model.parameters())


def _adapt_statistics(model: Any) -> None:
    model.train()
    model(torch.randn(64, 8) * 3 + 5)
    model.eval()


@pytest.mark.parametrize("change", [
    _halve_data, _merge, _clip, _average, _write_by_numpy, _change_signs_and_places, _swap_memory, _adapt_statistics])
@pytest.mark.parametrize("width", [8, 200])
def test_writes_that_pytorch_does_not_count(change: Callable[[Any], None], width: int) -> None:
    model = nn.Sequential(nn.Linear(8, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 2)).eval()
    own, x = forge(model), torch.randn(3, 8)
    with torch.no_grad():
        before = own(x)
        change(model)
        wanted = model(x)
        assert not torch.allclose(before, wanted)
        torch.testing.assert_close(own(x), wanted)


@pytest.mark.parametrize(("optimizer", "options"), [
    (torch.optim.AdamW, {"fused": True}), (torch.optim.SGD, {"fused": True}), (torch.optim.Adam, {"foreach": True}),
    (torch.optim.SGD, {"foreach": False}),
])  # fmt: skip
@pytest.mark.parametrize("fallback", [False, True])
def test_training_beside_validation(optimizer: Any, options: dict[str, Any], fallback: bool, compilations: list[str]) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    own, x = forge(model, fallback=fallback), torch.randn(8, 4)
    steps = optimizer(model.parameters(), lr=0.1, **options)
    for _ in range(6):
        model.train()
        model(torch.randn(32, 4)).square().mean().backward()
        steps.step()
        steps.zero_grad()
        model.eval()
        with torch.no_grad():
            torch.testing.assert_close(own(x), model(x))
    assert len(compilations) == 3


def test_a_step_that_only_touches_rows() -> None:
    model = nn.Sequential(nn.Embedding(5000, 16), nn.Linear(16, 4))
    own, row = forge(model), torch.tensor([1234])
    steps = torch.optim.SGD(model[0].parameters(), lr=0.1, fused=True)
    with torch.no_grad():
        own(row)
    model(row).sum().backward()
    steps.step()
    with torch.no_grad():
        torch.testing.assert_close(own(row), model(row))


def test_a_few_elements_of_a_large_tensor() -> None:
    model, row = nn.Embedding(5000, 16), torch.tensor([1234])
    own = forge(model)
    with torch.no_grad():
        own(row)
        model.weight.data[1234] = 7
        refresh()
        torch.testing.assert_close(own(row), model(row))
        model.weight.detach().numpy()[1234, 3] = 8
        for _ in range(4096):  # without it, they are seen in the end
            if own(row)[0, 3] == 8:
                break
        torch.testing.assert_close(own(row), model(row))


@pytest.mark.parametrize("write", [
    lambda weight: weight.data[17].mul_(2),
    lambda weight: weight.data[17:19, 5].zero_(),
    lambda weight: weight.detach().numpy().__setitem__((33, 7), 1),
])  # fmt: skip
def test_a_few_elements_of_a_small_model(write: Callable[[Any], Any]) -> None:
    model = nn.Sequential(nn.Linear(50, 64), nn.ReLU(), nn.Linear(64, 40))  # 23 KiB
    own, x = forge(model), torch.randn(3, 50)
    with torch.no_grad():
        for layer in (model[0], model[2], model[0]):
            before = own(x)
            write(layer.weight)
            wanted = model(x)
            assert not torch.allclose(before, wanted)
            torch.testing.assert_close(own(x), wanted)


def test_a_write_to_one_graph_has_the_others_compare() -> None:
    first, second = nn.Embedding(5000, 16), nn.Linear(16, 4)
    own, rest, row = forge(first), forge(second), torch.tensor([1234])
    with torch.no_grad():
        rest(own(row))
        first.weight.data[1234] = 7
        second.weight.data.mul_(2)
        torch.testing.assert_close(rest(torch.ones(1, 16)), second(torch.ones(1, 16)))
        torch.testing.assert_close(own(row), first(row))


def test_memory_that_is_used_again() -> None:
    layer, x = nn.Linear(256, 256, bias=False), torch.randn(2, 256)
    own = forge(layer)
    with torch.no_grad():
        own(x)
        for _ in range(20):
            layer.weight.data = torch.randn(256, 256) / 16
        torch.testing.assert_close(own(x), layer(x))


def test_equal_contents_compile_nothing(compilations: list[str]) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    own, x = forge(model), torch.randn(3, 4)
    with torch.no_grad():
        own(x)
        model.load_state_dict(copy.deepcopy(model.state_dict()))
        model[0].weight = nn.Parameter(model[0].weight.clone())
        model[0].weight.data = model[0].weight.clone()
        refresh()
        torch.testing.assert_close(own(x), model(x))
    assert len(compilations) == 1


def test_changed_weights(compilations: list[str]) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)).eval()
    own, x = forge(model), torch.randn(3, 4)
    with torch.no_grad():
        own(x)
        for count in (2, 3, 3, 3):  # what changes again is an input
            model[0].weight.add_(1)
            torch.testing.assert_close(own(x), model(x))
            assert len(compilations) == count
        for parameter in list(model.parameters())[1:]:  # one after the other: they are inputs together
            parameter.add_(1)
            torch.testing.assert_close(own(x), model(x))
        model[0].bias = nn.Parameter(torch.ones(4))
        torch.testing.assert_close(own(x), model(x))
        model.load_state_dict({name: torch.ones_like(t) for name, t in model.state_dict().items()})
        torch.testing.assert_close(own(x), model(x))
    assert len(compilations) == 4


def test_a_failed_compilation_leaves_nothing_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    from forge.torch import compiled

    model, x = nn.Linear(4, 4), torch.randn(3, 4)
    own = forge(model)
    with torch.no_grad():
        own(x)
        model.weight.add_(1)
        with monkeypatch.context() as broken:
            broken.setattr(compiled, "compile_module", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                own(x)
        torch.testing.assert_close(own(x), model(x))
