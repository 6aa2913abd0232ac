"""Running extremes with their positions, and running log-sums of exponentials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge.ir.batch import Batch
from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.ops import numeric
from forge.ops.base import Accuracy, Category, Op, Operand, register
from forge.ops.batch_parts import carry_beside
from forge.ops.infer_helpers import expect_dtype, normalize_axis, tensor
from forge.ops.signatures import Arrays, Regions, TensorTypes, Types, Values


@dataclass(frozen=True)
class RunningAttrs:
    axis: int = 0


class RunningExtreme(Op[RunningAttrs]):
    """cummax and cummin."""

    operands = (Operand("data"),)
    Attrs = RunningAttrs
    kernel = "running_extreme"
    category = Category.REDUCTION
    largest: bool

    def infer(self, operands: Values, attrs: RunningAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        expect_dtype(self.name, data, "data", "numeric")
        normalize_axis(self.name, attrs.axis, data.rank)
        return [data, TensorType(data.shape, "int64")]

    def carry_batch(
        self, operands: Values, attrs: RunningAttrs, results: Types, batches: Sequence[Batch | None]
    ) -> Sequence[Batch | None]:
        return carry_beside(attrs.axis, results, batches)

    def reference(self, operands: Arrays, attrs: RunningAttrs) -> Arrays:
        rows = np.moveaxis(numeric.widen(operands[0]), attrs.axis, -1)
        places = np.zeros(rows.shape, np.int64)
        for row in np.ndindex(rows.shape[:-1]):
            best = 0
            for k, value in enumerate(rows[row]):
                old = rows[row][best]
                if np.isnan(value) or (value >= old if self.largest else value <= old):
                    best = k
                places[(*row, k)] = best
        places = np.moveaxis(places, -1, attrs.axis)
        return [np.take_along_axis(operands[0], places, attrs.axis), places]

    def flops(self, operands: Sequence[Any], attrs: RunningAttrs, results: TensorTypes) -> Any:
        return results[0].size


@register
class CumMax(RunningExtreme):
    """The largest of the elements up to each one along ``axis``, and its position: the last of equal ones. NaN wins."""

    name = "cummax"
    largest = True


@register
class CumMin(RunningExtreme):
    """The smallest of the elements up to each one along ``axis``, and its position: the last of equal ones. NaN wins."""

    name = "cummin"
    largest = False


@register
class LogCumSumExp(Op[RunningAttrs]):
    """log of the sum of exp of the elements up to each one along ``axis``."""

    name = "logcumsumexp"
    operands = (Operand("data"),)
    Attrs = RunningAttrs
    kernel = "running_logsumexp"
    accuracy = Accuracy.ACCUMULATING
    category = Category.REDUCTION

    def infer(self, operands: Values, attrs: RunningAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        expect_dtype(self.name, data, "data", "float")
        normalize_axis(self.name, attrs.axis, data.rank)
        return [data]

    def carry_batch(
        self, operands: Values, attrs: RunningAttrs, results: Types, batches: Sequence[Batch | None]
    ) -> Sequence[Batch | None]:
        return carry_beside(attrs.axis, results, batches)

    def reference(self, operands: Arrays, attrs: RunningAttrs) -> Arrays:
        data = numeric.widest(operands[0])
        return [np.logaddexp.accumulate(data, axis=attrs.axis).astype(operands[0].dtype)]

    def decompose(self, builder: Builder, operands: Values, attrs: RunningAttrs) -> Sequence[Value] | None:
        (data,) = operands
        assert data is not None
        if data.dtype in ("float32", "float64"):
            return None
        wide = builder.call("cast", data, dtype="float32")
        return [builder.call("cast", builder.call(self, wide, axis=attrs.axis), dtype=data.dtype)]

    def flops(self, operands: Sequence[Any], attrs: RunningAttrs, results: TensorTypes) -> Any:
        return 20 * results[0].size


__all__ = ["CumMax", "CumMin", "LogCumSumExp"]
