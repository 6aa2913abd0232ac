"""Functions of a module as the interpreter evaluates them, with the states of a session."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.errors import ForgeError, InputError
from forge.ir.functions.states import replaced
from forge.ir.graph import Module
from forge.ir.interp import bind_symbols, run_module
from forge.ir.nodes import Value
from forge.ir.op import ReferenceValue
from forge.ir.types import OptionalType, SequenceType


class Reference:
    """A function that the interpreter evaluates; called as compiled models are. It keeps its states from call to call.

    Attributes:
        states: by name; what is not there is as in a new session.
    """

    def __init__(self, module: Module, function: str | None = None, states: dict[str, np.ndarray] | None = None) -> None:
        self._module = module
        self._graph = module.main if function is None else module.public[function]
        self._inputs = [v for v in self._graph.inputs if v.name not in self._graph.params and v.name not in self._graph.states]
        self._takes_list = [isinstance(v.type, SequenceType | OptionalType) for v in self._inputs] == [True]
        self.states: dict[str, np.ndarray] = {} if states is None else states

    def __getitem__(self, function: str) -> Reference:
        """Another public function over the same states."""
        return Reference(self._module, function, self.states)

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """The output, or a list if the function has several, of inputs by position, by name, or as one list, tuple or dictionary.

        Raises:
            InputError: wrong number, name, element type, rank or shape.
            ForgeError: an operator met values that it cannot handle.
        """
        if not named and len(inputs) == 1 and isinstance(inputs[0], dict if self._takes_list else list | tuple | dict):
            inputs, named = ((), inputs[0]) if isinstance(inputs[0], dict) else (tuple(inputs[0]), {})
        values = self._arranged(inputs, named)
        kept = self._kept(values)
        results = run_module(self._module, {**values, **kept}, graph=self._graph)
        names = replaced(self._graph)
        states = {name: results[k] for k, name in names.items() if name in self._graph.states}
        self.states |= {name: np.array(array) for name, array in states.items()}
        given = [*values.values(), *kept.values()]
        own = [_own(result, given) for k, result in enumerate(results) if names.get(k) not in states]
        return own[0] if len(own) == 1 else own

    def _kept(self, given: Mapping[str, ReferenceValue]) -> dict[str, np.ndarray]:
        """The states that the function reads: zeros have the sizes that the other inputs and states say."""
        read = [value for value in self._graph.inputs if value.name in self._graph.states]
        first = {value.name: self._graph.states[value.name].initial for value in read}
        known = {name: array for name, array in {**first, **self.states}.items() if array is not None and name in first}
        sizes: defaultdict[str, int] = defaultdict(int)
        for value in self._graph.inputs:
            with_sizes = known.get(value.name, given.get(value.name))
            if isinstance(with_sizes, np.ndarray):
                _bind(value, with_sizes, sizes)
        return {value.name: known[value.name] if value.name in known else _zeros(value, sizes) for value in read}

    def _arranged(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> dict[str, ReferenceValue]:
        names = [v.name for v in self._inputs]
        listed = ", ".join(names)
        unknown = [n for n in named if n not in names]
        if unknown or len(inputs) > len(names):
            problem = f"input {unknown[0]!r} is unknown" if unknown else f"got {len(inputs)} inputs"
            raise InputError(f"inference: {problem}; expected {len(names)} ({listed})")
        twice = [n for n in names[: len(inputs)] if n in named]
        if twice:
            raise InputError(f"inference: input {twice[0]!r} is given by position and by name; expected one of them")
        return {**dict(zip(names, inputs)), **named}


def _bind(value: Value, array: np.ndarray, sizes: dict[str, int]) -> None:
    """Sizes of an input; whether they fit is asked later."""
    known: dict[str, int] = {}
    try:
        bind_symbols(value, array, known)
    except ForgeError:
        return
    sizes.update({**known, **sizes})


def _zeros(value: Value, sizes: Mapping[str, int]) -> np.ndarray:
    shape = [dims.evaluate(d, {s: sizes[s] for s in dims.symbols(d)}) for d in value.shape]
    return np.zeros(shape, dtypes.numpy_dtype(value.dtype))


def _own(result: ReferenceValue, inputs: Iterable[ReferenceValue]) -> ReferenceValue:
    """``result`` in memory of its own: no weight, no view of an input."""
    if not isinstance(result, np.ndarray):
        return result
    arrays = [a for a in inputs if isinstance(a, np.ndarray)]
    is_own = result.flags.writeable and not any(np.may_share_memory(result, a) for a in arrays)
    return result if is_own else result.copy()
