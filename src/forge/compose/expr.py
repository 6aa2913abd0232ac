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
from forge.ops.core.term import Term

Operand = Any  # Expr, Value, number, array or None


class Expr(Term):
    """A value and the composer that builds on it."""

    __array_ufunc__ = None  # an array on the left leaves the operation to this class

    def _binary(self, op: str, other: Operand) -> Expr:
        return self._with(op, other, self, other)

    def _swapped(self, op: str, other: Operand) -> Expr:
        return self._with(op, other, other, self)

    def _with(self, op: str, other: Operand, *operands: Operand) -> Expr:
        g = builder_of([x for x in operands if isinstance(x, Expr)])
        return Expr(g, g.call(op, *(self._lifted(g, x, other) for x in operands)))

    def _lifted(self, g: Composer, operand: Operand, other: Operand) -> Value:
        value = as_value(g, operand, (self, other))
        if value is None:
            raise InvalidGraphError(f"{self}: got None as the other operand; expected an expression, a number or an array")
        return value

    def _lift(self, other: Operand) -> Value:
        return self._lifted(self.g, other, other)

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

    def __pow__(self, other: Operand) -> Expr:
        return self._binary("power", other)

    def __rpow__(self, other: Operand) -> Expr:
        return self._swapped("power", other)

    def __matmul__(self, other: Operand) -> Expr:
        return Expr(self.g, products.matmul(self.g, self.value, self._lift(other)))

    def __rmatmul__(self, other: Operand) -> Expr:
        return Expr(self.g, products.matmul(self.g, self._lift(other), self.value))

    def __neg__(self) -> Expr:
        return self._apply("negative", self.value)

    def __eq__(self, other: object) -> bool:
        """Whether both stand for the same value; ``op.equal`` compares elements."""
        return isinstance(other, Expr) and other.value is self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        raise InvalidGraphError(f"{self}: has no truth value before the model runs; use op.where")

    def __repr__(self) -> str:
        return f"<expression {self.name or self.value.type}>"


class Tuple(tuple[Any, ...]):
    """Several expressions as one."""

    __slots__ = ()

    @property
    def fields(self) -> list[Any]:
        """The expressions."""
        return list(self)


class TupleWrapper(Tuple):
    """The results of an operator that has several."""

    __slots__ = ()

    def __new__(cls, tuple_value: Iterable[Any], size: int | None = None) -> TupleWrapper:
        """``size`` is how many there are, where that is worth a check.

        Raises:
            InvalidGraphError: there are more or fewer.
        """
        wrapper = super().__new__(cls, tuple_value)
        if size is not None and len(wrapper) != size:
            raise InvalidGraphError(f"TupleWrapper: size: got {size}; expected {len(wrapper)}, the number of expressions")
        return wrapper

    def astuple(self) -> Tuple:
        """The expressions."""
        return Tuple(self)


def const(value: Any, dtype: str | None = None) -> Any:
    """A number as an operand; an array where the element type is given."""
    return value if dtype is None else np.asarray(value, dtypes.numpy_dtype(dtype))


@dataclass(frozen=True)
class Operators:
    """Operators by name: ``op.exp``, ``op.nn.relu``. A call gives an expression, or a `TupleWrapper` of them."""

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
        g = builder_of(expressions)
        results = g.multi(op_def.name, *(as_value(g, x, given) for x in given), **attributes)
        return Expr(g, results[0]) if len(results) == 1 else TupleWrapper(Expr(g, v) for v in results)


op = Operators()


def builder_of(expressions: Sequence[Expr]) -> Composer:
    """What builds on these: a constant can go into any graph, others must stay in theirs."""
    return next((x for x in expressions if x.value.constant is None), expressions[0]).g


def unwrapped(result: Any) -> Any:
    """Values in the place of expressions, in lists and tuples too."""
    if isinstance(result, list | tuple):
        return [unwrapped(item) for item in result]
    return result.value if isinstance(result, Expr) else result


def _flat(operands: Iterable[Operand]) -> Iterator[Operand]:
    for operand in operands:
        if isinstance(operand, list | tuple):
            yield from operand
        else:
            yield operand


def as_value(g: Composer, operand: Operand, given: Sequence[Operand]) -> Value | None:
    """An operand as a value, where it stands among ``given``; a constant of another graph is one of this graph as well."""
    if isinstance(operand, Expr):
        elsewhere = operand.g.builder.graph is not g.builder.graph
        array = operand.value.constant if elsewhere else None
        return operand.value if array is None else g.constant(array)
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
