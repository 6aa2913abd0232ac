"""Scalar and vector expressions of the loop IR.

Grammar (every expression has an element ``dtype`` and a number of ``lanes``; lanes == 1 is a scalar)::

    expr = Const(value)                       a literal; with lanes > 1 all lanes are equal
         | Var(name)                          a scalar bound by a loop, a Let, a parameter or a symbol
         | Binary(op, a, b)                   add sub mul div truncdiv truncmod floordiv floormod min max and or xor shl shr
         | Compare(op, a, b)                  eq ne lt le gt ge  -> bool
         | Select(condition, a, b)            both sides are evaluated
         | Cast(x)                            numeric conversion; float -> int saturates, NaN -> 0
         | Call(name, args)                   an intrinsic of ``INTRINSICS``
         | Load(buffer, index, mask)          see below
         | Ramp(base, stride, lanes)          base, base + stride, ... (integers)
         | Broadcast(x, lanes)
         | Read(tensor, indices)              tensor expressions only: an element of a tensor expression
         | Reduce(kind, x, axes)              tensor expressions only: a reduction over ``axes``, at the top of a compute body

``Load``: a scalar index reads one element of the buffer (a vector when the buffer's elements are vectors); a ``Ramp`` of
stride 1 is a contiguous vector load; any other vector index is a gather. A false mask lane reads nothing and yields 0.

Corner cases are defined, and equal in the interpreter and in compiled code: integer division and modulo by zero give 0,
``INT_MIN / -1`` gives INT_MIN, a shift by at least the width gives 0 (``shr`` of a signed value: the sign), ``min`` and
``max`` propagate NaN, integer arithmetic wraps.
Index arithmetic is int64 throughout.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from forge import dtypes

INDEX = "int64"

COMPARE_OPS: dict[str, Callable[[Any, Any], Any]] = {
    op: getattr(operator, op) for op in ("eq", "ne", "lt", "le", "gt", "ge")
}
"""What comparisons mean, of numbers and arrays."""

INTRINSICS: dict[str, int] = {
    # name: number of arguments, -1 for any. Element-wise on vectors; the dtype of the result is that of the first argument
    "fma": 3, "abs": 1, "floor": 1, "ceil": 1, "trunc": 1, "round": 1,  # round: half to even
    "sqrt": 1, "rsqrt": 1, "exp": 1, "exp2": 1, "expm1": 1, "log": 1, "log2": 1, "log10": 1, "log1p": 1,
    "sin": 1, "cos": 1, "tan": 1, "asin": 1, "acos": 1, "atan": 1, "sinh": 1, "cosh": 1, "tanh": 1,
    "asinh": 1, "acosh": 1, "atanh": 1, "erf": 1, "pow": 2, "fmod": 2, "atan2": 2,
    "sigmoid": 1, "silu": 1, "gelu": 1, "gelu_tanh": 1, "mish": 1, "softplus": 1,
    "isnan": 1, "isinf": 1,  # -> bool
    "popcount": 1, "clz": 1,
    # horizontal reductions: vector -> scalar
    "reduce_add": 1, "reduce_mul": 1, "reduce_max": 1, "reduce_min": 1, "reduce_and": 1, "reduce_or": 1,
    "reinterpret": 1,  # bits of the first argument as the dtype given to Call; with ``lanes`` as that many elements
    "unrounded": 1,  # a float32 that stands for the narrower dtype given to Call: it is rounded where it is stored,
    # subnormal numbers perhaps to 0
    "dot_u8s8": 3,  # (int32 x L accumulator, uint8 x 4L, int8 x 4L) -> int32 x L, exact
    "dot_u7s8": 3,  # the same of unsigned numbers below 128
    "dot_s16": 3,  # (int32 x L accumulator, int16 x 2L, int16 x 2L) -> int32 x L, exact but where sums do not fit
    "dot_bf16": 3,  # (float32 x L accumulator, uint32 x L, uint32 x L: pairs of bfloat16) -> float32 x L; may flush subnormals
    "lane": 2,  # (vector, constant lane number) -> scalar
    "shuffle": -1,  # (vector a, vector b, lane numbers as constants ...) -> vector of as many lanes
    "real": 1, "imag": 1, "complex": 2,  # see ``real_part``, ``imaginary_part``, ``complex_of``
    "sign": 1,  # of complex numbers: z / abs(z)
    # what code generation makes of exp, pow and their kin: x * 2**n; the rounding errors of a * b and, c near a * b, of c - a * b
    "scale": 2, "product_error": 2, "residual": 3, "near_reciprocal": 1,  # 1 / x to 14 bits
}

DOTS = frozenset({"dot_u8s8", "dot_u7s8", "dot_s16"})
"""What adds products of several neighbouring lanes to each lane of its first argument."""

BOOL_INTRINSICS = frozenset({"isnan", "isinf"})

BFLOAT16_INTRINSICS = frozenset({"sigmoid", "silu", "gelu", "gelu_tanh", "mish", "softplus", "tanh", "erf"})
"""What has a shorter form for bfloat16, of results to be rounded to it; other narrow floats are computed as float32."""


def _operator(op: str, reflected: bool = False) -> Callable[[Expr, ExprLike], Expr]:
    """A Python operator that builds a simplified expression."""
    if op in COMPARE_OPS:
        return lambda self, other: compare(op, self, other)
    if reflected:
        return lambda self, other: binary(op, other, self)
    return lambda self, other: binary(op, self, other)


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """Base class; carries Python operators that build simplified expressions."""

    dtype: str
    lanes: int

    __add__ = _operator("add")
    __radd__ = _operator("add", reflected=True)
    __sub__ = _operator("sub")
    __rsub__ = _operator("sub", reflected=True)
    __mul__ = _operator("mul")
    __rmul__ = _operator("mul", reflected=True)
    __truediv__ = _operator("div")
    __rtruediv__ = _operator("div", reflected=True)
    __floordiv__ = _operator("floordiv")
    __mod__ = _operator("floormod")
    __and__ = _operator("and")
    __or__ = _operator("or")
    __lt__ = _operator("lt")
    __le__ = _operator("le")
    __gt__ = _operator("gt")
    __ge__ = _operator("ge")
    eq = _operator("eq")
    ne = _operator("ne")

    def __neg__(self) -> Expr:
        return negate(self)

    def astype(self, dtype: str) -> Expr:
        return cast(self, dtype)


ExprLike = Expr | int | float | bool


@dataclass(frozen=True, slots=True, eq=False)
class Const(Expr):
    value: int | float | bool | complex


@dataclass(frozen=True, slots=True, eq=False)
class Var(Expr):
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Expr):
    op: str
    a: Expr
    b: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Compare(Expr):
    op: str
    a: Expr
    b: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Select(Expr):
    condition: Expr
    a: Expr
    b: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Expr):
    x: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expr):
    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Ramp(Expr):
    base: Expr
    stride: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Broadcast(Expr):
    x: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """Memory that loads and stores address by a flat element index.

    ``shape`` (scalar int64 expressions) documents the row-major extents; ``scope`` is "global" (a pointer parameter, aligned to
    ``alignment`` bytes), or "local" (on the stack, constant size; indices that are constant after unrolling live in registers).
    ``lanes`` > 1 makes every element a vector (accumulators). ``writable`` False promises no store to it in this function,
    ``whole`` that every element is one of the numbers 0 to 255.
    """

    name: str
    dtype: str
    shape: tuple[Expr, ...]
    scope: str = "global"
    lanes: int = 1
    alignment: int = 0  # bytes; 0 = the element's own
    writable: bool = True
    whole: bool = False

    def offset(self, *indices: ExprLike) -> Expr:
        """Row-major flat index of ``indices`` (one per dimension)."""
        if len(indices) != len(self.shape):
            raise ValueError(f"{self.name}: {len(indices)} indices for {len(self.shape)} dimensions")
        flat: Expr = const(0)
        for index, extent in zip(indices, self.shape):
            flat = flat * extent + index
        return flat

    def load(self, *indices: ExprLike) -> Expr:
        return load(self, self.offset(*indices))


@dataclass(frozen=True, slots=True, eq=False)
class Load(Expr):
    buffer: Buffer
    index: Expr
    mask: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor expression (``tir.tensor``); ``axes`` and ``body`` are None for a placeholder."""

    name: str
    shape: tuple[Expr, ...]
    dtype: str
    axes: tuple[Var, ...] | None = None
    body: Expr | None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, indices: ExprLike | Sequence[ExprLike]) -> Expr:
        items: Sequence[ExprLike] = (indices,) if isinstance(indices, Expr | int | float) else indices
        if len(items) != self.ndim:
            raise ValueError(f"tensor {self.name}: got {len(items)} indices; expected {self.ndim}")
        exprs = tuple(as_expr(i) for i in items)
        return Read(self.dtype, max((e.lanes for e in exprs), default=1), self, exprs)


@dataclass(frozen=True, slots=True, eq=False)
class Read(Expr):
    tensor: Tensor
    indices: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """A reduction axis: ``var`` runs over ``range(extent)``."""

    var: Var
    extent: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Reduce(Expr):
    kind: str  # sum prod max min and or
    x: Expr
    axes: tuple[Axis, ...]


def const(value: int | float | bool | complex, dtype: str = INDEX, lanes: int = 1) -> Const:
    """``value`` as ``dtype`` holds it: floats are rounded, integers wrap; of strings there is the empty one."""
    if dtypes.is_float(dtype):
        value = _rounded(float(value), dtype)  # type: ignore[arg-type]
    elif dtype == "bool":
        value = bool(value)
    elif dtype == "string":
        value = 0
    elif dtypes.is_complex(dtype):
        value = complex(value)
        value = complex(_rounded(value.real, dtypes.part(dtype)), _rounded(value.imag, dtypes.part(dtype)))
    else:
        value = dtypes.wrap_int(int(value), dtype)  # type: ignore[arg-type]
    return Const(dtype, lanes, value)


def _rounded(value: float, dtype: str) -> float:
    if dtype == "float64" or value != value:
        return value
    with np.errstate(over="ignore"):
        return float(dtypes.numpy_dtype(dtype).type(value))


def var(name: str, dtype: str = INDEX) -> Var:
    return Var(dtype, 1, name)


def as_expr(value: ExprLike, dtype: str = INDEX) -> Expr:
    return value if isinstance(value, Expr) else const(value, dtype)


def broadcast(x: Expr, lanes: int) -> Expr:
    if x.lanes == lanes:
        return x
    if x.lanes != 1:
        raise ValueError(f"cannot broadcast {x.lanes} lanes to {lanes}")
    if isinstance(x, Const):
        return Const(x.dtype, lanes, x.value)
    return Broadcast(x.dtype, lanes, x)


def ramp(base: ExprLike, stride: ExprLike, lanes: int) -> Expr:
    base, stride = as_expr(base), as_expr(stride)
    if base.lanes != 1 or stride.lanes != 1:
        raise ValueError(f"ramp: got a base of {base.lanes} and a stride of {stride.lanes} lanes; expected scalars")
    if lanes == 1:
        return base
    if is_const(stride, 0):
        return broadcast(base, lanes)
    return Ramp(base.dtype, lanes, base, stride)


def is_const(x: Expr, value: object = None) -> bool:
    return isinstance(x, Const) and (value is None or x.value == value)


def unify(a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    """Both sides as expressions of one dtype and one number of lanes; Python numbers take the dtype of the other side."""
    if not isinstance(a, Expr):
        a = const(a, b.dtype if isinstance(b, Expr) else INDEX)
    if not isinstance(b, Expr):
        b = const(b, a.dtype)
    if a.dtype != b.dtype:
        raise TypeError(f"operands of different dtypes: {a.dtype} and {b.dtype}")
    lanes = max(a.lanes, b.lanes)
    return broadcast(a, lanes), broadcast(b, lanes)


INTEGER_FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": lambda a, b: a // b if b else 0,
    "floormod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
    "and": operator.and_,
}
"""What arithmetic on integer constants means, before it wraps."""

_NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "floordiv": 1}
"""Right operands that change nothing; left ones, too, where the operands can change places."""


def binary(op: str, a: ExprLike, b: ExprLike) -> Expr:
    x, y = unify(a, b)
    folded = _simplify_integer(op, x, y) if dtypes.is_integer(x.dtype) else None
    return folded if folded is not None else Binary(x.dtype, x.lanes, op, x, y)


def _simplify_integer(op: str, x: Expr, y: Expr) -> Expr | None:
    if isinstance(x, Const) and isinstance(y, Const) and op in INTEGER_FOLDS:
        return const(INTEGER_FOLDS[op](x.value, y.value), x.dtype, x.lanes)
    if op in _NEUTRAL and is_const(y, _NEUTRAL[op]):
        return x
    if op in ("add", "mul") and is_const(x, _NEUTRAL[op]):
        return y
    if op == "mul" and (is_const(x, 0) or is_const(y, 0)) or op == "floormod" and is_const(y, 1):
        return const(0, x.dtype, x.lanes)
    if op == "add":
        if isinstance(y, Const) and isinstance(x, Binary) and x.op == "add" and isinstance(x.b, Const):
            return binary("add", x.a, const(x.b.value + y.value, x.dtype, x.lanes))
        if isinstance(x, Const):
            return binary("add", y, x)
    return _affine_arithmetic(op, x, y) if op in ("add", "sub", "mul") and x.lanes > 1 else None


def _affine_arithmetic(op: str, x: Expr, y: Expr) -> Expr | None:
    """Keeps affine vector indices in ``Ramp`` form, so that loads see their stride."""
    a, b = _affine(x), _affine(y)
    if a is None or b is None:
        return None
    if op != "mul":
        return ramp(binary(op, a[0], b[0]), binary(op, a[1], b[1]), x.lanes)
    if isinstance(y, Ramp):
        if isinstance(x, Ramp):
            return None
        a, b = b, a
    return ramp(a[0] * b[0], a[1] * b[0], x.lanes)


def _affine(x: Expr) -> tuple[Expr, Expr] | None:
    """Base and stride of a vector whose lanes are evenly spaced."""
    match x:
        case Ramp(base=base, stride=stride):
            return base, stride
        case Broadcast(x=base):
            return base, const(0, x.dtype)
        case Const(value=value):
            return Const(x.dtype, 1, value), const(0, x.dtype)
    return None


def compare(op: str, a: ExprLike, b: ExprLike) -> Expr:
    x, y = unify(a, b)
    if isinstance(x, Const) and isinstance(y, Const):
        return const(COMPARE_OPS[op](x.value, y.value), "bool", x.lanes)
    return Compare("bool", x.lanes, op, x, y)


def select(condition: Expr, a: ExprLike, b: ExprLike) -> Expr:
    x, y = unify(a, b)
    if isinstance(condition, Const):
        chosen = x if condition.value else y
        return broadcast(chosen, max(chosen.lanes, condition.lanes))
    lanes = max(condition.lanes, x.lanes)
    return Select(x.dtype, lanes, broadcast(condition, lanes), broadcast(x, lanes), broadcast(y, lanes))


def logical_and(a: Expr, b: Expr) -> Expr:
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Const) and x.lanes <= y.lanes:
            return y if x.value else const(False, "bool", y.lanes)
    x, y = unify(a, b)
    return Binary("bool", x.lanes, "and", x, y)


def logical_not(a: Expr) -> Expr:
    return compare("eq", a, const(False, "bool", a.lanes))


def cast(x: Expr, dtype: str) -> Expr:
    if x.dtype == dtype:
        return x
    return Cast(dtype, x.lanes, x)


def negate(x: Expr) -> Expr:
    """-x; keeps the sign of zero for floats."""
    if isinstance(x, Const):
        return const(-x.value, x.dtype, x.lanes)
    if dtypes.is_complex(x.dtype):
        return complex_of(negate(real_part(x)), negate(imaginary_part(x)))
    if dtypes.is_float(x.dtype):
        return binary("mul", x, const(-1.0, x.dtype, x.lanes))
    return binary("sub", const(0, x.dtype, x.lanes), x)


def call(name: str, *args: ExprLike, dtype: str | None = None, lanes: int | None = None) -> Expr:
    """An intrinsic; Python numbers among ``args`` take the dtype of the first expression.

    Raises:
        ValueError: no intrinsic of that name takes this many arguments, or none of them is an expression.
    """
    count = INTRINSICS.get(name)
    first = next((a for a in args if isinstance(a, Expr)), None)
    if first is None or count is None or count not in (-1, len(args)):
        raise ValueError(f"intrinsic {name!r}: got {len(args)} arguments; expected one of INTRINSICS, with an expression")
    exprs = [as_expr(a, first.dtype) for a in args]
    if lanes is None and _is_horizontal(name):
        lanes = exprs[0].lanes if name in DOTS else 1
    if lanes is None:
        lanes = max(e.lanes for e in exprs)
        exprs = [broadcast(e, lanes) for e in exprs]
    out = dtype or ("bool" if name in BOOL_INTRINSICS else exprs[0].dtype)
    return Call(out, lanes, name, tuple(exprs))


def _is_horizontal(name: str) -> bool:
    """Whether the arguments of an intrinsic need not have the lanes of its result."""
    return name in ("shuffle", "lane", *DOTS) or name.startswith("reduce_")


def real_part(x: Expr) -> Expr:
    """The real part of a complex expression."""
    return call("real", x, dtype=dtypes.part(x.dtype))


def imaginary_part(x: Expr) -> Expr:
    """The imaginary part of a complex expression."""
    return call("imag", x, dtype=dtypes.part(x.dtype))


def complex_of(real: Expr, imaginary: Expr) -> Expr:
    """real + imaginary * i, of float32 or float64 parts."""
    return call("complex", real, imaginary, dtype=dtypes.complex_of(real.dtype))


def load(buffer: Buffer, index: ExprLike, mask: Expr | None = None) -> Expr:
    index = as_expr(index)
    if isinstance(index, Broadcast) and mask is None:
        return broadcast(load(buffer, index.x), index.lanes)
    if isinstance(index, Const) and index.lanes > 1 and mask is None:
        return broadcast(load(buffer, Const(index.dtype, 1, index.value)), index.lanes)
    if isinstance(mask, Const) and mask.value:
        mask = None
    return Load(buffer.dtype, buffer.lanes * index.lanes, buffer, index, mask)


_CHILDREN: dict[type[Expr], Callable[[Any], tuple[Expr, ...]]] = {
    Binary: attrgetter("a", "b"),
    Compare: attrgetter("a", "b"),
    Select: attrgetter("condition", "a", "b"),
    Ramp: attrgetter("base", "stride"),
    Call: attrgetter("args"),
    Read: attrgetter("indices"),
    **dict.fromkeys((Cast, Broadcast, Reduce), lambda x: (x.x,)),
    Load: lambda x: (x.index,) if x.mask is None else (x.index, x.mask),
}


def children(x: Expr) -> tuple[Expr, ...]:
    """Direct sub-expressions, in evaluation order."""
    parts = _CHILDREN.get(type(x))
    return () if parts is None else parts(x)


def rebuild(x: Expr, parts: Sequence[Expr]) -> Expr:
    """``x`` with its children replaced, simplified again; lanes follow the children."""
    match x:
        case Binary(op=op):
            if x.dtype == "bool" and op == "and":
                return logical_and(parts[0], parts[1])
            return binary(op, parts[0], parts[1])
        case Compare(op=op):
            return compare(op, parts[0], parts[1])
        case Select():
            return select(parts[0], parts[1], parts[2])
        case Cast():
            return cast(parts[0], x.dtype)
        case Broadcast():
            return broadcast(parts[0], x.lanes)
        case Call(name=name):
            fixed = _is_horizontal(name) or name == "reinterpret" and x.args[0].lanes != x.lanes
            return call(name, *parts, dtype=x.dtype, lanes=x.lanes if fixed else None)
        case Read(tensor=tensor):
            return Read(x.dtype, max(p.lanes for p in parts) if parts else 1, tensor, tuple(parts))
        case Reduce(kind=kind, axes=axes):
            return Reduce(x.dtype, parts[0].lanes, kind, parts[0], axes)
        case Ramp():
            return ramp(parts[0], parts[1], x.lanes)
        case Load(buffer=buffer):
            return load(buffer, parts[0], parts[1] if len(parts) > 1 else None)
    return x
