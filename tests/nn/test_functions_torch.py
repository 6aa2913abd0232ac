"""Functions of ``forge.nn`` against those of torch: every mode of resizing, and what else NumPy has no word for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from forge import nn
from tests.nn.function_cases import Case, bools, case, check, integers, normal

torch = pytest.importorskip("torch")
F = torch.nn.functional


def of_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` of tensors of torch, with arrays."""

    def other(*arrays: np.ndarray) -> Any:
        found = function(*(torch.from_numpy(np.array(a)) for a in arrays))
        return tuple(t.numpy() for t in found) if isinstance(found, list | tuple) else found.numpy()

    return other


LINE, IMAGE, VOLUME = normal(2, 3, 7), normal(2, 3, 7, 9), normal(1, 2, 5, 6, 7)
IMAGES = {1: LINE, 2: IMAGE, 3: VOLUME}
TARGETS: dict[str, dict[int, dict[str, Any]]] = {
    "larger": {1: {"size": 12}, 2: {"size": (11, 20)}, 3: {"size": (7, 6, 10)}},
    "smaller": {1: {"size": 4}, 2: {"size": (3, 5)}, 3: {"size": (2, 3, 4)}},
    "one": {1: {"size": 1}, 2: {"size": (1, 5)}, 3: {"size": (1, 1, 3)}},
    "scale": {1: {"scale_factor": 1.7}, 2: {"scale_factor": (1.7, 0.6)}, 3: {"scale_factor": (1.7, 0.6, 2.0)}},
    "recomputed": {
        1: {"scale_factor": 1.7, "recompute_scale_factor": True},
        2: {"scale_factor": (1.7, 0.6), "recompute_scale_factor": True},
        3: {"scale_factor": 1.3, "recompute_scale_factor": True},
    },
}  # fmt: skip
MODES: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("nearest", {}, (1, 2, 3)), ("nearest-exact", {}, (1, 2, 3)), ("area", {}, (1, 2, 3)),
    ("linear", {}, (1,)), ("linear", {"align_corners": True}, (1,)),
    ("bilinear", {}, (2,)), ("bilinear", {"align_corners": True}, (2,)), ("bilinear", {"antialias": True}, (2,)),
    ("bicubic", {}, (2,)), ("bicubic", {"align_corners": True}, (2,)), ("bicubic", {"antialias": True}, (2,)),
    ("trilinear", {}, (3,)), ("trilinear", {"align_corners": True}, (3,)),
]  # fmt: skip


def resizing() -> dict[str, Case]:
    found = {}
    for mode, options, ranks in MODES:
        for rank in ranks:
            for target, sizes in TARGETS.items():
                if mode == "area" and target == "recomputed":
                    continue
                given = {"mode": mode, **options, **sizes[rank]}
                found["_".join([f"interpolate/{mode}", *options, f"{rank}d", target])] = case(
                    lambda x, given=given: nn.interpolate(x, **given), of_torch(lambda x, given=given: F.interpolate(x, **given)),
                    IMAGES[rank], fixed=[2, 3] if rank < 3 else [1, 2], exact=mode.startswith("nearest"))
    return found


Q, K, V = (normal(2, n, 6, 8, seed=seed) for n, seed in ((5, 0), (7, 1), (7, 2)))


def attend(q: Any, k: Any, v: Any, mask: Any = None, **options: Any) -> Any:
    """Torch's attention in the layout (batch, length, heads, size)."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True, **options).transpose(1, 2).contiguous()


def rms(x: Any, w: Any) -> Any:
    return F.rms_norm(x, w.shape, w, 1e-5)


SAME: dict[str, tuple[Any, Any, list[np.ndarray]]] = {
    "scaled_dot_product_attention": (
        lambda q, k, v: nn.scaled_dot_product_attention(q, k, v, is_causal=True), lambda q, k, v: attend(q, k, v, is_causal=True),
        [Q, K, V]),
    "scaled_dot_product_attention/mask": (
        nn.scaled_dot_product_attention, attend, [Q, K, V, bools(2, 1, 5, 7) | (np.arange(7) == 0)]),
    "scaled_dot_product_attention/grouped": (
        lambda q, k, v, m: nn.scaled_dot_product_attention(q, k, v, m, scale=0.2),
        lambda q, k, v, m: attend(q, k, v, m, scale=0.2), [Q, K[:, :, :3], V[:, :, :3], normal(5, 7)]),
    "gelu": (nn.gelu, F.gelu, [LINE]),
    "gelu/tanh": (lambda x: nn.gelu(x, "tanh"), lambda x: F.gelu(x, approximate="tanh"), [LINE]),
    "gelu/half": (nn.gelu, F.gelu, [LINE.astype(np.float16)]),
    "mish": (nn.mish, F.mish, [LINE * 9]),
    "softplus": (lambda x: nn.softplus(x, 2.0, 3.0), lambda x: F.softplus(x, 2.0, 3.0), [LINE * 5]),
    "hardswish": (nn.hardswish, F.hardswish, [LINE * 4]),
    "prelu": (nn.prelu, F.prelu, [IMAGE, normal(3)]),
    "prelu/vector": (nn.prelu, F.prelu, [normal(5, 3), normal(3)]),
    "glu": (lambda x: nn.glu(x, -2), lambda x: F.glu(x, -2), [normal(3, 4, 5)]),
    "log_softmax": (lambda x: nn.log_softmax(x, 1), lambda x: F.log_softmax(x, 1), [IMAGE * 50]),
    "chunk": (lambda x: nn.chunk(x, 5, 1), lambda x: x.chunk(5, 1), [normal(2, 7)]),
    "chunk/more": (lambda x: nn.chunk(x, 5, -1), lambda x: x.chunk(5, -1), [normal(2, 3)]),
    "pad": (lambda x: nn.pad(x, [1, 2, 3, 0], "reflect"), lambda x: F.pad(x, [1, 2, 3, 0], "reflect"), [IMAGE]),
    "pad/circular": (lambda x: nn.pad(x, [1, 2, 3, 0], "circular"), lambda x: F.pad(x, [1, 2, 3, 0], "circular"), [IMAGE]),
    "pad/replicate": (lambda x: nn.pad(x, [9, 2, -3, 1], "replicate"), lambda x: F.pad(x, [9, 2, -3, 1], "replicate"), [IMAGE]),
    "pixel_shuffle": (lambda x: nn.pixel_shuffle(x, 3), lambda x: F.pixel_shuffle(x, 3), [normal(2, 18, 4, 5)]),
    "gather": (lambda x, i: nn.gather(x, 1, i), lambda x, i: x.gather(1, i), [normal(4, 5), integers(3, 7, high=5)]),
    "scatter": (
        lambda x, i, s: nn.scatter(x, 0, i, s), lambda x, i, s: x.scatter(0, i, s),
        [normal(4, 5), np.array([[0, 1, 2], [3, 2, 1]]), normal(3, 5)]),
    "scatter_add": (
        lambda x, i, s: nn.scatter_add(x, 0, i, s), lambda x, i, s: x.scatter_add(0, i, s),
        [normal(4, 5), integers(6, 3, high=4), normal(6, 5)]),
    "nonzero": (nn.nonzero, torch.nonzero, [integers(3, 4, high=2)]),
    "var": (lambda x: nn.var(x, (1, 2), 1), lambda x: torch.var(x, (1, 2), correction=1), [IMAGE]),
    "norm": (lambda x: nn.norm(x, 0.5, -1), lambda x: torch.linalg.vector_norm(x, 0.5, -1), [LINE]),
    "logsumexp": (lambda x: nn.logsumexp(x, (0, -1)), lambda x: torch.logsumexp(x, (0, -1)), [LINE * 50]),
    "cosine_similarity": (nn.cosine_similarity, lambda a, b: F.cosine_similarity(a, b, -1), [LINE, LINE[::-1].copy()]),
    "normalize": (nn.normalize, F.normalize, [IMAGE]),
    "layer_norm": (
        lambda x, w, b: nn.layer_norm(x, 9, w, b), lambda x, w, b: F.layer_norm(x, (9,), w, b), [IMAGE, normal(9), normal(9)]),
    "rms_norm": (lambda x, w: nn.rms_norm(x, w, -1), rms, [IMAGE, normal(9)]),
    "rms_norm/half": (lambda x, w: nn.rms_norm(x, w, -1), rms, [normal(3, 9, dtype="float16"), normal(9, dtype="float16")]),
    "group_norm": (
        lambda x, w, b: nn.group_norm(x, 3, w, b), lambda x, w, b: F.group_norm(x, 3, w, b),
        [normal(2, 6, 5), normal(6), normal(6)]),
    "max_pool2d": (lambda x: nn.max_pool2d(x, 3, 2, 1, 2, True), lambda x: F.max_pool2d(x, 3, 2, 1, 2, True), [IMAGE]),
    "avg_pool2d": (lambda x: nn.avg_pool2d(x, 3, 2, 1, True), lambda x: F.avg_pool2d(x, 3, 2, 1, True), [IMAGE]),
    "avg_pool2d/counts": (
        lambda x: nn.avg_pool2d(x, (3, 2), 2, 1, True, False), lambda x: F.avg_pool2d(x, (3, 2), 2, 1, True, False), [IMAGE]),
    "avg_pool3d": (lambda x: nn.avg_pool3d(x, 2, padding=1), lambda x: F.avg_pool3d(x, 2, padding=1), [VOLUME]),
    "adaptive_avg_pool2d": (
        lambda x: nn.adaptive_avg_pool2d(x, (3, 4)), lambda x: F.adaptive_avg_pool2d(x, (3, 4)), [IMAGE]),
    "adaptive_max_pool2d": (
        lambda x: nn.adaptive_max_pool2d(x, (3, 4)), lambda x: F.adaptive_max_pool2d(x, (3, 4)), [IMAGE]),
    "adaptive_avg_pool2d/kept": (
        lambda x: nn.adaptive_avg_pool2d(x, (None, 4)), lambda x: F.adaptive_avg_pool2d(x, (None, 4)), [IMAGE]),
    "conv1d": (
        lambda x, w: nn.conv1d(x, w, padding="same", dilation=2), lambda x, w: F.conv1d(x, w, padding="same", dilation=2),
        [LINE, normal(4, 3, 4)]),
    "conv2d": (
        lambda x, w, b: nn.conv2d(x, w, b, (2, 1), (0, 2), (1, 2), 3),
        lambda x, w, b: F.conv2d(x, w, b, (2, 1), (0, 2), (1, 2), 3),
        [IMAGE, normal(6, 1, 3, 3), normal(6)]),
    "conv2d_transpose": (
        lambda x, w, b: nn.conv2d_transpose(x, w, b, (3, 2), (1, 0), (2, 1), (1, 2), 3),
        lambda x, w, b: F.conv_transpose2d(x, w, b, (3, 2), (1, 0), (2, 1), 3, (1, 2)), [IMAGE, normal(3, 2, 4, 3), normal(6)]),
}  # fmt: skip
KNOWN: dict[str, tuple[int, ...]] = {
    "scaled_dot_product_attention/grouped": (3, 6), "glu": (4,), "chunk": (7,), "chunk/more": (3,), "pixel_shuffle": (18,),
    "scatter": (2, 3, 4, 5), "scatter_add": (3, 4, 5, 6), "layer_norm": (9,), "group_norm": (6,), "conv2d": (3, 6),
    "conv2d_transpose": (2, 3, 4, 6),
}  # fmt: skip
"""Sizes that the functions need to know."""
CASES = resizing() | {
    name: case(own, of_torch(other), *inputs, fixed=KNOWN.get(name, ())) for name, (own, other, inputs) in SAME.items()}


@pytest.mark.parametrize("name", CASES)
def test_functions(name: str) -> None:
    check(CASES[name])
