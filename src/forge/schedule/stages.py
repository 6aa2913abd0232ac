"""From tensor expressions to scalar loop expressions: reads of operands become loads, intermediate tensors are inlined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from forge.errors import CompileError
from forge.loops import Loop, expression_cost, product
from forge.loops.contract import KernelCall
from forge.schedule.algebra import Algebra, Poly
from forge.tir import expr as E
from forge.tir.expr import Expr, Tensor, Var
from forge.tir.rewrite import Rewriter
from forge.tir.visit import free_variables


@dataclass(eq=False)
class Reduction:
    """A reduction whose value ``result`` stands for: ``result = kind(value for axes)``.

    ``value`` may use the results of reductions that come earlier.
    """

    result: Var
    kind: str
    value: Expr
    axes: list[Loop]

    @property
    def steps(self) -> int:
        """The number of steps, for costs."""
        return math.prod(axis.assumed for axis in self.axes)

    @property
    def step_cost(self) -> int:
        """Vector operations of one step."""
        return max(1, expression_cost(self.value))

    @property
    def cost(self) -> Expr:
        """Vector operations of all steps, one element at a time."""
        return product(axis.extent for axis in self.axes) * self.step_cost


@dataclass
class Stages:
    """Expands the tensors of one operator into scalar expressions over the output axes.

    Reads of reductions become variables; ``reductions`` holds what computes them, in order.
    """

    call: KernelCall
    placeholders: Sequence[Tensor | None]
    algebra: Algebra = field(default_factory=Algebra)
    reductions: list[Reduction] = field(default_factory=list)
    _known: dict[tuple[int, tuple[Poly, ...]], Expr] = field(default_factory=dict)

    def value(self, tensor: Tensor, indices: Sequence[Expr]) -> Expr:
        """Returns the element of ``tensor`` at ``indices``; equal elements are one object."""
        key = (id(tensor), tuple(self.algebra.poly(i) for i in indices))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._element(tensor, indices)
        return known

    def scalar(self, x: Expr) -> Expr:
        """Returns ``x`` with what it reads of tensors."""
        return self._expand(x, {})

    def _element(self, tensor: Tensor, indices: Sequence[Expr]) -> Expr:
        position = next((k for k, p in enumerate(self.placeholders) if p is tensor), None)
        if position is not None:
            return self._read_operand(position, tensor, indices)
        if tensor.body is None or tensor.axes is None:
            raise CompileError(f"schedule: {self.call.operator}: tensor {tensor.name} is neither an operand nor computed")
        if isinstance(tensor.body, E.Reduce):
            return self._add_reduction(tensor, tensor.body, tuple(indices))
        return self._expand(tensor.body, dict(zip(tensor.axes, indices)))

    def _read_operand(self, position: int, tensor: Tensor, indices: Sequence[Expr]) -> Expr:
        reader = self.call.operands[position]
        if reader is None:
            raise CompileError(f"schedule: {self.call.operator}: operand {position} ({tensor.name}) is read but absent")
        return reader.read(tuple(indices))

    def _expand(self, body: Expr, bound: dict[Var, Expr]) -> Expr:
        def rule(x: Expr) -> Expr | None:
            if isinstance(x, Var):
                return bound.get(x)
            if isinstance(x, E.Read):
                return self.value(x.tensor, tuple(rewrite(i) for i in x.indices))
            return None

        rewrite = Rewriter(rule)
        return rewrite(body)

    def _add_reduction(self, tensor: Tensor, body: E.Reduce, indices: tuple[Expr, ...]) -> Var:
        assert tensor.axes is not None
        axes = [self.algebra.loop(axis.var.name, axis.extent) for axis in body.axes]
        bound: dict[Var, Expr] = dict(zip(tensor.axes, indices))
        bound.update({axis.var: own.var for axis, own in zip(body.axes, axes)})
        value = self._expand(body.x, bound)
        self._require_outer(tensor, axes)
        result = E.Var(body.dtype, 1, f"{tensor.name}_value")
        self.reductions.append(Reduction(result, body.kind, value, axes))
        return result

    def _require_outer(self, tensor: Tensor, axes: Sequence[Loop]) -> None:
        """Reductions inside this one must not depend on its own reduction axes."""
        inner = {axis.var for axis in axes}
        for reduction in self.reductions:
            if not free_variables(reduction.value).isdisjoint(inner - {a.var for a in reduction.axes}):
                raise CompileError(
                    f"schedule: {self.call.operator}: the reduction {tensor.name} reads another one at every step; expected "
                    "the inner one not to depend on the axes of the outer one; decompose the operator into two"
                )
