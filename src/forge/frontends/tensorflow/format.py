"""The format TensorFlow, and its loader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from forge.frontends.formats import Format, Magic

if TYPE_CHECKING:
    from forge.frontends.support import Support
    from forge.ir.graph import Module


def from_tensorflow(
    graph: str | bytes | PathLike[str] | Any,
    layout: str | None = None,
    shape: Mapping[str, Sequence[Any]] | None = None,
    outputs: Sequence[str] | None = None,
    convert_config: Mapping[str, bool] | None = None,
) -> Module:
    """Loads a program of TensorFlow.

    Each signature of a SavedModel is a function of the module, that to serve is ``main``; its names of inputs and outputs are the
    module's. Variables that a call writes are states, all others are constants.

    Args:
        graph: the path of a frozen graph (``.pb``, ``.pbtxt``) or of the folder of a SavedModel, bytes of either, a ``GraphDef``,
            a ``tf.Graph``, a concrete function, or what ``tf.saved_model.load`` gives. TensorFlow is needed for its objects only.
        layout: of images in convolutions and pools of the module: "NHWC", "NCHW", or None for the model's. Inputs and outputs
            are those of the model.
        shape: shapes by names of inputs, of all signatures, where the model leaves sizes open. Entries are integers, None to
            keep, or texts: names of symbols, or expressions of them. A node that has a shape here is an input, even where the
            graph computes it.
        outputs: names of nodes, ``name`` or ``name:i``, or of outputs of the signature; None for those of all signatures, or, of
            a graph without signatures, all outputs of its last node.
        convert_config: how to convert: ``use_dense`` (True): products with matrices of weights become ``nn.dense``;
            ``use_nt_batch_matmul`` (False): batched products take their right operand transposed.

    Raises:
        OptionError: an argument of the wrong kind; ImportModelError: the model cannot be read, is not valid, or contradicts an
        argument; OpNotImplemented: it has operators without a converter, all listed.
    """
    from forge.frontends.tensorflow.loader import import_model
    from forge.frontends.tensorflow.sources import read

    return import_model(read(graph), layout, shape, outputs, convert_config)


def _support() -> Support:
    from forge.frontends.support import Support
    from forge.frontends.tensorflow.coverage import coverage, model_operators
    from forge.frontends.tensorflow.registry import REGISTRY

    return Support(REGISTRY, coverage, model_operators)


FORMAT = Format(
    name="tensorflow", title="TensorFlow", suffixes=(".pb", ".pbtxt"), load=from_tensorflow, support=_support,
    objects=(
        "tensorflow:Graph", "tensorflow.core.framework.graph_pb2:GraphDef",
        "tensorflow.python.eager.polymorphic_function.concrete_function:ConcreteFunction"),
    magic=(Magic(files=("saved_model.pb",)), Magic(head=rb"\x08\x01\x12"), Magic(head=rb"\n.{1,6}\n[\w/.\-]+\x12.[A-Z]\w+")))
