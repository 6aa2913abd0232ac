"""Losses against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.compose import losses
from forge.errors import OpAttributeInvalid
from forge.ir.op import Accuracy
from tests.ops.compare import check
from tests.ops.compose.support import build, run

rng = np.random.default_rng(29)
SCORES = rng.standard_normal((3, 5, 4)).astype(np.float32)
CLASSES = rng.integers(0, 5, (3, 4))
WEIGHT = rng.uniform(0.5, 2, 5).astype(np.float32)
A, B = (rng.standard_normal((3, 4)).astype(np.float32) for _ in range(2))
P, T = (rng.uniform(0, 1, (3, 4)).astype(np.float32) for _ in range(2))
P[0, 0], T[0, 0], T[1, 0] = 1.0, 1.0, 0.0


def torch_loss(name: str, *operands: Any, **options: Any) -> np.ndarray:
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(x) for x in operands if x is not None]
    result: np.ndarray = getattr(torch.nn.functional, name)(*tensors, **options).numpy()
    return result


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal", "weighted"])
@pytest.mark.parametrize("ignored", [None, 2])
def test_losses_of_classes(reduction: str, weight: Any, ignored: int | None) -> None:
    options: dict[str, Any] = {"reduction": reduction, "ignore_index": -100 if ignored is None else ignored}
    for symbolic in (False, True):
        (got, _) = run(
            lambda g, *v: losses.cross_entropy(g, *v, reduction=reduction, ignore_index=ignored), SCORES, CLASSES, weight,
            symbolic=symbolic,
        )
        check(got, torch_loss("cross_entropy", SCORES, CLASSES, weight, **options), Accuracy.ACCUMULATING)
    (got,) = run(lambda g, *v: losses.nll_loss(g, *v, reduction=reduction, ignore_index=ignored), SCORES, CLASSES, weight)
    check(got, torch_loss("nll_loss", SCORES, CLASSES, weight, **options), Accuracy.ACCUMULATING)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(
    ("ours", "theirs", "operands"),
    [
        ("mse_loss", "mse_loss", (A, B)),
        ("l1_loss", "l1_loss", (A, B)),
        ("huber_loss", "huber_loss", (A, B)),
        ("binary_cross_entropy", "binary_cross_entropy", (P, T)),
        ("binary_cross_entropy", "binary_cross_entropy", (P, T, np.abs(A))),
        ("binary_cross_entropy_with_logits", "binary_cross_entropy_with_logits", (A * 40, T)),
        ("binary_cross_entropy_with_logits", "binary_cross_entropy_with_logits", (A, T, P)),
        ("kl_divergence", "kl_div", (A, T)),
        ("smooth_l1_loss", "smooth_l1_loss", (A, B)),
        ("soft_margin_loss", "soft_margin_loss", (A, np.sign(B))),
        ("soft_cross_entropy", "cross_entropy", (SCORES[:, :, 0], np.abs(SCORES[:, :, 1]), WEIGHT)),
    ],
)
def test_losses_of_numbers(ours: str, theirs: str, operands: Any, reduction: str) -> None:
    (got,) = run(lambda g, *v: getattr(losses, ours)(g, *v, reduction=reduction), *operands)
    check(got, torch_loss(theirs, *operands, reduction=reduction), Accuracy.ACCUMULATING)


def test_huber_loss_bends_at_delta() -> None:
    (got,) = run(lambda g, *v: losses.huber_loss(g, *v, delta=0.3, reduction="none"), A, B)
    check(got, torch_loss("huber_loss", A, B, delta=0.3, reduction="none"), Accuracy.ROUNDING)
    check(got / np.float32(0.3), torch_loss("smooth_l1_loss", A, B, beta=0.3, reduction="none"), Accuracy.ROUNDING)


def test_an_unknown_reduction_is_an_error() -> None:
    with pytest.raises(OpAttributeInvalid, match="none, mean, sum"):
        build(lambda g, a, b: losses.mse_loss(g, a, b, reduction="max"), [A, B])
