"""The format ONNX, and its loader."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from forge.frontends.formats import Format, Magic

if TYPE_CHECKING:
    import onnx

    from forge.frontends.support import Support
    from forge.ir.graph import Module


def from_onnx(
    model: str | PathLike[str] | bytes | onnx.ModelProto,
    shape: Mapping[str, Any] | None = None,
    dtype: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: Mapping[str, Any] | None = None,
    export_node_renamed_model_path: str | PathLike[str] | None = None,
    *,
    unify_dimensions: bool = True,
) -> Module:
    """Loads an ONNX model.

    Args:
        model: a path, the bytes of a file, or a ``ModelProto``. External data is read from the path's folder.
        shape: shapes of inputs by name, in place of the model's; entries are integers, None to keep, or texts: a label that
            the model gives a dimension, else an expression of symbols (``2*n``). An input that is an initializer, too, is one
            that calls give if it is named here; else it has the initializer's contents.
        dtype: element types of inputs by name, in place of the model's; a single one is for those that the model leaves open,
            and refused where it contradicts all that the model says.
        opset: read the default domain as this opset instead of what the model declares.
        freeze_params: initializers become constants; False keeps them as inputs after the model's own, with their values in
            ``IRModule.params`` (small integer vectors, which steer operators, are constants all the same).
        convert_config: options of converters, by name. ``use_nt_batch_matmul`` (default True): products of rank 3 are
            ``nn.batch_matmul`` with a transposed right side; they are compiled alike. ``drop_zipmap`` (default False): no
            warning for ZipMap, whose results, maps, which compiled models lack, are the tensors of scores instead.
        unify_dimensions: dimensions of inputs that the model gives one name have one size; False for models that give it to
            unequal ones, where each gets a name of its own (``n``, ``n_1``).
        export_node_renamed_model_path: write the model with a name for every node to this path, and its external data
            next to it.

    Raises:
        OptionError: an argument of the wrong kind; ImportModelError: the model cannot be read, or contradicts an argument;
        OpNotImplemented: it uses operators without a converter, all listed.
    """
    from forge.frontends.onnx.importer import import_model

    return import_model(
        model, shape, dtype, opset, freeze_params, convert_config, export_node_renamed_model_path,
        unify_dimensions=unify_dimensions)


def _support() -> Support:
    from forge.frontends.onnx.coverage import coverage
    from forge.frontends.onnx.importer import model_operators
    from forge.frontends.onnx.registry import REGISTRY
    from forge.frontends.support import Support

    return Support(REGISTRY, coverage, model_operators)


FORMAT = Format(
    name="onnx", title="ONNX", suffixes=(".onnx",), load=from_onnx, support=_support, objects=("onnx:ModelProto",),
    # a message whose first field is a small version, and whose next is the producer, its version, the domain, ... or the graph
    magic=(Magic(head=rb"\x08[\x01-\x40](?:[\x12\x1a\x22\x32\x3a\x42]|\x28.)"),))
