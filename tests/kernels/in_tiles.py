"""Sizes, targets and comparisons for products in tile registers, which the machine may have or a library stands in for."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from forge.driver import check_options
from forge.driver.compiler import compile_module
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.target import Target
from tests.kernels.emulated_tiles import EMULATED

SIZES = [(1, 64, 16), (16, 64, 16), (17, 128, 40), (32, 192, 32), (45, 64, 33), (300, 128, 100)]
"""Rows, depth and units of dense layers."""

CONVOLUTIONS = {
    "3x3": "(2, 16, 9, 11), (32, 16, 3, 3), padding=[1, 1, 1, 1]",
    "3x3 of a small image": "(1, 8, 7, 7), (24, 8, 3, 3), padding=[1, 1, 1, 1]",
    "5x5 without padding": "(1, 16, 13, 20), (16, 16, 5, 5), padding=[0, 0, 0, 0]",
    "5x5 of stride 2": "(1, 16, 21, 30), (16, 16, 5, 5), padding=[2, 1, 2, 3], strides=[2, 2]",
    "dilated rows": "(1, 16, 14, 12), (16, 16, 5, 5), padding=[4, 2, 4, 2], dilation=[2, 1]",
    "1x1": "(1, 64, 14, 14), (48, 64, 1, 1), padding=[0, 0, 0, 0]",
    "a first layer": "(1, 3, 40, 37), (16, 3, 7, 7), padding=[3, 3, 3, 3], strides=[2, 2]",
    "dilated columns": "(1, 16, 12, 14), (16, 16, 3, 3), padding=[2, 2, 2, 2], dilation=[2, 2]",
    "1x1 of uneven channels": "(1, 36, 9, 7), (24, 36, 1, 1), padding=[0, 0, 0, 0]",
    "uneven channels": "(1, 28, 9, 7), (24, 28, 3, 3), padding=[1, 1, 1, 1]",
    "a long row": "(1, 32, 1, 9000), (16, 32, 1, 3), padding=[0, 1, 0, 1], strides=[1, 2]",
    "1x1 of stride 2": "(2, 96, 9, 8), (16, 96, 1, 1), padding=[0, 0, 0, 0], strides=[2, 2]",
    "a large image": "(1, 64, 40, 300), (32, 64, 3, 3), padding=[1, 1, 1, 1]",
}
"""Shapes of data and weight, and attributes."""


def convolution(name: str) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    """Returns the shapes of data and weight of a convolution, and its attributes."""
    image, kernel, attributes = re.fullmatch(r"(\(.*?\)), (\(.*?\)), (.*)", CONVOLUTIONS[name]).groups()  # type: ignore[union-attr]
    return ast.literal_eval(image), ast.literal_eval(kernel), attributes


def of_unknown_size(shape: Sequence[int], axes: str) -> str:
    """Returns the shape of an image with symbols for the sizes of some ``axes`` of "nchw"."""
    return f"({', '.join(axis if axis in axes else str(size) for axis, size in zip('nchw', shape))})"


def targets(dtype: str) -> list[str]:
    """Returns emulated registers, and those of this machine if they multiply ``dtype``."""
    return [f"llvm -mcpu=x86-64-v3 {EMULATED}", *(["llvm"] if dtype in Target.parse("llvm").isa.tiles else [])]


def expect(products: Callable[[], int], target: str, used: bool = True) -> None:
    """Checks whether products of tiles were computed, which only emulated ones are counted of."""
    assert EMULATED not in target or (products() > 0) == used


def packed(weight: np.ndarray, group: int, panel: int) -> np.ndarray:
    """Returns panels [ceil(N / n)][K / g][n][g] of [N, K]."""
    n, k = weight.shape
    wide = np.pad(weight, ((0, -n % panel), (0, 0)))
    return np.ascontiguousarray(wide.reshape(-1, panel, k // group, group).transpose(0, 2, 1, 3))


def results(graph: Graph, target: str, *inputs: np.ndarray, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns what the compiled graph gives, and its meaning in NumPy."""
    compiled = compile_module(Module(graph.copy()), check_options(target, **options), use_cache=False)
    return np.asarray(compiled.runtime()(*inputs)), run_graph(graph, list(inputs))[0]
