"""Tensor expressions: what an operator computes, element by element, without saying in which order.

A ``Tensor`` is a placeholder (an operand whose contents come from elsewhere) or a compute: a shape, one axis variable per
dimension, and a body, an expression over the axes that may ``Read`` elements of other tensors. A body is an ordinary
expression, or a single ``Reduce`` at its top.

Every read must be in bounds for every point of the compute's domain, even where a ``select`` discards it: clamp the index
(``te.clamp``), as ``select`` evaluates both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from forge import dims
from forge.dims import Dim, Symbol
from forge.tir import expr as E
from forge.tir.expr import Axis, Expr, Tensor, Var
from forge.tir.rewrite import Rewriter, substitute
from forge.tir.visit import nodes


def dim(d: Dim) -> Expr:
    """A dimension as an expression; symbols become variables of their name."""
    if isinstance(d, int):
        return E.const(d)
    total: Expr = E.const(0)
    for monomial, coefficient in d.terms:
        term: Expr = E.const(coefficient)
        for atom in monomial:
            term = term * (symbol_var(atom.name) if isinstance(atom, Symbol) else _operation(atom))
        total = total + term
    return total


_SYMBOLS: dict[str, Var] = {}


def symbol_var(name: str) -> Var:
    """The variable that stands for a symbolic dimension; one object per name."""
    return _SYMBOLS.setdefault(name, E.var(name))


def _operation(atom: dims.Operation) -> Expr:
    return E.binary(atom.op, dim(atom.a), dim(atom.b))


def shape_of(shape: Iterable[Dim]) -> tuple[Expr, ...]:
    """Dimensions as expressions."""
    return tuple(dim(d) for d in shape)


def placeholder(shape: Iterable[Dim | Expr], dtype: str, name: str = "x") -> Tensor:
    return Tensor(name, tuple(d if isinstance(d, Expr) else dim(d) for d in shape), dtype)


def compute(shape: Iterable[Dim | Expr], body: Callable[..., Expr], name: str = "t", dtype: str | None = None) -> Tensor:
    """A tensor whose element at the axes is ``body(*axes)``; ``dtype`` is checked when given."""
    extents = tuple(d if isinstance(d, Expr) else dim(d) for d in shape)
    axes = tuple(E.var(f"i{k}") for k in range(len(extents)))
    value = body(*axes)
    if dtype is not None and value.dtype != dtype:
        raise TypeError(f"compute {name}: body has dtype {value.dtype}; expected {dtype}")
    return Tensor(name, extents, value.dtype, axes, value)


def reduce_axis(extent: Dim | Expr, name: str = "r") -> Axis:
    return Axis(E.var(name), extent if isinstance(extent, Expr) else dim(extent))


def reduce(kind: str, value: Expr, axes: Sequence[Axis]) -> Expr:
    """Reduction of ``value`` over ``axes``; kind: sum, prod, max, min, and, or."""
    return E.Reduce(value.dtype, value.lanes, kind, value, tuple(axes)) if axes else value


def clamp(index: Expr, extent: Expr) -> Expr:
    """``index`` moved into [0, extent - 1]."""
    return E.binary("max", E.binary("min", index, extent - 1), E.const(0))


def broadcast_read(tensor: Tensor, indices: Sequence[Expr], shape: Sequence[Expr] | None = None) -> Expr:
    """Reads ``tensor`` at the last axes of ``indices``, with NumPy broadcasting: its dimensions of 1 are read at 0.

    A symbolic dimension is never taken for 1 (broadcasting of symbols is decided when types are inferred).
    """
    aligned = list(indices)[len(indices) - tensor.ndim :]
    return tensor[tuple(E.const(0) if E.is_const(extent, 1) else i for i, extent in zip(aligned, tensor.shape))]


def substitute_reads(x: Expr, replace: Callable[[Tensor, tuple[Expr, ...]], Expr | None]) -> Expr:
    """Replaces reads, those in indices first: ``replace(tensor, indices)`` gets rewritten indices; None keeps the read."""

    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, E.Read):
            return None
        indices = tuple(rewrite(i) for i in e.indices)
        replaced = replace(e.tensor, indices)
        return replaced if replaced is not None else e.tensor[indices]

    rewrite = Rewriter(rule)
    return rewrite(x)


def inline(tensor: Tensor, indices: Sequence[Expr]) -> Expr:
    """The body of a compute without reduction, at ``indices``.

    Raises:
        ValueError: ``tensor`` is a placeholder or a reduction.
    """
    if tensor.body is None or tensor.axes is None or isinstance(tensor.body, E.Reduce):
        raise ValueError(f"tensor {tensor.name}: cannot be inlined")
    return substitute(tensor.body, dict(zip(tensor.axes, indices)))


def reads(x: Expr) -> list[E.Read]:
    """All reads in ``x``, those inside indices too; one that is shared is listed once."""
    return [e for e in nodes(x) if isinstance(e, E.Read)]
