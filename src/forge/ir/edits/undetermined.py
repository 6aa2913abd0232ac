"""Symbols that the shapes of a graph's inputs do not determine: ``b`` and ``s`` where the only input is ``Tensor[(b*s, 4)]``.

The inputs of a subgraph are intermediate values of the graph it was cut from, so they may have such sizes. Where the subgraph
needs only the size as a whole, a new symbol replaces it: ``Tensor[(d_0, 4)]``.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from forge import dims
from forge.dims import Dim, DimExpr, Operation
from forge.ir import types as T
from forge.ir.call import bind_dimensions
from forge.ir.graph import Graph
from forge.ir.retype import map_dims


def undetermined_symbols(graph: Graph, only_plain: bool = False) -> set[str]:
    """Symbols that occur in the inputs' shapes, which do not determine them.

    With ``only_plain``, only a size that is the symbol itself determines it: ``2*n`` does not determine ``n``.
    """
    found = [d for v in graph.inputs for d in _dims(v.type)]
    determined = bind_dimensions([(d, d) for d in found if not only_plain or dims.symbol_name(d) is not None])
    return {s for d in found for s in dims.symbols(d) if s not in determined}


def name_whole_sizes(graph: Graph, only_plain: bool = False) -> set[str]:
    """Replaces input sizes with undetermined symbols by new symbols, throughout the graph, in place.

    Returns the undetermined symbols that the graph also uses outside of those sizes; if there are any, nothing is changed.
    """
    missing = undetermined_symbols(graph, only_plain)
    if not missing:
        return set()
    taken = {s for v in graph.values() for s in T.symbols(v.type)}
    names = (n for k in itertools.count() if (n := f"d_{k}") not in taken)
    sizes = dict.fromkeys(d for v in graph.inputs for d in _dims(v.type) if not missing.isdisjoint(dims.symbols(d)))
    rules: list[tuple[DimExpr, DimExpr]] = []
    for size in sizes:  # an earlier one may determine a later one: 2*b*s after b*s
        rest = _rewritten(size, rules)
        if isinstance(rest, DimExpr) and not missing.isdisjoint(dims.symbols(rest)):
            rules.append((rest, dims.symbol(next(names))))
    left: set[str] = set()

    def check(dim: DimExpr) -> Dim:
        left.update(missing.intersection(dims.symbols(_rewritten(dim, rules))))
        return dim

    map_dims(graph, check)
    if not left:
        map_dims(graph, lambda d: _rewritten(d, rules))
    return left


def _rewritten(dim: Dim, rules: Sequence[tuple[DimExpr, DimExpr]]) -> Dim:
    """``dim`` with each size replaced by its symbol."""
    for size, symbol in rules:
        dim = _with_whole(dim, size, symbol)
    return dim


def _with_whole(dim: Dim, size: DimExpr, symbol: DimExpr) -> Dim:
    """``dim`` in terms of ``symbol`` instead of ``size``: its leading product becomes ``symbol`` minus its other terms."""
    if isinstance(dim, int):
        return dim
    (leading, factor), *others = size.terms
    rest: Dim = symbol - DimExpr(tuple(others)) if others else symbol
    total: Dim = 0
    for monomial, coefficient in dim.terms:
        term: Dim = 1
        while coefficient % factor == 0 and (left := dims.divided(monomial, leading)) is not None:
            monomial, coefficient, term = left, coefficient // factor, term * rest
        for atom in monomial:
            term = term * (_operation_with_whole(atom, size, symbol) if isinstance(atom, Operation) else dims.of_atom(atom))
        total = total + term * coefficient
    return total


def _operation_with_whole(atom: Operation, size: DimExpr, symbol: DimExpr) -> Dim:
    return dims.OPERATIONS[atom.op](_with_whole(atom.a, size, symbol), _with_whole(atom.b, size, symbol))


def _dims(type_: T.Type) -> list[Dim]:
    return [d for d, _ in T.dimension_pairs(type_, type_)]
