"""A whole program: kernels and the entry that calls them. What lowering hands to code generation."""

from __future__ import annotations

from dataclasses import dataclass

from forge.tir.expr import Expr, Var
from forge.tir.stmt import Function, Stmt


@dataclass(frozen=True)
class TensorSpec:
    """An input or output; each dimension is a constant, one of the program's symbols, or an expression over them.

    Sequences and optionals have an ``element``, whose dimensions are constants; -1: any size.
    """

    name: str
    dtype: str
    dims: tuple[Expr, ...]
    element: TensorSpec | None = None
    has_rank: bool = True


@dataclass(frozen=True)
class Program:
    """``entry`` holds CallKernel, Let and If over ``symbols`` (bound from the inputs' dimensions)."""

    name: str
    functions: tuple[Function, ...]
    entry: Stmt
    arena_size: Expr  # bytes
    symbols: tuple[Var, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    weights_size: int  # bytes
    cpu_features: tuple[str, ...]  # that the code may use
    controls: tuple[Control, ...] = ()


@dataclass(frozen=True)
class Control:
    """A node that the host runs: ``forge_control``.

    The kernels of ``regions`` are functions of the outermost program, and offsets of their weights count from its weights.
    """

    name: str
    kind: str  # if, loop, scan, sequence_map, ...
    regions: tuple[Program, ...]
    carried: int = 0
    scanned: int = 0
    has_trips: bool = False
    has_condition: bool = False
    backwards: tuple[bool, ...] = ()
    axis: int = 0
    adds_axis: bool = False  # sequence_concat
    drops_axis: bool = False  # sequence_split
