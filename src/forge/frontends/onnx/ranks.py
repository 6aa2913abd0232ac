"""Results of If whose branches have different ranks: a scalar and a vector, say.

They are tensors of unknown rank. Where that is in the way, the model is converted once more with dimensions of size 1 put in
front of the lower rank. That changes nothing as long as the value only takes part in broadcasting with tensors whose rank is at
least the higher one; any other use shows which branch was taken. Then all that follows the If is converted in both branches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import onnx

from forge.errors import ForgeError, ImportModelError
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.nodes import Value
from forge.ir.types import TensorType

T = TypeVar("T")
MAX_SPLITS = 16
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
    """``widens``: lower ranks are widened; ``splits``: names of nodes If that take what follows them into their branches;
    ``met``: those whose branches had different ranks; ``loose``: values whose rank at run time may be lower than their type says.
    """

    widens: bool = False
    splits: frozenset[str] = frozenset()
    met: set[str] = field(default_factory=set)
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

    def unify(self, branches: Sequence[Graph], name: str) -> list[int]:
        """Gives corresponding outputs of the ``branches`` of node ``name`` equal ranks, if it ``widens``; the positions of
        results that are loose.
        """
        loose = []
        for position, pair in enumerate(zip(*(b.outputs for b in branches))):
            ranks = [v.rank for v in pair if isinstance(v.type, TensorType)]
            differ = len(ranks) == len(pair) and len(set(ranks)) > 1
            if differ:
                self.met.add(name)
            if differ and self.widens:
                for branch in branches:
                    _widen(branch, position, max(ranks))
            if (differ and self.widens) or any(v in self.loose for v in pair):
                loose.append(position)
        return loose


def with_ranks(attempt: Callable[[Ranks], T]) -> T:
    """What ``attempt`` converts, in the first of the ways that works.

    Raises:
        ForgeError: of ``attempt``; where no way works, that of ranks which are widened.
    """
    ranks = Ranks()
    try:
        return attempt(ranks)
    except ForgeError:
        if not ranks.met:
            raise
    try:
        return attempt(Ranks(widens=True))
    except ForgeError as error:
        refused = error
    for _ in range(MAX_SPLITS):
        ranks = Ranks(splits=ranks.splits | ranks.met)
        try:
            return attempt(ranks)
        except ForgeError:
            if ranks.met <= ranks.splits:
                break
    raise refused


def with_rest(node: onnx.NodeProto, rest: Sequence[onnx.NodeProto], results: Iterable[str]) -> onnx.NodeProto:
    """An If with the nodes that follow it in both branches: ``y = If(c) {a} {b}; z = f(y)`` --> ``z = If(c) {f(a)} {f(b)}``.

    ``results`` are the names that are used later.
    """
    made = {name for inner in (node, *rest) for name in inner.output}
    outputs = [name for name in results if name in made]
    whole = onnx.NodeProto()
    whole.CopyFrom(node)
    del whole.output[:]
    whole.output.extend(outputs)
    for attribute in whole.attribute:
        branch = attribute.g
        renamed = [(inner.name, outer) for inner, outer in zip(branch.output, node.output) if outer]
        branch.node.extend(onnx.helper.make_node("Identity", [inner], [outer]) for inner, outer in renamed)
        branch.node.extend(rest)
        del branch.output[:]
        branch.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    return whole


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
