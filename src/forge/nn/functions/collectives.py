"""Operations over all processes that run a model: each of them calls the same ones, in the same order.

``forge_runtime.collectives.use`` chooses what carries them out.
"""

from __future__ import annotations

from forge import dims
from forge.dims import Dim
from forge.errors import OptionError
from forge.ir.nodes import Value
from forge.nn.tensor import Tensor
from forge.nn.tracing import Context, tracing
from forge_runtime.collectives import REDUCTIONS


def _called(name: str, function: str, x: Value, shape: tuple[Dim, ...]) -> Tensor:
    g = Context(name)
    return g.tensor(g.call("call_registered", x, function=f"forge.ccl.{function}", shapes=(shape,), dtypes=(x.dtype,)))


def _operand(name: str, x: Tensor) -> Value:
    tracing(name)
    return Context(name).value(x)


def ccl_allreduce(x: Tensor, op_type: str = "sum", in_group: bool = True, name: str = "ccl_allreduce") -> Tensor:
    """The sum of all workers' ``x``.

    Args:
        op_type: "sum", "prod", "min", "max" or "avg".
        in_group: over the workers of a group, if the engine has groups, else over all.

    Raises:
        OptionError: another ``op_type``, or the call is outside of an export.
    """
    if op_type not in REDUCTIONS:
        raise OptionError(f"{name}: op_type: got {op_type!r}; expected one of: {', '.join(REDUCTIONS)}")
    value = _operand(name, x)
    return _called(name, f"allreduce.{op_type}{'' if in_group else '.all'}", value, value.shape)


def ccl_allgather(x: Tensor, num_workers: int, name: str = "ccl_allgather") -> Tensor:
    """All workers' ``x`` one after the other along axis 0: ``(n, ...)`` to ``(n * num_workers, ...)``.

    Raises:
        OptionError: ``x`` has no axis, or the call is outside of an export.
    """
    value = _operand(name, x)
    _check_workers(name, value, num_workers)
    return _called(name, "allgather", value, (value.shape[0] * num_workers, *value.shape[1:]))


def ccl_broadcast_from_worker0(x: Tensor, name: str = "broadcast_from_worker") -> Tensor:
    """``x`` of worker 0.

    Raises:
        OptionError: the call is outside of an export.
    """
    value = _operand(name, x)
    return _called(name, "broadcast", value, value.shape)


def ccl_scatter_from_worker0(x: Tensor, num_workers: int, axis: int = 0, name: str = "scatter_from_worker0") -> Tensor:
    """The worker's part of ``x`` of worker 0, which is divided into ``num_workers`` equal parts along ``axis``.

    Raises:
        OptionError: the size is not a multiple of the number of workers, or the call is outside of an export.
    """
    value = _operand(name, x)
    _check_workers(name, value, num_workers)
    g = Context(name)
    place = g.axis(axis, value.rank)
    size = value.shape[place]
    if not dims.equal(dims.floormod(size, num_workers), 0):
        expected = f"expected a multiple of num_workers, which is {num_workers}"
        raise OptionError(f"{name}: got size {size} along axis {axis}; {expected}")
    order = (place, *(k for k in range(value.rank) if k != place))
    moved = value if place == 0 else g.call("transpose", value, axes=order)
    part = _called(name, "scatter", moved, (dims.floordiv(size, num_workers), *moved.shape[1:]))
    back = tuple(order.index(k) for k in range(value.rank))
    return part if place == 0 else g.tensor(g.call("transpose", g.value(part), axes=back))


def _check_workers(name: str, value: Value, num_workers: int) -> None:
    if isinstance(num_workers, bool) or not isinstance(num_workers, int) or num_workers < 1:
        raise OptionError(f"{name}: num_workers: got {num_workers!r}; expected at least 1")
    if value.rank == 0:
        raise OptionError(f"{name}: got {value.type}; expected at least one axis")
