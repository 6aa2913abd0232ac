"""Own kernels in models: tensor expressions, and loop programs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from forge import dims, te
from forge.dims import Dim, DimExpr
from forge.errors import OptionError
from forge.ir.nodes import Value
from forge.nn.tensor import Tensor
from forge.nn.tracing import Context
from forge.ops.programs.expression import apply_expression
from forge.ops.programs.program import apply_program
from forge.tir.expr import Expr, Var, var
from forge.tir.text import Expression, Program, read_program

OutType = Tensor | Sequence["OutType"]


def tensor_expr_op(
    tensor_expr_func: Callable[..., Any] | Expression, name_hint: str, args: Sequence[Any], *,
    attrs: dict[str, Any] | None = None,
) -> Any:
    """What a function of ``forge.te`` tensors computes.

    Args:
        tensor_expr_func: is called with a ``te.Tensor`` for each tensor among ``args``, with an expression for each symbolic
            size, and with integers as they are; it returns a tensor that ``te.compute`` made, or a sequence of them. Or a
            ``te.Expression``, with a tensor for each of its parameters.
        name_hint: names the results.
        args: tensors, sizes and integers.
        attrs: kept for those who write for TVM; they have no meaning here.

    Returns:
        A tensor, or a tuple of tensors where the function returned a sequence.

    Raises:
        OptionError: an argument is none of these, or the function returned something else.
        TypeInferenceError: the tensors do not fit.
        ParseError: the expression reads out of bounds wherever it is computed.

    >>> from forge import nn, te
    >>> x = nn.Tensor.from_const([[1.0, 2.0], [3.0, 4.0]])
    >>> def transposed(a):
    ...     return te.compute((a.shape[1], a.shape[0]), lambda i, j: a[j, i] * 2.0)
    >>> nn.tensor_expr_op(transposed, "transposed", [x]).numpy().tolist()
    [[2.0, 6.0], [4.0, 8.0]]
    """
    g = Context(name_hint)
    values = [None if _is_size(x) else _value(g, x, f"tensor_expr_op {name_hint!r}") for x in args]
    operands = [v for v in values if v is not None]
    if isinstance(tensor_expr_func, Expression):
        sizes = [x for x in args if _is_size(x)]
        results = g.tensors(apply_expression(g, tensor_expr_func, operands, sizes=sizes))
        return results[0] if len(results) == 1 else results
    names, known = _parameter_names(tensor_expr_func, len(args)), dict[str, Var]()
    given: list[Any] = list(args)
    for k, (name, x, value) in enumerate(zip(names, args, values)):
        if value is not None:
            given[k] = te.placeholder([_extent(d, known) for d in value.shape], value.dtype, name)
        elif isinstance(x, DimExpr):
            given[k] = var(name)
    computed = tensor_expr_func(*given)
    tensors = [x for x in given if isinstance(x, te.Tensor)]
    scalars = [x for x in given if isinstance(x, Var)]
    expression = te.expression(lambda *_: computed, *tensors, name=name_hint, scalars=scalars)
    results = g.tensors(apply_expression(g, expression, operands, sizes=[x for x in args if isinstance(x, DimExpr)]))
    return results[0] if isinstance(computed, te.Tensor) else results


def tensor_ir_op(func: Program | str, name_hint: str, args: Any, out: OutType) -> Any:
    """What a loop program writes to new tensors.

    Args:
        func: a ``forge.tir.Program``, or its text. Its first buffers are the tensors among ``args``, the others are those of
            ``out``; its numbers are the sizes among ``args``, in order.
        name_hint: names the results.
        args: a tensor, or tensors and sizes: integers, symbolic sizes and shapes of them.
        out: what the results are like: placeholders of their shapes and element types, nested as the result shall be.

    Returns:
        Tensors, nested as ``out``.

    Raises:
        OptionError: an argument is none of these, or ``out`` has other element types than the program.
        TypeInferenceError: tensors, sizes or ``out`` do not fit the program.

    >>> from forge import nn
    >>> x = nn.Tensor.from_const([1.0, 2.0])
    >>> double = '''def double(A: Buffer[(n,), "float64"], B: Buffer[(n,), "float64"]):
    ...     for i in range(n):
    ...         B[i] = A[i] * 2.0'''
    >>> nn.tensor_ir_op(double, "double", x, nn.Tensor.placeholder((2,), "float64")).numpy().tolist()
    [2.0, 4.0]
    """
    return _run_program(f"tensor_ir_op {name_hint!r}", func, name_hint, args, None, out)


def tensor_ir_inplace_op(
    func: Program | str, name_hint: str, args: Any, inplace_indices: int | Sequence[int], out: OutType
) -> Any:
    """As `tensor_ir_op`, of a program that changes some of its operands.

    Args:
        func: see there. Its buffers are the tensors among ``args``, then those of ``out`` that take no operand's place.
        name_hint: see there.
        args: see there.
        inplace_indices: for each result, the number of the tensor among ``args`` that it is after the program has changed it; -1
            for a new one. One number stands for a list of it. At least one is not -1.
        out: see there.

    Tensors stay what they were for all who use them: the memory is shared where nothing else reads it later, else the operand is
    copied first.

    Raises:
        OptionError, TypeInferenceError: see there; ``inplace_indices`` do not fit.
    """
    where = f"tensor_ir_inplace_op {name_hint!r}"
    indices = (inplace_indices,) if isinstance(inplace_indices, int) else tuple(inplace_indices)
    tensors = [isinstance(x, Tensor) for x in _listed(args)]
    known = all(k == -1 or 0 <= k < len(tensors) and tensors[k] for k in indices)
    if not known or all(k == -1 for k in indices):
        expected = f"expected numbers of {sum(tensors)} tensors among the arguments, and -1, not all of them"
        raise OptionError(f"{where}: inplace_indices: got {inplace_indices}; {expected}")
    places = [k if k == -1 else sum(tensors[:k]) for k in indices]
    return _run_program(where, func, name_hint, args, places, out)


def _run_program(where: str, func: Any, name_hint: str, args: Any, in_place: Sequence[int] | None, out: OutType) -> Any:
    if not isinstance(func, Program | str):
        expected = "expected what forge.tir.library, tir.Builder or tir.read_program make, or a text"
        raise OptionError(f"{where}: func: got {type(func).__name__}; {expected}")
    program = func if isinstance(func, Program) else read_program(func)
    g, kinds = Context(name_hint), _leaves(out, where)
    operands, sizes = list[Value](), list[Dim]()
    for x in _listed(args):
        if isinstance(x, Tensor):
            operands.append(_value(g, x, where))
        elif isinstance(x, list | tuple) and all(map(_is_size, x)):
            sizes.extend(x)
        elif _is_size(x):
            sizes.append(x)
        else:
            raise OptionError(f"{where}: args: got {type(x).__name__}; expected tensors, sizes and shapes")
    places = [-1] * len(kinds) if in_place is None else list(in_place)
    if len(places) != len(kinds):
        raise OptionError(f"{where}: out: got {len(kinds)} results; expected {len(places)}, as inplace_indices say")
    results = apply_program(g, program, operands, sizes=sizes, shapes=[k.shape for k in kinds], in_place=places)
    for number, (result, kind) in enumerate(zip(results, kinds)):
        if result.dtype != kind.dtype:
            raise OptionError(f"{where}: out: result {number}: got {kind.dtype}; expected {result.dtype}, as the program says")
    made = iter(g.tensors(results))
    return _nested(out, lambda: next(made))


def _is_size(x: Any) -> bool:
    return isinstance(x, int | DimExpr) and not isinstance(x, bool)


def _listed(args: Any) -> list[Any]:
    return list(args) if isinstance(args, list | tuple) else [args]


def _value(g: Context, x: Any, where: str) -> Value:
    if not isinstance(x, Tensor):
        raise OptionError(f"{where}: args: got {type(x).__name__}; expected tensors and sizes")
    return g.value(x)


def _leaves(out: Any, where: str) -> list[Tensor]:
    if isinstance(out, Tensor):
        return [out]
    if not isinstance(out, list | tuple):
        raise OptionError(f"{where}: out: got {type(out).__name__}; expected Tensor.placeholder(shape, dtype), or a list of them")
    return [leaf for part in out for leaf in _leaves(part, where)]


def _nested(out: OutType, take: Callable[[], Tensor]) -> Any:
    return take() if isinstance(out, Tensor) else tuple(_nested(part, take) for part in out)


def _parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    """Names for what a function is called with: those of its parameters."""
    try:
        known = [p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_POSITIONAL]
    except (TypeError, ValueError):
        known = []
    return [*known[:count], *(f"x{k}" for k in range(len(known), count))]


def _extent(size: Dim, sizes: dict[str, Var]) -> Dim | Expr:
    """A size of a placeholder: one variable for each different symbolic size."""
    if isinstance(size, int):
        return size
    return sizes.setdefault(str(size), var(dims.symbol_name(size) or f"size{len(sizes)}"))
