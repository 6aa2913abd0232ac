"""Loaders in the calling forms of Relax's frontends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from os import PathLike
from types import ModuleType
from typing import TYPE_CHECKING, Any

from forge.errors import spelled
from forge.ir.nodes import Module
from forge.module import IRModule
from forge.nd import NDArray, viewed

if TYPE_CHECKING:
    import onnx

_SPELLING = {"shape": "shape_dict", "shape=": "shape_dict=", "dtype": "dtype_dict", "dtype=": "dtype_dict="}


def from_onnx(
    model: str | PathLike[str] | bytes | onnx.ModelProto,
    shape_dict: Mapping[str, Sequence[Any]] | None = None,
    dtype_dict: str | Mapping[str, str] | None = "float32",
    opset: int | None = None,
    keep_params_in_input: bool = False,
    sanitize_input_names: bool = True,
) -> IRModule:
    """Loads an ONNX model as `forge.from_onnx` does, whose ``shape`` and ``dtype`` are ``shape_dict`` and ``dtype_dict``.

    Args:
        keep_params_in_input: weights stay inputs of ``main``, after its own; their values are ``IRModule.params``.
        sanitize_input_names: names of inputs become identifiers: other characters become ``_``, and one that does not begin with
            a letter gets ``input_`` before it. ``shape_dict`` and ``dtype_dict`` go by the model's own names.
    """
    from forge.frontends.onnx.importer import from_onnx as load

    with spelled(_SPELLING):
        module = load(model, shape_dict, dtype_dict, opset, keep_params_in_input, sanitize_input_names)
    return IRModule(module, fold_constants=not keep_params_in_input, fold_batch_norms=not keep_params_in_input)


def detach_params(mod: IRModule | Module) -> tuple[IRModule, dict[str, list[NDArray]]]:
    """A copy of ``mod`` in which no input has a value, and the values, in the order of the inputs, by name of the function.

    Raises:
        InvalidGraphError: ``mod`` is not a module.
    """
    detached = IRModule(mod, fold_constants=False, fold_batch_norms=False)
    values = {name: [viewed(array) for array in detached.mod.attributes(name).get("params", ())] for name in detached.functions}
    for graph in detached.mod.public.values():
        graph.params = {}
    return detached, {name: arrays for name, arrays in values.items() if arrays}


def __getattr__(name: str) -> ModuleType:
    if name != "frontend":
        raise AttributeError(f"module 'forge.relax' has no attribute {name!r}")
    return import_module("forge.relax.frontend")


__all__ = ["detach_params", "from_onnx"]
