"""A module as nested drawings: boxes in scopes, and edges between boxes of one scope.

An edge between boxes of different scopes is cut at the borders: it leads from a box to the ``out`` port of its scope, between the
boxes around both in the scope that they share, and from an ``in`` port to the box that reads. Constants are lines of the boxes
that read them. Functions are scopes of their own, entered from every call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from forge.ir.graph import Graph, Module
from forge.ir.nodes import Node, Value
from forge.ir.op import Category
from forge.view import facts, layers
from forge.view.names import NameGroup, grouped

LABEL_CHARACTER = 8.4
LINE_CHARACTER = 6.7
LABEL_HEIGHT = 24.0
LINE_HEIGHT = 15.0
_PADDING = 22.0
PORT_WIDTH = 8.0
_NARROWEST = 56.0
_LONGEST_LABEL = 34
_LONGEST_LINE = 42


@dataclass
class Box:
    """What is drawn as one: a node, a group of nodes, an input or an output.

    Attributes:
        kind: "node", "group", "input" or "output".
        lines: below the label.
        scope: number of the scope that it is in.
        inside: number of the scope that it opens to, if it does.
    """

    kind: str
    label: str
    lines: list[str]
    scope: int
    node: Node | None = None
    value: Value | None = None
    inside: int | None = None
    members: list[Node] = field(default_factory=list)

    @property
    def category(self) -> Category | None:
        """Of the node's operator."""
        return None if self.node is None else self.node.op_def.category

    @cached_property
    def width(self) -> float:
        """When it is closed."""
        badge = 20.0 if self.inside is not None else 0.0
        longest = max((len(line) for line in self.lines), default=0)
        return round(max(_NARROWEST, len(self.label) * LABEL_CHARACTER + badge, longest * LINE_CHARACTER) + _PADDING)

    @cached_property
    def height(self) -> float:
        return LABEL_HEIGHT + (len(self.lines) * LINE_HEIGHT + 6 if self.lines else 0)


@dataclass
class SceneScope:
    """Boxes that are drawn next to each other.

    Attributes:
        owner: the box that opens to it; of a function the first one; None for a graph that nothing calls.
        edges: numbers of values by pairs of boxes.
        ins, outs: for each value that crosses the border, the boxes that read it, and the box that it comes from.
    """

    number: int
    title: str
    owner: int | None = None
    boxes: list[int] = field(default_factory=list)
    edges: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    ins: dict[int, list[int]] = field(default_factory=dict)
    outs: dict[int, int] = field(default_factory=dict)

    @cached_property
    def ports(self) -> list[tuple[bool, int]]:
        """Of values, whether they come in, in the order of the items after the boxes."""
        return [*((True, v) for v in self.ins), *((False, v) for v in self.outs)]

    @cached_property
    def item_edges(self) -> dict[tuple[int, int], list[int]]:
        """Numbers of values by pairs of items. Items are the boxes, then the ports."""
        position = {box: k for k, box in enumerate(self.boxes)}
        found = {(position[a], position[b]): values for (a, b), values in self.edges.items()}
        for k, (comes_in, value) in enumerate(self.ports, len(self.boxes)):
            if comes_in:
                found.update({(k, position[b]): [value] for b in self.ins[value]})
            else:
                found[position[self.outs[value]], k] = [value]
        return found

    @cached_property
    def arrangement(self) -> layers.Arrangement:
        """Items in rows."""
        start = len(self.boxes)
        first = frozenset(range(start, start + len(self.ins)))
        last = frozenset(range(start + len(self.ins), start + len(self.ports)))
        return layers.arrange(start + len(self.ports), list(self.item_edges), first, last)


@dataclass
class Scene:
    """All boxes and scopes of a module.

    Attributes:
        graphs: the scope of each graph, by name; ``costs`` what each costs.
        bound: inputs that the module's ``params`` give; they are drawn as constants.
    """

    boxes: list[Box]
    scopes: list[SceneScope]
    values: list[Value]
    graphs: dict[str, int]
    costs: dict[str, facts.Cost]
    bound: dict[Value, np.ndarray] = field(default_factory=dict)
    node_costs: dict[Node, facts.Cost] = field(default_factory=dict)

    def cost(self, node: Node) -> facts.Cost:
        """What one evaluation of ``node`` costs."""
        if node not in self.node_costs:
            self.node_costs[node] = facts.cost_of(node, self.costs, self.bound)
        return self.node_costs[node]

    def closed_extents(self, scope: SceneScope) -> list[layers.Extent]:
        """Of the items of ``scope`` with every box closed."""
        widths = [*(self.boxes[b].width for b in scope.boxes), *[PORT_WIDTH] * len(scope.ports)]
        return [(w / 2, w / 2) for w in widths]

    def opened(self, root: int, most: int) -> list[tuple[int, ...]]:
        """Paths of boxes from scope ``root`` to open so that at most ``most`` boxes are seen, or as many as the outermost are.

        Outer ones come first, and all or none of those that lie next to each other, but for those that are too large alone.
        """
        found: list[tuple[int, ...]] = []
        seen = len(self.scopes[root].boxes)
        level: list[tuple[int, tuple[int, ...]]] = [(root, ())]
        while level:
            following = []
            for scope, path in level:
                inside = [(b, i) for b in self.scopes[scope].boxes if (i := self.boxes[b].inside) is not None]
                sizes = {b: len(self.scopes[i].boxes) for b, i in inside if len(self.scopes[i].boxes) <= most}
                if seen + sum(sizes.values()) > most:
                    continue
                seen += sum(sizes.values())
                found += [(*path, b) for b in sizes]
                following += [(i, (*path, b)) for b, i in inside if b in sizes]
            level = following
        return found


def build(module: Module) -> Scene:
    """The scene of all graphs of ``module``."""
    builder = _Builder(module)
    for name in module.graphs:
        builder.graph(name)
    return builder.scene


class _Builder:
    def __init__(self, module: Module) -> None:
        self.module = module
        bound = {v: g.params[v.name] for g in module.public.values() for v in g.inputs if v.name in g.params}
        self.scene = Scene([], [], [], {}, {}, bound)
        self.home: dict[Node, int] = {}
        self.numbers: dict[Value, int] = {}
        self.pending: set[str] = set()

    def graph(self, name: str) -> int | None:
        """The scope of a function, which is built when it is first met; None inside of itself."""
        if name in self.pending or name not in self.module.graphs:
            return None
        if name not in self.scene.graphs:
            self.pending.add(name)
            graph = self.module.graphs[name]
            scope = self.body(graph, f"@{name}", None)
            self.scene.graphs[name] = scope
            self.scene.costs[name] = facts.total(self.scene.cost(n) for n in graph.nodes if n.op != "constant")
            self.pending.discard(name)
        return self.scene.graphs[name]

    def body(self, graph: Graph, title: str, owner: int | None) -> int:
        """The scope of a whole graph, with boxes for its inputs and outputs."""
        scope = self.scope(title, owner)
        sources: dict[Value, int] = {}
        for value in (v for v in graph.inputs if v not in self.scene.bound):
            sources[value] = self.box(scope, Box("input", _label(value.name or "input"), [facts.short_type(value.type)],
                                                 scope.number, value=value))
        listed = {v.producer for v in graph.outputs}
        drawn = [n for n in graph.nodes if n.op != "constant" or n in listed]
        self.fill(scope, grouped(drawn), sources)
        for node in drawn:
            for operand in dict.fromkeys(node.operands):
                if operand is not None and operand in sources:
                    self.connect(operand, sources[operand], self.home[node])
        for name, value in zip(graph.output_names, graph.outputs):
            box = self.box(scope, Box("output", _label(name), [facts.short_type(value.type)], scope.number, value=value))
            if value in sources:
                self.connect(value, sources[value], box)
        return scope.number

    def scope(self, title: str, owner: int | None) -> SceneScope:
        made = SceneScope(len(self.scene.scopes), title, owner)
        self.scene.scopes.append(made)
        return made

    def box(self, scope: SceneScope, box: Box) -> int:
        self.scene.boxes.append(box)
        scope.boxes.append(len(self.scene.boxes) - 1)
        return scope.boxes[-1]

    def fill(self, scope: SceneScope, entries: Sequence[Node | NameGroup], sources: dict[Value, int]) -> list[Node]:
        """Adds boxes for ``entries`` to ``scope``; returns the nodes in them."""
        members: list[Node] = []
        for entry in entries:
            if isinstance(entry, Node):
                self.home[entry] = self.node(scope, entry)
                sources.update(dict.fromkeys(entry.results, self.home[entry]))
                members.append(entry)
                continue
            box = Box("group", _label(entry.label), [], scope.number)
            number = self.box(scope, box)
            inner = self.scope(entry.label, number)
            box.inside = inner.number
            box.members = self.fill(inner, entry.entries, sources)
            box.lines = [facts.group_line(box.members, facts.total(map(self.scene.cost, box.members)))]
            members += box.members
        return members

    def node(self, scope: SceneScope, node: Node) -> int:
        lines = [facts.clipped(line, _LONGEST_LINE) for line in facts.box_lines(node, self.scene.bound)]
        box = Box("node", _label(facts.short_op(node)), lines, scope.number, node)
        number = self.box(scope, box)
        if node.op == "call":
            box.label = _label(f"@{node.attrs.function}")
            box.inside = self.graph(node.attrs.function)
            if box.inside is not None and self.scene.scopes[box.inside].owner is None:
                self.scene.scopes[box.inside].owner = number
        elif node.regions:
            box.inside = self.regions(node, number)
        return number

    def regions(self, node: Node, owner: int) -> int:
        """The scope of the only region, or one with a box for each."""
        names = [*node.op_def.regions, *(f"region {k}" for k in range(len(node.op_def.regions), len(node.regions)))]
        if len(node.regions) == 1:
            return self.body(node.regions[0], names[0], owner)
        around = self.scope(node.op, owner)
        for name, region in zip(names, node.regions):
            drawn = [n for n in region.nodes if n.op != "constant"]
            line = facts.group_line(drawn, facts.total(map(self.scene.cost, drawn)))
            box = Box("group", _label(name), [line], around.number, members=drawn)
            number = self.box(around, box)
            box.inside = self.body(region, name, number)
        return around.number

    def connect(self, value: Value, source: int, user: int) -> None:
        """The edge from box ``source`` to box ``user``, cut at borders."""
        number = self.numbers.setdefault(value, len(self.scene.values))
        if number == len(self.scene.values):
            self.scene.values.append(value)
        above, below = self.ancestors(source), self.ancestors(user)
        shared = {self.scene.boxes[b].scope for b in above} & {self.scene.boxes[b].scope for b in below}
        start = next(k for k, b in enumerate(above) if self.scene.boxes[b].scope in shared)
        end = next(k for k, b in enumerate(below) if self.scene.boxes[b].scope in shared)
        for inner in above[:start]:
            self.scene.scopes[self.scene.boxes[inner].scope].outs[number] = inner
        for inner in below[:end]:
            readers = self.scene.scopes[self.scene.boxes[inner].scope].ins.setdefault(number, [])
            if inner not in readers:
                readers.append(inner)
        scope = self.scene.scopes[self.scene.boxes[above[start]].scope]
        values = scope.edges.setdefault((above[start], below[end]), [])
        if number not in values:
            values.append(number)

    def ancestors(self, box: int) -> list[int]:
        """The box and the groups around it, up to the scope of its graph."""
        found = [box]
        while True:
            owner = self.scene.scopes[self.scene.boxes[found[-1]].scope].owner
            if owner is None or self.scene.boxes[owner].inside != self.scene.boxes[found[-1]].scope:
                return found
            found.append(owner)


def _label(text: str) -> str:
    return facts.clipped(text, _LONGEST_LABEL)
