"""What torch's export states wrongly, as of torch 2.13: types of results, where eager torch gives others, and bounds of sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from forge import dims
from forge.frontends.torch.program import Meta, Program, Ref, Step, TensorMeta

Metas = list[Meta]


def _unique(step: Step, data: TensorMeta, found: Metas) -> Metas:
    """Along axis -1 the result has the sizes of the data once more, and the counts have the size of the data."""
    values, rank = found[0], len(data.shape)
    if step.arguments.get("dim") != -1 or not isinstance(values, TensorMeta) or len(values.shape) != 2 * rank:
        return found
    shape = values.shape[:rank]
    last = found[-1]
    if len(found) == 3 and isinstance(last, TensorMeta) and last.shape[:1] == data.shape[-1:]:
        found = [*found[:2], replace(last, shape=shape[-1:])]
    return [replace(values, shape=shape), *found[1:]]


def _multilabel_margin_loss(step: Step, data: TensorMeta, found: Metas) -> Metas:
    """The loss of one sample that is not reduced has one element, but no axis."""
    loss = found[0]
    if step.arguments.get("reduction", 1) != 0 or len(data.shape) > 1 or not isinstance(loss, TensorMeta):
        return found
    return [replace(loss, shape=()), *found[1:]]


CORRECTIONS: Mapping[str, Callable[[Step, TensorMeta, Metas], Metas]] = MappingProxyType({
    "aten.unique_consecutive.default": _unique,
    "aten.unique_dim.default": _unique,
    "aten.multilabel_margin_loss.default": _multilabel_margin_loss,
    "aten.multilabel_margin_loss_forward.default": _multilabel_margin_loss,
})
"""Operator -> what its results are, of the step, the first argument and what torch says they are."""


def corrected(program: Program) -> Program:
    """``program`` with the types that eager torch gives."""
    metas = dict(program.metas)
    for step in program.steps:
        correct = CORRECTIONS.get(step.target)
        first = next(iter(step.arguments.values()), None)
        data = metas.get(first.name) if isinstance(first, Ref) else None
        if correct is not None and isinstance(data, TensorMeta):
            metas.update(zip(step.outputs, correct(step, data, [metas.get(name) for name in step.outputs])))
    return replace(program, metas=metas)


def advice(program: Program) -> str:
    """What to do where types do not fit: what follows from a type that torch states wrongly is wrong, too."""
    last = next((s for s in program.steps if CORRECTIONS.get(s.target) is _unique and s.arguments.get("dim") == -1), None)
    return f"; torch's export states wrong sizes for {last.target} along axis -1: count the axis from the front" if last else ""


def wrong_bounds(steps: Sequence[Step], program: Program) -> set[str]:
    """Comparisons that eager torch does not make: masked_select has more elements than its data where the mask repeats these."""
    selected: set[str] = set()
    for step in steps:
        if step.target == "aten.masked_select.default":
            data, mask = (program.metas.get(a.name) for a in step.arguments.values() if isinstance(a, Ref))
            result = program.metas.get(step.outputs[0])
            if isinstance(data, TensorMeta) and isinstance(mask, TensorMeta) and isinstance(result, TensorMeta):
                selected.update(dims.symbols(*result.shape) if data.shape != mask.shape else ())
    return {
        name for step in steps if step.target in ("operator.le", "operator.lt") for name in step.outputs
        if selected.intersection(dims.symbols(*(a for a in step.arguments.values() if isinstance(a, dims.DimExpr))))
    }
