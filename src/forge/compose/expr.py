"""Values that are written like numbers: ``gamma * (op.nn.relu(x) - alpha * op.exp(x))``.

``op`` holds every operator under its name. Operands are expressions, numbers (which take the element type of the operator's first
operand that they fit), arrays, None, or lists of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dtypes
from forge.compose import products
from forge.dims import Dim
from forge.errors import InvalidGraphError
from forge.ir.nodes import Value
from forge.ir.op import get_op
from forge.ir.types import Type
from forge.ops.core.composer import Composer

Operand = Any  # Expr, Value, number, array or None


class Expr:
    """A value and the composer that builds on it."""

    __slots__ = ("g", "value")
    __array_ufunc__ = None  # an array on the left leaves the operation to this class

    def __init__(self, g: Composer, value: Value) -> None:
        self.g = g
        self.value = value

    @property
    def name(self) -> str:
        return self.value.name

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.value.shape

    @property
    def dtype(self) -> str:
        return self.value.dtype

    @property
    def array(self) -> np.ndarray | None:
        """The contents when they are known now."""
        return self.g.array(self.value)

    @property
    def checked_type(self) -> Type:
        """The type; ``shape`` and ``dtype`` are those of a tensor."""
        return self.value.type

    def __add__(self, other: Operand) -> Expr:
        return _binary("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return _binary("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return _binary("subtract", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return _binary("subtract", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return _binary("multiply", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return _binary("multiply", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return _binary("divide", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return _binary("divide", other, self)

    def __pow__(self, other: Operand) -> Expr:
        return _binary("power", self, other)

    def __rpow__(self, other: Operand) -> Expr:
        return _binary("power", other, self)

    def __matmul__(self, other: Operand) -> Expr:
        return _product(self.g, self, other)

    def __rmatmul__(self, other: Operand) -> Expr:
        return _product(self.g, other, self)

    def __neg__(self) -> Expr:
        return Expr(self.g, self.g.call("negative", self.value))

    def __lt__(self, other: Operand) -> Expr:
        return _binary("less", self, other)

    def __le__(self, other: Operand) -> Expr:
        return _binary("less_equal", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return _binary("greater", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return _binary("greater_equal", self, other)

    def __bool__(self) -> bool:
        raise InvalidGraphError(f"{self}: has no truth value before the model runs; use op.where")

    def __repr__(self) -> str:
        return f"<expression {self.name or self.value.type}>"


def const(value: Any, dtype: str | None = None) -> Any:
    """A number as an operand; an array where the element type is given."""
    return value if dtype is None else np.asarray(value, dtypes.numpy_dtype(dtype))


@dataclass(frozen=True)
class Operators:
    """Operators by name: ``op.exp``, ``op.nn.relu``. A call gives an expression, or a tuple of as many as there are results."""

    prefix: str = ""
    const = staticmethod(const)

    def __getattr__(self, name: str) -> Operators:
        if name.startswith("__"):
            raise AttributeError(name)
        return Operators(f"{self.prefix}.{name}" if self.prefix else name)

    def __call__(self, *operands: Operand, **attributes: Any) -> Any:
        """Raises InvalidGraphError: there is no such operator, no operand is an expression, or they do not fit."""
        op_def = get_op(self.prefix)
        given = list(_flat(operands))
        expressions = [x for x in given if isinstance(x, Expr)]
        if not expressions:
            raise InvalidGraphError(f"{self.prefix}: no operand is an expression; expected one; apply others with g.call")
        g = expressions[0].g
        results = g.multi(op_def.name, *(as_value(g, x, given) for x in given), **attributes)
        return Expr(g, results[0]) if len(results) == 1 else tuple(Expr(g, v) for v in results)


op = Operators()


def unwrapped(result: Any) -> Any:
    """Values in the place of expressions, in lists and tuples too."""
    if isinstance(result, list | tuple):
        return [unwrapped(item) for item in result]
    return result.value if isinstance(result, Expr) else result


def _binary(name: str, a: Operand, b: Operand) -> Expr:
    result: Expr = Operators(name)(a, b)
    return result


def _product(g: Composer, a: Operand, b: Operand) -> Expr:
    left, right = (as_value(g, x, [a, b]) for x in (a, b))
    if left is None or right is None:
        raise InvalidGraphError(f"@: got {a!r} and {b!r}; expected two operands")
    return Expr(g, products.matmul(g, left, right))


def _flat(operands: Iterable[Operand]) -> Iterator[Operand]:
    for operand in operands:
        if isinstance(operand, list | tuple):
            yield from operand
        else:
            yield operand


def as_value(g: Composer, operand: Operand, given: Sequence[Operand]) -> Value | None:
    """An operand as a value, where it stands among ``given``."""
    if isinstance(operand, Expr):
        return operand.value
    if operand is None or isinstance(operand, Value):
        return operand
    if isinstance(operand, bool | int | float):
        return g.constant(operand, _dtype_of(operand, given))
    return g.constant(operand)


def _dtype_of(number: float, given: Sequence[Operand]) -> str:
    """The element type that a number takes among these operands: of the first that holds such numbers, else its own."""
    if isinstance(number, bool):
        return "bool"
    present = [x.dtype for x in given if isinstance(x, Expr | Value)]
    is_whole = not any(isinstance(x, float) for x in given)
    for dtype in present:
        if dtypes.is_float(dtype) or dtypes.is_complex(dtype) or (is_whole and dtypes.is_integer(dtype)):
            return dtype
    return "int64" if is_whole else "float32"
