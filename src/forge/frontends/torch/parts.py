"""Parts of a program that are only marked: their steps become steps of the program, so that they share its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from forge.errors import ImportModelError
from forge.frontends.scope import EXPANSION_FACTOR, MIN_EXPANSION
from forge.frontends.torch.program import Program, Ref, Step

Call = tuple[Program, list[Any]]


def _after(count: int) -> Callable[[Program, list[Any]], Call | None]:
    """The part after ``count`` other arguments, then those of the part."""
    return lambda program, given: (program.parts[given[count].name], given[count + 1 :])


def _named(program: Program, given: list[Any]) -> Call:
    return program.parts[given[0].name], given[2:]


def _together(program: Program, given: list[Any]) -> Call:
    return program.parts[given[0].name], list(given[1])


def _without_casts(program: Program, given: list[Any]) -> Call | None:
    """None where operators in the part cast: torch takes such a part apart itself."""
    return None if given[2] else (program.parts[given[4].name], given[5:])


_MARKED: Mapping[str, Callable[[Program, list[Any]], Call | None]] = MappingProxyType({
    "higher_order.wrap_with_set_grad_enabled": _after(1),
    "higher_order.wrap_with_autocast": _without_casts,
    "higher_order.invoke_subgraph": _named,
    "higher_order.hints_wrapper": _together,
    "higher_order.strict_mode": _together,
})
"""Operators that only apply a part -> the part and its arguments."""


def inlined(program: Program) -> Program:
    """``program`` with the steps of marked parts in their place, and so its parts.

    Raises:
        ImportModelError: a part has other arguments or results than its step.
    """
    found = replace(program, steps=[], metas=dict(program.metas), weights=dict(program.weights), parts={})
    found.parts = {name: inlined(part) for name, part in program.parts.items()}
    most = max(MIN_EXPANSION, EXPANSION_FACTOR * len(program.steps))
    renamed: dict[str, Any] = {}
    for step in program.steps:
        step = replace(step, arguments={name: _renamed(value, renamed) for name, value in step.arguments.items()})
        call = _call(found, step)
        if call is None:
            found.steps.append(step)
        else:
            renamed.update(_inline(found, step, *call))
        if len(found.steps) > most:
            raise ImportModelError(f"{program.where}: its parts expand to more than {most} steps; expected fewer")
    found.results = [(label, _renamed(result, renamed)) for label, result in program.results]
    changed = {name: _renamed(Ref(new), renamed) for name, new in program.mutations.items()}
    if wrong := next((name for name, new in changed.items() if not isinstance(new, Ref)), None):
        raise ImportModelError(f"{program.where}: {wrong!r} becomes {changed[wrong]!r}; expected a tensor")
    found.mutations = {name: new.name for name, new in changed.items()}
    return found


def _call(program: Program, step: Step) -> Call | None:
    marked = _MARKED.get(step.target)
    try:
        return None if marked is None else marked(program, list(step.arguments.values()))
    except (IndexError, KeyError, AttributeError, TypeError) as error:
        where = f"{program.where}: node {step.name!r} ({step.target})"
        raise ImportModelError(f"{where}: names no part; the program is invalid") from error


def _inline(program: Program, step: Step, part: Program, arguments: list[Any]) -> dict[str, Any]:
    """Adds the steps of ``part``; what the outputs of ``step`` are."""
    if len(arguments) != len(part.inputs) or len(step.outputs) > len(part.results):
        raise ImportModelError(
            f"{part.where}: got {len(arguments)} arguments, {len(step.outputs)} results; expected {len(part.inputs)}, "
            f"{len(part.results)}")
    own = {name: Ref(f"{step.name}/{name}") for name in part.metas}
    known: dict[str, Any] = {**own, **dict(zip((item.name for item in part.inputs), arguments))}
    program.metas.update({ref.name: part.metas[name] for name, ref in own.items()})
    program.weights.update({own[name].name: weight for name, weight in part.weights.items()})
    program.parts.update({f"{step.name}/{name}": inner for name, inner in part.parts.items()})
    known.update({name: Ref(f"{step.name}/{name}") for name in part.parts})
    for inner in part.steps:
        program.steps.append(replace(
            inner,
            name=f"{step.name}/{inner.name}",
            arguments={name: _renamed(value, known) for name, value in inner.arguments.items()},
            outputs=tuple(name and f"{step.name}/{name}" for name in inner.outputs)))
    return {name: _renamed(result, known) for name, (_, result) in zip(step.outputs, part.results) if name}


def _renamed(value: Any, names: Mapping[str, Any]) -> Any:
    if isinstance(value, Ref):
        return names.get(value.name, value)
    return [_renamed(item, names) for item in value] if isinstance(value, list | tuple) else value
