"""Masks of results: which of their steps count, as Keras carries it from layer to layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from forge.frontends.keras.scope import Tensor, flat, mapped, masks_of, values_of
from forge.ir.nodes import Value

if TYPE_CHECKING:
    from forge.frontends.keras.context import Context

Rule = Callable[["Context", Sequence[Any], Any], Any]
"""The results of a layer with their masks, by its arguments and its results."""


def _first_mask(bound: Sequence[Any]) -> Value | None:
    found = flat(masks_of(bound[0])) if bound else []
    return found[0] if found else None


def _kept(g: Context, bound: Sequence[Any], found: Any) -> Any:
    """The mask of the input is that of the results."""
    masks = flat(masks_of(bound[0])) if bound else []
    masks += [None] * len(flat(found))
    following = iter(masks)
    return mapped(found, lambda value: Tensor(value, next(following)), Value)


def _merged(g: Context, bound: Sequence[Any], found: Any) -> Any:
    masks = flat(masks_of(bound[0]))
    if any(mask is None for mask in masks):
        return Tensor(found)
    total = masks[0]
    for mask in masks[1:]:
        total = g.call("logical_or", total, mask)
    return Tensor(found, total)


def _concatenated(g: Context, bound: Sequence[Any], found: Any) -> Any:
    values, masks = flat(values_of(bound[0])), flat(masks_of(bound[0]))
    if all(mask is None for mask in masks):
        return Tensor(found)
    axis = g.axis(int(g.layer.config.get("axis", -1)), found.rank)
    spread = []
    for value, mask in zip(values, masks):
        if mask is None:
            spread.append(g.full(value.shape, True, "bool"))
            continue
        while mask.rank < value.rank:
            mask = g.call("expand_dims", mask, axis=mask.rank)
        spread.append(g.broadcast(mask, value.shape))
    joined = g.call("concatenate", *spread, axis=axis)
    while joined.rank > 2:  # of the last axes, one that counts is enough, or all
        joined = g.call("any", joined, axis=(joined.rank - 1,))
    return Tensor(found, joined)


def _made(g: Context, bound: Sequence[Any], found: Any) -> Any:
    """Layers that make a mask give it beside their result."""
    value, mask = found
    return Tensor(value, mask)


def _of_sequence(g: Context, bound: Sequence[Any], found: Any) -> Any:
    """The mask of a recurrent layer: of its sequence, where it gives one."""
    mask = _first_mask(bound)
    if mask is None and len(bound) > 1:
        given = next((m for name, m in zip(("mask",), bound[1:]) if isinstance(m, Tensor) and m.value.dtype == "bool"), None)
        mask = None if given is None else given.value
    results = found if isinstance(found, list) else [found]
    config = g.layer.config
    inner = config.get("layer")
    if isinstance(inner, dict) and isinstance(inner.get("config"), dict):
        config = inner["config"]
    kept = mask if config.get("return_sequences") else None
    count = 2 if g.layer.class_name == "Bidirectional" and g.layer.config.get("merge_mode", "concat") is None else 1
    wrapped = [Tensor(value, kept if k < count else None) for k, value in enumerate(results)]
    return wrapped if isinstance(found, list) else wrapped[0]


def _of_query(g: Context, bound: Sequence[Any], found: Any) -> Any:
    mask = _first_mask(bound)
    results = [Tensor(value, mask if k == 0 else None) for k, value in enumerate(found if isinstance(found, list) else [found])]
    return results if isinstance(found, list) else results[0]


RULES: dict[str, Rule] = {
    **dict.fromkeys((
        "Dense", "Activation", "LeakyReLU", "PReLU", "ELU", "ReLU", "Softmax", "ThresholdedReLU", "LayerNormalization",
        "GroupNormalization", "BatchNormalization", "UnitNormalization", "Rescaling", "Normalization", "AlphaDropout",
        "GaussianDropout", "GaussianNoise", "ActivityRegularization", "Dropout", "Identity", "TimeDistributed",
        "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D"), _kept),
    **dict.fromkeys(("Add", "Subtract", "Average", "Maximum", "Minimum", "Multiply"), _merged),
    **dict.fromkeys(("MultiHeadAttention", "GroupQueryAttention", "GroupedQueryAttention", "Attention", "AdditiveAttention"),
        _of_query),
    **dict.fromkeys((
        "LSTM", "GRU", "SimpleRNN", "RNN", "Bidirectional", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"), _of_sequence),
    "Concatenate": _concatenated,
    "Masking": _made,
    "Embedding": _made,
    "ReversibleEmbedding": _made,
}
