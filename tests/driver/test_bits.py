"""What changes the bits of a result and what does not: the promises of docs/reference/accuracy.md."""

from __future__ import annotations

import re

import numpy as np
import pytest

import forge
from forge_runtime import Runtime

BATCH = 9

MODELS = {
    "dense": "x (n, 96) w (50, 96): nn.dense(%x, %w)",
    "matmul": "x (n, 300) w (300, 70): nn.matmul(%x, %w)",
    "matmul of batches": "x (n, 17, 40) y (n, 40, 23): nn.matmul(%x, %y)",
    "conv": "x (n, 16, 14, 14) w (32, 16, 3, 3): nn.conv2d(%x, %w)",
    "pointwise conv": "x (n, 64, 7, 7) w (48, 64, 1, 1): nn.conv2d(%x, %w)",
    "conv of one pixel": "x (n, 64, 1, 1) w (48, 64, 1, 1): nn.conv2d(%x, %w)",
    "depthwise conv": "x (n, 32, 9, 9) w (32, 1, 3, 3): nn.conv2d(%x, %w, groups=32)",
    "attention": "q (n, 2, 33, 16) k (n, 2, 33, 16) v (n, 2, 33, 16): nn.attention(%q, %k, %v)",
    "layer norm": "x (n, 1000) w (1000) b (1000): nn.layer_norm(%x, %w, %b)",
    "softmax": "x (n, 777): nn.softmax(%x, axis=1)",
    "sum": "x (n, 5000): sum(%x, axis=[1])",
}
"""Inputs of float32 and the call; sizes ``n`` are the batch, %w and %b are weights."""

ONE_ROW = {"dense", "matmul"}
"""Products that a single element makes a product of a matrix and a vector."""

Model = tuple[Runtime, list[np.ndarray]]


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> Model:
    """A compiled model with a symbolic batch, and inputs with BATCH elements."""
    inputs, _, call = MODELS[request.param].rpartition(": ")
    rng = np.random.default_rng(0)
    arrays = {}
    for name, shape in re.findall(r"(\w) \(([^)]*)\)", inputs):
        sizes = [BATCH if size == "n" else int(size) for size in shape.split(", ")]
        arrays[name] = rng.standard_normal(sizes).astype(np.float32)
    signature = ", ".join(re.sub(r"(\w) (.*)", r"%\1: Tensor[\2, float32]", each) for each in re.findall(r"\w \([^)]*\)", inputs))
    module = forge.IRModule(f"def @main({signature}) {{ {call} }}")
    weights = {name: arrays.pop(name) for name in "wb" if name in arrays}
    return forge.IRModule(module.mod, weights).get_inference_function(), list(arrays.values())


def test_the_number_of_threads_changes_no_bits(model: Model) -> None:
    run, inputs = model
    run.set_num_threads(1)
    expected = run(*inputs)
    for threads in (2, 3, 7):
        run.set_num_threads(threads)
        for _ in range(3):
            assert np.array_equal(run(*inputs), expected)


def test_place_and_neighbours_in_a_batch_change_no_bits(model: Model) -> None:
    run, inputs = model
    order = np.random.default_rng(1).permutation(BATCH)
    expected = run(*inputs)
    assert np.array_equal(run(*(x[order] for x in inputs)), expected[order])
    others = [np.concatenate([x[:1], x[1:] * 3]) for x in inputs]
    assert np.array_equal(run(*others)[0], expected[0])


def test_the_size_of_a_batch_changes_no_bits(model: Model, request: pytest.FixtureRequest) -> None:
    run, inputs = model
    expected = run(*inputs)
    smallest = 2 if any(f"[{name}]" in request.node.name for name in ONE_ROW) else 1
    for size in range(smallest, BATCH):
        for begin in (0, 1, BATCH - size):
            part = slice(begin, begin + size)
            assert np.array_equal(run(*(x[part] for x in inputs)), expected[part]), (size, begin)
