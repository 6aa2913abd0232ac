"""The operator class: one op = one place.

An operator subclasses ``Op`` in a module of this package and is registered there (``@register`` on the class). It gives: its
name (Relay's where Relay has it), operands, typed attributes (a frozen dataclass ``Attrs``; field order and defaults are the
text form), the docstring (the equation), ``infer``, ``reference``, and exactly one way to native code:

- ``lower``: tensor expressions (elementwise, injective, reductions) that fuse freely;
- ``decompose``: a graph of other operators;
- ``kernel``: the name of a kernel family in ``forge.kernels`` (contractions, convolutions, normalizations, ...);

or nothing for what the host runs (``lowering.objects``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from forge.ir.op import A, Accuracy, Category, Kind, NoAttrs, OpDef, Operand, Precision, Trait
from forge.ir.op import register as register_instance
from forge.ir.types import TensorType
from forge.ops.core.layout_change import LayoutChange, elementwise

if TYPE_CHECKING:
    from forge.dims import Dim
    from forge.ir.batch import Batch
    from forge.ir.builder import Builder
    from forge.ir.nodes import Node, Value
    from forge.te import Tensor
    from forge.tir.expr import Expr

# What an operator's class is declared with.
__all__ = ["Accuracy", "AxisAttrs", "Category", "Kind", "NoAttrs", "Op", "Operand", "Part", "Precision", "Trait", "register"]


@dataclass(frozen=True)
class AxisAttrs:
    """Attributes of an operator along one axis, and of nothing else."""

    axis: int = 0


@dataclass(frozen=True)
class Part:
    """Where an operand stands in a result: its element i at ``begin + i * step``, axis by axis."""

    operand: int
    begin: Sequence[Expr]
    step: Sequence[int]


class Op(OpDef[A]):
    """An operator with its lowering."""

    kernel: ClassVar[str | None] = None
    flops_per_element: ClassVar[int] = 1  # of the first result; 0 for what moves elements only
    lowering_missing: ClassVar[bool] = False  # no way to native code exists yet

    def lower(self, *args: Any, **kwargs: Any) -> Sequence[Tensor]:
        """``lower(attrs, results, *operands)``: tensor expressions of the results. Operands are tensors.

        Shapes of operands are loop-IR expressions; dimensions of ``results`` are turned into them by ``te.shape_of_type``.
        """
        raise NotImplementedError

    def define_symbols(self, *args: Any, **kwargs: Any) -> Mapping[str, Expr]:
        """``define_symbols(attrs, results, *operands)``: what the symbols are that ``results`` introduces.

        They are scalar expressions over elements of the operands, which are tensors.
        An operator whose result sizes depend on run-time contents of its operands overrides this, unless a kernel counts them.
        """
        return {}

    def is_update(self, *args: Any, **kwargs: Any) -> bool:
        """``is_update(attrs, rank)``: whether the result, of this rank, begins with operand 0 in memory, but for a part of it.

        Where it lies in the memory of operand 0, only that part is written: by the kernel, or what ``written`` gives.
        """
        return False

    def written(self, *args: Any, **kwargs: Any) -> Part:
        """``written(attrs, results, *operands)``: of an update with ``lower``: what is written. Operands are tensors."""
        raise NotImplementedError

    def requires(self, *args: Any, **kwargs: Any) -> Sequence[tuple[Expr, str]]:
        """``requires(attrs, results, *operands)``: conditions on symbolic sizes that ``infer`` could not decide.

        Operands are types; each condition comes with what to say when it does not hold. Compiled code checks them before the
        operator runs; reads stay in bounds only if they hold.
        """
        return ()

    def decompose(self, *args: Any, **kwargs: Any) -> Sequence[Value] | None:
        """``decompose(builder, attrs, *operands)``: the same meaning, built out of other operators.

        None: this operator lowers itself.
        """
        return None

    def carry_batch(self, *args: Any, **kwargs: Any) -> Sequence[Batch | None]:
        """Derived from what the operator is made of: its tensor expressions, or the operators that it decomposes into."""
        from forge.ops.core.batch_parts import carried

        return carried(self, *args)

    def in_layout(self, change: LayoutChange) -> Value | None:
        """Of an operator bound to a node with one result: that in another layout, or as usual if it has fewer axes than operands.

        None: it is not computed there. Derived for element-wise operators (`is_map`).
        """
        return elementwise(self, change) if self.is_map else None

    def legalize(self, builder: Builder, node: Node) -> Sequence[Value] | None:
        """Results of ``node`` in a form that native code has, by nodes that ``builder`` puts before it; None: it is in one."""
        return None

    def host_options(self, node: Node) -> Mapping[str, Any]:
        """What the host needs to know of ``node`` besides its regions: fields of ``forge.tir.library.Control``.

        Raises:
            CompileError: the host cannot run it.
        """
        return {}

    def is_costly(self, *args: Any, **kwargs: Any) -> bool:
        """``is_costly(attrs, *operands)``: whether computing an element again takes longer than storing it and reading it."""
        return False

    def flops(self, *args: Any, **kwargs: Any) -> Dim:
        """``flops(attrs, results, *operands)``: arithmetic operations of one evaluation.

        Multiplications and additions count one each. Operands are values.
        """
        results: Sequence[TensorType] = args[1]
        return results[0].size * self.flops_per_element if results and self.kind is not Kind.INJECTIVE else 0

T = TypeVar("T", bound=type[Op[Any]])


def register(cls: T) -> T:
    """Class decorator: registers an instance of the operator."""
    register_instance(cls())
    return cls
