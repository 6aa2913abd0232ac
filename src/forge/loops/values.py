"""Expressions and variables that loops are made of: extents, indices, bindings, local buffers, masks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from forge import dtypes
from forge.errors import CompileError
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, ExprLike, Var
from forge.tir.stmt import Allocate, Let, Stmt, seq, store

HALF = ("float16", "bfloat16")


def static(extent: Expr) -> int | None:
    """Returns the value of a constant extent, else None."""
    return int(extent.value) if isinstance(extent, E.Const) else None  # type: ignore[arg-type]


def known(extent: Expr, what: str) -> int:
    """Returns the value of an extent that must be constant.

    Raises:
        CompileError: it is not.
    """
    value = static(extent)
    if value is None:
        raise CompileError(f"{what}: got a size known only at run time; expected a constant")
    return value


def product(extents: Iterable[Expr]) -> Expr:
    """Returns the product of ``extents``."""
    total: Expr = E.const(1)
    for extent in extents:
        total = total * extent
    return total


def ceildiv(extent: ExprLike, block: ExprLike) -> Expr:
    """Returns ``extent / block``, rounded up."""
    return (E.as_expr(extent) + (block - 1)) // block


def round_up(n: int, multiple: int) -> int:
    """Returns the smallest multiple of ``multiple`` that is at least ``n``."""
    return -(-n // multiple) * multiple


def next_power_of_two(n: int) -> int:
    """Returns the smallest power of two that is at least ``n``."""
    return 1 << max(0, n - 1).bit_length()


def bit_length(n: Expr) -> Expr:
    """Counts the bits of ``n``: how often it can be halved until it is 0."""
    value = static(n)
    return E.const(64) - E.call("clz", n) if value is None else E.const(value.bit_length())


def bind(name: str, value: ExprLike) -> tuple[list[Stmt], Expr]:
    """Returns a ``Let`` of ``value`` and the variable that it binds; constants and variables need none."""
    value = E.as_expr(value)
    if isinstance(value, (E.Const, Var)):
        return [], value
    variable = Var(value.dtype, value.lanes, name)
    return [Let(variable, value)], variable


def bound(value: Expr, parts: list[Stmt], name: str = "t") -> Expr:
    """Returns the variable of ``bind``, whose ``Let`` is appended to ``parts``."""
    lets, variable = bind(name, value)
    parts += lets
    return variable


def clamped(index: Expr, extent: ExprLike) -> Expr:
    """Moves ``index`` into ``range(extent)``."""
    return E.binary("max", E.binary("min", index, E.as_expr(extent) - 1), E.const(0))


def unravel(flat: Expr, shape: Sequence[Expr]) -> list[Expr]:
    """Returns the row-major indices of element ``flat`` of an array of ``shape``."""
    indices: list[Expr] = []
    rest = flat
    for position, extent in reversed(list(enumerate(shape))):
        if E.is_const(extent, 1):
            indices.append(E.const(0))
        elif all(E.is_const(e, 1) for e in shape[:position]):
            indices.append(rest)
            rest = E.const(0)
        else:
            indices.append(rest % extent)
            rest = rest // extent
    return indices[::-1]


def bound_indices(flat: Expr, extents: Mapping[str, Expr]) -> tuple[Stmt, list[Expr]]:
    """Binds the row-major indices of element ``flat`` to variables of those names; returns the statements and the variables."""
    lets, indices = [], []
    for name, index in zip(extents, unravel(flat, list(extents.values()))):
        let, variable = bind(name, index)
        lets.append(seq(let))
        indices.append(variable)
    return seq(lets), indices


def multiply_add(a: Expr, b: Expr, c: Expr) -> Expr:
    """Returns a * b + c; one rounding for floats where the target can."""
    return E.call("fma", a, b, c) if dtypes.is_float(c.dtype) else a * b + c


def local(name: str, dtype: str, size: int, lanes: int = 1) -> Buffer:
    """Makes a local buffer of ``size`` elements."""
    return Buffer(name, dtype, (E.const(size),), "local", lanes, 64 if lanes == 1 else 0)


class Cell:
    """A scalar on the stack, for what a loop changes."""

    def __init__(self, name: str, dtype: str = E.INDEX) -> None:
        self.buffer = Buffer(name, dtype, (E.const(1),), "local")

    @property
    def value(self) -> Expr:
        """The value, loaded anew by every expression that this gives."""
        return E.load(self.buffer, 0)

    def allocate(self) -> Stmt:
        """Allocates it, without a value."""
        return Allocate(self.buffer)

    def set(self, value: ExprLike) -> Stmt:
        """Sets it."""
        return store(self.buffer, 0, E.as_expr(value, self.buffer.dtype))

    def start(self, value: ExprLike) -> Stmt:
        """Allocates and sets it."""
        return seq(self.allocate(), self.set(value))


def finished(value: Expr, dtype: str) -> Expr:
    """Returns ``value`` for a writer of ``dtype``; half precision is rounded only once, after the epilogue."""
    half = dtype in HALF and value.dtype == "float32"
    return E.call("unrounded", value, dtype=dtype) if half else E.cast(value, dtype)


def tail_mask(base: Expr, extent: Expr, lanes: int) -> Expr:
    """Compares ``base + lane < extent`` for every lane, in int32 for as many lanes as float32 data have, in int8 for more."""
    left, dtype = extent - base, "int32"
    if 16 < lanes < 128:
        left, dtype = E.binary("max", E.binary("min", left, lanes), 0), "int8"
    count = E.const(value, dtype) if (value := static(left)) is not None else E.cast(left, dtype)
    return E.compare("lt", E.ramp(E.const(0, dtype), E.const(1, dtype), lanes), E.broadcast(count, lanes))
