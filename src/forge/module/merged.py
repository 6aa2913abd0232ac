"""Decoders that exporters merged: one branch of an If has no cache, the other reads one, and an input says which is taken.

As sessions they need no such input: the branch that reads the cache is taken where something is in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from forge import dims
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.retype import infer_again
from forge.ir.types import TensorType, symbols

_FLAG = re.compile(r"use_cache(?:_branch)?")


def is_flag(value: Value) -> bool:
    """Whether it is the input that says whether there is a cache."""
    type_ = value.type
    return bool(_FLAG.fullmatch(value.name)) and isinstance(type_, TensorType) and type_.dtype == "bool" and type_.size == 1


def keep_states(graph: Graph, flag: Value, follows_cache: bool) -> None:
    """Makes what the Ifs of ``flag`` give the next values of the states.

    A state that the branch with a cache leaves out, which exporters write as a constant without elements, stays what it was: keys
    and values of an encoder, which the first call computes. A state that grows is longer than it was by what the branch without a
    cache makes, where ``flag`` ``follows_cache``, as the cache is empty there.
    """
    inputs = {v.name: v for v in graph.inputs}
    for state_name, state in graph.states.items():
        if state.output is None or state_name not in inputs:
            continue
        old, new = inputs[state_name], graph.outputs[state.output]
        if new.producer is None or new.producer not in _branches(flag):
            continue
        later, first = (region.outputs[new.index] for region in new.producer.regions)
        if later.constant is not None and later.constant.size == 0:
            _pass_on(new.producer, new, old)
        elif follows_cache and isinstance(later.type, TensorType) and isinstance(first.type, TensorType):
            axis = grown_axis(old.tensor_type, later.type)
            visible = {s for v in new.producer.operands if v is not None for s in symbols(v.type)}
            if axis is not None and visible.issuperset(dims.symbols(*first.shape)):
                shape = [size + old.shape[axis] if k == axis else size for k, size in enumerate(first.shape)]
                name, new.name = new.name, ""
                sized = Builder(graph).call("broadcast_to", new, shape=shape, exact=True)
                sized.name, graph.outputs[state.output] = name, sized


def grown_axis(old: TensorType, new: TensorType) -> int | None:
    """The axis along which ``new`` is longer than ``old``: its size there is that of ``old`` and something more."""
    for axis, (a, b) in enumerate(zip(old.shape, new.shape)):
        if dims.symbol_name(a) is not None and not dims.equal(a, b) and dims.symbol_name(a) in dims.symbols(b):
            return axis
    return None


def _branches(flag: Value) -> Iterator[Node]:
    """The Ifs that ``flag`` decides, whose first region is taken where it is true."""
    for node, position in flag.uses:
        if node.op_def.is_view:
            yield from _branches(node.result)
        elif len(node.regions) == 2 and position == 0:
            yield node


def _pass_on(node: Node, new: Value, old: Value) -> None:
    """The first region of the If ``node`` gives ``old`` as ``new``."""
    if old not in node.operands:
        node.operands.append(None)
        node.set_operand(len(node.operands) - 1, old)
        for region in node.regions:
            region.add_input(old.type, old.name)
    taken = node.regions[0]
    taken.outputs[new.index] = taken.inputs[node.operands.index(old) - 1]
    infer_again(node)
