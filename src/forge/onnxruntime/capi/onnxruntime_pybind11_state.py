"""The exceptions, and what programs import from here, at onnxruntime's place."""

from forge.onnxruntime import (
    EngineError,
    EPFail,
    Fail,
    GraphOptimizationLevel,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoaded,
    ModelMetadata,
    NodeArg,
    NoModel,
    NoSuchFile,
    NotImplemented,  # noqa: A004
    RunOptions,
    RuntimeException,
    SessionOptions,
)

__all__ = [
    "EPFail", "EngineError", "Fail", "GraphOptimizationLevel", "InvalidArgument", "InvalidGraph", "InvalidProtobuf",
    "ModelLoaded", "ModelMetadata", "NoModel", "NoSuchFile", "NodeArg", "NotImplemented", "RunOptions", "RuntimeException",
    "SessionOptions",
]
