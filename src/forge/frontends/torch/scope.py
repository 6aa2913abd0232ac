"""Values in scope while a program is converted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forge.frontends.scope import ImportState
from forge.frontends.state.scope import MemoryScope
from forge.frontends.torch.program import Meta, Program, ScalarMeta, Step, TensorMeta


@dataclass(kw_only=True)
class TorchState(ImportState):
    """What is the same for the whole import of one program.

    Attributes:
        convert_steps: converts steps of a program into the graph of a scope.
    """

    convert_steps: Callable[[TorchScope, Sequence[Step], Program], None]


@dataclass(eq=False, repr=False)
class TorchScope(MemoryScope[TorchState]):
    """Tensors, sizes and numbers of a program, whose symbols are torch's."""

    def meta(self, meta: Meta) -> Meta:
        """``meta`` with sizes of the graph."""
        if isinstance(meta, TensorMeta):
            strides = None if meta.strides is None else tuple(map(self.resolved, meta.strides))
            return TensorMeta(meta.dtype, tuple(map(self.resolved, meta.shape)), strides, self.resolved(meta.offset))
        if isinstance(meta, ScalarMeta) and meta.size is not None:
            return ScalarMeta(meta.kind, self.resolved(meta.size))
        return meta
