"""Typical sizes of symbols: what costs are estimated, and memory is planned, for. Code is right for all sizes."""

from __future__ import annotations

from collections.abc import Mapping

from forge import dims
from forge.ir.graph import Graph
from forge.ir.types import TensorType


def typical_sizes(graph: Graph, given: Mapping[str, int]) -> dict[str, int]:
    """Of the symbols of inputs: those ``given``, 1 for the number of samples, else ``dims.TYPICAL``.

    The number of samples is a symbol that is the first of several axes only.
    """
    shapes = [value.shape for value in graph.inputs if isinstance(value.type, TensorType)]
    first = dims.symbols(*(shape[0] for shape in shapes if len(shape) > 1))
    others = dims.symbols(*(d for shape in shapes for d in (shape[1:] if len(shape) > 1 else shape)))
    return {**dict.fromkeys(first, 1), **dict.fromkeys(others, dims.TYPICAL), **given}
