"""Modules as graphs: each method of a specification is called with tensors that stand for its inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge.errors import OptionError
from forge.ir.builder import Builder
from forge.ir.functions.states import State
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.module import IRModule
from forge.nn import spec as specifications
from forge.nn.effects import Effect, IOEffect
from forge.nn.nested import Structure, flattened
from forge.nn.spec import MethodSpec, ModuleSpec
from forge.nn.tensor import Object, Tensor
from forge.nn.tracing import Context, Trace, traced


class Exporter:
    """Makes the functions of a module.

    Attributes:
        spec: its methods.
        structures: how the results of each method are nested.
        extern_modules: external modules that were called.
    """

    def __init__(self, module: Any, spec: Any, debug: bool) -> None:
        self.root = module
        self.spec = ModuleSpec.from_raw(spec, module)
        self.io = IOEffect() if debug else None
        self.effects: dict[str, Effect] = dict(module.named_parts(Effect))
        self.parameters = dict(module.named_parameters())
        self.paths = {id(part): path for path, part in module.named_modules()}
        self.structures: dict[str, Structure] = {}
        self.extern_modules: list[Any] = []
        self.functions: dict[str, Graph] = {}

    def module(self, keep_params_as_input: bool, bind: bool = True) -> IRModule:
        """The functions.

        Args:
            keep_params_as_input: parameters with data are inputs with values, not constants.
            bind: those have values.
        """
        graphs = {name: self._method(name, method, keep_params_as_input, bind) for name, method in self.spec.methods.items()}
        subroutines = {function.name: function for function in self.functions.values()}
        clash = next((name for name in subroutines if name in graphs), None)
        if clash is not None:
            raise OptionError(f"export: {clash!r} is a method of the specification and a subroutine; rename one")
        made = Module()
        made.graphs = {**graphs, **subroutines}
        made.external_modules = tuple(self.extern_modules)
        return IRModule(made, fold_constants=not keep_params_as_input, fold_batch_norms=not keep_params_as_input)

    def _method(self, name: str, method: MethodSpec, keep: bool, bind: bool) -> Graph:
        trace = Trace(name, self.functions)
        trace.io, trace.paths, trace.extern_modules = self.io, self.paths, self.extern_modules
        graph = trace.graph
        graph.attributes["public"] = True
        with traced(trace), trace.inside(self.root):
            arguments = {argument: _argument(trace, of, argument) for argument, of in method.arguments.items()}
            states = self._enter(trace) if method.effect_mode != "none" else {}
            self._bind(trace, method.param_mode, keep, bind)
            result = method.method(**arguments)
            graph.outputs = self._outputs(name, result)
            self._leave(trace, states)
        graph.attributes["num_input"] = sum(value not in trace.parameters.values() for value in graph.inputs)
        return graph

    def _enter(self, trace: Trace) -> dict[str, list[Value]]:
        """Gives effects their states as inputs of the method."""
        inputs: dict[str, list[Value]] = {}
        for path, effect in self.effects.items():
            inputs[path] = effect.create(path)
            effect.set_state(inputs[path])
        return inputs

    def _leave(self, trace: Trace, states: dict[str, list[Value]]) -> None:
        """What effects are now replaces what they were."""
        graph = trace.graph
        for path, inputs in states.items():
            initial = _initial(self.effects[path], path)
            final = self.effects[path].finalize()
            if len(final) != len(inputs) or len(initial) != len(inputs):
                raise OptionError(f"effect {path!r}: got {len(final)} values at the end of {trace.where}; expected {len(inputs)}")
            for before, after, array in zip(inputs, final, initial):
                number = None
                if after is before and not graph.use_count(before):
                    graph.inputs.remove(before)
                    continue
                if after is not before:
                    number = len(graph.outputs)
                    graph.outputs.append(after)
                graph.states[before.name] = State(number, array if array.size else None)

    def _bind(self, trace: Trace, mode: str, keep: bool, bind: bool) -> None:
        values = {}
        for number, (path, parameter) in enumerate(self.parameters.items()):
            if parameter.data is not None and (mode == "none" or not keep):
                trace.bind(parameter, path, constant=True)
            elif mode != "none":
                value = trace.bind(parameter, f"packed_params.{number}" if mode == "packed" else path)
                if parameter.data is not None and bind:
                    values[value.name] = np.asarray(parameter.data)
        trace.graph.params = values

    def _outputs(self, method: str, result: Any) -> list[Value]:
        leaves, self.structures[method] = flattened(result)
        return [_output(f"{type(self.root).__name__}.{method}", leaf) for leaf in leaves]


def _output(where: str, result: Any) -> Value:
    if isinstance(result, Object):
        return result.source
    if not isinstance(result, Tensor):
        raise OptionError(f"{where}: returns {type(result).__name__}; expected tensors, in tuples, lists or dictionaries")
    return Context("output").value(result)


def _argument(trace: Trace, of: specifications.Argument, name: str) -> Any:
    """What the method gets, of new inputs of the graph."""
    if isinstance(of, specifications.Tensor):
        return Tensor(_expr=trace.input(of.type, name))
    if isinstance(of, specifications.Int):
        return trace.count(Context(name), trace.input(TensorType((), "int64"), name))
    if isinstance(of, specifications.Object):
        return of.object_type(_expr=trace.input(of.type, name), _name=name)
    return of.kind(_argument(trace, element, f"{name}.{k}") for k, element in enumerate(of.elements))


def _initial(effect: Effect, path: str) -> list[np.ndarray]:
    """The state of a new session."""
    builder = Builder(Graph(name="_initialize_effect"))
    builder.output(*effect.emit_init(path, builder))
    return [np.asarray(value) for value in run_graph(builder.graph, [])]
