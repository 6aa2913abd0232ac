"""How an operator carries the elements of a batch, derived from its tensor expressions.

It does where each element of a result reads, of every operand with a batch, entries at its own place along the batch only, and
that place decides nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forge import te
from forge.ir.batch import Batch, MixesBatch
from forge.te import Tensor
from forge.tir import expr as E
from forge.tir.expr import Expr, Var
from forge.tir.visit import nodes


def batches_of_results(results: Sequence[Tensor], given: Mapping[Tensor, Batch]) -> list[Batch | None]:
    """Where the batch is in each result, for the placeholders that have it at ``given`` axes.

    Raises:
        MixesBatch: some element reads what belongs to other elements of the batch.
    """
    found = _Positions({t: b.axis for t, b in given.items()})
    axes = [found.of(t) for t in results]
    return [None if axis is None else Batch(axis) for axis in axes]


class _Positions:
    def __init__(self, given: Mapping[Tensor, int]) -> None:
        self.known: dict[Tensor, int | None] = dict(given)

    def of(self, tensor: Tensor) -> int | None:
        """The axis of the batch in ``tensor``; None where nothing in it depends on one."""
        if tensor not in self.known:
            self.known[tensor] = None if tensor.body is None else self._computed(tensor)
        return self.known[tensor]

    def _computed(self, tensor: Tensor) -> int | None:
        axes, body = tensor.axes or (), tensor.body
        assert body is not None
        places = [(read, axis) for read in te.reads(body) if (axis := self.of(read.tensor)) is not None]
        if not places:
            return None
        for read, axis in places:
            if not any(read.indices[axis] is var for var in axes):
                raise _elsewhere(read.indices[axis], axis)
        found = {next(k for k, var in enumerate(axes) if read.indices[axis] is var) for read, axis in places}
        if len(found) > 1:
            raise MixesBatch(f"axes {', '.join(map(str, sorted(found)))} of the result hold a batch", certain=True)
        (position,) = found
        if self._decides(body, axes[position]):
            raise MixesBatch(f"the place along axis {position} of the result decides what is computed", certain=False)
        return position

    def _decides(self, body: Expr, var: Var) -> bool:
        """Whether ``var`` is used in another way than to read at its place."""

        def used(x: Expr) -> Sequence[Expr]:
            if not isinstance(x, E.Read):
                return E.children(x)
            axis = self.of(x.tensor)
            return [i for k, i in enumerate(x.indices) if not (i is var and axis in (k, None))]

        return any(x is var for x in nodes(body, children=used))


def _elsewhere(index: Expr, axis: int) -> MixesBatch:
    if te.reads(index):
        return MixesBatch(f"what is read along axis {axis}, where the batch is, depends on contents", certain=False)
    combines = isinstance(index, Var)  # of a reduction
    what = "combines all entries" if combines else "moves entries"
    return MixesBatch(f"{what} along axis {axis}, where the batch is", certain=combines)
