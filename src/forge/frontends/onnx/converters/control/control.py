"""Control flow. Sub-graphs become closed regions: what they use from outside is captured as operands."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from forge import errors
from forge.errors import ImportModelError, TypeInferenceError
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.convert import build_region, convert_nodes
from forge.frontends.onnx.registry import converts
from forge.frontends.scope import Region, merged_captures
from forge.frontends.widening import widened_region
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.types import SequenceType, TensorType, Type
from forge.ops.sequence.sequence import taken

Ints = tuple[int, ...]


@converts("If", since=1)
def if_(g: Context, condition: Value, *, then_branch: onnx.GraphProto, else_branch: onnx.GraphProto) -> list[Value]:
    """A branch that is known to be taken is converted in place."""
    known = g.array(condition)
    if known is not None:
        return inline(g, then_branch if known.any() else else_branch)
    ranks = g.scope.state.ranks
    graphs = (then_branch, else_branch)
    if g.name in ranks.splits:
        branches = _those_that_fit(g, graphs)
    else:
        branches = [build_region(g.scope, graph, [], is_branch=True) for graph in graphs]
    loose = ranks.unify([branch.graph for branch in branches], g.name)
    captured = merged_captures(branches)
    regions = [branch.with_captures(captured, 0) for branch in branches]
    results = g.multi("if", g.reshape(condition, ()), *captured, regions=regions)
    ranks.loose.update(results[k] for k in loose)
    return results


def _those_that_fit(g: Context, graphs: Sequence[onnx.GraphProto]) -> list[Region]:
    """Branches that took in what follows their If. One whose ranks do not fit the operators there fails when it is taken, as in
    other runtimes; a warning says so now.
    """
    branches: list[Region | None] = []
    refused: list[ImportModelError] = []
    for graph in graphs:
        try:
            branches.append(build_region(g.scope, graph, [], is_branch=True))
        except ImportModelError as error:
            if not _is_misfit(error):
                raise
            branches.append(None)
            refused.append(error)
    fitting = next((b for b in branches if b is not None), None)
    if fitting is None:
        raise refused[0]
    for why in refused:
        errors.warn(f"node {g.name!r} (If): one of its branches will fail when it is taken: {why}")
    return [_failing(g.name, fitting.graph.outputs) if b is None else b for b in branches]


def _is_misfit(error: BaseException | None) -> bool:
    """Whether operands did not fit an operator."""
    return error is not None and (isinstance(error, TypeInferenceError) or _is_misfit(error.__cause__))


def _failing(name: str, results: Sequence[Value]) -> Region:
    """A branch that gives results of the same types, if it did not fail: it reads empty optionals."""
    builder = Builder(Graph(name="failing"))
    empty = [builder.call("optional", type=str(v.type)) for v in results]
    builder.graph.outputs = [builder.call("optional_get_element", v, name=f"{name}/branch_that_does_not_fit") for v in empty]
    return Region(builder.graph, [])


def inline(g: Context, graph: onnx.GraphProto) -> list[Value]:
    """Converts a sub-graph without inputs into the graph around it and returns its outputs."""
    scope = g.scope.inlined(f"{g.name}/")
    scope.add_initializers(graph)
    convert_nodes(scope, graph.node, [output.name for output in graph.output])
    return [scope.required(output.name) for output in graph.output]


@converts("Loop", since=1)
def loop(
    g: Context, trips: Value | None = None, condition: Value | None = None, *carried: Value, body: onnx.GraphProto
) -> list[Value]:
    counters = [TensorType((), "int64"), TensorType((), "bool")]

    def build(types: Sequence[Type]) -> Region:
        return build_region(g.scope, body, [*counters, *types])

    region = widened_region(build, [v.type for v in carried], first_output=1)
    own = 2 + len(carried)
    graph = region.with_captures(region.captured, own)
    scalars = [None if v is None else g.reshape(v, ()) for v in (trips, condition)]
    return g.multi("loop", *scalars, *carried, *region.captured, regions=[graph], num_carried=len(carried))


@converts("Scan", since=8)
def scan_8(
    g: Context, lengths: Value | None = None, *values: Value, body: onnx.GraphProto, num_scan_inputs: int,
    directions: Ints | None = None,
) -> list[Value]:
    """Over the sequence axis 1 of every element of the batch axis 0: a scan in a scan."""
    if lengths is not None:
        raise g.unsupported("sequence_lens: lengths of their own are not supported; expected none; use Scan-9")
    outer = g.scope.nested(body.name, g.scope.prefix)
    slices = [outer.graph.add_input(sliced(v.type, 0), outer.unique(f"batch_{i}")) for i, v in enumerate(values)]
    inner = Context(outer, g.node, g.opset, g.name)
    outer.graph.outputs = scan(inner, *slices, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=directions)
    region = Region(outer.graph, list(outer.captures))
    graph = region.with_captures(region.captured, len(values))
    return g.multi("scan", *values, *region.captured, regions=[graph], num_states=0, num_scan_inputs=len(values))


@converts("Scan", since=9)
def scan(
    g: Context, *values: Value, body: onnx.GraphProto, num_scan_inputs: int, scan_input_axes: Ints | None = None,
    scan_input_directions: Ints | None = None, scan_output_axes: Ints | None = None, scan_output_directions: Ints | None = None,
) -> list[Value]:
    count = len(values) - num_scan_inputs
    if num_scan_inputs < 1 or count < 0:
        raise g.invalid(f"attribute 'num_scan_inputs': got {num_scan_inputs}; expected 1 to {len(values)}")
    axes = scan_input_axes or (0,) * num_scan_inputs
    slices = [sliced(v.type, g.axis(a, v.rank)) for v, a in zip(values[count:], axes, strict=True)]
    region = widened_region(lambda types: build_region(g.scope, body, [*types, *slices]), [v.type for v in values[:count]], 0)
    graph = region.with_captures(region.captured, len(values))
    return g.multi(
        "scan", *values, *region.captured, regions=[graph], num_states=count, num_scan_inputs=num_scan_inputs,
        input_axes=scan_input_axes, input_directions=scan_input_directions, output_axes=scan_output_axes,
        output_directions=scan_output_directions,
    )


def sliced(type_: Type, axis: int) -> TensorType:
    """The type of one slice along ``axis``."""
    if not isinstance(type_, TensorType):
        raise ImportModelError(f"a scan input: got {type_}; expected a tensor of known rank")
    return TensorType((*type_.shape[:axis], *type_.shape[axis + 1 :]), type_.dtype)


@converts("SequenceMap", since=17)
def sequence_map(g: Context, *values: Value, body: onnx.GraphProto) -> list[Value]:
    types = [taken(v.type.element) if isinstance(v.type, SequenceType) else v.type for v in values]
    region = build_region(g.scope, body, types)
    graph = region.with_captures(region.captured, len(values))
    return g.multi("sequence_map", *values, *region.captured, regions=[graph], num_sequences=len(values))
