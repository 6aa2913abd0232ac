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

if TYPE_CHECKING:
    from forge.compose import expr
    from forge.compose.expr import const, op
    from forge.executor import create_executor
    from forge.relay import build_module, frontend

_HOMES = {"const": "forge.compose.expr", "create_executor": "forge.executor", "op": "forge.compose.expr"}
_MODULES = {
    "build_module": "forge.relay.build_module", "expr": "forge.compose.expr", "frontend": "forge.relay.frontend"
}

__all__ = ["build_module", "const", "create_executor", "expr", "frontend", "op"]


def __getattr__(name: str) -> Any:
    """Loads what is asked for."""
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'forge.relay' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
