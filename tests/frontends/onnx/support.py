"""Small models as text, and their results by Forge's interpreter and by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser

from forge.frontends.onnx import import_model
from forge.ir import interp
from forge.ir.graph import Module


def model(
    graph: str, opset: int = 21, functions: str = "", domains: Mapping[str, int] | None = None, **weights: Any
) -> onnx.ModelProto:
    """A model out of a graph in ONNX's text form; ``weights`` become initializers."""
    imports = ", ".join(f'"{d}" : {v}' for d, v in {"": opset, **(domains or {})}.items())
    proto = onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]>\n{graph}\n{functions}")
    for name, value in weights.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    return proto


def evaluate(module: Module, *inputs: Any) -> list[Any]:
    """Outputs for inputs in the order of main's."""
    names = [v.name for v in module.main.inputs if v.name not in module.params]
    return interp.run_module(module, {n: x if isinstance(x, list) else np.asarray(x) for n, x in zip(names, inputs, strict=True)})


def run(proto: onnx.ModelProto, *inputs: Any, **options: Any) -> list[Any]:
    return evaluate(import_model(proto, **options), *inputs)


def ops(module: Module) -> list[str]:
    """Names of main's operators, without constants."""
    return [node.op for node in module.main.nodes if node.op != "constant"]


def onnxruntime_outputs(proto: onnx.ModelProto, *inputs: Any) -> list[Any]:
    """Outputs of onnxruntime without its optimizations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs: list[Any] = session.run(None, {i.name: np.asarray(x) for i, x in zip(session.get_inputs(), inputs, strict=True)})
    return outputs


def assert_same(got: Sequence[Any], expected: Sequence[Any], tolerance: float = 1e-5) -> None:
    """Equal dtypes and shapes; values within ``tolerance`` of the largest."""
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        scale = np.abs(theirs[np.isfinite(theirs)]).max(initial=0) if theirs.dtype.kind == "f" else 0
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * scale)


def example(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
