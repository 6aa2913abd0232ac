"""A whole door in a few lines: files of polynomials, ``polynomial 1`` and coefficients, the constant first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from forge import dims, ops  # noqa: F401
from forge.errors import ImportModelError
from forge.frontends.context import ImportContext
from forge.frontends.convert import finished, located
from forge.frontends.formats import Format, Magic
from forge.frontends.inputs import DimensionNames, ShapeDict, add_inputs
from forge.frontends.registry import Registry
from forge.frontends.scope import ImportState, Scope
from forge.frontends.support import CONVERTER, Coverage, Support, Use
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Value
from forge.ir.types import TensorType

REGISTRY = Registry("polynomial")
HEADING = "polynomial 1"
MAX_DEGREE = 100


@dataclass(frozen=True)
class Polynomial:
    """A model in memory."""

    coefficients: tuple[float, ...]


@REGISTRY.converts("term")
def term(g: ImportContext, total: Value, x: Value, *, coefficient: float = 0.0) -> Value:
    return g.call("add", g.call("multiply", total, x), g.scalar(coefficient, x))


def read(model: str | os.PathLike[str] | bytes | Polynomial) -> Polynomial:
    if isinstance(model, Polynomial):
        return model
    text = (model if isinstance(model, bytes) else Path(model).read_bytes()).decode(errors="replace")
    heading, *numbers = text.split("\n")
    if heading != HEADING or len(numbers) > MAX_DEGREE:
        raise ImportModelError(f"got a heading {heading!r} and {len(numbers)} lines; expected {HEADING!r} and few")
    try:
        return Polynomial(tuple(float(number) for number in numbers if number))
    except ValueError as error:
        raise ImportModelError(f"{error}; expected a coefficient a line") from None


def load(model: str | os.PathLike[str] | bytes | Polynomial, shape: ShapeDict | None = None, dtype: str = "float32") -> Module:
    """Loads a polynomial.

    Args:
        model: a path, the contents of a file, or a `Polynomial`.
        shape: the shape of ``x`` in place of ``(n,)``.
        dtype: its element type.
    """
    with located("polynomial"):
        coefficients = read(model).coefficients
        scope = Scope(Graph(name="main"), ImportState(size=len(coefficients), freeze_params=True), {"": 1})
        add_inputs(scope, [("x", TensorType((dims.symbol("n"),), dtype))], DimensionNames(["n"]), shape or {})
        x = scope.required("x")
        total = ImportContext(scope, "start", ["total"]).call("zeros_like", x)
        for k, coefficient in enumerate(reversed(coefficients)):
            g = ImportContext(scope, f"term {k}", ["total"])
            total = REGISTRY.convert(REGISTRY.lookup("", "term", 1), g, [total, x], {"coefficient": coefficient})
        scope.graph.outputs = [total]
        return finished(scope, ["y"])


def coverage() -> Sequence[Coverage]:
    return [Coverage("", "term", (1,), CONVERTER)]


def operators(path: Path) -> Sequence[Use]:
    return [Use("", "term", 1, CONVERTER, "term 0", len(read(path).coefficients))]


FORMAT = Format(
    name="polynomial", title="Polynomial", suffixes=(".poly",), load=load, magic=(Magic(head=rb"polynomial \d"),),
    objects=(f"{__name__}:Polynomial",), support=lambda: Support(REGISTRY, coverage, operators))
