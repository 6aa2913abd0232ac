"""Random graphs give what TensorFlow gives for them, to rounding errors of float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import forge
from tests.frontends.tensorflow.random_graphs import Grown, grown
from tests.frontends.tensorflow.record import completed

ACCURACY = 1e-11
"""Relative to the largest result; errors grow along a graph."""


def expected(made: Grown, outputs: list[str]) -> list[np.ndarray]:
    tf = pytest.importorskip("tensorflow", reason="needs the extra tflite, which has TensorFlow")
    with tf.Graph().as_default() as whole:
        tf.import_graph_def(completed(made.graph), name="")
        with tf.compat.v1.Session(graph=whole) as session:
            names = [name if ":" in name else f"{name}:0" for name in outputs]
            return list(session.run(names, {f"x{k + 1}:0": value for k, value in enumerate(made.inputs)}))


@pytest.mark.sampled(10)
@pytest.mark.parametrize("number", range(200))
def test_beside_tensorflow(number: int) -> None:
    made = grown(number, open_=number % 2 == 0)
    outputs = list(dict.fromkeys(tensor.name for tensor in made.tensors[-3:]))
    wanted = expected(made, outputs)
    module = forge.from_tensorflow(made.graph.data(), outputs=outputs)
    names = [value.name for value in module.main.inputs]
    inputs = [made.inputs[int(name[1:]) - 1] for name in names]
    found: Any = module.get_inference_function()(*inputs)
    for one, other in zip(found if isinstance(found, list | tuple) else [found], wanted, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=0, atol=ACCURACY * max(np.abs(other).max(initial=0), 1.0))
