"""Optional values. They live on the host; an empty optional is None."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forge.ir.text.cursor import Cursor
from forge.ir.types import OptionalType
from forge.ops.core.inference import fail
from forge.ops.core.op import NoAttrs, Operand, Trait, register
from forge.ops.core.signatures import Arrays, ReferenceValue, TensorType, Types, Value
from forge.ops.sequence.sequence import HostOp, taken


@dataclass(frozen=True)
class OptionalAttrs:
    type: str = ""


@register
class MakeOptional(HostOp):
    """An optional that holds value; without value an empty one for values of ``type`` (as text)."""

    name = "optional"
    host_routine = "sequence_construct"
    value = Operand(optional=True, any_type=True)
    Attrs = OptionalAttrs

    def infer(self, attrs: OptionalAttrs, value: Value | None) -> Types:
        if value is None and not attrs.type:
            raise fail(self.name, "attribute type", "none", "the type of the value that is absent")
        return [OptionalType(Cursor(attrs.type).type() if value is None else value.type)]

    def reference(self, attrs: OptionalAttrs, value: ReferenceValue) -> Arrays:
        return [value]


@register
class OptionalHasElement(HostOp):
    """Whether the optional holds a value; a value that is no optional does."""

    name = "optional_has_element"
    host_routine = "optional_has"
    optional = Operand(optional=True, any_type=True)

    def infer(self, attrs: NoAttrs, *_: object) -> Types:
        return [TensorType((), "bool")]

    def reference(self, attrs: NoAttrs, optional: ReferenceValue) -> Arrays:
        return [np.array(optional is not None)]


@register
class OptionalGetElement(HostOp):
    """The value that the optional holds; a value that is no optional is itself.

    Raises (reference): ValueError for an empty optional.
    """

    name = "optional_get_element"
    host_routine = "optional_get"
    optional = Operand(any_type=True)
    traits = Trait.HOST | Trait.MAY_FAIL

    def infer(self, attrs: NoAttrs, optional: Value) -> Types:
        type_ = optional.type
        return [taken(type_.element) if isinstance(type_, OptionalType) else type_]

    def reference(self, attrs: NoAttrs, optional: ReferenceValue) -> Arrays:
        if optional is None:
            raise ValueError("optional_get_element: the optional is empty; expected a value; ask optional_has_element first")
        return [optional]
