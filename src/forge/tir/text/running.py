"""Runs programs and expressions on NumPy arrays: what they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from forge import dtypes
from forge.errors import OptionError
from forge.tir import evaluate, interpret
from forge.tir import expr as E
from forge.tir import tensor as te
from forge.tir.expr import Buffer, Expr, Tensor, Var
from forge.tir.stmt import Function
from forge.tir.text.bounds import MAX_SIZE
from forge.tir.text.expressions import Expression
from forge.tir.text.lower import lower, place
from forge.tir.text.programs import Program

Array = np.ndarray[Any, Any]


def run_on(program: Program, arguments: Sequence[Any]) -> None:
    """Runs ``program`` on one argument for each parameter, in their order.

    Raises:
        OptionError: an argument does not fit its parameter.
    """
    where = f"program {program.name!r}"
    if len(arguments) != len(program.order):
        raise OptionError(f"{where}: got {len(arguments)} arguments; expected {len(program.order)}")
    numbers = {p: _number(where, p, x) for p, x in zip(program.order, arguments) if isinstance(p, Var)}
    arrays = [_array(where, p, x) for p, x in zip(program.order, arguments) if isinstance(p, Tensor)]
    sizes = sizes_of(where, program, [a.shape for a in arrays], numbers)
    for parameter, array, is_written in zip(program.parameters, arrays, program.written):
        if is_written and not (array.flags.c_contiguous and array.flags.writeable):
            expected = "expected a contiguous one that may be written"
            raise OptionError(f"{where}: {parameter.name}: got an array that cannot be changed in place; {expected}")
    run(program, arrays, sizes)


def run(program: Program, arrays: Sequence[Array], sizes: Mapping[Var, Expr], fresh: Sequence[Tensor] = ()) -> None:
    """Runs ``program`` on arrays, those that it writes contiguous; for the rest as ``lower``."""
    buffers = [Buffer(p.name, p.dtype, tuple(map(E.const, a.shape))) for p, a in zip(program.parameters, arrays)]
    body = lower(program, dict(zip(program.parameters, map(place, buffers))), sizes, fresh)
    function = Function(program.name, tuple(buffers), (), body)
    interpret.run(function, [np.ascontiguousarray(a).reshape(a.shape) for a in arrays])


def evaluated(expression: Expression, arrays: Sequence[Array], numbers: Mapping[Var, int]) -> list[Array]:
    """The results of ``expression`` for arrays."""
    sizes = sizes_of(f"expression {expression.name!r}", expression, [a.shape for a in arrays], numbers)
    operands = [te.placeholder(a.shape, p.dtype, p.name) for a, p in zip(arrays, expression.parameters)]
    placed, inputs = expression.over(operands, sizes), dict(zip(operands, arrays))
    return [evaluate.evaluate(placed[t], inputs) for t in expression.results]


def sizes_of(
    where: str, kernel: Program | Expression, shapes: Sequence[Sequence[int]], numbers: Mapping[Var, int]
) -> dict[Var, Expr]:
    """What sizes and numbers are for operands of these shapes.

    Raises:
        OptionError: a shape does not fit, or a size is too large.
    """
    found: dict[Var, int] = dict(numbers)
    for parameter, shape in zip(kernel.parameters, shapes):
        for extent, size in zip(parameter.shape, shape):
            if isinstance(extent, Var):
                found.setdefault(extent, size)
    values: dict[Var, Expr] = {v: E.const(n) for v, n in found.items()}
    for variable, number in found.items():
        if abs(number) > MAX_SIZE:
            raise OptionError(f"{where}: {variable.name}: got {number}; expected at most {MAX_SIZE}")
    symbols = {v.name: n for v, n in found.items()}
    for parameter, shape in zip(kernel.parameters, shapes):
        wanted = tuple(evaluate.size(e, symbols) for e in parameter.shape)
        if wanted != tuple(shape):
            raise OptionError(f"{where}: {parameter.name}: got the shape {tuple(shape)}; expected {wanted}")
    return values


def _array(where: str, parameter: Tensor, x: Any) -> Array:
    array = np.asarray(x)
    if array.dtype != dtypes.numpy_dtype(parameter.dtype):
        raise OptionError(f"{where}: {parameter.name}: got {array.dtype}; expected {parameter.dtype}")
    return array


def _number(where: str, parameter: Var, x: Any) -> int:
    if not isinstance(x, int | np.integer) or isinstance(x, bool):
        raise OptionError(f"{where}: {parameter.name}: got {x!r}; expected an integer")
    return int(x)
