"""Differences, and weights by direction and length, next to torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from forge.frontends.torch import import_model  # noqa: E402
from forge.ir.functions.reference import Reference  # noqa: E402


class Function(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Any) -> Any:
        return self.function(*tensors)


@pytest.mark.parametrize("function, shapes", [
    (lambda x: torch.diff(x), [(3, 5)]),
    (lambda x: torch.diff(x, n=3, dim=0), [(5, 2)]),
    (lambda x: torch.diff(x, n=7), [(3, 5)]),
    (lambda x, a, b: torch.diff(x, dim=1, prepend=a, append=b), [(3, 5), (3, 1), (3, 2)]),
    (lambda x: torch.diff(x > 0), [(3, 5)]),
    (lambda v, g: torch._weight_norm(v, g, 0), [(4, 3, 2), (4, 1, 1)]),
    (lambda v, g: torch._weight_norm(v, g, 1), [(4, 3, 2), (1, 3, 1)]),
    (lambda v, g: torch._weight_norm(v, g, -1), [(4, 3, 2), ()]),
])  # fmt: skip
def test_results_are_those_of_torch(function: Any, shapes: list[tuple[int, ...]]) -> None:
    tensors = tuple(torch.randn(shape, generator=torch.Generator().manual_seed(k)) for k, shape in enumerate(shapes))
    module = Function(function)
    found = Reference(import_model(torch.export.export(module, tensors)))(*(t.numpy() for t in tensors))
    expected = module(*tensors).numpy()
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
