"""Small models that the tests of the seeds share."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from tests.frontends.onnx.support import example, model

NETWORK = """g (float[batch, 3, 6, 6] x) => (float[batch, 5] y) {
    [conv1] c = Conv<kernel_shape=[3, 3], pads=[1, 1, 1, 1]>(x, w, b)
    [bn1] n = BatchNormalization(c, scale, shift, mean, variance)
    [relu1] r = Relu(n)
    [pool1] p = GlobalAveragePool(r)
    [flat1] f = Flatten(p)
    [fc1] y = Gemm<transB=1>(f, v, u)
}"""


def weights(seed: int = 0) -> dict[str, np.ndarray]:
    """Weights of `network`; the variances are positive."""
    sizes: dict[str, tuple[int, ...]] = {
        "w": (4, 3, 3, 3),
        "b": (4,),
        "scale": (4,),
        "shift": (4,),
        "mean": (4,),
        "variance": (4,),
        "v": (5, 4),
        "u": (5,),
    }
    made = {name: example(seed + k, *size) for k, (name, size) in enumerate(sizes.items())}
    return {**made, "variance": np.abs(made["variance"]) + np.float32(0.5)}


def network(seed: int = 0, **replaced: Any) -> onnx.ModelProto:
    """A convolution with a batch normalization, pooling and a dense layer: input ``x``, output ``y``, symbolic batch."""
    return model(NETWORK, **{**weights(seed), **replaced})


def unary(op: str, opset: int = 21, **attributes: Any) -> onnx.ModelProto:
    """A model of one node: ``y = op(x)`` over float32 of sizes (n, 4)."""
    node = onnx.helper.make_node(op, ["x"], ["y"], **attributes)
    value = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 4]) for name in ("x", "y")]
    graph = onnx.helper.make_graph([node], "g", value[:1], value[1:])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)


X = example(99, 2, 3, 6, 6)
