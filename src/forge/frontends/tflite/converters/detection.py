"""Boxes that are kept of those that overlap, and the custom operator that ends detectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge.compose.suppression import filled, kept, softly
from forge.frontends.tflite.context import Context
from forge.frontends.tflite.registry import CUSTOM, converts
from forge.ir.nodes import Value


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
        return softly(g, boxes, scores, size, g.reshape(least, ()), spread, g.reshape(overlap, ()))
    places, count = _kept(g, boxes, scores, size, _before(g, overlap), g.reshape(least, ()))
    inside = g.call("less", g.constant(np.arange(size), "int32"), count)
    found = g.call("take", scores, places, axis=0)
    return [places, g.call("where", inside, found, g.constant(0, "float32")), count]


def _before(g: Context, threshold: Value) -> Value:
    """The greatest number below a threshold: here a box that overlaps by the threshold itself is left out."""
    return g.call("nextafter", g.reshape(threshold, ()), g.constant(-np.inf, "float32"))


def _kept(g: Context, boxes: Value, scores: Value, size: int, overlap: Value, least: Value) -> tuple[Value, Value]:
    """Positions of at most ``size`` boxes, filled up with 0, and their number, int32."""
    places = kept(g, boxes, scores, size, overlap, least)
    return filled(g, g.cast(places, "int32"), size), g.cast(g.extent(places, 0), "int32")


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
    places = kept(g, boxes, best, most, overlap, least)
    chosen = [g.reshape(g.call("take", v, places, axis=0), (-1,)) for v in (kinds, values)]
    repeated = g.reshape(g.call("broadcast_to", g.call("expand_dims", places, axis=1), shape=(places.shape[0], every)), (-1,))
    return repeated, chosen[0], chosen[1]


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
    return [*(g.call("expand_dims", filled(g, part, size), axis=0) for part in parts), count]
