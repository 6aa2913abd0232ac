"""What the sizes and numbers of own kernels are, for operands of these types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forge import te
from forge.dims import Dim
from forge.ir.types import TensorType
from forge.ops.core.inference import fail, unify_dim
from forge.ops.core.lowering import as_dim
from forge.ops.core.signatures import Conditions, Expr, Tensor
from forge.tir.expr import Const, Var
from forge.tir.rewrite import substitute
from forge.tir.text import Expression, Program
from forge.tir.text.bounds import MAX_SIZE
from forge.tir.text.lower import binding

Sizes = dict[Var, Expr]


@dataclass(frozen=True)
class KernelAttrs:
    """``program``: its text; ``sizes``: its numbers, in order."""

    program: str
    sizes: tuple[Dim, ...] = ()


def sizes_of(kernel: Program | Expression, numbers: Sequence[Dim], shapes: Sequence[Sequence[Expr]]) -> Sizes:
    """What the sizes and numbers of ``kernel`` are, for its first parameters of these shapes."""
    found = binding([p.shape for p in kernel.parameters], shapes)
    return {**dict(zip(kernel.scalars, map(te.dim, numbers))), **found}


def checked_sizes(op: str, kernel: Program | Expression, numbers: Sequence[Dim], types: Sequence[TensorType]) -> Sizes:
    """As `sizes_of`.

    Raises:
        TypeInferenceError: the operands or numbers do not fit the first parameters, or one is too large.
    """
    if len(numbers) != len(kernel.scalars):
        raise fail(op, f"{kernel.name}: sizes", f"{len(numbers)} numbers", f"{len(kernel.scalars)}")
    for parameter, type_ in zip(kernel.parameters, types):
        if type_.dtype != parameter.dtype or type_.rank != len(parameter.shape):
            raise fail(op, f"{kernel.name}: parameter {parameter.name!r}", type_,
                       f"rank {parameter.ndim} and {parameter.dtype}", "cast or reshape it")
    sizes = sizes_of(kernel, numbers, [te.shape_of(t.shape) for t in types])
    for parameter, type_ in zip(kernel.parameters, types):
        for axis, (wanted, size) in enumerate(zip(shape_of(op, kernel, parameter, sizes), type_.shape)):
            unify_dim(op, wanted, size, f"{kernel.name}: axis {axis} of {parameter.name!r}")
    check_limits(op, kernel, sizes)
    return sizes


def check_limits(op: str, kernel: Program | Expression, sizes: Sizes) -> None:
    """Raises TypeInferenceError for a size that is too large."""
    for variable, value in sizes.items():
        size = as_dim(value)
        if isinstance(size, int) and abs(size) > MAX_SIZE:
            raise fail(op, f"{kernel.name}: {variable.name}", size, f"at most {MAX_SIZE}")


def shape_of(op: str, kernel: Program | Expression, tensor: Tensor, sizes: Sizes) -> tuple[Dim, ...]:
    """The shape of a tensor of ``kernel``.

    Raises:
        TypeInferenceError: it has a size that no operand binds.
    """
    try:
        shape = tuple(as_dim(substitute(e, sizes)) for e in tensor.shape)
    except TypeError as error:
        raise fail(op, f"{kernel.name}: the shape of {tensor.name!r}", error, "+ - * // % min max of sizes and numbers") from None
    negative = [d for d in shape if isinstance(d, int) and d < 0]
    if negative:
        raise fail(op, f"{kernel.name}: a size of {tensor.name!r}", negative[0], "at least 0")
    return shape


def conditions(kernel: Program | Expression, sizes: Sizes) -> Conditions:
    """Sizes known at run time only must not be larger than proofs about indices take them to be."""
    found: Conditions = []
    for variable, value in sizes.items():
        if not isinstance(value, Const):
            what = f"{kernel.name}: {variable.name} exceeds {MAX_SIZE}"
            found.append((te.logical_and(te.compare("le", value, MAX_SIZE), te.compare("ge", value, -MAX_SIZE)), what))
    return found
