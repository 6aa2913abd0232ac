"""How the results of a compiled graph are made: as in eager PyTorch, they may be arguments, or views of these or others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from forge import dims
from forge.dims import Dim
from forge.frontends.torch.captured import Result, order_of
from forge.frontends.torch.exported import meta_of, size_of, value_name
from forge.frontends.torch.lost_writes import without_batch
from forge.frontends.torch.program import TensorMeta

Sizes = Callable[[Sequence[Any]], dict[str, int]]
"""From the arguments of a call to the values of torch's symbols."""


@dataclass(frozen=True)
class Constant:
    """A result that is no tensor and was known when the graph was captured."""

    value: Any


@dataclass(frozen=True)
class Size:
    """An integer that depends on sizes of arguments."""

    size: Dim


@dataclass(frozen=True)
class Argument:
    """Argument ``number`` of the call."""

    number: int


@dataclass(frozen=True)
class Computed:
    """Output ``number`` of the compiled code, whose axes it has stored in ``order``."""

    number: int
    order: tuple[int, ...] | None = None


@dataclass(frozen=True)
class View:
    """A tensor in the memory of another; ``offset`` is counted from that one's first element."""

    of: Argument | Computed
    shape: tuple[Dim, ...]
    strides: tuple[Dim, ...]
    offset: Dim


Source = Constant | Size | Argument | Computed | View


@dataclass
class Plan:
    """Where each result comes from, and what the compiled code computes for it."""

    sources: list[Source] = field(default_factory=list)
    computed: list[Result] = field(default_factory=list)

    @property
    def is_plain(self) -> bool:
        """Whether the results are the outputs of the compiled code, in order."""
        return self.sources == [Computed(k) for k in range(len(self.computed))]

    def finish(self, symbols: Sizes) -> Callable[[Sequence[Any], Sequence[Any]], list[Any]]:
        """What makes the results of a call from its arguments and the outputs of the compiled code."""
        makers = [_maker(source, symbols) for source in self.sources]
        return lambda arguments, outputs: [make(arguments, outputs) for make in makers]


def plan_results(module: GraphModule) -> Plan:
    """The plan of a graph of ATen operators; memory is shared as torch's fake tensors say."""
    plan = Plan()
    nodes = list(module.graph.nodes)
    placeholders = [node for node in nodes if node.op == "placeholder"]
    (output,) = (node for node in nodes if node.op == "output")
    returned = output.args[0] if isinstance(output.args[0], list | tuple) else [output.args[0]]
    owners: dict[int, Argument | Node] = {}
    for number, node in enumerate(placeholders):
        if isinstance(node.meta.get("val"), torch.Tensor):
            owners.setdefault(storage_of(node), Argument(number))
    shared = Counter(storage_of(node) for node in {n for n in returned if isinstance(n, Node)})
    for node in nodes:
        if node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor) and shared[storage_of(node)] > 1:
            owners.setdefault(storage_of(node), node)
    computed: dict[Node, Computed] = {}

    def compute(node: Node) -> Computed:
        if node not in computed:
            order = order_of(meta_of(node.meta["val"]))
            computed[node] = Computed(len(plan.computed), order)
            plan.computed.append(Result(value_name(node), order))
        return computed[node]

    for value in returned:
        plan.sources.append(_source(value, placeholders, owners, compute))
    return plan


def _source(
    value: Any, placeholders: list[Node], owners: dict[int, Argument | Node], compute: Callable[[Node], Computed]
) -> Source:
    if not isinstance(value, Node):
        return Size(size_of(value)) if isinstance(value, torch.SymInt) else Constant(value)
    if value in placeholders:
        return Argument(placeholders.index(value))
    tensor = value.meta.get("val")
    if isinstance(tensor, torch.SymInt | int):
        return Size(size_of(tensor))
    owner = owners.get(storage_of(value))
    if owner is None or owner is value:
        return compute(value)
    base = placeholders[owner.number] if isinstance(owner, Argument) else owner
    of = owner if isinstance(owner, Argument) else compute(owner)
    own, whole = meta_of(tensor), meta_of(base.meta["val"])
    assert isinstance(own, TensorMeta) and isinstance(whole, TensorMeta) and own.strides is not None
    if own.dtype != whole.dtype or tensor.is_conj() or tensor.is_neg():
        return compute(value)  # a copy: bytes of other elements cannot be described by strides
    if own == whole:
        return of
    return View(of, own.shape, own.strides, own.offset - whole.offset)


def storage_of(node: Node) -> int:
    """What tells memory from other memory."""
    value = without_batch(node.meta.get("val"))
    is_strided = isinstance(value, torch.Tensor) and value.layout is torch.strided
    return int(value.untyped_storage()._cdata) if is_strided else id(node)


def _maker(source: Source, symbols: Sizes) -> Callable[[Sequence[Any], Sequence[Any]], Any]:
    match source:
        case Constant(value):
            return lambda arguments, outputs: value
        case Size(size):
            return lambda arguments, outputs: dims.evaluate(size, symbols(arguments))
        case Argument(number):
            return lambda arguments, outputs: arguments[number]
        case Computed(number, order):
            if order is None:
                return lambda arguments, outputs: outputs[number]
            back = [order.index(axis) for axis in range(len(order))]
            return lambda arguments, outputs: outputs[number].permute(back)
    return _view_maker(source, symbols)


def _view_maker(view: View, symbols: Sizes) -> Callable[[Sequence[Any], Sequence[Any]], Any]:
    make = _maker(view.of, symbols)
    is_static = dims.is_static(*view.shape, *view.strides, view.offset)

    def made(arguments: Sequence[Any], outputs: Sequence[Any]) -> torch.Tensor:
        base, known = make(arguments, outputs), {} if is_static else symbols(arguments)
        shape, strides = ([dims.evaluate(d, known) for d in sizes] for sizes in (view.shape, view.strides))
        return torch.as_strided(base, shape, strides, base.storage_offset() + dims.evaluate(view.offset, known))

    return made
