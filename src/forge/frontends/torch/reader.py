"""Programs from what torch exports: one reader of live objects and of the records in files, which say the same by other means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from forge.dims import Dim
from forge.errors import ImportModelError
from forge.frontends.scope import MAX_NESTING
from forge.frontends.torch.program import Input, Meta, Program, Ref, ScalarMeta, Step, TensorMeta, Weight

S = TypeVar("S")

WITH_EFFECTS = "higher_order.with_effects"
"""Applies an operator with effects, after the token that is its first argument. Steps have an order, and need no tokens."""

COMPARISONS = frozenset(f"operator.{op}" for op in ("eq", "ne", "lt", "le", "gt", "ge"))
"""What torch's assertions are of. Their arguments are values even where torch, which believes assertions, says what they are."""

_MUTATIONS = ("buffer_mutation", "parameter_mutation", "user_input_mutation")


@dataclass(frozen=True)
class Spec:
    """What a signature says of an input or an output of the graph.

    Attributes:
        kind: as torch calls it.
        value: the name of an input, the argument that is an output.
        where: the place, as messages name it.
        target: the path of a weight; what an output replaces: an input, or a weight by its path.
        array: reads the contents of a weight.
        constant: an input that is not a tensor and was fixed when the program was exported.
    """

    kind: str
    value: Any
    where: str
    target: str = ""
    array: Callable[[], np.ndarray] | None = None
    constant: Any = None

    def wrong(self, expected: str) -> ImportModelError:
        return ImportModelError(f"{self.where}: got {self.kind}; expected {expected}; export the model again")


class Graph(Protocol):
    """One graph of a program. What it has goes to ``program``: other graphs, as parts, while arguments of steps are read."""

    program: Program
    depth: int

    def metas(self) -> Iterable[tuple[str, Meta]]: ...

    def steps(self) -> Iterable[Step]: ...

    def inputs(self) -> Iterable[str]: ...

    def results(self) -> Sequence[Any]: ...


def read(graph: Graph, inputs: Iterable[Spec], outputs: Iterable[Spec], labels: Callable[[int], Sequence[str]]) -> Program:
    """The program of a graph with a signature, which is asked after the graph; ``labels`` gives names of so many results.

    Raises:
        ImportModelError: it has inputs or outputs that are not tensors or numbers, or contradicts itself.
    """
    program = read_graph(graph)
    names: dict[tuple[bool, str], str] = {}  # by whether the user gives it, and its own name or its path in the module
    for spec in inputs:
        if spec.kind != "token":
            key = (spec.array is None, spec.target if spec.array else spec.value)
            if key in names or spec.value in names.values():
                raise spec.wrong("every input once")
            names[key] = spec.value
            _add_input(program, spec)
    returned = []
    for spec in outputs:
        if spec.kind in ("user_output", "loss_output"):
            returned.append(spec.value)
        elif spec.kind in _MUTATIONS:
            changed = names.get((spec.kind == "user_input_mutation", spec.target))
            if changed is None or not isinstance(spec.value, Ref):
                raise spec.wrong("a tensor that is an input, a buffer or a parameter")
            program.mutations[changed] = spec.value.name
        elif spec.kind != "token":
            raise spec.wrong("results and mutations")
    program.results = list(zip(labels(len(returned)), returned))
    return program


def _add_input(program: Program, spec: Spec) -> None:
    if spec.array is not None:
        program.weights[spec.value] = Weight(spec.target, spec.array, spec.kind == "parameter", spec.kind == "buffer")
    elif spec.kind not in ("user_input", "constant_input"):
        raise spec.wrong("inputs that are tensors")
    elif spec.kind == "user_input" and program.metas.get(spec.value) is None:
        raise spec.wrong("an input whose type the graph says")
    else:
        program.inputs.append(Input(spec.value, spec.value, spec.constant, spec.kind == "constant_input"))


def read_graph(graph: Graph) -> Program:
    """The program of a graph, without inputs and results."""
    program = graph.program
    if graph.depth > MAX_NESTING:
        raise ImportModelError(f"{program.where}: graphs are nested more than {MAX_NESTING} deep")
    program.metas.update(graph.metas())
    program.steps.extend(graph.steps())
    return program


def read_part(outer: Program, name: str, graph: Graph) -> Ref:
    """Adds a graph that steps take as an argument to the parts of ``outer``; the argument."""
    inner = read_graph(graph)
    inner.inputs = [Input(value, value) for value in graph.inputs()]
    inner.results = [(f"output_{k}", result) for k, result in enumerate(graph.results())]
    outer.parts[name] = inner
    return Ref(name)


def letter(position: int) -> str:
    """The name of an argument of a function that has no schema."""
    return chr(ord("a") + position) if position < 26 else f"argument_{position}"


def step_of(
    name: str, target: str, arguments: Mapping[str, Any], outputs: Sequence[str], module: str = "", source: str = "",
    mutates: tuple[str, ...] = (),
) -> Step:
    """A call as a step; of an operator with effects, the call of that.

    Raises:
        ImportModelError: it is of no operator.
    """
    if target == WITH_EFFECTS:
        effect = arguments.get("b")
        if not isinstance(effect, str) or not outputs:
            raise ImportModelError(f"node {name!r} ({target}): got {effect!r}; expected a token and an operator")
        arguments = {argument: value for argument, value in arguments.items() if argument not in ("a", "b")}
        target, outputs = effect.removeprefix("torch.ops."), outputs[1:]
    return Step(name, target, arguments, tuple(outputs), module, source, mutates)


def number(name: str, meta: Meta, target: str) -> Dim | Ref:
    """A computed number as an argument of ``target``: by its size, where that is known."""
    known = meta.size if isinstance(meta, ScalarMeta) else None
    return Ref(name) if known is None or target in COMPARISONS and isinstance(known, int) else known


def tensor_meta(dtype: str, shape: Sequence[Dim], strides: Sequence[S] | None, offset: S, size: Callable[[S], Dim]) -> TensorMeta:
    """A type with its layout in the storage; without one where a tensor has none, or it is not arithmetic on integers."""
    try:
        return TensorMeta(dtype, tuple(shape), *(() if strides is None else (tuple(map(size, strides)), size(offset))))
    except ImportModelError:
        return TensorMeta(dtype, tuple(shape))
