"""Element-wise functions: arithmetic, comparisons, logic and mathematics, with NumPy's broadcasting.

Numbers take the element type of the tensors; tensors of different element types are refused: convert with `astype`.
"""

from __future__ import annotations

from typing import Any

from forge import dtypes
from forge.errors import OptionError
from forge.nn.functions.arguments import Operand
from forge.nn.tensor import Tensor
from forge.nn.tracing import Context, is_number


def _binary(operator: str, a: Any, b: Any, name: str) -> Tensor:
    g = Context(name)
    return g.tensor(g.call(operator, *g.alike(a, b)))


def _unary(operator: str, x: Tensor, name: str, **attributes: Any) -> Tensor:
    g = Context(name)
    return g.tensor(g.call(operator, g.value(x), **attributes))


def _real(operator: str, x: Tensor, name: str) -> Tensor:
    """A function of floating-point numbers."""
    g = Context(name)
    value = g.value(x)
    if not dtypes.belongs(value.dtype, "float") and not dtypes.is_complex(value.dtype):
        raise OptionError(f"{name}: got {value.dtype}; expected floating-point numbers; convert with astype")
    return g.tensor(g.call(operator, value))


def add(a: Operand, b: Operand, name: str = "add") -> Tensor:
    """``a + b``.

    >>> nn.add([[1], [2]], [10, 20]).numpy().tolist()
    [[11, 21], [12, 22]]
    """
    return _binary("add", a, b, name)


def subtract(a: Operand, b: Operand, name: str = "subtract") -> Tensor:
    """``a - b``.

    >>> nn.subtract([3, 4], 1).numpy().tolist()
    [2, 3]
    """
    return _binary("subtract", a, b, name)


def multiply(a: Operand, b: Operand, name: str = "mul") -> Tensor:
    """``a * b``.

    >>> nn.multiply([[1], [2]], [10, 20]).numpy().tolist()
    [[10, 20], [20, 40]]
    """
    return _binary("multiply", a, b, name)


def floor_divide(a: Operand, b: Operand, name: str = "floor_divide") -> Tensor:
    """``floor(a / b)``.

    >>> nn.floor_divide([7, -7], 2).numpy().tolist()
    [3, -4]
    """
    return _binary("floor_divide", a, b, name)


def remainder(a: Operand, b: Operand, name: str = "remainder") -> Tensor:
    """``a - floor(a / b) * b``, which has the sign of ``b``.

    >>> nn.remainder([7, -7], 3).numpy().tolist()
    [1, 2]
    """
    return _binary("floor_mod", a, b, name)


def power(a: Operand, b: Operand, name: str = "power") -> Tensor:
    """``a ** b``.

    >>> nn.power([1, 2, 3], 2).numpy().tolist()
    [1, 4, 9]
    """
    return _binary("power", a, b, name)


def divide(a: Operand, b: Operand, name: str = "divide") -> Tensor:
    """``a / b``; the quotient of integers is of the default element type.

    >>> nn.divide([1, 2], 2).numpy().tolist()
    [0.5, 1.0]
    """
    from forge.nn.defaults import get_default_dtype

    g = Context(name)
    values = g.alike(a, b)
    if not dtypes.is_float(values[0].dtype) and not dtypes.is_complex(values[0].dtype):
        values = [g.cast(v, get_default_dtype()) for v in values]
    return g.tensor(g.call("divide", *values))


def maximum(x1: Operand, x2: Operand, name: str = "maximum") -> Tensor:
    """The larger element of two; NaN if one is.

    >>> nn.maximum([1, 5], [4, 2]).numpy().tolist()
    [4, 5]
    """
    return _binary("maximum", x1, x2, name)


def minimum(x1: Operand, x2: Operand, name: str = "minimum") -> Tensor:
    """The smaller element of two; NaN if one is.

    >>> nn.minimum([1, 5], 3).numpy().tolist()
    [1, 3]
    """
    return _binary("minimum", x1, x2, name)


def less(a: Operand, b: Operand, name: str = "less") -> Tensor:
    """``a < b``, of type bool.

    >>> nn.less([1, 2, 3], 2).numpy().tolist()
    [True, False, False]
    """
    return _binary("less", a, b, name)


def less_equal(a: Operand, b: Operand, name: str = "less_equal") -> Tensor:
    """``a <= b``, of type bool.

    >>> nn.less_equal([1, 2, 3], 2).numpy().tolist()
    [True, True, False]
    """
    return _binary("less_equal", a, b, name)


def greater(a: Operand, b: Operand, name: str = "greater") -> Tensor:
    """``a > b``, of type bool.

    >>> nn.greater([1, 2, 3], 2).numpy().tolist()
    [False, False, True]
    """
    return _binary("greater", a, b, name)


def greater_equal(a: Operand, b: Operand, name: str = "greater_equal") -> Tensor:
    """``a >= b``, of type bool.

    >>> nn.greater_equal([1, 2, 3], 2).numpy().tolist()
    [False, True, True]
    """
    return _binary("greater_equal", a, b, name)


def equal(a: Operand, b: Operand, name: str = "equal") -> Tensor:
    """``a == b``, of type bool.

    >>> nn.equal([1, 2, 3], [1, 0, 3]).numpy().tolist()
    [True, False, True]
    """
    return _binary("equal", a, b, name)


def not_equal(a: Operand, b: Operand, name: str = "not_equal") -> Tensor:
    """``a != b``, of type bool.

    >>> nn.not_equal([1, 2, 3], [1, 0, 3]).numpy().tolist()
    [False, True, False]
    """
    return _binary("not_equal", a, b, name)


def logical_and(a: Operand, b: Operand, name: str = "logical_and") -> Tensor:
    """Where both are true; of bools.

    >>> nn.logical_and([True, True], [True, False]).numpy().tolist()
    [True, False]
    """
    return _binary("logical_and", a, b, name)


def logical_or(a: Operand, b: Operand, name: str = "logical_or") -> Tensor:
    """Where one is true; of bools.

    >>> nn.logical_or([True, False], [False, False]).numpy().tolist()
    [True, False]
    """
    return _binary("logical_or", a, b, name)


def logical_xor(a: Operand, b: Operand, name: str = "logical_xor") -> Tensor:
    """Where one of two is true; of bools.

    >>> nn.logical_xor([True, True], [True, False]).numpy().tolist()
    [False, True]
    """
    return _binary("logical_xor", a, b, name)


def logical_not(x: Tensor, name: str = "logical_not") -> Tensor:
    """Where it is false; of bools.

    >>> nn.logical_not([True, False]).numpy().tolist()
    [False, True]
    """
    return _unary("logical_not", x, name)


def negative(x: Tensor, name: str = "neg") -> Tensor:
    """``-x``.

    >>> nn.negative([1, -2]).numpy().tolist()
    [-1, 2]
    """
    return _unary("negative", x, name)


def abs(x: Tensor, name: str = "abs") -> Tensor:  # noqa: A001 - NumPy's name
    """``|x|``.

    >>> nn.abs([1, -2]).numpy().tolist()
    [1, 2]
    """
    return _unary("abs", x, name)


def sign(x: Tensor, name: str = "sign") -> Tensor:
    """-1, 0 or 1.

    >>> nn.sign([-3.0, 0.0, 5.0]).numpy().tolist()
    [-1.0, 0.0, 1.0]
    """
    return _unary("sign", x, name)


def floor(x: Tensor, name: str = "floor") -> Tensor:
    """The largest integer that is not above.

    >>> nn.floor([-1.5, 1.5]).numpy().tolist()
    [-2.0, 1.0]
    """
    return _unary("floor", x, name)


def ceil(x: Tensor, name: str = "ceil") -> Tensor:
    """The smallest integer that is not below.

    >>> nn.ceil([-1.5, 1.5]).numpy().tolist()
    [-1.0, 2.0]
    """
    return _unary("ceil", x, name)


def trunc(x: Tensor, name: str = "trunc") -> Tensor:
    """The integer next to it towards 0.

    >>> nn.trunc([-1.5, 1.5]).numpy().tolist()
    [-1.0, 1.0]
    """
    return _unary("trunc", x, name)


def round(x: Tensor, name: str = "round") -> Tensor:  # noqa: A001 - NumPy's name
    """The nearest integer, the even one of two.

    >>> nn.round([0.5, 1.5, 2.5]).numpy().tolist()
    [0.0, 2.0, 2.0]
    """
    return _unary("round", x, name)


def isnan(x: Tensor, name: str = "isnan") -> Tensor:
    """Where it is not a number.

    >>> nn.isnan([1.0, float('nan')]).numpy().tolist()
    [False, True]
    """
    return _unary("isnan", x, name)


def isfinite(x: Tensor, name: str = "isfinite") -> Tensor:
    """Where it is neither infinite nor NaN.

    >>> nn.isfinite([1.0, float('inf'), float('nan')]).numpy().tolist()
    [True, False, False]
    """
    return _unary("isfinite", x, name)


def isinf(x: Tensor, name: str = "isinf") -> Tensor:
    """Where it is infinite.

    >>> nn.isinf([1.0, float('inf')]).numpy().tolist()
    [False, True]
    """
    return _unary("isinf", x, name)


def exp(x: Tensor, name: str = "exp") -> Tensor:
    """``e ** x``.

    >>> nn.exp([0.0, 1.0]).numpy().round(4).tolist()
    [1.0, 2.7183]
    """
    return _real("exp", x, name)


def exp2(x: Tensor, name: str = "exp2") -> Tensor:
    """``2 ** x``.

    >>> nn.exp2([0.0, 3.0]).numpy().tolist()
    [1.0, 8.0]
    """
    return _real("exp2", x, name)


def expm1(x: Tensor, name: str = "expm1") -> Tensor:
    """``e ** x - 1``, precise near 0.

    >>> nn.expm1([0.0, 1.0]).numpy().round(4).tolist()
    [0.0, 1.7183]
    """
    return _real("expm1", x, name)


def log(x: Tensor, name: str = "log") -> Tensor:
    """The natural logarithm.

    >>> nn.log([1.0, 10.0]).numpy().round(4).tolist()
    [0.0, 2.3026]
    """
    return _real("log", x, name)


def log2(x: Tensor, name: str = "log2") -> Tensor:
    """The logarithm to the base 2.

    >>> nn.log2([1.0, 8.0]).numpy().tolist()
    [0.0, 3.0]
    """
    return _real("log2", x, name)


def log1p(x: Tensor, name: str = "log1p") -> Tensor:
    """``log(1 + x)``, precise near 0.

    >>> nn.log1p([0.0, 1.0]).numpy().round(4).tolist()
    [0.0, 0.6931]
    """
    return _real("log1p", x, name)


def sqrt(x: Tensor, name: str = "sqrt") -> Tensor:
    """The square root.

    >>> nn.sqrt([4.0, 9.0]).numpy().tolist()
    [2.0, 3.0]
    """
    return _real("sqrt", x, name)


def rsqrt(x: Tensor, name: str = "rsqrt") -> Tensor:
    """``1 / sqrt(x)``.

    >>> nn.rsqrt([4.0, 16.0]).numpy().tolist()
    [0.5, 0.25]
    """
    return _real("rsqrt", x, name)


def reciprocal(x: Tensor, name: str = "reciprocal") -> Tensor:
    """``1 / x``.

    >>> nn.reciprocal([2.0, 4.0]).numpy().tolist()
    [0.5, 0.25]
    """
    return _real("reciprocal", x, name)


def sin(x: Tensor, name: str = "sin") -> Tensor:
    """The sine.

    >>> nn.sin([0.0, 1.0]).numpy().round(4).tolist()
    [0.0, 0.8415]
    """
    return _real("sin", x, name)


def cos(x: Tensor, name: str = "cos") -> Tensor:
    """The cosine.

    >>> nn.cos([0.0, 1.0]).numpy().round(4).tolist()
    [1.0, 0.5403]
    """
    return _real("cos", x, name)


def tan(x: Tensor, name: str = "tan") -> Tensor:
    """The tangent.

    >>> nn.tan([0.0, 1.0]).numpy().round(4).tolist()
    [0.0, 1.5574]
    """
    return _real("tan", x, name)


def asin(x: Tensor, name: str = "asin") -> Tensor:
    """The angle between -pi / 2 and pi / 2 whose sine it is.

    >>> nn.asin([0.0, 1.0]).numpy().round(4).tolist()
    [0.0, 1.5708]
    """
    return _real("asin", x, name)


def acos(x: Tensor, name: str = "acos") -> Tensor:
    """The angle between 0 and pi whose cosine it is.

    >>> nn.acos([0.0, 1.0]).numpy().round(4).tolist()
    [1.5708, 0.0]
    """
    return _real("acos", x, name)


def atan(x: Tensor, name: str = "atan") -> Tensor:
    """The angle between -pi / 2 and pi / 2 whose tangent it is.

    >>> nn.atan([0.0, 1.0]).numpy().round(4).tolist()
    [0.0, 0.7854]
    """
    return _real("atan", x, name)


def atan2(y: Operand, x: Operand, name: str = "atan2") -> Tensor:
    """The angle between -pi and pi of the point ``(x, y)``.

    >>> nn.atan2([1.0, -1.0], [0.0, -1.0]).numpy().round(4).tolist()
    [1.5708, -2.3562]
    """
    return _binary("atan2", y, x, name)


def sinh(x: Tensor, name: str = "sinh") -> Tensor:
    """The hyperbolic sine.

    >>> nn.sinh([0.0, 1.0]).numpy().round(4).tolist()
    [0.0, 1.1752]
    """
    return _real("sinh", x, name)


def cosh(x: Tensor, name: str = "cosh") -> Tensor:
    """The hyperbolic cosine.

    >>> nn.cosh([0.0, 1.0]).numpy().round(4).tolist()
    [1.0, 1.5431]
    """
    return _real("cosh", x, name)


def erf(x: Tensor, name: str = "erf") -> Tensor:
    """The error function.

    >>> nn.erf([0.0, 1.0]).numpy().round(4).tolist()
    [0.0, 0.8427]
    """
    return _real("erf", x, name)


def tanh(x: Tensor, name: str = "tanh") -> Tensor:
    """The hyperbolic tangent.

    >>> nn.tanh([0.0, 1.0]).numpy().round(4).tolist()
    [0.0, 0.7616]
    """
    return _real("tanh", x, name)


def square(x: Tensor, name: str = "square") -> Tensor:
    """``x * x``.

    >>> nn.square([1, -3]).numpy().tolist()
    [1, 9]
    """
    g = Context(name)
    value = g.value(x)
    return g.tensor(g.call("multiply", value, value))


def clip(x: Tensor, min: Any = None, max: Any = None, name: str = "clip") -> Tensor:  # noqa: A002 - NumPy's names
    """``x`` moved between ``min`` and ``max``, numbers or tensors; None: there is no bound.

    >>> nn.clip([-2, 1, 9], 0, 5).numpy().tolist()
    [0, 1, 5]
    """
    g = Context(name)
    value = g.value(x)
    for operator, bound in (("maximum", min), ("minimum", max)):
        if bound is not None:
            value = g.call(operator, *g.alike(value, bound))
    return g.tensor(value)


def astype(x: Tensor, dtype: str, name: str = "astype") -> Tensor:
    """The elements converted to ``dtype``. Floats are truncated to integers, saturating; NaN becomes 0.

    Raises:
        OptionError: there is no such element type.

    >>> nn.astype([1.9, -1.9, 300.0], 'int8').numpy().tolist()
    [1, -1, 127]
    """
    g = Context(name)
    return g.tensor(g.cast(g.value(x), g.dtype(dtype)))


def where(condition: Tensor, x1: Operand, x2: Operand, name: str = "where") -> Tensor:
    """Elements of ``x1`` where ``condition`` is true, else of ``x2``; all broadcast.

    >>> nn.where([True, False], [1, 2], 0).numpy().tolist()
    [1, 0]
    """
    g = Context(name)
    chosen = g.value(condition)
    if chosen.dtype != "bool":
        chosen = g.call("not_equal", chosen, g.scalar(0, chosen))
    return g.tensor(g.call("where", chosen, *g.alike(x1, x2)))


def masked_fill(x: Tensor, mask: Tensor, value: float, name: str = "masked_fill") -> Tensor:
    """``value`` where ``mask`` is true, else ``x``.

    >>> nn.masked_fill([1, 2], [True, False], 9).numpy().tolist()
    [9, 2]
    """
    if not is_number(value):
        raise OptionError(f"{name}: value: got {type(value).__name__}; expected a number; use where for tensors")
    return where(mask, value, x, name)
