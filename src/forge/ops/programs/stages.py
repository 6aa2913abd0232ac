"""The parts of a tensor expression as nodes of their own, each as simple an operator as it can be.

``C = compute((n, m), lambda i, j: sum(A[i, r] * W[r, j], axis=r))`` --> ``einsum(A, W, equation="ab,bc->ac")``

Computed tensors without reduction are part of what reads them. Where rows of the result are made of reductions of the same rows,
the expression stays whole, and is computed row by row; a softmax is that operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forge import dims, dtypes, te
from forge.dims import Dim
from forge.errors import TypeInferenceError
from forge.ops.core.inference import broadcast_shapes
from forge.ops.core.lowering import as_dim
from forge.ops.core.signatures import Builder, Value
from forge.ops.programs.binding import Sizes, sizes_of
from forge.te import Expr, Tensor, Var
from forge.tir import expr as E
from forge.tir.rewrite import Rewriter, substitute
from forge.tir.text import Expression, read_expression
from forge.tir.text.bounds import check
from forge.tir.text.expressions import facts_of
from forge.tir.visit import free_variables

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def split(builder: Builder, expression: Expression, numbers: Sequence[Dim], operands: Sequence[Value]) -> list[Value] | None:
    """The results, made of simpler operators; None where the expression is one kernel as it is."""
    splitter = _Splitter(builder, expression, sizes_of(expression, numbers, [te.shape_of(v.shape) for v in operands]))
    if len(expression.results) == 1:
        softmax = splitter.softmax(expression.results[0])
        if softmax is not None:
            return [builder.call("nn.softmax", operands[expression.parameters.index(softmax)], axis=-1)]
        if _is_rowwise(expression):
            return None
    splitter.made.update(zip(expression.parameters, operands))
    return [splitter.value(t) for t in expression.results]


def _is_rowwise(expression: Expression) -> bool:
    """Whether several reductions of rows make the rows of one result."""
    reductions = [t for t in expression.stages if isinstance(t.body, E.Reduce)]
    if len(reductions) < 2 or len({t.ndim for t in reductions}) != 1:
        return False
    (result,), rank = expression.results, reductions[0].ndim
    if result.ndim <= rank or isinstance(result.body, E.Reduce):
        return False
    for stage in expression.stages:
        assert stage.axes is not None and stage.body is not None
        for read in te.reads(stage.body):
            if isinstance(read.tensor.body, E.Reduce) and tuple(read.indices) != stage.axes[:rank]:
                return False
            if read.tensor.body is not None and read.tensor not in reductions:
                return False
    return all(all(a is b or _same(a, b) for a, b in zip(t.shape, result.shape)) for t in reductions)


def _same(a: Expr, b: Expr) -> bool:
    return isinstance(a, E.Const) and isinstance(b, E.Const) and a.value == b.value


@dataclass
class _Splitter:
    builder: Builder
    expression: Expression
    sizes: Sizes

    def __post_init__(self) -> None:
        self.made: dict[Tensor, Value] = {}
        self.inlined: dict[Tensor, Tensor] = {}

    def value(self, tensor: Tensor) -> Value:
        """The value that ``tensor`` is."""
        if tensor not in self.made:
            self.made[tensor] = self._node(self._with_inlined(tensor))
        return self.made[tensor]

    def softmax(self, tensor: Tensor) -> Tensor | None:
        """The operand whose softmax along the last axis ``tensor`` is: ``exp(A - M) / S``, with M and S as there; else None."""
        whole = self._with_inlined(tensor)
        match whole:
            case Tensor(axes=tuple(axes), body=E.Binary(op="div", a=numerator, b=E.Read(tensor=sums, indices=rows))) if axes:
                above = _shifted(numerator, axes)
            case _:
                return None
        if above is None or rows != axes[:-1] or not isinstance(sums.body, E.Reduce):
            return None
        total, largest = self._with_inlined(sums), self._with_inlined(above[1]) if above[1].body is not None else above[1]
        data, below = above[0], _shifted(*_reduced(total, "sum"))
        of_largest = _reduced(largest, "max")
        is_row = isinstance(of_largest[0], E.Read) and of_largest[0].tensor is data and of_largest[0].indices == of_largest[1]
        shapes = [self._dims(t.shape) for t in (data, whole)]
        extents = [self._dims([t.body.axes[0].extent])[0] for t in (total, largest) if isinstance(t.body, E.Reduce)]
        fits = shapes[0] == shapes[1] and all(dims.equal(e, shapes[0][-1]) for e in extents)
        rows_fit = all(self._dims(t.shape) == shapes[0][:-1] for t in (total, largest))
        return data if below == above and is_row and fits and rows_fit and data.body is None else None

    def _with_inlined(self, tensor: Tensor) -> Tensor:
        """``tensor`` with those that it reads and that are neither reductions nor results computed where it reads them."""
        if tensor not in self.inlined:
            facts = facts_of(tensor, self.sizes, self.expression.scalars)

            def inline(read: Tensor, indices: tuple[Expr, ...]) -> Expr | None:
                if read.body is None or isinstance(read.body, E.Reduce) or read in self.expression.results:
                    return None
                return te.inline(self._with_inlined(read), check(facts, read.shape, indices).indices)

            self.inlined[tensor] = _with_reads(tensor, inline)
        return self.inlined[tensor]

    def _node(self, tensor: Tensor) -> Value:
        assert tensor.body is not None
        reads = list(dict.fromkeys(r.tensor for r in te.reads(tensor.body)))
        operands = {t: self.value(t) for t in reads}
        product = self._product(tensor, operands)
        if product is not None:
            return product
        element = self._element(tensor, operands)
        if element is not None:
            return self._call("tensor_expression.elementwise", element, list(operands.values()))
        kind = "reduction" if isinstance(tensor.body, E.Reduce) else "injective"
        placed = {t: Tensor(t.name, t.shape, t.dtype) for t in operands}
        result = _with_reads(tensor, lambda t, indices: placed[t][indices])
        return self._call(f"tensor_expression.{kind}", (list(placed.values()), result), list(operands.values()))

    def _call(self, op: str, part: tuple[Sequence[Tensor], Tensor], operands: Sequence[Value]) -> Value:
        """A node of the expression with these parameters and this result; sizes that no parameter binds are its numbers."""
        parameters, result = part
        bound = {e for t in parameters for e in t.shape if isinstance(e, Var)}
        assert result.body is not None
        inner = result.body.axes if isinstance(result.body, E.Reduce) else ()
        used = free_variables(result.body, *result.shape, *(a.extent for a in inner), *(e for t in parameters for e in t.shape))
        numbers = [v for v in self.sizes if v in used and v not in bound]
        sizes = tuple(v for v in self.sizes if v in bound)
        order: tuple[Tensor | Var, ...] = (*parameters, *numbers)
        made = Expression(self.expression.name, tuple(parameters), tuple(numbers), sizes, (result,), (result,), order)
        text = read_expression(made.text).text
        return self.builder.call(op, *operands, program=text, sizes=tuple(as_dim(self.sizes[v]) for v in numbers))

    def _dims(self, shape: Sequence[Expr]) -> tuple[Dim, ...]:
        return tuple(as_dim(substitute(e, self.sizes)) for e in shape)

    def _product(self, tensor: Tensor, operands: dict[Tensor, Value]) -> Value | None:
        """A sum of products of two tensors, each at axes of its own, that is a product of matrices, as an einsum."""
        body = tensor.body
        if not isinstance(body, E.Reduce) or body.kind != "sum" or not dtypes.is_float(tensor.dtype) or tensor.axes is None:
            return None
        factors = (body.x.a, body.x.b) if isinstance(body.x, E.Binary) and body.x.op == "mul" else ()
        extents = dict(zip((*tensor.axes, *(a.var for a in body.axes)), (*tensor.shape, *(a.extent for a in body.axes))))
        letters = dict(zip(extents, _LETTERS))
        terms = []
        for factor in factors:
            if not isinstance(factor, E.Read) or len(set(factor.indices)) != len(factor.indices):
                return None
            if not all(isinstance(i, Var) and i in letters for i in factor.indices):
                return None
            wanted = self._dims([extents[i] for i in factor.indices if isinstance(i, Var)])
            if not all(map(dims.equal, wanted, operands[factor.tensor].shape)):
                return None
            terms.append("".join(letters[i] for i in factor.indices if isinstance(i, Var)))
        result = "".join(letters[a] for a in tensor.axes)
        if len(terms) != 2 or set("".join(terms)) != set(letters.values()) or len(letters) != len(extents):
            return None
        if not all(set(result) & set(one) - set(other) for one, other in (terms, terms[::-1])):
            return None  # no product of matrices: a reduction along rows, or of one matrix and one vector
        values = [operands[f.tensor] for f in factors if isinstance(f, E.Read)]
        return self.builder.call("einsum", *values, equation=f"{','.join(terms)}->{result}")

    def _element(self, tensor: Tensor, operands: dict[Tensor, Value]) -> tuple[Sequence[Tensor], Tensor] | None:
        """The expression of one element, of a tensor whose elements depend on those at the same place; None: they do not."""
        body, axes = tensor.body, tensor.axes
        if body is None or axes is None or isinstance(body, E.Reduce) or not operands:
            return None
        shape = self._dims(tensor.shape)
        for read in te.reads(body):
            aligned = axes[len(axes) - len(read.indices) :]
            sizes, wanted = operands[read.tensor].shape, shape[len(axes) - len(read.indices) :]
            if len(aligned) != len(read.indices):
                return None
            for index, axis, size, own in zip(read.indices, aligned, sizes, wanted):
                if not (index is axis and dims.equal(size, own) or E.is_const(index, 0) and size == 1):
                    return None
        try:
            broadcast = broadcast_shapes("", *(v.shape for v in operands.values()))
        except TypeInferenceError:
            return None
        if len(broadcast) != len(shape) or not all(map(dims.equal, broadcast, shape)):
            return None
        single = {t: Tensor(t.name, (), t.dtype) for t in operands}
        value = Rewriter(lambda x: single[x.tensor][()] if isinstance(x, E.Read) else None)(body)
        if not free_variables(value).isdisjoint(axes):
            return None
        return list(single.values()), Tensor(tensor.name, (), tensor.dtype, (), value)


def _reduced(tensor: Tensor, kind: str) -> tuple[Expr | None, tuple[Expr, ...]]:
    """What is reduced along the last axis, and its indices; None: it is not a reduction of this kind along one axis."""
    body = tensor.body
    if not isinstance(body, E.Reduce) or body.kind != kind or len(body.axes) != 1 or tensor.axes is None:
        return None, ()
    return body.x, (*tensor.axes, body.axes[0].var)


def _shifted(x: Expr | None, indices: tuple[Expr, ...]) -> tuple[Tensor, Tensor] | None:
    """``(A, M)`` where ``x`` is ``exp(A[indices] - M[indices but the last])``."""
    match x:
        case E.Call(name="exp", args=(E.Binary(op="sub", a=E.Read() as a, b=E.Read() as m),)):
            if a.indices == indices and m.indices == indices[:-1]:
                return a.tensor, m.tensor
    return None


def _with_reads(tensor: Tensor, replace: Callable[[Tensor, tuple[Expr, ...]], Expr | None]) -> Tensor:
    """``tensor`` with its reads replaced."""
    body = tensor.body
    assert body is not None
    if isinstance(body, E.Reduce):
        body = E.Reduce(body.dtype, 1, body.kind, te.substitute_reads(body.x, replace), body.axes)
    else:
        body = te.substitute_reads(body, replace)
    return Tensor(tensor.name, tensor.shape, tensor.dtype, tensor.axes, body)
