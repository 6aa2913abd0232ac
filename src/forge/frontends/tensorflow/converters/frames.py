"""Branches and loops that are made of single nodes: ``Switch`` and ``Merge``, and the frames of ``Enter`` and ``Exit``.

What lies between is converted in regions: that of a branch holds the nodes that need its side of the switch, that of a loop those
that need what the loop carries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forge.frontends.control import choose, repeat
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.converters.control import settled
from forge.frontends.tensorflow.model import Body, Node, Ref
from forge.frontends.tensorflow.registry import converts, takes_handles
from forge.frontends.tensorflow.resources import Operand
from forge.ir.nodes import Value

_SWITCHES, _MERGES, _ENTERS, _NEXTS, _EXITS = (
    (name, f"Ref{name}") for name in ("Switch", "Merge", "Enter", "NextIteration", "Exit"))


@converts(*_SWITCHES, outputs="output_false output_true")
@takes_handles
def switch(g: Context, data: Operand, condition: Operand) -> list[Operand]:
    """Inside of a branch the condition is known, and only one side is read."""
    return [data, data]


@converts(*_ENTERS)
@takes_handles
def enter(g: Context, data: Operand, *, frame_name: str = "", is_constant: bool = False) -> Operand:
    return data


@converts("LoopCond")
def loop_cond(g: Context, condition: Value) -> Value:
    return condition


@converts(*_NEXTS)
@takes_handles
def next_iteration(g: Context, data: Operand) -> Operand:
    return data


@converts(*_MERGES, outputs="output value_index")
@takes_handles
def merge(g: Context) -> list[Operand]:
    """The input whose branch runs."""
    body, inputs = g.scope.nodes, g.node.inputs
    sides = [_side(body, ref) for ref in inputs]
    conditions = {_origin(body, side[0]) for side in sides if side is not None}
    if len(inputs) != 2 or None in sides or len(conditions) != 1 or sides[0][1] == sides[1][1]:  # type: ignore[index]
        raise g.unsupported("its inputs are not the two sides of one condition; expected branches as tf.cond makes them")
    (condition,) = conditions
    flag = g.tensor(g.scope.state.evaluate(g.scope, [condition], ())[0])
    by_side = {side[1]: ref for side, ref in zip(sides, inputs) if side is not None}
    inner = _after(body, condition)

    def run(context: Context, ref: Ref, _: Sequence[Operand]) -> list[Operand]:
        if context.scope is not g.scope:
            context.scope.own = inner
        return [*context.scope.state.evaluate(context.scope, [ref], ()), context.constant(inputs.index(ref), "int32")]

    return choose(g, g.reshape(flag, ()), (by_side[1], by_side[0]), (), run, ())


def _side(body: Body, ref: Ref) -> tuple[Ref, int] | None:
    """The condition of the nearest switch that a value needs, and which side of it; inner merges are passed with theirs."""
    pending, seen = [(ref, 0)], set[tuple[str, int]]()
    while pending:
        (name, number), depth = pending.pop(0)
        node = body.nodes.get(name)
        if node is None or (name, depth) in seen:
            continue
        seen.add((name, depth))
        if node.op in _SWITCHES:
            if depth == 0:
                return node.inputs[1], number
            depth -= 1
            pending += [(r, depth) for r in node.inputs[:1]]
            continue
        deeper = depth + (node.op in _MERGES)
        pending += [(r, deeper) for r in node.inputs]
        pending += [((control, 0), deeper) for control in node.controls]
    return None


def _origin(body: Body, ref: Ref) -> Ref:
    """A condition, before nodes that pass it on."""
    for _ in range(len(body.nodes)):
        node = body.nodes.get(ref[0])
        if node is None or node.op != "Identity":
            break
        ref = node.inputs[0]
    return ref


def _after(body: Body, condition: Ref) -> frozenset[str]:
    """Nodes that need a side of a condition: those behind its switches, and before what merges both sides."""
    starts = [n.name for n in body.nodes.values() if n.op in _SWITCHES and _origin(body, n.inputs[1]) == condition]

    def is_end(node: Node) -> bool:
        side = _side(body, node.inputs[0]) if node.op in _MERGES else None
        return side is not None and _origin(body, side[0]) == condition

    return _reached(body, starts, is_end)


def _reached(body: Body, starts: Sequence[str], is_end: Callable[[Node], bool]) -> frozenset[str]:
    """``starts`` and the nodes that need them, without what is behind ends, and not from one round to the next."""
    pending, found = list(starts), set[str]()
    while pending:
        name = pending.pop()
        node = body.nodes[name]
        if name not in found and not is_end(node):
            found.add(name)
            pending += () if node.op in _NEXTS else body.users.get(name, ())
    return frozenset(found)


@dataclass(frozen=True)
class _Loop:
    """A loop: for each value that it carries, the nodes that begin it, stand for it, and end a round."""

    merges: tuple[Node, ...]
    condition: Node
    inner: frozenset[str]

    def switch(self, body: Body, merge: Node) -> Node | None:
        return next((n for name in body.users.get(merge.name, ()) if (n := body.nodes[name]).op in _SWITCHES
                     and body.nodes.get(n.inputs[1][0]) is self.condition), None)


@converts(*_EXITS)
@takes_handles
def exit_(g: Context) -> list[Operand]:
    """Converts the whole loop, and notes the results of its other exits."""
    body = g.scope.nodes
    last = body.node(g.node.inputs[0][0])
    if last.op not in _SWITCHES:
        raise g.unsupported(f"got the result of {last.op}; expected a loop as tf.while_loop makes it")
    loop = _loop(g, body, body.node(last.inputs[1][0]))
    results = _repeated(g, body, loop)
    for merge, value in zip(loop.merges, results):
        switch_node = loop.switch(body, merge)
        ends = [] if switch_node is None else [body.nodes[u] for u in body.users.get(switch_node.name, ())]
        for end in ends:
            if end.op in _EXITS and end.name != g.node.name and end.name not in g.scope.done:
                g.scope.put((end.name, 0), value)
                g.scope.done.add(end.name)
    own = next(k for k, merge in enumerate(loop.merges) if loop.switch(body, merge) is last)
    return [results[own]]


def _loop(g: Context, body: Body, condition: Node) -> _Loop:
    switches = [n for name in body.users.get(condition.name, ()) if (n := body.nodes[name]).op in _SWITCHES]
    merges = tuple(body.node(n.inputs[0][0]) for n in switches)
    if condition.op != "LoopCond" or not merges or any(m.op not in _MERGES or len(m.inputs) != 2 for m in merges):
        raise g.unsupported("its frame has another form; expected a loop as tf.while_loop makes it")
    frame = {name for m in merges if (name := body.node(m.inputs[0][0]).attributes.get("frame_name"))}
    others = [n for n in body.nodes.values() if n.op in _MERGES and n not in merges and body.nodes.get(n.inputs[0][0]) is not None
              and body.nodes[n.inputs[0][0]].op in _ENTERS and body.nodes[n.inputs[0][0]].attributes.get("frame_name") in frame]
    merges = (*merges, *others)
    own = {n.name for n in switches}
    inner = _reached(body, [m.name for m in merges], lambda n: n.op in _EXITS and n.inputs[0][0] in own)
    return _Loop(merges, condition, inner)


def _repeated(g: Context, body: Body, loop: _Loop) -> list[Operand]:
    evaluate = g.scope.state.evaluate
    starts = evaluate(g.scope, [m.inputs[0] for m in loop.merges], ())
    ends = [body.node(m.inputs[1][0]).inputs[0] for m in loop.merges]

    def in_round(inner: Context, values: Sequence[Operand], wanted: Sequence[Ref]) -> list[Operand]:
        scope = inner.scope.inlined(inner.scope.prefix)
        scope.body, scope.own = g.scope.body, loop.inner
        for merge, value in zip(loop.merges, values):
            scope.put((merge.name, 0), value)
            scope.done.add(merge.name)
        return evaluate(scope, wanted, ())

    def one_round(inner: Context, values: Sequence[Operand]) -> list[Operand]:
        return in_round(inner, values, ends)

    def goes_on(inner: Context, values: Sequence[Operand]) -> list[Operand]:
        return in_round(inner, values, [(loop.condition.name, 0)])

    operands = settled(g, starts, one_round)
    return repeat(g, operands, goes_on, one_round, lambda inner, part, values: part(inner, values), (), [False] * len(starts))
