"""set_batch_size of whole models: results are those of one element after the other, or the model is refused and unchanged."""

from __future__ import annotations

import numpy as np
import pytest

import forge
from forge.ir.builder import Builder
from forge.ir.graph import Module
from forge.ir.types import TensorType

X = "%x: Tensor[(1, 4, 6), float32]"


def refused(ir: forge.IRModule, message: str) -> None:
    before, fingerprint = str(ir.typed_mod), ir.fingerprint
    with pytest.raises(ValueError, match=message) as caught:
        ir.set_batch_size(3)
    assert str(ir.typed_mod) == before and ir.fingerprint == fingerprint
    assert "CallAttrs" not in str(caught.value)


COMBINING = [
    "nn.softmax(%x, axis=0)", "nn.log_softmax(%x, axis=0)", "sum(%x, axis=[0])", "mean(%x)", "argmax(%x, axis=[0])",
    "cumsum(%x, axis=0)", "sort(%x, axis=0)", "topk(%x, k=1, axis=0)", "variance(%x, axis=[0, 1])",
    'einsum(%x, %x, equation="bij,bik->jk")',
]
MOVING = [
    "reverse(%x, axis=0)", "strided_slice(%x, begin=[0], end=[1], axes=[0])", "concatenate(%x, %x, axis=0)",
    "take(%x, %i, axis=0)",
]


@pytest.mark.parametrize("body", COMBINING)
@pytest.mark.parametrize("batch", ["1", "n"])
def test_elements_that_are_combined(body: str, batch: str) -> None:
    name = body.split("(")[0]
    ir = forge.IRModule(f"def @main({X.replace('(1', '(' + batch)}) {{ {body} /* name=\"culprit\" */ }}")
    refused(ir, rf"set_batch_size: node culprit \({name}\): mixes elements of the batch \(.*; give the size .* from_onnx\(shape=")


@pytest.mark.parametrize("body", MOVING)
def test_elements_that_are_moved(body: str) -> None:
    """A model for one batch size is refused; one with a symbolic batch tells itself what it computes for each."""
    text = f"def @main({X}, %i: Tensor[(2), int64]) {{ {body} }}"
    refused(forge.IRModule(text), r"may mix elements of the batch \(.*; export the model with a symbolic batch dimension")
    ir = forge.IRModule(text.replace("(1", "(n"))
    ir.set_batch_size(3)
    assert ir.input_shapes[0] == (3, 4, 6)


def test_rows_of_the_batch_that_are_combined_later() -> None:
    for batch in ("1", "n"):
        lines = "%0 = reshape(%x, newshape=[-1, 6]); %1 = tanh(%0); max(%1, axis=[0])"
        refused(forge.IRModule(f"def @main({X.replace('(1', '(' + batch)}) {{ {lines} }}"), "combines all entries along axis 0")


def convolutional() -> forge.IRModule:
    rng = np.random.default_rng(0)
    b = Builder()
    weights = [b.constant(rng.standard_normal(s).astype(np.float32)) for s in ((4, 3, 3, 3), (5, 4 * 6 * 6), (5,))]
    h = b.call("nn.relu", b.call("nn.conv2d", b.input(TensorType((1, 3, 8, 8), "float32"), "x"), weights[0], kernel_size=(3, 3)))
    h = b.call("sort", b.call("reshape", h, newshape=(1, 4 * 6 * 6)), axis=1)
    return forge.IRModule(Module(b.output(b.call("add", b.call("nn.dense", h, weights[1]), weights[2]))))


def test_partitioned_models() -> None:
    x = np.random.default_rng(1).standard_normal((3, 3, 8, 8)).astype(np.float32)
    one = convolutional().get_inference_function("reference")
    expected = np.concatenate([one(row[None]) for row in x])
    ir = convolutional()
    ir.partition_for_tensorrt()
    assert ir.subgraph_count == 2
    ir.set_batch_size(3)
    for stage in (lambda: None, ir.inline_partitions):
        stage()
        assert ir.typed_mod and ir.output_shapes == [(3, 5)]
        np.testing.assert_allclose(ir.get_inference_function("reference")(x), expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(ir.get_inference_function()(x), expected, rtol=1e-4, atol=1e-4)
