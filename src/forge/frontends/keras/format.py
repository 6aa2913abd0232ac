"""The format Keras, and its loader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from forge.frontends.formats import Format, Magic

if TYPE_CHECKING:
    from forge.frontends.support import Support
    from forge.ir.graph import Module


def from_keras(
    model: str | bytes | PathLike[str] | Any,
    shape: Mapping[str, Sequence[Any]] | None = None,
    layout: str = "NCHW",
    *,
    weights: str | PathLike[str] | None = None,
) -> Module:
    """Loads a Keras model. Neither Keras nor a backend of it is needed for files.

    Args:
        model: a ``.keras`` file, a folder with its contents, a whole-model ``.h5`` file of Keras 2 or 3, the text of
            ``to_json``, bytes of any of these, or a model in memory; layers of that without a converter, and subclassed models,
            are traced by its backend.
        shape: shapes by names of inputs, where the model leaves sizes open. Entries are integers, None to keep, or texts: names
            of symbols, or expressions of them.
        layout: of images: "NCHW", channels first, or "NHWC", as most models have them. With "NCHW", inputs and outputs of rank 4
            and 5 of a model whose layers have channels last have them first in the module; layers compute in their own layout.
        weights: a ``.weights.h5`` file (or a whole-model one) whose weights are taken in the place of the model's.

    Raises:
        OptionError: an argument of the wrong kind; ImportModelError: the model cannot be read, is not valid, or contradicts an
        argument; OpNotImplemented: it has layers without a converter, all listed.
    """
    from forge.frontends.keras.loader import import_model
    from forge.frontends.keras.sources import is_object, read

    if is_object(model) and weights is None:
        from forge.frontends.keras.live import import_live

        return import_live(model, shape, layout)
    return import_model(read(model, weights), shape, layout)


def _support() -> Support:
    from forge.frontends.keras.coverage import coverage, model_operators
    from forge.frontends.keras.registry import REGISTRY
    from forge.frontends.support import Support

    return Support(REGISTRY, coverage, model_operators)


FORMAT = Format(
    name="keras", title="Keras", suffixes=(".keras", ".h5", ".hdf5"), load=from_keras, support=_support,
    objects=("keras.src.models.model:Model",),
    magic=(
        Magic(head=rb"\x89HDF\r\n\x1a\n"), Magic(entries=(b"metadata.json", b"config.json", b"model.weights.")),
        Magic(files=("metadata.json", "config.json", "model.weights.h5")),
        Magic(files=("metadata.json", "config.json", "model.weights.json"))))
