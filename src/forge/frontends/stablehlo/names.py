"""What inputs and outputs of a function are called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from forge.frontends.stablehlo.module import Function, Symbol, Value
from forge.frontends.stablehlo.sources import Source

_ARGUMENT = re.compile(r"[A-Za-z_]\w*(\.\w+|\[[^\]]*\])*", flags=re.ASCII)
"""A parameter and the path to a part of it, as jax writes them: ``params['w'].scale[0]``; no file and line."""


def argument_names(function: Function, first: int, source: Source) -> tuple[str, ...]:
    """Names of the arguments from number ``first`` on: identifiers, each its own.

    What jax says of an argument is best (``params['w']`` is ``params_w``), then where it is in all arguments (``args[0]['w']`` is
    ``arg0_w``), then what the file calls it.
    """
    arguments = function.body.arguments
    said = _locations(function, source.module.functions)
    found = []
    for position, argument in enumerate(arguments[first:], first):
        attributes = function.argument_attributes[position] if position < len(function.argument_attributes) else {}
        path = source.paths[position - first] if position - first < len(source.paths) else argument.name
        name = str(attributes.get("jax.arg_info") or said[argument] or re.sub(r"^args\[(\d+)\]", r"arg\1", path))
        found.append(identifier(name, f"arg{position}"))
    return unique(found, set())


def _locations(function: Function, functions: Mapping[str, Function]) -> dict[Value, str]:
    """What locations say of arguments, here or in a function that they are passed to: jax wraps those with symbolic sizes."""
    found = {argument: _path(argument) for argument in function.body.arguments}
    for operation in function.body.operations:
        callee = operation.attributes.get("callee")
        if operation.name == "func.call" and isinstance(callee, Symbol) and callee.name in functions:
            for given, formal in zip(operation.operands, functions[callee.name].body.arguments):
                if given in found:
                    found[given] = found[given] or _path(formal)
    return found


def _path(argument: Value) -> str:
    return argument.location if _ARGUMENT.fullmatch(argument.location[:200]) else ""


def result_names(function: Function, count: int) -> list[str]:
    """Names of the results: ``result['logits']`` of jax is ``logits``."""
    names = []
    for position in range(count):
        attributes = function.result_attributes[position] if position < len(function.result_attributes) else {}
        path = str(attributes.get("jax.result_info", "")).removeprefix("result")
        name = identifier(path, "")
        names.append(name if name[:1].isalpha() else f"output_{name or position}")
    return names


def identifier(text: str, default: str) -> str:
    """``text`` with ``_`` in the place of all that names do not have."""
    return re.sub(r"\W+", "_", text[:200], flags=re.ASCII).strip("_") or default


def unique(names: Sequence[str], taken: set[str]) -> tuple[str, ...]:
    """``names``, numbered where one was there before."""
    found: list[str] = []
    for name in names:
        own, number = name, 1
        while own in taken:
            own, number = f"{name}_{number}", number + 1
        taken.add(own)
        found.append(own)
    return tuple(found)
