"""Replaces composite operators by simpler ones, as ``Op.decompose`` says, until none is left.

``nn.batch_norm(%x, ...)`` --> ``add(multiply(%x, %scale), %shift)``
"""

from __future__ import annotations

from collections.abc import Sequence

from forge.ir.edits.rewrite import RuleBuilder, rule
from forge.ir.nodes import Node, Value
from forge.ops.core.op import Op
from forge.passes.base import rewriting
from forge.passes.matching import distinct


@rule()
def decompose(builder: RuleBuilder, node: Node) -> Sequence[Value] | None:
    """Replaces an operator by those that ``Op.decompose`` builds."""
    op = node.op_def
    values = op.decompose(builder, node.attrs, *op.arguments(node.operands)) if isinstance(op, Op) else None
    return None if values is None else distinct(builder, node, values)


run = rewriting(decompose)
