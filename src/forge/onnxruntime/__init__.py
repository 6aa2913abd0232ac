"""onnxruntime's Python interface over models that Forge compiles: ``import forge as ort`` is a whole migration.

    import forge as ort

    session = ort.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    outputs = session.run(None, {session.get_inputs()[0].name: x})

A program of somebody else runs over Forge after ``sys.modules["onnxruntime"] = forge.onnxruntime``.
"""

from __future__ import annotations

from typing import NoReturn

from forge.errors import OptionError
from forge.onnxruntime import capi
from forge.onnxruntime.binding import IOBinding
from forge.onnxruntime.devices import OrtDevice, get_all_providers, get_available_providers, get_device
from forge.onnxruntime.errors import (
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoaded,
    NoModel,
    NoSuchFile,
    NotImplemented,  # noqa: A004
    RuntimeException,
)
from forge.onnxruntime.model import ModelMetadata, NodeArg
from forge.onnxruntime.options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from forge.onnxruntime.session import InferenceSession, set_default_logger_severity
from forge.onnxruntime.values import OrtValue

__version__ = "1.22.0"
"""Of the interface that these names are of."""

REFUSED = {
    "LoraAdapter": "merge adapters into the weights before the export",
    "ModelCompiler": "forge.from_onnx(path).compile(output_path=...) compiles ahead of time",
    "SparseTensor": "Forge has dense tensors only; pass arrays",
    "OrtMemoryInfo": "all tensors are in the CPU's memory",
    "create_and_register_allocator": "memory is planned when a model is compiled",
    "register_execution_provider_library": "Forge compiles for the CPU",
    "set_default_logger_callback": "give Python's logging a handler: logging.getLogger('forge').addHandler(...)",
    "set_global_thread_pool_sizes": "set the threads of the process with forge_runtime.set_num_threads",
    "training": "Forge runs models, and does not train them",
}
"""Names of onnxruntime that mean nothing here, and what to do."""


def __getattr__(name: str) -> NoReturn:
    if name in REFUSED:
        raise AttributeError(f"forge.onnxruntime has no {name}: {REFUSED[name]}")
    raise AttributeError(f"module 'forge.onnxruntime' has no attribute {name!r}")


def get_version_string() -> str:
    return __version__


def get_build_info() -> str:
    from forge._version import __version__ as forge_version

    return f"Forge {forge_version} with the interface of ORT {__version__}; Build Info: CPU"


def set_seed(seed: int) -> NoReturn:
    """Refused: random operators take the seed that the model gives them."""
    raise OptionError(f"set_seed: got {seed!r}; Forge's random operators take their seeds from the model; set them there")


def set_default_logger_verbosity(verbosity: int) -> None:
    """Accepted: a finer grade of the severity 0."""


def enable_telemetry_events() -> None:
    """Accepted: Forge sends nothing."""


def disable_telemetry_events() -> None:
    """Accepted: Forge sends nothing."""


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None) -> None:
    """Accepted: code for the CPU needs none."""


__all__ = [
    "EPFail", "EngineError", "ExecutionMode", "ExecutionOrder", "Fail", "GraphOptimizationLevel", "IOBinding", "InferenceSession",
    "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "ModelLoaded", "ModelMetadata", "NoModel", "NoSuchFile", "NodeArg",
    "NotImplemented", "OrtDevice", "OrtValue", "RunOptions", "RuntimeException", "SessionOptions", "capi",
    "disable_telemetry_events", "enable_telemetry_events", "get_all_providers", "get_available_providers", "get_build_info",
    "get_device", "get_version_string", "preload_dlls", "set_default_logger_severity", "set_default_logger_verbosity",
    "set_seed",
]
