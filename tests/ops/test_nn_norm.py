"""Softmax and normalizations against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.errors import TypeInferenceError
from tests.ops.nn_check import check, random, single


def torch_function(name: str, *arrays: np.ndarray, **options: Any) -> np.ndarray:
    torch = pytest.importorskip("torch")
    return getattr(torch.nn.functional, name)(*(torch.from_numpy(a) for a in arrays), **options).numpy()


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("kind", ["softmax", "log_softmax"])
def test_softmax(kind: str, axis: int) -> None:
    x = random(3, 4, 5) * 20
    got = check(f"nn.{kind}", [x], [("n", 4, "w")], axis=axis)
    np.testing.assert_allclose(got, torch_function(kind, x, dim=axis), rtol=1e-5, atol=1e-6)


def test_softmax_of_masked_rows() -> None:
    x = random(2, 4)
    x[0, 1:] = -np.inf
    np.testing.assert_array_equal(check("nn.softmax", [x])[0], [1, 0, 0, 0])


@pytest.mark.parametrize("axis", [-1, 1])
def test_layer_norm(axis: int) -> None:
    torch = pytest.importorskip("torch")
    x = random(3, 4, 5) + 2
    shape = x.shape[axis:]
    gamma, beta = random(*shape, seed=1), random(*shape, seed=2)
    got = check("nn.layer_norm", [x, gamma, beta], axis=axis, epsilon=1e-3)
    expected = torch.nn.functional.layer_norm(*(torch.from_numpy(a) for a in (x,)), shape, torch.from_numpy(gamma),
        torch.from_numpy(beta), 1e-3)
    np.testing.assert_allclose(got, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_row_norms_without_parameters() -> None:
    x = random(3, 4)
    check("nn.layer_norm", [x], [("n", 4)])
    check("nn.layer_norm", [x, random(4)], [("n", 4), None])
    check("nn.layer_norm", [x, None, random(4)])
    gamma = random(4, seed=1)
    expected = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * gamma
    np.testing.assert_allclose(check("nn.rms_norm", [x, gamma]), expected, rtol=1e-5)
    assert check("nn.layer_norm", [random(3, 4, dtype="float16")]).dtype == np.float16


def test_batch_norm() -> None:
    x, (gamma, beta, mean) = random(2, 3, 4, 5), (random(3, seed=k) for k in (1, 2, 3))
    variance = random(3, seed=4) ** 2
    got = check("nn.batch_norm", [x, gamma, beta, mean, variance], [("n", 3, "h", 5), *[None] * 4])
    np.testing.assert_allclose(got, torch_function("batch_norm", x, mean, variance, gamma, beta), rtol=1e-4, atol=1e-5)
    check("nn.batch_norm", [x.transpose(0, 2, 3, 1), gamma, beta, mean, variance], axis=-1)
    check("nn.batch_norm", [x, gamma, beta, mean, variance], center=False, scale=False)


def test_instance_and_group_norm() -> None:
    x, gamma, beta = random(2, 6, 4, 5), random(6, seed=1), random(6, seed=2)
    got = check("nn.instance_norm", [x, gamma, beta], [("n", 6, "h", "w"), None, None])
    np.testing.assert_allclose(got, torch_function("instance_norm", x, weight=None, bias=None) * gamma[:, None, None] + beta[:,
        None, None],
                               rtol=1e-4, atol=1e-5)
    got = check("nn.group_norm", [x, gamma, beta], [("n", 6, "h", "w"), None, None], num_groups=3)
    torch = pytest.importorskip("torch")
    expected = torch.nn.functional.group_norm(torch.from_numpy(x), 3, torch.from_numpy(gamma), torch.from_numpy(beta)).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [3, 5, 7])
def test_lrn(size: int) -> None:
    x = random(2, 5, 3, 3) * 5
    got = check("nn.lrn", [x], size=size, alpha=0.01, beta=0.6, bias=1.5)
    np.testing.assert_allclose(got, torch_function("local_response_norm", x, size=size, alpha=0.01, beta=0.6, k=1.5), rtol=1e-5)


@pytest.mark.parametrize("axis", [(1,), (0, 2), None])
def test_l2_normalize(axis: tuple[int, ...] | None) -> None:
    x = random(2, 3, 4)
    expected = x / np.sqrt((x**2).sum(axis, keepdims=True))
    np.testing.assert_allclose(check("nn.l2_normalize", [x], eps=1e-9, axis=axis), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "message"),
    [
        ("nn.softmax", [(2, 3)], {"axis": 2}, "axis"),
        ("nn.layer_norm", [(2, 3), (4,)], {}, "gamma|broadcast"),
        ("nn.batch_norm", [(2, 3), (3,), (3,), (3,), (2,)], {}, "moving_var"),
        ("nn.group_norm", [(2, 4), (4,), (4,)], {"num_groups": 3}, "modulo num_groups"),
        ("nn.lrn", [(2, 4)], {"size": 0}, "size"),
    ],
)
def test_mistakes_are_named(op: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeInferenceError, match=message):
        single(op, [random(*s) for s in shapes], **attrs)
