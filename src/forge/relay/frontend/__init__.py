"""Loaders in the calling form of Relay's frontends: a module and its weights."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from importlib import import_module
from os import PathLike
from types import ModuleType
from typing import TYPE_CHECKING, Any

from forge import errors
from forge.dims import DimExpr
from forge.loaders import loader
from forge.module import IRModule
from forge.nd import NDArray, viewed

if TYPE_CHECKING:
    import onnx


def from_onnx(
    model: str | PathLike[str] | bytes | onnx.ModelProto,
    shape: Mapping[str, Sequence[Any]] | None = None,
    dtype: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = False,
) -> tuple[IRModule, dict[str, NDArray]]:
    """Loads an ONNX model as `forge.from_onnx` does, which has more options.

    What onnx's own checker finds, and inputs whose sizes are not known, are warnings.

    Returns:
        The module, and its weights by name: none when they are frozen. The module knows the values of its weights too, so
        that it runs without them, and they are compiled into the code; those that a call gives take their place.
    """
    from forge.frontends.onnx.importer import import_model
    from forge.frontends.onnx.loader import load

    loaded = load(model, lambda where, finding: errors.warn(f"{where}: onnx.checker: {finding}"))
    module = import_model(loaded, shape, dtype, opset, freeze_params)
    ir = IRModule(module, fold_constants=freeze_params, fold_batch_norms=freeze_params)
    for text in _unknown_sizes(ir, shape or {}):
        errors.warn(text)
    return ir, {name: viewed(array) for name, array in ir.params.items()}


def from_tensorflow(
    graph: str | PathLike[str] | bytes | Any,
    layout: str | None = "NHWC",
    shape: Mapping[str, Sequence[Any]] | None = None,
    outputs: Sequence[str] | None = None,
    convert_config: Mapping[str, bool] | None = None,
) -> tuple[IRModule, dict[str, NDArray]]:
    """Loads a program as `forge.from_tensorflow` does; its weights are constants of the module, so that none are returned."""
    return loader("tensorflow")(graph, layout, shape, outputs, convert_config), {}


def from_tflite(
    model: str | PathLike[str] | bytes | Any,
    shape_dict: Mapping[str, Sequence[Any]] | None = None,
    dtype_dict: Mapping[str, str] | None = None,
) -> tuple[IRModule, dict[str, NDArray]]:
    """Loads a TFLite model as `forge.from_tflite` does; its weights are constants of the module, so that none are returned."""
    return loader("tflite")(model, shape_dict, dtype_dict), {}


def from_keras(
    model: str | PathLike[str] | bytes | Any, shape: Mapping[str, Sequence[Any]] | None = None, layout: str = "NCHW"
) -> tuple[IRModule, dict[str, NDArray]]:
    """Loads a Keras model as `forge.from_keras` does; its weights are constants of the module, so that none are returned."""
    return loader("keras")(model, shape, layout), {}


def _unknown_sizes(ir: IRModule, given: Container[str]) -> list[str]:
    """Warnings about inputs with sizes that neither the model nor ``given`` fixes."""
    return [
        f"Input {name} has unknown dimension shapes: {[str(d) if isinstance(d, DimExpr) else d for d in shape]}. "
        "Specifying static values may improve performance"
        for name, shape in zip(ir.input_names, ir.input_shapes)
        if shape is not None and name not in given and any(isinstance(d, DimExpr) for d in shape)
    ]


def __getattr__(name: str) -> ModuleType:
    if name != "onnx":
        raise AttributeError(f"module 'forge.relay.frontend' has no attribute {name!r}")
    return import_module("forge.relay.frontend.onnx")


__all__ = ["from_keras", "from_onnx", "from_tensorflow", "from_tflite"]
