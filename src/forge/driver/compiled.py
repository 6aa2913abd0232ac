"""A compiled model: machine code, weights and tables, ready to be loaded or written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from forge.codegen.jit import JitLibrary
from forge.codegen.tables import MODEL_SYMBOL
from forge.driver.weights import Weights
from forge.errors import TargetError
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
        summary: numbers for reports: groups, kernels, arena_size (bytes; text where it depends on symbols),
            and the names of the registered functions that the model calls.
        seconds: time spent by phase; empty when the model came from the cache.
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

    @property
    def objects(self) -> list[bytes]:
        """All object files: kernels, entry."""
        return [*self.kernels, self.entry]

    def runtime(self, *, num_threads: int | None = None) -> Runtime:
        """The model linked into this process, ready to call.

        Raises:
            TargetError: the code needs CPU features that this machine lacks.
        """
        missing = self.target.missing_on_host()
        if missing:
            raise TargetError(f"run: this CPU lacks {', '.join(missing)}, which target {self.target} uses; compile for 'llvm'")
        library = JitLibrary(self.objects, [MODEL_SYMBOL])
        address, weights = library.addresses[MODEL_SYMBOL], self.weights.in_memory()
        return Runtime.from_jit(address, library, weights, num_threads=num_threads, copy_weights=False)
