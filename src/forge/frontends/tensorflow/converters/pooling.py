"""Pools, normalization and resizing of images."""

from __future__ import annotations

from collections.abc import Sequence

from forge.compose import pooling
from forge.dims import Dim
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.converters.windows import Images, images, in_wanted_layout
from forge.frontends.tensorflow.registry import converts
from forge.ir.nodes import Value

_NORM_OUTPUTS = "y batch_mean batch_variance reserve_space_1 reserve_space_2"


def _pooled(
    g: Context, kind: str, x: Value, ksize: Sequence[int], strides: Sequence[int], padding: str, data_format: str,
    explicit: Sequence[int] = (),
) -> Value:
    spatial = x.rank - 2
    given = images(g, x, data_format, spatial)
    if ksize[given.channels] != 1:
        return _pooled_channels(g, kind, x, given, ksize, strides)
    size, steps = given.of(g, ksize, "ksize"), given.of(g, strides, "strides")
    around = given.padding(g, x, size, steps, (1,) * spatial, padding, explicit)

    def make(data: Value, how: Images) -> Value:
        return g.call(f"nn.{kind}_pool{spatial}d", data, pool_size=size, strides=steps, padding=around, layout=how.layout)

    return in_wanted_layout(g, x, given, make)


def _pooled_channels(g: Context, kind: str, x: Value, given: Images, ksize: Sequence[int], strides: Sequence[int]) -> Value:
    """Windows over channels, which follow each other."""
    size, axis = ksize[given.channels], given.channels
    channels = x.shape[axis]
    is_plain = strides[axis] == size and all(n == 1 for k, n in enumerate(ksize) if k != axis)
    if not is_plain or not isinstance(channels, int) or channels % size:
        raise g.unsupported(f"ksize {tuple(ksize)}, strides {tuple(strides)}: expected windows over images")
    parts = g.reshape(x, (*x.shape[:axis], channels // size, size, *x.shape[axis + 1 :]))
    return g.call("max" if kind == "max" else "mean", parts, axis=(axis + 1,))


for _name, _kind, _layout in (
    ("AvgPool", "avg", "NHWC"), ("AvgPool3D", "avg", "NDHWC"), ("MaxPool3D", "max", "NDHWC"),
):
    def _convert(
        g: Context, x: Value, *, ksize: tuple[int, ...], strides: tuple[int, ...], padding: str, data_format: str = _layout,
        kind: str = _kind,
    ) -> Value:
        return _pooled(g, kind, x, ksize, strides, padding, data_format)

    converts(_name)(_convert)


@converts("MaxPool")
def max_pool(
    g: Context, x: Value, *, ksize: tuple[int, ...], strides: tuple[int, ...], padding: str, data_format: str = "NHWC",
    explicit_paddings: tuple[int, ...] = (),
) -> Value:
    return _pooled(g, "max", x, ksize, strides, padding, data_format, explicit_paddings)


@converts("MaxPoolV2")
def max_pool_v2(g: Context, x: Value, ksize: Value, strides: Value, *, padding: str, data_format: str = "NHWC") -> Value:
    return _pooled(g, "max", x, g.required_ints(ksize, "ksize"), g.required_ints(strides, "strides"), padding, data_format)


@converts("MaxPoolWithArgmax", outputs="output argmax")
def max_pool_with_argmax(
    g: Context, x: Value, *, ksize: tuple[int, ...], strides: tuple[int, ...], padding: str, include_batch_in_index: bool = False,
    Targmax: str = "int64",  # noqa: N803
) -> list[Value]:
    """Places count elements of an image, channels last, or of all images."""
    given = images(g, x, "NHWC", 2)
    size, steps = given.of(g, ksize, "ksize"), given.of(g, strides, "strides")
    around = given.padding(g, x, size, steps, (1, 1), padding)
    window = {"pool_size": size, "strides": steps, "padding": around}
    first = g.moved(x, (0, 3, 1, 2))
    values, places = pooling.max_pool_with_indices(g, first, window)
    values, places = (g.moved(v, (0, 2, 3, 1)) for v in (values, g.cast(places, "int64")))
    count = g.size(x.shape[3])
    places = g.call("add", g.call("multiply", places, count), g.count(count, x.shape[3]))
    if include_batch_in_index:
        image = g.call("multiply", g.call("multiply", g.size(x.shape[1]), g.size(x.shape[2])), count)
        starts = g.call("multiply", g.count(g.size(x.shape[0]), x.shape[0]), image)
        places = g.call("add", places, g.reshape(starts, (x.shape[0], 1, 1, 1)))
    return [values, g.cast(places, Targmax)]


@converts("FusedBatchNorm", "FusedBatchNormV2", outputs=_NORM_OUTPUTS)
def fused_batch_norm(
    g: Context, x: Value, scale: Value, offset: Value, mean: Value, variance: Value, *, epsilon: float = 1e-4,
    exponential_avg_factor: float = 1.0, data_format: str = "NHWC", is_training: bool = True,
) -> list[Value | None]:
    return _normalized(g, x, scale, offset, mean, variance, epsilon, exponential_avg_factor, data_format, is_training)


@converts("FusedBatchNormV3", outputs=f"{_NORM_OUTPUTS} reserve_space_3")
def fused_batch_norm_v3(
    g: Context, x: Value, scale: Value, offset: Value, mean: Value, variance: Value, *, epsilon: float = 1e-4,
    exponential_avg_factor: float = 1.0, data_format: str = "NHWC", is_training: bool = True,
) -> list[Value | None]:
    found = _normalized(g, x, scale, offset, mean, variance, epsilon, exponential_avg_factor, data_format, is_training)
    return [*found, None]


def _normalized(
    g: Context, x: Value, scale: Value, offset: Value, mean: Value, variance: Value, epsilon: float, factor: float,
    data_format: str, is_training: bool,
) -> list[Value | None]:
    """In training, by mean and variance of the batch, which are mixed into the given ones where there are such."""
    axis = x.rank - 1 if data_format.endswith("C") else 1
    if not is_training:
        found = _by_channel(g, g.cast(x, scale.dtype), scale, offset, mean, variance, axis, epsilon)
        return [g.cast(found, x.dtype), mean, variance, mean, variance]
    axes = tuple(k for k in range(x.rank) if k != axis)
    wide = g.cast(x, scale.dtype)
    own, spread = g.call("mean", wide, axis=axes), g.call("variance", wide, axis=axes)
    found = _by_channel(g, wide, scale, offset, own, spread, axis, epsilon)
    unbiased = g.call("variance", wide, axis=axes, unbiased=True)
    if factor != 1.0:
        part, rest = g.constant(factor, mean.dtype), g.constant(1.0 - factor, mean.dtype)
        mixed = [g.call("add", g.call("multiply", old, rest), g.call("multiply", new, part))
                 for old, new in ((mean, own), (variance, unbiased))]
        return [g.cast(found, x.dtype), *mixed, own, spread]
    return [g.cast(found, x.dtype), own, unbiased, own, spread]


def _by_channel(
    g: Context, x: Value, scale: Value, offset: Value, mean: Value, variance: Value, axis: int, epsilon: float
) -> Value:
    return g.call("nn.batch_norm", x, scale, offset, mean, variance, axis=axis, epsilon=epsilon)


@converts("BatchNormWithGlobalNormalization")
def batch_norm_with_global_normalization(
    g: Context, x: Value, mean: Value, variance: Value, beta: Value, gamma: Value, *, variance_epsilon: float,
    scale_after_normalization: bool,
) -> Value:
    scale = gamma if scale_after_normalization else g.call("ones_like", gamma)
    return _by_channel(g, x, scale, beta, mean, variance, x.rank - 1, variance_epsilon)


@converts("LRN")
def lrn(g: Context, x: Value, *, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5) -> Value:
    size = 2 * depth_radius + 1
    return g.call("nn.lrn", x, size=size, axis=x.rank - 1, bias=bias, alpha=alpha * size, beta=beta)


@converts("ResizeBilinear")
def resize_bilinear(
    g: Context, x: Value, size: Value, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    return _resized(g, _as_float(g, x), size, "linear", align_corners, half_pixel_centers)


@converts("ResizeNearestNeighbor")
def resize_nearest_neighbor(
    g: Context, x: Value, size: Value, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    rounding = "round_prefer_ceil" if align_corners or half_pixel_centers else "floor"
    return _resized(g, x, size, "nearest_neighbor", align_corners, half_pixel_centers, rounding_method=rounding)


@converts("ResizeBicubic")
def resize_bicubic(
    g: Context, x: Value, size: Value, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """Without half pixels, Keys' cubic of -0.75; with them, of -0.5, which leaves out what is outside of the image.

    Weights come from a table of 1024 places between elements.
    """
    options = {"cubic_alpha": -0.5, "cubic_exclude": True} if half_pixel_centers else {"cubic_alpha": -0.75}
    return _resized(g, _as_float(g, x), size, "cubic", align_corners, half_pixel_centers, "tabulated_", **options)


def _as_float(g: Context, x: Value) -> Value:
    return g.cast(x, "float32")


def _resized(
    g: Context, x: Value, size: Value, method: str, align_corners: bool, half_pixel: bool, prefix: str = "", **options: object
) -> Value:
    mode = "align_corners" if align_corners else "half_pixel" if half_pixel else "asymmetric"
    how = {"layout": "NHWC", "method": method, "coordinate_transformation_mode": prefix + mode, **options}
    wanted: tuple[Dim, ...] | None = g.dims(size)
    if wanted is not None:
        return g.call("image.resize2d", x, size=wanted, **how)
    return g.call("image.resize2d", x, g.cast(size, "int64"), **how)
