"""From tensor expressions of one operator to its loop function."""

from __future__ import annotations

from collections.abc import Sequence

from forge.loops import bind, places, static
from forge.loops.contract import KernelCall
from forge.schedule.injective import schedule_injective
from forge.schedule.reduction import schedule_reductions
from forge.schedule.stages import Stages
from forge.tir.expr import Expr, Tensor
from forge.tir.stmt import Function, Stmt, seq


def build(call: KernelCall, tensors: Sequence[Tensor], placeholders: Sequence[Tensor | None]) -> Function:
    """Returns the loop function that computes ``tensors`` and hands their elements to ``call.results``, in order.

    Args:
        call: what to build; ``operands[k]`` gives the contents of ``placeholders[k]``.
        tensors: one per result. Their bodies read placeholders, or computes between, which are inlined; a reduction between is
            computed once per element that reads it, so it must not depend on more axes than the reading element.
        placeholders: what the bodies read; None for an absent operand.

    Raises:
        CompileError: the expressions need several passes over memory.
    """
    nests: list[Stmt] = []
    pending = list(range(len(tensors)))
    while pending:
        first = tensors[pending[0]]
        together = [k for k in pending if _same_shape(first, tensors[k])]
        pending = [k for k in pending if k not in together]
        nests.append(_nest(call, [(k, tensors[k]) for k in together], placeholders))
    return call.function(seq(*nests))


def _nest(call: KernelCall, tensors: Sequence[tuple[int, Tensor]], placeholders: Sequence[Tensor | None]) -> Stmt:
    """One loop nest for tensors of one shape; each comes with the number of its result."""
    stages = Stages(call, placeholders)
    loops = stages.algebra.loops(tensors[0][1].shape)
    indices = places(loops)
    body = seq(*(call.results[k].write(indices, stages.value(tensor, indices)) for k, tensor in tensors))
    if stages.reductions:
        return schedule_reductions(call, loops, stages.reductions, body, stages.algebra)
    return schedule_injective(call, loops, body, stages.algebra)


def build_update(
    call: KernelCall, placeholders: Sequence[Tensor | None], operand: int, begin: Sequence[Expr], step: Sequence[int]
) -> Function:
    """Returns the loop function that writes ``result[begin + i * step] = operand[i]`` for every i.

    Args:
        call: what to build; ``operands[k]`` gives the contents of ``placeholders[k]``, which ``begin`` reads.
        placeholders: None for an absent operand.
        operand: number of the operand that is written.
        begin: by axis.
        step: by axis.
    """
    stages = Stages(call, placeholders)
    part = call.readers[operand]
    loops = stages.algebra.loops(part.shape)
    bound = [bind(f"begin{k}", stages.scalar(x)) for k, x in enumerate(begin)]
    indices = places(loops)
    target = [first + i * s for (_, first), i, s in zip(bound, indices, step, strict=True)]
    nest = schedule_injective(call, loops, call.results[0].write(target, part.read(indices)), stages.algebra)
    return call.function(seq(*(let for let, _ in bound), nest))


def _same_shape(a: Tensor, b: Tensor) -> bool:
    def same(x: Expr, y: Expr) -> bool:
        return x is y or static(x) is not None and static(x) == static(y)

    return len(a.shape) == len(b.shape) and all(map(same, a.shape, b.shape))
