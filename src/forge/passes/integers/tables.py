"""Functions of one number of eight bits are tables."""

from __future__ import annotations

import numpy as np

from forge.ir.edits.rewrite import RuleBuilder, rule
from forge.ir.interp import evaluate
from forge.ir.nodes import Node, Value
from forge.ops.quantized.lookup import ENTRIES, Lookup
from forge.ops.quantized.quantize import Dequantize, Quantize
from forge.passes.integers.operands import BYTES

MAX_NODES = 32


@rule(Quantize)
def tabulate(builder: RuleBuilder, found: Quantize) -> Value | None:
    """Replaces a function of one number of eight bits by a table: ``qnn.quantize(tanh(qnn.dequantize(%x, s, z)), t, y)``."""
    whole = argument(found.node)
    if whole is None or found.attrs.out_dtype not in BYTES:
        return None
    arrays: dict[Value, np.ndarray] = {whole: np.arange(ENTRIES).astype(np.uint8)}

    def values(value: Value) -> np.ndarray:
        if value.constant is not None:
            return value.constant.reshape(()) if value.size == 1 else value.constant
        if value not in arrays and value.producer is not None:
            operands = [None if v is None else values(v) for v in value.producer.operands]
            (arrays[value],) = evaluate(value.producer, operands, {}, lambda *_: [])
        return arrays[value]

    return builder.call("qnn.lookup", whole, builder.constant(values(found.result)), name=found.node.name)


def argument(node: Node) -> Value | None:
    """Returns the tensor of uint8 of which ``node`` is a function, element by element, if there is one."""
    found: dict[Node, None] = {}
    pending: list[Node] = [node]
    sources: set[Value] = set()
    while pending:
        visited = pending.pop()
        if visited in found:
            continue
        found[visited] = None
        for value in visited.operands:
            if value is None or value.constant is not None and (value.size == 1 or Lookup.of(visited) is not None):
                continue
            is_made = value.dtype == "uint8" and Lookup.of(value.producer) is None
            if is_made or value.producer is None or len(found) > MAX_NODES:
                sources.add(value)
            else:
                pending.append(value.producer)
    whole = sources.pop() if len(sources) == 1 else None
    if whole is None or whole.dtype != "uint8" or whole.constant is not None:
        return None
    return whole if all(_is_function(n) and n.result.shape == whole.shape for n in found) else None


def _is_function(node: Node) -> bool:
    """Whether each element of the result is computed of the operands' at its place."""
    op = node.op_def
    conversion = Quantize.of(node) or Dequantize.of(node)
    per_tensor = conversion is not None and not conversion.attrs.block_size
    return op.is_pure and len(node.results) == 1 and (op.is_map or per_tensor or Lookup.of(node) is not None)
