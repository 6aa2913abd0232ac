"""Forge compiles trained models into small, fast native libraries.

    ir = forge.from_onnx("model.onnx")
    ir.compile(output_path="build")
    y = forge.Runtime("build")(x)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forge import lazy
from forge._version import __version__
from forge.frontends import PACKAGES

if TYPE_CHECKING:
    from forge import errors, frontend, frontends, nd, nn, onnxruntime, relax, relay, torch, transform
    from forge import errors as error
    from forge.driver.pass_context import PassContext
    from forge.errors import ForgeError, OpAttributeInvalid, OpNotImplemented, TVMError
    from forge.executor import create_executor
    from forge.frontends.formats import Format
    from forge.loaders import compile, load, register_format, unregister_format  # noqa: A004
    from forge.module import IRModule, RelayModule, join
    from forge.module.doors import *  # noqa: F403 - the loaders
    from forge.nd import cpu
    from forge.numerics import bisect, compare
    from forge.onnx_module import ONNXModule
    from forge.onnxruntime import (
        ExecutionMode,
        GraphOptimizationLevel,
        InferenceSession,
        IOBinding,
        ModelMetadata,
        NodeArg,
        OrtDevice,
        OrtValue,
        RunOptions,
        SessionOptions,
        capi,
        disable_telemetry_events,
        enable_telemetry_events,
        get_all_providers,
        get_available_providers,
        get_build_info,
        get_device,
        get_version_string,
        preload_dlls,
        set_default_logger_severity,
        set_default_logger_verbosity,
        set_seed,
    )
    from forge.ops.core.define import define_operator
    from forge.target import Target
    from forge_runtime import Runtime, Session, donate, get_registered_func, register_func, remove_registered_func

_HOMES = {name: module for module, names in {
    "forge.module": ("IRModule", "RelayModule", "join"),
    "forge.loaders": ("compile", "load", "register_format", "unregister_format"),
    "forge.frontends.formats": ("Format",),
    "forge_runtime": ("Runtime", "Session", "donate", "get_registered_func", "register_func", "remove_registered_func"),
    "forge.target": ("Target",),
    "forge.driver.pass_context": ("PassContext",),
    "forge.nd": ("cpu",),
    "forge.numerics": ("bisect", "compare"),
    "forge.executor": ("create_executor",),
    "forge.onnx_module": ("ONNXModule",),
    "forge.onnxruntime": (
        "ExecutionMode", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "ModelMetadata", "NodeArg", "OrtDevice",
        "OrtValue", "RunOptions", "SessionOptions", "capi", "disable_telemetry_events", "enable_telemetry_events",
        "get_all_providers", "get_available_providers", "get_build_info", "get_device", "get_version_string", "preload_dlls",
        "set_default_logger_severity", "set_default_logger_verbosity", "set_seed",
    ),
    "forge.ops.core.define": ("define_operator",),
    "forge.errors": ("ForgeError", "TVMError", "OpNotImplemented", "OpAttributeInvalid"),
}.items() for name in names}  # fmt: skip
_MODULES = ("errors", "frontend", "frontends", "nd", "nn", "onnxruntime", "relax", "relay", "torch", "transform")
_find = lazy.attributes(__name__, _HOMES, {**{name: f"forge.{name}" for name in _MODULES}, "error": "forge.errors"})
# Packages that register operators. The graph IR knows none itself: it imports these at the first question about one.
OPERATOR_LIBRARIES = ["forge.ops"]

__all__ = [  # and the loaders, below
    "ExecutionMode",
    "ForgeError",
    "Format",
    "GraphOptimizationLevel",
    "IOBinding",
    "IRModule",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "ONNXModule",
    "OpAttributeInvalid",
    "OpNotImplemented",
    "OrtDevice",
    "OrtValue",
    "PassContext",
    "RelayModule",
    "RunOptions",
    "Runtime",
    "Session",
    "SessionOptions",
    "TVMError",
    "Target",
    "__version__",
    "bisect",
    "capi",
    "compare",
    "compile",
    "cpu",
    "create_executor",
    "define_operator",
    "disable_telemetry_events",
    "donate",
    "enable_telemetry_events",
    "error",
    "errors",
    "frontend",
    "frontends",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_registered_func",
    "get_version_string",
    "join",
    "load",
    "nd",
    "nn",
    "onnxruntime",
    "preload_dlls",
    "register_format",
    "register_func",
    "relax",
    "relay",
    "remove_registered_func",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
    "torch",
    "transform",
    "unregister_format",
]
__all__ += [f"from_{name}" for name in PACKAGES]


def __getattr__(name: str) -> Any:
    """Loads what is asked for, so that ``import forge`` stays quick."""
    if not name.startswith("from_"):
        return _find(name)
    import importlib

    loaders = importlib.import_module("forge.loaders")
    try:
        return getattr(loaders, name)  # not kept: it may be registered again
    except AttributeError:
        raise AttributeError(f"module 'forge' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted(__all__)
