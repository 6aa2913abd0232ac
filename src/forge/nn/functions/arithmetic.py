"""Element-wise arithmetic and comparisons, with NumPy's broadcasting."""

from __future__ import annotations

from typing import Any

from forge.nn.tensor import Tensor
from forge.nn.tracing import Context


def _binary(operator: str, a: Any, b: Any, name: str) -> Tensor:
    g = Context(name)
    return g.tensor(g.call(operator, *g.alike(a, b)))


def add(a: Tensor, b: Tensor, name: str = "add") -> Tensor:
    """``a + b``."""
    return _binary("add", a, b, name)


def multiply(a: Tensor, b: Tensor, name: str = "mul") -> Tensor:
    """``a * b``."""
    return _binary("multiply", a, b, name)


def matmul(a: Tensor, b: Tensor, out_dtype: str | None = None, name: str = "matmul") -> Tensor:
    """``a @ b``."""
    g = Context(name)
    return g.tensor(g.call("nn.matmul", g.value(a), g.value(b)))
