"""Pooling, normalization, resizing of images and regions of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forge import dims, dtypes
from forge.dims import Dim
from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.operators.core.layouts import begins_and_ends, moved
from forge.exporters.onnx.operators.nn.convolution import CHANNELS_FIRST
from forge.exporters.onnx.operators.shape.reshape import data_shape
from forge.exporters.onnx.registry import exports
from forge.ir.nodes import Node
from forge.ops.nn.adaptive_pool import AdaptivePool2DAttrs, GlobalPool2DAttrs
from forge.ops.nn.fold import Fold
from forge.ops.nn.local_normalization import LRN
from forge.ops.nn.max_pool_with_indices import IndexedMaxPool2DAttrs
from forge.ops.nn.pool import AvgPool2DAttrs, MaxPool2DAttrs
from forge.ops.vision.grid_sample import GridSample
from forge.ops.vision.non_max_suppression import NonMaxSuppression
from forge.ops.vision.regions import RoiAlign, RoiPool
from forge.ops.vision.resize import Resize2DAttrs

_EXACT_IN_FLOAT = frozenset({"int8", "uint8", "int16", "uint16"})


def _window(node: Node) -> dict[str, Any]:
    """Kernel, strides, dilations, padding (numbers) and rounding of the number of windows.

    Rounding up adds no window that would begin in the padding; versions of ONNX differ in what they say of those. So it is
    written only where there is a window more, and other axes lose the end of their padding, which no window reaches.
    """
    attrs: MaxPool2DAttrs = node.attrs
    rank = len(attrs.pool_size)
    pads = begins_and_ends(attrs.padding, rank)
    rounded = [attrs.ceil_mode and _is_rounded_up(node, pads, k) for k in range(rank)]
    for k in range(rank):
        left = dims.floormod(_last(node, pads, k), attrs.strides[k]) if any(rounded) and not rounded[k] else 0
        end = pads[k + rank]
        if isinstance(left, int) and isinstance(end, int) and left <= end:
            pads[k + rank] = end - left
    found = {"kernel_shape": attrs.pool_size, "strides": attrs.strides, "pads": pads, "ceil_mode": any(rounded) or None}
    return found | {"dilations": attrs.dilation if max(attrs.dilation) > 1 else None}


def _is_rounded_up(node: Node, padding: Sequence[Dim], k: int) -> bool:
    """Whether there is a window more along spatial axis ``k`` than without rounding up, or may be."""
    attrs: MaxPool2DAttrs = node.attrs
    out_layout, axis = attrs.out_layout or attrs.layout, CHANNELS_FIRST[len(attrs.pool_size)][2 + k]
    if axis not in attrs.layout or axis not in out_layout:
        return True
    down = dims.floordiv(_last(node, padding, k), attrs.strides[k]) + 1
    return not dims.equal(down, node.results[0].shape[out_layout.index(axis)])


def _last(node: Node, padding: Sequence[Dim], k: int) -> Dim:
    """Where the last window may begin, with any stride."""
    attrs: MaxPool2DAttrs = node.attrs
    rank = len(attrs.pool_size)
    extent = data_shape(node)[attrs.layout.index(CHANNELS_FIRST[rank][2 + k])]
    return extent + padding[k] + padding[k + rank] - (attrs.pool_size[k] - 1) * attrs.dilation[k] - 1


def _pooled(g: Emitter, node: Node, x: Ref, op: str, **attributes: Any) -> Ref:
    """The result of ``op``, which has the channels first, for data and result in the layouts of the node."""
    attrs: MaxPool2DAttrs | GlobalPool2DAttrs | AdaptivePool2DAttrs = node.attrs
    plain = CHANNELS_FIRST[sum(axis in "DHW" for axis in attrs.layout)]
    result = g.op(op, moved(g, x, attrs.layout, plain), **attributes)
    return moved(g, result, plain, attrs.out_layout or attrs.layout)


@exports("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d")
def max_pool(g: Emitter, node: Node, x: Ref) -> Any:
    attrs: MaxPool2DAttrs = node.attrs
    if not (dtypes.is_float(x.dtype) or x.dtype in _EXACT_IN_FLOAT) or not dims.is_static(*attrs.padding):
        return NotImplemented
    return _pooled(g, node, x, "MaxPool", **_window(node))


@exports("nn.max_pool1d_with_indices", "nn.max_pool2d_with_indices", "nn.max_pool3d_with_indices")
def max_pool_with_indices(g: Emitter, node: Node, x: Ref) -> Any:
    attrs: IndexedMaxPool2DAttrs = node.attrs
    is_plain = attrs.layout == CHANNELS_FIRST[len(attrs.pool_size)] and attrs.out_layout in ("", attrs.layout)
    if not is_plain or not dims.is_static(*attrs.padding):
        return NotImplemented
    return g.multi("MaxPool", [x], 2, storage_order=attrs.column_major or None, **_window(node))


@exports("nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d")
def avg_pool(g: Emitter, node: Node, x: Ref) -> Any:
    attrs: AvgPool2DAttrs = node.attrs
    if not dtypes.is_float(x.dtype) or not dims.is_static(*attrs.padding) or (max(attrs.dilation) > 1 and g.opset < 19):
        return NotImplemented
    return _pooled(g, node, x, "AveragePool", count_include_pad=attrs.count_include_pad or None, **_window(node))


@exports("nn.global_max_pool2d", "nn.global_avg_pool2d")
def global_pool(g: Emitter, node: Node, x: Ref) -> Any:
    if not dtypes.is_float(x.dtype):
        return NotImplemented
    return _pooled(g, node, x, "GlobalMaxPool" if "max" in node.op else "GlobalAveragePool")


@exports(*(f"nn.adaptive_{kind}_pool{n}d" for kind in ("max", "avg") for n in (1, 2, 3)))
def adaptive_pool(g: Emitter, node: Node, x: Ref) -> Any:
    """Cells of equal sizes are windows."""
    attrs: AdaptivePool2DAttrs = node.attrs
    plain = CHANNELS_FIRST[int(node.op[-2])]
    if not dtypes.is_float(x.dtype) or sorted(attrs.layout) != sorted(plain):
        return NotImplemented
    shape = [data_shape(node)[attrs.layout.index(axis)] for axis in plain[2:]]
    wanted = attrs.output_size or tuple(shape)
    kind = "Max" if "max" in node.op else "Average"
    if all(isinstance(d, int) and d == 1 for d in wanted):
        return _pooled(g, node, x, f"Global{kind}Pool")
    static = [(s, w) for s, w in zip(shape, wanted) if isinstance(s, int) and isinstance(w, int)]
    if len(static) < len(shape) or not all(0 < w <= s and s % w == 0 for s, w in static):
        return NotImplemented
    sizes = [s // w for s, w in static]
    return _pooled(g, node, x, f"{kind}Pool", kernel_shape=sizes, strides=sizes)


@exports(LRN)
def local_response_norm(g: Emitter, op: LRN, x: Ref) -> Ref:
    attrs = op.attrs
    rank = op.result.rank
    order = list(range(rank))
    axis = attrs.axis % rank
    order[1], order[axis] = order[axis], order[1]
    result = g.op("LRN", g.transpose(x, order), size=attrs.size, alpha=attrs.alpha, beta=attrs.beta, bias=attrs.bias)
    return g.transpose(result, order)


@exports("image.resize1d", "image.resize2d", "image.resize3d")
def resize(g: Emitter, node: Node, x: Ref, sizes: Ref | None = None) -> Any:
    attrs: Resize2DAttrs = node.attrs
    nearest = attrs.method == "nearest_neighbor"
    if attrs.coordinate_transformation_mode.startswith("fixed"):
        return NotImplemented
    if (nearest and attrs.rounding_method == "round") or not dtypes.is_float(x.dtype) or not attrs.layout.isalpha():
        return NotImplemented
    spatial = [k for k, axis in enumerate(attrs.layout) if axis not in "NC"]
    cubic = attrs.method == "cubic"
    return g.op(
        "Resize", x, None, None, g.given(attrs.size, sizes), axes=spatial, mode="nearest" if nearest else attrs.method,
        coordinate_transformation_mode=attrs.coordinate_transformation_mode,
        nearest_mode=attrs.rounding_method if nearest else None, cubic_coeff_a=attrs.cubic_alpha if cubic else None,
        exclude_outside=1 if cubic and attrs.cubic_exclude else None)


@exports(GridSample)
def grid_sample(g: Emitter, op: GridSample, x: Ref, grid: Ref) -> Any:
    attrs = op.attrs
    named = {"linear": "bilinear", "cubic": "bicubic"} if not g.has("GridSample", 20) else {}
    if named and op.result.rank != 4:
        return NotImplemented
    return g.op("GridSample", x, g.cast(grid, x.dtype), mode=named.get(attrs.mode, attrs.mode), padding_mode=attrs.padding_mode,
                align_corners=1 if attrs.align_corners else 0)


@exports(RoiAlign)
def roi_align(g: Emitter, op: RoiAlign, x: Ref, rois: Ref, images: Ref) -> Ref:
    attrs = op.attrs
    height, width = attrs.pooled_size
    mode = "half_pixel" if attrs.aligned else "output_half_pixel"
    return g.op("RoiAlign", x, rois, g.cast(images, "int64"), output_height=height, output_width=width, mode=attrs.mode,
                sampling_ratio=attrs.sample_ratio, spatial_scale=attrs.spatial_scale, coordinate_transformation_mode=mode)


@exports(RoiPool)
def roi_pool(g: Emitter, op: RoiPool, x: Ref, rois: Ref) -> Ref:
    return g.op("MaxRoiPool", x, rois, pooled_shape=list(op.attrs.pooled_size), spatial_scale=op.attrs.spatial_scale)


@exports(NonMaxSuppression)
def non_max_suppression(g: Emitter, op: NonMaxSuppression, boxes: Ref, scores: Ref, *limits: Ref | None) -> Ref:
    given = [v and g.op("Reshape", g.cast(v, dtype), g.ints([1])) for v, dtype in zip(limits, ("int64", "float32", "float32"))]
    return g.op("NonMaxSuppression", boxes, scores, *given, center_point_box=op.attrs.center_point_box or None)


@exports(Fold)
def fold(g: Emitter, op: Fold, x: Ref) -> Ref:
    attrs = op.attrs
    rank = len(attrs.block_shape)
    strides, dilations, pads = _each(attrs.strides, rank), _each(attrs.dilation, rank), _each(attrs.padding, 2 * rank)
    if len(attrs.padding) == rank:
        pads = begins_and_ends(attrs.padding, rank)  # type: ignore[assignment]
    shapes = g.dims(attrs.image_shape), g.ints(attrs.block_shape)
    return g.op("Col2Im", x, *shapes, strides=strides, dilations=dilations, pads=pads)


def _each(values: tuple[int, ...], count: int) -> list[int]:
    """One number for each of ``count`` places."""
    return list(values) * count if len(values) == 1 else list(values)
