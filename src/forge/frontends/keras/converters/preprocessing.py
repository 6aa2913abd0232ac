"""Preprocessing that is arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge import dtypes
from forge.compose import lookup
from forge.dims import Dim
from forge.frontends.keras.context import Context
from forge.frontends.keras.converters.convolutions import is_first
from forge.frontends.keras.converters.images import fitted
from forge.frontends.keras.converters.ops_nn import encoded
from forge.frontends.keras.registry import converts, refuse
from forge.ir.nodes import Value


def numbers(g: Context, given: Any, what: str) -> np.ndarray:
    """Numbers of a configuration, which may be serialized as an array."""
    inner = given.get("config", {}).get("value") if isinstance(given, dict) else given
    found = np.asarray(inner)
    if found.dtype.kind not in "biuf":
        raise g.invalid(f"{what}: got {str(given)[:80]}; expected numbers")
    return found


@converts("Rescaling")
def rescaling(g: Context, x: Value, *, scale: Any, offset: Any = None) -> Value:
    data = g.cast(x, g.layer.policy.compute)
    factor, more = numbers(g, scale, "scale"), numbers(g, 0.0 if offset is None else offset, "offset")
    scaled = g.call("multiply", data, g.constant(factor, data.dtype))
    return scaled if not more.any() else g.call("add", scaled, g.constant(more, data.dtype))


@converts("AutoContrast")
def auto_contrast(g: Context, x: Value, *, value_range: Any = (0, 255), data_format: Any = None) -> Value:
    """Each channel of an image fills the range; one that has the same number everywhere stays."""
    low, high = (float(end) for end in numbers(g, value_range, "value_range"))
    data = g.cast(x, g.layer.policy.compute)
    least, most = (g.call(op, data, axis=(1, 2), keepdims=True) for op in ("min", "max"))
    spread = g.call("subtract", most, least)
    share = g.call("divide", g.call("subtract", data, least), spread)
    stretched = g.call("add", g.call("multiply", share, g.scalar(high - low, data)), g.scalar(low, data))
    return g.call("where", g.call("equal", most, least), data, g.call("clip", stretched, a_min=low, a_max=high))


@converts("Normalization")
def normalization(
    g: Context, x: Value, *, axis: Any = None, mean: Any = None, variance: Any = None, invert: bool = False
) -> Value:
    data = g.cast(x, g.layer.policy.compute)
    kept = () if axis is None else axis if isinstance(axis, tuple) else (axis,)
    places = [g.axis(a, data.rank) for a in kept]
    shape: list[Dim] = [data.shape[k] if k in places else 1 for k in range(data.rank)]
    given = (mean, variance)
    average, spread = (
        _statistic(g, name, given[k], shape, data.dtype) for k, name in enumerate(("mean", "variance")))
    root = g.call("maximum", g.call("sqrt", spread), g.scalar(1e-7, spread))
    if invert:
        return g.call("add", average, g.call("multiply", data, root))
    return g.call("divide", g.call("subtract", data, average), root)


def _statistic(g: Context, name: str, given: Any, shape: list[Dim], dtype: str) -> Value:
    if given is None:
        return g.reshape(g.weight(name, dtype=dtype), shape)
    found = g.constant(numbers(g, given, name), dtype)
    wanted = g.constant(np.ones([s if isinstance(s, int) else 1 for s in shape]), dtype)
    return g.call("multiply", found, wanted) if found.rank <= 1 and found.shape in ((), (1,)) else g.reshape(found, shape)


@converts("Discretization")
def discretization(
    g: Context, x: Value, *, bin_boundaries: Any = None, num_bins: Any = None, epsilon: float = 0.01, output_mode: str = "int"
) -> Value:
    if bin_boundaries is None:
        raise g.invalid("bin_boundaries: got None; adapt the layer before the model is saved")
    edges = numbers(g, bin_boundaries, "bin_boundaries")
    data = g.cast(x, "float32") if not dtypes.is_float(x.dtype) else x
    places = g.call("searchsorted", g.constant(edges, data.dtype), data, right=True, dtype="int32")
    return categories(g, places, output_mode, len(edges) + 1)


def categories(g: Context, indices: Value, mode: str, depth: int, weights: Value | None = None) -> Value:
    """Indices as they are, or as rows that count them, as preprocessing layers encode them.

    Raises:
        OpAttributeInvalid: there is no such mode.
    """
    if mode == "int":
        return indices if dtypes.is_integer(indices.dtype) else g.cast(indices, "int32")
    dtype = g.layer.policy.compute if dtypes.is_float(g.layer.policy.compute) else "float32"
    if mode == "one_hot":
        if indices.rank and indices.shape[-1] != 1 or not indices.rank:
            indices = g.call("expand_dims", indices, axis=indices.rank)
        return encoded(g, g.call("squeeze", indices, axis=(indices.rank - 1,)), depth, -1, dtype)
    if mode not in ("multi_hot", "count"):
        raise g.invalid(f"output_mode: got {mode!r}; expected int, one_hot, multi_hot or count")
    hot = encoded(g, indices, depth, -1, dtype)
    if weights is not None:
        hot = g.call("multiply", hot, g.call("expand_dims", g.cast(weights, dtype), axis=weights.rank))
    if indices.rank < 1:
        return hot
    return g.call("sum" if mode == "count" else "max", hot, axis=(1 if indices.rank > 1 else 0,))


@converts("CategoryEncoding")
def category_encoding(
    g: Context, x: Value, count_weights: Value | None = None, *, num_tokens: int, output_mode: str = "multi_hot"
) -> Value:
    return categories(g, g.cast(x, "int32"), output_mode, num_tokens, count_weights)


@converts("IntegerLookup")
def integer_lookup(
    g: Context, x: Value, *, vocabulary: Any = None, max_tokens: Any = None, num_oov_indices: int = 1, mask_token: Any = None,
    oov_token: Any = None, output_mode: str = "int", invert: bool = False, vocabulary_dtype: Any = None, idf_weights: Any = None,
    pad_to_max_tokens: bool = False, vocabulary_size: Any = None, encoding: Any = None,
) -> Value:
    if invert or idf_weights is not None or output_mode == "tf_idf" or num_oov_indices > 1:
        raise g.unsupported("got invert, tf_idf, or several indices out of the vocabulary; supported: one or none")
    if vocabulary is None:
        raise g.invalid("vocabulary: got None; adapt the layer before the model is saved")
    words = np.asarray(vocabulary)
    if words.dtype.kind not in "iu" or words.ndim != 1:
        raise g.invalid(f"vocabulary: got {str(vocabulary)[:80]}; expected integers")
    first = num_oov_indices + (mask_token is not None and output_mode == "int")
    keys, found = words.astype(np.int64), np.arange(first, first + len(words), dtype=np.int64)
    if mask_token is not None and output_mode == "int":
        keys, found = np.append(keys, int(mask_token)), np.append(found, 0)
    missing = first - 1 if num_oov_indices else -1
    order = np.argsort(keys)
    places = lookup.mapped(g, g.cast(x, "int64"), keys[order], found[order], missing)
    return categories(g, places, output_mode, int(max_tokens) if pad_to_max_tokens and max_tokens else len(words) + first)


@converts("CenterCrop")
def center_crop(g: Context, x: Value, *, height: int, width: int, data_format: Any = None) -> Value:
    data = g.cast(x, g.layer.policy.compute)
    first = is_first(g, data_format)
    axes = (data.rank - 2, data.rank - 1) if first else (data.rank - 3, data.rank - 2)
    sizes = [data.shape[axis] for axis in axes]
    if not all(isinstance(size, int) for size in sizes):
        raise g.unsupported(f"got {data.type}; expected known sizes of images")
    if any(size < wanted for size, wanted in zip(sizes, (height, width))):
        return fitted(g, data, (height, width), first, "bilinear", crops=True)
    starts = [(size - wanted) // 2 for size, wanted in zip(sizes, (height, width))]
    ends = [start + wanted for start, wanted in zip(starts, (height, width))]
    return g.call("strided_slice", data, begin=tuple(starts), end=tuple(ends), strides=(1, 1), axes=axes)


@converts("Resizing")
def resizing(
    g: Context, x: Value, *, height: int, width: int, interpolation: str = "bilinear", crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False, fill_mode: str = "constant", fill_value: float = 0.0, antialias: bool = False,
    data_format: Any = None,
) -> Value:
    if antialias:
        raise g.unsupported("antialias: got True; supported: False")
    data = g.cast(x, g.layer.policy.compute)
    return fitted(
        g, data, (height, width), is_first(g, data_format), interpolation, crops=crop_to_aspect_ratio, pads=pad_to_aspect_ratio,
        fill=fill_value)


@converts("Pipeline")
def pipeline(g: Context, x: Any, training: bool | None = None, *, layers: Any) -> Any:
    for layer in g.layer.children.values():
        x = g.run(layer, x)
    return x


_HASHES = "it hashes by SipHash or FarmHash of texts, which the program around the model does; give it the indices"
refuse("Hashing", _HASHES)
refuse("HashedCrossing", _HASHES)
