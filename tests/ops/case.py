"""A row of an operator test: operator, operands, attributes, oracle.

Operands are arrays, or ``Draw``s, which become reproducible random arrays. Helpers with the names of types make draws:
``f32(2, 3)``, ``i64(4, low=0, high=3)``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forge import dtypes

MAX_SHOWN = 64
"""Elements of constants that a row's name lists."""


@dataclass(frozen=True)
class Draw:
    """A random array. Floats, parts of complex numbers and integers lie in [low, high); ``special`` floats are mixed in."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float = -4.0
    high: float = 4.0
    special: tuple[float, ...] = ()

    def array(self, rng: np.random.Generator) -> np.ndarray:
        target = dtypes.numpy_dtype(self.dtype)
        if self.dtype == "bool":
            return rng.integers(0, 2, self.shape).astype(bool)
        if dtypes.is_integer(self.dtype):
            low, high = dtypes.integer_range(self.dtype)
            return rng.integers(max(int(self.low), low), min(int(self.high), high) + 1, self.shape).astype(target)
        values = rng.uniform(self.low, self.high, self.shape)
        if dtypes.is_complex(self.dtype):
            return (values + 1j * rng.uniform(self.low, self.high, self.shape)).astype(target)
        flat = values.reshape(-1)
        flat[: len(self.special)] = self.special[: flat.size]
        return values.astype(target)


@dataclass(frozen=True)
class Constant:
    """An operand that is a constant of the graph."""

    value: np.ndarray


@dataclass(frozen=True)
class Fixed:
    """An operand whose shape stays static in the symbolic variant."""

    operand: Any


@dataclass(frozen=True)
class Case:
    """``oracle`` takes the operands (absent ones as None) and gives one array or a sequence of them; None: only
    self-consistency.

    ``symbolic``: the row also runs with every extent above 1 replaced by a symbol (equal extents by the same one).
    """

    op: str
    operands: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    oracle: Callable[..., Any] | None = None
    note: str = ""
    symbolic: bool = True

    @property
    def id(self) -> str:
        shapes = ",".join(_describe(x) for x in self.operands)
        attrs = ",".join(f"{k}={v}" for k, v in self.attrs.items())
        return f"{self.op}({shapes})[{attrs}]{self.note}".replace(" ", "")

    def arrays(self) -> list[np.ndarray | None]:
        """The operands' contents, the same in every run."""
        rng = np.random.default_rng(zlib.crc32(self.id.encode()))
        return [_realized(x, rng) for x in self.operands]


def _describe(operand: Any) -> str:
    if operand is None:
        return "-"
    if isinstance(operand, Constant):
        return f"const{operand.value.tolist()}" if operand.value.size <= MAX_SHOWN else f"const {_describe(operand.value)}"
    if isinstance(operand, Fixed):
        return f"fixed {_describe(operand.operand)}"
    if isinstance(operand, Draw):
        return f"{operand.dtype}{list(operand.shape)}"
    strings = operand.dtype == object
    whole = ascii(operand.tolist()) if strings or operand.size <= 8 else ""
    short = 0 < len(whole) <= 80 if strings else operand.size <= 8
    digest = zlib.crc32(whole.encode() if strings else operand.tobytes())
    return f"{dtypes.canonical(operand.dtype)} {whole if short else f'{list(operand.shape)}#{digest:x}'}"


def _realized(operand: Any, rng: np.random.Generator) -> np.ndarray | None:
    if isinstance(operand, Draw):
        return operand.array(rng)
    if isinstance(operand, Fixed):
        return _realized(operand.operand, rng)
    return operand.value if isinstance(operand, Constant) else operand


def row(op: str, operands: Sequence[Any], oracle: Callable[..., Any] | None = None, note: str = "",
        symbolic: bool = True, **attrs: Any) -> Case:
    """A case; lists among the operands become int64 arrays of static shape."""
    arrays = tuple(Fixed(np.array(x, np.int64)) if isinstance(x, list) else x for x in operands)
    return Case(op, arrays, attrs, oracle, note, symbolic)


def const(value: Any, dtype: str = "int64") -> Constant:
    return Constant(np.asarray(value).astype(dtypes.numpy_dtype(dtype)))


def _maker(dtype: str) -> Callable[..., Draw]:
    def make(*shape: int, **options: Any) -> Draw:
        return Draw(shape, dtype, **options)

    return make


f32, f64, f16, bf16 = (_maker(d) for d in ("float32", "float64", "float16", "bfloat16"))
i8, i16, i32, i64 = (_maker(d) for d in ("int8", "int16", "int32", "int64"))
u8, u16, u32, u64 = (_maker(d) for d in ("uint8", "uint16", "uint32", "uint64"))
c64, c128 = (_maker(d) for d in ("complex64", "complex128"))
boolean = _maker("bool")
