"""Forge by the names of Relay: programs written for it run with ``import forge as tvm`` and ``import forge.relay as relay``.

    mod, params = relay.frontend.from_onnx(onnx_model, shape_dict)
    with tvm.transform.PassContext(opt_level=1):
        executor = relay.build_module.create_executor("graph", mod, tvm.cpu(0), "llvm")
    y = executor.evaluate()(tvm.nd.array(x), **params).asnumpy()

``relay.frontend.onnx`` has what converters of ONNX operators are written with.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from forge.relay import analysis, expr, frontend, function
from forge.relay.expr import Function, const, op, var

if TYPE_CHECKING:
    from forge.relay import build_module
    from forge.relay.build_module import create_executor

__all__ = [
    "Function", "analysis", "build_module", "const", "create_executor", "expr", "frontend", "function", "op", "var",
]


def __getattr__(name: str) -> Any:
    """Loads the compiler when it is asked for."""
    if name not in ("build_module", "create_executor"):
        raise AttributeError(f"module 'forge.relay' has no attribute {name!r}")
    module = import_module("forge.relay.build_module")
    return module if name == "build_module" else module.create_executor


def __dir__() -> list[str]:
    return sorted(__all__)
