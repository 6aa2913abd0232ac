"""State and donations: inputs and outputs of a function that share memory.

Both leave a function what it is, a pure one: an old value goes in, a new one comes out. Only the memory plan and sessions know
that they may lie in one place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from forge import dims, dtypes
from forge.errors import InvalidGraphError
from forge.ir.arrays import held
from forge.ir.types import TensorType, compatible

if TYPE_CHECKING:
    from forge.ir.graph import Graph
    from forge.ir.nodes import Value


@dataclass(frozen=True, eq=False)
class State:
    """A tensor that a session keeps from one call to the next. A function reads it through its input of that name, if it has one.

    Attributes:
        output: number of the output that replaces it; None: the function only reads it.
        initial: what it is in a new session, read-only. None: zeros; a size that no other input gives is 0.
        axes: in the compiler, where input and output have their axes in another order: theirs number k is axis ``axes[k]`` of the
            state and of ``initial``. Empty: they are the same.
    """

    output: int | None = None
    initial: np.ndarray | None = None
    axes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.initial is not None:
            object.__setattr__(self, "initial", held(self.initial))


def replaced(graph: Graph) -> dict[int, str]:
    """Names of the states and donated inputs that outputs replace, by the number of the output."""
    found = {number: name for name, number in graph.donated.items()}
    found |= {state.output: name for name, state in graph.states.items() if state.output is not None}
    return found


def verify_states(graph: Graph, where: str) -> None:
    """Raises InvalidGraphError unless states and donated inputs are inputs without a bound value, and outputs that fit them."""
    inputs = {v.name: v for v in graph.inputs}
    numbers = [*graph.donated.values(), *(s.output for s in graph.states.values() if s.output is not None)]
    for name, number in [*graph.donated.items(), *((n, s.output) for n, s in graph.states.items())]:
        at = f"{where}: {'state' if name in graph.states else 'donated input'} {name!r}"
        if name in graph.states and name in graph.donated:
            raise InvalidGraphError(f"{at}: is donated, too; expected one of them")
        if name not in inputs and (name in graph.donated or number is None):
            raise InvalidGraphError(f"{at}: names no input; expected one of: {', '.join(inputs)}")
        if name in graph.params:
            raise InvalidGraphError(f"{at}: has a value in params; expected one or the other")
        if number is not None and (type(number) is not int or not 0 <= number < len(graph.outputs)):
            raise InvalidGraphError(f"{at}: got output {number!r}; expected one of {len(graph.outputs)}")
        if number is not None and numbers.count(number) > 1:
            raise InvalidGraphError(f"{at}: output {number} replaces more than one input")
        _verify_types(graph, name, inputs.get(name), number, at)


def _verify_types(graph: Graph, name: str, value: Value | None, number: int | None, at: str) -> None:
    state, output = graph.states.get(name), None if number is None else graph.outputs[number]
    for found in (v for v in (value, output) if v is not None):
        if not isinstance(found.type, TensorType) or found.type.dtype == "string":
            raise InvalidGraphError(f"{at}: got {found.type}; expected a tensor of numbers")
    if value is not None and output is not None:
        fits = value.type == output.type if state is None else replaces(value.tensor_type, output.tensor_type)
        if not fits:
            rule = "the same type" if state is None else "the same element type and rank, and sizes that differ in symbols only"
            raise InvalidGraphError(f"{at}: output {number} has type {output.type} for {value.type}; expected {rule}")
    if state is not None and state.initial is not None:
        sizes = [state.initial.shape[axis] for axis in state.axes or range(state.initial.ndim)]
        type_ = TensorType(tuple(sizes), dtypes.canonical(state.initial.dtype))
        kept = value or output
        if kept is not None and not compatible(kept.tensor_type, type_):
            raise InvalidGraphError(f"{at}: its initial value is {type_}; expected {kept.type}")


def replaces(old: TensorType, new: TensorType) -> bool:
    """Whether a state of the one type may become one of the other: its next call binds other sizes to its symbols."""
    if old.dtype != new.dtype or old.rank != new.rank:
        return False
    return all(a == b or dims.symbol_name(a) is not None for a, b in zip(old.shape, new.shape))


def verify_shared_states(graphs: Mapping[str, Graph]) -> None:
    """Raises InvalidGraphError where functions mean different tensors by one name of a state."""
    first: dict[str, tuple[str, TensorType, np.ndarray | None]] = {}
    for function, graph in graphs.items():
        for name, state in graph.states.items():
            type_ = state_type(graph, name)
            other, known, initial = first.setdefault(name, (function, type_, state.initial))
            if known.dtype != type_.dtype or known.rank != type_.rank or not _may_be_equal(known, type_):
                raise InvalidGraphError(f"@{function}: state {name!r}: got {type_}; expected {known}, as @{other} has it")
            if not _is_equal(initial, state.initial):
                problem = f"its initial value is another than that of @{other}; expected the same"
                raise InvalidGraphError(f"@{function}: state {name!r}: {problem}")


def state_type(graph: Graph, name: str) -> TensorType:
    """The type in which the function reads the state, else that in which it writes it."""
    found = next((v for v in graph.inputs if v.name == name), None)
    return (found or graph.outputs[graph.states[name].output or 0]).tensor_type


def _is_equal(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    return a is b or (a is not None and b is not None and a.dtype == b.dtype and np.array_equal(a, b))


def _may_be_equal(a: TensorType, b: TensorType) -> bool:
    return all(not isinstance(x, int) or not isinstance(y, int) or x == y for x, y in zip(a.shape, b.shape))
