"""What type inference of operators shares: checks with located messages, axes, broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from forge import dims, dtypes
from forge.dims import Dim, DimExpr
from forge.errors import TypeInferenceError
from forge.ir.shapes import known_dims
from forge.ir.types import TensorType

if TYPE_CHECKING:
    from forge.ir.nodes import Value
    from forge.te import Expr

Shape = tuple[Dim, ...]
MAX_PARTS = 4096
"""Results of one node, or extents of one shape, of which the number comes from the graph."""


class UnprovenSizesError(TypeInferenceError):
    """Two sizes that must be equal are not provably so: they may be when the model runs."""

    def __init__(self, message: str, sizes: tuple[Dim, Dim]) -> None:
        super().__init__(message)
        self.sizes = sizes


def fail(op: str, what: str, got: object, expected: object, hint: str = "") -> TypeInferenceError:
    """The error to raise, in the catalogue's form."""
    return TypeInferenceError(f"{op}: {what}; got {got}; expected {expected}" + (f"; {hint}" if hint else ""))


def tensor(op: str, value: Value | None, name: str) -> TensorType:
    """The tensor type of an operand.

    Raises:
        TypeInferenceError: it is absent or not a tensor of known rank.
    """
    if value is None:
        raise fail(op, f"operand {name!r}", "nothing", "a tensor")
    if not isinstance(value.type, TensorType):
        raise fail(op, f"operand {name!r}", value.type, "a tensor of known rank")
    return value.type


def same_dtype(op: str, types: Sequence[TensorType | Value]) -> str:
    """The common element type.

    Raises:
        TypeInferenceError: they differ.
    """
    dtype = types[0].dtype
    different = [t.dtype for t in types if t.dtype != dtype]
    if different:
        raise fail(op, "element types differ", f"{dtype} and {different[0]}", "equal ones", "insert a cast")
    return dtype


def expect_dtype(op: str, type_: TensorType | Value, name: str, accepted: str) -> None:
    """Checks the element type against a class of ``dtypes.CLASSES`` or one dtype's name."""
    if not dtypes.belongs(type_.dtype, accepted):
        raise fail(op, f"operand {name!r} has the wrong element type", type_.dtype, accepted)


def expect_rank(op: str, type_: TensorType, name: str, rank: int) -> None:
    """Checks a rank that depends on attributes or other operands."""
    if type_.rank != rank:
        raise fail(op, f"operand {name!r} has the wrong rank", f"{type_} (rank {type_.rank})", f"rank {rank}")


def normalize_axis(op: str, axis: int, rank: int) -> int:
    """``axis`` counted from the front; -1 is the last one."""
    if not -rank <= axis < rank:
        raise fail(op, "axis out of range", axis, f"between {-rank} and {rank - 1}")
    return axis + rank if axis < 0 else axis


def normalize_axes(op: str, axes: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Axes counted from the front, in the given order; None is all of them.

    Raises:
        TypeInferenceError: one is out of range or appears twice.
    """
    if axes is None:
        return tuple(range(rank))
    given = (axes,) if isinstance(axes, int) else axes
    result = tuple(normalize_axis(op, int(a), rank) for a in given)
    if len(set(result)) != len(result):
        raise fail(op, "an axis appears twice", tuple(given), "distinct axes")
    return result


def unify_dim(op: str, a: Dim, b: Dim, what: str) -> Dim:
    """The dimension that ``a`` and ``b`` both are.

    Raises:
        TypeInferenceError: they are not provably equal.
    """
    if dims.equal(a, b):
        return a
    raise unequal(fail(op, what, f"{a} and {b}", "equal dimensions", _symbol_hint(a, b)), a, b)


def unequal(error: TypeInferenceError, a: Dim, b: Dim) -> TypeInferenceError:
    """The error to raise where ``a`` and ``b`` are not provably equal."""
    return error if dims.different(a, b) else UnprovenSizesError(str(error), (a, b))


def broadcast_dim(op: str, a: Dim, b: Dim) -> Dim:
    """The broadcast of two dimensions."""
    if isinstance(b, int) and b == 1:
        return a
    if isinstance(a, int) and a == 1:
        return b
    return unify_dim(op, a, b, "shapes do not broadcast")


def broadcast_shapes(op: str, *shapes: Shape) -> Shape:
    """NumPy's broadcast of symbolic shapes (see the module's rule).

    Raises:
        TypeInferenceError: two dimensions do not fit.
    """
    result = shapes[0] if shapes else ()
    for shape in shapes[1:]:
        if shape == result:
            continue
        pairs = zip_longest(reversed(result), reversed(shape), fillvalue=1)
        try:
            result = tuple(reversed([broadcast_dim(op, a, b) for a, b in pairs]))
        except TypeInferenceError as error:
            located = TypeInferenceError(f"{error} (shapes {', '.join(format_shape(s) for s in shapes)})")
            raise (unequal(located, *error.sizes) if isinstance(error, UnprovenSizesError) else located) from None
    return result


def _symbol_hint(a: Dim, b: Dim) -> str:
    return "" if dims.is_static(a, b) else "give equal sizes the same symbol, or use broadcast_to"


def format_shape(shape: Iterable[Dim]) -> str:
    return f"({', '.join(str(d) for d in shape)})"


def fresh_dims(prefix: str, count: int) -> tuple[DimExpr, ...]:
    """Symbols for extents that depend on run-time data.

    Raises:
        TypeInferenceError: there are more than any operator can use.
    """
    if count > MAX_PARTS:
        raise fail(prefix, "number of extents that only the run knows", count, f"at most {MAX_PARTS}")
    return tuple(dims.fresh(prefix) for _ in range(count))


def static_length(op: str, value: Value | None, name: str) -> int:
    """Number of elements of a vector operand (or scalar: 1), which must be known when compiling."""
    type_ = tensor(op, value, name)
    if type_.rank > 1:
        raise fail(op, f"operand {name!r} has the wrong rank", f"{type_} (rank {type_.rank})", "rank 0 or 1")
    length = type_.shape[0] if type_.shape else 1
    if not isinstance(length, int):
        raise fail(op, f"length of operand {name!r}", length, "a length known when compiling")
    return length


def object_array(values: Sequence[Any], shape: Sequence[int] | None = None) -> np.ndarray:
    """An array of dtype object with ``values``; a vector unless ``shape`` says otherwise."""
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result if shape is None else result.reshape(tuple(shape))


def required(holds: bool, condition: Callable[[], Expr], why: str) -> list[tuple[Expr, str]]:
    """A condition for ``Op.requires``, left out where it is known to hold."""
    return [] if holds else [(condition(), why)]


def at_most(a: Dim, b: Dim) -> bool:
    """Whether ``a <= b`` for all sizes."""
    low, _ = dims.bounds(b - a)
    return low is not None and low >= 0


HALF_TYPES = ("float16", "bfloat16")


def require_equal(op: str, what: str, got: Dim, expected: Dim) -> None:
    """Raises TypeInferenceError unless two dimensions are provably equal."""
    if not dims.equal(got, expected):
        raise unequal(fail(op, what, got, expected), got, expected)


def tuple_of(op: str, what: str, value: Any, n: int) -> tuple[Any, ...]:
    """``value`` once per axis: a single number stands for all of ``n``."""
    items = tuple(value) if isinstance(value, tuple) else (value,)
    if len(items) == 1:
        return items * n
    if len(items) != n:
        raise fail(op, what, items, f"1 or {n} numbers")
    return items


def require_positive(op: str, what: str, extents: Sequence[Dim]) -> None:
    """Raises TypeInferenceError when an output extent is certainly below 1 where one element is the least."""
    for extent in extents:
        if isinstance(extent, int) and extent < 1:
            raise fail(op, what, f"output extent {extent}", "a window that fits into the padded input")


def number_of(op: str, name: str, given: Dim | None, operand: Value | None, symbol: str = "") -> Dim:
    """The number that an attribute gives, else the one element of operand ``name``: known, or a symbol called ``symbol``."""
    if given is not None:
        return given
    tensor(op, operand, name)
    known = known_dims(operand)
    number: Dim = dims.fresh(symbol or name) if known is None else known.reshape(-1)[0]
    return number


def shape_of_contents(op: str, name: str, given: Shape | None, operand: Value | None, symbol: str = "") -> Shape:
    """The shape that an attribute gives, else the contents of operand ``name``: known, or symbols called ``symbol``, else so."""
    if given is not None:
        return given
    rank = static_length(op, operand, name)
    known = known_dims(operand)
    return fresh_dims(symbol or name, rank) if known is None else tuple(known.reshape(-1))


def given_number(given: Dim | None, operand: np.ndarray | None) -> int:
    """``number_of`` of an array."""
    return given_numbers(None if given is None else (given,), operand)[0]


def given_numbers(given: Sequence[Dim] | None, operand: np.ndarray | None) -> tuple[int, ...]:
    """The numbers that an attribute gives, else those of an operand."""
    if given is None:
        assert operand is not None
        given = operand.reshape(-1).tolist()
    return tuple(int(d) for d in given)  # type: ignore[arg-type]
