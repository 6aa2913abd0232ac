"""An oracle that is not ours: onnxruntime on a model of one node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
from onnx import helper

Oracle = Callable[..., list[np.ndarray]]


def onnx_node(
    op: str, results: int = 1, opset: int = 17, domain: str = "", threads: int = 0, **attributes: Any
) -> Oracle:
    """The results of the operator ``op`` with ``attributes`` for arrays; None is an absent operand.

    ``threads``: 0 for as many as there are cores.
    """

    def run(*arrays: np.ndarray | None) -> list[np.ndarray]:
        names = [f"v{k}" if a is not None else "" for k, a in enumerate(arrays)]
        given = {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
        inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in given.items()]
        outputs = [f"y{k}" for k in range(results)]
        node = helper.make_node(op, names, outputs, domain=domain, **attributes)
        graph = helper.make_graph([node], "graph", inputs, [helper.ValueInfoProto(name=n) for n in outputs])
        imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
        model = helper.make_model(graph, opset_imports=imports, ir_version=8)
        how = onnxruntime.SessionOptions()
        how.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(model.SerializeToString(), how, providers=["CPUExecutionProvider"])
        return session.run(None, given)  # type: ignore[no-any-return]

    return run
