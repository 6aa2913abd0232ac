"""A compiled model: machine code, weights and tables, ready to be loaded or written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from forge import backend
from forge.backends.weights import Weights
from forge.external import LinkedCode
from forge.lowering.program import LoweredLibrary
from forge.target import Target
from forge_runtime import Runtime


@dataclass
class CompiledModel:
    """The result of compilation.

    Attributes:
        kernels: object files of the kernels.
        entry: object file of the entry, whose weights are symbol ``forge_weights`` where that is defined; else the loader
            supplies them.
        weights: made when they are needed.
        options: effective options.
        summary: numbers for reports: groups, kernels, arena_size (bytes; text where it depends on symbols), winograd_bytes
            (by how much Winograd's algorithm makes weights larger), and names of registered functions that the model calls.
        seconds: time spent by phase; empty when the model came from the cache.
        external: functions of the user's that it calls.
        lowered: groups, memory plan and loop functions; None when the model came from the cache.
    """

    target: Target
    kernels: list[bytes]
    entry: bytes
    weights: Weights
    options: dict[str, Any]
    summary: dict[str, Any]
    seconds: dict[str, float] = field(default_factory=dict)
    lowered: LoweredLibrary | None = None
    external: LinkedCode = field(default_factory=LinkedCode)

    @property
    def objects(self) -> list[bytes]:
        """The object files that Forge made: kernels, entry."""
        return [*self.kernels, self.entry]

    def runtime(self, *, num_threads: int | None = None) -> Runtime:
        """The model in this process, ready to call.

        Raises:
            TargetError: the code needs CPU features that this machine lacks.
        """
        return backend.of(self.target).call(self, num_threads)
