"""The table of operators that can be written as ONNX.

A row is a function ``export(g, node, *operands)``: ``g`` is the :class:`~forge.exporters.onnx.emitter.Emitter` it adds ONNX
nodes with, ``node`` the node of the graph IR, ``operands`` the values of its operands in ONNX (None where an optional one is
absent). It returns the value of the result, or a list of one for each result. What it cannot express it refuses with
``g.unsupported``; NotImplemented leaves it to what is done for an operator without a row: it is written as its ``decompose``
says, else as its tensor expressions say (``expressions``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

ExportFunction = Callable[..., Any]
F = TypeVar("F", bound=ExportFunction)

TABLE: dict[str, ExportFunction] = {}


def exports(*names: str) -> Callable[[F], F]:
    """Decorator: the function exports the operators ``names``."""

    def add(function: F) -> F:
        for name in names:
            add_row(name, function)
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


__all__ = ["TABLE", "ExportFunction", "add_row", "exports"]
