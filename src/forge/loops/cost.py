"""Estimates of what expressions and statements cost, in *vector operations*: what one vector instruction of a few cycles does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from forge import dtypes
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Stmt
from forge.tir.visit import LONG_INTRINSICS, computed, roots, stores

# Work that pays for a parallel chunk, about 5 us, in the two units that costs have: schedules count vector operations,
# whose lanes depend on target and dtype; dense kernels count multiply-adds of elements.
PARALLEL_WORK: Final = 16_384

PARALLEL_MULTIPLY_ADDS: Final = 200_000


def expression_cost(x: Expr) -> int:
    """Counts the vector operations of one evaluation; conditions on places are free, as most are the same for many elements."""
    total = 0
    free = _conditions_on_places(x)
    for e in computed(x):
        if e in free:
            continue
        if isinstance(e, E.Call) and e.name in LONG_INTRINSICS:
            total += 12
        elif isinstance(e, E.Binary | E.Compare | E.Select | E.Cast | E.Call | E.Load):
            total += 1
    return total


def _conditions_on_places(x: Expr) -> set[Expr]:
    """Conditions that read no data, and what they are made of."""
    found: set[Expr] = set()
    for e in computed(x):
        if e not in found and isinstance(e, E.Binary | E.Compare) and e.dtype == "bool":
            parts = list(computed(e))
            if not any(isinstance(part, E.Load) for part in parts):
                found.update(parts)
    return found


def statement_cost(s: Stmt) -> int:
    """Counts the vector operations of one evaluation of a statement without loops."""
    return sum(1 + expression_cost(store.value) for store in stores(s))


def element_size(x: Expr) -> int:
    """Returns the bytes of the widest register element that computing ``x`` needs, but for conditions on places."""
    data = [e for e in computed(x) if isinstance(e, E.Load | E.Call | E.Cast | E.Binary | E.Select)]
    free = _conditions_on_places(x) if any(e.dtype == "int64" for e in data) else ()
    return max((_register_size(e.dtype) for e in data if e.dtype != "bool" and e not in free), default=1)


def _register_size(dtype: str) -> int:
    return max(4, dtypes.itemsize(dtype)) if dtypes.is_float(dtype) else dtypes.itemsize(dtype)


def memory_sizes(s: Stmt) -> set[int]:
    """Returns the bytes of the elements that ``s`` loads and stores."""
    return {dtypes.itemsize(dtype) for dtype in memory_dtypes(s)}


def memory_dtypes(s: Stmt) -> set[str]:
    """Types of the elements that ``s`` loads and stores."""
    loaded = {e.buffer.dtype for e in computed(*roots(s)) if isinstance(e, E.Load)}
    return loaded | {store.buffer.dtype for store in stores(s)}


def supports_masks(target: Target, sizes: Iterable[int]) -> bool:
    """Returns whether masked loads and stores of elements of these sizes (bytes) are single instructions."""
    return target.isa.has_masks(sizes)
