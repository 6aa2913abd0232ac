"""Boxes that are kept of those that overlap."""

from __future__ import annotations

import numpy as np

from forge.compose import suppression
from forge.compose.axes import along, places
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts, refuse
from forge.ir.nodes import Value
from forge.ops.core.term import Term

refuse("NonMaxSuppressionWithOverlaps", "overlaps that are given are not converted; expected boxes")


def _number(g: Context, value: Value, dtype: str) -> Value:
    return g.cast(g.reshape(value, ()), dtype)


def _kept(
    g: Context, boxes: Value, scores: Value, most: Value, overlap: Value, least: Value | None
) -> Value:
    low = g.constant(-np.inf, boxes.dtype) if least is None else _number(g, least, boxes.dtype)
    size = g.one_int(most, "max_output_size")
    if size < 0:
        raise g.invalid(f"max_output_size: got {size}; expected 0 or more")
    found = suppression.kept(g, boxes, scores, size, _number(g, overlap, boxes.dtype), low)
    found = g.cast(found, "int32")
    return found if size else g.call("strided_slice", found, begin=(0,), end=(0,), strides=(1,), axes=(0,))


@converts("NonMaxSuppression")
def non_max_suppression(g: Context, boxes: Value, scores: Value, most: Value, *, iou_threshold: float = 0.5) -> Value:
    return _kept(g, boxes, scores, most, g.constant(iou_threshold, "float32"), None)


@converts("NonMaxSuppressionV2")
def non_max_suppression_v2(g: Context, boxes: Value, scores: Value, most: Value, overlap: Value) -> Value:
    return _kept(g, boxes, scores, most, overlap, None)


@converts("NonMaxSuppressionV3")
def non_max_suppression_v3(
    g: Context, boxes: Value, scores: Value, most: Value, overlap: Value, least: Value
) -> Value:
    return _kept(g, boxes, scores, most, overlap, least)


@converts("NonMaxSuppressionV4", outputs="selected_indices valid_outputs")
def non_max_suppression_v4(
    g: Context, boxes: Value, scores: Value, most: Value, overlap: Value, least: Value, *,
    pad_to_max_output_size: bool = False,
) -> list[Value]:
    found = _kept(g, boxes, scores, most, overlap, least)
    count = g.extent(found, 0, "int32")
    size = g.one_int(most, "max_output_size")
    return [suppression.filled(g, found, size) if pad_to_max_output_size else found, count]


@converts("NonMaxSuppressionV5", outputs="selected_indices selected_scores valid_outputs")
def non_max_suppression_v5(
    g: Context, boxes: Value, scores: Value, most: Value, overlap: Value, least: Value, sigma: Value, *,
    pad_to_max_output_size: bool = False,
) -> list[Value]:
    """Where ``sigma`` is above 0, overlap with a box that is kept lowers a score, and leaves out none."""
    known = g.array(sigma)
    if known is None:
        raise g.unsupported("soft_nms_sigma is computed at run time; expected a constant")
    size, spread = g.one_int(most, "max_output_size"), float(known.reshape(-1)[0])
    if spread > 0:
        corners, wide = (g.cast(v, "float32") for v in (boxes, scores))
        found, values, count = suppression.softly(g, corners, wide, size, _number(g, least, "float32"), spread)
        if not pad_to_max_output_size:
            found, values = (_first(g, v, count) for v in (found, values))
        return [found, g.cast(values, scores.dtype), count]
    found = _kept(g, boxes, scores, most, overlap, least)
    values, count = g.call("take", scores, found, axis=0), g.extent(found, 0, "int32")
    if pad_to_max_output_size:
        found, values = (suppression.filled(g, v, size) for v in (found, values))
    return [found, values, count]


def _first(g: Context, vector: Value, count: Value) -> Value:
    begin, step, axis = (g.constant([k], "int64") for k in (0, 1, 0))
    return g.call("strided_slice", vector, begin, g.reshape(g.cast(count, "int64"), (1,)), step, axis)


@converts("CombinedNonMaxSuppression", outputs="nmsed_boxes nmsed_scores nmsed_classes valid_detections")
def combined_non_max_suppression(
    g: Context, boxes: Value, scores: Value, of_class: Value, most: Value, overlap: Value, least: Value, *,
    pad_per_class: bool = False, clip_boxes: bool = True,
) -> list[Value]:
    """The best of the boxes of each image that are kept for each class, by falling scores, then zeros.

    Boxes are [images, count, 1, or classes, 4], scores [images, count, classes].
    """
    images, count, classes = scores.shape
    if not isinstance(count, int) or not isinstance(classes, int) or boxes.rank != 4:
        raise g.unsupported(f"got boxes {boxes.type} and scores {scores.type}; expected a known number of boxes and classes")
    each, total = g.one_int(of_class, "max_output_size_per_class"), g.one_int(most, "max_total_size")
    if each < 1 or total < 1:
        raise g.invalid(f"got at most {each} boxes of a class, {total} in all; expected 1 or more")
    total = min(total, each * classes) if pad_per_class else total
    by_class = g.moved(scores, (0, 2, 1))
    own = boxes.shape[2]
    groups = (images * classes, 1) if own != 1 else (images, classes)
    corners = g.reshape(g.moved(boxes, (0, 2, 1, 3)), (groups[0], count, 4))
    limits = [g.reshape(g.cast(v, "float32"), (1,)) for v in (overlap, least)]
    kept = g.call("vision.box_suppression", corners, g.reshape(by_class, (*groups, count)), g.constant([each], "int64"), *limits)
    kept = g.reshape(kept, (images, classes, count))
    is_some = g.call("greater", kept, g.constant(0, "int64"))
    box = g.call("maximum", g.call("subtract", kept, g.constant(1, "int64")), g.constant(0, "int64"))
    value = g.call("where", is_some, g.call("gather", by_class, box, axis=2), g.constant(-np.inf, "float32"))
    size = min(total, classes * count)
    best, place = g.multi("topk", g.reshape(value, (images, classes * count)), k=size, axis=1)
    number = Term(g, g.call("gather", g.reshape(box, (images, classes * count)), place, axis=1))
    kind = Term(g, g.cast(place, "int64")).floor_divide(count)
    image = Term(g, along(g, places(g, best, 0), 0, 2))
    group = image if own == 1 else image * classes + kind
    flat = g.reshape(corners, (groups[0] * count, 4))
    chosen = g.call("take", flat, (group * count + number).value, axis=0)
    if clip_boxes:
        chosen = g.call("clip", chosen, a_min=0.0, a_max=1.0)
    is_valid = g.call("greater", best, g.constant(-np.inf, "float32"))
    zero = g.constant(0, "float32")
    parts = [
        g.call("where", g.call("expand_dims", is_valid, axis=2), chosen, zero), g.call("where", is_valid, best, zero),
        g.call("where", is_valid, kind.cast("float32").value, zero)]
    ends = [tuple((0, total - size if k == 1 else 0) for k in range(v.rank)) for v in parts]
    filled = [g.call("nn.pad", v, zero, pad_width=widths) for v, widths in zip(parts, ends)]
    return [*filled, g.call("sum", g.cast(is_valid, "int32"), axis=(1,))]
