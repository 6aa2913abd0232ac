"""Functions that are called while a model runs: ``print_`` and ``debug_func``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import forge
from forge import nn
from forge.errors import FunctionError, OptionError
from forge.nn import spec

SPEC = {"forward": {"x": spec.Tensor(["n", 2], "float32")}}
X = np.array([[1, 2], [3, 4]], np.float32)


class Printing(nn.Module):
    def forward(self, x: nn.Tensor) -> nn.Tensor:
        nn.print_(x)
        y = x + 1
        nn.debug_func("tests.seen", y, x.shape[0], 3, 2.5, "text")
        nn.debug_func("tests.seen", y, _line_info="here")
        return y


@pytest.fixture
def seen() -> Iterator[list[tuple[Any, ...]]]:
    calls: list[tuple[Any, ...]] = []
    forge.register_func("tests.seen", lambda *arguments: calls.append(arguments))
    yield calls
    forge.remove_registered_func("tests.seen")


@pytest.mark.parametrize("how", ["reference", "compiled", "artifact"])
def test_debug_functions(how: str, seen: list[tuple[Any, ...]], capfd: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    ir = Printing().export(SPEC, debug=True)
    if how == "artifact":
        ir.compile(output_path=str(tmp_path / "model"))
        run: Any = forge.Runtime(str(tmp_path / "model"))
    else:
        run = ir.get_inference_function("reference") if how == "reference" else forge.compile(ir)
    assert run(X).tolist() == (X + 1).tolist()
    line = Printing.forward.__wrapped__.__code__.co_firstlineno  # type: ignore[attr-defined]
    assert capfd.readouterr().out == f"{__file__}:{line + 1}: {X}\n"
    (first, y, rows, number, real, text), (second, other) = seen
    assert first == f"{__file__}:{line + 3}" and second == "here"
    assert y.tolist() == other.tolist() == (X + 1).tolist()
    assert (int(rows), number, real, text) == (2, 3, 2.5, "text")


def test_outside_of_debug_mode() -> None:
    with pytest.raises(OptionError, match="outside of debug mode"):
        Printing().export(SPEC)
    with pytest.raises(OptionError, match="outside of an export"):
        nn.print_(nn.Tensor.from_const(X))


def test_arguments_of_debug_functions() -> None:
    class Wrong(nn.Module):
        def forward(self, x: nn.Tensor) -> nn.Tensor:
            nn.debug_func("tests.seen", [x])  # type: ignore[arg-type]
            return x

    with pytest.raises(OptionError, match=r"'tests\.seen': got list; expected tensors, sizes, numbers and texts"):
        Wrong().export(SPEC, debug=True)


def test_functions_that_are_missing() -> None:
    run = forge.compile(Printing().export(SPEC, debug=True))
    with pytest.raises(FunctionError, match=r"the function 'tests\.seen' is not registered"):
        run(X)


def test_subroutines_print_too(seen: list[tuple[Any, ...]]) -> None:
    class Layer(nn.Module):
        define_subroutine = True

        def forward(self, x: nn.Tensor) -> nn.Tensor:
            nn.debug_func("tests.seen", x)
            return x * 2

    run = forge.compile(nn.Sequential(Layer(), Layer()).export(SPEC, debug=True))
    run(X)
    assert [call[1].tolist() for call in seen] == [X.tolist(), (X * 2).tolist()]
