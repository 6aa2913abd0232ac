"""Reductions along axes, and running sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forge import dtypes
from forge.compose import axes as compose
from forge.compose import reductions
from forge.errors import OptionError
from forge.ir.nodes import Value
from forge.nn.defaults import get_default_dtype
from forge.nn.tensor import Tensor
from forge.nn.tracing import Context

Axes = int | Sequence[int] | None


def _reduced(operator: str, x: Tensor, axis: Axes, keepdims: bool, name: str, of_bools: str | None = None) -> Tensor:
    """Applies a reduction that is an operator; ``of_bools``: in which element type bools are reduced."""
    g = Context(name)
    value = g.value(x)
    if of_bools is not None and value.dtype == "bool":
        value = g.cast(value, of_bools)
    return g.tensor(reductions.reduced(g, operator, value, g.axes(axis, value.rank), keepdims))


def _floating(g: Context, x: Tensor) -> Value:
    """``x`` as numbers of floating point: integers in the default element type."""
    value = g.value(x)
    is_floating = dtypes.belongs(value.dtype, "float") or dtypes.is_complex(value.dtype)
    return value if is_floating else g.cast(value, get_default_dtype())


def sum(x: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "sum") -> Tensor:  # noqa: A001 - NumPy's name
    """The sum along some axes, all for None; of bools how many are true, as int64.

    >>> nn.sum([[1, 2], [3, 4]], 0).numpy().tolist()
    [4, 6]
    """
    return _reduced("sum", x, axis, keepdims, name, "int64")


def mean(x: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "mean") -> Tensor:
    """The mean along some axes, all for None; of integers in the default element type.

    >>> nn.mean([[1.0, 2.0], [3.0, 4.0]], -1).numpy().tolist()
    [1.5, 3.5]
    """
    g = Context(name)
    value = _floating(g, x)
    return g.tensor(reductions.reduced(g, "mean", value, g.axes(axis, value.rank), keepdims))


def max(x: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "max") -> Tensor:  # noqa: A001 - NumPy's name
    """The largest element along some axes, all for None.

    >>> nn.max([[1, 2], [3, 4]], 0).numpy().tolist()
    [3, 4]
    """
    return _extreme("max", x, axis, keepdims, name)


def min(x: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "min") -> Tensor:  # noqa: A001 - NumPy's name
    """The smallest element along some axes, all for None.

    >>> nn.min([[1, 2], [3, 4]], 0, True).numpy().tolist()
    [[1, 2]]
    """
    return _extreme("min", x, axis, keepdims, name)


def _extreme(operator: str, x: Tensor, axis: Axes, keepdims: bool, name: str) -> Tensor:
    g = Context(name)
    value = g.value(x)
    return g.tensor(reductions.extreme(g, operator, value, g.axes(axis, value.rank), keepdims))


def prod(x: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "prod") -> Tensor:
    """The product along some axes, all for None; of bools as int64.

    >>> nn.prod([[1, 2], [3, 4]]).numpy().tolist()
    24
    """
    return _reduced("prod", x, axis, keepdims, name, "int64")


def any(x: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "any") -> Tensor:  # noqa: A001 - NumPy's name
    """Whether an element is true, or not 0, along some axes, all for None.

    >>> nn.any([[False, True], [False, False]], 1).numpy().tolist()
    [True, False]
    """
    return _truth("any", x, axis, keepdims, name)


def all(x: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "all") -> Tensor:  # noqa: A001 - NumPy's name
    """Whether all elements are true, or not 0, along some axes, all for None.

    >>> nn.all([[True, True], [True, False]], 1).numpy().tolist()
    [True, False]
    """
    return _truth("all", x, axis, keepdims, name)


def _truth(operator: str, x: Tensor, axis: Axes, keepdims: bool, name: str) -> Tensor:
    g = Context(name)
    value = g.cast(g.value(x), "bool")
    return g.tensor(reductions.reduced(g, operator, value, g.axes(axis, value.rank), keepdims))


def _check_number(given: Any, what: str) -> None:
    if not isinstance(given, int | float):
        raise OptionError(f"{what}: got {given!r}; expected a number")


def var(x: Tensor, axis: Axes = None, correction: float = 0, keepdims: bool = False, name: str = "var") -> Tensor:
    """The mean squared distance from the mean; sums are divided by the number of elements less ``correction``.

    >>> nn.var([1.0, 2.0, 3.0], correction=1).numpy().tolist()
    1.0
    """
    g = Context(name)
    value = _floating(g, x)
    _check_number(correction, f"{name}: correction")
    return g.tensor(reductions.variance(g, value, g.axes(axis, value.rank), keepdims, correction=correction))


def std(x: Tensor, axis: Axes = None, correction: float = 0, keepdims: bool = False, name: str = "std") -> Tensor:
    """The square root of `var`.

    >>> nn.std([1.0, 3.0]).numpy().tolist()
    1.0
    """
    g = Context(name)
    return g.tensor(g.call("sqrt", g.value(var(x, axis, correction, keepdims, name))))


def norm(x: Tensor, p: float = 2, axis: Axes = None, keepdims: bool = False, name: str = "norm") -> Tensor:
    """``sum(|x| ** p) ** (1 / p)`` along some axes, all for None.

    >>> nn.norm([3.0, 4.0]).numpy().tolist()
    5.0
    """
    g = Context(name)
    value = _floating(g, x)
    _check_number(p, f"{name}: p")
    return g.tensor(reductions.vector_norm(g, value, p, g.axes(axis, value.rank), keepdims))


def logsumexp(x: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "logsumexp") -> Tensor:
    """``log(sum(exp(x)))`` along some axes, all for None.

    >>> nn.logsumexp([0.0, 1.0]).numpy().round(4).tolist()
    1.3133
    """
    g = Context(name)
    value = _floating(g, x)
    return g.tensor(reductions.logsumexp(g, value, g.axes(axis, value.rank), keepdims))


def argmax(x: Tensor, axis: int | None = None, keepdims: bool = False, dtype: str = "int64", name: str = "argmax") -> Tensor:
    """Where the largest element is along ``axis``, or in the flat tensor for None; the first one of several.

    >>> nn.argmax([[1, 5, 2], [7, 0, 7]], -1).numpy().tolist()
    [1, 0]
    """
    return _place("argmax", x, axis, keepdims, dtype, name)


def argmin(x: Tensor, axis: int | None = None, keepdims: bool = False, dtype: str = "int64", name: str = "argmin") -> Tensor:
    """Where the smallest element is along ``axis``, or in the flat tensor for None; the first one of several.

    >>> nn.argmin([[1, 5, 2], [7, 0, 7]], -1).numpy().tolist()
    [0, 1]
    """
    return _place("argmin", x, axis, keepdims, dtype, name)


def _place(operator: str, x: Tensor, axis: int | None, keepdims: bool, dtype: str, name: str) -> Tensor:
    g = Context(name)
    value = g.value(x)
    if axis is None:
        flat = compose.ravel(g, value)
        found = g.call(operator, flat, axis=(0,), keepdims=False)
        return g.tensor(g.cast(g.reshape(found, (1,) * value.rank) if keepdims else found, g.dtype(dtype)))
    found = g.call(operator, value, axis=(g.axis(axis, value.rank),), keepdims=keepdims)
    return g.tensor(g.cast(found, g.dtype(dtype)))


def cumsum(
    data: Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None, name: str = "cumsum"
) -> Tensor:
    """Running sums along ``axis``, or of the flat tensor for None.

    Args:
        dtype: of the sums; by default that of ``data``, for bools int32.
        exclusive: each sum is without its own element.

    >>> nn.cumsum([[1, 2, 3], [4, 5, 6]], axis=0).numpy().tolist()
    [[1, 2, 3], [5, 7, 9]]
    """
    return _running("cumsum", data, axis, dtype, bool(exclusive), name)


def _running(operator: str, data: Tensor, axis: int | None, dtype: str | None, exclusive: bool, name: str) -> Tensor:
    g = Context(name)
    value = g.value(data)
    if axis is None:
        value, axis = compose.ravel(g, value), 0
    kind = g.dtype(dtype) if dtype is not None else "int32" if value.dtype == "bool" else value.dtype
    return g.tensor(g.call(operator, g.cast(value, kind), axis=g.axis(axis, value.rank), exclusive=exclusive))


def cumprod(data: Tensor, axis: int | None = None, dtype: str | None = None, name: str = "cumprod") -> Tensor:
    """Running products along ``axis``, or of the flat tensor for None, of the type ``dtype`` as `cumsum`.

    >>> nn.cumprod([[1, 2, 3], [4, 5, 6]], -1).numpy().tolist()
    [[1, 2, 6], [4, 20, 120]]
    """
    return _running("cumprod", data, axis, dtype, False, name)
