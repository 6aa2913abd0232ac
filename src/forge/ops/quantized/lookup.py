"""Functions of eight bits as tables."""

from __future__ import annotations

from forge import te
from forge.ops.core.inference import fail
from forge.ops.core.layout_change import LayoutChange
from forge.ops.core.op import Category, Kind, NoAttrs, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Expr, Lowered, Tensor, TensorType, TensorTypes, Value

ENTRIES = 256


@register
class Lookup(Op[NoAttrs]):
    """``out[i] = table[data[i]]``, what quantized activations are: any function of a number of eight bits.

    Operands: data of uint8, table of 256 numbers of any type, which is that of the result.
    """

    name = "qnn.lookup"
    data, table = Operand(accepts="uint8"), Operand(rank=1)
    kind = Kind.ELEMENTWISE
    category = Category.QUANTIZATION
    is_map = False

    def infer(self, attrs: NoAttrs, data: Value, table: Value) -> TensorTypes:
        if table.shape != (ENTRIES,):
            raise fail(self.name, "operand 'table'", table.type, f"{ENTRIES} elements")
        return [TensorType(data.shape, table.dtype)]

    def reference(self, attrs: NoAttrs, data: Array, table: Array) -> Arrays:
        return [table[data]]

    def lower(self, attrs: NoAttrs, results: TensorTypes, data: Tensor, table: Tensor) -> Lowered:
        def body(*i: Expr) -> Expr:
            return table[te.cast(data[i], "int64")]

        return [te.compute(te.shape_of(results[0].shape), body, name="lookup")]

    def in_layout(self, change: LayoutChange) -> Value | None:
        return change.on_first(self.node)
