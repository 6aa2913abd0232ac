"""Operators of torchvision, declared here as it declares them, next to NumPy and to operators of torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from forge.frontends.torch import import_model  # noqa: E402
from tests.torch_databases.compare import difference, run  # noqa: E402

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, "
    "bool aligned) -> Tensor",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
    "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) "
    "-> Tensor",
)


@pytest.fixture(scope="module", autouse=True)
def library() -> Any:
    if hasattr(torch.ops.torchvision, "nms"):
        yield None
        return
    lib = torch.library.Library("torchvision", "DEF")
    for schema in SCHEMAS:
        lib.define(schema)
    size = torch.library.get_ctx
    torch.library.register_fake("torchvision::nms", lambda d, s, t: d.new_empty(size().new_dynamic_size(), dtype=torch.int64))
    torch.library.register_fake("torchvision::roi_align", lambda x, r, s, h, w, n, a: x.new_empty(r.shape[0], x.shape[1], h, w))
    torch.library.register_fake(
        "torchvision::deform_conv2d", lambda x, w, o, *rest: x.new_empty(x.shape[0], w.shape[0], *o.shape[2:]))
    yield lib
    lib._destroy()


class Apply(torch.nn.Module):
    def __init__(self, name: str, *rest: Any) -> None:
        super().__init__()
        self.name, self.rest = name, rest

    def forward(self, *tensors: Any) -> Any:
        return getattr(torch.ops.torchvision, self.name)(*tensors, *self.rest)


def results(module: Any, *inputs: Any) -> list[np.ndarray]:
    ir = import_model(torch.export.export(module, inputs))
    return [run(ir, inputs, compiled=compiled)[0] for compiled in (False, True)]


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    size = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
    shared = size.prod()
    return float(shared / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - shared))


def test_nms() -> None:
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, 10, (20, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(1, 6, (20, 2))], 1).astype("float32")
    scores = rng.permutation(20).astype("float32")
    kept: list[int] = []
    for k in np.argsort(-scores):
        if all(overlap(boxes[k], boxes[other]) <= 0.3 for other in kept):
            kept.append(int(k))
    assert 1 < len(kept) < 20
    for found in results(Apply("nms", 0.3), torch.tensor(boxes), torch.tensor(scores)):
        assert found.tolist() == kept


def test_roi_align() -> None:
    """One sample at the centre of each bin."""
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 9)).astype("float32")
    rois = np.array([[1, 1, 2, 5, 6], [0, 0.5, 1, 7, 7.5]], "float32")
    expected = np.zeros((2, 3, 2, 3), "float32")
    for k, (image, *box) in enumerate(rois):
        x1, y1, x2, y2 = (v * 0.5 - 0.5 for v in box)
        for i in range(2):
            for j in range(3):
                v, u = max(y1 + (i + 0.5) * (y2 - y1) / 2, 0), max(x1 + (j + 0.5) * (x2 - x1) / 3, 0)
                top, left = int(v), int(u)
                a, b = v - top, u - left
                patch = x[int(image), :, top : top + 2, left : left + 2]
                expected[k, :, i, j] = patch.reshape(3, 4) @ [(1 - a) * (1 - b), (1 - a) * b, a * (1 - b), a * b]
    for found in results(Apply("roi_align", 0.5, 2, 3, 1, True), torch.tensor(x), torch.tensor(rois)):
        assert difference(found, torch.tensor(expected)) == ""


@pytest.mark.parametrize("use_mask", [False, True])
def test_deformable_convolution(use_mask: bool) -> None:
    """All taps one row down: the convolution of a shifted image; times the mask of 1/2."""
    x, weight, bias = torch.randn(2, 4, 7, 6), torch.randn(6, 2, 3, 3), torch.randn(6)
    offset = torch.zeros(2, 18, 7, 6)
    offset[:, ::2] = 1
    mask = torch.full((2, 9, 7, 6), 0.5)
    shifted = torch.nn.functional.pad(x, (1, 1, 0, 2))
    expected = torch.nn.functional.conv2d(shifted, weight, None, groups=2) * (0.5 if use_mask else 1) + bias[:, None, None]
    module = Apply("deform_conv2d", 1, 1, 1, 1, 1, 1, 2, 1, use_mask)
    for found in results(module, x, weight, offset, mask, bias):
        assert difference(found, expected) == ""
