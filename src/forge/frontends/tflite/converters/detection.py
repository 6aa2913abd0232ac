"""Boxes that are kept of those that overlap, and the custom operator that ends detectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge.compose.loops import repeat_while
from forge.frontends.tflite.context import Context
from forge.frontends.tflite.registry import CUSTOM, converts
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer


def _size_of(g: Context, value: Value, what: str) -> int:
    (found,) = g.required_ints(g.reshape(value, (1,)), what)
    if found < 0:
        raise g.invalid(f"{what}: got {found}; expected 0 or more")
    return found


@converts("NON_MAX_SUPPRESSION_V4")
def non_max_suppression(
    g: Context, boxes: Value, scores: Value, most: Value, overlap: Value, least: Value
) -> list[Value]:
    """Indices of the selected boxes in descending order of score, padded with 0, and their number."""
    size = _size_of(g, most, "max_output_size")
    places, count = _kept(g, boxes, scores, size, _before(g, overlap), g.reshape(least, ()))
    return [places, count]


@converts("NON_MAX_SUPPRESSION_V5")
def soft_suppression(
    g: Context, boxes: Value, scores: Value, most: Value, overlap: Value, least: Value, sigma: Value
) -> list[Value]:
    """As V4, with the scores; where ``sigma`` is above 0, overlap with a box that is kept lowers a score."""
    size, known = _size_of(g, most, "max_output_size"), g.array(sigma)
    if known is None:
        raise g.unsupported("sigma is computed at run time; expected a constant")
    spread = float(known.reshape(-1)[0])
    if spread > 0:
        return _softly(g, boxes, scores, size, g.reshape(overlap, ()), g.reshape(least, ()), spread)
    places, count = _kept(g, boxes, scores, size, _before(g, overlap), g.reshape(least, ()))
    inside = g.call("less", g.constant(np.arange(size), "int32"), count)
    found = g.call("take", scores, places, axis=0)
    return [places, g.call("where", inside, found, g.constant(0, "float32")), count]


def _before(g: Context, threshold: Value) -> Value:
    """The greatest number below a threshold: here a box that overlaps by the threshold itself is left out."""
    return g.call("nextafter", g.reshape(threshold, ()), g.constant(-np.inf, "float32"))


def _kept(g: Context, boxes: Value, scores: Value, size: int, overlap: Value, least: Value) -> tuple[Value, Value]:
    """Positions of at most ``size`` boxes, filled up with 0, and their number, int32."""
    rows = g.call(
        "vision.non_max_suppression", g.call("expand_dims", boxes, axis=0), g.reshape(scores, (1, 1, scores.shape[0])),
        g.constant(size, "int64"), overlap, least)
    places = g.call("take", rows, g.constant(2, "int64"), axis=1)
    return _filled(g, g.cast(places, "int32"), size), g.cast(g.extent(rows, 0), "int32")


def _filled(g: Context, values: Value, size: int) -> Value:
    """The first ``size`` rows of ``values``, padded with zeros."""
    rest = values.shape[1:]
    zeros = g.call("full", g.constant(0, values.dtype), shape=(size, *rest))
    whole = g.call("concatenate", values, zeros, axis=0)
    first = g.call("strided_slice", whole, begin=(0,), end=(size,), strides=(1,), axes=(0,))
    return g.call("reshape", first, newshape=(size, *rest))


def _softly(
    g: Context, boxes: Value, scores: Value, size: int, overlap: Value, least: Value, sigma: float
) -> list[Value]:
    corners = [g.call("take", boxes, g.constant(k, "int64"), axis=1) for k in range(4)]
    low = [g.call("minimum", corners[k], corners[k + 2]) for k in (0, 1)]
    high = [g.call("maximum", corners[k], corners[k + 2]) for k in (0, 1)]
    area = g.call("multiply", *(g.call("subtract", b, a) for a, b in zip(low, high)))
    start = g.call("where", g.call("less", least, scores), scores, g.constant(-np.inf, "float32"))
    first = [
        start, g.constant(0, "int32"), g.call("full", g.constant(0, "int32"), shape=(size,)),
        g.call("full", g.constant(0, "float32"), shape=(size,)), overlap, least, area, *low, *high]

    def goes_on(inner: Composer, v: Sequence[Value]) -> Value:
        more = inner.call("less", v[1], inner.constant(size, "int32"))
        return inner.call("logical_and", more, inner.call("less", v[5], inner.call("max", v[0], axis=(0,))))

    def step(inner: Composer, v: Sequence[Value]) -> list[Value]:
        scores, count, places, found, overlap, least, area = v[:7]
        sides = v[7:]
        best = inner.call("argmax", scores, axis=(0,))

        def at(value: Value) -> Value:
            return inner.call("take", value, best, axis=0)

        shared = None
        for k in (0, 1):
            begin, end = inner.call("maximum", sides[k], at(sides[k])), inner.call("minimum", sides[k + 2], at(sides[k + 2]))
            side = inner.call("maximum", inner.call("subtract", end, begin), inner.constant(0, "float32"))
            shared = side if shared is None else inner.call("multiply", shared, side)
        assert shared is not None
        union = inner.call("subtract", inner.call("add", area, at(area)), shared)
        is_some = inner.call("less", inner.constant(0, "float32"), inner.call("minimum", area, at(area)))
        ratio = inner.call("where", is_some, inner.call("divide", shared, union), inner.constant(0, "float32"))
        squared = inner.call("multiply", inner.call("multiply", ratio, ratio), inner.constant(-0.5 / sigma, "float32"))
        lowered = inner.call("multiply", scores, inner.call("exp", squared))
        gone = inner.call("logical_or", inner.call("less_equal", overlap, ratio), inner.call("less_equal", lowered, least))
        is_best = inner.call("equal", inner.constant(np.arange(_count(scores)), "int64"), inner.cast(best, "int64"))
        gone = inner.call("logical_or", gone, is_best)
        here = inner.call("equal", inner.constant(np.arange(size), "int32"), count)
        places = inner.call("where", here, inner.cast(best, "int32"), places)
        found = inner.call("where", here, at(scores), found)
        after = inner.call("where", gone, inner.constant(-np.inf, "float32"), lowered)
        return [after, inner.call("add", count, inner.constant(1, "int32")), places, found, *v[4:]]

    if not isinstance(scores.shape[0], int):
        raise g.unsupported("a number of boxes that is known at run time only, with sigma above 0; expected a constant")
    _, count, places, found, *_ = repeat_while(g, first, goes_on, step)
    return [places, found, count]


def _count(vector: Value) -> int:
    size = vector.shape[0]
    assert isinstance(size, int)
    return size


_OPTIONS = {
    "max_detections": 0, "max_classes_per_detection": 0, "detections_per_class": 100, "use_regular_nms": False,
    "nms_score_threshold": 0.0, "nms_iou_threshold": 0.0, "num_classes": 0, "y_scale": 1.0, "x_scale": 1.0, "h_scale": 1.0,
    "w_scale": 1.0,
}


@converts("TFLite_Detection_PostProcess", domain=CUSTOM)
def detection(g: Context, encodings: Value, scores: Value, anchors: Value) -> list[Value]:
    """Boxes [1, n, 4] as ymin, xmin, ymax, xmax, their classes and scores [1, n], and how many there are, [1], all float32.

    Boxes are encoded relative to anchors, by centres and sizes. By default the best scores of each box compete, whatever their
    classes; with ``use_regular_nms`` boxes compete with those of their class only. Behind the detections are zeros.
    """
    options = g.custom_options(_OPTIONS)
    classes, most, every = options["num_classes"], options["max_detections"], options["max_classes_per_detection"]
    if encodings.rank != 3 or scores.rank != 3 or not isinstance(scores.shape[2], int) or not 0 < classes <= scores.shape[2]:
        raise g.invalid(f"got boxes {encodings.type} and scores {scores.type} of {classes} classes; expected three dimensions")
    if most < 1 or every < 1:
        raise g.invalid(f"got max_detections {most} and max_classes_per_detection {every}; expected 1 or more")
    boxes = _decoded(g, encodings, anchors, [options[f"{side}_scale"] for side in "yxhw"])
    begin = scores.shape[2] - classes
    own = g.call("strided_slice", scores, begin=(begin,), end=(begin + classes,), strides=(1,), axes=(2,))
    own = g.call("squeeze", own, axis=(0,))
    overlap = g.constant(options["nms_iou_threshold"], "float32")
    least = g.constant(np.nextafter(np.float32(options["nms_score_threshold"]), np.float32(-np.inf)), "float32")
    if options["use_regular_nms"]:
        found = _by_class(g, boxes, own, most, options["detections_per_class"], overlap, least)
    else:
        found = _by_best(g, boxes, own, most, min(every, classes), overlap, least)
    return _detections(g, boxes, *found, most * (1 if options["use_regular_nms"] else every))


def _decoded(g: Context, encodings: Value, anchors: Value, scales: Sequence[float]) -> Value:
    """Boxes [n, 4] by their corners."""
    def column(value: Value, k: int) -> Value:
        return g.call("take", value, g.constant(k, "int64"), axis=1)

    flat = g.call("squeeze", encodings, axis=(0,))
    low, high = [], []
    for k in (0, 1):
        centre, extent = column(anchors, k), column(anchors, k + 2)
        offset = g.call("multiply", g.call("divide", column(flat, k), g.constant(scales[k], "float32")), extent)
        middle = g.call("add", offset, centre)
        grown = g.call("exp", g.call("divide", column(flat, k + 2), g.constant(scales[k + 2], "float32")))
        half = g.call("multiply", g.call("multiply", g.constant(0.5, "float32"), grown), extent)
        low.append(g.call("subtract", middle, half))
        high.append(g.call("add", middle, half))
    return g.call("stack", *low, *high, axis=1)


def _by_best(
    g: Context, boxes: Value, scores: Value, most: int, every: int, overlap: Value, least: Value
) -> tuple[Value, Value, Value]:
    """Boxes, classes and scores of detections, ``every`` classes of each box that its best score keeps."""
    values, kinds = g.multi("topk", scores, k=every, axis=1)
    best = g.call("max", scores, axis=(1,))
    rows = g.call(
        "vision.non_max_suppression", g.call("expand_dims", boxes, axis=0), g.reshape(best, (1, 1, best.shape[0])),
        g.constant(most, "int64"), overlap, least)
    places = g.call("take", rows, g.constant(2, "int64"), axis=1)
    kept = [g.reshape(g.call("take", v, places, axis=0), (-1,)) for v in (kinds, values)]
    repeated = g.reshape(g.call("broadcast_to", g.call("expand_dims", places, axis=1), shape=(places.shape[0], every)), (-1,))
    return repeated, kept[0], kept[1]


def _by_class(
    g: Context, boxes: Value, scores: Value, most: int, of_class: int, overlap: Value, least: Value
) -> tuple[Value, Value, Value]:
    """Boxes, classes and scores of detections, by falling scores."""
    turned = g.call("expand_dims", g.moved(scores, (1, 0)), axis=0)
    rows = g.call(
        "vision.non_max_suppression", g.call("expand_dims", boxes, axis=0), turned, g.constant(of_class, "int64"), overlap, least)
    kinds, places = (g.call("take", rows, g.constant(k, "int64"), axis=1) for k in (1, 2))
    classes = g.constant(int(scores.shape[1]) if isinstance(scores.shape[1], int) else 1, "int64")
    flat = g.call("add", g.call("multiply", places, classes), kinds)
    values = g.call("take", g.reshape(scores, (-1,)), flat, axis=0)
    order = g.call("argsort", values, axis=0, is_ascend=False, dtype="int64")
    first = g.call("strided_slice", order, begin=(0,), end=(most,), strides=(1,), axes=(0,))
    return tuple(g.call("take", v, first, axis=0) for v in (places, kinds, values))  # type: ignore[return-value]


def _detections(g: Context, boxes: Value, places: Value, kinds: Value, values: Value, size: int) -> list[Value]:
    count = g.cast(g.reshape(g.extent(places, 0), (1,)), "float32")
    parts = [g.call("take", boxes, places, axis=0), g.cast(kinds, "float32"), values]
    return [*(g.call("expand_dims", _filled(g, part, size), axis=0) for part in parts), count]
