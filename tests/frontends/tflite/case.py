"""Cases of single operators, in each form that their kernels have: a row makes a model and inputs for each.

    row("ADD", num(4, 5), num(5), forms=("float32", *Q), fused_activation_function="RELU")

The form is that of numbers: ``num`` is an input of it, ``weight`` a constant, ``bias`` what is added to a product. Quantized
outputs have the range that the row says, or else that of the float form, which `record` notes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forge import dtypes
from tests.frontends.tflite.writer import Graph, Tensor, model

Q = ("int8", "uint8")
Q16 = (*Q, "int16")
WEIGHTED = ("float32", "float16", "dynamic", "int8", "int8_tensor", "uint8", "int16x8")
"""Forms of products: of those that are quantized, weights have a scale for each channel, but for "int8_tensor" and "uint8";
float16 weights go through DEQUANTIZE; "dynamic" has int8 weights of float data."""

_ELEMENTS = {
    "float16": "float32", "dynamic": "float32", "dynamic4": "float32", "int8_tensor": "int8", "int4": "int8", "int16x8": "int16"}
_WEIGHTS = {"dynamic": "int8", "dynamic4": "int4", "int8_tensor": "int8", "int4": "int4", "int16x8": "int8"}
QUANTIZED = frozenset({"int8", "uint8", "int16", "int8_tensor", "int4", "int16x8"})
STEP = 1 / 127
"""Of float data that kernels round to int8 before they multiply them with integer weights."""
AUTO, SAME = "auto", "same"

Range = tuple[float, float]
Scaled = tuple[float, int]


@dataclass(frozen=True)
class Fixed:
    """The quantization that an operator's kernels ask of their output, by element type."""

    by_dtype: Mapping[str, Scaled]


ACTIVATION = Fixed({"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)})
"""Of LOGISTIC and SOFTMAX."""
SYMMETRIC = Fixed({"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (1 / 32768, 0)})
"""Of TANH and L2_NORMALIZATION."""
LOGARITHM = Fixed({"int8": (16 / 256, 127), "uint8": (16 / 256, 255)})

Output = str | Range | Fixed
"""A range of numbers, a quantization, "same" as the first operand, "auto", or an element type for other outputs."""


@dataclass
class Made:
    """A model while it is made."""

    form: str
    random: np.random.Generator
    graph: Graph = field(default_factory=Graph)
    operands: list[Tensor | None] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)

    @property
    def dtype(self) -> str:
        """Of numbers."""
        return _ELEMENTS.get(self.form, self.form)

    @property
    def is_quantized(self) -> bool:
        return self.form in QUANTIZED

    def input(self, value: np.ndarray, **more: Any) -> Tensor:
        self.values.append(value)
        dtype = more.pop("dtype", None) or dtypes.canonical(value.dtype)
        return self.graph.input(value.shape, dtype, **more)


Operand = Callable[[Made], Tensor | None]


def scaled(dtype: str, low: float, high: float) -> Scaled:
    """Scale and zero point of a range; those of 16 bits are symmetric."""
    least, most = dtypes.integer_range(dtype)
    if dtype == "int16":
        return float(np.float32(max(abs(low), abs(high)) / most)), 0
    low, high = min(low, 0.0), max(high, 0.0)
    scale = float(np.float32((high - low) / (most - least))) or 1.0
    return scale, int(np.clip(round(least - low / scale), least, most))


def num(*shape: int, low: float = -1, high: float = 1, const: bool = False, values: Any = None) -> Operand:
    """Numbers between ``low`` and ``high``, or the integers of all of a quantized type."""

    def make(made: Made) -> Tensor:
        dtype = made.dtype
        how: dict[str, Any] = {}
        if made.is_quantized:
            scale, zero = scaled(dtype, low, high)
            least, most = dtypes.integer_range(dtype)
            how = {"scale": scale, "zero_point": zero}
            # Symmetric ranges of 16 bits hold numbers that the operator is not defined for, where ``low`` is not negative.
            least = 0 if dtype == "int16" and low >= 0 else least
            value = made.random.integers(least, most + 1, shape).astype(dtypes.numpy_dtype(dtype))
        elif dtype == "bool":
            value = made.random.integers(0, 2, shape).astype(bool)
        elif dtypes.is_integer(dtype):
            value = made.random.integers(int(low) if dtypes.is_signed(dtype) else 0, int(high) + 1, shape).astype(dtype)
        elif dtypes.is_complex(dtype):
            value = (made.random.uniform(low, high, shape) + 1j * made.random.uniform(low, high, shape)).astype(dtype)
        else:
            value = made.random.uniform(low, high, shape).astype(dtypes.numpy_dtype(dtype))
        if values is not None:
            value = np.asarray(values, value.dtype)
        return made.graph.constant(value, dtype, **how) if const else made.input(value, dtype=dtype, **how)

    return make


def ints(values: Any, dtype: str = "int32") -> Operand:
    """A constant that is not a number, such as axes."""
    return lambda made: made.graph.constant(np.asarray(values, np.dtype(dtype)))


def given(values: Any, dtype: str = "int32") -> Operand:
    """An input that is not a number, such as indices."""
    return lambda made: made.input(np.asarray(values, np.dtype(dtype)))


def random_bools(*shape: int) -> Operand:
    return lambda made: made.input(made.random.integers(0, 2, shape).astype(bool))


def absent(made: Made) -> None:
    """An operand that is left out."""


def weight(*shape: int, axis: int = 0, bound: float = 1.0) -> Operand:
    """A constant factor of a product; ``axis`` is that of output channels."""

    def make(made: Made) -> Tensor:
        numbers = made.random.uniform(-bound, bound, shape).astype(np.float32)
        if made.form == "float16":
            half = made.graph.constant(numbers.astype(np.float16))
            return made.graph.op("DEQUANTIZE", [half], [made.graph.tensor(shape)])[0]
        if made.form in ("float32",):
            return made.graph.constant(numbers)
        dtype = _WEIGHTS.get(made.form, made.form)
        if dtype == "uint8":
            value = made.random.integers(0, 256, shape).astype(np.uint8)
            return made.graph.constant(value, scale=bound / 120, zero_point=119)
        most = dtypes.integer_range(dtype)[1]
        rows = np.moveaxis(numbers, axis, 0).reshape(shape[axis], -1)
        scales = np.abs(rows).max(axis=1, initial=1e-3) / most
        if made.form == "int8_tensor":
            scales = scales.max(keepdims=True)
        spread = scales.astype(np.float32).reshape([-1 if k == axis else 1 for k in range(len(shape))])
        value = np.clip(np.rint(numbers / spread), -most, most).astype(np.int8)
        return made.graph.constant(value, dtype, scale=scales.astype(np.float32), axis=axis)

    return make


def bias(size: int, data: int = 0, by: int = 1) -> Operand:
    """What is added to the product of the operands ``data`` and ``by``."""

    def make(made: Made) -> Tensor:
        numbers = made.random.uniform(-1, 1, size).astype(np.float32)
        x, w = made.operands[data], made.operands[by]
        if not made.is_quantized or x is None or w is None:
            return made.graph.constant(numbers)
        scales = (np.float32(1) * np.asarray(x.scale, np.float32) * np.asarray(w.scale, np.float32)).astype(np.float32)
        dtype = "int64" if made.form == "int16x8" else "int32"
        return made.graph.constant(np.rint(numbers / scales).astype(dtype), scale=scales)

    return make


@dataclass(frozen=True)
class Row:
    op: str
    operands: tuple[Operand, ...]
    forms: tuple[str, ...]
    outputs: tuple[Output, ...]
    label: str
    options: Mapping[str, Any]
    accuracy: float
    version: int
    inexact: str | Mapping[str, str]


@dataclass(frozen=True)
class Case:
    """A row in one form."""

    row: Row
    form: str

    @property
    def name(self) -> str:
        return f"{self.row.op}-{self.form}{self.row.label and '-' + self.row.label}"

    @property
    def is_inexact(self) -> bool:
        reasons = self.row.inexact
        return self.is_quantized and bool(reasons if isinstance(reasons, str) else reasons.get(self.form))

    @property
    def is_quantized(self) -> bool:
        return self.form in QUANTIZED

    @property
    def accuracy(self) -> float:
        """Of floats, relative to the largest result.

        Kernels that multiply float data with integer weights round these data first; Forge does not.
        """
        return STEP if self.form in ("dynamic", "dynamic4") else self.row.accuracy

    @property
    def float_name(self) -> str:
        return Case(self.row, "float32").name

    def made(self, shapes: Sequence[Sequence[int]], ranges: Sequence[Range]) -> tuple[bytes, list[np.ndarray]]:
        """The model, and its inputs.

        Args:
            shapes: of the outputs.
            ranges: of the outputs of the float form.
        """
        made = Made(self.form, np.random.default_rng(zlib.crc32(self.name.encode())))
        for operand in self.row.operands:
            made.operands.append(operand(made))
        while made.operands[-1] is None and not self.row.op.startswith("BIDIRECTIONAL"):  # whose kernels count them
            made.operands.pop()
        results = []
        for k, kind in enumerate(self.row.outputs):
            dtype, how = self._output(made, kind, ranges[k] if k < len(ranges) else None)
            results.append(made.graph.tensor(shapes[k] if k < len(shapes) else (), dtype, **how))
        made.graph.op(self.row.op, made.operands, results, version=self.row.version, **self.row.options)
        made.graph.outputs = results
        return model(made.graph), made.values

    def _output(self, made: Made, kind: Output, found: Range | None) -> tuple[str, dict[str, Any]]:
        if isinstance(kind, str) and kind not in (AUTO, SAME):
            return kind, {}
        if not made.is_quantized:
            return made.dtype, {}
        first = next(one for one in made.operands if one is not None and one.scale is not None)
        if kind == SAME:
            return made.dtype, {"scale": first.scale, "zero_point": first.zero_point}
        if isinstance(kind, Fixed):
            scale, zero = kind.by_dtype[made.dtype]
        else:
            low, high = kind if not isinstance(kind, str) else found or (-1.0, 1.0)
            scale, zero = scaled(made.dtype, low, high)
        return made.dtype, {"scale": scale, "zero_point": zero}


def row(
    op: str, *operands: Operand, forms: Sequence[str] = ("float32",), out: Output | Sequence[Output] = AUTO, outputs: int = 1,
    label: str = "", accuracy: float = 1e-5, version: int = 1,
    inexact: str | Mapping[str, str] = "", **options: Any,
) -> Row:
    """A row of the table.

    Args:
        out: of its outputs, or of each.
        accuracy: of float kernels, relative to the largest result.
        label: tells rows of one operator apart.
        version: of the operator.
        inexact: why integers are within a step of those of the reference kernels, and fewer than usual are equal; or by forms.
    """
    each = tuple(out) if isinstance(out, list) else (out,) * outputs
    return Row(op, operands, tuple(forms), each, label, options, accuracy, version, inexact)  # type: ignore[arg-type]
