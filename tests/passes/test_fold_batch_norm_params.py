"""Batch norms whose weights are in params."""

from __future__ import annotations

import numpy as np
import pytest

import forge

STATISTICS = ("gamma", "beta", "mean", "var")


def model(tail: str = "%1") -> tuple[str, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    params = {"w": rng.standard_normal((3, 2, 1, 1)).astype(np.float32),
              **{name: rng.uniform(0.5, 2, 3).astype(np.float32) for name in STATISTICS}}
    inputs = "%x: Tensor[(n, 2, 4, 4), float32], %w: Tensor[(3, 2, 1, 1), float32], " + ", ".join(
        f"%{name}: Tensor[(3), float32]" for name in STATISTICS)
    text = (f"def @main({inputs}) {{ %conv1 = nn.conv2d(%x, %w, kernel_size=[1, 1]); "
            f"%1 = nn.batch_norm(%conv1, %gamma, %beta, %mean, %var); {tail} }}")
    return text, params


@pytest.mark.parametrize(("tail", "left"), [("%1", []), ("(%1, negative(%w))", ["w"]), ("(%1, negative(%mean))", ["mean"])])
def test_all_are_folded(tail: str, left: list[str]) -> None:
    text, params = model(tail)
    folded, kept = forge.IRModule(text, params), forge.IRModule(text, params, fold_batch_norms=False)
    assert "nn.batch_norm" not in folded.operators and "nn.batch_norm" in kept.operators
    assert list(folded.params) == left and folded.typed_mod and folded.input_names == ["x"]
    assert folded.main.find("conv1").op == "nn.conv2d"
    x = np.random.default_rng(1).standard_normal((2, 2, 4, 4)).astype(np.float32)
    results = [np.concatenate([np.ravel(r) for r in ir.get_inference_function("reference")(x)]) for ir in (folded, kept)]
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)


def test_statistics_that_are_inputs_stay() -> None:
    text, params = model()
    ir = forge.IRModule(text, {name: array for name, array in params.items() if name != "mean"})
    assert "nn.batch_norm" in ir.operators and sorted(ir.params) == ["beta", "gamma", "var", "w"]
