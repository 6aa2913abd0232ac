"""Groups of nodes: by the scopes in their names, and by order where a group would be too large to draw."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from forge.ir.nodes import Node

DEEPEST = 12
"""Levels of groups; what is nested deeper lies in the last one."""

LARGEST = 300
"""Entries of a group that are drawn next to each other; larger groups are cut into parts of a third."""

Scopes = tuple[str, ...]

_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")


@dataclass
class NameGroup:
    """A group of nodes and groups, in order of their first node."""

    label: str
    entries: list[Node | NameGroup] = field(default_factory=list)


def scope_of(node: Node) -> Scopes:
    """The names of the scopes that ``node`` is in: of its place in the model it came from, or of its own name."""
    text = node.location or node.name or next((v.name for v in node.results if v.name), "")
    if "/" in text:
        parts = text.split("/")[:-1]
    else:
        parts = text.split(".")[:-1] if _DOTTED.fullmatch(text) else []
    return tuple(p for p in parts if p)[:DEEPEST]


def scopes(nodes: Sequence[Node]) -> list[Scopes]:
    """The scopes of ``nodes``, which are in topological order.

    A node that lies between nodes of one scope inside its own is put there: an operator that lost its name, mostly, and a cycle
    between the scope and the node otherwise.
    """
    own = {node: scope_of(node) for node in nodes}
    above: dict[Node, Scopes] = {}  # where a node is, or what is above it, if it says nothing
    below: dict[Node, Scopes] = {}
    readers = {node: [user for user in node.succ if user in own] for node in nodes}
    for node in nodes:
        above[node] = own[node] or _common([above.get(p, ()) for p in node.pred if p.op != "constant"])
    for node in reversed(nodes):
        below[node] = own[node] or _common([below[user] for user in readers[node]])
    found = []
    for node in nodes:
        before = [above.get(p, ()) for p in node.pred if p.op != "constant"]
        between = _common([*before, *(below[user] for user in readers[node])]) if before and readers[node] else ()
        is_inside = len(between) > len(own[node]) and between[: len(own[node])] == own[node]
        found.append(between if is_inside and not _reads_input(node) else own[node])
    return found


def _reads_input(node: Node) -> bool:
    return any(value is not None and value.producer is None for value in node.operands)


def _common(paths: Sequence[Scopes]) -> Scopes:
    """The longest beginning of all."""
    if not paths:
        return ()
    low, high = min(paths), max(paths)
    same = next((k for k, (a, b) in enumerate(zip(low, high)) if a != b), min(len(low), len(high)))
    return low[:same]


def grouped(nodes: Sequence[Node]) -> list[Node | NameGroup]:
    """The top level of the groups. Scopes with one entry are not groups; names of scopes with one scope inside are joined."""
    root = NameGroup("")
    known: dict[Scopes, NameGroup] = {(): root}
    for node, path in zip(nodes, scopes(nodes)):
        for depth in range(1, len(path) + 1):
            if path[:depth] not in known:
                known[path[:depth]] = NameGroup(_label(path[:depth]))
                known[path[: depth - 1]].entries.append(known[path[:depth]])
        known[path].entries.append(node)
    _simplify(root)
    return root.entries


def _label(path: Scopes) -> str:
    """The last name; a number after the name of what it counts."""
    return f"{path[-2]}.{path[-1]}" if path[-1].isdigit() and len(path) > 1 else path[-1]


def _simplify(group: NameGroup) -> None:
    for k, entry in enumerate(group.entries):
        while isinstance(entry, NameGroup) and len(entry.entries) == 1:
            (only,) = entry.entries
            if isinstance(only, NameGroup):
                only.label = f"{entry.label}/{only.label}"
            entry = only
        if isinstance(entry, NameGroup):
            _simplify(entry)
        group.entries[k] = entry
    while len(group.entries) > LARGEST:
        group.entries = _parts(group.entries)


def _parts(entries: list[Node | NameGroup]) -> list[Node | NameGroup]:
    size = LARGEST // 3
    starts = range(0, len(entries), size)
    return [NameGroup(f"part {k + 1} of {len(starts)}", entries[s : s + size]) for k, s in enumerate(starts)]
