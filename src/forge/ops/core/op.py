"""The operator class: one op = one place.

An operator subclasses ``Op`` in a module of this package and is registered there (``@register`` on the class). It gives: its
name (Relay's where Relay has it), operands, typed attributes (a frozen dataclass ``Attrs``; field order and defaults are the
text form), the docstring (the equation), ``infer``, ``reference``, and exactly one way to native code:

- ``lower``: tensor expressions (elementwise, injective, reductions) that fuse freely;
- ``decompose``: a graph of other operators;
- ``kernel``: the name of a kernel family in ``forge.kernels`` (contractions, convolutions, normalisations, ...);

or nothing for what the host runs (``lowering.objects``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from forge.ir.op import A, Kind, OpDef
from forge.ir.op import register as register_instance
from forge.ir.types import TensorType, Type
from forge.ops.core.layout_change import LayoutChange, elementwise

if TYPE_CHECKING:
    from forge.ir.batch import Batch
    from forge.ir.builder import Builder
    from forge.ir.nodes import Node, Value
    from forge.te import Tensor
    from forge.tir.expr import Expr


class Op(OpDef[A]):
    """An operator with its lowering."""

    kernel: ClassVar[str | None] = None
    lowering_missing: ClassVar[bool] = False  # no way to native code exists yet

    def lower(self, operands: tuple[Any, ...], attrs: A, results: Sequence[TensorType]) -> Sequence[Tensor]:
        """Tensor expressions of the results. ``operands`` are tensors; None stands for an optional one that is absent.

        Shapes of ``operands`` are loop-IR expressions; dimensions of ``results`` are turned into them by ``te.shape_of_type``.
        """
        raise NotImplementedError

    def define_symbols(
        self, operands: Sequence[Tensor | None], attrs: A, results: Sequence[TensorType]
    ) -> Mapping[str, Expr]:
        """What the symbols are that ``results`` introduces: scalar expressions over elements of the operands.

        An operator whose result sizes depend on run-time contents of its operands overrides this, unless a kernel counts them.
        """
        return {}

    def requires(
        self, operands: Sequence[TensorType | None], attrs: A, results: Sequence[TensorType]
    ) -> Sequence[tuple[Expr, str]]:
        """Conditions on symbolic sizes that ``infer`` could not decide, with what to say when one does not hold.

        Compiled code checks them before the operator runs; reads stay in bounds only if they hold.
        """
        return ()

    def decompose(self, builder: Builder, operands: Sequence[Value | None], attrs: A) -> Sequence[Value] | None:
        """Builds the same meaning out of other operators; None: this operator lowers itself."""
        return None

    def carry_batch(
        self, operands: Sequence[Value | None], attrs: A, results: Sequence[Type], batches: Sequence[Batch | None]
    ) -> Sequence[Batch | None]:
        """Derived from what the operator is made of: its tensor expressions, or the operators that it decomposes into."""
        from forge.ops.core.batch_parts import carried

        return carried(self, operands, attrs, results, batches)

    def in_layout(self, change: LayoutChange) -> Value | None:
        """Of an operator bound to a node with one result: that in another layout, or as usual if it has fewer axes than operands.

        None: it is not computed there. Derived for element-wise operators (`is_map`).
        """
        return elementwise(self, change) if self.is_map else None

    def legalize(self, builder: Builder, node: Node) -> Sequence[Value] | None:
        """Results of ``node`` in a form that native code has, by nodes that ``builder`` puts before it; None: it is in one."""
        return None

    def host_options(self, node: Node) -> Mapping[str, Any]:
        """What the host needs to know of ``node`` besides its regions: fields of ``forge.tir.program.Control``.

        Raises:
            CompileError: the host cannot run it.
        """
        return {}

    def is_costly(self, operands: Sequence[Value | None], attrs: A) -> bool:
        """Whether computing an element again takes longer than storing it and reading it where it is needed."""
        return False

    def flops(self, operands: Sequence[Value | None], attrs: A, results: Sequence[TensorType]) -> Any:
        """Arithmetic operations of one evaluation (a Dim): multiplications and additions count one each."""
        return results[0].size if results and self.kind is not Kind.INJECTIVE else 0


T = TypeVar("T", bound=type[Op[Any]])


def register(cls: T) -> T:
    """Class decorator: registers an instance of the operator."""
    register_instance(cls())
    return cls
