"""Pools, normalization and resizing of images."""

from __future__ import annotations

from forge.frontends.tflite import quantized
from forge.frontends.tflite.context import Context
from forge.frontends.tflite.converters.activations import activated
from forge.frontends.tflite.converters.products import checked, padding_of
from forge.frontends.tflite.registry import converts, moves, takes_integers
from forge.ir.nodes import Value


def _pool(
    g: Context, op: str, x: Value, padding: str, stride_w: int, stride_h: int, filter_width: int, filter_height: int
) -> Value:
    size, strides = (filter_height, filter_width), (stride_h, stride_w)
    checked(g, filter=size, strides=strides)
    if x.rank != 4:
        raise g.invalid(f"got {x.type}; expected a tensor of rank 4")
    around = padding_of(x, size, strides, (1, 1), padding)
    return g.call(op, x, pool_size=size, strides=strides, padding=around, layout="NHWC")


@converts("AVERAGE_POOL_2D")
@takes_integers
def average_pool_2d(
    g: Context, x: Value, *, padding: str = "SAME", stride_w: int = 0, stride_h: int = 0, filter_width: int = 0,
    filter_height: int = 0, fused_activation_function: str = "NONE",
) -> Value:
    """The mean of integers is rounded half away from the integer 0, whatever the zero point is."""
    found = _pool(g, "nn.avg_pool2d", quantized.as_numbers(g, x), padding, stride_w, stride_h, filter_width, filter_height)
    if quantized.quantization(g.tensor(0)) is None:
        return activated(g, found, fused_activation_function)
    return quantized.rounded(g, found, fused_activation_function)


@converts("MAX_POOL_2D")
def max_pool_2d(
    g: Context, x: Value, *, padding: str = "SAME", stride_w: int = 0, stride_h: int = 0, filter_width: int = 0,
    filter_height: int = 0, fused_activation_function: str = "NONE",
) -> Value:
    found = _pool(g, "nn.max_pool2d", x, padding, stride_w, stride_h, filter_width, filter_height)
    return activated(g, found, fused_activation_function)


@converts("L2_POOL_2D")
def l2_pool_2d(
    g: Context, x: Value, *, padding: str = "SAME", stride_w: int = 0, stride_h: int = 0, filter_width: int = 0,
    filter_height: int = 0, fused_activation_function: str = "NONE",
) -> Value:
    squares = g.call("multiply", x, x)
    mean = _pool(g, "nn.avg_pool2d", squares, padding, stride_w, stride_h, filter_width, filter_height)
    return activated(g, g.call("sqrt", mean), fused_activation_function)


@converts("L2_NORMALIZATION")
def l2_normalization(g: Context, x: Value, *, fused_activation_function: str = "NONE") -> Value:
    return activated(g, g.call("nn.l2_normalize", x, axis=(-1,), eps=1e-12), fused_activation_function)


@converts("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(
    g: Context, x: Value, *, radius: int = 0, bias: float = 0.0, alpha: float = 0.0, beta: float = 0.0
) -> Value:
    """The window of an element is ``radius`` elements before it, itself, and ``radius - 1`` after it."""
    if radius < 1:
        raise g.unsupported(f"radius: got {radius}; expected 1 or more")
    axis, size = x.rank - 1, 2 * radius
    found = g.call("nn.lrn", g.call("reverse", x, axis=axis), size=size, axis=axis, bias=bias, alpha=alpha * size, beta=beta)
    return g.call("reverse", found, axis=axis)


@converts("RESIZE_BILINEAR")
@takes_integers
def resize_bilinear(
    g: Context, x: Value, size: Value, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """Positions in tensors of int8 and int16 are multiples of 1/1024; results are rounded half away from the integer 0."""
    numbers, is_fixed = quantized.as_numbers(g, x), x.dtype in ("int8", "int16")
    found = _resized(g, numbers, size, "linear", align_corners, half_pixel_centers, "", is_fixed)
    return quantized.rounded(g, found)


@converts("RESIZE_NEAREST_NEIGHBOR")
@moves
def resize_nearest_neighbor(
    g: Context, x: Value, size: Value, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    rounding = "round_prefer_ceil" if align_corners or half_pixel_centers else "floor"
    return _resized(g, x, size, "nearest_neighbor", align_corners, half_pixel_centers, rounding)


def _resized(
    g: Context, x: Value, size: Value, method: str, align_corners: bool, half_pixel: bool, rounding: str, is_fixed: bool = False
) -> Value:
    wanted = g.dims(size)
    mode = "align_corners" if align_corners else "half_pixel" if half_pixel else "asymmetric"
    mode = f"fixed_{mode}" if is_fixed else mode
    options = {"layout": "NHWC", "method": method, "coordinate_transformation_mode": mode}
    if rounding:
        options["rounding_method"] = rounding
    if wanted is not None:
        return g.call("image.resize2d", x, size=wanted, **options)
    return g.call("image.resize2d", x, g.cast(size, "int64"), **options)
