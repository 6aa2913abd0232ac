"""The memory plan: where every materialized value lives.

Values that are views of one another share one *storage*, and so do updates in place and what they update (`sharing`). A storage
is an input, an output, a part of the weights, a block of the arena, or, where the size depends on contents of inputs, memory that
the entry asks for when it knows the size.
Blocks whose lifetimes do not overlap share bytes (`arena`). Where sizes depend on symbols, the entry computes where blocks begin.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from forge import dims, dtypes
from forge.dims import Dim
from forge.errors import CompileError
from forge.ir.builder import Builder
from forge.ir.constants.joined import is_constant, parts_of
from forge.ir.constants.sampling import MAX_SAMPLED, have_equal_bytes, sample
from forge.ir.functions.states import replaced
from forge.ir.functions.typical import typical_sizes
from forge.ir.graph import Graph
from forge.ir.nodes import Value
from forge.ir.types import TensorType, UnrankedType
from forge.lowering import arena
from forge.lowering.arena import Arena
from forge.lowering.groups import Group
from forge.lowering.objects import HANDLE_BYTES, is_sequence, runs_on_host, tensor_symbols
from forge.ops.elementwise.select import copied

ALIGNMENT = 64
WEIGHT_ALIGNMENT = 64
OTHER_SCALE = 8
"""Times typical sizes, or this part of them: where arenas are compared that are equal at the typical ones."""


@dataclass(frozen=True)
class Location:
    """``base``: input, output, weights, arena or dynamic; ``index`` of the input, output or block; ``offset`` in bytes.

    The offset in the arena is the one for typical sizes.
    """

    base: str
    index: int
    offset: int


@dataclass(frozen=True)
class Step:
    """The values that a kernel reads and writes."""

    reads: tuple[Value, ...]
    writes: tuple[Value, ...]


@dataclass
class WeightTable:
    """Constants in one block of bytes, equal ones once; a program and its regions share one.

    Arrays stay as they are, strided or not: their bytes are those of their elements in row-major order.
    """

    entries: list[tuple[int, np.ndarray]] = field(default_factory=list)  # (byte offset, array)
    size: int = 0
    _known: dict[Hashable, list[tuple[int, Sequence[np.ndarray]]]] = field(default_factory=dict)

    def place(self, parts: Sequence[np.ndarray]) -> int:
        """Returns the offset of the bytes of these arrays, one after the other."""
        similar = self._known.setdefault(_key(parts), [])
        for offset, known in similar:
            if all(map(have_equal_bytes, known, parts)):
                return offset
        offset = self.size = -(-self.size // WEIGHT_ALIGNMENT) * WEIGHT_ALIGNMENT
        similar.append((offset, parts))
        for part in parts:
            self.entries.append((self.size, part))
            self.size += part.nbytes
        return offset


def _key(parts: Sequence[np.ndarray]) -> Hashable:
    """Of the bytes where they are few, whatever type they have, else of type, shape and some elements."""
    if len(parts) == 1 and parts[0].nbytes <= MAX_SAMPLED:
        return parts[0].tobytes()
    return tuple(map(sample, parts))


@dataclass
class MemoryPlan:
    """The places of all values of a program."""
    locations: dict[Value, Location] = field(default_factory=dict)  # by root value
    arena: Arena = field(default_factory=Arena)
    typical: Mapping[str, int] = field(default_factory=dict)  # sizes for which the arena is planned
    maybe_empty: tuple[TensorType, ...] = ()  # in the arena: see `readable_extents`
    table: WeightTable = field(default_factory=WeightTable)
    dynamic: list[tuple[Value, int]] = field(default_factory=list)  # block number k: its value, the last step that uses it
    followed: Mapping[Value, Value] = field(default_factory=dict)  # see `storage_of`

    @property
    def weights_size(self) -> int:
        return self.table.size

    @property
    def arena_size(self) -> int | str:
        """Bytes, without what ``maybe_empty`` needs; ``1024 at n = 1`` where they depend on sizes."""
        size = self.arena_size_at(self.typical)
        return f"{size} at {', '.join(f'{s} = {n}' for s, n in self.typical.items())}" if self.typical else size

    def arena_size_at(self, sizes: Mapping[str, int]) -> int:
        return self.arena.layout_at(sizes)[1] + (ALIGNMENT if self.arena.parts else 0)

    def location(self, value: Value) -> Location:
        return self.locations[storage_of(self.followed, value)]

    def alignment(self, value: Value) -> int:
        """Returns the known alignment, in bytes, of the value's first element."""
        base = self.location(value).base
        return 0 if base in ("input", "output") else ALIGNMENT


@dataclass
class _Block:
    value: Value
    size: Dim
    first: int
    last: int


def view_root(value: Value) -> Value:
    """Returns the value whose memory ``value`` is."""
    while value.producer is not None and value.producer.op_def.is_view:
        operand = value.producer.operands[0]
        assert operand is not None
        value = operand
    return value


def storage_of(followed: Mapping[Value, Value], value: Value) -> Value:
    """Returns the oldest value in whose memory ``value`` lies; ``followed`` names the one that an update in place overwrites."""
    value = view_root(value)
    while value in followed:
        value = followed[value]
    return value


def is_control_result(value: Value) -> bool:
    """Returns whether a node that the host runs produces the value, in memory that comes from there."""
    node = value.producer
    return node is not None and runs_on_host(node) and not node.op_def.destination_passing


def materialize_outputs(graph: Graph, late: Collection[str] = ()) -> None:
    """Inserts ``copy`` where an output would share memory with an input, a constant, another output or a result of control flow.

    An output may be the input that it replaces. So it does where an output is a view whose sizes are among the symbols ``late``,
    which the viewed value may precede.
    """
    taken: set[Value] = set()
    outputs = list(graph.outputs)
    names = replaced(graph)
    for k in sorted(range(len(outputs)), key=lambda k: k not in names):
        value, root = outputs[k], view_root(outputs[k])
        is_late_view = root is not value and any(s in late for s in tensor_symbols(value.type))
        is_kept = root.producer is None and root.name == names.get(k) and root.type == value.type
        is_foreign = (root.producer is None and not is_kept) or is_constant(root) or is_control_result(root)
        if root in taken or is_foreign or is_late_view:
            outputs[k] = copied(Builder(graph), value)
        taken.add(view_root(outputs[k]))
    graph.outputs = outputs


def plan_memory(
    graph: Graph, steps: Sequence[Step], late: Collection[str] = (), table: WeightTable | None = None,
    followed: Mapping[Value, Value] | None = None, typical: Mapping[str, int] | None = None,
) -> MemoryPlan:
    """Places every value that a kernel reads or writes; ``late`` are symbols that are not known at entry.

    Constants go into ``table``. ``followed`` are the values in whose memory updates in place lie. The arena is planned for the
    ``typical`` sizes of symbols.

    Raises:
        CompileError: a value is not a ranked tensor of fixed-size elements.
    """
    plan = MemoryPlan(table=table or WeightTable(), followed=followed or {})
    for k, value in enumerate(graph.inputs):
        plan.locations[value] = Location("input", k, 0)
    for k, value in enumerate(graph.outputs):
        plan.locations.setdefault(storage_of(plan.followed, value), Location("output", k, 0))
    _place_weights(plan, steps)
    blocks = _lifetimes(plan, steps)
    for block in blocks:
        if _is_dynamic(block, late):
            plan.locations[block.value] = Location("dynamic", len(plan.dynamic), 0)
            plan.dynamic.append((block.value, block.last))
    if typical is None:
        typical = typical_sizes(graph, {})
    _place_blocks(plan, [b for b in blocks if b.value not in plan.locations], typical)
    return plan


def steps_of(groups: Sequence[Group]) -> list[Step]:
    """Returns a step for each group."""
    return [Step(tuple(g.external_operands()), tuple(g.sink.results)) for g in groups]


def byte_size(value: Value) -> Dim:
    """Returns the bytes of the value's tensor or handle; of a tensor of unknown rank, which the host allocates, 1."""
    if is_sequence(value.type):
        return HANDLE_BYTES
    if isinstance(value.type, UnrankedType):
        return 1
    if not isinstance(value.type, TensorType):
        raise CompileError(f"memory plan: value %{value.name}: got {value.type}; only tensors have native code")
    return value.type.size * dtypes.itemsize(value.type.dtype)


def _place_weights(plan: MemoryPlan, steps: Sequence[Step]) -> None:
    """Constants without elements stay out of the table: they are blocks, after which kernels may read."""
    for value in dict.fromkeys(view_root(v) for s in steps for v in s.reads):
        parts = [part for part in parts_of(value) if part.size]
        if parts:
            plan.locations[value] = Location("weights", 0, plan.table.place(parts))


def _lifetimes(plan: MemoryPlan, steps: Sequence[Step]) -> list[_Block]:
    blocks: dict[Value, _Block] = {}
    for number, step in enumerate(steps):
        for value in step.writes:
            root = storage_of(plan.followed, value)
            if root in blocks:
                blocks[root].last = number
            elif root not in plan.locations:
                blocks[root] = _Block(root, _aligned(byte_size(root)), number, number)
        for value in step.reads:
            root = storage_of(plan.followed, value)
            if is_constant(root) and root not in plan.locations:
                blocks.setdefault(root, _Block(root, 0, number, number))
            if root in blocks:
                blocks[root].last = number
            elif root not in plan.locations:
                raise CompileError(f"memory plan: value %{root.name} ({root.type}) is read before any kernel writes it")
    return list(blocks.values())


def _aligned(size: Dim) -> Dim:
    """Bytes of a block.

    A size that inputs can make negative, as a convolution does that is larger than its data, counts as 0: it must not move the
    blocks after it into those before.
    """
    low, _ = dims.bounds(size)
    whole = dims.ceildiv(size, ALIGNMENT) * ALIGNMENT
    return whole if low is not None and low >= 0 else dims.maximum(whole, 0)


def _is_dynamic(block: _Block, late: Collection[str]) -> bool:
    extents = readable_extents(block.value.shape) if isinstance(block.value.type, TensorType) else ()
    return is_control_result(block.value) or not set(late).isdisjoint(dims.symbols(block.size, *extents))


def _place_blocks(plan: MemoryPlan, blocks: Sequence[_Block], typical: Mapping[str, int]) -> None:
    sizes = [block.size for block in blocks]
    plan.typical = {name: typical.get(name, dims.TYPICAL) for name in dims.symbols(*sizes)}
    smaller = {name: max(1, size // OTHER_SCALE) for name, size in plan.typical.items()}
    larger = {name: size * OTHER_SCALE for name, size in plan.typical.items()}
    compared = [plan.typical, larger, smaller] if plan.typical else [plan.typical]
    plan.arena, numbers = arena.plan(sizes, [(b.first, b.last) for b in blocks], compared)
    plan.maybe_empty = _maybe_empty(blocks)
    offsets, _ = plan.arena.layout_at(plan.typical)
    for block, number in zip(blocks, numbers, strict=True):
        plan.locations[block.value] = Location("arena", number, offsets[number])


def _maybe_empty(blocks: Sequence[_Block]) -> tuple[TensorType, ...]:
    """Types of which a tensor without elements may need more than the line after all blocks, each once."""
    types = (b.value.type for b in blocks if not isinstance(b.size, int) or b.size == 0)
    tensors = dict.fromkeys(t for t in types if isinstance(t, TensorType))
    return tuple(t for t in tensors if not _fits_in_a_line(t))


def _fits_in_a_line(type_: TensorType) -> bool:
    """Whether all that may be read of an empty tensor is known to lie in one line."""
    elements = dims.product(readable_extents(type_.shape))
    return isinstance(elements, int) and elements * dtypes.itemsize(type_.dtype) <= ALIGNMENT


def readable_extents(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """Returns extents within which kernels may read an empty tensor and discard what they read, those of 0 taken for 1.

    Extents in front of a constant 0 count for nothing: their strides are 0.
    """
    last = max((k for k, d in enumerate(shape) if d == 0), default=-1)
    return tuple(shape[last + 1 :])
