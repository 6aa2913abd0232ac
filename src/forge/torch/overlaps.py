"""Arguments of a graph that lie in the memory of others, where the graph writes to one of them.

Compiled code knows of no memory that its inputs share. Where it matters, it is compiled again for one input, of rank 1, which is
the memory from the first element to the last one of all that overlap, and of which they are views.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from forge.errors import OpAttributeUnimplemented
from forge.frontends.torch.captured import Captured, Given, Memory
from forge.torch.results import storage_of
from forge.torch.weights import extent


def reached_weights(module: GraphModule, captured: Captured) -> list[int]:
    """Numbers of the weights that may lie where arguments do that the graph writes."""
    nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
    written = [nodes[number] for number in captured.written if number < len(nodes)]
    return [
        number for number in captured.weights
        if any(storage_of(node) == storage_of(nodes[number]) and not _are_apart(node, nodes[number]) for node in written)]


def _are_apart(one: Any, other: Any) -> bool:
    """Whether tensors of one storage, of known sizes, have no bytes in common."""
    (begin, end), (start, last) = (_bytes(node.meta["val"]) for node in (one, other))
    return all(isinstance(place, int) for place in (begin, end, start, last)) and (end <= start or last <= begin)


def _bytes(tensor: torch.Tensor) -> tuple[Any, Any]:
    """Where the bytes of a tensor begin and end in its storage."""
    begin = tensor.storage_offset() * tensor.element_size()
    return begin, begin + extent(tensor)


def overlaps(tensors: Sequence[Any], written: Sequence[int]) -> bool:
    """Whether, of ``tensors``, one of the ``written`` may lie where another does."""
    reach, last = 0, 0
    for begin, number in sorted((t.data_ptr(), k) for k, t in enumerate(tensors) if isinstance(t, torch.Tensor)):
        if begin < reach and (last in written or number in written):
            return True
        tensor = tensors[number]
        size = tensor.nbytes if tensor.is_contiguous() else extent(tensor)
        reach, last = max((reach, last), (begin + size, number))
    return False


def shared_memories(
    captured: Captured, arguments: Sequence[Any], given: Sequence[Given]
) -> tuple[tuple[Memory, ...], list[torch.Tensor]]:
    """The memory that arguments share of which one is written, and tensors that are all of it.

    Raises:
        OpAttributeUnimplemented: it has elements of several kinds.
    """
    memories, wholes = [], []
    for numbers in _groups(captured, arguments):
        if len(numbers) < 2 or not set(numbers) & set(captured.written):
            continue
        tensors = [arguments[number].detach() for number in numbers]
        first, width = tensors[0], tensors[0].element_size()
        offsets = [tensor.data_ptr() - first.data_ptr() for tensor in tensors]
        size = max(offset + extent(tensor) for offset, tensor in zip(offsets, tensors))
        storages = {tensor.untyped_storage().data_ptr() for tensor in tensors}
        is_one = len({(t.dtype, t.is_conj(), t.is_neg()) for t in tensors}) == 1 and not any(offset % width for offset in offsets)
        if len(storages) > 1 or not is_one or first.is_conj() or first.is_neg():
            label = given[next(number for number in numbers if number in captured.written)].label
            raise OpAttributeUnimplemented(
                f"{captured.program.where}: it writes to {label!r}, which overlaps another argument; supported: arguments of one "
                "storage of PyTorch and of one element type; give a clone")
        memories.append(Memory(tuple(numbers), tuple(offset // width for offset in offsets), size // width))
        wholes.append(first.as_strided((size // width,), (1,)))
    return tuple(memories), wholes


def _groups(captured: Captured, arguments: Sequence[Any]) -> list[list[int]]:
    """Numbers of the inputs that are tensors, in order in memory; those that overlap are together."""
    found: list[list[int]] = []
    reach = 0
    tensors = [(arguments[number], number) for number in captured.inputs if isinstance(arguments[number], torch.Tensor)]
    for begin, number in sorted((tensor.data_ptr(), number) for tensor, number in tensors):
        if begin >= reach:
            found.append([])
        found[-1].append(number)
        reach = max(reach, begin + extent(arguments[number]))
    return found
