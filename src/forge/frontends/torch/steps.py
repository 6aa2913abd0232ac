"""The steps of a program: what converts each, what it writes, and which are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forge import dims
from forge.dims import DimExpr
from forge.errors import ImportModelError
from forge.frontends.converter import Converter
from forge.frontends.support import CONVERTER, MISSING, Use
from forge.frontends.torch import converters
from forge.frontends.torch.converters.core.views import (
    REBINDS,
)
from forge.frontends.torch.corrections import wrong_bounds
from forge.frontends.torch.overloads import functional, without_out
from forge.frontends.torch.program import Program, ScalarMeta, Step, TensorMeta, refs
from forge.frontends.torch.registry import REGISTRY, key
from forge.frontends.torch.symbols import is_rounded

IGNORED = frozenset({
    "aten._assert_tensor_metadata.default", "aten._has_same_storage_numel.default", "aten.is_same_size.default"})
"""Steps that say what types say already."""

PYTHON = frozenset({"operator", "math", "torch", "builtins"})
"""Where functions of numbers come from."""

converters.load_all()


def used_operators(program: Program) -> list[Use]:
    """The operators of a program and its parts, and what converts each."""
    found: dict[str, Use] = {}
    for part in _parts(program):
        for step in needed_steps(part.steps, part):
            how = CONVERTER if is_number(step, part) or lookup(step.target) else MISSING
            domain, op = key(step.target)
            at = f"{step.name}, {step.source}" if step.source else step.name
            found.setdefault(step.target, Use(domain, op, 0, how, at)).count += 1
    return list(found.values())


def _parts(program: Program) -> list[Program]:
    return [program, *(inner for part in program.parts.values() for inner in _parts(part))]


def lookup(target: str) -> Converter | None:
    """The converter of a step; that of an operator which writes to its arguments is the one of the operator which does not."""
    domain, op = key(target)
    rows = (REGISTRY.lookup(domain, name, 1) for name in (functional(op), op, *without_out(op)))
    return next((row for row in rows if row is not None), None)


def destinations(step: Step) -> list[str]:
    """Names of the tensors that a step writes: the first argument, or those after all others that are to hold its results.

    Raises:
        ImportModelError: something else is in their place.
    """
    if step.mutates:
        return [name for argument in step.mutates for name in refs(step.arguments.get(argument))]
    _, op = key(step.target)
    arguments = list(step.arguments.values())
    is_out = bool(without_out(op))
    if not is_out and (functional(op) == op or step.target in REBINDS):
        return []
    held = arguments[max(0, len(arguments) - len(step.outputs)) :] if is_out else arguments[:1]
    written = refs(held)
    if not written or is_out and len(written) != len(step.outputs):
        raise ImportModelError(f"node {step.name!r} ({step.target}): got {held}; expected tensors that it writes")
    return written


def is_number(step: Step, program: Program) -> bool:
    """Whether a step computes a number whose value torch's sizes say; one that an operator reads from a tensor is new."""
    metas = [program.metas.get(name) for name in step.outputs]
    if not metas or not all(isinstance(m, ScalarMeta) and m.size is not None for m in metas):
        return False
    if _is_rounding(step, program):
        return False
    if any(isinstance(m, ScalarMeta) and isinstance(m.size, int) for m in metas) and lookup(step.target) is not None:
        return False
    return step.target.partition(".")[0] in PYTHON or lookup(step.target) is None


def needed_steps(steps: Sequence[Step], program: Program) -> list[Step]:
    """The steps but for those that only say something, and idle numbers; results that nothing reads have no name."""
    read = {name for _, result in program.results for name in refs(result)}.union(program.mutations.values())
    kept: list[Step] = []
    unchecked = _numbers_of_offsets(steps, program) | wrong_bounds(steps, program)
    for step in reversed(steps):
        if step.target == "aten._assert_scalar.default" and unchecked.intersection(refs(step.arguments.get("self"))):
            continue
        if step.target in IGNORED or _is_idle(step, program) and not read.intersection(step.outputs):
            continue
        unread = len(step.outputs) > 1 and not read.issuperset(step.outputs)
        kept.append(replace(step, outputs=tuple(n if n in read else "" for n in step.outputs)) if unread else step)
        read.update(name for argument in step.arguments.values() for name in refs(argument))
    return kept[::-1]


def _numbers_of_offsets(steps: Sequence[Step], program: Program) -> set[str]:
    """Numbers that functions of Python compute of unknown places in memory, which values do not have: nothing can be asserted.

    Torch asserts that they are not negative where it splits a tensor at places that are known at run time.
    """
    unknown: set[str] = set()
    for step in steps:
        if step.target == "aten.sym_storage_offset.default":
            metas = [program.metas.get(name) for name in step.outputs]
            sizes = [m.size for m in metas if isinstance(m, ScalarMeta) and m.size is not None]
            unknown.update(dims.symbols(*sizes))
    if not unknown:
        return set()
    for meta in program.metas.values():
        if isinstance(meta, TensorMeta):
            unknown.difference_update(dims.symbols(*meta.shape))
    return {
        name for step in steps if step.target.partition(".")[0] in PYTHON for name in step.outputs
        if any(unknown.intersection(dims.symbols(a)) for a in step.arguments.values() if isinstance(a, DimExpr))
    }


def _is_idle(step: Step, program: Program) -> bool:
    """Whether a step does nothing but compute numbers of sizes."""
    metas = [program.metas.get(name) for name in step.outputs]
    is_number = bool(metas) and step.target.partition(".")[0] in PYTHON and all(isinstance(m, ScalarMeta) for m in metas)
    return is_number and not _is_rounding(step, program)


def _is_rounding(step: Step, program: Program) -> bool:
    """Whether a step makes an integer of a floating-point number that is known when the model runs."""
    metas = [program.metas.get(name) for name in step.outputs]
    sizes = [m.size for m in metas if isinstance(m, ScalarMeta) and isinstance(m.size, DimExpr)]
    return any(is_rounded(dims.symbol_name(size) or "") for size in sizes)
