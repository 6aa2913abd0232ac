"""Special functions next to eager torch, at special values and over wide ranges."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.test_factorization_torch import call  # noqa: E402

EXTREMES = [math.inf, -math.inf, math.nan, 0.0, -0.0, -1.0, -0.5, 1e-30, -1e-30, 0.25, 3.0, 50.0, 200.0]
BESSEL = (
    "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0", "airy_ai",
)


@pytest.mark.parametrize("name", BESSEL)
def test_bessel(name: str) -> None:
    """In float32: torch's functions of float64 are wrong from the seventh digit on for some arguments near 5."""
    function = getattr(torch.special, name)
    call(function, torch.tensor(EXTREMES))
    call(function, torch.linspace(-20, 20, 401).reshape(1, 401))
    call(function, torch.arange(12))


@pytest.mark.parametrize("name", ["igamma", "igammac"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_incomplete_gamma(name: str, dtype: Any) -> None:
    function = getattr(torch, name)
    special = torch.tensor([math.inf, math.nan, 0.0, -0.0, -1.0, 1e-30, 0.5, 1.0, 3.0, 50.0, 1e10], dtype=dtype)
    call(function, special[:, None], special)
    spread = torch.logspace(-3, 2.5, 40, dtype=dtype)
    call(function, spread[:, None], spread)
    call(function, spread[:, None], spread[:, None] * torch.linspace(0.3, 2, 18, dtype=dtype))
