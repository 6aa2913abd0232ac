"""Which operators a program has, and which of them can be loaded."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from forge.frontends.support import CONVERTER, FUNCTION, MISSING, Use
from forge.frontends.tensorflow.model import Body, TensorFlowModel, needs
from forge.frontends.tensorflow.registry import REGISTRY
from forge.frontends.tensorflow.resources import functions_of


def used_operators(
    model: TensorFlowModel, wanted: Iterable[str] | None = None, inputs: Collection[str] = frozenset()
) -> list[Use]:
    """Operators of what nodes of the main graph need, functions included, in order of first use; of the whole graph for None.

    Args:
        inputs: nodes that callers give, so that what these need does not count.
    """
    found: dict[str, Use] = {}
    names: Iterable[str] = model.main.nodes if wanted is None else _needed(model.main, wanted, inputs)
    pending: list[tuple[Body, Iterable[str]]] = [(model.main, names)]
    seen = set[str]()
    while pending:
        body, names = pending.pop()
        for name in names:
            node = body.nodes.get(name)
            if node is None:
                continue
            is_known = node.op == "Const" or REGISTRY.lookup("", node.op, 1) is not None
            how = CONVERTER if is_known else FUNCTION if node.op in model.library else MISSING
            found.setdefault(node.op, Use("", node.op, 0, how, name)).count += 1
            for called in functions_of(node):
                if called in model.library and called not in seen:
                    seen.add(called)
                    inner = model.function(called)
                    results = [ref[0] for ref in inner.results.values()]
                    pending.append((inner, _needed(inner, [*results, *inner.effects])))
    return list(found.values())


def _needed(body: Body, wanted: Iterable[str], inputs: Collection[str] = frozenset()) -> list[str]:
    """Nodes that others need, without inputs and what these need."""
    pending, seen = list(wanted), dict[str, None]()
    while pending:
        name = pending.pop()
        if name in seen or name in inputs or name not in body.nodes:
            continue
        seen[name] = None
        pending += needs(body, body.nodes[name])
    return [name for name in body.nodes if name in seen]
