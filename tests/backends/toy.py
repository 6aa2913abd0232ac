"""Two backends that interpret: one of graphs as they are, one whose kernels would read blocks of four channels.

They use nothing but the boundary, ``forge.backend``, and the record of compiled models.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from forge import backend
from forge.backend import Backend, Convolution3x3, DirectConvolution, Stage
from forge.backends.compiled import CompiledModel
from forge.backends.weights import Weights
from forge.driver import Compilation
from forge.ir.functions.reference import Reference
from forge.ir.graph import Module
from forge.target import Target, kinds
from forge.target.precision import Contraction

BLOCK = 4


@dataclass(kw_only=True)
class ToyModel(CompiledModel):
    """Keeps the graphs that it would compile."""

    module: Module = field(default_factory=Module)


def _keep(c: Compilation) -> None:
    module = Module()
    module.graphs = {function.name: function.graph for function in c.functions}
    c.compiled = ToyModel(c.options.target, [], b"", Weights(0, ()), c.options.recorded, {"groups": 0}, c.seconds, module=module)


def _call(compiled: CompiledModel, threads: int | None) -> Any:
    assert isinstance(compiled, ToyModel)
    return Reference(compiled.module)


class FourChannels:
    """Blocks of four channels, panels of four columns, and no algorithm but the direct sum."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def channel_block(self, dtype: str = "float32") -> int:
        return BLOCK

    def group_size(self, data: str, weight: str, tiles: bool = True) -> int:
        return 2 if weight == "int8" else 1

    def filled_group(self, dtype: str) -> int:
        return 1

    def multiplies_parts(self, units: int, rows: int, depth: int, parts: int) -> None:
        return None

    def convolves_parts(self, convolution: DirectConvolution, parts: int) -> None:
        return None

    def dense_panel(self, dtype: str, units: int, rows: int = 0, depth: int = 0) -> int:
        return BLOCK

    def blocks_panel(self, units: int) -> int:
        return BLOCK

    def recurrent_panel(self, hidden: int) -> int:
        return BLOCK

    def recurrent_steps(self, hidden: int, group: int) -> int:
        return -(-hidden // group)

    def recurrent_group(self, dtype: str, hidden: int, dynamic: bool) -> int:
        return 1

    def permutes_tables(self) -> bool:
        return False

    def winograd_tile(self, convolution: Convolution3x3) -> int:
        return 0

    def speedup(self, sums: Contraction, dtype: str, between: bool, window: Convolution3x3 | None) -> float:
        return 2.0


_STAGES = (Stage("keep", 0, _keep, "graphs are kept for the interpreter", "emit", lambda c: f"{len(c.functions)} functions\n"),)
TOY = Backend("toy", "toy", _STAGES, _call)
BLOCKED = Backend("blocked toy", "toy-blocked", _STAGES, _call, layouts=FourChannels)


@contextmanager
def registered(*backends: Backend) -> Iterator[None]:
    """In the block, targets of these backends' kinds are known."""
    for one in backends:
        backend.register(one)
    try:
        yield
    finally:
        for one in backends:
            backend._BACKENDS.pop(one.kind)
            kinds.KINDS.discard(one.kind)
