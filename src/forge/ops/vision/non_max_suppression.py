"""Non-maximum suppression of boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.op import Operand
from forge.ir.types import TensorType
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import expect_dtype, expect_rank, fresh_dims, same_dtype, tensor, unify_dim
from forge.ops.core.lowering import optional_operand
from forge.ops.core.op import Op, register
from forge.ops.core.signatures import Array, Arrays, Regions, TensorTypes, Types, Values
from forge.ops.shape.full import one_element
from forge.ops.sort.sort import stable_order


@dataclass(frozen=True)
class SuppressionAttrs:
    center_point_box: bool = False


def _check_boxes(op: str, operands: Values) -> tuple[TensorType, TensorType]:
    boxes, scores = tensor(op, operands[0], "boxes"), tensor(op, operands[1], "scores")
    for name, type_ in (("boxes", boxes), ("scores", scores)):
        expect_rank(op, type_, name, 3)
        expect_dtype(op, type_, name, "float")
    same_dtype(op, [boxes, scores])
    unify_dim(op, boxes.shape[0], scores.shape[0], "batch of boxes and scores")
    unify_dim(op, boxes.shape[1], scores.shape[2], "number of boxes and scores")
    unify_dim(op, boxes.shape[2], 4, "numbers of a box")
    return boxes, scores


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
    """1 for every place of order whose box non-maximum suppression keeps, else 0; in int64.

    order holds box numbers by descending score, for every batch and class. A place is kept while fewer than limit are, if
    its score exceeds score_threshold and its box overlaps with none kept before by more than iou_threshold.
    """

    name = "vision.box_suppression"
    boxes, scores, order, limit, iou_threshold = Operand(), Operand(), Operand(), Operand(), Operand()
    score_threshold = Operand(optional=True)
    kernel = "box_suppression"

    def infer(self, operands: Values, attrs: SuppressionAttrs, regions: Regions = ()) -> Types:
        boxes, scores = _check_boxes(self.name, operands)
        order = tensor(self.name, operands[2], "order")
        expect_dtype(self.name, order, "order", "int64")
        for a, b in zip(order.shape, scores.shape, strict=True):
            unify_dim(self.name, a, b, "shape of order")
        for k, name, dtype in ((3, "limit", "int64"), (4, "iou_threshold", boxes.dtype), (5, "score_threshold", boxes.dtype)):
            operand = optional_operand(operands, k)
            if operand is not None:
                expect_rank(self.name, tensor(self.name, operand, name), name, 1)
                expect_dtype(self.name, tensor(self.name, operand, name), name, dtype)
        return [TensorType(scores.shape, "int64")]

    def reference(self, operands: Arrays, attrs: SuppressionAttrs) -> Arrays:
        boxes, scores, order, limit, threshold, least = [*operands, None][:6]
        kept = np.zeros(scores.shape, np.int64)
        for batch, class_ in np.ndindex(scores.shape[:2]):
            low, high = _corners(numeric.widen(boxes[batch]), attrs.center_point_box)
            chosen: list[int] = []
            for place, box in enumerate(order[batch, class_].tolist()):
                if len(chosen) >= int(limit[0]):
                    break
                if least is not None and not scores[batch, class_, box] > least[0]:
                    continue
                if all(_overlap(low, high, box, other) <= threshold[0] for other in chosen):
                    chosen.append(box)
                    kept[batch, class_, place] = 1
        return [kept]

    def flops(self, operands: Sequence[Any], attrs: SuppressionAttrs, results: TensorTypes) -> Any:
        return results[0].size * results[0].shape[2]


@register
class NonMaxSuppression(Op[SuppressionAttrs]):
    """Rows (batch, class, box) of the boxes that greedy suppression keeps, by batch, class and descending score.

    boxes: [batch, box, 4], two opposite corners in any order or (``center_point_box``) centre and size; scores: [batch,
    class, box]. At most max_output_size boxes of a class are kept (none without it), each with a score above
    score_threshold and an intersection over union of at most iou_threshold (0 without it) with those kept before.
    """

    name = "vision.non_max_suppression"
    boxes, scores, max_output_size = Operand(), Operand(), Operand(optional=True)
    iou_threshold, score_threshold = Operand(optional=True), Operand(optional=True)

    def infer(self, operands: Values, attrs: SuppressionAttrs, regions: Regions = ()) -> Types:
        _check_boxes(self.name, operands)
        for k, accepted in ((2, "index"), (3, "float"), (4, "float")):
            operand = optional_operand(operands, k)
            if operand is not None:
                one_element(self.name, operand, self.operands[k].name)
                expect_dtype(self.name, tensor(self.name, operand, self.operands[k].name), self.operands[k].name, accepted)
        return [TensorType((*fresh_dims("kept", 1), 3), "int64")]

    def reference(self, operands: Arrays, attrs: SuppressionAttrs) -> Arrays:
        boxes, scores, limit, threshold, least = [*operands, None, None, None][:5]
        order = stable_order(scores, -1, ascending=False).astype(np.int64)
        limit, threshold = (np.zeros(1) if v is None else v.reshape(1) for v in (limit, threshold))
        least = None if least is None else least.reshape(1)
        (kept,) = BoxSuppression().reference([boxes, scores, order, limit, threshold, least], attrs)
        found = np.argwhere(kept)
        return [np.concatenate([found[:, :2], order[tuple(found.T)][:, None]], axis=1)]

    def decompose(self, builder: Builder, operands: Values, attrs: SuppressionAttrs) -> Sequence[Value]:
        boxes, scores = operands[0], operands[1]
        assert boxes is not None and scores is not None

        def number(k: int, dtype: str, default: int | None) -> Value | None:
            operand = optional_operand(operands, k)
            if operand is None:
                return None if default is None else builder.constant(np.array([default]), dtype)
            return builder.call("reshape", builder.call("cast", operand, dtype=dtype), newshape=(1,))

        order = builder.call("argsort", scores, axis=-1, is_ascend=False, dtype="int64")
        least = number(4, boxes.dtype, None)
        settings = [number(2, "int64", 0), number(3, boxes.dtype, 0), *([] if least is None else [least])]
        kept = builder.call(BoxSuppression(), boxes, scores, order, *settings, center_point_box=attrs.center_point_box)
        found = builder.call("argwhere", kept)
        box = builder.call("gather_nd", order, builder.call("transpose", found, axes=(1, 0)))
        rows = builder.call("strided_slice", found, begin=(0,), end=(2,), strides=(1,), axes=(1,))
        return [builder.call("concatenate", rows, builder.call("expand_dims", box, axis=1), axis=1)]
