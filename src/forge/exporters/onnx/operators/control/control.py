"""Control flow, sequences and optionals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forge.exporters.onnx.emitter import Emitter, Ref, element_of, tensor_code
from forge.exporters.onnx.registry import computes, exports
from forge.exporters.onnx.tensors import type_proto
from forge.ir.nodes import Node
from forge.ir.types import OptionalType
from forge.ops.control.control import Loop, Scan
from forge.ops.sequence.sequence import ConcatFromSequence, SequenceEmpty, SequenceMap, SplitToSequence

Region = Callable[..., Any]


def _results(g: Emitter, node: Node, op: str, inputs: list[Ref | None], **attributes: Any) -> list[Ref]:
    return g.multi(op, inputs, [element_of(v.type) for v in node.results], **attributes)


@exports("if")
def if_(g: Emitter, node: Node, region: Region, condition: Ref, *captured: Ref) -> list[Ref]:
    then_branch, else_branch = (region(g, r, 0, captured) for r in node.regions)
    return _results(g, node, "If", [g.scalar(condition)], then_branch=then_branch, else_branch=else_branch)


@exports(Loop)
def loop(g: Emitter, op: Loop, region: Region, most: Ref | None, condition: Ref | None, *values: Ref) -> list[Ref]:
    carried = op.attrs.num_carried
    body = region(g, op.node.regions[0], 2 + carried, values[carried:])
    limit = most and g.scalar(g.cast(most, "int64"))
    return _results(g, op.node, "Loop", [limit, condition and g.scalar(condition), *values[:carried]], body=body)


@exports(Scan)
def scan(g: Emitter, op: Scan, region: Region, *values: Ref) -> list[Ref]:
    attrs = op.attrs
    own = attrs.num_states + attrs.num_scan_inputs
    body = region(g, op.node.regions[0], own, values[own:])
    lists = {f"scan_{name}": list(given) for name in ("input_axes", "input_directions", "output_axes", "output_directions")
             if (given := getattr(attrs, name)) is not None}
    return _results(g, op.node, "Scan", list(values[:own]), body=body, num_scan_inputs=attrs.num_scan_inputs, **lists)


@exports(SequenceMap)
def sequence_map(g: Emitter, op: SequenceMap, region: Region, *values: Ref) -> list[Ref]:
    own = op.attrs.num_sequences
    body = region(g, op.node.regions[0], own, values[own:])
    return _results(g, op.node, "SequenceMap", list(values[:own]), body=body)


@exports(SequenceEmpty)
def sequence_empty(g: Emitter, op: SequenceEmpty) -> Ref:
    return g.multi("SequenceEmpty", [], [""], dtype=tensor_code(op.attrs.dtype))[0]


@exports(SplitToSequence)
def split_to_sequence(g: Emitter, op: SplitToSequence, x: Ref, sizes: Ref | None = None) -> Ref:
    return g.op("SplitToSequence", x, sizes, axis=op.attrs.axis, keepdims=None if op.attrs.keepdims else 0)


@exports(ConcatFromSequence)
def concat_from_sequence(g: Emitter, op: ConcatFromSequence, x: Ref) -> Ref:
    return g.op("ConcatFromSequence", x, dtype=element_of(op.result.type), axis=op.attrs.axis,
                new_axis=1 if op.attrs.new_axis else None)


@exports("optional")
def optional(g: Emitter, node: Node, value: Ref | None = None) -> Ref:
    if value is not None:
        return g.op("Optional", value)
    assert isinstance(node.result.type, OptionalType)
    return g.multi("Optional", [], [""], type=type_proto(node.result.type.element))[0]


@computes("optional_has_element")
def optional_has_element(g: Emitter, value: Ref | None = None) -> Ref:
    return g.op("OptionalHasElement", value) if value is not None else g.const(False)


@exports("sequence_at", "optional_get_element")
def element(g: Emitter, node: Node, x: Ref, *position: Ref) -> Ref:
    return g.op("SequenceAt" if position else "OptionalGetElement", x, *position, dtype=element_of(node.result.type))
