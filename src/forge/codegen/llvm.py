"""LLVM's textual types and constants, and a builder of instruction lists.

An *operand* is a Python number (a constant, equal in all lanes) or the name of an SSA value (``"%v7"``).
"""

from __future__ import annotations

import math
import struct
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


@cache
def suffix(dtype: str, lanes: int) -> str:
    """The overload suffix of an LLVM intrinsic on values of this type."""
    scalar = scalar_type(dtype)
    name = {"float": "f32", "double": "f64"}.get(scalar, scalar)
    return name if lanes == 1 else f"v{lanes}{name}"


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


class Builder:
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

    def body(self) -> str:
        return "\n".join(["entry:", *self.allocas, *self.lines])
