"""Arrays of tensors of version 3: lists, of which what they call flow is the value.

An array whose elements differ in their first sizes, and are only put together along them, is what they give together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forge import dims
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.converters.control import allocated
from forge.frontends.tensorflow.converters.lists import (
    count_of,
    element,
    grown,
    joined,
    length,
    new_list,
    parts_of,
    scattered,
    whole_list,
    with_element,
)
from forge.frontends.tensorflow.model import Body, Constant, Node, Ref
from forge.frontends.tensorflow.registry import converts, takes_handles
from forge.frontends.tensorflow.resources import Operand, PendingList, Resource
from forge.ir.nodes import Value

_FIXED, _GROWING, _JOINED = "array", "growing array", "joined array"


@converts("TensorArrayV3", outputs="handle flow")
@takes_handles
def array(
    g: Context, size: Operand, *, dtype: str, element_shape: Any = None, dynamic_size: bool = False,
    clear_after_read: bool = True, identical_element_shapes: bool = False, tensor_array_name: str = "",
) -> list[Operand]:
    if dynamic_size and element_shape and element_shape[0] is None and None not in element_shape[1:] and _is_joined(g):
        return [Resource(g.node.name, _JOINED), allocated(g, PendingList(0, dtype), element_shape[1:])]
    kind = _GROWING if dynamic_size else _FIXED
    return [Resource(g.node.name, kind), new_list(g, count_of(g, size), dtype, element_shape)]


def _is_joined(g: Context) -> bool:
    """Whether the only write to an array is one in each round of a loop, at 0, 1, 2 .., and all that is read is the whole."""
    body, pending, users = g.scope.nodes, [g.node.name], list[Node]()
    while pending:
        for user in (body.nodes[name] for name in body.users.get(pending.pop(), ())):
            if user.op == "Enter":
                pending.append(user.name)
            elif user.op.startswith("TensorArray"):
                users.append(user)
    writes = [user for user in users if user.op == "TensorArrayWriteV3"]
    others = {user.op for user in users if user.op != "TensorArrayWriteV3"}
    if len(writes) != 1 or not others <= {"TensorArrayConcatV3", "TensorArrayCloseV3"}:
        return False
    (write,) = writes
    flow = _source(body, write.inputs[-1])
    is_once = all(body.nodes[name].op == "NextIteration" for name in body.users.get(write.name, ()))
    return is_once and flow.op == "Merge" and _source(body, flow.inputs[0]) is g.node and _counts(body, write.inputs[1])


def _source(body: Body, ref: Ref) -> Node:
    """The node whose output others pass on."""
    for _ in range(len(body.nodes)):
        node = body.node(ref[0])
        if node.op not in ("Identity", "Switch", "Enter", "NextIteration"):
            break
        ref = node.inputs[0]
    return body.node(ref[0])


def _counts(body: Body, ref: Ref) -> bool:
    """Whether a value is 0 in the first round of a loop, and one more in each other."""

    def number(given: Ref) -> int | None:
        value = _source(body, given).attributes.get("value")
        return int(value.array()) if isinstance(value, Constant) and value.array().size == 1 else None

    merge = _source(body, ref)
    if merge.op != "Merge" or number(merge.inputs[0]) != 0:
        return False
    step = _source(body, merge.inputs[1])
    sides = list(step.inputs)
    return step.op in ("Add", "AddV2") and any(
        _source(body, a) is merge and number(b) == 1 for a, b in (sides, reversed(sides)))


@converts("TensorArrayReadV3")
@takes_handles
def array_read(g: Context, handle: Operand, index: Operand, flow: Operand, *, dtype: str = "") -> Value:
    return element(g, whole_list(g, flow), g.tensor(index))


@converts("TensorArrayWriteV3")
@takes_handles
def array_write(g: Context, handle: Operand, index: Operand, item: Operand, flow: Operand) -> Value:
    place, value, kind = g.tensor(index), g.tensor(item), _kind(handle)
    if kind == _JOINED:
        return g.call("concatenate", g.tensor(flow), value, axis=0)
    return with_element(g, grown(g, flow, place, value) if kind == _GROWING else flow, place, value)


def _kind(handle: Operand) -> str:
    return handle.kind if isinstance(handle, Resource) else _FIXED


@converts("TensorArrayGatherV3")
@takes_handles
def array_gather(
    g: Context, handle: Operand, indices: Operand, flow: Operand, *, dtype: str = "", element_shape: Any = None
) -> Value:
    data, places = whole_list(g, flow), g.tensor(indices)
    known = g.ints(places)
    is_whole = known is not None and known == tuple(range(len(known))) and dims.equal(data.shape[0], len(known))
    return data if is_whole else g.call("take", data, places, axis=0)


@converts("TensorArrayScatterV3")
@takes_handles
def array_scatter(g: Context, handle: Operand, indices: Operand, x: Operand, flow: Operand) -> Value:
    return scattered(g, flow, g.tensor(indices), g.tensor(x))


@converts("TensorArraySizeV3")
@takes_handles
def array_size(g: Context, handle: Operand, flow: Operand) -> Value:
    return length(g, flow)


@converts("TensorArrayConcatV3", outputs="value lengths")
@takes_handles
def array_concat(
    g: Context, handle: Operand, flow: Operand, *, dtype: str = "", element_shape_except0: Any = None
) -> list[Value]:
    if _kind(handle) != _JOINED:
        return joined(g, whole_list(g, flow))
    if g.wants(1):
        raise g.unsupported("lengths of elements of different sizes are read; expected the elements only")
    return [g.tensor(flow)]


@converts("TensorArraySplitV3")
@takes_handles
def array_split(g: Context, handle: Operand, x: Operand, lengths: Operand, flow: Operand) -> Value:
    return parts_of(g, g.tensor(x), g.tensor(lengths))


@converts("TensorArrayCloseV3")
@takes_handles
def array_close(g: Context, handle: Operand) -> Sequence[Operand]:
    return []
