"""A scene as one HTML page that needs nothing else: ``page.js`` draws it, ``page.css`` styles it.

Model files are hostile: their texts reach the page as JSON in which no character can end the element, scripts put them into the
document as text only, and the page's policy allows no other script and no address.
"""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from importlib import resources
from typing import Any

from forge._version import __version__
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Node, Value
from forge.view import facts, layers
from forge.view.scene import Box, Scene, SceneScope, build

FIRST_SEEN = 80
"""Boxes that a page shows before anything is opened, about."""


def page(module: Module, name: str) -> str:
    """The page of a module; ``name`` is its title."""
    return document(f"{name}: graph", _resource("page.css"), _resource("page.html"), _resource("page.js"), data(module, name))


def document(title: str, style: str, body: str, script: str, content: Any = None) -> str:
    """An HTML page of these parts; ``content`` is what the script finds as JSON in the element ``data``.

    The page may run ``script`` and nothing else, and load nothing.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src 'sha256-{digest}'"
    embedded = "" if content is None else f'<script type="application/json" id="data">{embeddable(content)}</script>'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><meta name="generator" content="forge {__version__}">'
        f"<title>{escape(printable(title))}</title><style>{style}</style></head>"
        f"<body>{body}{embedded}<script>{script}</script></body></html>"
    )


def embeddable(content: Any) -> str:
    """JSON that can stand in a ``script`` element."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def printable(text: str) -> str:
    """``text`` with what neither HTML nor XML can hold replaced."""
    return "".join(c if _is_valid(ord(c)) else "\ufffd" for c in text)


def _is_valid(code: int) -> bool:
    return code in (9, 10, 13) or 32 <= code < 127 or 160 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or code >= 0x10000


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def data(module: Module, name: str) -> dict[str, Any]:
    """All that the page shows."""
    scene = build(module)
    links = _Links(scene)
    return {
        "name": name,
        "graphs": [_graph(scene, n, module.graphs[n]) for n in scene.graphs],
        "docs": {b.node.op: facts.documentation(b.node) for b in scene.boxes if b.node is not None},
        "open": {str(s): ["/".join(map(str, p)) for p in scene.opened(s, FIRST_SEEN)] for s in scene.graphs.values()},
        "categories": {key.value: {"label": label, "color": color} for key, (label, color) in facts.CATEGORIES.items()},
        "values": [{"name": facts.clipped(v.name), "type": facts.short_type(v.type)} for v in scene.values],
        "boxes": [_box(scene, links, k) for k in range(len(scene.boxes))],
        "scopes": [_scope(scene, scope) for scope in scene.scopes],
    }


def _graph(scene: Scene, name: str, graph: Graph) -> dict[str, Any]:
    nodes = [n for n in graph.nodes if n.op != "constant"]
    return {"name": name, "scope": scene.graphs[name], "nodes": len(nodes), "operators": facts.histogram([*graph.walk()]),
            "cost": scene.costs[name].facts()}


def _scope(scene: Scene, scope: SceneScope) -> dict[str, Any]:
    """Rows of cells ``[kind, number, x]``; edges ``[from, to, bends, values, reversed]`` between cells, counted row by row."""
    arrangement = scope.arrangement
    x = layers.coordinates(arrangement, scene.closed_extents(scope))
    order = {cell: k for k, cell in enumerate(c for row in arrangement.rows for c in row)}
    rows = [[[*_cell(scope, cell), round(x[cell], 1)] for cell in row] for row in arrangement.rows]
    edges = []
    for (a, b), values in scope.item_edges.items():
        chain = [order[c] for c in arrangement.chains[a, b]]
        edges.append([order[a], order[b], chain, values, int((a, b) in arrangement.reversed)])
    return {"title": facts.clipped(scope.title), "owner": scope.owner, "rows": rows, "edges": edges}


def _cell(scope: SceneScope, cell: int) -> tuple[str, int]:
    """``b`` and the number of a box, ``i`` or ``o`` and the value of a port, or ``.`` for a bend."""
    if cell < len(scope.boxes):
        return "b", scope.boxes[cell]
    if cell - len(scope.boxes) < len(scope.ports):
        comes_in, value = scope.ports[cell - len(scope.boxes)]
        return "i" if comes_in else "o", value
    return ".", 0


class _Links:
    """From values and nodes to the boxes that stand for them."""

    def __init__(self, scene: Scene) -> None:
        self.of_node: dict[Node, int] = {}
        self.of_input: dict[Value, int] = {}
        self.of_output: dict[Value, list[int]] = {}
        for number, box in enumerate(scene.boxes):
            if box.node is not None:
                self.of_node[box.node] = number
            elif box.kind == "input" and box.value is not None:
                self.of_input[box.value] = number
            elif box.kind == "output" and box.value is not None:
                self.of_output.setdefault(box.value, []).append(number)

    def source(self, value: Value) -> int | None:
        return self.of_node.get(value.producer) if value.producer is not None else self.of_input.get(value)

    def users(self, value: Value) -> list[int]:
        found = dict.fromkeys(self.of_node[node] for node, _ in value.uses if node in self.of_node)
        return [*found, *self.of_output.get(value, ())]


def _box(scene: Scene, links: _Links, number: int) -> dict[str, Any]:
    box = scene.boxes[number]
    made: dict[str, Any] = {"kind": box.kind, "label": box.label, "lines": box.lines, "scope": box.scope,
                            "w": box.width, "h": box.height}
    if box.inside is not None:
        made["inside"] = box.inside
    if box.node is not None:
        made |= {"category": box.node.op_def.category.value, **_node(scene, links, box.node)}
    elif box.value is not None:
        made |= {"name": facts.clipped(box.value.name), **_ends(links, box)}
    else:
        made |= _group(scene, box)
    return made


def _ends(links: _Links, box: Box) -> dict[str, Any]:
    assert box.value is not None
    described = facts.value_facts(box.value)
    if box.kind == "input":
        return {"results": [{**described, "to": links.users(box.value)}]}
    return {"operands": [{**described, "formal": "output", "from": links.source(box.value)}]}


def _node(scene: Scene, links: _Links, node: Node) -> dict[str, Any]:
    operands = [
        {"formal": facts.operand_name(node, k), **facts.value_facts(v, scene.bound), "from": links.source(v)}
        for k, v in enumerate(node.operands) if v is not None
    ]
    return {
        "op": node.op,
        "name": facts.clipped(node.name),
        "place": facts.clipped(node.location),
        "attributes": facts.attributes(node),
        "operands": operands,
        "results": [{**facts.value_facts(v), "to": links.users(v)} for v in node.results],
        "cost": scene.cost(node).facts(),
    }


def _group(scene: Scene, box: Box) -> dict[str, Any]:
    cost = facts.total(map(scene.cost, box.members))
    return {"nodes": len(box.members), "operators": facts.histogram(box.members), "cost": cost.facts()}
