"""The format TFLite, and its loader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from forge.frontends.formats import Format, Magic

if TYPE_CHECKING:
    from forge.frontends.support import Support
    from forge.ir.graph import Module


def from_tflite(
    model: str | bytes | PathLike[str] | Any,
    shape_dict: Mapping[str, Sequence[Any]] | None = None,
    dtype_dict: Mapping[str, str] | None = None,
) -> Module:
    """Loads a TFLite model, float or quantized.

    Quantized tensors are integers in the module, as in the file: inputs and outputs have the file's types. Each signature of the
    model is a function; the first one is ``main``, and its names of inputs and outputs are those of the module.

    Args:
        model: the path of a file, its bytes, or a ``tflite.Model`` (``tflite.Model.Model`` of older packages).
        shape_dict: shapes by names of inputs, where the model leaves sizes open. Entries are integers, None to keep, or texts:
            names of symbols, or expressions of them.
        dtype_dict: element types by names of inputs, which must be those of the model.

    Raises:
        OptionError: an argument of the wrong kind; ImportModelError: the model cannot be read, is not valid, or contradicts an
        argument; OpNotImplemented: it has operators without a converter, all listed.
    """
    from forge.frontends.tflite.loader import import_model
    from forge.frontends.tflite.sources import read

    return import_model(read(model), shape_dict, dtype_dict)


def _support() -> Support:
    from forge.frontends.support import Support
    from forge.frontends.tflite.coverage import coverage, model_operators
    from forge.frontends.tflite.registry import REGISTRY

    return Support(REGISTRY, coverage, model_operators)


FORMAT = Format(
    name="tflite", title="TFLite", suffixes=(".tflite",), load=from_tflite, support=_support,
    objects=("tflite:Model", "tflite.Model:Model"), magic=(Magic(head=rb"(?s)....TFL3"),))
