"""Values that loops carry: one type for what they are in all rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forge import dims
from forge.errors import ImportModelError
from forge.frontends.scope import Region
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.types import OptionalType, SequenceType, TensorType, Type, UnrankedType

MAX_WIDENINGS = 64


def widened_region(build: Callable[[Sequence[Type]], Region], types: Sequence[Type], first_output: int) -> Region:
    """A region whose first inputs have types that also hold its results from ``first_output`` on.

    Raises:
        ImportModelError: no type holds all values that a variable takes.
    """
    types = list(types)
    for _ in range(MAX_WIDENINGS):
        region = build(types)
        results = [v.type for v in region.graph.outputs[first_output : first_output + len(types)]]
        if len(results) != len(types):
            raise ImportModelError(f"sub-graph: got {len(results)} results for {len(types)} carried values; expected as many")
        wide = [widened(a, b) for a, b in zip(types, results)]
        if wide == types:
            _wrap_optionals(region.graph, types, first_output)
            return region
        types = wide
    raise ImportModelError("sub-graph: types of carried values do not settle; expected one type for each")


def _wrap_optionals(graph: Graph, types: Sequence[Type], first_output: int) -> None:
    """Makes optionals of results that a variable of optional type takes."""
    for position, type_ in enumerate(types, first_output):
        result = graph.outputs[position]
        if isinstance(type_, OptionalType) and not isinstance(result.type, OptionalType):
            graph.outputs[position] = Builder(graph).call("optional", result)


def widened(a: Type, b: Type) -> Type:
    """``a`` with fresh symbols for sizes in which ``b`` differs.

    Raises:
        ImportModelError: kinds, element types or ranks differ.
    """
    match a, b:
        case TensorType(), TensorType() if a.dtype == b.dtype and a.rank == b.rank:
            shape = tuple(x if dims.equal(x, y) or _is_free(x) else dims.fresh("carried") for x, y in zip(a.shape, b.shape))
            return TensorType(shape, a.dtype)
        case SequenceType(), SequenceType():
            return SequenceType(_widened_element(a.element, b.element))
        case OptionalType(), _:
            return OptionalType(widened(a.element, b.element if isinstance(b, OptionalType) else b))
    if a != b:
        raise ImportModelError(f"a carried value starts as {a} and becomes {b}; expected equal kinds, element types and ranks")
    return a


def _is_free(size: dims.Dim) -> bool:
    """Whether a size is a symbol that widening has made."""
    return str(size).startswith("carried_")


def _widened_element(a: Type, b: Type) -> Type:
    if isinstance(a, TensorType) and isinstance(b, TensorType) and a.rank == b.rank and a.dtype == b.dtype:
        return widened(a, b)
    kinds = (TensorType, UnrankedType)
    if isinstance(a, kinds) and isinstance(b, kinds) and a.dtype == b.dtype:
        absent = [isinstance(t, UnrankedType) and t.is_absent for t in (a, b)]
        return b if absent[0] else a if absent[1] else UnrankedType(a.dtype)
    return widened(a, b)
