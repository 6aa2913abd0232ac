"""Sequences and optionals on the command line: an element is an array of its own, called ``NAME[0]``, ``NAME[1]``, ..."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from forge.errors import OptionError

_ELEMENT = re.compile(r"(.*)\[(\d+)\]")


def base(name: str) -> str:
    """The name of the sequence whose element ``name`` is; else ``name``."""
    match = _ELEMENT.fullmatch(name)
    return match[1] if match else name


def gather(arrays: Mapping[str, np.ndarray], names: Sequence[str], dtypes: Sequence[str]) -> dict[str, Any]:
    """The inputs of a model: a list for a sequence, the value or None for an optional.

    An optional that is a sequence is given by its elements, too.

    Raises:
        OptionError: an element is missing, or an array belongs to no input.
    """
    inputs: dict[str, Any] = {}
    for name, dtype in zip(names, dtypes, strict=True):
        elements = {n: a for n, a in arrays.items() if base(n) == name and n != name}
        if dtype == "sequence" or (dtype == "optional" and elements):
            inputs[name] = _elements(name, elements)
        elif dtype == "optional":
            inputs[name] = arrays.get(name)
        elif name in arrays:
            inputs[name] = arrays[name]
    lost = [n for n in arrays if n not in inputs and not isinstance(inputs.get(base(n)), list)]
    if lost:
        raise OptionError(f"--input: {lost[0]!r} is not an input of the model; expected one of: {', '.join(names)}")
    return inputs


def _elements(name: str, elements: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    wanted = [f"{name}[{k}]" for k in range(len(elements))]
    missing = [n for n in wanted if n not in elements]
    if missing:
        raise OptionError(f"--input: {missing[0]!r} is missing; got {', '.join(elements)}; expected elements from 0 on")
    return [elements[n] for n in wanted]


def spread(outputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Arrays by name: the elements of sequences one by one, and nothing for an empty optional."""
    arrays: dict[str, np.ndarray] = {}
    for name, value in outputs.items():
        if isinstance(value, list):
            arrays |= spread({f"{name}[{k}]": element for k, element in enumerate(value)})
        elif value is not None:
            arrays[name] = value
    return arrays
