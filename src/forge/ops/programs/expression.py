"""Tensor expressions as operators."""

from __future__ import annotations

from collections.abc import Sequence

from forge import te
from forge.dims import Dim
from forge.ir.types import TensorType
from forge.ops.core.composer import Composer
from forge.ops.core.inference import broadcast_shapes, fail
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, Precision, register
from forge.ops.core.signatures import Array, Arrays, Builder, Conditions, Lowered, Tensor, TensorTypes, Types, Value, Values
from forge.ops.programs.binding import KernelAttrs, checked_sizes, conditions, shape_of, sizes_of
from forge.ops.programs.stages import split
from forge.tir.evaluate import evaluate
from forge.tir.rewrite import substitute
from forge.tir.text import Expression, read_expression
from forge.tir.text.running import evaluated
from forge.tir.visit import is_costly


class _Expression(Op[KernelAttrs]):
    """What all operators of tensor expressions have in common."""

    operands = (Operand("operands", variadic=True),)
    accuracy = Accuracy.ACCUMULATING

    def infer(self, attrs: KernelAttrs, *operands: Value) -> Types:
        expression = self._read(attrs, len(operands))
        sizes = checked_sizes(self.name, expression, attrs.sizes, [v.tensor_type for v in operands])
        for stage in expression.stages:
            shape_of(self.name, expression, stage, sizes)
        return [TensorType(shape_of(self.name, expression, t, sizes), t.dtype) for t in expression.results]

    def _read(self, attrs: KernelAttrs, count: int) -> Expression:
        expression = read_expression(attrs.program)
        if len(expression.parameters) != count:
            raise fail(self.name, f"{expression.name}: operands", count, len(expression.parameters))
        return expression

    def reference(self, attrs: KernelAttrs, *operands: Array) -> Arrays:
        expression = read_expression(attrs.program)
        numbers = dict(zip(expression.scalars, attrs.sizes))
        return evaluated(expression, operands, numbers)  # type: ignore[arg-type]

    def lower(self, attrs: KernelAttrs, results: TensorTypes, *operands: Tensor) -> Lowered:
        expression = read_expression(attrs.program)
        sizes = sizes_of(expression, attrs.sizes, [t.shape for t in operands])
        placed = expression.over(operands, sizes)
        return [placed[t] for t in expression.results]

    def requires(self, attrs: KernelAttrs, results: TensorTypes, *operands: TensorType) -> Conditions:
        expression = read_expression(attrs.program)
        return conditions(expression, sizes_of(expression, attrs.sizes, [te.shape_of(t.shape) for t in operands]))


@register
class TensorExpression(_Expression):
    """``results = program(*operands)``, element by element: ``program`` is a tensor expression (see ``forge.tir.text``).

    Compiled code has a node for each of its parts: products of matrices, reductions, and what is computed where it is read; they
    take part in fusion as other operators do. ``sizes`` are the program's numbers.
    """

    name = "tensor_expression"
    kind = Kind.OPAQUE

    def decompose(self, builder: Builder, attrs: KernelAttrs, *operands: Value) -> Values | None:
        return split(builder, read_expression(attrs.program), attrs.sizes, operands)


@register
class ElementwiseExpression(_Expression):
    """A tensor expression of single elements, applied to each element of the operands, which broadcast."""

    name = "tensor_expression.elementwise"
    kind = Kind.ELEMENTWISE
    accuracy = Accuracy.ROUNDING

    def infer(self, attrs: KernelAttrs, *operands: Value) -> Types:
        expression = self._read(attrs, len(operands))
        for parameter, value in zip(expression.parameters, operands):
            if parameter.ndim or value.dtype != parameter.dtype:
                what = f"{expression.name}: parameter {parameter.name!r}"
                raise fail(self.name, what, f"rank {parameter.ndim}, {value.dtype}", f"rank 0, {parameter.dtype}")
        results = [t.ndim for t in expression.results]
        if results != [0] or not operands or len(attrs.sizes) != len(expression.scalars):
            got = f"results of ranks {results}, {len(operands)} operands and sizes={attrs.sizes}"
            raise fail(self.name, expression.name, got, f"one result of rank 0, an operand, {len(expression.scalars)} sizes")
        return [TensorType(broadcast_shapes(self.name, *(v.shape for v in operands)), expression.results[0].dtype)]

    def reference(self, attrs: KernelAttrs, *operands: Array) -> Arrays:
        expression = read_expression(attrs.program)
        tensors = [te.placeholder(x.shape, p.dtype) for x, p in zip(operands, expression.parameters)]
        shape = broadcast_shapes(self.name, *(x.shape for x in operands))
        computed = self.lower(attrs, [TensorType(shape, expression.results[0].dtype)], *tensors)
        return [evaluate(t, dict(zip(tensors, operands))) for t in computed]

    def lower(self, attrs: KernelAttrs, results: TensorTypes, *operands: Tensor) -> Lowered:
        expression = read_expression(attrs.program)
        sizes = dict(zip(expression.scalars, map(te.dim, attrs.sizes)))
        (result,) = expression.results
        places = dict(zip(expression.parameters, operands))

        def body(*axes: te.Expr) -> te.Expr:
            def read(tensor: Tensor, indices: Sequence[te.Expr]) -> te.Expr:
                return te.broadcast_read(places[tensor], axes) if tensor in places else computed(tensor)

            def computed(tensor: Tensor) -> te.Expr:
                return te.substitute_reads(substitute(te.inline(tensor, ()), sizes), read)

            return computed(result)

        return [te.compute(results[0].shape, body, expression.name, results[0].dtype)]

    def requires(self, attrs: KernelAttrs, results: TensorTypes, *operands: TensorType) -> Conditions:
        return []

    def is_costly(self, attrs: KernelAttrs, *operands: Value) -> bool:
        return _is_costly(attrs.program)


@register
class InjectiveExpression(_Expression):
    """A tensor expression with one result and without reduction; it is computed where it is read."""

    name = "tensor_expression.injective"
    kind = Kind.INJECTIVE
    accuracy = Accuracy.ROUNDING
    category = Category.OTHER
    precision = Precision.WIDE

    def is_costly(self, attrs: KernelAttrs, *operands: Value) -> bool:
        return _is_costly(attrs.program)


@register
class ReductionExpression(_Expression):
    """A tensor expression whose one result is a reduction."""

    name = "tensor_expression.reduction"
    kind = Kind.REDUCTION


def _is_costly(program: str) -> bool:
    return any(is_costly(t.body) for t in read_expression(program).stages if t.body is not None)


def apply_expression(
    g: Composer, expression: Expression | str, operands: Sequence[Value], *, sizes: Sequence[Dim] = ()
) -> list[Value]:
    """Adds a tensor expression to a graph: its results.

    Args:
        g: what builds the graph.
        expression: it, or its text.
        operands: one for each of its tensors.
        sizes: its numbers, in order.

    Raises:
        TypeInferenceError: operands or numbers do not fit the expression.
        ParseError: the text is not an expression.
    """
    text = expression.text if isinstance(expression, Expression) else read_expression(expression).text
    return g.multi("tensor_expression", *operands, program=text, sizes=tuple(sizes))
