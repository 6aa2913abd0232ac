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
from forge.torch.views import Form, form_of, is_stored, view_of

Sizes = Callable[[Sequence[Any], Sequence[Any]], dict[str, int]]
"""From the arguments of a call and the outputs of the compiled code to the values of torch's symbols."""


@dataclass(frozen=True)
class Constant:
    """A result that is not a tensor and was known when the graph was captured."""

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
class Number:
    """Output ``number`` of the compiled code as a number of Python: it depends on data."""

    number: int


@dataclass(frozen=True)
class View:
    """A tensor in the memory of another.

    Attributes:
        offset: from that one's first element to its own, in elements; in bytes where there is a ``form``.
        form: of its elements; None: they are some of that one's.
    """

    of: Argument | Computed
    shape: tuple[Dim, ...]
    strides: tuple[Dim, ...]
    offset: Dim
    form: Form | None = None


@dataclass(frozen=True)
class Repeated:
    """Result ``number``, once more."""

    number: int


Source = Constant | Size | Argument | Computed | Number | View | Repeated


@dataclass
class Plan:
    """Where each result comes from, and what the compiled code computes for it.

    Attributes:
        sizes: symbols that data decide -> an output, and the axis along which it has that size; None: it is that number.
    """

    sources: list[Source] = field(default_factory=list)
    computed: list[Result] = field(default_factory=list)
    sizes: dict[str, tuple[int, int | None]] = field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        """Whether the results are the outputs of the compiled code, in order."""
        return self.sources == [Computed(k) for k in range(len(self.computed))]

    def finish(self, symbols: Callable[[Sequence[Any]], dict[str, int]]) -> Callable[[Sequence[Any], Sequence[Any]], list[Any]]:
        """What makes the results of a call from its arguments and the outputs of the compiled code.

        Args:
            symbols: from the arguments to the values of the symbols of their sizes.
        """
        items = [(name, number, axis) for name, (number, axis) in self.sizes.items()]

        def sizes(arguments: Sequence[Any], outputs: Sequence[Any]) -> dict[str, int]:
            known = symbols(arguments)
            known.update((name, int(outputs[k]) if axis is None else outputs[k].shape[axis]) for name, k, axis in items)
            return known

        makers = [_maker(source, sizes) for source in self.sources]
        repeated = [(number, source.number) for number, source in enumerate(self.sources) if isinstance(source, Repeated)]

        def finished(arguments: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
            results = [make(arguments, outputs) for make in makers]
            for number, first in repeated:
                results[number] = results[first]
            return results

        return finished


def plan_results(module: GraphModule) -> Plan:
    """The plan of a graph of ATen operators; memory is shared as torch's fake tensors say."""
    return _Planner(module).plan


class _Planner:
    def __init__(self, module: GraphModule) -> None:
        self.plan = Plan()
        self.nodes = list(module.graph.nodes)
        self.placeholders = [node for node in self.nodes if node.op == "placeholder"]
        self.known = {name for node in self.placeholders for size in _sizes(node) for name in dims.symbols(size)}
        self.computed: dict[Node, int] = {}
        (output,) = (node for node in self.nodes if node.op == "output")
        returned = output.args[0] if isinstance(output.args[0], list | tuple) else [output.args[0]]
        self.owners = self._owners(returned)
        first: dict[Node, int] = {}
        for number, value in enumerate(returned):
            earlier = first.setdefault(value, number) if isinstance(value, Node) else number
            self.plan.sources.append(self._source(value) if earlier == number else Repeated(earlier))
        for source in self.plan.sources:
            if isinstance(source, View):
                self._find(dims.symbols(*source.shape, *source.strides, source.offset))

    def _owners(self, returned: Sequence[Any]) -> dict[int, Argument | Node]:
        """Storages -> what they were made for: an argument, or the first node of several that are returned."""
        owners: dict[int, Argument | Node] = {}
        for number, node in enumerate(self.placeholders):
            if isinstance(node.meta.get("val"), torch.Tensor):
                owners.setdefault(storage_of(node), Argument(number))
        shared = Counter(storage_of(node) for node in {n for n in returned if isinstance(n, Node)})
        for node in self.nodes:
            if node.op == "call_function" and is_stored(node.meta.get("val")) and shared[storage_of(node)] > 1:
                owners.setdefault(storage_of(node), node)
        return owners

    def _output(self, node: Node, order: tuple[int, ...] | None = None) -> int:
        if node not in self.computed:
            self.computed[node] = len(self.plan.computed)
            self.plan.computed.append(Result(value_name(node), order))
        return self.computed[node]

    def _compute(self, node: Node) -> Computed:
        order = order_of(meta_of(node.meta["val"]))
        return Computed(self._output(node, order), order)

    def _source(self, value: Any) -> Source:
        if not isinstance(value, Node):
            return Size(size_of(value)) if isinstance(value, torch.SymInt) else Constant(value)
        if value in self.placeholders:
            return Argument(self.placeholders.index(value))
        tensor = value.meta.get("val")
        if isinstance(tensor, torch.SymInt | int) and self.known.issuperset(dims.symbols(size_of(tensor))):
            return Size(size_of(tensor))
        if isinstance(tensor, torch.SymInt | torch.SymFloat | torch.SymBool):
            return Number(self._output(value))
        origin = origin_of(value)
        owner = self.owners.get(storage_of(value)) if origin is None else Argument(self.placeholders.index(origin))
        if owner is None or owner is value:
            return self._compute(value)
        base = self.placeholders[owner.number] if isinstance(owner, Argument) else owner
        own, whole = meta_of(tensor), meta_of(base.meta["val"])
        assert isinstance(own, TensorMeta) and isinstance(whole, TensorMeta) and own.strides is not None
        of = owner if isinstance(owner, Argument) else self._compute(owner)
        if form_of(tensor) == form_of(base.meta["val"]):
            return View(of, own.shape, own.strides, own.offset - whole.offset)
        offset = own.offset * tensor.element_size() - whole.offset * base.meta["val"].element_size()
        return View(of, own.shape, own.strides, offset, form_of(tensor))

    def _find(self, names: Sequence[str]) -> None:
        """Outputs that say the values of symbols which arguments do not say."""
        for name in names:
            if name in self.known or name in self.plan.sizes:
                continue
            for node in [*self.computed, *(n for n in self.nodes if n.op == "call_function")]:
                axis = next((k for k, size in enumerate(_sizes(node)) if dims.symbol_name(size) == name), None)
                if axis is not None:
                    is_tensor = isinstance(node.meta["val"], torch.Tensor)
                    number = self._output(node)
                    order = self.plan.computed[number].order
                    self.plan.sizes[name] = number, (axis if order is None else order.index(axis)) if is_tensor else None
                    break


def _sizes(node: Node) -> Sequence[Dim]:
    """The sizes of a tensor, or the integer itself."""
    value = without_batch(node.meta.get("val"))
    sizes = value.shape if isinstance(value, torch.Tensor) else [value] if isinstance(value, torch.SymInt) else ()
    return [size_of(size) for size in sizes]


def origin_of(value: Node) -> Node | None:
    """The argument of which a value is a view; others may share its memory in one call, and not in the next."""
    storage, node = storage_of(value), value
    while node.op == "call_function" and node.args and isinstance(node.args[0], Node):
        node = node.args[0]
        if isinstance(node.meta.get("val"), torch.Tensor) and storage_of(node) != storage:
            return None
    return node if node.op == "placeholder" and storage_of(node) == storage else None


def storage_of(node: Node) -> int:
    """What tells memory from other memory."""
    found = memory_of(node.meta.get("val"))
    return id(node) if found is None else found


def memory_of(value: Any) -> int | None:
    """What tells the memory of a tensor from other memory; None: it is not a tensor, or its elements have gaps."""
    tensor = without_batch(value)
    is_strided = isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided
    return int(tensor.untyped_storage()._cdata) if is_strided else None


def _maker(source: Source, symbols: Sizes) -> Callable[[Sequence[Any], Sequence[Any]], Any]:
    match source:
        case Repeated():
            return lambda arguments, outputs: None
        case Constant(value):
            return lambda arguments, outputs: value
        case Size(size):
            return lambda arguments, outputs: dims.evaluate(size, symbols(arguments, outputs))
        case Argument(number):
            return lambda arguments, outputs: arguments[number]
        case Number(number):
            return lambda arguments, outputs: outputs[number].item()
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
        base, known = make(arguments, outputs), {} if is_static else symbols(arguments, outputs)
        shape, strides = ([dims.evaluate(d, known) for d in sizes] for sizes in (view.shape, view.strides))
        offset = dims.evaluate(view.offset, known)
        if view.form is None:
            return torch.as_strided(base, shape, strides, base.storage_offset() + offset)
        return view_of(base, view.form, shape, strides, base.storage_offset() * base.element_size() + offset)

    return made
