"""Control flow: if, loop, scan.

Regions are closed: what they use from outside arrives as operands, and as the last inputs of the region's graph, in
the same order. Sizes that differ between branches or iterations are new symbols outside.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.errors import CompileError
from forge.ir.graph import Graph
from forge.ir.nodes import Node
from forge.ir.op import RegionRunner
from forge.ir.shapes import known_dims
from forge.ir.types import OptionalType, SequenceType, Type, UnrankedType, symbols
from forge.ops.core.inference import fail, normalize_axis
from forge.ops.core.op import NoAttrs, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Dim, ReferenceValue, Regions, TensorType, Types, Value, Values


def visible_symbols(operands: Sequence[Value | None]) -> set[str]:
    """Symbols that mean something outside the region."""
    return {s for v in operands if v is not None for s in symbols(v.type)}


def _dim(a: Dim, b: Dim, visible: set[str]) -> Dim:
    known = dims.equal(a, b) and set(dims.symbols(a)) <= visible
    return a if known else dims.fresh("joined")


def join(op: str, a: Type, b: Type, visible: set[str]) -> Type:
    """A type that holds values of both types.

    Raises:
        TypeInferenceError: there is none.
    """
    match a, b:
        case UnrankedType(is_absent=True), (TensorType() | UnrankedType()) if a.dtype == b.dtype:
            return b
        case (TensorType() | UnrankedType()), UnrankedType(is_absent=True) if a.dtype == b.dtype:
            return a
        case TensorType(), TensorType() if a.dtype == b.dtype:
            if a.rank != b.rank:
                return UnrankedType(a.dtype)
            return TensorType(tuple(_dim(x, y, visible) for x, y in zip(a.shape, b.shape, strict=True)), a.dtype)
        case (TensorType() | UnrankedType()), (TensorType() | UnrankedType()) if a.dtype == b.dtype:
            return UnrankedType(a.dtype)
        case SequenceType(), SequenceType():
            return SequenceType(join(op, a.element, b.element, visible))
        case OptionalType(), OptionalType():
            return OptionalType(join(op, a.element, b.element, visible))
    if a != b:
        raise fail(op, "types do not fit together", f"{a} and {b}", "equal kinds and element types")
    return a


def check_inputs(op: str, region: Graph, own: int, captured: int) -> None:
    """Checks the number of inputs of a region's graph."""
    if len(region.inputs) != own + captured:
        raise fail(op, "inputs of the region", len(region.inputs), f"{own} and {captured} captured ones")


def scalar_bool(value: Any) -> bool:
    return bool(np.asarray(value).reshape(-1)[0])


@register
class If(Op[NoAttrs]):
    """The results of then_branch where condition holds, else of else_branch, on the captured operands."""

    name = "if"
    host_routine = "if"
    condition, captured = Operand(accepts="bool"), Operand(variadic=True, any_type=True)
    regions = ("then_branch", "else_branch")

    def infer(self, attrs: NoAttrs, regions: Regions, condition: Value, *captured: Value) -> Types:
        for region in regions:
            check_inputs(self.name, region, 0, len(captured))
        first, second = ([v.type for v in r.outputs] for r in regions)
        if len(first) != len(second):
            raise fail(self.name, "numbers of results of the branches", f"{len(first)} and {len(second)}", "equal numbers")
        visible = visible_symbols([condition, *captured])
        return [join(self.name, a, b, visible) for a, b in zip(first, second, strict=True)]

    def reference_regions(
        self, attrs: NoAttrs, regions: Regions, run: RegionRunner, condition: ReferenceValue, *captured: ReferenceValue
    ) -> Arrays:
        return run(regions[0] if scalar_bool(condition) else regions[1], captured)


@dataclass(frozen=True)
class LoopAttrs:
    num_carried: int = 0


@register
class Loop(Op[LoopAttrs]):
    """Runs body while its condition holds, at most max_trip times.

    body(iteration, condition, carried.., captured..) gives (condition, carried.., scanned..). The results are the
    last values of the ``num_carried`` carried ones, then every scanned one of all iterations along a new first
    dimension. Without max_trip only the condition ends the loop, without condition only max_trip (what the body gives
    for it is ignored).
    """

    name = "loop"
    host_routine = "loop"
    max_trip, condition = Operand(optional=True), Operand(optional=True)
    values = Operand(variadic=True, any_type=True)
    regions = ("body",)

    def infer(self, attrs: LoopAttrs, regions: Regions, max_trip: Value | None, condition: Value | None, *values: Value) -> Types:
        (body,), carried = regions, attrs.num_carried
        if len(values) < carried:
            raise fail(self.name, "carried values", len(values), carried)
        check_inputs(self.name, body, 2 + carried, len(values) - carried)
        if len(body.outputs) < 1 + carried:
            raise fail(self.name, "results of the body", len(body.outputs), f"a condition and {carried} carried values")
        visible = visible_symbols([max_trip, condition, *values])
        ends = [v.type for v in body.outputs[1 : 1 + carried]]
        known = known_dims(max_trip) if condition is None else None
        trips = dims.fresh("trips") if known is None else dims.maximum(0, known.reshape(-1)[0])
        return [
            *(join(self.name, a.type, b, visible) for a, b in zip(values, ends)),
            *(stacked(self.name, v.type, trips, visible) for v in body.outputs[1 + carried :]),
        ]

    def host_options(self, node: Node) -> Mapping[str, Any]:
        trips, condition, *_ = [*node.operands, None, None]
        for value, dtype in ((trips, "int64"), (condition, "bool")):
            if value is not None and value.dtype != dtype:
                where = f"compile: node {node.name or node.op} ({node.op})"
                raise CompileError(f"{where}: number of trips and condition; got {value.type}; expected {dtype}")
        return {"carried": node.attrs.num_carried, "has_trips": trips is not None, "has_condition": condition is not None}

    def reference_regions(
        self,
        attrs: LoopAttrs,
        regions: Regions,
        run: RegionRunner,
        max_trip: ReferenceValue,
        condition: ReferenceValue,
        *values: ReferenceValue,
    ) -> Arrays:
        body, carried, captured = regions[0], list(values[: attrs.num_carried]), values[attrs.num_carried :]
        limit = None if max_trip is None else int(np.asarray(max_trip).reshape(-1)[0])
        running = condition is None or scalar_bool(condition)
        scanned: list[list[Any]] = [[] for _ in body.outputs[1 + attrs.num_carried :]]
        iteration = 0
        while running and (limit is None or iteration < limit):
            goes_on, *rest = run(body, [np.array(iteration), np.array(running), *carried, *captured])
            carried = rest[: attrs.num_carried]
            for column, value in zip(scanned, rest[attrs.num_carried :], strict=True):
                column.append(value)
            running = condition is None or scalar_bool(goes_on)
            iteration += 1
        types = [v.type for v in body.outputs[1 + attrs.num_carried :]]
        return [*carried, *(stack_values(c, t) for c, t in zip(scanned, types, strict=True))]


def stacked(op: str, element: Type, count: Dim, visible: set[str]) -> TensorType:
    """The type of ``count`` values of type ``element`` along a new first dimension."""
    if not isinstance(element, TensorType):
        raise fail(op, "a value of all iterations", element, "a tensor of known rank")
    return TensorType((count, *(_dim(d, d, visible) for d in element.shape)), element.dtype)


def stack_values(values: Sequence[Array], element: Type) -> Array:
    """The values along a new first dimension; unknown sizes of none are 0."""
    assert isinstance(element, TensorType)
    if values:
        return np.stack(values)
    shape = (0, *(d if isinstance(d, int) else 0 for d in element.shape))
    return np.zeros(shape, dtypes.numpy_dtype(element.dtype))


@dataclass(frozen=True)
class ScanAttrs:
    num_states: int = 0
    num_scan_inputs: int = 1
    input_axes: tuple[int, ...] | None = None
    input_directions: tuple[int, ...] | None = None
    output_axes: tuple[int, ...] | None = None
    output_directions: tuple[int, ...] | None = None


@register
class Scan(Op[ScanAttrs]):
    """Runs body once for every slice of the scan inputs.

    body(states.., slices.., captured..) gives (states.., scanned..). Operands: ``num_states`` first states,
    ``num_scan_inputs`` tensors that are sliced along ``input_axes`` (0), forwards (direction 0) or backwards (1),
    captured values. Results: the last states, then every scanned value of all iterations along a new dimension
    ``output_axes`` (0), in order or in reverse.
    """

    name = "scan"
    host_routine = "scan"
    values = Operand(variadic=True, any_type=True)
    regions = ("body",)

    def infer(self, attrs: ScanAttrs, regions: Regions, *values: Value) -> Types:
        (body,), states, scans = regions, attrs.num_states, attrs.num_scan_inputs
        if len(values) < states + scans or scans < 1:
            raise fail(self.name, "operands", len(values), f"{states} states and at least one scan input")
        check_inputs(self.name, body, states + scans, len(values) - states - scans)
        inputs = [v.tensor_type for v in values[states : states + scans]]
        axes = _per_value(attrs.input_axes, scans)
        length = inputs[0].shape[normalize_axis(self.name, axes[0], inputs[0].rank)]
        for type_, axis in zip(inputs, axes, strict=True):
            if dims.different(type_.shape[normalize_axis(self.name, axis, type_.rank)], length):
                raise fail(self.name, "length of a scan input", type_, length)
        visible = visible_symbols(values)
        starts = [v.type for v in values[:states]]
        ends = [v.type for v in body.outputs[:states]]
        joined = [join(self.name, a, b, visible) for a, b in zip(starts, ends, strict=True)]
        return [*joined, *self._scanned(body, attrs, length, visible)]

    def _scanned(self, body: Graph, attrs: ScanAttrs, length: Dim, visible: set[str]) -> list[Type]:
        outputs = body.outputs[attrs.num_states :]
        found: list[Type] = []
        for value, axis in zip(outputs, _per_value(attrs.output_axes, len(outputs)), strict=True):
            type_ = stacked(self.name, value.type, length, visible)
            shape = list(type_.shape[1:])
            shape.insert(normalize_axis(self.name, axis, type_.rank), length)
            found.append(TensorType(tuple(shape), type_.dtype))
        return found

    def host_options(self, node: Node) -> Mapping[str, Any]:
        attrs: ScanAttrs = node.attrs
        stacked = len(node.results) - attrs.num_states
        directions = [*(attrs.input_directions or (0,) * attrs.num_scan_inputs), *(attrs.output_directions or (0,) * stacked)]
        return {"carried": attrs.num_states, "scanned": attrs.num_scan_inputs, "backwards": tuple(map(bool, directions))}

    def legalize(self, builder: Builder, node: Node) -> Values | None:
        """A scan along first dimensions, with transposes around it."""
        attrs: ScanAttrs = node.attrs
        if not attrs.input_axes and not attrs.output_axes:
            return None
        first = attrs.num_states
        operands = list(node.operands)
        for k, axis in enumerate(attrs.input_axes or ()):
            value = operands[first + k]
            assert value is not None
            operands[first + k] = _transposed(builder, value, _to_front(axis, value.rank))
        axes = {first + k: axis for k, axis in enumerate(attrs.output_axes or ())}
        orders = [_to_front(axes[k], v.rank) if k in axes else None for k, v in enumerate(node.results)]
        types = [v.type if order is None else _moved(v, order) for v, order in zip(node.results, orders)]
        kept = dataclasses.replace(attrs, input_axes=None, output_axes=None)
        straight = Node(self, operands, kept, types, node.regions, node.name, node.location)
        builder.graph.insert(straight, node)
        pairs = zip(straight.results, orders)
        return [v if o is None else _transposed(builder, v, tuple(o.index(d) for d in range(len(o)))) for v, o in pairs]

    def reference_regions(self, attrs: ScanAttrs, regions: Regions, run: RegionRunner, *values: ReferenceValue) -> Arrays:
        body, count = regions[0], attrs.num_scan_inputs
        states = list(values[: attrs.num_states])
        inputs = self._sliced(values[attrs.num_states : attrs.num_states + count], attrs)
        captured = values[attrs.num_states + count :]
        outputs = body.outputs[attrs.num_states :]
        scanned: list[list[Array]] = [[] for _ in outputs]
        for slices in zip(*inputs, strict=True):
            results = run(body, [*states, *slices, *captured])
            states = results[: attrs.num_states]
            for column, value in zip(scanned, results[attrs.num_states :], strict=True):
                column.append(value)
        axes, directions = (_per_value(a, len(outputs)) for a in (attrs.output_axes, attrs.output_directions))
        stacks = [stack_values(c[::-1] if d else c, v.type) for c, d, v in zip(scanned, directions, outputs, strict=True)]
        return [*states, *(np.moveaxis(s, 0, axis) for s, axis in zip(stacks, axes, strict=True))]

    @staticmethod
    def _sliced(inputs: Sequence[Array], attrs: ScanAttrs) -> list[list[Array]]:
        axes, directions = (_per_value(a, len(inputs)) for a in (attrs.input_axes, attrs.input_directions))
        rows = [list(np.moveaxis(x, axis, 0)) for x, axis in zip(inputs, axes, strict=True)]
        return [r[::-1] if d else r for r, d in zip(rows, directions, strict=True)]


def _per_value(given: tuple[int, ...] | None, count: int) -> tuple[int, ...]:
    return given if given is not None else (0,) * count


def _to_front(axis: int, rank: int) -> tuple[int, ...]:
    return (axis % rank, *(d for d in range(rank) if d != axis % rank))


def _moved(value: Value, order: Sequence[int]) -> TensorType:
    return TensorType(tuple(value.shape[d] for d in order), value.dtype)


def _transposed(builder: Builder, value: Value, order: tuple[int, ...]) -> Value:
    return value if order == tuple(range(len(order))) else builder.call("transpose", value, axes=order)
