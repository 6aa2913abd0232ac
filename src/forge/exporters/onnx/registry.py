"""The table of operators that can be written as ONNX.

A row is a function ``export(g, node, *operands)``: ``g`` is the :class:`~forge.exporters.onnx.emitter.Emitter` it adds ONNX
nodes with, ``node`` the node of the graph IR or the operator bound to it, ``operands`` the values of its operands in ONNX
(None where an optional one is absent). It returns the value of the result, or a list of one for each result. What it cannot
express it refuses with ``g.unsupported``; NotImplemented leaves it to what is done for an operator without a row: it is written
as its ``decompose`` says, else as its tensor expressions say (``expressions``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from forge.ir.op import OpDef

if TYPE_CHECKING:
    from forge.exporters.onnx.emitter import Emitter, Ref

ExportFunction = Callable[..., Any]
F = TypeVar("F", bound=ExportFunction)
Bound = TypeVar("Bound", bound=OpDef[Any])
P = ParamSpec("P")
R = TypeVar("R")
Row = Callable[Concatenate["Emitter", Bound, P], R]

TABLE: dict[str, ExportFunction] = {}
FORMULAS: dict[str, Callable[..., Ref]] = {}
"""Rows that need the values of the operands alone; tensor expressions use them, too."""


@overload
def exports(*operators: str) -> Callable[[F], F]: ...
@overload
def exports(*operators: type[Bound]) -> Callable[[Row[Bound, P, R]], Row[Bound, P, R]]: ...


def exports(*operators: str | type[OpDef[Any]]) -> Callable[[Any], Any]:
    """Decorator: the function exports ``operators``. It is given the node, or for those that are classes the bound operator."""

    def add(function: Any) -> Any:
        for operator in operators:
            if isinstance(operator, str):
                add_row(operator, function)
            else:
                add_row(operator.name, lambda g, node, *operands: function(g, node.op_def.bind(node), *operands))
        return function

    return add


def computes(*operators: str) -> Callable[[F], F]:
    """Decorator: the function gives the result of ``operators`` for the values of their operands."""

    def add(function: F) -> F:
        for operator in operators:
            FORMULAS[operator] = function
            add_row(operator, lambda g, node, *operands: function(g, *operands))
        return function

    return add


def add_row(name: str, function: ExportFunction) -> None:
    """Adds a row; the operator must have none.

    Raises:
        ValueError: it has one.
    """
    if name in TABLE:
        raise ValueError(f"operator {name!r} has an exporter already")
    TABLE[name] = function
