"""A PyTorch program without PyTorch: what all of its forms are read into.

Values have names. A step applies an operator of torch to arguments by the names of its schema: tensors are `Ref`, sizes are
integers or expressions of torch's symbols, the rest is plain Python. Steps may write to tensors in place and make views of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from forge.dims import Dim


@dataclass(frozen=True)
class Ref:
    """A value of the program as an argument."""

    name: str


@dataclass(frozen=True)
class TensorMeta:
    """What torch says of a tensor; sizes are expressions of torch's symbols. ``dtype`` is Forge's name.

    Attributes:
        strides: how many elements of the storage lie between neighbours along each axis; None where nothing says it.
        offset: number of the tensor's first element in the storage.
    """

    dtype: str
    shape: tuple[Dim, ...]
    strides: tuple[Dim, ...] | None = None
    offset: Dim = 0


@dataclass(frozen=True)
class ScalarMeta:
    """What torch says of a computed number: ``kind`` is int, float or bool; ``size`` is its value, where that is known."""

    kind: str
    size: Dim | None = None


Meta = TensorMeta | ScalarMeta | None


@dataclass(frozen=True)
class Step:
    """One application of an operator.

    Attributes:
        target: namespace and overload, ``aten.add.Tensor``; or a function of Python, ``operator.mul``.
        arguments: by the names of the schema, in its order; defaults may be missing.
        outputs: names of the results, empty where nothing reads them.
        module: path of the module that it is part of.
        source: the line of Python that made it, with file and number; may be empty.
        mutates: arguments that an operator of another library than torch writes; their new values are its last results.
    """

    name: str
    target: str
    arguments: Mapping[str, Any]
    outputs: tuple[str, ...]
    module: str = ""
    source: str = ""
    mutates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Input:
    """An input of the user. ``constant`` holds one that is not a tensor and was fixed when the program was exported."""

    name: str
    label: str
    constant: Any = None
    is_constant: bool = False


@dataclass(frozen=True)
class Weight:
    """A parameter, a buffer or a constant: ``label`` is its path in the module; ``read`` gives the array."""

    label: str
    read: Callable[[], np.ndarray]
    is_parameter: bool = False
    is_buffer: bool = False


@dataclass
class Program:
    """A function of tensors.

    Attributes:
        where: what messages call it.
        inputs: of the user, in order.
        weights: by the name of the value.
        results: what it returns, in order: a value or a constant of Python; with the label of the output.
        mutations: values that replace buffers or inputs at the end, by the name of these.
        metas: of values, by name.
        bounds: least and largest value of torch's symbols.
        guards: what torch assumed of the sizes of inputs, as `guards.conditions` takes it.
        symbol_names: what the user calls them.
        sizes: symbols that the user fixes.
        parts: programs that steps take as arguments, by name.
    """

    where: str
    inputs: list[Input] = field(default_factory=list)
    weights: dict[str, Weight] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    results: list[tuple[str, Any]] = field(default_factory=list)
    mutations: dict[str, str] = field(default_factory=dict)
    metas: dict[str, Meta] = field(default_factory=dict)
    bounds: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    symbol_names: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    parts: dict[str, Program] = field(default_factory=dict)
    guards: list[str] = field(default_factory=list)


def refs(argument: Any) -> list[str]:
    """Names of the values in an argument."""
    if isinstance(argument, Ref):
        return [argument.name]
    if isinstance(argument, Sequence) and not isinstance(argument, str):
        return [name for item in argument for name in refs(item)]
    return []


def label_weights(program: Program, rename: Callable[[str], str] = str) -> None:
    """Gives weights labels that no input or other weight has: ``rename`` of their own, where that is free."""
    taken = {item.label for item in program.inputs}
    for name, weight in program.weights.items():
        label = rename(weight.label)
        while label in taken:
            label += "_"
        taken.add(label)
        program.weights[name] = replace(weight, label=label)
