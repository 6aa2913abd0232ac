"""Operations in the forms that StableHLO, CHLO and func print."""

from __future__ import annotations

from forge.frontends.stablehlo.module import Operation
from forge.frontends.stablehlo.text.operations import OperationReader


class PrettyReader(OperationReader):
    def pretty(self, operation: Operation, count: int) -> None:
        self.unexpected("operations in the generic form")
