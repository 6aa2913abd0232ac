"""Updates in place: which results lie in the memory of an older value.

A result *follows* an older value where it takes its memory: an update whose kernel writes only what differs, or an output that
replaces an input. That is so where whatever reads the older value runs before its memory is written; where that allows it,
items change their order. What does not fit is computed in memory of its own; a donated input then takes a copy, at the end.

Updates follow intermediate results, and inputs that an output replaces: never other inputs, constants or other outputs.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Generic, TypeVar

from forge import dims
from forge.dims import Dim
from forge.ir.builder import Builder
from forge.ir.functions.states import replaced
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.op import Kind
from forge.lowering.groups import Group
from forge.lowering.memory import Step, byte_size, is_control_result, storage_of, view_root
from forge.lowering.objects import tensor_symbols
from forge.ops.core.op import Op
from forge.ops.elementwise.select import copied

Item = TypeVar("Item")


def is_update(node: Node) -> bool:
    """Returns whether the result may lie in the memory of operand 0."""
    return isinstance(node.op_def, Op) and len(node.results) == 1 and node.op_def.is_update(node.attrs, node.result.rank)


def chain(graph: Graph, name: str, number: int) -> list[Value]:
    """Returns the results of updates, last to first, that make output ``number`` of the input ``name``; empty where others do."""
    value, found = view_root(graph.outputs[number]), list[Value]()
    while value.producer is not None and is_update(value.producer):
        found.append(value)
        value = view_root(_updated(value))
    return found if any(v is value and v.name == name for v in graph.inputs) else []


def kept_for_updates(graph: Graph) -> list[Value]:
    """Returns the values that groups must write to memory, so that outputs that replace inputs can be made in place."""
    return [value for number, name in replaced(graph).items() for value in chain(graph, name, number)]


def share_memory(
    graph: Graph, items: Sequence[Item], step_of: Callable[[Item | Group], Step], late: Collection[str]
) -> tuple[list[Item | Group], dict[Value, Value]]:
    """Returns the groups and copies in order, and the values that results follow, by roots of views.

    Args:
        graph: gets a copy for each donated input that needs one.
        items: what runs, in order. Groups among them are told where their results lie.
        step_of: what an item reads and writes.
        late: symbols that are unknown at entry.
    """
    sharer = _Sharer(graph, items, step_of, late)
    sharer.replace_inputs()
    sharer.update_intermediates()
    return sharer.ordered() if sharer.moves else sharer.items, sharer.followed


class _Sharer(Generic[Item]):
    """Decides it, output by output and then update by update. An item is its number here, a value the root of its views."""

    def __init__(
        self, graph: Graph, items: Sequence[Item], step_of: Callable[[Item | Group], Step], late: Collection[str]
    ) -> None:
        self.graph = graph
        self.items: list[Item | Group] = list(items)
        self.late = set(late)
        self.step_of = step_of
        self.followed: dict[Value, Value] = {}
        self.steps: list[Step] = []
        self.writer: dict[Value, int] = {}
        self.readers: dict[Value, list[int]] = {}
        self.after: dict[int, list[int]] = {}  # items that must come later because they overwrite what this one reads
        self.moves = False
        for number in range(len(self.items)):
            self._note(number)
        self.outputs = {view_root(v) for v in graph.outputs}

    def _note(self, number: int) -> None:
        step = self.step_of(self.items[number])
        self.steps.append(step)
        for value in dict.fromkeys(map(view_root, step.reads)):
            self.readers.setdefault(value, []).append(number)
        self.writer.update((value, number) for value in step.writes)

    def replace_inputs(self) -> None:
        """Outputs take the place of states and donated inputs."""
        inputs = {v.name: v for v in self.graph.inputs}
        pending = []
        for number, name in replaced(self.graph).items():
            if name in inputs and not self._replace(inputs[name], number) and name in self.graph.donated:
                pending.append((inputs[name], number))
        for value, number in pending:
            self._copy(value, number)

    def _replace(self, old: Value, number: int) -> bool:
        """Whether output ``number`` lies in the memory of ``old`` now."""
        output = self.graph.outputs[number]
        root = view_root(output)
        if root is old:
            return True
        if not self.late.isdisjoint(tensor_symbols(output.type)) or is_control_result(root):
            return False
        updates = chain(self.graph, old.name, number)
        if updates and _fits_state(old, output, updates) and self._follow_all(updates):
            return True
        item = self.writer.get(root)
        same_type = output.type == old.type
        return same_type and item is not None and isinstance(self.items[item], Group) and self._overwrite(root, old, item)

    def _follow_all(self, updates: Sequence[Value]) -> bool:
        """Whether each of ``updates``, last to first, follows what it updates; else none does."""
        for position, value in enumerate(reversed(updates)):
            is_output = position + 1 < len(updates) and value in self.outputs
            if is_output or not self._update(value, may_move=True):
                for other in updates:
                    self._undo(other)
                return False
        return True

    def _undo(self, value: Value) -> None:
        if self.followed.pop(value, None) is not None:
            self._group(value).updated = None

    def _group(self, value: Value) -> Group:
        group = self.items[self.writer[value]]
        assert isinstance(group, Group)
        return group

    def _update(self, value: Value, may_move: bool) -> bool:
        """Whether ``value``, the result of an update, follows its operand 0 now."""
        item = self.writer.get(value)
        group = None if item is None else self.items[item]
        node = value.producer
        if item is None or node is None or not isinstance(group, Group) or group.anchor is not node or group.epilogue:
            return False
        operand = node.operands[0]
        external = group.external_operands()
        if operand is None or operand not in external:
            return False
        old = view_root(operand)
        storage = storage_of(self.followed, old)
        again = any(v is not operand and storage_of(self.followed, v) is storage for v in external)
        if again or sum(v is operand for n in group.nodes for v in n.operands) > 1:
            return False
        if not self._may_come_last(item, old, may_move):
            return False
        group.updated = operand
        self.followed[value] = old
        return True

    def _overwrite(self, root: Value, old: Value, item: int) -> bool:
        """Whether ``root``, which item ``item`` makes in full, lies in the memory of ``old`` now."""
        group = self.items[item]
        assert isinstance(group, Group)
        reads = [v for v in group.external_operands() if storage_of(self.followed, v) is old]
        if reads and not _reads_what_it_overwrites(group, reads):
            return False
        if not self._may_come_last(item, old, may_move=True):
            return False
        group.overwritten = tuple(reads)
        self.followed[root] = old
        return True

    def _may_come_last(self, item: int, old: Value, may_move: bool) -> bool:
        """Whether all others that read ``old`` run before ``item``, after they were moved if need be; they then do."""
        others = [r for r in self.readers.get(old, ()) if r != item]
        late = [r for r in others if r > item]
        if (late or self.moves) and not self._may_precede(set(others), item, bool(late), may_move):
            return False
        for reader in others:
            self.after.setdefault(reader, []).append(item)
        self.moves = self.moves or bool(late)
        return True

    def _may_precede(self, others: set[int], item: int, must_move: bool, may_move: bool) -> bool:
        """Whether no one of ``others`` needs ``item``."""
        if must_move and not (may_move and all(isinstance(i, Group) for i in self.items)):
            return False
        pending, seen = [item], {item}
        while pending:
            for following in self._following(pending.pop()):
                if following in others:
                    return False
                if following not in seen:
                    seen.add(following)
                    pending.append(following)
        return True

    def _following(self, item: int) -> list[int]:
        """Items that must come after ``item``."""
        readers = [self.readers.get(value, []) for value in self.steps[item].writes]
        return [*self.after.get(item, ()), *itertools.chain.from_iterable(readers)]

    def _copy(self, old: Value, number: int) -> None:
        """At the end, output ``number`` is copied to the memory of the donated input ``old``."""
        output = self.graph.outputs[number]
        copy = copied(Builder(self.graph), output)
        self.graph.outputs[number] = copy
        self.outputs = {view_root(v) for v in self.graph.outputs}
        assert copy.producer is not None
        self.items.append(Group(copy.producer))
        self._note(len(self.items) - 1)
        done = self._overwrite(copy, old, len(self.items) - 1)
        assert done, f"memory plan: donated input %{old.name} is read after everything"

    def update_intermediates(self) -> None:
        """Updates follow intermediate results that nothing reads later."""
        for group in [i for i in self.items if isinstance(i, Group)]:
            value = group.sink.results[0]
            if value not in self.followed and is_update(group.sink) and self._updates_intermediate(value):
                self._update(value, may_move=False)

    def _updates_intermediate(self, value: Value) -> bool:
        """Whether what the update ``value`` changes lies in the arena, or where ``value`` may lie as an output."""
        old = view_root(_updated(value))
        base = storage_of(self.followed, old)
        if base not in self.writer or old in self.outputs or is_control_result(base):
            return False
        return self.late.isdisjoint(tensor_symbols(base.type)) and dims.equal(byte_size(value), byte_size(base))

    def ordered(self) -> list[Item | Group]:
        """The items, each after those it needs and those that read what it overwrites, else as before."""
        following = [set(self._following(k)) for k in range(len(self.items))]
        waiting = [0] * len(self.items)
        for some in following:
            for number in some:
                waiting[number] += 1
        ready = [k for k, count in enumerate(waiting) if not count]
        order = []
        while ready:
            number = heapq.heappop(ready)
            order.append(self.items[number])
            for later in following[number]:
                waiting[later] -= 1
                if not waiting[later]:
                    heapq.heappush(ready, later)
        assert len(order) == len(self.items)
        return order


def _fits_state(old: Value, output: Value, updates: Sequence[Value]) -> bool:
    """Whether ``updates`` change ``old`` and keep its type, or only append to it along the first axis."""
    if output.type == old.type:
        return True
    appended = all(not dims.equal(byte_size(v), byte_size(_updated(v))) for v in updates)
    return appended and output.shape[1:] == old.shape[1:]


def _updated(value: Value) -> Value:
    """Operand 0 of the update that makes ``value``."""
    operand = None if value.producer is None else value.producer.operands[0]
    assert operand is not None
    return operand


def _reads_what_it_overwrites(group: Group, reads: Sequence[Value]) -> bool:
    """Whether ``group`` reads each element of ``reads`` only to compute the element of the result that takes its place."""
    shape = group.sink.results[0].shape
    changed = set(reads)
    for node in group.nodes:
        if changed.isdisjoint(v for v in node.operands if v is not None):
            continue
        if node.op_def.kind is not Kind.ELEMENTWISE or any(not _same(v.shape, shape) for v in node.results):
            return False
        changed.update(node.results)
    return all(_same(v.shape, shape) and v.dtype == group.sink.results[0].dtype for v in reads)


def _same(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    return len(a) == len(b) and all(dims.equal(x, y) for x, y in zip(a, b))
