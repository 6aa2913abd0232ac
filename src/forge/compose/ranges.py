"""Numbers at equal distances."""

from __future__ import annotations

from forge import dtypes
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def arange(g: Composer, start: Value, stop: Value, step: Value, dtype: str) -> Value:
    """``start``, ``start + step``, .. before ``stop``, of rank 0 and float64, as many as they say before ``dtype`` rounds them.

    Of an integer ``dtype`` start and step are truncated first.
    """
    first, last, width = (Term(g, v) for v in (start, stop, step))
    places = Term(g, g.count(g.cast(((last - first) / width).ceil().value, "int64")))
    if dtypes.is_integer(dtype):
        return (places * width.cast("int64") + first.cast("int64")).cast(dtype).value
    return (places.cast("float64") * width + first).cast(dtype).value


def linspace(
    g: Composer, start: Value, stop: Value, number: Value, *, size: Dim | None = None, rounded: str | None = None
) -> Value:
    """``number`` numbers from ``start`` to ``stop``, both of rank 0, counted from the nearer of both, in float64 or complex128.

    ``rounded``: the type that the distance of ends and the step are rounded to, which products are not, so that the result is
    PyTorch's for that type to the last bit.
    """
    work = "complex128" if dtypes.is_complex(start.dtype) else "float64"

    def narrow(t: Term) -> Term:
        return t if rounded is None else t.cast(rounded).cast(work)

    first, last, count = Term(g, g.cast(start, work)), Term(g, g.cast(stop, work)), Term(g, number)
    places = Term(g, g.count(number, size))
    step = narrow(narrow(last - first) / (count - 1).maximum(1).cast(work))
    near = places < count.floor_divide(2).maximum(1)
    return near.where(first + step * places.cast(work), last - step * (count - 1 - places).cast(work)).value
