"""The states of a library: what its functions read and replace, and first values."""

from __future__ import annotations

from forge.errors import CompileError
from forge.ir.functions.states import State, state_type
from forge.ir.graph import Graph
from forge.ir.types import TensorType
from forge.lowering.memory import MemoryPlan, WeightTable, storage_of
from forge.tir.library import Binding, StateMemory, StateSpec


class StateTable:
    """States by name, in the order in which functions bring them."""

    def __init__(self, weights: WeightTable) -> None:
        self.specs: dict[str, StateSpec] = {}
        self._weights = weights

    def bind(self, graph: Graph, plan: MemoryPlan) -> tuple[Binding, ...]:
        """Returns the bindings of a function whose values lie where ``plan`` says.

        Raises:
            CompileError: functions store a state in different orders of axes.
        """
        inputs = {value.name: number for number, value in enumerate(graph.inputs)}
        return tuple(
            Binding(self._number(graph, name, state), inputs.get(name), state.output, _memory(graph, name, state, plan))
            for name, state in graph.states.items())

    def _number(self, graph: Graph, name: str, state: State) -> int:
        spec = self._spec(name, state, state_type(graph, name))
        known = self.specs.setdefault(name, spec)
        if known.axes != spec.axes:
            where = f"compile: @{graph.name}: state {name!r}"
            raise CompileError(f"{where}: stored with its axes in the order {spec.axes}; expected {known.axes}, as elsewhere")
        dims = tuple(a if a == b else None for a, b in zip(known.dims, spec.dims))
        self.specs[name] = StateSpec(name, known.dtype, dims, known.axes, known.initial, known.initial_shape)
        return list(self.specs).index(name)

    def _spec(self, name: str, state: State, stored: TensorType) -> StateSpec:
        axes = state.axes or tuple(range(stored.rank))
        dims: list[int | None] = [None] * stored.rank
        for axis, extent in zip(axes, stored.shape):
            dims[axis] = extent if isinstance(extent, int) else None
        if state.initial is None:
            return StateSpec(name, stored.dtype, tuple(dims), axes)
        place = self._weights.place([state.initial.transpose(axes)])
        return StateSpec(name, stored.dtype, tuple(dims), axes, place, state.initial.shape)


def _memory(graph: Graph, name: str, state: State, plan: MemoryPlan) -> StateMemory:
    value = next((v for v in graph.inputs if v.name == name), None)
    output = None if state.output is None else graph.outputs[state.output]
    if value is None or output is None or storage_of(plan.followed, output) is not value:
        return StateMemory.REPLACED
    return StateMemory.IN_PLACE if output.type == value.type else StateMemory.APPENDED
