"""A graph of ATen operators as compiled code that is called with tensors of PyTorch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule

from forge import dims
from forge.driver import compile_module
from forge.errors import OpAttributeUnimplemented
from forge.frontends.torch.captured import Captured, Given, captured_program, path_of, size_of
from forge.frontends.torch.importer import import_program
from forge.module import IRModule
from forge.options import CompileOptions
from forge.torch.results import Plan, plan_results, storage_of
from forge_runtime import donate

_CHANGES = 2
"""So often code is compiled again for new contents of a tensor that the model keeps; after that, the tensor is an input."""

Call = Callable[..., Sequence[Any]]


def given_of(module: GraphModule, examples: Sequence[Any]) -> list[Given]:
    """What Dynamo says of the inputs of a graph that it captured: parameters and buffers of modules are weights."""
    found = []
    for node, example in zip((n for n in module.graph.nodes if n.op == "placeholder"), examples):
        source = getattr(node, "_dynamo_source", None)
        is_weight = getattr(example, "_dynamo_static_input_type", None) == "unguarded"
        label = path_of(str(source.name)) if source is not None else node.name
        found.append(Given(label or node.name, example if is_weight else None))
    return found


class CompiledGraph:
    """Compiled code of one graph; called with the graph's arguments, it returns the graph's results.

    Tensors that the model keeps and the graph does not write are constants of the code. Each call looks whether they are as they
    were (the same tensor, and not written since); where they are not, the code is compiled again.
    """

    def __init__(self, module: GraphModule, given: Sequence[Given], options: CompileOptions, where: str) -> None:
        self.module = module
        self.given = list(given)
        self.options = options
        self.where = where
        self.plan = plan_results(module)
        self.changes = [0] * len(given)
        (output,) = (node for node in module.graph.nodes if node.op == "output")
        self.returns_sequence = isinstance(output.args[0], list | tuple)
        self._compile()

    def _compile(self) -> None:
        captured = captured_program(self.module, self.given, self.plan.computed, self.where)
        _check_memory(self.module, captured, self.given)
        graph = import_program(captured.program)
        self.run = compile_module(IRModule(graph).mod, self.options).runtime(num_threads=torch.get_num_threads())
        self._call = _caller(captured, self.run, self.module, self.plan)
        self._weights = _Weights(captured.weights, [self.given[k].weight for k in captured.weights])

    def __call__(self, *arguments: Any) -> Sequence[Any]:
        if not self._weights.are_same(arguments):
            self._take_changed(arguments)
        return self._call(arguments)

    def _take_changed(self, arguments: Sequence[Any]) -> None:
        for number in self._weights.changed(arguments):
            self.changes[number] += 1
            kept = arguments[number] if self.changes[number] < _CHANGES else None
            self.given[number] = Given(self.given[number].label, kept)
        self._compile()


def _check_memory(module: GraphModule, captured: Captured, given: Sequence[Given]) -> None:
    """Raises OpAttributeUnimplemented: the graph writes to an argument that shares memory with another, or changes its shape."""
    nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
    storages = Counter(storage_of(node) for node in nodes)
    shared = next((number for number in captured.written if storages[storage_of(nodes[number])] > 1), None)
    if shared is not None:
        raise OpAttributeUnimplemented(
            f"{captured.program.where}: it writes to {given[shared].label!r}, which shares memory with another argument; "
            "supported: arguments with memory of their own; give a clone")


class _Weights:
    """Tensors as they were when they became constants of compiled code."""

    def __init__(self, numbers: Sequence[int], tensors: Sequence[Any]) -> None:
        self._numbers = list(numbers)
        self._tensors = list(tensors)
        self._addresses = [tensor.data_ptr() for tensor in tensors]
        self._versions = [_version(tensor) for tensor in tensors]
        self._counted = [k for k, tensor in enumerate(tensors) if not tensor.is_inference()]

    def are_same(self, arguments: Sequence[Any]) -> bool:
        for number, tensor, address, version in zip(self._numbers, self._tensors, self._addresses, self._versions):
            given = arguments[number]
            if given is not tensor or given.data_ptr() != address or version != _version(given):
                return False
        return True

    def changed(self, arguments: Sequence[Any]) -> list[int]:
        known = zip(self._numbers, self._tensors, self._addresses, self._versions)
        return [k for k, t, a, v in known if arguments[k] is not t or t.data_ptr() != a or v != _version(t)]


def _version(tensor: torch.Tensor) -> int:
    """Grows with writes in place; those through ``tensor.data`` do not count, as in all of PyTorch."""
    return 0 if tensor.is_inference() else tensor._version


def _caller(captured: Captured, run: Any, module: GraphModule, plan: Plan) -> Callable[[Sequence[Any]], Sequence[Any]]:
    take = _taker(captured)
    count = len(plan.computed)
    single = count + len(captured.written) == 1
    symbols = _symbols(module)
    finish = plan.finish(symbols)
    is_plain = plan.is_plain

    def call(arguments: Sequence[Any]) -> Sequence[Any]:
        outputs = run(*take(arguments))
        outputs = [outputs] if single else outputs
        tensors = [torch.from_dlpack(output) for output in outputs[:count]]
        for number in captured.written:
            torch.autograd.graph.increment_version(arguments[number])
        return tensors if is_plain else finish(arguments, tensors)

    return call


def _taker(captured: Captured) -> Callable[[Sequence[Any]], Sequence[Any]]:
    written = frozenset(captured.written)

    def take(arguments: Sequence[Any]) -> list[Any]:
        found = []
        for number, order in zip(captured.inputs, captured.orders):
            tensor = arguments[number]
            if isinstance(tensor, torch.Tensor):
                tensor = tensor.detach() if order is None else tensor.detach().permute(order)
                tensor = donate(tensor.numpy()) if number in written else tensor
            else:
                tensor = np.asarray(tensor)
            found.append(tensor)
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
