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
    """Loads an ONNX model.

    Args:
        model: a path, the bytes of a file, or a ``ModelProto``.
        shape_dict: shapes of inputs by the model's names: integers, names of symbols, or None to keep what the model says.
        dtype_dict: element types of inputs by name, in the place of the model's; a single one is for those it leaves open.
        opset: read the default domain as this opset instead of what the model declares.
        keep_params_in_input: weights stay inputs of ``main``, after its own; their values are ``IRModule.params``.
        sanitize_input_names: names of inputs become identifiers: other characters become ``_``, and one that does not begin with
            a letter gets ``input_`` before it.

    Raises:
        OptionError: an argument of the wrong kind; ImportModelError: the model cannot be read, or contradicts an argument;
        OpNotImplemented: it uses operators without a converter, all listed.
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
    values = [viewed(array) for array in detached.mod.attributes().get("params", ())]
    detached.mod.params = {}
    return detached, {"main": values} if values else {}


def __getattr__(name: str) -> ModuleType:
    if name != "frontend":
        raise AttributeError(f"module 'forge.relax' has no attribute {name!r}")
    return import_module("forge.relax.frontend")


__all__ = ["detach_params", "from_onnx"]
