"""Declares the operators of torchvision, whose library of compiled code does not load next to a torch for CPUs.

Without them ``import torchvision`` fails, and with it those of timm and of many classes of transformers. Call `declare` first.
Nothing computes them here: eager models that call them do not run.
"""

from __future__ import annotations

import torch

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, "
    "bool aligned) -> Tensor",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
    "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) "
    "-> Tensor",
)
LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
"""Lives as long as the process."""


def declare() -> None:
    """Declares those that are not known yet."""
    for schema in SCHEMAS:
        if not hasattr(torch.ops.torchvision, schema.partition("(")[0]):
            LIBRARY.define(schema)
