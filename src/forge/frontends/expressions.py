"""Expressions that belong to no model yet: variables, what operators make of them, and functions of them.

    x = relay.var("x", shape=(2, 3))
    ir = forge.IRModule.from_expr(relay.Function([x], relay.op.nn.relu(x)))

All that are alive are in one graph, in which the sizes are inferred as they are built; `module_of` takes out what a function
needs. Converters, which get expressions of a model, use the same class and the same operators.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.compose.expr import Expr, Operators, Tuple, TupleWrapper, op
from forge.compose.expr import const as _const
from forge.dims import Dim
from forge.errors import InvalidGraphError
from forge.frontends.context import open_context
from forge.ir.edits.extract import extract
from forge.ir.graph import Module
from forge.ir.nodes import Value
from forge.ir.types import TensorType

_numbers = itertools.count()


def var(name_hint: str, type_annotation: Any = None, shape: Sequence[Any] | None = None, dtype: str = "float32") -> Expr:
    """A variable: an input of the functions that list it.

    Args:
        name_hint: its name.
        type_annotation: a ``TensorType``, in the place of ``shape`` and ``dtype``.
        shape: sizes; a text is a symbolic one, equal texts equal sizes; "?" is one of its own.
        dtype: the type of an element.

    Raises:
        InvalidGraphError: there is neither a type nor a shape, a size is none, or there is no such element type.
    """
    if not isinstance(type_annotation, TensorType):
        if shape is None:
            raise InvalidGraphError(f"var {name_hint!r}: got no shape; expected one, as in var('x', shape=(1, 3))")
        try:
            type_annotation = TensorType(tuple(map(_size, shape)), dtypes.canonical(dtype))
        except TypeError as error:
            raise InvalidGraphError(f"var {name_hint!r}: got shape {tuple(shape)}, dtype {dtype!r}: {error}") from error
    g = open_context()
    return Expr(g, g.scope.graph.add_input(type_annotation, name_hint))


def _size(size: Any) -> Dim:
    if isinstance(size, str):
        text = str(size)
        return dims.symbol(f"any_{next(_numbers)}") if text == "?" else dims.symbol(text)
    return size if isinstance(size, dims.DimExpr) else operator.index(size)


def const(value: Any, dtype: str | None = None) -> Any:
    """A constant: a number stays one, which takes the element type of what it meets; an array is an expression."""
    value = _const(value, dtype)
    if isinstance(value, np.ndarray) and dtype is None:
        g = open_context()
        return Expr(g, g.constant(np.asarray(value)))
    return value


class Function:
    """Parameters and what is computed of them: an expression, or a tuple of some."""

    def __init__(self, params: Iterable[Expr], body: Expr | Sequence[Expr], attrs: dict[str, Any] | None = None) -> None:
        self.params = list(params)
        self.body = body
        self.attrs = dict(attrs or {})


def free_vars(expression: Expr | Sequence[Expr] | Function) -> list[Expr]:
    """The variables that an expression needs, in the order in which they are met, depth first; parameters of a function are not
    free."""
    bound = expression.params if isinstance(expression, Function) else []
    found: dict[Expr, None] = {}
    seen: set[Value] = set()
    results = _results(expression.body if isinstance(expression, Function) else expression)
    pending = [e.value for e in reversed(results)]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if value.producer is None:
            found[Expr(results[0].g, value)] = None
        else:
            pending.extend(v for v in reversed(value.producer.operands) if v is not None)
    return [e for e in found if e not in bound]


def module_of(expression: Expr | Sequence[Expr] | Function) -> Module:
    """The module whose main function it is; free variables are parameters, after those that a function lists.

    Raises:
        InvalidGraphError: it is not an expression.
    """
    function = expression if isinstance(expression, Function) else Function([], expression)
    results = _results(function.body)
    if not results:
        raise InvalidGraphError("from_expr: got an empty tuple; expected an expression, a tuple of some, or a Function")
    graph = extract(results[0].g.builder.graph, [e.value for e in results], [e.value for e in function.params])
    graph.name = "main"
    graph.attributes.update(function.attrs)
    return Module(graph)


def _results(body: Any) -> list[Expr]:
    results = list(body) if isinstance(body, list | tuple) else [body]
    for result in results:
        if not isinstance(result, Expr):
            raise InvalidGraphError(
                f"got {type(result).__name__}; expected an expression, which relay.var and operators give, or a tuple of some")
    return results


__all__ = [
    "Expr", "Function", "Operators", "Tuple", "TupleWrapper", "const", "free_vars", "module_of", "op", "var",
]
