"""The variables of Keras's layers, in the order in which Keras stores them.

A row is a name, or a path and a name: ``query_dense/kernel``. A name that ends with ``-`` is of a variable that is not trained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forge.frontends.keras.tree import Layer

Names = Sequence[str]


@dataclass(frozen=True)
class Variable:
    """A variable of a layer.

    Attributes:
        path: of what holds it, as Keras stores it.
        number: among the variables there.
    """

    name: str
    path: str
    number: int
    is_trainable: bool


def _biased(*names: str) -> Callable[[Mapping[str, Any]], Names]:
    return lambda config: (*names, "bias") if config.get("use_bias", True) else names


def _conv_lstm(config: Mapping[str, Any]) -> Names:
    return [f"cell/{name}" for name in _biased("kernel", "recurrent_kernel")(config)]


def _batch_norm(config: Mapping[str, Any]) -> Names:
    renorm = ("renorm_mean-", "renorm_stddev-") if config.get("renorm") else ()
    return (*_scaled(config), "moving_mean-", "moving_variance-", *renorm)


def _scaled(config: Mapping[str, Any]) -> Names:
    return [name for name, flag in (("gamma", "scale"), ("beta", "center")) if config.get(flag, True)]


def _layer_norm(config: Mapping[str, Any]) -> Names:
    return ["gamma"] if config.get("rms_scaling") else _scaled(config)


def _attention(config: Mapping[str, Any]) -> Names:
    own = ("kernel", "bias") if config.get("use_bias", True) else ("kernel",)
    gate = ("gate_dense",) if config.get("use_gate") else ()
    return [f"{part}/{name}" for part in ("query_dense", "key_dense", *gate, "value_dense", "output_dense") for name in own]


def _einsum_dense(config: Mapping[str, Any]) -> Names:
    return ("kernel",) if config.get("bias_axes") is None else ("kernel", "bias")


def _additive(config: Mapping[str, Any]) -> Names:
    return ("scale",) if config.get("use_scale", True) else ()


def _dot_attention(config: Mapping[str, Any]) -> Names:
    return (*(("scale",) if config.get("use_scale") else ()),
        *(("concat_score_weight",) if config.get("score_mode") == "concat" else ()))


def _normalization(config: Mapping[str, Any]) -> Names:
    return () if config.get("mean") is not None else ("mean-", "variance-", "count-")


def _transforms(config: Mapping[str, Any]) -> Names:
    return [f"{part}_kernel" for part in ("real", "imag") if config.get("mode") not in ({"real", "imag"} - {part})]


def _embedding(config: Mapping[str, Any]) -> Names:
    return ("embeddings",)


def _reversible(config: Mapping[str, Any]) -> Names:
    return ("embeddings",) if config.get("tie_weights", True) else ("embeddings", "reverse_embeddings")


VARIABLES: dict[str, Callable[[Mapping[str, Any]], Names]] = {
    **dict.fromkeys(("Dense", "Conv1D", "Conv2D", "Conv3D", "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"),
        _biased("kernel")),
    **dict.fromkeys(("Convolution1D", "Convolution2D", "Convolution3D"), _biased("kernel")),
    **dict.fromkeys(("DepthwiseConv1D", "DepthwiseConv2D"), _biased("kernel")),
    **dict.fromkeys(("SeparableConv1D", "SeparableConv2D"), _biased("depthwise_kernel", "pointwise_kernel")),
    **dict.fromkeys(("LSTMCell", "GRUCell", "SimpleRNNCell", "ConvLSTMCell"), _biased("kernel", "recurrent_kernel")),
    **dict.fromkeys(("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"), _conv_lstm),
    "EinsumDense": _einsum_dense,
    "Embedding": _embedding,
    "ReversibleEmbedding": _reversible,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "GroupNormalization": _scaled,
    "RMSNormalization": lambda config: ("scale",),
    "SpectralNormalization": lambda config: ("vector_u-",),
    "LayerScale": lambda config: ("gamma",),
    "PReLU": lambda config: ("alpha",),
    **dict.fromkeys(("MultiHeadAttention", "GroupQueryAttention", "GroupedQueryAttention"), _attention),
    "AdditiveAttention": _additive,
    "Attention": _dot_attention,
    "Normalization": _normalization,
    "STFTSpectrogram": _transforms,
}


def variables_of(layer: Layer) -> list[Variable]:
    """Those of a layer itself, without the layers in it."""
    names = VARIABLES.get(layer.class_name) if not layer.domain else None
    counts: dict[str, int] = {}
    found = []
    for name in names(layer.config) if names else ():
        inner = name.rpartition("/")[0]
        path = f"{layer.path}/{inner}".strip("/")
        found.append(Variable(name.rstrip("-"), path, counts.get(path, 0), not name.endswith("-")))
        counts[path] = counts.get(path, 0) + 1
    return found


def in_order(layer: Layer) -> list[tuple[Layer, Variable, bool]]:
    """All variables of a layer, in the order of ``layer.weights``, and whether they are trained."""
    found = [(layer, variable, variable.is_trainable and layer.is_trainable) for variable in variables_of(layer)]
    for child in layer.children.values():
        found += in_order(child)
    return found


def in_old_order(layer: Layer) -> list[tuple[Layer, Variable]]:
    """All variables of a layer, in the order of whole-model HDF5 files: those that are trained first."""
    found = in_order(layer)
    if not layer.is_trainable:
        return [(owner, variable) for owner, variable, _ in found]
    return [(owner, variable) for wanted in (True, False) for owner, variable, trained in found if trained == wanted]
