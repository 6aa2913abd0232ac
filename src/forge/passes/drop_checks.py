"""Removes checks of elements: ``take(%table, check_index(%ids, sizes=(9)))`` --> ``take(%table, %ids)``."""

from __future__ import annotations

from forge.ir.edits.rewrite import RuleBuilder, rule
from forge.ir.nodes import Node, Value
from forge.passes.base import rewriting


@rule()
def drop_check(builder: RuleBuilder, node: Node) -> Value | None:
    """check_index(x) == x, and the same for other operators that only check elements"""
    return node.operands[0] if node.op_def.checks_elements else None


run = rewriting(drop_check)
