"""Fusion groups: which nodes run inside one kernel.

A group has an *anchor*, whose loops the kernel runs; an *epilogue*, a chain of element-wise consumers applied to the anchor's
result before it is stored; and *inlined* producers, recomputed where they are read (in front of the anchor or next to the
epilogue). Only the results of the last node of the chain are written to memory.

A node joins the group of its consumers only if nothing else needs its result. Views (reshape and kin) cost nothing and belong to
no group. The rules, in the order in which they are tried:

1. every contraction, reduction and other anchor opens a group and takes the element-wise chain after it, but for conversions to
   wider types at its end, if what reads them is in the chain of another one;
2. in reverse order, every other node is inlined into the one group that uses it, if that does not repeat costly work, or else
   opens a group of its own. What says which elements are read is stored before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from forge import dims, dtypes
from forge.ir.constants.joined import is_constant
from forge.ir.graph import Graph
from forge.ir.nodes import CONSTANT, Node, Value
from forge.ir.op import Accuracy, Kind
from forge.ir.types import TensorType
from forge.lowering.objects import is_handle_copy, runs_on_host
from forge.ops.core.inference import HALF_TYPES, at_most
from forge.ops.core.op import Op

MAX_NODES = 48
"""Of one group: bounds the size of a kernel."""

MAX_DEPTH = 4
"""Of element-wise nodes after an interpolation that are still taken for a part of it."""


@dataclass(eq=False)
class Group:
    """A kernel. ``inlined`` is in topological order.

    Attributes:
        updated: the operand of the anchor in whose memory the result lies: only what differs is written.
        overwritten: operands in whose memory the result lies, of which each element is read just before its place is written.
        numbers: constants of one element that are read from memory, as other groups of the same kernel have others.
    """

    anchor: Node
    epilogue: list[Node] = field(default_factory=list)
    inlined: list[Node] = field(default_factory=list)
    updated: Value | None = None
    overwritten: tuple[Value, ...] = ()
    numbers: frozenset[Value] = frozenset()

    @property
    def sink(self) -> Node:
        """The node whose results are written."""
        return self.epilogue[-1] if self.epilogue else self.anchor

    @property
    def nodes(self) -> list[Node]:
        return [*self.inlined, self.anchor, *self.epilogue]

    @property
    def is_injective(self) -> bool:
        return self.anchor.op_def.kind in (Kind.ELEMENTWISE, Kind.INJECTIVE)

    def external_operands(self) -> list[Value]:
        """Returns the values that the kernel reads, by first use; scalar constants but ``numbers`` are part of the code."""
        inside = {self.updated, *(v for node in self.nodes for v in node.results)}
        used = (v for node in self.nodes for v in node.operands if v is not None and v not in inside)
        return [v for v in dict.fromkeys(used) if v in self.numbers or scalar_constant(v) is None]


def scalar_constant(value: Value) -> bool | int | float | None:
    """Returns the element of a constant of one element that code generation can write as a literal."""
    if not is_constant(value) or value.tensor_type.size != 1:
        return None
    array = value.constant
    return array.item() if array is not None and array.dtype.kind in "biuf" else None


def _needs_kernel(node: Node) -> bool:
    return node.op_def is not CONSTANT and not node.op_def.is_view and not runs_on_host(node) and not is_handle_copy(node)


def form_groups(graph: Graph, fuse: bool = True, keep: Iterable[Value] = ()) -> list[Group]:
    """Groups all nodes that need code, in order of execution; those that the host runs and copies of handles are in none.

    Args:
        fuse: False makes one group a node.
        keep: values that must be written to memory.
    """
    return _Former(graph, fuse, keep).run()


class _Former:
    def __init__(self, graph: Graph, fuse: bool, keep: Iterable[Value]) -> None:
        self.graph = graph
        self.fuse = fuse
        self.outputs = {*graph.outputs, *keep}
        self.member: dict[Node, Group] = {}
        self.reread: set[Node] = set()  # inlined nodes whose elements the anchor reads many times

    def run(self) -> list[Group]:
        nodes = [n for n in self.graph.nodes if _needs_kernel(n)]
        position = {n: i for i, n in enumerate(nodes)}
        groups: list[Group] = []
        for node in nodes:
            if node.op_def.kind not in (Kind.ELEMENTWISE, Kind.INJECTIVE):
                groups.append(self._open(node))
        for node in reversed(nodes):
            if node in self.member:
                continue
            host = self._host(node) if self.fuse else None
            if host is None:
                groups.append(self._open(node))
            else:
                host.inlined.append(node)
                self.member[node] = host
        for group in groups:
            group.inlined.sort(key=position.__getitem__)
        return sorted(groups, key=lambda g: position[g.sink])

    def _open(self, anchor: Node) -> Group:
        group = Group(anchor)
        self.member[anchor] = group
        if self.fuse and not group.is_injective and len(anchor.results) == 1 and takes_epilogue(anchor):
            self._extend(group)
            self._give_back(group)
        return group

    def _extend(self, group: Group) -> None:
        """Rule 1: appends the element-wise chain after the anchor."""
        while len(group.nodes) < MAX_NODES:
            value = group.sink.results[0]
            user = self._only_user([value])
            if user is None or user in self.member or user.op_def.kind is not Kind.ELEMENTWISE:
                return
            if len(user.results) != 1 or not _same_shape(value, user.results[0]):
                return
            group.epilogue.append(user)
            self.member[user] = group

    def _give_back(self, group: Group) -> None:
        """Leaves conversions to wider types at the end of the chain to an element-wise reader: fewer bytes move."""
        user = self._only_user([group.sink.result]) if group.epilogue else None
        if user is None or user not in self.member or user.op_def.kind is not Kind.ELEMENTWISE:
            return
        sizes = [dtypes.itemsize(node.result.dtype) for node in (group.anchor, *group.epilogue)]
        kept = max(k for k, size in enumerate(sizes) if size == min(sizes))
        converting = group.epilogue[kept:]
        if not all(map(_is_cheap, converting)):
            return
        for node in converting:
            group.epilogue.remove(node)
            del self.member[node]

    def _only_user(self, values: Iterable[Value]) -> Node | None:
        users = {user for value in values for user, _ in value.uses}
        if len(users) != 1 or any(v in self.outputs for v in values):
            return None
        return users.pop()

    def _host(self, node: Node) -> Group | None:
        """Rule 2: the group that ``node`` is inlined into, if there is one."""
        if len(node.results) != 1 or node.result in self.outputs or not node.result.uses or _is_picked_from_again(node):
            return None
        hosts = {self.member.get(user) for user, _ in node.result.uses}
        if len(hosts) != 1:
            return None
        host = hosts.pop()
        if host is None or len(host.nodes) >= MAX_NODES:
            return None
        allowed = all(self._may_join(host, user, position, node) for user, position in node.result.uses)
        if not allowed or not _affordable(node, host):
            return None
        if any(user is host.anchor for user, _ in node.result.uses) and _is_read_through(node, host.anchor):
            self.reread.add(node)
        return host

    def _may_join(self, host: Group, user: Node, position: int, node: Node) -> bool:
        """Whether evaluating ``node`` where ``user`` reads it repeats no work."""
        if user.op_def.picks and user.op_def.picks_by(position) and not at_most(user.result.size, node.result.size):
            return False
        if user is host.anchor and user.op_def.is_transposition and _interpolates(node):
            return False
        if user is host.anchor and user.op_def.works_in_rows and _moves_neighbours(node):
            return False
        if user in self.reread:
            return _kernel_of(host.anchor) == "attention" and _is_read_through(node, host.anchor)
        return user is not host.anchor or _is_read_through(node, user) or user.op_def.reads_once(position)


def _is_cheap(node: Node) -> bool:
    """Whether it reads one tensor, and numbers, and may be computed again."""
    read = [v for v in node.operands if v is not None and scalar_constant(v) is None]
    return len(read) == 1 and not (isinstance(node.op_def, Op) and node.op_def.is_costly(node.attrs, *node.operands))


def _is_read_through(node: Node, reader: Node) -> bool:
    """A movement that products read through: kernels take operands of any strides, and attention copies what it reads.

    Attention also reads float32 from half as many bytes: the keys and values of a decoder come from memory.
    """
    kernel = _kernel_of(reader)
    if kernel == "attention":
        return node.op_def.is_strided or _widens(node)
    return kernel == "matmul" and node.op_def.is_permutation


def _moves_neighbours(node: Node) -> bool:
    """Whether a kernel that reads through it, and writes vectors of neighbours, reads their elements one by one."""
    if not node.op_def.is_permutation:
        return node.op_def.is_transposition
    axes = node.attributes["axes"] or (0,)
    return axes[-1] % node.result.rank != node.result.rank - 1


def _widens(node: Node) -> bool:
    """Whether it only converts half precision to float32: nothing costly, element by element."""
    data, *others = node.operands
    if node.op_def.kind is not Kind.ELEMENTWISE or data is None or others or len(node.results) != 1:
        return False
    return data.dtype in HALF_TYPES and node.result.dtype == "float32"


def _is_picked_from_again(node: Node) -> bool:
    """Whether elements of ``node`` are picked several times, each of which several elements would be picked for."""
    if len(node.result.uses) < 2:
        return False
    operands = [v for v in node.operands if v is not None and scalar_constant(v) is None]
    picking = [user for user, position in node.result.uses if position == 0 and user.op_def.picks]
    return node.op_def.kind is Kind.ELEMENTWISE and len(operands) > 1 and len(picking) > 1


def _interpolates(node: Node, depth: int = MAX_DEPTH) -> bool:
    """Whether an element is computed from several of an operand, at places that are computed too.

    Vectors of them are read where neighbours lie next to each other, before these are transposed.
    """
    if node.op_def.kind is Kind.INJECTIVE:
        return bool(node.op_def.picks) or isinstance(node.op_def, Op) and node.op_def.accuracy is not Accuracy.EXACT
    if node.op_def.kind is not Kind.ELEMENTWISE or not depth:
        return False
    made = (v.producer for v in node.operands if v is not None and len(v.uses) == 1)
    return any(producer is not None and _interpolates(producer, depth - 1) for producer in made)


def _kernel_of(node: Node) -> str | None:
    return node.op_def.kernel if isinstance(node.op_def, Op) else None


def takes_epilogue(anchor: Node) -> bool:
    """Returns whether results may pass through other operators before they are stored: opaque ones store them themselves."""
    return anchor.op_def.kind is not Kind.OPAQUE


def _same_shape(a: Value, b: Value) -> bool:
    if not isinstance(a.type, TensorType) or not isinstance(b.type, TensorType):
        return False
    return len(a.shape) == len(b.shape) and all(dims.equal(x, y) for x, y in zip(a.shape, b.shape))


def _affordable(node: Node, host: Group) -> bool:
    """Costly element-wise work is inlined only where it is not repeated for several elements of the reader."""
    if not isinstance(node.op_def, Op) or not node.op_def.is_costly(node.attrs, *node.operands):
        return True
    readers = [user for user, _ in node.result.uses if user.op_def.kind not in (Kind.REDUCTION, Kind.ANCHOR)]
    if host.is_injective:
        readers.append(host.sink)
    size = node.result.size
    return all(isinstance(v.type, TensorType) and at_most(v.type.size, size) for reader in readers for v in reader.results)
