"""A scene as a still picture: SVG for notebooks and documents, light or dark as its surroundings ask."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path

from forge import files
from forge.errors import OptionError
from forge.ir.graph import Module
from forge.view import facts
from forge.view.drawing import Drawing, Line, PlacedBox, draw
from forge.view.page import printable
from forge.view.scene import LABEL_HEIGHT, LINE_HEIGHT, Box, Scene, build

_MARGIN = 14.0
_STYLE = """
.forge-graph{--ground:#fff;--surface:#fff;--ink:#1d2129;--muted:#626b7a;--rim:#d5d9e0;--edge:#98a2b3;--group:rgb(60 80 120/5%);
font:11px system-ui,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;max-width:100%;height:auto}
@media (prefers-color-scheme:dark){.forge-graph{--ground:#14161a;--surface:#1e2127;--ink:#e6e8ec;
--muted:#98a1b0;--rim:#454c59;--edge:#6d7789;--group:rgb(160 180 220/7%)}}
.forge-graph .ground{fill:var(--ground)}.forge-graph .edge{fill:none;stroke:var(--edge);stroke-width:1.3}
.forge-graph .tip{fill:var(--edge)}
.forge-graph .frame{fill:var(--group);stroke:var(--rim)}.forge-graph .body{fill:var(--surface);stroke:var(--rim)}
.forge-graph .label{font-size:13px;font-weight:600;fill:var(--ink)}.forge-graph .white{fill:#fff}
.forge-graph .line{fill:var(--muted)}.forge-graph .out{fill:var(--ink)}
"""


class Plot:
    """A picture of a graph; notebooks show it. ``svg`` is its text."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes an SVG file, ``.svg``.

        Raises:
            OptionError: the path has another ending, or is none; OutputPathError: it cannot be written.
        """
        with files.writing("plot", path):
            if Path(path).suffix.lower() != ".svg":
                hint = "browsers and drawing programs open it, and turn it into other formats"
                raise OptionError(f"plot: got {os.fspath(path)!r}; expected a path that ends in .svg; {hint}")
            Path(path).write_text(self.svg, encoding="utf-8")

    def __repr__(self) -> str:
        return f"<forge.view.Plot: SVG of {len(self.svg)} characters; save(path) writes it>"


def plot(module: Module, graph: str = "main", max_nodes: int = 200) -> Plot:
    """A picture of one graph; groups stay closed where more than ``max_nodes`` boxes would be seen.

    Raises:
        OptionError: there is no such graph, or its outermost boxes alone are more than ``max_nodes``.
    """
    if isinstance(max_nodes, bool) or not isinstance(max_nodes, int) or max_nodes < 1:
        raise OptionError(f"plot: max_nodes: got {max_nodes!r}; expected a positive integer")
    if isinstance(graph, str) and graph == "main":
        graph = next(iter(module.public))
    if not isinstance(graph, str) or graph not in module.graphs:
        raise OptionError(f"plot: graph: got {graph!r}; expected one of: {', '.join(module.graphs)}")
    scene = build(module)
    root = scene.graphs[graph]
    outermost = len(scene.scopes[root].boxes)
    if outermost > max_nodes:
        raise OptionError(f"plot: got max_nodes={max_nodes}; expected at least {outermost}, the outermost boxes of @{graph}; "
                          "'forge view' makes a page that can be searched")
    return Plot(render(scene, draw(scene, root, set(scene.opened(root, max_nodes))), f"graph @{graph}"))


def render(scene: Scene, drawing: Drawing, title: str) -> str:
    """The SVG text of a drawing."""
    width, height = drawing.width + 2 * _MARGIN, drawing.height + 2 * _MARGIN
    frames = [_frame(scene.boxes[i.box], i) for i in drawing.items if i.opened]
    boxes = [_box(scene.boxes[i.box], i) for i in drawing.items if not i.opened]
    lines = [_line(line) for line in drawing.lines]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="forge-graph" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-_MARGIN:.0f} {-_MARGIN:.0f} {width:.0f} {height:.0f}" role="img">'
        f"<title>{_escaped(title)}</title><style>{_STYLE}</style>{_TIP}"
        f'<rect class="ground" x="{-_MARGIN:.0f}" y="{-_MARGIN:.0f}" width="{width:.0f}" height="{height:.0f}" rx="8"/>'
        f"{''.join([*frames, *lines, *boxes])}</svg>"
    )


_TIP = (
    '<defs><marker id="forge-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto-start-reverse"><path class="tip" d="M0,.8L8,4L0,7.2z"/></marker></defs>'
)


def _escaped(text: str) -> str:
    return escape(printable(text))


def _line(line: Line) -> str:
    place = "start" if line.leads_up else "end"
    tip = f' marker-{place}="url(#forge-tip)"' if line.has_arrow else ""
    return f'<path class="edge" d="{line.path}"{tip}/>'


def _frame(box: Box, item: PlacedBox) -> str:
    return (
        f'<g transform="translate({item.x:.1f},{item.y:.1f})">'
        f'<rect class="frame" width="{item.width:.1f}" height="{item.height:.1f}" rx="10"/>'
        f'<text class="label" x="12" y="18">{_escaped(box.label)}</text></g>'
    )


def _box(box: Box, item: PlacedBox) -> str:
    width, height = item.width, item.height
    radius = 12 if box.kind in ("input", "output") else 6
    parts = []
    if box.inside is not None:
        parts.append(f'<rect class="body" x="4" y="4" width="{width:.0f}" height="{height:.0f}" rx="{radius}"/>')
    parts.append(f'<rect class="body" width="{width:.0f}" height="{height:.0f}" rx="{radius}"/>')
    if box.category:
        head = LABEL_HEIGHT if box.lines else height
        parts.append(_head(width, head, radius, not box.lines, facts.CATEGORIES[box.category][1]))
    parts.append(f'<text class="label{" white" if box.category else ""}" x="10" y="17">{_escaped(box.label)}</text>')
    for k, line in enumerate(box.lines):
        kind = "line out" if line.startswith("→") else "line"
        parts.append(f'<text class="{kind}" x="10" y="{LABEL_HEIGHT + 14 + k * LINE_HEIGHT:.0f}">{_escaped(line)}</text>')
    name = box.node.name if box.node is not None else box.label
    title = f"<title>{_escaped(facts.clipped(name))}</title>" if name else ""
    return f'<g transform="translate({item.x:.1f},{item.y:.1f})">{title}{"".join(parts)}</g>'


def _head(width: float, height: float, radius: int, is_whole: bool, colour: str) -> str:
    if is_whole:
        return f'<rect width="{width:.0f}" height="{height:.0f}" rx="{radius}" fill="{colour}"/>'
    corner = f"a{radius},{radius} 0 0 1"
    path = f"M0,{height:.0f}V{radius}{corner} {radius},-{radius}H{width - radius:.0f}{corner} {radius},{radius}V{height:.0f}z"
    return f'<path d="{path}" fill="{colour}"/>'
