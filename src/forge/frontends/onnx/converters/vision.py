"""Detection, sampling and patches of images; determinants."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims
from forge.compose import grids, windows
from forge.dims import Dim
from forge.errors import option
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts

Ints = tuple[int, ...]

_MODES = {"bilinear": "linear", "linear": "linear", "nearest": "nearest", "bicubic": "cubic", "cubic": "cubic"}


def _sized(g: Context, x: Value, shape: Sequence[Dim | None]) -> Value:
    """``x`` with symbolic sizes that are taken for those of ``shape`` (None: any), which is checked at run time."""
    wanted = tuple(own if size is None or dims.different(own, size) else size for own, size in zip(x.shape, shape))
    same = all(dims.equal(own, size) for own, size in zip(x.shape, wanted))
    return x if same else g.call("broadcast_to", x, shape=wanted)


@converts("GridSample", since=16)
def grid_sample_16(
    g: Context, x: Value, grid: Value, *, align_corners: int = 0, mode: str = "bilinear", padding_mode: str = "zeros"
) -> Value:
    return grid_sample(g, x, grid, align_corners=align_corners, mode=mode, padding_mode=padding_mode)


@converts("GridSample", since=20)
def grid_sample(
    g: Context, x: Value, grid: Value, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Value:
    if mode not in _MODES:
        raise g.invalid(f"attribute 'mode': got {mode!r}; expected one of {', '.join(_MODES)}")
    grid = _sized(g, grid, (x.shape[0], *[None] * (grid.rank - 2), x.rank - 2))
    return g.call("image.grid_sample", x, grid, mode=_MODES[mode], padding_mode=padding_mode, align_corners=bool(align_corners))


@converts("AffineGrid", since=20)
def affine_grid(g: Context, theta: Value, size: Value, *, align_corners: int = 0) -> Value:
    """``size`` is that of the images: batch, channels, then what the grid covers."""
    count = theta.shape[1]
    if not isinstance(count, int):
        raise g.unsupported(f"theta of type {theta.type}; expected a known number of axes; fix it with {option('shape=')}")
    spatial = [g.call("take", size, g.constant(axis + 2, "int64"), axis=0) for axis in range(count)]
    return grids.affine_grid(g, theta, spatial, align_corners=bool(align_corners))


@converts("NonMaxSuppression", since=10)
def non_max_suppression(
    g: Context, boxes: Value, scores: Value, max_output_boxes_per_class: Value | None = None, iou_threshold: Value | None = None,
    score_threshold: Value | None = None,
    *, center_point_box: int = 0,
) -> Value:
    limits = (max_output_boxes_per_class, iou_threshold, score_threshold)
    if boxes.rank == scores.rank == 3:
        boxes = _sized(g, boxes, (scores.shape[0], scores.shape[2], 4))
    return g.call("vision.non_max_suppression", boxes, scores, *limits, center_point_box=bool(center_point_box))


@converts("RoiAlign", since=10, introduced={"coordinate_transformation_mode": 16})
def roi_align(
    g: Context, x: Value, rois: Value, batch_indices: Value,
    *, coordinate_transformation_mode: str = "half_pixel", mode: str = "avg", output_height: int = 1, output_width: int = 1,
    sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Value:
    """Before opset 16 in coordinates of the output."""
    modes = ("half_pixel", "output_half_pixel")
    if coordinate_transformation_mode not in modes:
        raise g.invalid(
            f"attribute 'coordinate_transformation_mode': got {coordinate_transformation_mode!r}; "
            f"expected one of {', '.join(modes)}"
        )
    return g.call(
        "vision.roi_align",
        x,
        _sized(g, g.cast(rois, x.dtype), (batch_indices.shape[0], 4)),
        batch_indices,
        pooled_size=(output_height, output_width),
        spatial_scale=spatial_scale,
        sample_ratio=sampling_ratio,
        aligned=g.opset >= 16 and coordinate_transformation_mode == "half_pixel",
        mode=mode,
    )


@converts("MaxRoiPool", since=1)
def max_roi_pool(g: Context, x: Value, rois: Value, *, pooled_shape: Ints, spatial_scale: float = 1.0) -> Value:
    if len(pooled_shape) != 2 or min(pooled_shape) < 1:
        raise g.invalid(f"attribute 'pooled_shape': got {pooled_shape}; expected 2 positive numbers")
    rois = _sized(g, rois, (None, 5))
    return g.call("vision.roi_pool", x, rois, pooled_size=tuple(pooled_shape), spatial_scale=spatial_scale)


@converts("DeformConv", since=19)
def deformable_convolution(
    g: Context, x: Value, weight: Value, offset: Value, bias: Value | None = None, mask: Value | None = None,
    *, dilations: Ints | None = None, group: int = 1, kernel_shape: Ints | None = None, offset_group: int = 1,
    pads: Ints | None = None, strides: Ints | None = None,
) -> Value:
    if x.rank != 4:
        raise g.unsupported(f"input of rank {x.rank}; supported: 4")
    if kernel_shape is not None and kernel_shape != weight.shape[2:]:
        raise g.invalid(f"attribute 'kernel_shape': got {list(kernel_shape)}; expected that of W, {list(weight.shape[2:])}")
    operands = [x, offset, weight, mask]
    attributes = {"strides": strides or (1, 1), "padding": pads or (0, 0), "dilation": dilations or (1, 1)}
    result = g.call("nn.deformable_conv2d", *operands, **attributes, groups=group, offset_groups=offset_group)
    return result if bias is None else g.call("nn.bias_add", result, bias, axis=1)


@converts("Col2Im", since=18)
def column_to_image(
    g: Context, x: Value, image_shape: Value, block_shape: Value,
    *, dilations: Ints | None = None, pads: Ints | None = None, strides: Ints | None = None,
) -> Value:
    rank = image_shape.shape[0]
    if not isinstance(rank, int):
        raise g.unsupported("the number of sizes in image_shape is known only at run time; expected a constant")
    strides, dilations, pads = strides or (1,) * rank, dilations or (1,) * rank, pads or (0,) * (2 * rank)
    image, block = g.dims(image_shape), g.ints(block_shape)
    if image is None or block is None:
        return windows.fold(g, x, image_shape, block_shape, strides=strides, padding=pads, dilations=dilations)
    return g.call("nn.fold", x, image_shape=image, block_shape=block, strides=strides, padding=pads, dilation=dilations)


@converts("Det", since=11)
def determinant(g: Context, x: Value) -> Value:
    return g.call("linalg.determinant", x)
