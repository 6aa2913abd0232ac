"""Conditions on data, which are checked when the model runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forge.errors import ExecutionError
from forge.ir.batch import Batch, MixesBatch
from forge.ops.core.inference import fail
from forge.ops.core.op import Category, Op, Operand, Trait, register
from forge.ops.core.signatures import Array, Arrays, Types, Value


@dataclass(frozen=True)
class CheckAttrs:
    message: str = "a condition of the model does not hold"


@register
class Check(Op[CheckAttrs]):
    """condition, which is true, or the run fails with ``message``. It is never removed, used or not."""

    name = "check"
    condition = Operand(accepts="bool", rank=0)
    traits = Trait.STATEFUL | Trait.MAY_FAIL
    kernel = "check"
    category = Category.CONTROL

    def infer(self, attrs: CheckAttrs, condition: Value) -> Types:
        if not attrs.message or not attrs.message.isprintable():
            raise fail(self.name, "message", repr(attrs.message), "printable text")
        return [condition.type]

    def reference(self, attrs: CheckAttrs, condition: Array) -> Arrays:
        if not condition:
            raise ExecutionError(f"{self.name}: {attrs.message}")
        return [condition]

    def carry_batch(
        self, attrs: CheckAttrs, results: Types, batches: Sequence[Batch | None], condition: Value
    ) -> Sequence[Batch | None]:
        if batches[0] is not None:
            raise MixesBatch("is of one condition, and not of one for each element", certain=True)
        return [None]
