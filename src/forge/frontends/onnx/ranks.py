"""Results of If whose branches have different ranks: a scalar and a vector, say.

They are tensors of unknown rank. Where that is in the way, the model is converted once more with dimensions of size 1 put in
front of the lower rank. That changes nothing as long as the value only takes part in broadcasting with tensors whose rank is at
least the higher one; any other use is refused, because it shows which branch was taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from forge.errors import ImportModelError
from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Value
from forge.ir.types import TensorType

BROADCAST_SINCE = 7
"""The opset from which operators broadcast as NumPy does."""

BROADCASTING = frozenset(
    "Abs Add And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Cos Div Equal Erf Exp Floor Greater "
    "GreaterOrEqual Identity Less LessOrEqual Log Max Mean Min Mod Mul Neg Not Or Pow Reciprocal Relu Round Sigmoid Sign "
    "Sin Sqrt Sub Sum Tanh Where Xor".split()
)
"""Operators of ONNX whose results have the highest rank of their inputs, and do not depend on dimensions of size 1 in front."""


@dataclass
class Ranks:
    """``widens``: lower ranks are widened; ``met``: branches of different ranks were there; ``loose``: values whose rank at run
    time may be lower than their type says."""

    widens: bool = False
    met: bool = False
    loose: set[Value] = field(default_factory=set)

    def check(self, op: str, opset: int, operands: Sequence[Value | None]) -> bool:
        """Whether the results of operator ``op`` of ONNX are loose.

        Raises:
            ImportModelError: they would show the rank of a loose operand.
        """
        relevant = operands[:1] if op == "CastLike" else operands
        loose = [v for v in relevant if v is not None and v in self.loose]
        if not loose:
            return False
        if op not in BROADCASTING or opset < BROADCAST_SINCE:
            raise shown(loose[0], f"{op} depends on its rank")
        rank = max(v.rank for v in loose)
        return not any(v is not None and v not in self.loose and v.rank >= rank for v in relevant)

    def check_outputs(self, outputs: Sequence[Value]) -> None:
        """Raises ImportModelError where one is loose."""
        for value in outputs:
            if value in self.loose:
                raise shown(value, "it is an output")

    def unify(self, branches: Sequence[Graph]) -> list[int]:
        """Gives corresponding outputs of ``branches`` equal ranks, if it ``widens``; the positions of results that are loose."""
        loose = []
        for position, pair in enumerate(zip(*(b.outputs for b in branches))):
            ranks = [v.rank for v in pair if isinstance(v.type, TensorType)]
            differ = len(ranks) == len(pair) and len(set(ranks)) > 1
            self.met |= differ
            if differ and self.widens:
                for branch in branches:
                    _widen(branch, position, max(ranks))
            if (differ and self.widens) or any(v in self.loose for v in pair):
                loose.append(position)
        return loose


def _widen(graph: Graph, position: int, rank: int) -> None:
    value = graph.outputs[position]
    if value.rank < rank:
        graph.outputs[position] = Builder(graph).call("expand_dims", value, axis=0, num_newaxis=rank - value.rank)


def shown(value: Value, why: str) -> ImportModelError:
    """The error for a use that shows the rank of a loose value."""
    return ImportModelError(
        f"value {value.name!r}: branches of an If give it different ranks, and {why}; expected equal ranks; reshape it in one "
        "branch"
    )
