"""Sorting and the largest elements."""

from __future__ import annotations

from forge.errors import OptionError
from forge.nn.functions.arguments import size
from forge.nn.tensor import Tensor
from forge.nn.tracing import Context


def sort(x: Tensor, axis: int = -1, descending: bool = False, name: str = "sort") -> Tensor:
    """The elements in order along ``axis``.

    >>> nn.sort([3, 1, 2], descending=True).numpy().tolist()
    [3, 2, 1]
    """
    g = Context(name)
    value = g.value(x)
    return g.tensor(g.call("sort", value, axis=g.axis(axis, value.rank), is_ascend=not descending))


def argsort(data: Tensor, axis: int = -1, descending: bool = False, dtype: str = "int32", name: str = "argsort") -> Tensor:
    """Where the elements in order come from along ``axis``; equal ones keep their order.

    >>> nn.argsort([3, 1, 2]).numpy().tolist()
    [1, 2, 0]
    """
    g = Context(name)
    value = g.value(data)
    found = g.call("argsort", value, axis=g.axis(axis, value.rank), is_ascend=not descending, dtype="int64")
    return g.tensor(g.cast(found, g.dtype(dtype)))


def topk(
    data: Tensor,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    largest: bool = True,
    dtype: str = "int32",
    name: str = "topk",
) -> Tensor | tuple[Tensor, Tensor]:
    """The ``k`` largest or smallest elements along ``axis``, in order, and where they are.

    Args:
        k: how many; all if it is below 1.
        ret_type: "both", "values" or "indices".
        dtype: of the indices.

    Raises:
        OptionError: an unknown ``ret_type``.

    >>> [part.numpy().tolist() for part in nn.topk([3, 1, 2], 2)]
    [[3, 2], [0, 2]]
    """
    if ret_type not in ("both", "values", "indices"):
        raise OptionError(f"{name}: ret_type: got {ret_type!r}; expected 'both', 'values' or 'indices'")
    g = Context(name)
    value = g.value(data)
    place = g.axis(axis, value.rank)
    wanted = size(k, f"{name}: k", least=-(1 << 31))
    count = value.shape[place] if isinstance(wanted, int) and wanted < 1 else wanted
    values, indices = g.multi("topk", value, k=count, axis=place, ret_type="both", is_ascend=not largest, dtype="int64")
    found = g.tensors([values, g.cast(indices, g.dtype(dtype))])
    return {"values": found[0], "indices": found[1]}.get(ret_type, (found[0], found[1]))
