"""Non-maximum suppression of boxes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import fresh_dims, same_dtype, unify_dim
from forge.ops.core.op import Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Dim, TensorType, TensorTypes, Types, Value, Values
from forge.ops.sort.sort import stable_order


@dataclass(frozen=True)
class SuppressionAttrs:
    center_point_box: bool = False


def _check_boxes(op: str, boxes: Value, scores: Value) -> None:
    same_dtype(op, [boxes, scores])
    unify_dim(op, boxes.shape[0], scores.shape[0], "batch of boxes and scores")
    unify_dim(op, boxes.shape[1], scores.shape[2], "number of boxes and scores")
    unify_dim(op, boxes.shape[2], 4, "numbers of a box")


def _corners(boxes: Array, centred: bool) -> tuple[Array, Array]:
    """Lower and upper corners of boxes, as (.., 2)."""
    a, b = boxes[..., :2], boxes[..., 2:]
    if centred:
        a, b = a - b / 2, a + b / 2
    return np.minimum(a, b), np.maximum(a, b)


def _overlap(low: Array, high: Array, i: int, j: int) -> float:
    """Intersection over union of two boxes; 0 when they have no area."""
    common = np.prod(np.maximum(np.minimum(high[i], high[j]) - np.maximum(low[i], low[j]), 0))
    union = np.prod(high[i] - low[i]) + np.prod(high[j] - low[j]) - common
    return float(common / union) if union > 0 else 0.0


@register
class BoxSuppression(Op[SuppressionAttrs]):
    """Numbers, plus 1, of the boxes that non-maximum suppression keeps, by descending score, for every batch and class; then 0.

    A box is kept while fewer than limit are, if its score exceeds score_threshold and it overlaps with none kept before by more
    than iou_threshold.
    """

    name = "vision.box_suppression"
    boxes, scores = Operand(accepts="float", rank=3), Operand(accepts="float", rank=3)
    limit = Operand(accepts="int64", rank=1)
    iou_threshold, score_threshold = Operand(rank=1), Operand(optional=True, rank=1)
    kernel = "box_suppression"

    def infer(self, attrs: SuppressionAttrs, boxes: Value, scores: Value, limit: Value, *thresholds: Value | None) -> Types:
        _check_boxes(self.name, boxes, scores)
        same_dtype(self.name, [boxes, *(t for t in thresholds if t is not None)])
        return [TensorType(scores.shape, "int64")]

    def reference(
        self,
        attrs: SuppressionAttrs,
        boxes: Array,
        scores: Array,
        limit: Array,
        iou_threshold: Array,
        score_threshold: Array | None,
    ) -> Arrays:
        kept = np.zeros(scores.shape, np.int64)
        order, most = stable_order(scores, -1, ascending=False), float(iou_threshold[0])
        for batch, class_ in np.ndindex(scores.shape[:2]):
            low, high = _corners(numeric.widen(boxes[batch]), attrs.center_point_box)
            chosen: list[int] = []
            for box in order[batch, class_].tolist():
                if len(chosen) >= int(limit[0]):
                    break
                if score_threshold is not None and not scores[batch, class_, box] > score_threshold[0]:
                    continue
                if all(_overlap(low, high, box, other) <= most for other in chosen):
                    chosen.append(box)
            kept[batch, class_, : len(chosen)] = np.array(chosen, np.int64) + 1
        return [kept]

    def flops(self, attrs: SuppressionAttrs, results: TensorTypes, *_: object) -> Dim:
        return results[0].size * results[0].shape[2]


@register
class NonMaxSuppression(Op[SuppressionAttrs]):
    """Rows (batch, class, box) of the boxes that greedy suppression keeps, by batch, class and descending score.

    boxes: [batch, box, 4], two opposite corners in any order or (``center_point_box``) centre and size; scores: [batch,
    class, box]. At most max_output_size boxes of a class are kept (none without it), each with a score above
    score_threshold and an intersection over union of at most iou_threshold (0 without it) with those kept before.
    """

    name = "vision.non_max_suppression"
    boxes, scores = Operand(accepts="float", rank=3), Operand(accepts="float", rank=3)
    max_output_size = Operand(optional=True, accepts="index", single=True)
    iou_threshold = Operand(optional=True, accepts="float", single=True)
    score_threshold = Operand(optional=True, accepts="float", single=True)

    def infer(self, attrs: SuppressionAttrs, boxes: Value, scores: Value, *_: object) -> Types:
        _check_boxes(self.name, boxes, scores)
        return [TensorType((*fresh_dims("kept", 1), 3), "int64")]

    def reference(
        self,
        attrs: SuppressionAttrs,
        boxes: Array,
        scores: Array,
        max_output_size: Array | None,
        iou_threshold: Array | None,
        score_threshold: Array | None,
    ) -> Arrays:
        limit, threshold, least = max_output_size, iou_threshold, score_threshold
        limit, threshold = (np.zeros(1) if v is None else v.reshape(1) for v in (limit, threshold))
        least = None if least is None else least.reshape(1)
        (kept,) = BoxSuppression().reference(attrs, boxes, scores, limit, threshold, least)
        found = np.argwhere(kept)
        return [np.concatenate([found[:, :2], kept[tuple(found.T)][:, None] - 1], axis=1)]

    def decompose(
        self,
        builder: Builder,
        attrs: SuppressionAttrs,
        boxes: Value,
        scores: Value,
        max_output_size: Value | None,
        iou_threshold: Value | None,
        score_threshold: Value | None,
    ) -> Values:
        def vector(operand: Value | None, dtype: str) -> Value | None:
            return operand and builder.call("reshape", builder.call("cast", operand, dtype=dtype), newshape=(1,))

        limit = vector(max_output_size, "int64") or builder.constant(np.array([0]), "int64")
        overlap = vector(iou_threshold, boxes.dtype) or builder.constant(np.array([0]), boxes.dtype)
        settings = (limit, overlap, vector(score_threshold, boxes.dtype))
        kept = builder.call(BoxSuppression(), boxes, scores, *settings, center_point_box=attrs.center_point_box)
        found = builder.call("argwhere", kept)
        numbers = builder.call("gather_nd", kept, builder.call("transpose", found, axes=(1, 0)))
        box = builder.call("subtract", numbers, builder.constant(np.array(1), "int64"))
        rows = builder.call("strided_slice", found, begin=(0,), end=(2,), strides=(1,), axes=(1,))
        return [builder.call("concatenate", rows, builder.call("expand_dims", box, axis=1), axis=1)]
