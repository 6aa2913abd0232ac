"""A compiled model: machine code, weights and tables, ready to be loaded or written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forge.codegen.jit import JitLibrary
from forge.codegen.tables import MODEL_SYMBOL
from forge.errors import TargetError
from forge.lowering.program import LoweredLibrary
from forge.target import Target
from forge_runtime import Runtime

PAGE = 4096


@dataclass
class CompiledModel:
    """The result of compilation.

    Attributes:
        kernels: object files of the kernels.
        entry: object file of the entry whose weights the loader supplies.
        embedded_entry: object file of the entry whose weights are symbol ``forge_weights``.
        weights: bytes, aligned to a page.
        options: effective options.
        summary: numbers for reports: groups, kernels, arena_size (bytes; text where it depends on symbols),
            and the names of the registered functions that the model calls.
        seconds: time spent by phase; empty when the model came from the cache.
        lowered: groups, memory plan and loop functions; None when the model came from the cache.
    """

    target: Target
    kernels: list[bytes]
    entry: bytes
    embedded_entry: bytes
    weights: np.ndarray
    options: dict[str, Any]
    summary: dict[str, Any]
    seconds: dict[str, float] = field(default_factory=dict)
    lowered: LoweredLibrary | None = None

    @property
    def objects(self) -> list[bytes]:
        """All object files: kernels, entry, embedded entry."""
        return [*self.kernels, self.entry, self.embedded_entry]

    def runtime(self, *, num_threads: int | None = None) -> Runtime:
        """The model linked into this process, ready to call.

        Raises:
            TargetError: the code needs CPU features that this machine lacks.
        """
        missing = self.target.missing_on_host()
        if missing:
            raise TargetError(f"run: this CPU lacks {', '.join(missing)}, which target {self.target} uses; compile for 'llvm'")
        library = JitLibrary([*self.kernels, self.entry], [MODEL_SYMBOL])
        weights = self.weights.data if self.weights.size else None
        return Runtime.from_jit(library.addresses[MODEL_SYMBOL], library, weights, num_threads=num_threads)


def weights_blob(lowered: LoweredLibrary) -> np.ndarray:
    """All weights in one array of bytes, aligned to a page; zeros between them."""
    blob = aligned_bytes(lowered.library.weights_size)
    end = 0
    for offset, array in lowered.weights:
        blob[end:offset] = 0
        end = offset + array.nbytes
        blob[offset:end] = array.reshape(-1).view(np.uint8)
    blob[end:] = 0
    return blob


def aligned_bytes(size: int) -> np.ndarray:
    """``size`` bytes that start at a page."""
    backing = np.empty(size + PAGE, np.uint8)
    start = -backing.ctypes.data % PAGE
    return backing[start : start + size]
