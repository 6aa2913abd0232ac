"""Whether onnxruntime's sums of products of uint8 and int8 are exact here: without VNNI its kernels saturate pairs of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest

REASON = "onnxruntime saturates sums of products of uint8 and int8 on processors without VNNI"


@cache
def is_exact() -> bool:
    """Whether the product of the largest numbers is what it should be."""
    import onnxruntime

    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 13]>
        g (uint8[1, 64] a, int8[64, 16] b) => (int32[1, 16] y) { y = MatMulInteger(a, b) }""")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"a": np.full((1, 64), 255, np.uint8), "b": np.full((64, 16), 127, np.int8)})
    return bool((found == 64 * 255 * 127).all())


def skip_where_sums_saturate() -> None:
    """Skips a test whose oracle is wrong here."""
    if not is_exact():
        pytest.skip(REASON)


def exact_options() -> Any:
    """Options of a session of a QDQ model: without optimizations, it computes with floats, where integers would be wrong."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if not is_exact():
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options
