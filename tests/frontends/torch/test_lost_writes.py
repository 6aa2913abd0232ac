"""Programs whose writes torch loses when it takes them apart are refused by the name of the operator without a converter."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import forge  # noqa: E402
from forge.frontends.torch import import_model, steps  # noqa: E402
from forge.frontends.torch.entry import import_through_onnx  # noqa: E402
from forge.frontends.torch.lost_writes import loses_writes  # noqa: E402
from forge.ir.functions.reference import Reference  # noqa: E402
from tests.torch_databases.compare import as_list, difference  # noqa: E402

Function = Callable[[Any], Any]
X = torch.tensor([[0.5, -1.0], [2.0, 3.0]])


class Traced(torch.nn.Module):
    """A function and a trace, which has no converter here and which torch takes apart."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x), x.trace()


@pytest.fixture(autouse=True)
def without_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    found = steps.lookup
    monkeypatch.setattr(steps, "lookup", lambda target: None if target == "aten.trace.default" else found(target))


def export(function: Function, x: Any = X) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(Traced(function).eval(), (x,))


def dropped(x: Any) -> Any:
    return torch.dropout(x, 0.5, False)


def written_to_the_alias(x: Any) -> Any:
    y = x + 1
    dropped(y).mul_(2)
    return y


def written_to_what_drops_nothing(x: Any) -> Any:
    y = x + 1
    torch.dropout(y, 0.0, True).add_(1)
    return y


def written_to_its_view(x: Any) -> Any:
    y = x + 1
    dropped(dropped(y))[0].mul_(2)
    return y * 3


def written_to_what_it_was_made_of(x: Any) -> Any:
    y = x + 1
    z = dropped(y.view(-1))
    y[1] = 7
    return z * 2


def written_to_one_of_a_list(x: Any) -> Any:
    y = x + 1
    torch.atleast_3d([y, x * 2])[0].mul_(2)
    return y


def written_to_an_input(x: Any) -> Any:
    return dropped(x).mul_(2) + 1


@pytest.mark.parametrize("function", [written_to_the_alias, written_to_what_drops_nothing, written_to_its_view,
                                      written_to_what_it_was_made_of, written_to_one_of_a_list, written_to_an_input])
def test_lost_writes_are_refused(function: Function) -> None:
    program = export(function)
    assert loses_writes(program)
    with pytest.raises(forge.OpNotImplemented, match=r"aten\.trace\.default: 1x"):
        import_model(program)
    with pytest.raises(forge.ForgeError, match=r"(?s)aten\.trace\.default: 1x.* through ONNX failed, too: .* shares its memory"):
        forge.from_torch(program, None)
    with pytest.raises(forge.ForgeError, match="after a write to another that shares its memory"):
        import_through_onnx(program, None, False)


def written_before(x: Any) -> Any:
    y = (x + 1).relu_()
    return dropped(y) + y


def written_and_read_there(x: Any) -> Any:
    return dropped(x * 2).relu_() * 3


def written_copy(x: Any) -> Any:
    y = x + 1
    y.to(torch.float64).type_as(x).add_(1)
    torch.mul(y, 1).add_(y)
    return y


def written_through_plain_views(x: Any) -> Any:
    y = x + 1
    rows, z = y.unbind(0), y.reshape(-1)
    rows[0].mul_(3)
    z.sub_(rows[1].sum())
    return y, rows[0] + 1


@pytest.mark.parametrize("function", [written_before, written_and_read_there, written_copy, written_through_plain_views])
def test_other_writes_are_kept(function: Function) -> None:
    module = import_model(export(function))
    wanted = torch.utils._pytree.tree_leaves(Traced(function)(X.clone()))
    found = as_list(Reference(module)(X.numpy().copy()))
    assert [difference(a, b) for a, b in zip(found, wanted, strict=True)] == [""] * len(wanted)
