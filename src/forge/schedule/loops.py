"""Building blocks of loop nests: vector loops with masked tails, fused parallel loops, costs.

Costs are in *vector operations*: what one vector instruction of a few cycles does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from forge import dtypes
from forge.schedule.algebra import Algebra
from forge.schedule.rewrite import own_expressions, stores
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Expr, Var
from forge.tir.stmt import If, Let, Stmt, loop, seq

PARALLEL_WORK = 16384
"""Vector operations that are worth a chunk on another thread (about 5 us)."""

ASSUMED_EXTENT = 1024
"""What a symbolic extent counts for in costs."""

VectorBody = Callable[[Expr, int, "Expr | None"], Stmt]
"""(first element, lanes, mask) -> statement; with one lane there is no mask."""

GroupBody = Callable[[Expr, int, "Expr | None", int], Stmt]
"""(first element, lanes, mask, count) -> statement for ``count`` consecutive vectors; a mask comes with one vector."""


@dataclass(frozen=True, eq=False)
class Loop:
    """One axis of a loop nest: ``var`` runs over ``range(extent)``."""

    var: Var
    extent: Expr

    def declare(self, algebra: Algebra) -> None:
        """Tells ``algebra`` the range of the variable."""
        algebra.declare(self.var, self.extent)

    @property
    def static(self) -> int | None:
        return int(self.extent.value) if isinstance(self.extent, E.Const) else None  # type: ignore[arg-type]

    @property
    def assumed(self) -> int:
        """The extent as a number, for costs."""
        return ASSUMED_EXTENT if self.static is None else self.static


def next_power_of_two(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def round_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def supports_masks(target: Target, sizes: Iterable[int]) -> bool:
    """Whether masked loads and stores of elements of these sizes (bytes) are single instructions."""
    if target.has("avx512bw") or target.arch == "aarch64":
        return target.arch != "aarch64"
    wide = all(size >= 4 for size in sizes)
    return wide and (target.has("avx512f") or target.has("avx2"))


def tail_mask(base: Expr, extent: Expr, lanes: int) -> Expr:
    """``base + lane < extent`` for every lane."""
    left = E.cast(extent - base, "int32") if not E.is_const(extent - base) else E.const((extent - base).value, "int32")  # type: ignore[attr-defined]
    return E.compare("lt", E.ramp(E.const(0, "int32"), E.const(1, "int32"), lanes), E.broadcast(left, lanes))


def vector_loop(
    extent: Expr, lanes: int, body: VectorBody, unroll: int = 1, masked: bool = True, begin: Expr | None = None
) -> Stmt:
    """``body`` over ``range(begin, begin + extent)`` in vectors.

    Full vectors, ``unroll`` at a time, then single ones, then what is left: under a mask, or in shorter vectors where
    ``masked`` is False.
    """

    def group(at: Expr, width: int, mask: Expr | None, count: int) -> Stmt:
        return seq(*(body(at + u * width, width, mask) for u in range(count)))

    return group_loop(extent, lanes, group, unroll, masked, begin, narrow=True)


def group_loop(
    extent: Expr, lanes: int, body: GroupBody, unroll: int, masked: bool, begin: Expr | None = None, narrow: bool = False
) -> Stmt:
    """As ``vector_loop``, for bodies that handle ``unroll`` vectors together.

    ``narrow``: what is left of a constant extent may use vectors of fewer lanes; else it has all lanes, or one.
    """
    start = E.const(0) if begin is None else begin
    step = lanes * unroll
    if isinstance(extent, E.Const):
        return _static_group_loop(int(extent.value), lanes, body, unroll, masked, start, narrow)  # type: ignore[arg-type]
    parts = [_repeat(extent // step, step, start, lambda at: body(at, lanes, None, unroll))]
    done = (extent // step) * step
    if unroll > 1:
        parts.append(_repeat((extent - done) // lanes, lanes, start + done, lambda at: body(at, lanes, None, 1)))
        done = (extent // lanes) * lanes
    if lanes > 1 and not masked:
        parts.append(_repeat(extent - done, 1, start + done, lambda at: body(at, 1, None, 1)))
    elif lanes > 1:
        parts.append(If(done < extent, body(start + done, lanes, tail_mask(done, extent, lanes), 1)))
    return seq(*parts)


def _static_group_loop(extent: int, lanes: int, body: GroupBody, unroll: int, masked: bool, start: Expr, narrow: bool) -> Stmt:
    step = lanes * unroll
    parts = [_repeat(E.const(extent // step), step, start, lambda at: body(at, lanes, None, unroll))] if extent >= step else []
    done = extent - extent % step
    if extent - done >= lanes:
        parts.append(body(start + done, lanes, None, (extent - done) // lanes))
        done = extent - extent % lanes
    if extent > done:
        parts.append(_static_tail(extent - done, lanes, start + done, body, masked, narrow))
    return seq(*parts)


def _static_tail(count: int, lanes: int, start: Expr, body: GroupBody, masked: bool, narrow: bool) -> Stmt:
    if masked:
        width = next_power_of_two(count) if narrow else lanes
        return body(start, width, None if width == count else tail_mask(E.const(0), E.const(count), width), 1)
    parts = []
    while count:
        width = 1 << (count.bit_length() - 1) if narrow else 1
        parts.append(body(start, width, None, 1))
        start, count = start + width, count - width
    return seq(*parts)


def _repeat(count: Expr, step: int, start: Expr, body: Callable[[Expr], Stmt]) -> Stmt:
    if E.is_const(count, 1):
        return body(start)
    v = E.var("v")
    return loop(v, count, body(start + v * step))


def product(extents: Iterable[Expr]) -> Expr:
    total: Expr = E.const(1)
    for extent in extents:
        total = total * extent
    return total


def nest(loops: Sequence[Loop], body: Stmt) -> Stmt:
    """Serial loops around ``body``, the first outermost."""
    for axis in reversed(loops):
        body = loop(axis.var, axis.extent, body)
    return body


def parallel_nest(loops: Sequence[Loop], body: Stmt, cost: Expr) -> Stmt:
    """Loops around ``body``, whose one evaluation costs ``cost``; the outer ones are fused and run in parallel where that pays.

    ``for i: for j: body``  -->  ``parallel f in range(I * J): i = f // J; j = f % J; body``
    """
    total = product([*(axis.extent for axis in loops), cost])
    if not loops or (isinstance(total, E.Const) and int(total.value) < 2 * PARALLEL_WORK):  # type: ignore[arg-type]
        return nest(loops, body)
    outer = _parallel_prefix(loops)
    inner = nest(loops[outer:], body)
    work = product([*(axis.extent for axis in loops[outer:]), cost])
    fused = E.var("p")
    extent = product(axis.extent for axis in loops[:outer])
    if isinstance(extent, E.Const) and extent.value == 1:
        return nest(loops, body)
    return loop(fused, extent, seq(*_decode(fused, loops[:outer]), inner), "parallel", grain=_grain(work))


def _parallel_prefix(loops: Sequence[Loop]) -> int:
    """How many outer loops make enough iterations to share among threads."""
    count = 1
    for k, axis in enumerate(loops):
        count *= axis.static if axis.static is not None else 1
        if count >= 128:
            return k + 1
    return len(loops)


def _grain(work: Expr) -> Expr:
    if isinstance(work, E.Const):
        return E.const(max(1, PARALLEL_WORK // max(1, int(work.value))))  # type: ignore[arg-type]
    return E.const(PARALLEL_WORK) // E.binary("max", work, E.const(1)) + 1


def _decode(fused: Var, loops: Sequence[Loop]) -> list[Stmt]:
    """Binds the variables of ``loops`` to what iteration ``fused`` of their product stands for."""
    lets: list[Stmt] = []
    rest: Expr = fused
    for k in range(len(loops) - 1, 0, -1):
        lets.append(Let(loops[k].var, rest % loops[k].extent))
        rest = rest // loops[k].extent
    return [*lets, Let(loops[0].var, rest)]


_EXPENSIVE = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh", "atan2", "erf", "pow", "sigmoid", "silu", "gelu", "gelu_tanh",
    "mish", "softplus",
})


def data_nodes(x: Expr) -> list[Expr]:
    """Distinct sub-expressions of ``x`` that are computed on data; indices of loads are left out."""
    found: list[Expr] = []
    seen: set[int] = set()
    stack = [x]
    while stack:
        e = stack.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        found.append(e)
        if not isinstance(e, E.Load):
            stack.extend(E.children(e))
    return found


def expression_cost(x: Expr) -> int:
    """Vector operations of one evaluation; conditions on places are free, as most are the same for many elements."""
    total = 0
    free = _conditions_on_places(x)
    for e in data_nodes(x):
        if e in free:
            continue
        if isinstance(e, E.Call) and e.name in _EXPENSIVE:
            total += 12
        elif isinstance(e, E.Binary | E.Compare | E.Select | E.Cast | E.Call | E.Load):
            total += 1
    return total


def _conditions_on_places(x: Expr) -> set[Expr]:
    """Conditions that read no data, and what they are made of."""
    found: set[Expr] = set()
    for e in data_nodes(x):
        if e not in found and isinstance(e, E.Binary | E.Compare) and e.dtype == "bool":
            parts = data_nodes(e)
            if not any(isinstance(part, E.Load) for part in parts):
                found.update(parts)
    return found


def statement_cost(s: Stmt) -> int:
    """Vector operations of one evaluation of a statement without loops."""
    return sum(1 + expression_cost(store.value) for store in stores(s))


def element_size(x: Expr) -> int:
    """Bytes of the widest register element that computing ``x`` needs."""
    computed = (e for e in data_nodes(x) if isinstance(e, E.Load | E.Call | E.Cast | E.Binary | E.Select))
    sizes = [_register_size(e.dtype) for e in computed if e.dtype != "bool"]
    return max(sizes, default=1)


def _register_size(dtype: str) -> int:
    return max(4, dtypes.itemsize(dtype)) if dtypes.is_float(dtype) else dtypes.itemsize(dtype)


def memory_sizes(s: Stmt) -> set[int]:
    """Bytes of the elements that ``s`` loads and stores."""
    return {dtypes.itemsize(dtype) for dtype in memory_dtypes(s)}


def memory_dtypes(s: Stmt) -> set[str]:
    """Types of the elements that ``s`` loads and stores."""
    found = {store.buffer.dtype for store in stores(s)}
    for x in own_expressions(s):
        found.update(e.buffer.dtype for e in data_nodes(x) if isinstance(e, E.Load))
    return found
