"""Which tensors of a checkpoint variables get: what the program that restores them says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from forge.frontends.tensorflow.model import Body, Constant, FunctionName, Node, Ref, TensorFlowModel

_ASSIGNS = ("Assign", "AssignVariableOp")
_PASSES = ("Identity", "Cast")
_CONTENTS = "VARIABLE_VALUE"


def checkpoint_keys(model: TensorFlowModel, restore: str) -> dict[str, str]:
    """Names of variables -> keys in the checkpoint.

    Args:
        restore: the node that runs to restore all.
    """
    found: dict[str, str] = {}
    texts: dict[Constant, list[str]] = {}
    if restore not in model.main.nodes:
        return found
    for body, assign, handles in _assignments(model, restore):
        key = _key(body, assign.inputs[1], texts) if len(assign.inputs) == 2 else None
        handle = handles.get(assign.inputs[0][0], assign.inputs[0][0]) if assign.inputs else ""
        variable = model.main.nodes.get(handle)
        if key is not None and variable is not None:
            found[variable_name(variable)] = key
    return found


def object_keys(saved: Any, stored: Any) -> dict[str, str]:
    """Names of variables -> keys in the checkpoint, by where they are in the model.

    Args:
        saved: the ``SavedObjectGraph`` of the model; stored: the ``TrackableObjectGraph`` of the checkpoint.
    """
    found: dict[str, str] = {}
    pending, seen = [(0, 0)], set[int]()
    while pending:
        number, other = pending.pop()
        if number in seen or not (0 <= number < len(saved.nodes) and 0 <= other < len(stored.nodes)):
            continue
        seen.add(number)
        node, twin = saved.nodes[number], stored.nodes[other]
        if node.WhichOneof("value") == "variable":
            keys = [a.checkpoint_key for a in twin.attributes if a.name == _CONTENTS]
            found |= {node.variable.name: key for key in keys[:1]}  # noqa: B035
        places = {child.local_name: child.node_id for child in twin.children}
        pending += [(c.node_id, places[c.local_name]) for c in node.children if c.local_name in places]
    return found


def variable_name(node: Node) -> str:
    """What a variable is called by all nodes that stand for it."""
    shared = node.attributes.get("shared_name")
    return shared if isinstance(shared, str) and shared else node.name


def _assignments(model: TensorFlowModel, restore: str) -> Iterator[tuple[Body, Node, dict[str, str]]]:
    """Nodes that write variables, the graphs that they are in, and for arguments of these the nodes that they stand for."""
    pending, seen = [restore], set[str]()
    while pending:
        name = pending.pop()
        node = model.main.nodes.get(name)
        if node is None or name in seen:
            continue
        seen.add(name)
        pending += node.controls
        if node.op in _ASSIGNS:
            yield model.main, node, {}
        called = node.attributes.get("f")
        if isinstance(called, FunctionName) and called.name in model.library:
            body = model.function(called.name)
            handles = {a.name: ref[0] for a, ref in zip(body.arguments, node.inputs)}
            for inner in body.nodes.values():
                if inner.op in _ASSIGNS:
                    yield body, inner, handles


def _key(body: Body, ref: Ref, texts: dict[Constant, list[str]]) -> str | None:
    """The name of the tensor that is read from the checkpoint; ``texts`` are constants that were read already."""
    for _ in range(len(body.nodes)):
        node = body.nodes.get(ref[0])
        if node is None or not node.inputs:
            return None
        if node.op in _PASSES:
            ref = node.inputs[0]
            continue
        if node.op != "RestoreV2" or len(node.inputs) < 2:
            return None
        names = body.nodes.get(node.inputs[1][0])
        value = None if names is None else names.attributes.get("value")
        if isinstance(value, Constant) and value not in texts:
            texts[value] = [str(text) for text in value.array().reshape(-1)]
        keys = texts.get(value, []) if isinstance(value, Constant) else []
        return keys[ref[1]] if ref[1] < len(keys) else None
    return None
