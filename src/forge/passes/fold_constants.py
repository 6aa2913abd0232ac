"""Evaluates what depends on constants only: ``%1 = multiply(2f, 3f); add(%x, %1)`` --> ``add(%x, 6f)``.

Pure nodes are evaluated with their NumPy meaning. Results larger than ``MAX_BYTES`` and than all operands together stay as they
are. Small integer tensors whose contents type inference knows (shapes of static tensors) become constants, too.
"""

from __future__ import annotations

import numpy as np

from forge import dtypes
from forge.ir import attributes
from forge.ir.edits.rewrite import Outcome, RuleBuilder, rule
from forge.ir.interp import evaluate
from forge.ir.nodes import CONSTANT, Node, Value
from forge.ir.op import Trait
from forge.ir.shapes import known_dims
from forge.ir.types import TensorType
from forge.ops.core.fold import unpacks
from forge.passes.base import rewriting

MAX_BYTES = 64 << 20


@rule()
def fold_constants(builder: RuleBuilder, node: Node) -> list[Value] | None:
    """Replaces the results of a node by constants, where their contents are known."""
    arrays = _evaluated(node) or _inferred(node)
    return None if arrays is None else [builder.constant(array) for array in arrays]


def _evaluated(node: Node) -> list[np.ndarray] | None:
    """Results of a pure node on constants."""
    if not _is_foldable(node):
        return None
    operands = [None if v is None else v.constant for v in node.operands]
    limit = max(MAX_BYTES, sum(a.nbytes for a in operands if a is not None))
    sizes = [v.tensor_type.size * dtypes.itemsize(v.dtype) for v in node.results]
    if any(isinstance(size, int) and size > limit for size in sizes):
        return None
    results = evaluate(node, operands, {}, lambda *_: [])
    return results if sum(a.nbytes for a in results) <= limit else None


def _is_foldable(node: Node) -> bool:
    if node.op_def is CONSTANT or any(v is not None and v.constant is None for v in node.operands):
        return False
    if node.regions or not node.op_def.is_pure or node.op_def.traits & Trait.HOST:
        return False
    return all(isinstance(v.type, TensorType) for v in node.results) and not any(attributes.symbols(node.attrs))


def _inferred(node: Node) -> list[np.ndarray] | None:
    """The result of a node in shape arithmetic, when all of it is numbers."""
    if node.op_def is CONSTANT or len(node.results) != 1 or not node.op_def.is_pure:
        return None
    contents = known_dims(node.result)
    if contents is None or not all(isinstance(d, int | bool | np.integer | np.bool_) for d in contents.ravel()):
        return None
    return [contents.astype(dtypes.numpy_dtype(node.result.dtype))]


@rule()
def fold_without_unpacking(builder: RuleBuilder, node: Node) -> Outcome:
    """``fold_constants``, but weights of few bits stay as they are."""
    return None if unpacks(node) else fold_constants.attempt(builder, node)


run = rewriting(fold_constants)
run_at_load = rewriting(fold_without_unpacking)
