"""Operators of torchvision: boxes in images, deformable convolution."""

from __future__ import annotations

from forge.compose.checks import checked_indices
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

_DOMAIN = "torchvision"


def _columns(g: Context, x: Value, begin: int, end: int) -> Value:
    return g.call("strided_slice", x, begin=(begin,), end=(end,), strides=(1,), axes=(1,))


def _images(g: Context, rois: Value, count: Dim) -> Value:
    """The first column of regions: the number of their image, of ``count``."""
    numbers = g.cast(g.call("squeeze", _columns(g, rois, 0, 1), axis=(1,)), "int64")
    return checked_indices(g, numbers, count, from_end=False)


@converts("nms.default", domain=_DOMAIN)
def nms(g: Context, dets: Value, scores: Value, *, iou_threshold: float) -> Value:
    """The boxes (x1, y1, x2, y2) that are kept, by descending score."""
    count = dets.shape[0]
    boxes, ranked = g.reshape(dets, (1, count, 4)), g.reshape(scores, (1, 1, count))
    limit, threshold = g.extent(dets, 0), g.constant(iou_threshold, "float32")
    rows = g.call("vision.non_max_suppression", boxes, ranked, limit, threshold)
    return g.call("squeeze", _columns(g, rows, 2, 3), axis=(1,))


@converts("roi_align.default", domain=_DOMAIN)
def roi_align(
    g: Context, input: Value, rois: Value,  # noqa: A002
    *, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int, aligned: bool,
) -> Value:
    """Regions are (image, x1, y1, x2, y2)."""
    images = _images(g, rois, input.shape[0])
    return g.call(
        "vision.roi_align", input, _columns(g, rois, 1, 5), images, pooled_size=(pooled_height, pooled_width),
        spatial_scale=spatial_scale, sample_ratio=max(sampling_ratio, 0), aligned=aligned,
    )


@converts("deform_conv2d.default", domain=_DOMAIN)
def deformable_convolution(
    g: Context, input: Value, weight: Value, offset: Value, mask: Value, bias: Value,  # noqa: A002
    *, stride_h: int, stride_w: int, pad_h: int, pad_w: int, dilation_h: int, dilation_w: int, groups: int, offset_groups: int,
    use_mask: bool,
) -> Value:
    result = g.call(
        "nn.deformable_conv2d", input, offset, weight, mask if use_mask else None, strides=(stride_h, stride_w),
        padding=(pad_h, pad_w), dilation=(dilation_h, dilation_w), groups=groups, offset_groups=offset_groups,
    )
    return g.call("nn.bias_add", result, bias, axis=1)
