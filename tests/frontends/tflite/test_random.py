"""Random numbers are distributed as TFLite's are; sparse weights are dense ones."""

from __future__ import annotations

import numpy as np
import pytest

import forge
from forge.errors import OpNotImplemented
from tests.frontends.tflite.test_control import both
from tests.frontends.tflite.writer import Graph, model


@pytest.mark.parametrize(("op", "mean", "deviation"), [
    ("RANDOM_UNIFORM", 0.5, 12**-0.5), ("RANDOM_STANDARD_NORMAL", 0.0, 1.0)])  # fmt: skip
def test_distributions(op: str, mean: float, deviation: float) -> None:
    main = Graph()
    main.outputs = list(main.op(op, [main.constant(np.array([50, 400], np.int32))], [main.tensor((50, 400))], seed=1, seed2=2))
    found = both(model(main))
    assert found.shape == (50, 400) and abs(found.mean() - mean) < 0.03 and abs(found.std() - deviation) < 0.03


def test_multinomial() -> None:
    main = Graph()
    logits, count = main.input((2, 3)), main.constant(np.int32(2000))
    main.outputs = list(main.op("MULTINOMIAL", [logits, count], [main.tensor((2, 2000), "int64")], seed=3))
    weights = np.array([[1, 1, 2], [8, 1, 1]], np.float32)
    found = both(model(main), np.log(weights))
    shares = np.stack([np.bincount(row, minlength=3) / 2000 for row in found])
    np.testing.assert_allclose(shares, weights / weights.sum(1, keepdims=True), atol=0.05)


def test_sparse_weights_are_made_dense() -> None:
    """Rows of a matrix in compressed form, of which DENSIFY gives all elements."""
    main = Graph()
    x = main.input((1, 4))
    described = [{"format": "DENSE", "dense_size": 3},
                 {"format": "SPARSE_CSR", "dense_size": 4, "array_segments": ("Int32Vector", {"values": [0, 1, 1, 3]}),
                  "array_indices": ("Int32Vector", {"values": [2, 0, 3]})}]
    sparsity = {"traversal_order": [0, 1], "dim_metadata": described}
    weight = main.constant(np.array([5, 6, 7], np.float32), shape=(3, 4), sparsity=sparsity)
    (dense,) = main.op("DENSIFY", [weight], [main.tensor((3, 4))])
    main.outputs = list(main.op("FULLY_CONNECTED", [x, dense], [main.tensor((1, 3))]))
    expected = np.array([[0, 0, 5, 0], [0, 0, 0, 0], [6, 0, 0, 7]], np.float32)
    for k, row in enumerate(np.eye(4, dtype=np.float32)):
        np.testing.assert_array_equal(both(model(main), row[None])[0], expected[:, k])
    assert not forge.from_tflite(model(main)).is_quantized


def test_sparse_weights_of_any_size_are_refused_before_they_are_made() -> None:
    main = Graph()
    described = [{"format": "DENSE", "dense_size": 1 << 14} for _ in range(2)]
    sparsity = {"traversal_order": [0, 1], "dim_metadata": described}
    weight = main.constant(np.zeros(1, np.float32), shape=(1 << 14, 1 << 14), sparsity=sparsity)
    main.outputs = list(main.op("DENSIFY", [weight], [main.tensor((1 << 14, 1 << 14))]))
    with pytest.raises(OpNotImplemented, match="stand for 268435456 elements; expected at most 67108864"):
        forge.from_tflite(model(main))
