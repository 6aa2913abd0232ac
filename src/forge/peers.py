"""The runtimes that Forge is compared with, each brought to the same terms: float32, a number of threads, one stream.

A loader takes an ONNX file, its inputs and the number of threads and returns a function that runs the model once.
The libraries are optional and imported by their loader.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Feed = Mapping[str, NDArray[Any]]
Outputs = Sequence[NDArray[Any]]
Call = Callable[[], Outputs]
Model = Callable[[Feed], Outputs]
Loader = Callable[[Path, Feed, int], Call]

_FLOAT32: Mapping[str, str] = MappingProxyType({"INFERENCE_PRECISION_HINT": "f32"})


def load_onnxruntime(path: Path, feed: Feed, threads: int) -> Call:
    """ONNX Runtime on the CPU with all its optimizations."""
    return _onnxruntime_call(path, feed, threads, optimized=True)


def load_reference(path: Path, feed: Feed, threads: int) -> Call:
    """ONNX Runtime with its optimizations off: the operators as the file has them. What outputs are compared with."""
    return _onnxruntime_call(path, feed, threads, optimized=False)


def _onnxruntime_call(path: Path, feed: Feed, threads: int, *, optimized: bool) -> Call:
    return partial(open_onnxruntime(path, threads, optimized=optimized), dict(feed))


def open_onnxruntime(path: Path, threads: int, *, optimized: bool = True) -> Model:
    """A session of ONNX Runtime, for inputs of any of the sizes that the file allows."""
    import onnxruntime

    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Its workers would otherwise spin on while another library is being timed.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return partial(session.run, None)


def load_openvino(path: Path, feed: Feed, threads: int) -> Call:
    """OpenVINO on the CPU, one stream, and float32 also where the CPU has bfloat16."""
    return _openvino_call(path, feed, threads, _FLOAT32)


def load_openvino_default(path: Path, feed: Feed, threads: int) -> Call:
    """OpenVINO on the CPU, one stream, in the precision of its own choice: bfloat16 where the CPU has it."""
    return _openvino_call(path, feed, threads, {})


def _openvino_call(path: Path, feed: Feed, threads: int, precision: Mapping[str, str]) -> Call:
    return partial(open_openvino(path, threads, precision), dict(feed))


def open_openvino(path: Path, threads: int, precision: Mapping[str, str] = _FLOAT32) -> Model:
    """A request of OpenVINO, for inputs of any of the sizes that the file allows."""
    import openvino

    settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY", **precision}
    request = openvino.Core().compile_model(str(path), "CPU", settings).create_infer_request()

    def call(feed: Feed) -> Outputs:
        results = request.infer(feed, share_inputs=True, share_outputs=True)
        return [results[index] for index in range(len(results))]

    return call


LOADERS: Mapping[str, Loader] = MappingProxyType({"onnxruntime": load_onnxruntime, "openvino": load_openvino})
"""Peers that read ONNX files, by the name of their package."""


def as_list(outputs: NDArray[Any] | Outputs) -> list[NDArray[Any]]:
    """The outputs of a call that gives one array or a sequence of arrays."""
    return [outputs] if isinstance(outputs, np.ndarray) else list(outputs)


def disagreement(found: Outputs, expected: Outputs) -> float:
    """``max|found - expected| / max|expected|`` of the worst output.

    Infinite where shapes differ or one of the two is not finite.
    """
    if [one.shape for one in found] != [one.shape for one in expected]:
        return float("inf")
    return max((_relative(one, other) for one, other in zip(found, expected, strict=True)), default=0.0)


def _relative(found: NDArray[Any], expected: NDArray[Any]) -> float:
    if expected.size == 0:
        return 0.0
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    largest = float(np.abs(found - expected).max())
    if not np.isfinite(largest):
        return float("inf")
    return largest / (float(np.abs(expected).max()) or 1.0)


def load_torch_program(path: Path, feed: Feed, threads: int) -> Call:
    """Eager torch on a program that ``torch.export.save`` wrote. Open only files that you trust: torch may run code in them."""
    import torch
    from torch.utils._pytree import tree_leaves

    torch.set_num_threads(threads)
    network = torch.export.load(str(path)).module()
    tensors = [torch.from_numpy(array) for array in feed.values()]

    def call() -> Outputs:
        with torch.inference_mode():
            outputs = network(*tensors)
        return [np.asarray(output) for output in tree_leaves(outputs) if output is not None]

    return call


def onnx_reference(path: Path, names: Sequence[str]) -> Callable[[Feed], list[NDArray[Any]]]:
    """ONNX Runtime with its optimizations off, which gives values of the graph by their ``names`` after the outputs."""
    import onnx
    import onnxruntime

    model = onnx.load(path, load_external_data=False)
    outputs = [output.name for output in model.graph.output]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(names) if name not in outputs)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.absolute().parent))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda feed: list(session.run([*outputs, *names], dict(feed)))


def load_errors() -> tuple[type[Exception], ...]:
    """What peers that are imported raise of models: torch built-in exceptions, ONNX Runtime its own."""
    state = sys.modules.get("onnxruntime.capi.onnxruntime_pybind11_state")
    classes = [] if state is None else [c for c in vars(state).values() if isinstance(c, type)]
    return (RuntimeError, ValueError, OSError, *(c for c in classes if issubclass(c, Exception)))


def onnx_values(path: Path) -> set[str]:
    """Names of the values that the nodes of a graph compute."""
    import onnx

    return {name for node in onnx.load(path, load_external_data=False).graph.node for name in node.output if name}


def onnx_scales(path: Path) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
    """Scales and zero points of quantized values by name, as ONNX Runtime names them: ``x_quantized`` has ``x_scale``."""
    import onnx
    from onnx import numpy_helper

    arrays = {tensor.name: tensor for tensor in onnx.load(path, load_external_data=False).graph.initializer}
    found = {}
    for name, scale in arrays.items():
        base = name.removesuffix("_scale")
        zero_point = arrays.get(f"{base}_zero_point")
        if base != name and zero_point is not None and not scale.external_data and not zero_point.external_data:
            found[f"{base}_quantized"] = numpy_helper.to_array(scale), numpy_helper.to_array(zero_point)
    return found


def torch_program(path: Path) -> Any:
    """What ``torch.export.save`` wrote. Open only files that you trust: torch may run code in them."""
    import torch

    return torch.export.load(str(path))


def torch_values(program: Any) -> set[str]:
    """Names of the nodes of an exported program that compute something."""
    return {node.name for node in program.graph.nodes if node.op == "call_function"}


def torch_reference(program: Any, names: Sequence[str], outputs: int) -> Callable[[Feed], list[NDArray[Any]]]:
    """Eager torch on an exported program, which gives results of its nodes by their ``names`` after the outputs."""
    import torch
    from torch.utils._pytree import tree_leaves

    wanted = set(names)

    interpreter = torch.fx.Interpreter(program.module())
    run_node = interpreter.run_node
    found: dict[str, NDArray[Any]] = {}

    def recorded(node: Any) -> Any:
        result = run_node(node)
        if node.name in wanted and isinstance(result, torch.Tensor):
            found[node.name] = result.detach().numpy(force=True).copy()
        return result

    interpreter.run_node = recorded

    def call(feed: Feed) -> list[NDArray[Any]]:
        with torch.inference_mode():
            results = interpreter.run(*map(torch.tensor, feed.values()), enable_io_processing=False)
        leaves = [np.asarray(leaf) for leaf in tree_leaves(results) if leaf is not None]
        return [*leaves[:outputs], *(found[name] for name in names)]

    return call
