"""Gram matrices of layers, next to the squares of their results."""

from __future__ import annotations

import numpy as np
import pytest

from forge.errors import InputError
from forge.ir.interp import run_graph
from forge.quantization.observed import gram
from forge.quantization.places.layers import layers_of
from forge.quantization.weights.channels import rows_of
from tests.quantization.models import Net
from tests.quantization.nets import OPTIONS


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("size", [1, 3])
def test_convolutions(groups: int, size: int) -> None:
    """``w G w^T`` is the sum of the squares of a channel of the result."""
    net = Net(4, 5, 6)
    weight = net.weight(6, 4 // groups, size, size)
    ir = net.module(net.call("nn.conv2d", net.x, weight, padding=(size // 2, size // 2), groups=groups))
    (layer,) = layers_of(ir.mod.main)
    samples = [{"x": x} for x in net.samples(3)]
    matrices = gram.gram_matrices(ir.mod, [layer], samples, OPTIONS)[layer]
    assert matrices.shape == (groups, layer.depth, layer.depth) and matrices.dtype == np.float64
    rows = rows_of(layer.array, 0).reshape(groups, -1, layer.depth)
    found = np.einsum("gnk,gkl,gnl->gn", rows, matrices, rows).ravel()
    results = np.concatenate([run_graph(ir.mod.main, [s["x"]])[0] for s in samples])
    np.testing.assert_allclose(found, np.square(results, dtype=np.float64).sum(axis=(0, 2, 3)), rtol=1e-4)


def test_layers_of_the_same_inputs_share_a_matrix() -> None:
    net = Net(6)
    hidden = net.call("exp", net.x)
    ir = net.module(net.dense(hidden, 4), net.dense(hidden, 5))
    first, second = layers_of(ir.mod.main)
    samples = net.samples(3)
    found = gram.gram_matrices(ir.mod, [first, second], [{"x": x} for x in samples], OPTIONS)
    rows = np.exp(np.concatenate(samples).astype(np.float64))
    np.testing.assert_allclose(found[first], (rows.T @ rows)[None], rtol=1e-5)
    assert found[first] is found[second] and list(gram.batches([first, second])) == [[first, second]]


def test_rows_are_thinned() -> None:
    net = Net(6)
    ir = net.module(net.dense(net.x, 4))
    (layer,) = layers_of(ir.mod.main)
    data = np.arange(60, dtype=np.float32).reshape(10, 6)
    (rows,) = gram.rows_of(layer, data, 5)
    np.testing.assert_array_equal(rows, data[None, ::2])
    np.testing.assert_allclose(gram.gram_matrix(layer, data, 5)[0], data[::2].T @ data[::2])


def test_bad_samples_are_refused() -> None:
    net = Net(6)
    ir = net.module(net.dense(net.x, 4))
    layers = layers_of(ir.mod.main)
    with pytest.raises(InputError, match="samples: got none"):
        gram.gram_matrices(ir.mod, layers, [], OPTIONS)
    with pytest.raises(InputError, match="is not finite"):
        gram.gram_matrices(ir.mod, layers, [{"x": np.full((2, 6), np.inf, np.float32)}], OPTIONS)
