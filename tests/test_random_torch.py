"""Random PyTorch modules are equal to eager torch, or refused by name."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from forge.driver import compile_module  # noqa: E402
from forge.errors import OpAttributeUnimplemented, OpNotImplemented  # noqa: E402
from forge.frontends.torch import import_model  # noqa: E402
from forge.frontends.torch.exported import array_of  # noqa: E402
from tests import random_torch  # noqa: E402

FAST, CHUNK = 40, 50
SEEDS = int(os.environ.get("FORGE_RANDOM_TORCH", "2000"))
TOLERANCE = {"float32": 1e-3, "float64": 1e-3, "bfloat16": 5e-2}


def check(seed: int) -> str:
    """What became of the case: "equal", "not exported" (by torch), "refused", or "unstable": torch differs for a nearby input."""
    case = random_torch.make(seed)
    dynamic = ({0: torch.export.Dim("batch", min=2)},) if case.is_dynamic else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exported = torch.export.export(case.module, (case.example,), dynamic_shapes=dynamic)
        except Exception:  # noqa: BLE001 - torch raises anything
            return "not exported"
    try:
        module = import_model(exported)
    except (OpNotImplemented, OpAttributeUnimplemented):
        return "refused"
    run = compile_module(module).runtime()
    for batch in (case.example.shape[0], 5) if dynamic else (case.example.shape[0],):
        x = torch.randn(batch, *case.example.shape[1:])
        with torch.no_grad():
            expected, nearby = (array_of(case.module(y), "output") for y in (x.clone(), x * (1 + 1e-6)))
        if expected.shape != nearby.shape or not _near(nearby, expected):
            return "unstable"
        got = run(x.numpy())
        got = got[0] if isinstance(got, list | tuple) else got  # others are inputs that the module writes to
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape), (seed, case.names)
        assert _near(got, expected), (seed, case.names, np.abs(got.astype(float) - expected.astype(float)).max())
    return "equal"


def _near(got: np.ndarray, expected: np.ndarray) -> bool:
    """Within the tolerance of the element type, of the values and of the largest."""
    scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0)))
    tolerance = TOLERANCE[expected.dtype.name]
    return np.allclose(got.astype(float), expected.astype(float), rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def test_random_modules() -> None:
    outcomes = [check(seed) for seed in range(FAST)]
    assert outcomes.count("equal") > FAST // 2, outcomes


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(0, SEEDS, CHUNK))
def test_many_random_modules(chunk: int) -> None:
    for seed in range(chunk, min(chunk + CHUNK, SEEDS)):
        check(seed)
