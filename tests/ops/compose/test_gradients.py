"""Gradients of layers against those of torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.compose import gradients
from forge.ir.nodes import Value
from forge.ir.op import Accuracy
from forge.ops.core.composer import Composer
from tests.ops.compare import check
from tests.ops.compose.support import run

rng = np.random.default_rng(47)


def draw(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def torch_gradients(layer: Any, grad: np.ndarray, *operands: np.ndarray) -> list[np.ndarray]:
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(x).requires_grad_() for x in operands]
    return [found.numpy() for found in torch.autograd.grad(layer(torch, *tensors), tensors, torch.from_numpy(grad))]


@pytest.mark.parametrize(("steps", "pads", "holes", "groups"), [((1, 1), (0, 0), (1, 1), 1), ((2, 1), (1, 2), (1, 2), 2)])
def test_convolutions(steps: Any, pads: Any, holes: Any, groups: int) -> None:
    x, weight = draw(2, 4, 7, 8), draw(6, 4 // groups, 3, 2)
    torch = pytest.importorskip("torch")
    options: dict[str, Any] = {"stride": steps, "padding": pads, "dilation": holes, "groups": groups}
    conv = torch.nn.functional.conv2d
    grad = draw(*conv(torch.from_numpy(x), torch.from_numpy(weight), **options).shape)
    wanted = torch_gradients(lambda _, a, b: conv(a, b, **options), grad, x, weight)

    def compose(g: Composer, *given: Value) -> list[Value]:
        numbers: dict[str, Any] = {"steps": steps, "pads": pads, "holes": holes, "groups": groups}
        return [of(g, *given, **numbers) for of in (gradients.convolved_data, gradients.convolved_weight)]

    for got, expected in zip(run(compose, grad, x, weight), wanted, strict=True):
        check(got, expected, Accuracy.ACCUMULATING)


@pytest.mark.parametrize("groups", [None, 2])
def test_normalizations(groups: int | None) -> None:
    x, weight, bias, grad = draw(3, 4, 5), draw(4) if groups else draw(5), draw(4) if groups else draw(5), draw(3, 4, 5)
    rows = x.reshape(3, groups, -1) if groups else x
    mean, inverse = rows.mean(-1, keepdims=True), 1 / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)

    def layer(torch: Any, *operands: Any) -> Any:
        if groups:
            return torch.nn.functional.group_norm(operands[0], groups, *operands[1:])
        return torch.nn.functional.layer_norm(operands[0], (5,), *operands[1:])

    def compose(g: Composer, d: Value, v: Value, m: Value, s: Value, w: Value) -> list[Value]:
        of_all = [True, True, True]
        found = gradients.group_norm(g, d, v, m, s, w, groups, of_all) if groups else gradients.layer_norm(
            g, d, v, m, s, w, 2, of_all)
        return [v for v in found if v is not None]

    found = run(compose, grad, x, mean, inverse, weight)
    for got, expected in zip(found, torch_gradients(layer, grad, x, weight, bias), strict=True):
        check(got, expected, Accuracy.ACCUMULATING)


def test_pools_and_tables() -> None:
    x, grad = draw(2, 3, 6, 6), draw(2, 3, 3, 3)
    options: dict[str, Any] = {"count_include_pad": False, "divisor": None}

    def compose(g: Composer, d: Value, v: Value) -> list[Value]:
        pooled = gradients.avg_pool2d(g, d, v, sizes=(3, 3), steps=(2, 2), pads=(1, 1), **options)
        return [pooled, gradients.adaptive_avg_pool(g, d, v, (2, 3))]

    wanted = [
        torch_gradients(lambda torch, v: torch.nn.functional.avg_pool2d(v, 3, 2, 1, count_include_pad=False), grad, x)[0],
        torch_gradients(lambda torch, v: torch.nn.functional.adaptive_avg_pool2d(v, 3), grad, x)[0],
    ]
    for got, expected in zip(run(compose, grad, x), wanted, strict=True):
        check(got, expected, Accuracy.ACCUMULATING)
    rows, indices = draw(4, 2), np.array([1, 3, 1, 0])
    (table,) = run(lambda g, d, i: gradients.embedding(g, d, i, 5, ignored=0), rows, indices)
    assert np.array_equal(table, np.stack([np.zeros(2), rows[0] + rows[2], np.zeros(2), rows[1], np.zeros(2)]).astype("float32"))
