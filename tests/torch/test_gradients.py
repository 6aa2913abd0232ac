"""Gradients of what ``torch.compile(model, backend="forge")`` gives: eager PyTorch's, or a `GradientError`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from forge.errors import GradientError  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.usefixtures("fresh")


def forge(model: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(model, backend="forge", options=options or None)  # type: ignore[no-any-return]


def gradient(function: Callable[..., Any], leaf: Any) -> Any:
    """Of what ``function`` returns first, for an argument that was computed."""
    leaf.grad = None
    result = function(leaf * 2)
    result = result[0] if isinstance(result, tuple) else result
    (result * torch.arange(1.0, 1 + result.numel()).reshape(result.shape)).sum().backward()
    return leaf.grad


@pytest.mark.parametrize("case", [
    lambda x: x.view(2, 2),
    lambda x: x.view(2, 2).T[1:],
    lambda x: (x.view(2, 2), x + 1),
    lambda x: (x, x + 1),
    lambda x: (x[1:], x.detach().mul(2)),
    lambda x: x.unfold(0, 2, 1),
    lambda x: (x.expand(3, 4), x.sum()),
    lambda x: (nn.functional.dropout(x, 0.5, False), x + 1),
    lambda x: (torch.view_as_real(torch.view_as_complex(x.view(2, 2)))[1:], x + 1),
    lambda x: (torch.view_as_complex(x.view(2, 2)).conj().imag, x + 1),
])  # fmt: skip
def test_views_are_right(case: Callable[..., Any]) -> None:
    leaf = torch.tensor([1.0, -2.0, 3.0, -4.0], requires_grad=True)
    torch.testing.assert_close(gradient(forge(case), leaf), gradient(case, leaf))


class Reversed(torch.autograd.Function):  # type: ignore[misc]
    """What adapts a network to another domain: the identity, with gradients of the other sign."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return -gradient


def hooked(x: Any) -> Any:
    y = x.view(2, 2)
    part = y[1:]
    y.register_hook(lambda gradient: gradient * 3)
    return part


@pytest.mark.parametrize("case", [
    Reversed.apply,
    lambda x: Reversed.apply(x[1:]).view(-1),
    hooked,
    torch.relu_,
    nn.ReLU(inplace=True),
    lambda x: x.mul_(3),
    lambda x: (x[:2].zero_(), x)[1],
    lambda x: (x.view(2, 2).mul_(3), x)[1],
    lambda x: (x.mul_(3), x.view(2, 2))[1],
    lambda x: (x.add_(1), x[1:].detach())[0],
    lambda x: x + 1,
    lambda x: (x + 1).view(2, 2),
    lambda x: x.as_strided((2,), (2,), 1),
])  # fmt: skip
def test_all_else_is_refused(case: Callable[..., Any]) -> None:
    leaf = torch.tensor([1.0, -2.0, 3.0, -4.0], requires_grad=True)
    with pytest.raises(GradientError, match=r"no_grad.*fallback"):
        gradient(forge(case), leaf)
    assert leaf.grad is None


def test_written_arguments_are_refused_where_they_are_not_returned() -> None:
    leaf = torch.ones(4, requires_grad=True)
    base, plain = leaf * 2, torch.ones(4)
    forge(lambda x: x.mul_(3).sum())(base[1:])
    torch.testing.assert_close(base, torch.tensor([2.0, 6, 6, 6]))
    with pytest.raises(GradientError):
        base.sum().backward()
    forge(lambda x, y: y.add_(x).sum())(leaf * 2, plain)
    with pytest.raises(GradientError):
        plain.sum().backward()


def test_writes_that_autograd_does_not_see() -> None:
    leaf = torch.ones(4, requires_grad=True)
    x = leaf * 2
    result = forge(lambda x: x.detach().mul_(3).sum())(x)
    assert not result.requires_grad
    x.sum().backward()
    torch.testing.assert_close(leaf.grad, torch.full((4,), 2.0))
    torch.testing.assert_close(x, torch.full((4,), 6.0))


@pytest.mark.parametrize("case", [
    lambda x: (x.real, x.sum()),
    lambda x: (x.conj(), x.sum()),
    lambda x: (torch.view_as_real(x)[1:, 0], x.sum()),
    lambda x: (x.view(torch.float32), x.sum()),
    lambda x: (x.as_strided((1,), (1,), 1), x.sum()),
    lambda x: (hooked(torch.view_as_real(x)), x.sum()),
])  # fmt: skip
def test_writes_to_views_that_autograd_sees(case: Callable[..., Any]) -> None:
    def of(function: Callable[..., Any]) -> Any:
        leaf = torch.tensor([1.0 - 2j, 3.0 + 4j], requires_grad=True)
        x = leaf * 2
        function(x)[0].mul_(3)
        torch.view_as_real(x).sum().backward()
        return leaf.grad, x.detach()

    torch.testing.assert_close(of(forge(case)), of(case))


def test_leaves_are_not_written() -> None:
    leaf = torch.ones(4, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        forge(lambda x: x.mul_(3))(leaf)
    torch.testing.assert_close(leaf.detach(), torch.ones(4))


def test_detached_arguments() -> None:
    x = torch.ones(4)
    own = forge(lambda x: (x.detach(), x + 1))
    result = own(x)[0]
    assert result.requires_grad_() is not x and not x.requires_grad
    leaf = torch.ones(4, requires_grad=True)
    result = own(leaf)[0]
    assert not result.requires_grad and result.untyped_storage().data_ptr() == leaf.untyped_storage().data_ptr()


def test_identity() -> None:
    x = torch.ones(4)
    own = forge(lambda x: (x.float(), x.view(4), x.add_(1)))
    with torch.no_grad():
        same, view, written = own(x)
    assert same is x and written is x and view is not x


def test_gradients_are_refused() -> None:
    model, x = nn.Linear(4, 4), torch.randn(2, 4)
    result = forge(model)(x)
    assert result.requires_grad
    torch.testing.assert_close(result, model(x))
    with pytest.raises(GradientError, match=r"no_grad.*fallback"):
        result.sum().backward()
    with pytest.raises(GradientError):
        torch.autograd.grad(forge(torch.sin)(x.requires_grad_()).sum(), x)
    assert model.weight.grad is None


def test_gradients_of_any_argument_are_refused() -> None:
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    result = forge(torch.mul)(x, y).sum()
    for argument in (x, y):
        with pytest.raises(GradientError):
            torch.autograd.grad(result, argument, allow_unused=True, retain_graph=True)


def test_gradients_with_a_fallback() -> None:
    model, x = nn.Linear(4, 4), torch.randn(2, 4)
    wanted = torch.autograd.grad(model(x).sum(), list(model.parameters()))
    with pytest.warns(UserWarning, match="runs eagerly: autograd records"):
        result = forge(model, fallback=True)(x)
    torch.testing.assert_close(torch.autograd.grad(result.sum(), list(model.parameters())), wanted)


def no_grad(function: Callable[[], Any]) -> Any:
    with torch.no_grad():
        return function()


def of_a_view(x: Any) -> Any:
    view = no_grad(lambda: x[1:])
    return view.view(-1), x + 1


@pytest.mark.parametrize("case", [
    lambda x: no_grad(lambda: x[1:]),
    lambda x: (no_grad(lambda: x.mul_(3)[1:]), x)[1],
    lambda x: (x.view(2, 2), no_grad(lambda: x.add_(1).sum())),
])  # fmt: skip
def test_blocks_without_gradients(case: Callable[..., Any]) -> None:
    def of(function: Callable[..., Any]) -> Any:
        leaf = torch.tensor([1.0, -2.0, 3.0, -4.0], requires_grad=True)
        x = leaf * 2
        result = function(x)
        result = result[0] if isinstance(result, tuple) else result
        ((result * result.detach()).sum() + x.sum()).backward()
        return result.detach(), result.is_leaf, result.grad if result.is_leaf else None, leaf.grad

    torch.testing.assert_close(of(forge(case)), of(case))


def test_views_of_views_that_were_made_without_gradients_are_refused() -> None:
    leaf = torch.ones(4, requires_grad=True)
    with pytest.raises(GradientError):
        forge(of_a_view)(leaf)[0].sum().backward()
    assert leaf.grad is None


def test_detached_arguments_where_autograd_does_not_record() -> None:
    leaf = torch.ones(4, requires_grad=True)
    results = no_grad(lambda: forge(lambda x: (x.detach()[1:], x.detach(), x + 1))(leaf))
    assert not any(result.requires_grad or result._is_view() for result in results[1:]) and not results[0].requires_grad
    with torch.inference_mode():
        assert not forge(lambda x: (x.detach()[1:], x + 1))(leaf)[0].requires_grad


@pytest.mark.parametrize("is_shared", [True, False])
def test_arguments_that_share_memory(is_shared: bool) -> None:
    def arguments(leaf: Any, is_shared: bool) -> tuple[Any, Any]:
        x = leaf * 1
        return (x[:2], x[2:]) if is_shared else (x[:2] * 1, x[2:] * 1)

    def case(a: Any, b: Any) -> Any:
        return b[1:], a + 1

    own = forge(case)
    for shared in (is_shared, not is_shared):
        leaf = torch.ones(4, 4, requires_grad=True)
        a, b = arguments(leaf, shared)
        result = own(a, b)[0]
        torch.testing.assert_close(result, b[1:])
        (gradient,) = torch.autograd.grad(result.sum(), leaf)
        torch.testing.assert_close(gradient, torch.ones(4, 4).index_fill(0, torch.tensor([0, 1, 2]), 0))


def test_writes_to_memory_of_other_arguments() -> None:
    own, leaf = forge(lambda a, b, c: (a.mul_(c), b * 2)), torch.ones(2, requires_grad=True)
    own(torch.ones(2), torch.ones(2), leaf)
    x = torch.ones(4)
    with pytest.raises(GradientError, match="shares memory with one that is written"):
        own(x[:2], x[2:], leaf)


def test_repeated_results() -> None:
    def case(x: Any) -> Any:
        y = x + 1
        z = y.flatten()
        return z, z.float(), y[1:], y.T, y.T.float()

    results = forge(case)(torch.ones(2, 3))
    assert results[0] is results[1]
    torch.testing.assert_close(results, case(torch.ones(2, 3)))
