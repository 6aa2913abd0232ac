"""Cases of single operators, in each element type that they are tested with: a row makes a graph and inputs for each.

    row("Add", num(4, 5), num(5), forms=(*FLOATS, "int32"))

The form is the element type of ``num``, and the attribute ``T``; ``ints`` are constants that are not numbers, such as axes, and
``given`` are inputs of this kind.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forge import dtypes
from tests.frontends.tensorflow.writer import Graph

FLOATS = ("float32", "float64", "float16", "bfloat16")
WIDE = ("float32", "float64")
INTS = ("int32", "int64", "int8", "uint8")
COMPLEX = ("complex64",)
REAL = (*FLOATS, *INTS)
NUMBERS = (*REAL, *COMPLEX)
ALL = (*NUMBERS, "bool")
ACCURACY = {
    "float32": 2e-6, "float64": 1e-13, "float16": 2e-3, "bfloat16": 1.6e-2, "complex64": 4e-6, "complex128": 1e-13,
}
"""By element type, relative to the largest result."""


@dataclass
class Made:
    """A graph while it is made."""

    form: str
    random: np.random.Generator
    graph: Graph = field(default_factory=Graph)
    values: list[np.ndarray] = field(default_factory=list)

    open: bool = False

    def input(self, value: np.ndarray) -> str:
        """An input, with a first size that is not known where that is wanted."""
        self.values.append(value)
        shape = (-1, *value.shape[1:]) if self.open and value.ndim else value.shape
        return self.graph.placeholder(dtypes.canonical(value.dtype), shape, f"x{len(self.values)}")


Operand = Callable[[Made], str]


def num(*shape: int, low: float = -3, high: float = 3, values: Any = None, const: bool = False, dtype: str = "") -> Operand:
    """Numbers from ``low`` to ``high`` of the form's element type."""

    def make(made: Made) -> str:
        kind = made.form if dtype in ("", "form") else dtype
        value = _numbers(made.random, kind, shape, low, high) if values is None else _array(values, kind)
        return made.graph.constant(value, kind) if const else made.input(value)

    return make


def _array(values: Any, dtype: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(dtypes.numpy_dtype(dtype))


def _numbers(random: np.random.Generator, dtype: str, shape: Sequence[int], low: float, high: float) -> np.ndarray:
    kind = dtypes.numpy_dtype(dtype)
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if dtypes.is_integer(dtype):
        return random.integers(int(low) if dtypes.is_signed(dtype) else max(int(low), 0), int(high) + 1, shape).astype(kind)
    if dtypes.is_complex(dtype):
        return (random.uniform(low, high, shape) + 1j * random.uniform(low, high, shape)).astype(kind)
    return random.uniform(low, high, shape).astype(kind)


def ints(values: Any, dtype: str = "int32") -> Operand:
    """A constant that is not a number, such as axes."""
    return lambda made: made.graph.constant(np.asarray(values, dtypes.numpy_dtype(dtype)))


def given(values: Any, dtype: str = "int32") -> Operand:
    """An input that is not a number, such as indices."""
    return lambda made: made.input(np.asarray(values, dtypes.numpy_dtype(dtype)))


@dataclass(frozen=True)
class Row:
    op: str
    operands: tuple[Operand, ...]
    forms: tuple[str, ...]
    outputs: tuple[int, ...]
    label: str
    accuracy: float
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A row with one element type."""

    row: Row
    form: str

    @property
    def name(self) -> str:
        return f"{self.row.op}-{self.form}{self.row.label and '-' + self.row.label}"

    @property
    def outputs(self) -> list[str]:
        return ["node" if k == 0 else f"node:{k}" for k in self.row.outputs]

    def accuracy(self, dtype: str) -> float:
        """Of results of an element type, and of what is computed from numbers of the form's."""
        return self.row.accuracy * max(ACCURACY[dtype], ACCURACY.get(self.form, 0.0))

    def made(self, *, open_: bool = False) -> tuple[Graph, list[np.ndarray]]:
        """The graph, whose last node is the operator, and its inputs, whose first sizes are not known where ``open_``."""
        made = Made(self.form, np.random.default_rng(zlib.crc32(self.name.encode())), open=open_)
        operands = [operand(made) for operand in self.row.operands]
        attributes = {name: self.form if value == "form" else value for name, value in self.row.attributes.items()}
        made.graph.node(self.row.op, operands, "node", **{"T": self.form, **attributes})
        return made.graph, made.values


def row(
    op: str, *operands: Operand, forms: Sequence[str] = ("float32",), outputs: int | tuple[int, ...] = 1, label: str = "",
    accuracy: float = 1.0, **attributes: Any,
) -> Row:
    """A row of the table.

    Args:
        outputs: how many there are, or which ones are compared.
        accuracy: how much less accurate than ``ACCURACY`` TensorFlow's results or ours are, for a reason.
        label: tells rows of one operator apart.
        attributes: "form" stands for the form; None leaves one out.
    """
    which = tuple(range(outputs)) if isinstance(outputs, int) else outputs
    return Row(op, operands, tuple(forms), which, label, accuracy, attributes)
