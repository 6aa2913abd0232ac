"""What concerns several devices: here there is one, so that collective operations give what they get."""

from __future__ import annotations

from typing import Any

from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.importer import inline
from forge.frontends.stablehlo.registry import converts, refuse
from forge.frontends.stablehlo.scope import Structure
from forge.ir.nodes import Value
from forge.ir.types import TensorType


def _check_groups(g: Context, replica_groups: Any) -> None:
    """Raises OpAttributeUnimplemented where a group has more than one device."""
    groups = replica_groups if isinstance(replica_groups, tuple) else ()
    if any(isinstance(group, tuple) and len(group) > 1 for group in groups):
        raise g.unsupported(f"replica_groups: got {groups}, of several devices; expected groups of one; models run on one device")


@converts("all_gather")
@converts("all_to_all")
@converts("collective_broadcast")
@converts("reduce_scatter")
def alone(g: Context, *operands: Value, replica_groups: Any = None, **attributes: Any) -> list[Value]:
    _check_groups(g, replica_groups)
    return list(operands)


@converts("all_reduce")
@converts("collective_reduce")
def all_reduce(g: Context, *operands: Value, replica_groups: Any = None, **attributes: Any) -> list[Value]:
    _check_groups(g, replica_groups)
    return list(operands)


@converts("cross-replica-sum")
def cross_replica_sum(g: Context, operand: Value, *, replica_groups: Any = None) -> Value:
    _check_groups(g, replica_groups)
    return operand


@converts("collective_permute")
def collective_permute(g: Context, operand: Value, *, source_target_pairs: Any = (), **attributes: Any) -> Value:
    """What device 0 gets: its own value, or zeros where nobody sends it one."""
    pairs = source_target_pairs if isinstance(source_target_pairs, tuple) else ()
    if any(tuple(pair) != (0, 0) for pair in pairs):
        raise g.unsupported(f"source_target_pairs: got {pairs}, of several devices; expected (0, 0); models run on one device")
    return operand if pairs else g.call("zeros_like", operand)


@converts("partition_id")
@converts("replica_id")
def number_of_device(g: Context) -> Value:
    return g.constant(0, "uint32")


@converts("async_start")
def async_start(g: Context, *inputs: Structure) -> tuple[Structure, ...]:
    """What runs beside others elsewhere runs at once here; a future is a tuple of its results."""
    return tuple(inline(g, g.region(0), list(inputs)))


@converts("async_done")
def async_done(g: Context, future: Structure) -> list[Structure]:
    if not isinstance(future, tuple):
        raise g.invalid("got no future; expected what async_start gives")
    return list(future)


@converts("infeed")
def infeed(g: Context, *tokens: Structure, infeed_config: str = "", layout: Any = None) -> list[Structure]:
    """What the host feeds is one more input of the function for each result."""
    _check_runs_once(g)
    types = [TensorType(g.shape(k), g.result_type(k).dtype) for k in range(len(g.operation.results) - 1)]
    return [*(g.scope.graph.add_input(type_, g.scope.unique("infeed")) for type_ in types), None]


@converts("outfeed")
def outfeed(g: Context, *operands: Structure, outfeed_config: str = "") -> None:
    """What the host takes is one more output of the function for each operand."""
    _check_runs_once(g)
    g.scope.state.outfed.extend(value for value in operands if isinstance(value, Value))


def _check_runs_once(g: Context) -> None:
    """Raises OpAttributeUnimplemented in the body of a loop or a branch."""
    if g.scope.graph is not g.scope.state.main:
        raise g.unsupported("the host exchanges data in the body of a loop or a branch; expected it outside of these")


for _name in ("send", "recv"):
    refuse(_name, "models exchange nothing with other devices while they run")
