"""LLVM's textual types and constants, and a builder of instruction lists.

An *operand* is a Python number (a constant, equal in all lanes) or the name of an SSA value (``"%v7"``).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import cache

from forge import dtypes
from forge.errors import CompileError

Operand = str | int | float | bool

NARROW_FLOATS = frozenset(name for name in dtypes.NAMES if dtypes.is_float(name) and dtypes.bits(name) < 32)
"""Float types that live in registers as float32; only loads and stores see their bits."""


def register_dtype(dtype: str) -> str:
    """The dtype that holds values of ``dtype`` in registers."""
    return "float32" if dtype in NARROW_FLOATS else dtype


@cache
def scalar_type(dtype: str) -> str:
    """LLVM's type of one value in a register."""
    dtype = register_dtype(dtype)
    if dtype == "bool":
        return "i1"
    if dtypes.is_integer(dtype):
        return f"i{dtypes.bits(dtype)}"
    if dtype == "string":
        return f"i{8 * dtypes.STRING_SIZE}"
    if dtype in ("float32", "float64"):
        return "float" if dtype == "float32" else "double"
    raise CompileError(f"codegen: values of {dtype} have no machine type; expected bool, an integer or a float type; "
                       "split complex numbers into real and imaginary parts before lowering")


@cache
def memory_type(dtype: str) -> str:
    """LLVM's type of one element in memory: whole bytes; narrow floats as their bits."""
    if dtype in NARROW_FLOATS or dtype == "bool" or dtypes.is_integer(dtype):
        return f"i{8 * dtypes.itemsize(dtype)}"
    return scalar_type(dtype)


@cache
def vector_of(scalar: str, lanes: int) -> str:
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def register_type(dtype: str, lanes: int) -> str:
    return vector_of(scalar_type(dtype), lanes)


def short_name(scalar: str) -> str:
    """As in the names of LLVM's intrinsics."""
    return {"float": "f32", "double": "f64"}.get(scalar, scalar)


def suffix(scalar: str, lanes: int) -> str:
    """The overload suffix of an LLVM intrinsic on values of this type."""
    return short_name(scalar) if lanes == 1 else f"v{lanes}{short_name(scalar)}"


def float_text(value: float, scalar: str) -> str:
    """A float or double constant, as the hexadecimal form of a double that LLVM reads exactly."""
    if scalar == "float":
        value = _to_float32(value)
    if math.isnan(value):
        return "0x7FF8000000000000"
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _to_float32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def scalar_text(value: Operand, scalar: str) -> str:
    if isinstance(value, str):
        return value
    if scalar in ("float", "double"):
        return float_text(float(value), scalar)
    return ("true" if value else "false") if scalar == "i1" else str(int(value))


def text(value: Operand, scalar: str, lanes: int = 1) -> str:
    """``value`` as an operand of an instruction on ``lanes`` values of type ``scalar`` (without the type)."""
    if isinstance(value, str) or lanes == 1:
        return scalar_text(value, scalar)
    return f"splat ({scalar} {scalar_text(value, scalar)})"


def c_string(symbol: str, value: str, attributes: str = "private constant") -> str:
    """The definition of a constant with ``value`` and a terminating zero."""
    data = value.encode() + b"\0"
    escaped = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in data)
    return f'{symbol} = {attributes} [{len(data)} x i8] c"{escaped}"'


class IRBuilder:
    """Instructions of one LLVM function, in order.

    ``pure`` instructions are numbered by value: the same text inside the same or an enclosing block gives the same name.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self._count = 0
        self._scopes: list[dict[str, str]] = [{}]

    def fresh(self, stem: str = "v") -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def pure(self, instruction: str) -> str:
        """The value of an instruction without side effects that reads no memory."""
        for scope in self._scopes:
            known = scope.get(instruction)
            if known is not None:
                return known
        name = self.value(instruction)
        self._scopes[-1][instruction] = name
        return name

    def value(self, instruction: str) -> str:
        """The value of an instruction that is executed here."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def effect(self, instruction: str) -> None:
        self.lines.append(f"  {instruction}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def enter(self) -> None:
        """Opens a region whose values are not available after ``leave``."""
        self._scopes.append({})

    def leave(self) -> None:
        self._scopes.pop()

    def alloca(self, type_: str, alignment: int) -> str:
        """Stack memory, allocated once at the start of the function."""
        name = self.fresh("%stack")
        self.allocas.append(f"  {name} = alloca {type_}, align {alignment}")
        return name

    def function(self, header: str) -> str:
        """The definition of the function whose linkage, type, name, parameters and attributes are ``header``."""
        return "\n".join([f"define {header} {{", "entry:", *self.allocas, *self.lines, "}"])


class Values:
    """Instructions on vectors (or scalars) of one of LLVM's types.

    ``vector`` is the type of vectors even of one lane.
    """

    def __init__(self, builder: IRBuilder, scalar: str, lanes: int) -> None:
        self.builder = builder
        self.lanes = lanes
        self.scalar = scalar
        self.type = vector_of(scalar, lanes)
        self.vector = f"<{lanes} x {scalar}>"

    def text(self, operand: Operand) -> str:
        return text(operand, self.scalar, self.lanes)

    def typed(self, operand: Operand) -> str:
        """``operand`` with its type."""
        return f"{self.type} {self.text(operand)}"

    def op(self, name: str, a: Operand, b: Operand) -> str:
        """An instruction on two operands of this type; of comparisons with the predicate: "icmp slt", "fcmp oeq"."""
        return self.builder.pure(f"{name} {self.type} {self.text(a)}, {self.text(b)}")

    def select(self, condition: Operand, a: Operand, b: Operand) -> Operand:
        if not isinstance(condition, str):
            return a if condition else b
        return self.builder.pure(f"select {vector_of('i1', self.lanes)} {condition}, {self.typed(a)}, {self.typed(b)}")

    def call(self, name: str, *args: Operand, flags: Sequence[str] = ()) -> str:
        """An overloaded LLVM intrinsic whose arguments all have this type, but for ``flags`` after them."""
        return self.native(f"{name}.{suffix(self.scalar, self.lanes)}", *map(self.typed, args), *flags)

    def native(self, name: str, *typed: str) -> str:
        """An LLVM intrinsic that gives this type, on arguments with their types."""
        return self.builder.pure(f"call {self.type} @llvm.{name}({', '.join(typed)})")

    def convert(self, name: str, value: Operand, scalar: str) -> Operand:
        """``value`` as ``scalar``, by instruction ``name``."""
        if scalar == self.scalar:
            return value
        return self.builder.pure(f"{name} {self.typed(value)} to {vector_of(scalar, self.lanes)}")

    def extract(self, value: Operand, lane: int) -> Operand:
        if not isinstance(value, str) or self.lanes == 1:
            return value
        return self.builder.pure(f"extractelement {self.vector} {value}, i64 {lane}")

    def insert(self, vector: str, value: Operand, lane: int) -> str:
        element = scalar_text(value, self.scalar)
        return self.builder.pure(f"insertelement {self.vector} {vector}, {self.scalar} {element}, i64 {lane}")

    def shuffle(self, a: Operand, b: Operand, order: Sequence[int]) -> str:
        """Lanes of ``a`` and then ``b`` by their numbers."""
        numbers = ", ".join(f"i32 {k}" for k in order)
        vectors = f"{self.vector} {self.text(a)}, {self.vector} {self.text(b)}"
        return self.builder.pure(f"shufflevector {vectors}, <{len(order)} x i32> <{numbers}>")

    def splat(self, value: Operand) -> Operand:
        """A scalar in all lanes."""
        if not isinstance(value, str):
            return value
        return self.shuffle(self.insert("poison", value, 0), "poison", [0] * self.lanes)

    def slice(self, value: Operand, start: int, count: int) -> Operand:
        if not isinstance(value, str):
            return value
        return self.extract(value, start) if count == 1 else self.shuffle(value, value, range(start, start + count))
