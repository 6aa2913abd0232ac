"""Convolutions, pooling, normalizations, attention, resizing and sampling of ``forge.nn`` against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forge import nn
from forge.dtypes import numpy_dtype
from tests.nn.function_cases import (
    Case,
    attention,
    bools,
    case,
    check,
    convolution,
    function_of,
    normal,
    normalized,
    padded,
    pooled,
    transposed_convolution,
    uniform,
)
from tests.nn.test_functions_elementwise import CASES as ELEMENTWISE
from tests.nn.test_functions_shapes import CASES as SHAPES

LINE, IMAGE, VOLUME = normal(2, 4, 11), normal(2, 4, 9, 7), normal(2, 4, 5, 6, 7)


def channelled(bias: np.ndarray, rank: int) -> np.ndarray:
    return bias.reshape(-1, *(1,) * rank)


CONVOLUTIONS: dict[str, Case] = {
    "conv1d": case(nn.conv1d, convolution, LINE, normal(6, 4, 3), fixed=[3, 4, 6]),
    "conv1d/all": case(
        lambda x, w, b: nn.conv1d(x, w, b, 2, 3, 2, 2),
        lambda x, w, b: convolution(padded(x, 3), w, 2, 2, 2) + channelled(b, 1), LINE, normal(6, 2, 3), normal(6),
        fixed=[2, 3, 4, 6]),
    "conv1d/same": case(
        lambda x, w: nn.conv1d(x, w, padding="same"), lambda x, w: convolution(np.pad(x, [(0, 0), (0, 0), (1, 2)]), w), LINE,
        normal(6, 4, 4), fixed=[4, 6]),
    "conv1d/valid": case(lambda x, w: nn.conv1d(x, w, padding="VALID"), convolution, LINE, normal(6, 4, 3), fixed=[3, 4, 6]),
    "conv1d/before_and_after": case(
        lambda x, w: nn.conv1d(x, w, padding=(2, 0)), lambda x, w: convolution(np.pad(x, [(0, 0), (0, 0), (2, 0)]), w), LINE,
        normal(6, 4, 3), fixed=[3, 4, 6]),
    "conv1d/nothing_given": case(
        lambda x, w: nn.conv1d(x, w, None, None, None, None, None), convolution, LINE, normal(6, 4, 3), fixed=[3, 4, 6]),
    "conv2d": case(
        lambda x, w, b: nn.conv2d(x, w, b, 2, 1), lambda x, w, b: convolution(padded(x, 1, 1), w, 2) + channelled(b, 2), IMAGE,
        normal(6, 4, 3, 3), normal(6), fixed=[3, 4, 6]),
    "conv2d/depthwise": case(
        lambda x, w: nn.conv2d(x, w, padding=(1, 2), groups=4), lambda x, w: convolution(padded(x, 1, 2), w, groups=4), IMAGE,
        normal(8, 1, 3, 5), fixed=[3, 4, 5, 8]),
    "conv2d/channels_last": case(
        lambda x, w, b: nn.conv2d(x, w, b, data_layout="NHWC"),
        lambda x, w, b: np.moveaxis(convolution(np.moveaxis(x, -1, 1), w), 1, -1) + b, normal(2, 9, 7, 4), normal(6, 4, 3, 3),
        normal(6), fixed=[3, 4, 6]),
    "conv2d/four_paddings": case(
        lambda x, w: nn.conv2d(x, w, padding=(1, 0, 2, 3)),
        lambda x, w: convolution(np.pad(x, [(0, 0), (0, 0), (1, 2), (0, 3)]), w), IMAGE, normal(6, 4, 3, 3), fixed=[3, 4, 6]),
    "conv3d": case(
        lambda x, w, b: nn.conv3d(x, w, b, padding=1, groups=2),
        lambda x, w, b: convolution(padded(x, 1, 1, 1), w, groups=2) + channelled(b, 3), VOLUME, normal(6, 2, 3, 3, 3), normal(6),
        fixed=[2, 3, 4, 6]),
    "conv3d/channels_last": case(
        lambda x, w: nn.conv3d(x, w, data_layout="NDHWC"),
        lambda x, w: np.moveaxis(convolution(np.moveaxis(x, -1, 1), w), 1, -1), normal(1, 5, 6, 7, 4), normal(2, 4, 1, 2, 3),
        fixed=[1, 2, 3, 4]),
    "conv1d_transpose": case(nn.conv1d_transpose, transposed_convolution, LINE, normal(4, 6, 3), fixed=[3, 4, 6]),
    "conv1d_transpose/all": case(
        lambda x, w, b: nn.conv1d_transpose(x, w, b, 3, 1, 2, 2, 2),
        lambda x, w, b: transposed_convolution(x, w, 3, 1, 2, 2, 2) + channelled(b, 1), LINE, normal(4, 3, 4), normal(6),
        fixed=[3, 4, 6]),
    "conv2d_transpose": case(
        lambda x, w, b: nn.conv2d_transpose(x, w, b, 2, 1, 1),
        lambda x, w, b: transposed_convolution(x, w, 2, 1, 1) + channelled(b, 2), IMAGE, normal(4, 6, 3, 3), normal(6),
        fixed=[3, 4, 6]),
    "conv3d_transpose": case(
        lambda x, w: nn.conv3d_transpose(x, w, stride=2, groups=4), lambda x, w: transposed_convolution(x, w, 2, groups=4),
        VOLUME, normal(4, 2, 2, 3, 2), fixed=[2, 3, 4]),
}  # fmt: skip


def thirds(size: int) -> list[tuple[int, int]]:
    """Three windows that divide an axis."""
    return [(k * size // 3, -(-(k + 1) * size // 3)) for k in range(3)]


POOLING: dict[str, Case] = {
    "max_pool1d": case(
        lambda x: nn.max_pool1d(x, 3, 2, 1), lambda x: pooled(padded(x, 1, value=-np.inf), [3], 2, np.max), LINE, exact=True),
    "max_pool1d/dilation": case(
        lambda x: nn.max_pool1d(x, 2, 1, dilation=3), lambda x: np.maximum(x[..., :-3], x[..., 3:]), LINE, exact=True),
    "max_pool2d": case(lambda x: nn.max_pool2d(x, (2, 3), 2), lambda x: pooled(x, [2, 3], 2, np.max), IMAGE, exact=True),
    "max_pool2d/ceil": case(
        lambda x: nn.max_pool2d(x, 2, ceil_mode=True),
        lambda x: pooled(np.pad(x, [(0, 0), (0, 0), (0, 1), (0, 1)], constant_values=-np.inf), [2, 2], 2, np.max), IMAGE,
        exact=True),
    "max_pool3d": case(lambda x: nn.max_pool3d(x, 2), lambda x: pooled(x, [2, 2, 2], 2, np.max), VOLUME, exact=True),
    "avg_pool1d": case(lambda x: nn.avg_pool1d(x, 3, 2, 1), lambda x: pooled(padded(x, 1), [3], 2, np.mean), LINE),
    "avg_pool1d/without_padding": case(
        lambda x: nn.avg_pool1d(x, 3, 2, 1, count_include_pad=False),
        lambda x: pooled(padded(x, 1), [3], 2, np.sum) / pooled(padded(np.ones_like(x), 1), [3], 2, np.sum), LINE),
    "avg_pool2d": case(lambda x: nn.avg_pool2d(x, 2), lambda x: pooled(x, [2, 2], 2, np.mean), IMAGE),
    "avg_pool3d": case(lambda x: nn.avg_pool3d(x, (1, 2, 3), 1), lambda x: pooled(x, [1, 2, 3], 1, np.mean), VOLUME),
    "adaptive_avg_pool1d": case(
        lambda x: nn.adaptive_avg_pool1d(x, 3),
        lambda x: np.stack([x[..., a:b].mean(-1) for a, b in thirds(x.shape[2])], -1), LINE),
    "adaptive_avg_pool2d": case(
        lambda x: nn.adaptive_avg_pool2d(x, 1), lambda x: x.mean((2, 3), keepdims=True), IMAGE),
    "adaptive_max_pool1d": case(
        lambda x: nn.adaptive_max_pool1d(x, 3),
        lambda x: np.stack([x[..., a:b].max(-1) for a, b in thirds(x.shape[2])], -1), LINE, exact=True),
    "adaptive_max_pool2d": case(
        lambda x: nn.adaptive_max_pool2d(x, 1), lambda x: x.max((2, 3), keepdims=True), IMAGE, exact=True),
}  # fmt: skip
SCALE, SHIFT = uniform(4), normal(4)


def groups_normalized(x: np.ndarray, groups: int) -> np.ndarray:
    parts = x.reshape(x.shape[0], groups, -1)
    return normalized(parts, (2,)).reshape(x.shape)


def root_mean_square(x: np.ndarray, axes: Any, eps: float = 1e-5) -> np.ndarray:
    return np.asarray(x / np.sqrt((x * x).mean(axes, keepdims=True) + eps))


NORMALIZATIONS: dict[str, Case] = {
    "layer_norm": case(
        lambda x, w, b: nn.layer_norm(x, 7, w, b), lambda x, w, b: normalized(x, (3,)) * w + b, IMAGE, uniform(7), normal(7),
        fixed=[7]),
    "layer_norm/axes": case(
        lambda x, w: nn.layer_norm(x, [9, 7], w, None, 1e-3), lambda x, w: normalized(x, (2, 3), 1e-3) * w, IMAGE, uniform(9, 7),
        fixed=[7, 9]),
    "layer_norm/plain": case(lambda x: nn.layer_norm(x, [x.shape[3]]), lambda x: normalized(x, (3,)), IMAGE),
    "layer_norm/bias": case(
        lambda x, b: nn.layer_norm(x, 7, bias=b), lambda x, b: normalized(x, (3,)) + b, IMAGE, normal(7), fixed=[7]),
    "rms_norm": case(lambda x, w: nn.rms_norm(x, w, -1), lambda x, w: root_mean_square(x, 3) * w, IMAGE, uniform(7)),
    "rms_norm/axes": case(
        lambda x, w: nn.rms_norm(x, w, [2, 3], 1e-3), lambda x, w: root_mean_square(x, (2, 3), 1e-3) * w, IMAGE, uniform(9, 7)),
    "rms_norm/middle": case(
        lambda x, w: nn.rms_norm(x, w, [1]), lambda x, w: root_mean_square(x, 1) * channelled(w, 2), IMAGE, SCALE),
    "rms_norm/plain": case(lambda x: nn.rms_norm(x, None, -1), lambda x: root_mean_square(x, -1), IMAGE),
    "rms_norm/half": case(
        lambda x, w: nn.rms_norm(x, w, -1),
        lambda x, w: (root_mean_square(x.astype(np.float32), -1) * w.astype(np.float32)).astype(np.float16),
        normal(3, 7, dtype="float16"), uniform(7, dtype="float16")),
    "group_norm": case(
        lambda x, w, b: nn.group_norm(x, 2, w, b),
        lambda x, w, b: groups_normalized(x, 2) * channelled(w, 2) + channelled(b, 2), IMAGE, SCALE, SHIFT, fixed=[4]),
    "group_norm/plain": case(lambda x: nn.group_norm(x, 4, None, None), lambda x: groups_normalized(x, 4), IMAGE, fixed=[4]),
    "group_norm/channels_last": case(
        lambda x, w, b: nn.group_norm(x, 2, w, b, channel_axis=-1),
        lambda x, w, b: np.moveaxis(groups_normalized(np.moveaxis(x, -1, 1), 2), 1, -1) * w + b, normal(2, 9, 7, 4), SCALE, SHIFT,
        fixed=[4]),
    "group_norm/one_axis": case(
        lambda x, w, b: nn.group_norm(x, 2, w, b, axes=[3]),
        lambda x, w, b: normalized(x.reshape(-1, 2, 2, *x.shape[2:]), (2, 4)).reshape(x.shape) * channelled(w, 2)
        + channelled(b, 2), IMAGE, SCALE, SHIFT, fixed=[4]),
    "batch_norm": case(
        nn.batch_norm,
        lambda x, m, v, w, b: (x - channelled(m, 2)) / np.sqrt(channelled(v, 2) + 1e-5) * channelled(w, 2)
        + channelled(b, 2), IMAGE, SHIFT, SCALE + 1, SCALE, SHIFT + 1),
    "batch_norm/plain": case(
        nn.batch_norm, lambda x, m, v: (x - m) / np.sqrt(v + 1e-5), normal(3, 4), SHIFT, SCALE),
    "instance_norm": case(
        nn.instance_norm, lambda x, w, b: normalized(x, (2, 3)) * channelled(w, 2) + channelled(b, 2), IMAGE, SCALE, SHIFT),
    "instance_norm/plain": case(nn.instance_norm, lambda x: normalized(x, (2,)), LINE),
}  # fmt: skip

QUERY, KEY, VALUE = normal(2, 5, 6, 8), normal(2, 7, 6, 8, seed=1), normal(2, 7, 6, 3, seed=2)
SHARED_KEY, SHARED_VALUE = normal(2, 7, 3, 8), normal(2, 7, 3, 3)
SEEN = bools(5, 7) | (np.arange(7) == 0)


def seen(query: np.ndarray, key: np.ndarray, before: int) -> np.ndarray:
    return np.tri(query.shape[1], key.shape[1], before, dtype=bool)


attend = nn.scaled_dot_product_attention

ATTENTION: dict[str, Case] = {
    "scaled_dot_product_attention": case(attend, attention, QUERY, KEY, VALUE),
    "scaled_dot_product_attention/scale": case(
        lambda q, k, v: attend(q, k, v, scale=0.3), lambda q, k, v: attention(q, k, v, scale=0.3), QUERY, KEY, VALUE),
    "scaled_dot_product_attention/mask": case(attend, attention, QUERY, KEY, VALUE, SEEN),
    "scaled_dot_product_attention/added": case(attend, attention, QUERY, KEY, VALUE, normal(2, 1, 5, 7)),
    "scaled_dot_product_attention/causal": case(
        lambda q, k, v: attend(q, k, v, is_causal=True), lambda q, k, v: attention(q, k, v, seen(q, k, 0)), QUERY, KEY,
        VALUE),
    "scaled_dot_product_attention/grouped": case(
        attend, attention, QUERY, SHARED_KEY, SHARED_VALUE, fixed=[3, 6]),
    "scaled_dot_product_attention/one_group": case(
        attend, attention, QUERY, normal(2, 7, 1, 8), normal(2, 7, 1, 3), SEEN),
    "scaled_dot_product_attention/grouped_mask": case(
        attend, attention, QUERY, SHARED_KEY, SHARED_VALUE, bools(2, 6, 5, 7) | (np.arange(7) == 0), fixed=[3, 6]),
    "scaled_dot_product_attention/last_tokens": case(
        lambda q, k, v: attend(q, k, v, nn.causal_mask(q.shape[1], k.shape[1])),
        lambda q, k, v: attention(q, k, v, seen(q, k, k.shape[1] - q.shape[1])), QUERY, KEY, VALUE),
}  # fmt: skip


def nearest(x: np.ndarray, *sizes: int) -> np.ndarray:
    for axis, size in enumerate(sizes, 2):
        x = np.take(x, np.arange(size) * x.shape[axis] // size, axis)
    return x


def linear(x: np.ndarray, size: int, axis: int) -> np.ndarray:
    """Along one axis, between centres of elements."""
    places = np.clip((np.arange(size) + 0.5) * x.shape[axis] / size - 0.5, 0, x.shape[axis] - 1)
    low = np.floor(places).astype(int)
    share = (places - low).reshape(-1, *(1,) * (x.ndim - axis - 1)).astype(x.dtype)
    high = np.minimum(low + 1, x.shape[axis] - 1)
    return np.asarray(np.take(x, low, axis) * (1 - share) + np.take(x, high, axis) * share)


RESIZING: dict[str, Case] = {
    "interpolate": case(lambda x: nn.interpolate(x, (18, 5)), lambda x: nearest(x, 18, 5), IMAGE, exact=True),
    "interpolate/scale": case(
        lambda x: nn.interpolate(x, scale_factor=2), lambda x: x.repeat(2, 2).repeat(2, 3), IMAGE, exact=True),
    "interpolate/bilinear": case(
        lambda x: nn.interpolate(x, (12, 10), mode="bilinear"), lambda x: linear(linear(x, 12, 2), 10, 3), IMAGE),
    "interpolate/sizes": case(
        lambda x: nn.interpolate(x, (x.shape[3], x.shape[2]), mode="bilinear"),
        lambda x: linear(linear(x, x.shape[3], 2), x.shape[2], 3), IMAGE),
    "interpolate/channels_last": case(
        lambda x: nn.interpolate(x, 11, mode="linear", data_layout="NWC"), lambda x: linear(x, 11, 1), normal(2, 5, 3)),
}  # fmt: skip

PROB = np.array([[0.2, 0.3, 0.5], [0.3, 0.4, 0.3]], np.float32)
SAMPLE = np.array([[0.4], [0.9]], np.float32)
ROW = np.array([[0], [1]], np.int64)
ORDERED, WORDS = np.array([[0.5, 0.4, 0.1], [0.4, 0.3, 0.3]], np.float32), np.array([[2, 1, 0], [2, 0, 1]], np.int32)
TOP_P, TOP_K = np.array([[0.6], [0.9]], np.float32), np.array([[3], [2]], np.int32)
PLACES = np.array([[0.5], [0.6]], np.float32)
NOTHING = np.zeros((2, 1), np.float32)
DRAWS = uniform(9, 1, low=0, high=1)
ROWS = np.sort(np.arange(9) % 2)[:, None]
choose, sample = nn.multinomial_from_uniform, nn.sample_top_p_top_k_from_sorted_prob


def kept(prob: np.ndarray, top_p: float, top_k: int) -> np.ndarray:
    """A row in descending order without what is not sampled from, which sums to 1 again."""
    count, total = 0, np.float32(0)
    while count < len(prob) and (count == 0 or (total < top_p and count < top_k)):
        total += prob[count]
        count += 1
    return np.where(np.arange(len(prob)) < count, prob, 0) / total


def chosen(prob: np.ndarray, sample: np.ndarray, rows: np.ndarray) -> np.ndarray:
    sums = np.cumsum(prob, 1)
    return np.array([[np.argmax(sums[r] > u)] for (u,), (r,) in zip(sample, rows)], np.int64)


def sampled(prob: np.ndarray, words: np.ndarray, p: np.ndarray, k: np.ndarray, sample: np.ndarray, rows: np.ndarray) -> Any:
    found = chosen(np.stack([kept(*row) for row in zip(prob, p[:, 0], k[:, 0])]), sample, rows)
    return np.array([[words[r, c]] for (r,), (c,) in zip(rows, found)], words.dtype)


SAMPLING: dict[str, Case] = {
    "multinomial_from_uniform": case(choose, lambda p, u: np.array([[1], [2]]), PROB, SAMPLE, exact=True, grows=False),
    "multinomial_from_uniform/rows": case(
        choose, lambda p, u, r: np.array([[1], [2]]), PROB, SAMPLE, ROW, exact=True, grows=False),
    "multinomial_from_uniform/several": case(
        lambda p, u, r: choose(p, u, r, "int32"), lambda *x: chosen(*x).astype(np.int32), PROB, DRAWS, ROWS, exact=True),
    "multinomial_from_uniform/ends": case(
        choose, lambda p, u: np.array([[0], [2]]), PROB, np.array([[0.0], [0.9999999]], np.float32), exact=True, grows=False),
    "sample_top_p_top_k_from_sorted_prob": case(
        sample, lambda *x: np.array([[2], [0]], np.int32), ORDERED, WORDS, TOP_P, TOP_K, PLACES, ROW, exact=True, grows=False),
    "sample_top_p_top_k_from_sorted_prob/own_rows": case(
        sample, lambda *x: np.array([[2], [0]], np.int32), ORDERED, WORDS, TOP_P, TOP_K, PLACES, exact=True, grows=False),
    "sample_top_p_top_k_from_sorted_prob/several": case(
        sample, sampled, ORDERED, WORDS, TOP_P, TOP_K, DRAWS, ROWS, exact=True),
    "sample_top_p_top_k_from_sorted_prob/at_least_one": case(
        sample, lambda *x: np.array([[2], [2]], np.int32), ORDERED, WORDS, NOTHING, TOP_K, SAMPLE, exact=True, grows=False),
    "renormalize_top_p_top_k_prob": case(
        nn.renormalize_top_p_top_k_prob,
        lambda p, s, share, count: np.array([[0, 4 / 9, 5 / 9], [0.3, 0.3, 0.4]], np.float32),
        np.array([[0.1, 0.4, 0.5], [0.3, 0.3, 0.4]], np.float32), ORDERED, TOP_P, TOP_K, grows=False),
    "renormalize_top_p_top_k_prob/one": case(
        nn.renormalize_top_p_top_k_prob, lambda p, s, share, count: (p == 0.5).astype(np.float32),
        np.array([[0.1, 0.5, 0.4]], np.float32), ORDERED[:1], np.array([[1.0]], np.float32), np.array([[1]]), grows=False),
}  # fmt: skip

IN_EVERY_PRECISION = [
    "conv1d/all", "conv2d", "conv2d_transpose", "conv3d", "max_pool2d", "avg_pool2d", "adaptive_avg_pool1d", "layer_norm",
    "rms_norm", "rms_norm/middle", "group_norm", "batch_norm", "instance_norm", "scaled_dot_product_attention/mask",
    "scaled_dot_product_attention/grouped", "interpolate", "interpolate/bilinear",
]  # fmt: skip


def in_every_precision(cases: dict[str, Case]) -> dict[str, Case]:
    """The cases with inputs of other element types; the other library computes in float64.

    Not batch_norm of bfloat16, of which the compiler makes a product and a sum whose factor and summand are rounded.
    """
    found = {}
    for name in IN_EVERY_PRECISION:
        for dtype in ("float64", "float16", "bfloat16")[: 2 if name == "batch_norm" else 3]:
            of = cases[name]

            def other(*inputs: np.ndarray, of: Case = of) -> Any:
                wide = [x if x.dtype == bool else x.astype(np.float64) for x in inputs]
                return np.asarray(of.other(*wide)).astype(inputs[0].dtype)

            inputs = [x if x.dtype == bool else x.astype(numpy_dtype(dtype)) for x in of.inputs]
            found[f"{name}/{dtype}"] = case(of.own, other, *inputs, fixed=list(of.fixed), exact=of.exact, grows=of.grows)
    return found


KNOWN = {**CONVOLUTIONS, **POOLING, **NORMALIZATIONS, **ATTENTION, **RESIZING, **SAMPLING}
CASES = KNOWN | in_every_precision(KNOWN)


@pytest.mark.parametrize("name", CASES)
def test_functions(name: str) -> None:
    check(CASES[name])


TESTED_ELSEWHERE = {"forge.nn.functions.collectives": "test_collectives.py", "forge.nn.programs": "test_own_programs.py"}
"""Modules of functions with tests of their own."""


def test_every_function_has_a_case() -> None:
    others = [name for name in nn.op.__all__ if getattr(nn.op, name).__module__ in TESTED_ELSEWHERE]
    assert {function_of(name) for name in (*ELEMENTWISE, *SHAPES, *CASES)} | set(others) == set(nn.op.__all__)
    assert all((Path(__file__).parent / file).exists() for file in TESTED_ELSEWHERE.values())
