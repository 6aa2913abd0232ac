"""What jax writes out in many operations becomes the operator that it means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

import forge  # noqa: E402
from tests.frontends.stablehlo.against_jax import check, results  # noqa: E402


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def operators(function: Callable[..., Any], *arguments: np.ndarray) -> set[str]:
    return {node.op for node in forge.from_jax(function, *arguments).main.nodes}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_complementary_error_function_is_one_operator(dtype: str) -> None:
    with jax.enable_x64(True):
        x = np.concatenate([np.linspace(-12, 12, 101), (np.inf, -np.inf)]).astype(dtype)
        ir = forge.from_jax(lax.erfc, x)
        assert "erfc" in {node.op for node in ir.main.nodes} and len(ir.main.nodes) < 4
        np.testing.assert_allclose(results(ir.get_inference_function()(x))[0], lax.erfc(x), rtol=2e-5, atol=1e-30)


@pytest.mark.parametrize("other", [
    lambda x: jnp.where(jnp.abs(x) < 1, 1 - x, jnp.exp(-x)),
    lambda x: jnp.where(jnp.abs(x) < 1, 1 - jnp.exp(x), x),
    lambda x: jnp.where(jnp.abs(x) < 1, jnp.exp(x), jnp.ones_like(x) + numbers(5, 7)),
])
def test_selections_that_only_look_like_it_stay(other: Callable[..., Any]) -> None:
    x = numbers(5, 7)
    assert "erfc" not in operators(other, x)
    check(other, x)


@pytest.mark.parametrize(("size", "stride", "padding", "dilation"), [
    (4, 2, "SAME", 1), (2, 2, "VALID", 1), (5, 3, "VALID", 1), (3, 2, [(1, 1)], 1), (3, 2, [(0, 5)], 2),
])
def test_convolutions_of_dilated_data_are_transposed_ones(size: int, stride: int, padding: Any, dilation: int) -> None:
    x, w = numbers(2, 7, 5), numbers(size, 5, 6)

    def function(x: Any, w: Any) -> Any:
        return lax.conv_transpose(x, w, (stride,), padding, rhs_dilation=(dilation,))

    assert "nn.conv1d_transpose" in operators(function, x, w)
    check(function, x, w)


def test_data_padded_by_more_than_the_kernel_are_dilated() -> None:
    x, w = numbers(2, 7, 5), numbers(3, 5, 6)

    def function(x: Any, w: Any) -> Any:
        return lax.conv_transpose(x, w, (4,), [(5, 0)])

    assert "nn.dilate" in operators(function, x, w)
    check(function, x, w)


@pytest.mark.parametrize("count", [8, 1100])
def test_constants_are_not_repeated(count: int) -> None:
    row = numbers(1, count)

    def function(x: Any) -> Any:
        return (x * 0.5 + jnp.broadcast_to(row, (9, count))) / jnp.full((9, count), 3.0)

    ir = forge.from_jax(function, numbers(9, count))
    assert max(node.result.size for node in ir.main.nodes if node.op == "constant") == count
    check(function, numbers(9, count))
