"""What a model asserts, and what torch assumed of sizes, is checked by every call."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim  # noqa: E402

from forge.driver import check_options, compile_module  # noqa: E402
from forge.errors import ExecutionError  # noqa: E402
from forge.frontends.torch import import_model  # noqa: E402
from forge.frontends.torch.importer import import_program  # noqa: E402
from forge.frontends.torch.loader import load, run_decompositions  # noqa: E402
from forge.ir.functions.reference import Reference  # noqa: E402
from tests.torch_databases.compare import as_list, difference  # noqa: E402


class Checked(torch.nn.Module):
    def forward(self, x: Any, y: Any, unread: Any) -> Any:
        torch._check(x.shape[0] % 2 == 0)
        torch._check(x.shape[0] * 3 <= 4 * unread.shape[0])
        torch._assert_async((x > -5).all(), "x: numbers above -5")
        torch._check((x < 50).all().item())
        n = y.sum().item()
        torch._check(n >= 2)
        torch._check(n < 5)
        torch._check(n != 3)
        return x + 1, torch.zeros(n), torch.linalg.inv(x[:2, :2])


GOOD = (4, 2, 0.0, 4)
WRONG = [
    ((5, 2, 0.0, 8), r"dimension \(x_dim0 % 2\)"),
    ((8, 2, 0.0, 4), r"dimension .*3\*x_dim0"),
    ((4, 2, -9.0, 4), "x: numbers above -5"),
    ((4, 2, 60.0, 4), r"expected (u\d >= 1|1 <= )"),
    ((4, 1, 0.0, 4), r"expected u\d >= 2"),
    ((4, 5, 0.0, 4), r"expected u\d <= 4"),
    ((4, 3, 0.0, 4), r"expected Ne\(u\d, 3\)"),
    ((4, 2, 0.0, 101), "dimension (unread_dim0|more)"),
    ((4, 2, 0.0, 3), "dimension (unread_dim0|more)"),
]


def arguments(rows: int, number: int, shift: float, unread: int) -> tuple[torch.Tensor, ...]:
    return torch.eye(rows, 3) + shift, torch.tensor([number]), torch.ones(unread)


def program(form: str, folder: Path) -> Any:
    sizes = {0: Dim.DYNAMIC}, None, {0: Dim("more", min=4, max=100)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = torch.export.export(Checked(), arguments(*GOOD), dynamic_shapes=sizes)
        if form == "decomposed":
            return run_decompositions(found, {})
        if form == "file":
            torch.export.save(found, folder / "checked.pt2")
            return folder / "checked.pt2"
    return found


@pytest.mark.parametrize("form", ["exported", "decomposed", "file", "compiled"])
def test_a_call_that_breaks_an_assertion_fails(form: str, tmp_path: Path) -> None:
    module = import_model(program(form, tmp_path))
    call: Callable[..., Any] = Reference(module)
    if form == "compiled":
        call = compile_module(module, check_options(opt_level=3), use_cache=False).runtime()
    for good in (GOOD, (6, 4, 0.0, 10)):
        found = as_list(call(*[t.numpy() for t in arguments(*good)]))
        assert [difference(a, b) for a, b in zip(found, Checked()(*arguments(*good)), strict=True)] == [""] * 3
    for values, message in WRONG:
        with pytest.raises(ExecutionError, match=message):
            call(*[t.numpy() for t in arguments(*values)])


def test_messages_have_the_names_of_the_user() -> None:
    class Sized(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            torch._check(x.shape[0] % 2 == 0)
            return x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sizes = {0: Dim.DYNAMIC}, {0: Dim("n", max=9)}
        exported = torch.export.export(Sized(), (torch.ones(4), torch.ones(6)), dynamic_shapes=sizes)
    call = Reference(import_program(load(exported, [("first", ("batch",)), ("second", ("others",))])))
    with pytest.raises(ExecutionError, match=r"dimension \(batch % 2\) is"):
        call(torch.ones(3).numpy(), torch.ones(2).numpy())
    with pytest.raises(ExecutionError, match="dimension others is out of bounds; expected 0 to 9"):
        call(torch.ones(4).numpy(), torch.ones(12).numpy())


def test_a_matrix_that_has_no_inverse_is_an_error_as_in_torch() -> None:
    class Inverse(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.linalg.inv(x)

    exported = run_decompositions(torch.export.export(Inverse(), (torch.eye(3),)), {})
    module = import_model(run_decompositions(exported, torch.export.default_decompositions()))
    call = compile_module(module, check_options(opt_level=3), use_cache=False).runtime()
    assert difference(call((torch.eye(3) * 2).numpy()), torch.eye(3) / 2) == ""
    with pytest.raises(ExecutionError, match=r"linalg.inv: the computation failed"):
        call(torch.zeros(3, 3).numpy())


@pytest.mark.parametrize("compiled", [False, True])
def test_more_elements_than_the_data_has_may_be_selected(compiled: bool) -> None:
    """torch asserts that they are not: eager torch does not."""
    class Selected(torch.nn.Module):
        def forward(self, x: Any, mask: Any) -> Any:
            return torch.masked_select(x, mask)

    inputs = torch.arange(3.0), torch.tensor([[True, False, True], [True, True, False]])
    imported = import_model(torch.export.export(Selected(), inputs))
    call = compile_module(imported).runtime() if compiled else Reference(imported)
    assert as_list(call(*(t.numpy() for t in inputs)))[0].tolist() == [0, 2, 0, 1]


class Overwritten(torch.nn.Module):
    """Writes to slices of data-dependent sizes, which may be empty."""

    def forward(self, x: Any, y: Any, mask: Any) -> Any:
        n = mask.sum().item()
        torch._check(n >= 0)
        torch._check(n <= 8)
        first, last = x.clone(), x.clone()
        first[:n] = y[:n]
        last[n:] = 0.5
        return first * 2, last


def test_slices_without_elements_are_written() -> None:
    x, y = torch.randn(2, 8, 3)
    module = import_model(torch.export.export(Overwritten(), (x, y, torch.arange(8) < 3)))
    runtime = compile_module(module, check_options(), use_cache=False).runtime()
    for count in (0, 3, 8):
        mask = torch.arange(8) < count
        for run in (runtime, Reference(module)):
            for got, wanted in zip(as_list(run(x.numpy(), y.numpy(), mask.numpy())), Overwritten()(x, y, mask), strict=True):
                assert difference(got, wanted) == ""
