"""Native instructions of architectures: those that LLVM has no general name for, or does not find by itself.

Each architecture is a table of `Row`: an operation, the type and lanes of its result, the features that it needs, and LLVM's name
of the instruction. Where a target has no row, the general form of the operation applies, which is right everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import MappingProxyType

from forge.codegen.isa import aarch64, x86
from forge.codegen.isa.rows import Row, Table
from forge.target import Target

_TABLES = MappingProxyType({"x86_64": x86.TABLE, "aarch64": aarch64.TABLE})


class Instructions:
    """The native instructions of one target."""

    def __init__(self, table: Table, features: Sequence[str]) -> None:
        self.table = table
        self._rows: dict[tuple[str, str, int], Row] = {}
        for row in table.rows:
            if set(row.needs) <= set(features):
                self._rows.setdefault((row.operation, row.dtype, row.lanes), row)

    def find(self, operation: str, dtype: str = "", lanes: int = 0) -> Row | None:
        """The instruction for ``operation`` on results of this type and number of lanes; None where there is none."""
        return self._rows.get((operation, dtype, lanes))

    def widest(self, operation: str, dtype: str) -> int:
        """The most lanes of such an instruction; 0 where there is none."""
        return max((lanes for name, of, lanes in self._rows if (name, of) == (operation, dtype)), default=0)


def instructions(target: Target) -> Instructions:
    """The native instructions that ``target`` has."""
    return _instructions(target.arch, target.features)


@cache
def _instructions(arch: str, features: tuple[str, ...]) -> Instructions:
    return Instructions(_TABLES[arch], features)


__all__ = ["Instructions", "Row", "instructions"]
