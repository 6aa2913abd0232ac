"""Control flow, sequences and optionals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forge.exporters.onnx.emitter import Emitter, Ref, element_of, tensor_code
from forge.exporters.onnx.operators.creation import scalar
from forge.exporters.onnx.registry import add_row, exports
from forge.exporters.onnx.tensors import type_proto
from forge.ir.nodes import Node
from forge.ir.types import OptionalType

Region = Callable[..., Any]


def _results(g: Emitter, node: Node, op: str, inputs: list[Ref | None], **attributes: Any) -> list[Ref]:
    return g.multi(op, inputs, [element_of(v.type) for v in node.results], **attributes)


@exports("if")
def if_(g: Emitter, node: Node, region: Region, condition: Ref, *captured: Ref) -> list[Ref]:
    then_branch, else_branch = (region(g, r, 0, captured) for r in node.regions)
    return _results(g, node, "If", [scalar(g, condition)], then_branch=then_branch, else_branch=else_branch)


@exports("loop")
def loop(g: Emitter, node: Node, region: Region, most: Ref | None, condition: Ref | None, *values: Ref) -> list[Ref]:
    attrs: Any = node.attrs
    carried = attrs.num_carried
    body = region(g, node.regions[0], 2 + carried, values[carried:])
    limit = None if most is None else scalar(g, g.cast(most, "int64"))
    return _results(g, node, "Loop", [limit, None if condition is None else scalar(g, condition), *values[:carried]], body=body)


@exports("scan")
def scan(g: Emitter, node: Node, region: Region, *values: Ref) -> list[Ref]:
    attrs: Any = node.attrs
    own = attrs.num_states + attrs.num_scan_inputs
    body = region(g, node.regions[0], own, values[own:])
    lists = {f"scan_{name}": list(given) for name in ("input_axes", "input_directions", "output_axes", "output_directions")
             if (given := getattr(attrs, name)) is not None}
    return _results(g, node, "Scan", list(values[:own]), body=body, num_scan_inputs=attrs.num_scan_inputs, **lists)


@exports("sequence_map")
def sequence_map(g: Emitter, node: Node, region: Region, *values: Ref) -> list[Ref]:
    attrs: Any = node.attrs
    own = attrs.num_sequences
    body = region(g, node.regions[0], own, values[own:])
    return _results(g, node, "SequenceMap", list(values[:own]), body=body)


def _same(op: str) -> Callable[..., Ref]:
    def export(g: Emitter, node: Node, *x: Ref | None) -> Ref:
        return g.op(op, *x, dtype=element_of(node.result.type))

    return export


for _name, _op in {
    "sequence_construct": "SequenceConstruct", "sequence_insert": "SequenceInsert", "sequence_erase": "SequenceErase",
    "sequence_at": "SequenceAt", "sequence_length": "SequenceLength",
}.items():
    add_row(_name, _same(_op))


@exports("sequence_empty")
def sequence_empty(g: Emitter, node: Node) -> Ref:
    attrs: Any = node.attrs
    return g.multi("SequenceEmpty", [], [""], dtype=tensor_code(attrs.dtype))[0]


@exports("split_to_sequence")
def split_to_sequence(g: Emitter, node: Node, x: Ref, sizes: Ref | None = None) -> Ref:
    attrs: Any = node.attrs
    return g.op("SplitToSequence", x, sizes, dtype="", axis=attrs.axis, keepdims=None if attrs.keepdims else 0)


@exports("concat_from_sequence")
def concat_from_sequence(g: Emitter, node: Node, x: Ref) -> Ref:
    attrs: Any = node.attrs
    return g.op("ConcatFromSequence", x, dtype=element_of(node.result.type), axis=attrs.axis,
                new_axis=1 if attrs.new_axis else None)


@exports("optional")
def optional(g: Emitter, node: Node, value: Ref | None = None) -> Ref:
    if value is not None:
        return g.op("Optional", value, dtype="")
    assert isinstance(node.result.type, OptionalType)
    return g.multi("Optional", [], [""], type=type_proto(node.result.type.element))[0]


@exports("optional_has_element")
def optional_has_element(g: Emitter, node: Node, value: Ref | None = None) -> Ref:
    return g.op("OptionalHasElement", value, dtype="bool") if value is not None else g.const(False)


@exports("optional_get_element")
def optional_get_element(g: Emitter, node: Node, value: Ref) -> Ref:
    return g.op("OptionalGetElement", value, dtype=element_of(node.result.type))
