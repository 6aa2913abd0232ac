"""Where two modules differ, in structure: values by where they are defined, whatever they are called."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge.frontends.stablehlo.module import Block, Opaque, StablehloModule


def difference(left: StablehloModule, right: StablehloModule, locations: bool = False) -> str:
    """The first difference; "" where there is none."""
    for part in ("name", "attributes"):
        if found := _of_attributes(getattr(left, part), getattr(right, part)):
            return f"module {part}: {found}"
    if list(left.functions) != list(right.functions):
        return f"functions {list(left.functions)} and {list(right.functions)}"
    for name, one in left.functions.items():
        other = right.functions[name]
        for part in ("results", "is_public", "argument_attributes", "result_attributes"):
            if found := _of_attributes(getattr(one, part), getattr(other, part)):
                return f"@{name}: {part}: {found}"
        if locations and [value.location for value in one.body.arguments] != [value.location for value in other.body.arguments]:
            return f"@{name}: locations of arguments {one.body.arguments} and {other.body.arguments}"
        if found := _of_blocks(one.body, other.body, {}, locations):
            return f"@{name}: {found}"
    return ""


def _of_blocks(left: Block, right: Block, known: dict[Any, Any], locations: bool) -> str:
    if [value.type for value in left.arguments] != [value.type for value in right.arguments]:
        return f"arguments {left.arguments} and {right.arguments}"
    known.update(zip(left.arguments, right.arguments))
    if len(left.operations) != len(right.operations):
        return f"{len(left.operations)} operations and {len(right.operations)}"
    for index, (one, other) in enumerate(zip(left.operations, right.operations)):
        place = f"operation {index} ({one.name}): "
        if one.name != other.name:
            return f"{place}{other.name}"
        if [known[value] for value in one.operands] != other.operands:
            return f"{place}other operands"
        if [value.type for value in one.results] != [value.type for value in other.results]:
            return f"{place}results {one.results} and {other.results}"
        if found := _of_attributes(one.attributes, other.attributes):
            return f"{place}attributes{found}"
        if locations and one.location != other.location:
            return f"{place}location {one.location!r} and {other.location!r}"
        if len(one.regions) != len(other.regions):
            return f"{place}{len(one.regions)} regions and {len(other.regions)}"
        for first, second in zip(one.regions, other.regions):
            if found := _of_blocks(first, second, known, locations):
                return f"{place}{found}"
        known.update(zip(one.results, other.results))
    return ""


def _of_attributes(left: Any, right: Any) -> str:
    if isinstance(left, Opaque) and isinstance(right, Opaque):  # bytecode of Shardy's attributes is not read
        same = left.text[:4] == right.text[:4]
    elif isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        same = (isinstance(left, np.ndarray) and isinstance(right, np.ndarray) and left.dtype == right.dtype
                and left.shape == right.shape and left.tobytes() == right.tobytes())
    elif isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        return next((f".{name}{found}" for name in left if (found := _of_attributes(left[name], right[name]))), "")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return next((f"[{i}]{found}" for i, pair in enumerate(zip(left, right)) if (found := _of_attributes(*pair))), "")
    else:
        same = type(left) is type(right) and repr(left) == repr(right)
    return "" if same else f": {left!r} and {right!r}"
