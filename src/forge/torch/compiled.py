"""A graph of ATen operators as compiled code that is called with tensors of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad
from torch.fx import GraphModule

from forge import dims
from forge.driver import compile_module
from forge.errors import GradientError
from forge.frontends.torch.captured import Captured, Given, Memory, captured_program, path_of
from forge.frontends.torch.exported import size_of
from forge.frontends.torch.importer import import_program
from forge.module import IRModule
from forge.options import CompileOptions
from forge.torch.overlaps import overlaps, reached_weights, shared_memories
from forge.torch.results import plan_results
from forge.torch.views import is_stored
from forge.torch.weights import Weights, refresh
from forge.torch.wrappers import parts
from forge_runtime import donate

_ONCE, _TWICE = 1, 2
"""When weights change for the first time, code is compiled again for the new contents; those that change after that are inputs,
and with the third change all are: code of a graph is compiled four times at most, whatever is trained."""

Call = Callable[..., Sequence[Any]]


@dataclass(frozen=True)
class Settings:
    """How graphs are compiled.

    Attributes:
        where: what messages call the caller.
        pipeline: changes the module of a graph before it is compiled.
    """

    options: CompileOptions
    where: str
    pipeline: Callable[[IRModule], IRModule] | None = None


def given_of(module: GraphModule, examples: Sequence[Any], own: Mapping[str, torch.Tensor]) -> list[Given]:
    """What Dynamo says of the inputs of a graph that it captured: parameters and buffers of modules are weights.

    But for those made in inference mode, of which PyTorch does not say whether they were written since.

    Args:
        own: tensors of the graph itself, which are arguments after the others where Dynamo is told to leave modules whole.
    """
    found = []
    for node, example in zip((n for n in module.graph.nodes if n.op == "placeholder"), examples):
        source = getattr(node, "_dynamo_source", None)
        is_weight = getattr(example, "_dynamo_static_input_type", None) == "unguarded" and not example.is_inference()
        label = (path_of(str(source.name)) if source is not None else "") or node.name
        is_named = is_weight or label[0].isalpha()
        label = label if is_named else f"input_{label}"
        found += [Given(f"{label}{path}", part if is_weight else None) for path, part in parts(example)]
    for name, tensor in own.items():
        found += [Given(f"{name}{path}", None if part.is_inference() else part) for path, part in parts(tensor)]
    return found


class CompiledGraph:
    """Compiled code of one graph; called with the graph's arguments, it returns the graph's results.

    Tensors that the model keeps and the graph does not write are constants of the code. Each call looks whether they are as they
    were (`Weights`); where they are not, the code is compiled again.
    """

    def __init__(
        self, module: GraphModule, given: Sequence[Given], settings: Settings, shared: Sequence[Memory] = ()
    ) -> None:
        """Args: shared: memory of several arguments; it is given after these."""
        self.module = module
        self.given = list(given)
        self.settings = settings
        self.shared = shared
        self._variants: dict[tuple[Memory, ...], CompiledGraph] = {}
        self.plan = plan_results(module)
        self.changes = 0
        (output,) = (node for node in module.graph.nodes if node.op == "output")
        self.returns_sequence = isinstance(output.args[0], list | tuple)
        self._compile()

    def _compile(self) -> None:
        captured = self._captured()
        if reached := reached_weights(self.module, captured):
            for number in reached:
                self.given[number] = Given(self.given[number].label)
            captured = self._captured()
        weights = Weights(captured.weights, [self.given[k].weight for k in captured.weights])
        model = IRModule(import_program(captured.program))
        if self.settings.pipeline is not None:
            model = self.settings.pipeline(model)
        self.run = compile_module(model.mod, self.settings.options).runtime().returning(torch.Tensor, detach=True)
        self._threads = 0
        self._call = self._caller(captured)
        self._weights = weights
        self._are_same = weights.are_same

    def _captured(self) -> Captured:
        return captured_program(self.module, self.given, self.plan.computed, self.settings.where, shared=self.shared)

    def __call__(self, *arguments: Any) -> Sequence[Any]:
        if forward_ad._current_level >= 0:
            _check_tangents(arguments)
        if not self._are_same(arguments):
            self._take_changed(arguments)
        if self._threads != torch.get_num_threads():
            self._threads = torch.get_num_threads()
            self.run.set_num_threads(self._threads)
        return self._call(arguments)

    def _take_changed(self, arguments: Sequence[Any]) -> None:
        now = self._weights.now(arguments)
        changed = self._weights.changed(now)
        if not changed:
            self._weights = now
            self._are_same = now.are_same
            return
        refresh()  # what wrote them may have written weights of other graphs
        self.changes += 1
        for number in changed if self.changes <= _TWICE else self._weights.numbers:
            kept = arguments[number] if self.changes == _ONCE else None
            self.given[number] = Given(self.given[number].label, kept)
        self._compile()


    def _caller(self, captured: Captured) -> Callable[[Sequence[Any]], Sequence[Any]]:
        """What calls the code with arguments of the graph, and makes the graph's results."""
        run, plan = self.run, self.plan
        take = _taker(captured, self.module)
        count = len(plan.computed)
        is_single = len(run.output_names) == 1
        finish = plan.finish(_symbols(self.module))
        if plan.is_plain and not captured.written:
            if is_single:
                return lambda arguments: (run(*take(arguments)),)
            return lambda arguments: run(*take(arguments))

        written = [captured.inputs.index(number) for number in captured.written]

        def call(arguments: Sequence[Any]) -> Sequence[Any]:
            given = list(take(arguments))
            if overlaps(given, written):
                return self._of_shared(captured, arguments)
            lent = [(tensor, tensor.contiguous()) for tensor in (given[k].detach() for k in written)]
            for k, (_, dense) in zip(written, lent):
                given[k] = donate(dense)
            outputs = run(*given)
            for number, (tensor, dense) in zip(captured.written, lent):
                if dense.data_ptr() != tensor.data_ptr():
                    tensor.copy_(dense)
                torch.autograd.graph.increment_version(arguments[number])
            return finish(arguments, [outputs] if is_single else outputs[:count])

        return call

    def _of_shared(self, captured: Captured, arguments: Sequence[Any]) -> Sequence[Any]:
        """Results where arguments that are written have elements of others: of code that is given their memory instead."""
        memories, wholes = shared_memories(captured, arguments, self.given)
        variant = self._variants.get(memories)
        if variant is None:
            members = {number for memory in memories for number in memory.numbers}
            given = [Given(item.label) if number in members else item for number, item in enumerate(self.given)]
            given += [Given(f"memory of {given[memory.numbers[0]].label}") for memory in memories]
            variant = self._variants[memories] = CompiledGraph(self.module, given, self.settings, memories)
        return variant(*arguments, *wholes)


def _check_tangents(arguments: Sequence[Any]) -> None:
    """Raises GradientError: an argument has a gradient in forward mode."""
    if any(isinstance(a, torch.Tensor) and forward_ad.unpack_dual(a).tangent is not None for a in arguments):
        raise GradientError(
            "torch.compile(backend='forge'): got a tensor with a tangent (torch.autograd.forward_ad); expected none: compiled "
            "code has no gradients; compile a function that calls torch.func.jvp itself")


def _taker(captured: Captured, module: GraphModule) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What takes the inputs of the code from the arguments of the graph."""
    numbers = captured.inputs
    values = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
    are_stored = all(k >= len(values) or is_stored(values[k]) for k in numbers)
    if not any(captured.orders) and are_stored:
        return itemgetter(*numbers) if len(numbers) > 1 else lambda arguments: [arguments[k] for k in numbers]

    def take(arguments: Sequence[Any]) -> list[Any]:
        found = []
        for number, order in zip(numbers, captured.orders):
            value = arguments[number]
            if not isinstance(value, torch.Tensor):
                value = np.asarray(value)
            elif number not in captured.written:
                value = value.resolve_conj().resolve_neg()
            found.append(value if order is None else value.permute(order))
        return found

    return take


def _symbols(module: GraphModule) -> Callable[[Sequence[Any]], dict[str, int]]:
    """What gives torch's symbols their values, from arguments: integers, and sizes of tensors."""
    found: dict[str, Callable[[Sequence[Any]], int]] = {}
    for number, node in enumerate(n for n in module.graph.nodes if n.op == "placeholder"):
        value = node.meta.get("val")
        sizes = enumerate(value.shape) if isinstance(value, torch.Tensor) else ()
        known: list[tuple[Any, Callable[[Sequence[Any]], int]]] = []
        if isinstance(value, torch.SymInt):
            known.append((value, itemgetter(number)))
        known += [(size, lambda arguments, n=number, a=axis: arguments[n].shape[a]) for axis, size in sizes]  # type: ignore[misc]
        for size, get in known:
            name = dims.symbol_name(size_of(size))
            if name is not None:
                found.setdefault(name, get)
    return lambda arguments: {name: int(get(arguments)) for name, get in found.items()}
