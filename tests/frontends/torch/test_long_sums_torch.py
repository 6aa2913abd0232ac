"""Sums of many terms that torch's own code adds in order in float32: ours are as exact as float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import forge  # noqa: E402

TERMS = 1 << 20
X, PLACES = torch.full((TERMS,), 0.1), torch.zeros(TERMS, dtype=torch.int64)
TOTAL = float(np.float32(0.1)) * TERMS


class Module(torch.nn.Module):  # type: ignore[name-defined]
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, places: Any) -> Any:
        return self.function(x, places)


@pytest.mark.parametrize(("function", "true"), [
    (lambda x, i: torch.bincount(i, x, minlength=4), TOTAL),
    (lambda x, i: x.new_zeros(4).index_add(0, i, x), TOTAL),
    (lambda x, i: torch.histc(x + i, 4, 0, 1), TERMS),
    (lambda x, i: x.cumsum(0)[-1:], TOTAL),
    (lambda x, i: torch.linalg.vector_norm(x, 1), TOTAL),
    (lambda x, i: torch.nn.functional.l1_loss(x, -x, reduction="sum"), 2 * TOTAL),
    (lambda x, i: torch.einsum("i,i->", x, torch.ones_like(x)), TOTAL),
], ids=["bincount", "index_add", "histc", "cumsum", "norm", "loss", "einsum"])
def test_sums_are_exact(function: Callable[..., Any], true: float) -> None:
    got = forge.from_torch(Module(function), (X, PLACES)).get_inference_function()(X.numpy(), PLACES.numpy())
    np.testing.assert_allclose(np.asarray(got).reshape(-1)[0], true, rtol=2e-6)
