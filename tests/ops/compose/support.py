"""Runs compositions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.driver.compiler import compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.ops.core.composer import Composer
from tests.ops.harness import evaluate_graph

Compose = Callable[..., Value | Sequence[Value]]


def build(compose: Compose, arrays: Sequence[Any], symbolic: bool = False) -> Graph:
    """The graph of ``compose(g, *values)``; None of ``arrays`` is an absent operand. ``symbolic``: sizes above 2 have names."""
    builder = Builder()
    values = [None if a is None else _input(builder, k, np.asarray(a), symbolic) for k, a in enumerate(arrays)]
    results = compose(Composer(builder), *values)
    outputs = [results] if isinstance(results, Value) else list(results)
    for position, value in enumerate(outputs):
        value.name = value.name or f"out{position}"
    return builder.output(*outputs)


def _input(builder: Builder, position: int, array: np.ndarray, symbolic: bool) -> Value:
    names = (dims.symbol(f"d{position}_{axis}") for axis in range(array.ndim))
    shape = tuple(name if symbolic and size > 2 else size for name, size in zip(names, array.shape))
    return builder.input(TensorType(shape, dtypes.canonical(array.dtype)), f"in{position}")


def run(compose: Compose, *arrays: Any, symbolic: bool = False) -> list[np.ndarray]:
    """Results of the interpreter."""
    given = [np.asarray(a) for a in arrays if a is not None]
    return run_graph(build(compose, arrays, symbolic), given)


def run_lowered(compose: Compose, *arrays: Any, symbolic: bool = False) -> list[np.ndarray]:
    """Results of decompositions and tensor expressions."""
    return evaluate_graph(build(compose, arrays, symbolic), [np.asarray(a) for a in arrays if a is not None])


def run_compiled(compose: Compose, *arrays: Any, symbolic: bool = False) -> list[np.ndarray]:
    """Results of compiled code."""
    runtime = compile_module(Module(build(compose, arrays, symbolic)), use_cache=False).runtime()
    results = runtime(*[np.asarray(a, order="C") for a in arrays if a is not None])
    return list(results) if isinstance(results, list | tuple) else [results]
