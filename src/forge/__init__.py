"""Forge compiles trained models into small, fast native libraries.

    ir = forge.from_onnx("model.onnx")
    ir.compile(output_path="build")
    y = forge.Runtime("build")(x)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forge._version import __version__

if TYPE_CHECKING:
    from forge import errors, frontend, frontends, nd, relax, relay, torch, transform
    from forge import errors as error
    from forge.driver.pass_context import PassContext
    from forge.errors import ForgeError, OpAttributeInvalid, OpNotImplemented, TVMError
    from forge.executor import create_executor
    from forge.loaders import from_onnx, from_torch
    from forge.module import IRModule, RelayModule, join, load
    from forge.nd import cpu
    from forge.numerics import bisect, compare
    from forge.onnx_module import ONNXModule
    from forge.ops.core.define import define_operator
    from forge.target import Target
    from forge_runtime import Runtime, Session, donate, get_registered_func, register_func, remove_registered_func

_HOMES = {name: module for module, names in {
    "forge.module": ("IRModule", "RelayModule", "join", "load"),
    "forge.loaders": ("from_onnx", "from_torch"),
    "forge_runtime": ("Runtime", "Session", "donate", "get_registered_func", "register_func", "remove_registered_func"),
    "forge.target": ("Target",),
    "forge.driver.pass_context": ("PassContext",),
    "forge.nd": ("cpu",),
    "forge.numerics": ("bisect", "compare"),
    "forge.executor": ("create_executor",),
    "forge.onnx_module": ("ONNXModule",),
    "forge.ops.core.define": ("define_operator",),
    "forge.errors": ("ForgeError", "TVMError", "OpNotImplemented", "OpAttributeInvalid"),
}.items() for name in names}  # fmt: skip
_MODULES = {
    "error": "forge.errors",
    "errors": "forge.errors",
    "frontend": "forge.frontend",
    "frontends": "forge.frontends",
    "nd": "forge.nd",
    "relax": "forge.relax",
    "relay": "forge.relay",
    "torch": "forge.torch",
    "transform": "forge.transform",
}
# Packages that register operators. The graph IR knows none itself: it imports these at the first question about one.
OPERATOR_LIBRARIES = ["forge.ops"]

__all__ = [
    "ForgeError",
    "IRModule",
    "ONNXModule",
    "OpAttributeInvalid",
    "OpNotImplemented",
    "PassContext",
    "RelayModule",
    "Runtime",
    "Session",
    "TVMError",
    "Target",
    "__version__",
    "bisect",
    "compare",
    "cpu",
    "create_executor",
    "define_operator",
    "donate",
    "error",
    "errors",
    "from_onnx",
    "from_torch",
    "frontend",
    "frontends",
    "get_registered_func",
    "join",
    "load",
    "nd",
    "register_func",
    "relax",
    "relay",
    "remove_registered_func",
    "torch",
    "transform",
]


def __getattr__(name: str) -> Any:
    """Loads what is asked for, so that ``import forge`` stays quick."""
    import importlib

    if name in _MODULES:
        value: Any = importlib.import_module(_MODULES[name])
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'forge' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
