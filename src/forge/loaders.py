"""The loaders: models of other formats as ``IRModule``."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from forge.module import IRModule

if TYPE_CHECKING:
    import onnx


def from_onnx(
    model: str | PathLike[str] | bytes | onnx.ModelProto,
    shape: Mapping[str, Any] | None = None,
    dtype: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: Mapping[str, Any] | None = None,
    export_node_renamed_model_path: str | PathLike[str] | None = None,
) -> IRModule:
    """Loads an ONNX model.

    Args:
        model: a path, the bytes of a file, or a ``ModelProto``.
        shape: shapes of inputs by name, in place of the model's; entries are integers or names of symbols.
        dtype: element types of inputs that the model leaves open.
        opset: read the default domain as this opset instead of what the model declares.
        freeze_params: initialisers become constants; False keeps them as inputs, with their values in ``IRModule.params``.
        convert_config: options of converters, by name.
        export_node_renamed_model_path: write the model with a name for every node to this path.

    Raises:
        ImportModelError: the model cannot be read; OpNotImplemented: it uses operators without a converter, all of them listed.
    """
    from forge.frontends.onnx.importer import import_model

    module = import_model(
        model,
        shape=shape,
        dtype=dtype,
        opset=opset,
        freeze_params=freeze_params,
        convert_config=convert_config,
        export_node_renamed_model_path=export_node_renamed_model_path,
    )
    return IRModule(module, fold_constants=freeze_params, fold_batch_norms=freeze_params)
