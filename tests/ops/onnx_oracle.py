"""An oracle that is not ours: onnxruntime on a model of one node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
from onnx import helper

Oracle = Callable[..., list[np.ndarray]]


def onnx_node(op: str, results: int = 1, opset: int = 17, **attributes: Any) -> Oracle:
    """The results of the operator ``op`` with ``attributes`` for arrays; None is an absent operand."""

    def run(*arrays: np.ndarray | None) -> list[np.ndarray]:
        names = [f"v{k}" if a is not None else "" for k, a in enumerate(arrays)]
        given = {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
        inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in given.items()]
        outputs = [f"y{k}" for k in range(results)]
        node = helper.make_node(op, names, outputs, **attributes)
        graph = helper.make_graph([node], "graph", inputs, [helper.ValueInfoProto(name=n) for n in outputs])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return session.run(None, given)  # type: ignore[no-any-return]

    return run
