"""Collective operations of models that run as several processes: sums, gathers and broadcasts over all of them.

A model calls them as registered functions, ``forge.ccl.allreduce.sum`` and so on; what carries them out is an engine that the
program chooses before it runs the model:

    torch.distributed.init_process_group("gloo")
    forge_runtime.collectives.use("torch")

A C program registers functions under the same names instead (``forge_register``).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from forge_runtime.arrays import Array
from forge_runtime.errors import FunctionError
from forge_runtime.registry import register_func

REDUCTIONS = ("sum", "prod", "min", "max", "avg")


class Engine(Protocol):
    """What carries collective operations out: all workers call the same one, in the same order.

    Arrays are in C order; results are of the shapes that are said here, and of the element type of the argument.
    """

    def allreduce(self, x: Array, reduction: str, in_group: bool) -> Array:
        """The sum, product, minimum, maximum or mean (`REDUCTIONS`) of all workers' ``x``, or of those of the worker's group."""

    def allgather(self, x: Array) -> Array:
        """All workers' ``x`` one after the other along axis 0."""

    def broadcast(self, x: Array) -> Array:
        """``x`` of worker 0."""

    def scatter(self, x: Array) -> Array:
        """This worker's part of ``x`` of worker 0: equal parts along axis 0. Other workers' ``x`` are not looked at."""


class TorchEngine:
    """``torch.distributed``, whose process group the program has initialized, with gloo for example.

    Args:
        group: what ``in_group`` reductions are over; by default all processes.
    """

    def __init__(self, group: Any = None) -> None:
        import torch.distributed as dist

        if not dist.is_initialized():
            raise FunctionError("collectives: torch.distributed is not initialized; call its init_process_group first")
        self._dist, self._group = dist, group

    def allreduce(self, x: Array, reduction: str, in_group: bool) -> Array:
        tensor, group = _tensor(x), self._group if in_group else None
        operation = "sum" if reduction == "avg" else {"prod": "product"}.get(reduction, reduction)
        self._dist.all_reduce(tensor, getattr(self._dist.ReduceOp, operation.upper()), group)
        if reduction == "avg":
            count = self._dist.get_world_size(group)
            tensor = tensor // count if not tensor.is_floating_point() else tensor / count
        return _array(tensor, x)

    def allgather(self, x: Array) -> Array:
        import torch

        tensor = _tensor(x)
        parts = [torch.empty_like(tensor) for _ in range(self._dist.get_world_size())]
        self._dist.all_gather(parts, tensor)
        return _array(torch.cat(parts), x)

    def broadcast(self, x: Array) -> Array:
        tensor = _tensor(x)
        self._dist.broadcast(tensor, 0)
        return _array(tensor, x)

    def scatter(self, x: Array) -> Array:
        import torch

        tensor, count = _tensor(x), self._dist.get_world_size()
        part = torch.empty_like(tensor[: len(tensor) // count])
        parts = [p.contiguous() for p in tensor.chunk(count)] if self._dist.get_rank() == 0 else None
        self._dist.scatter(part, parts, 0)
        return _array(part, x)


class MPIEngine:
    """mpi4py.

    Args:
        communicator: of all workers; by default ``MPI.COMM_WORLD``.
        group: the communicator that ``in_group`` reductions are over; by default the same.
    """

    def __init__(self, communicator: Any = None, group: Any = None) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._all = MPI.COMM_WORLD if communicator is None else communicator
        self._group = self._all if group is None else group

    def allreduce(self, x: Array, reduction: str, in_group: bool) -> Array:
        communicator, result = self._group if in_group else self._all, np.empty_like(x)
        communicator.Allreduce(x, result, getattr(self._mpi, "SUM" if reduction == "avg" else reduction.upper()))
        if reduction == "avg":
            count = communicator.Get_size()
            result = (result // count if x.dtype.kind in "iu" else result / count).astype(x.dtype)
        return result

    def allgather(self, x: Array) -> Array:
        result = np.empty((self._all.Get_size() * x.shape[0], *x.shape[1:]), x.dtype)
        self._all.Allgather(x, result)
        return result

    def broadcast(self, x: Array) -> Array:
        result = np.array(x)
        self._all.Bcast(result, 0)
        return result

    def scatter(self, x: Array) -> Array:
        result = np.empty((x.shape[0] // self._all.Get_size(), *x.shape[1:]), x.dtype)
        self._all.Scatter(x if self._all.Get_rank() == 0 else None, result, 0)
        return result


_ENGINES: dict[str, type[Any]] = {"torch": TorchEngine, "mpi4py": MPIEngine}
_chosen: Engine | None = None


def use(engine: Engine | str | None, **options: Any) -> None:
    """Chooses what carries collective operations out in this process.

    Args:
        engine: "torch", "mpi4py", or an object with the methods of `Engine`; None: nothing does.
        options: of `TorchEngine` or `MPIEngine`.

    Raises:
        FunctionError: there is no such engine, its package is not installed, or torch's process group is not initialized.
    """
    global _chosen  # noqa: PLW0603 - of the process, as registered functions are
    chosen: Engine | None
    if isinstance(engine, str):
        if engine not in _ENGINES:
            raise FunctionError(f"collectives: got engine {engine!r}; expected one of: {', '.join(_ENGINES)}, or an object")
        try:
            chosen = _ENGINES[engine](**options)
        except ImportError as error:
            raise FunctionError(f"collectives: the engine {engine!r} needs a package that is not installed ({error})") from error
    else:
        chosen = engine
    _chosen = chosen


def _engine() -> Engine:
    if _chosen is None:
        raise FunctionError("collectives: no engine is chosen; call forge_runtime.collectives.use('torch') before the model runs")
    return _chosen


def _register() -> None:
    def reducing(reduction: str, in_group: bool) -> Any:
        return lambda x, result: np.copyto(result, _engine().allreduce(np.array(x), reduction, in_group))

    for reduction in REDUCTIONS:
        register_func(f"forge.ccl.allreduce.{reduction}", reducing(reduction, in_group=True))
        register_func(f"forge.ccl.allreduce.{reduction}.all", reducing(reduction, in_group=False))
    register_func("forge.ccl.allgather", lambda x, result: np.copyto(result, _engine().allgather(np.array(x))))
    register_func("forge.ccl.broadcast", lambda x, result: np.copyto(result, _engine().broadcast(np.array(x))))
    register_func("forge.ccl.scatter", lambda x, result: np.copyto(result, _engine().scatter(np.array(x))))


def _tensor(x: Array) -> Any:
    """A tensor of torch over the memory of ``x``; bfloat16 by its bits."""
    import torch

    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def _array(tensor: Any, like: Array) -> Array:
    import torch

    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(like.dtype)  # type: ignore[no-any-return]
    return tensor.numpy().astype(like.dtype, copy=False)  # type: ignore[no-any-return]


_register()
