"""The exceptions, and what programs import from here, at onnxruntime's place."""

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
from forge.onnxruntime.options import GraphOptimizationLevel, RunOptions, SessionOptions

__all__ = [
    "EPFail", "EngineError", "Fail", "GraphOptimizationLevel", "InvalidArgument", "InvalidGraph", "InvalidProtobuf",
    "ModelLoaded", "ModelMetadata", "NoModel", "NoSuchFile", "NodeArg", "NotImplemented", "RunOptions", "RuntimeException",
    "SessionOptions",
]
