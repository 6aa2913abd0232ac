"""Operators that move, select and measure: older forms of the standard's, and what has no equal there."""

from __future__ import annotations

import numpy as np

from forge import dims
from forge.compose.distances import differences
from forge.errors import option
from forge.frontends.converter import forwarding
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.elementwise.arithmetic import identity
from forge.frontends.onnx.converters.index.indexing import gather_nd
from forge.frontends.onnx.converters.microsoft import DOMAIN
from forge.frontends.onnx.converters.shape.full import range_11
from forge.frontends.onnx.converters.shape.full import trilu as onnx_trilu
from forge.frontends.onnx.converters.shape.pad import pad as onnx_pad
from forge.frontends.onnx.converters.shape.reshape import insert_axes
from forge.frontends.onnx.converters.vision.grid_sample import grid_sample_16
from forge.frontends.onnx.registry import converts
from forge.ops.core.term import Term

converts("SampleOp", domain=DOMAIN)(identity)  # an example
converts("GatherND", domain=DOMAIN, lacks=("batch_dims",))(gather_nd)
converts("GridSample", domain=DOMAIN)(grid_sample_16)
converts("Inverse", domain=DOMAIN)(forwarding("linalg.inverse"))


@converts("ExpandDims", domain=DOMAIN)
def expand_dims(g: Context, x: Value, axis: Value) -> Value:
    known = g.ints(axis)
    if known is None:
        return g.call("expand_dims", x, g.cast(g.call("reshape", axis, newshape=(1,)), "int64"), axis=None)
    return insert_axes(g, x, known)


@converts("Trilu", domain=DOMAIN)
def trilu(g: Context, x: Value, k: Value | None = None, *, upper: int = 1) -> Value:
    return onnx_trilu(g, x, None if k is None else g.reshape(k, ()), upper=upper)


@converts("Pad", domain=DOMAIN)
def pad(g: Context, x: Value, pads: Value, value: Value | None = None, *, mode: str = "constant") -> Value:
    """Pads are a vector, or a matrix of one row."""
    flat = pads if pads.rank == 1 else g.call("reshape", pads, newshape=(-1,))
    return onnx_pad(g, x, flat, value, mode=mode)


@converts("Range", domain=DOMAIN)
def arange(g: Context, start: Value, limit: Value, delta: Value | None = None) -> Value:
    return range_11(g, start, limit, g.scalar(1, start) if delta is None else delta)


@converts("Unique", domain=DOMAIN)
def unique(g: Context, x: Value) -> list[Value]:
    """Different elements in the order in which they are met; for each element, which of them it is; how often each is there."""
    values, _, places, counts = g.multi("unique", x, axis=0, sorted=False)
    return [values, places, counts]


@converts("CropAndResize", domain=DOMAIN)
def crop_and_resize(
    g: Context, x: Value, rois: Value, batch_indices: Value, crop_size: Value,
    *, extrapolation_value: float = 0.0, mode: str = "bilinear",
) -> Value:
    if mode not in ("bilinear", "nearest"):
        raise g.invalid(f"attribute 'mode': got {mode!r}; expected 'bilinear' or 'nearest'")
    size = g.required_ints(crop_size, "crop_size")
    if len(size) != 2:
        raise g.invalid(f"crop_size: got {len(size)} numbers; expected 2")
    return g.call(
        "image.crop_and_resize", x, rois, batch_indices, crop_size=size, layout="NCHW",
        method="bilinear" if mode == "bilinear" else "nearest_neighbor", extrapolation_value=extrapolation_value,
    )


@converts("UnfoldTensor", domain=DOMAIN)
def unfold(g: Context, x: Value, *, dim: int = -1, size: int, step: int = 1) -> Value:
    """Windows of an axis; their elements are one more axis, the last."""
    axis = g.axis(dim, x.rank, "attribute 'dim'")
    extent = x.shape[axis]
    if size < 1 or step < 1 or isinstance(extent, int) and size > extent:
        raise g.invalid(f"attributes: got size {size} and step {step}; expected 1 to {extent}, and 1 or more")
    return g.call("sliding_window", x, axis=axis, window_shape=(size,), strides=(step,))


@converts("TorchEmbedding", domain=DOMAIN)
def torch_embedding(
    g: Context, weight: Value, indices: Value, padding_idx: Value | None = None, scale_grad_by_freq: Value | None = None
) -> Value:
    """What is given about padding and gradients concerns training only."""
    return g.call("take", weight, indices, axis=0, mode="clip")


@converts("IsAllFinite", domain=DOMAIN)
def is_all_finite(g: Context, *values: Value, isinf_only: int = 0, isnan_only: int = 0) -> Value:
    """Whether no element is infinite or NaN; with one of the attributes, whether none is what it names."""
    if isinf_only and isnan_only:
        raise g.invalid("attributes: got isinf_only and isnan_only; expected one of them at most")
    op = "isinf" if isinf_only else "isnan" if isnan_only else "isfinite"
    result = g.constant(True)
    for x in values:
        axes = tuple(range(x.rank))
        found = g.call(op, x)
        fine = g.call("all", found, axis=axes, keepdims=False) if op == "isfinite" else _none(g, found, axes)
        result = g.call("logical_and", result, fine)
    return result


def _none(g: Context, condition: Value, axes: tuple[int, ...]) -> Value:
    return g.call("logical_not", g.call("any", condition, axis=axes, keepdims=False))


@converts("CDist", domain=DOMAIN)
def distances(g: Context, a: Value, b: Value, *, metric: str = "sqeuclidean") -> Value:
    """Of each row of ``a`` from each of ``b``."""
    if metric not in ("sqeuclidean", "euclidean"):
        raise g.unsupported(f"attribute 'metric': got {metric!r}; supported: 'sqeuclidean', 'euclidean'")
    if a.rank != 2 or b.rank != 2:
        raise g.invalid(f"got ranks {a.rank} and {b.rank}; expected matrices")
    difference = Term(g, differences(g, a, b))
    total = g.call("sum", (difference * difference).value, axis=(2,), keepdims=False)
    return total if metric == "sqeuclidean" else g.call("sqrt", total)


@converts("NGramRepeatBlock", domain=DOMAIN)
def block_repeated_ngrams(g: Context, ids: Value, scores: Value, *, ngram_size: int) -> Value:
    """Scores with minus infinity for each token that would complete n tokens which the sequence has already."""
    length = ids.shape[1]
    if ngram_size < 1:
        raise g.invalid(f"attribute 'ngram_size': got {ngram_size}; expected 1 or more")
    if not isinstance(length, int):
        raise g.unsupported(f"input_ids: got {ids.type}; expected a known length; fix it with {option('shape=')}")
    count = length - ngram_size + 1
    if count < 1:
        return scores

    def tokens(begin: int, size: int) -> Value:
        return g.call("strided_slice", ids, begin=(begin,), end=(begin + size,), strides=(1,), axes=(1,))

    repeated = g.call("equal", tokens(0, count), tokens(0, count))
    for place in range(ngram_size - 1):
        repeated = g.call("logical_and", repeated, g.call("equal", tokens(place, count), tokens(count + place, 1)))
    lowest = g.call("where", repeated, g.scalar(-np.inf, scores), g.scalar(np.inf, scores))
    return g.call("scatter_elements", scores, tokens(ngram_size - 1, count), lowest, axis=1, reduction="min")


@converts("RelativePositionBias", domain=DOMAIN)
def relative_position_bias(
    g: Context, table: Value, query_length: Value, key_length: Value, *, is_bidirectional: int = 0, max_distance: int
) -> Value:
    """``[1, H, L, S]``: rows of a table ``[buckets, H]`` by the distance between query and key (Raffel et al., "T5", 2019).

    Half of the buckets are single distances, the others grow with the logarithm up to ``max_distance``; bidirectional ones are
    shared by both directions.
    """
    buckets = table.shape[0]
    if not isinstance(buckets, int):
        raise g.unsupported(f"bias_table: got {table.type}; expected a known number of buckets; fix it with {option('shape=')}")
    lengths = [g.cast(g.reshape(v, ()), "int64") for v in (query_length, key_length)]
    known = [g.dims(v) for v in (query_length, key_length)]
    rows, columns = (g.count(v, None if k is None else k[0]) for v, k in zip(lengths, known))
    relative = Term(g, g.reshape(columns, (1, columns.shape[0]))) - Term(g, g.reshape(rows, (rows.shape[0], 1)))
    count, first = buckets, relative * 0
    if is_bidirectional:
        count //= 2
        first = (relative > 0).where(count, relative * 0)
        distance = abs(relative)
    else:
        distance = (0 - relative).maximum(0)
    exact = count // 2
    ratio = Term(g, g.call("log", (distance.maximum(1).cast("float32") / exact).value)) / float(np.log(max_distance / exact))
    far = ((ratio * (count - exact)).cast("int64") + exact).minimum(count - 1)
    bucket = first + (distance < exact).where(distance, far)
    rows_of_table = g.call("take", table, bucket.value, axis=0, mode="clip")
    return g.call("expand_dims", g.call("transpose", rows_of_table, axes=(2, 0, 1)), axis=0)


@converts("GemmaRotaryEmbedding", domain=DOMAIN)
def gemma_rotary(g: Context, angles: Value, q: Value, q_rot: Value, k: Value, k_rot: Value) -> list[Value]:
    """``q * cos + q_rot * sin`` and the same of k, for angles ``[B, L, D]`` and heads ``[B, H, L, D]``."""
    wide = g.reshape(angles, (angles.shape[0], 1, *angles.shape[1:]))
    cosine, sine = (Term(g, g.cast(g.call(op, wide), q.dtype)) for op in ("cos", "sin"))
    return [(Term(g, x) * cosine + Term(g, turned) * sine).value for x, turned in ((q, q_rot), (k, k_rot))]


@converts("ComplexMul", domain=DOMAIN)
def complex_product(g: Context, a: Value, b: Value) -> Value:
    return _complex_product(g, a, b, conjugated=False)


@converts("ComplexMulConj", domain=DOMAIN)
def product_with_conjugate(g: Context, a: Value, b: Value) -> Value:
    return _complex_product(g, a, b, conjugated=True)


def _complex_product(g: Context, a: Value, b: Value, *, conjugated: bool) -> Value:
    """Numbers are pairs of a real and an imaginary part along the last axis; ``conjugated``: with the conjugate of ``b``."""
    if any(v.rank < 1 or dims.different(v.shape[-1], 2) for v in (a, b)):
        raise g.invalid(f"got {a.type} and {b.type}; expected a last axis of 2")
    (x, y), (u, v) = ([Term(g, part) for part in g.multi("split", c, indices_or_sections=2, axis=c.rank - 1)] for c in (a, b))
    if conjugated:
        v = v * -1
    parts = [(x * u - y * v).value, (x * v + y * u).value]
    return g.call("concatenate", *parts, axis=parts[0].rank - 1)


@converts("GatedAdd", domain=DOMAIN)
def gated_add(g: Context, x: Value, y: Value, gate: Value, gate_weight: Value | None = None) -> Value:
    """``x + gate * y``; the gate is one number for each row."""
    if gate_weight is not None:
        raise g.unsupported("gate_weight: got a projection of the gate; supported: none; compute the gate before the node")
    if gate.rank != x.rank or dims.different(gate.shape[-1], 1):
        raise g.invalid(f"gate: got {gate.type}; expected rank {x.rank} and a last axis of 1")
    return (Term(g, x) + Term(g, gate) * Term(g, y)).value
