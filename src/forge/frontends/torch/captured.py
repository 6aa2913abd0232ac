"""Programs from graphs that torch captured while a model ran: what the model keeps is among the inputs of such a graph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from forge import dims
from forge.errors import OpAttributeUnimplemented
from forge.frontends.torch.exported import array_of, read_graph
from forge.frontends.torch.importer import written_tensors
from forge.frontends.torch.parts import inlined
from forge.frontends.torch.program import Input, Meta, Program, Ref, ScalarMeta, Step, TensorMeta, Weight

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule

_KEY = re.compile(r"\['([^']*)'\]|\[(\d+)\]|\.(\w+)")
_TABLES = frozenset(("_modules", "_parameters", "_buffers"))


@dataclass(frozen=True)
class Given:
    """What is known of an input of a captured graph.

    Attributes:
        label: what messages and the module call it.
        weight: the tensor, where the model keeps it: what the graph does not write becomes a constant.
    """

    label: str
    weight: torch.Tensor | None = None


@dataclass(frozen=True)
class Memory:
    """Elements in which several inputs lie: another input, of rank 1, after those that the graph has.

    Attributes:
        numbers: of the inputs.
        offsets: where their first elements are.
        size: the number of elements.
    """

    numbers: tuple[int, ...]
    offsets: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Result:
    """A value that the program computes, by the name of its node; ``order``: its axes, as they lie in memory."""

    node: str
    order: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Captured:
    """A program, and how it is called.

    Attributes:
        inputs: numbers of the arguments that are inputs of the program, in its order.
        orders: of these inputs, axes as they lie in memory, where that is another order.
        weights: numbers of the arguments that are constants of the program.
        written: numbers of the arguments that calls write.
    """

    program: Program
    inputs: tuple[int, ...]
    orders: tuple[tuple[int, ...] | None, ...]
    weights: tuple[int, ...]
    written: tuple[int, ...]


def captured_program(
    module: GraphModule, given: Sequence[Given], results: Sequence[Result], where: str, stored: bool = True,
    shared: Sequence[Memory] = (),
) -> Captured:
    """The program of a graph of ATen operators, whose nodes have values of torch's (``val``) and whose inputs are ``given``.

    Args:
        stored: inputs have their axes in the order in which they lie in memory.
        shared: memory that inputs of the graph share, as the last ones of ``given``.

    Raises:
        ImportModelError: torch's types or arguments are none of Forge's.
    """
    import torch

    program = Program(where)
    read_graph(module, program)
    program.steps = [replace(step, module=path_of(step.module)) for step in program.steps]
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    names += _share_inputs(program, names, shared)
    program.inputs = [Input(name, label) for name, label in zip(names, _distinct([item.label for item in given]))]
    program.results = [(f"output_{k}", Ref(result.node)) for k, result in enumerate(results)]
    program = inlined(program)
    written = written_tensors(program)
    inputs, weights, orders = [], [], []
    views = {names[number] for memory in shared for number in memory.numbers}
    taken = [name for name in names if name not in views]
    for number, (name, item) in enumerate(zip(names, given)):
        if name in views:
            continue
        if item.weight is not None and name not in written:
            weights.append(number)
            is_parameter = isinstance(item.weight, torch.nn.Parameter)
            program.weights[name] = Weight(item.label, partial(array_of, item.weight, item.label), is_parameter, not is_parameter)
        elif not _is_known_size(program, name, taken):
            inputs.append(number)
            orders.append(order_of(program.metas.get(name)) if stored else None)
    program.inputs = [program.inputs[number] for number in inputs]
    _store_inputs(program, orders)
    _store_results(program, results)
    changed = tuple(number for number, name in enumerate(names) if name in written)
    return Captured(program, tuple(inputs), tuple(orders), tuple(weights), changed)


def _share_inputs(program: Program, names: Sequence[str], shared: Sequence[Memory]) -> list[str]:
    """The names of inputs of which others become views.

    Raises:
        OpAttributeUnimplemented: sizes of these are not known without them.
    """
    found, steps = [], []
    for number, memory in enumerate(shared):
        whole = f"memory_{number}/shared"
        members = [(names[k], offset) for k, offset in zip(memory.numbers, memory.offsets)]
        metas = [meta for name, _ in members if isinstance(meta := program.metas[name], TensorMeta)]
        begin = metas[0].offset - memory.offsets[0]
        program.metas[whole] = TensorMeta(metas[0].dtype, (memory.size,), (1,), begin)
        for meta, (name, offset) in zip(metas, members):
            places = {"size": list(meta.shape), "stride": list(meta.strides or ()), "storage_offset": begin + offset}
            steps.append(Step(name, "aten.as_strided.default", {"self": Ref(whole), **places}, (name,)))
            program.metas[name] = replace(meta, offset=begin + offset)
        found.append(whole)
    program.steps[:0] = steps
    views = {names[k] for memory in shared for k in memory.numbers}
    used, known = (
        {name for n in some if (meta := program.metas.get(n)) for name in _symbols_of(meta)}
        for some in (views, [name for name in names if name not in views]))
    if unknown := sorted(used - known):
        raise OpAttributeUnimplemented(
            f"{program.where}: it writes to arguments that overlap, and no other has their sizes {', '.join(unknown)}; "
            "supported: fixed sizes (dynamic=False), or arguments without common elements; give a clone")
    return found


def _symbols_of(meta: Meta) -> Sequence[str]:
    sizes = meta.shape if isinstance(meta, TensorMeta) else () if meta is None or meta.size is None else (meta.size,)
    return [name for size in sizes if (name := dims.symbol_name(size)) is not None]


def _distinct(labels: Sequence[str]) -> list[str]:
    """Labels of which several may be equal, as those of tensors of two models; the second one gets a number, and so on."""
    found: dict[str, None] = {}
    for label in labels:
        numbered = (f"{label}_{k}" for k in count(1))
        found[label if label not in found else next(name for name in numbered if name not in found)] = None
    return list(found)


def _is_known_size(program: Program, name: str, names: Sequence[str]) -> bool:
    """Whether an input is a number that the sizes of tensors say."""
    meta = program.metas.get(name)
    if meta is None or isinstance(meta, ScalarMeta) and isinstance(meta.size, int):
        return True
    symbol = dims.symbol_name(meta.size) if isinstance(meta, ScalarMeta) and meta.size is not None else None
    tensors = [m for other in names if isinstance(m := program.metas.get(other), TensorMeta)]
    known = {found[0] for m in tensors for size in m.shape if (found := dims.linear(size)) is not None}
    return symbol in known


def order_of(meta: Meta) -> tuple[int, ...] | None:
    """The axes of a tensor as they lie in its memory, where that is dense and they lie in another order."""
    if not isinstance(meta, TensorMeta) or meta.strides is None:
        return None
    strides = meta.strides
    sizes = dict.fromkeys(dims.symbols(*meta.shape, *strides), 3)  # any that are larger than 1 give the same order
    long = [axis for axis, size in enumerate(meta.shape) if size != 1]
    by_stride = sorted(long, key=lambda axis: -dims.evaluate(strides[axis], sizes))
    for position, axis in enumerate(by_stride):
        if not dims.equal(strides[axis], dims.product([meta.shape[inner] for inner in by_stride[position + 1 :]])):
            return None
    if by_stride == long:
        return None
    order = iter(by_stride)
    return tuple(next(order) if axis in long else axis for axis in range(len(meta.shape)))


def _store_inputs(program: Program, orders: Sequence[tuple[int, ...] | None]) -> None:
    """Inputs whose axes lie in another order are inputs in that order, of which the tensors are views."""
    steps = []
    for number, order in enumerate(orders):
        if order is not None:
            item = program.inputs[number]
            stored = f"{item.name}/stored"
            meta = program.metas[item.name]
            assert isinstance(meta, TensorMeta)
            program.metas[stored] = TensorMeta(meta.dtype, tuple(meta.shape[axis] for axis in order))
            back = [order.index(axis) for axis in range(len(order))]
            steps.append(Step(item.name, "aten.permute.default", {"self": Ref(stored), "dims": back}, (item.name,)))
            program.inputs[number] = replace(item, name=stored)
    program.steps[:0] = steps


def _store_results(program: Program, results: Sequence[Result]) -> None:
    found = []
    for (label, value), result in zip(program.results, results):
        if result.order is not None:
            meta = program.metas[value.name]
            assert isinstance(meta, TensorMeta)
            stored = f"{label}/stored"
            program.metas[stored] = TensorMeta(meta.dtype, tuple(meta.shape[axis] for axis in result.order))
            program.steps.append(Step(stored, "aten.permute.default", {"self": value, "dims": list(result.order)}, (stored,)))
            value = Ref(stored)
        found.append((label, value))
    program.results = found


def path_of(source: str) -> str:
    """The path in the model of what Dynamo calls ``source``: ``L['self']._modules['fc'].weight`` is ``fc.weight``."""
    keys = [next(filter(None, found)) for found in _KEY.findall(source)]
    if not source.startswith(("L[", "G[")):
        return source
    own = [key for key in keys[1:] if key not in _TABLES]
    return ".".join(own) if own else keys[0] if keys and keys[0] != "self" else ""
