"""Where everything of a scene is, with some boxes open: what the script of the page does for the page, for still pictures."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from forge.view import layers
from forge.view.scene import PORT_WIDTH, Scene, SceneScope

ROW_GAP = 34.0
PORT_GAP = 22.0
PADDING = 16.0
HEADER = 26.0

Path = tuple[int, ...]


@dataclass(frozen=True)
class PlacedBox:
    """A box at an absolute place; ``opened`` if others are drawn in it."""

    box: int
    x: float
    y: float
    width: float
    height: float
    opened: bool


@dataclass(frozen=True)
class Line:
    """An edge as an SVG path; its arrow is at the end, at the start of one that leads upwards, and at no border of a group."""

    path: str
    has_arrow: bool
    leads_up: bool


@dataclass
class Drawing:
    """Frames before what is in them."""

    width: float
    height: float
    items: list[PlacedBox] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)


def draw(scene: Scene, root: int, opened: AbstractSet[Path]) -> Drawing:
    """The drawing of scope ``root`` with the boxes at the paths ``opened`` open."""
    placed = _Placed(scene, scene.scopes[root], (), opened)
    drawing = Drawing(placed.width, placed.height)
    placed.flatten(0.0, 0.0, drawing)
    return drawing


class _Placed:
    """A scope with coordinates from its upper left corner; ``x`` is where edges meet a cell."""

    def __init__(self, scene: Scene, scope: SceneScope, path: Path, opened: AbstractSet[Path]) -> None:
        self.scene, self.scope, self.arrangement = scene, scope, scope.arrangement
        self.inner: dict[int, _Placed] = {}
        for k, number in enumerate(scope.boxes):
            inside = scene.boxes[number].inside
            if inside is not None and (*path, number) in opened:
                self.inner[k] = _Placed(scene, scene.scopes[inside], (*path, number), opened)
        extents = self._extents()
        x = layers.coordinates(self.arrangement, extents)
        bends = [(layers.BEND_WIDTH / 2, layers.BEND_WIDTH / 2)] * (self.arrangement.cells - len(extents))
        self.extents = [*extents, *bends]
        left = min((v - near for v, (near, _) in zip(x, self.extents)), default=0.0)
        self.x = [v - left for v in x]
        self.width = max((v + far for v, (_, far) in zip(self.x, self.extents)), default=0.0)
        self._place_rows()
        start = len(scope.boxes)
        self.ports = {port: self.x[start + k] for k, port in enumerate(scope.ports)}
        self.meeting = sum(self.ports.values()) / len(self.ports) if self.ports else self.width / 2

    def _extents(self) -> list[layers.Extent]:
        found = self.scene.closed_extents(self.scope)
        for k, inner in self.inner.items():
            width = max(inner.width + 2 * PADDING, self.scene.boxes[self.scope.boxes[k]].width)
            near = inner.meeting + (width - inner.width) / 2
            found[k] = near, width - near
        return found

    def _height(self, cell: int) -> float:
        if cell >= len(self.scope.boxes):
            return 0.0
        inner = self.inner.get(cell)
        return self.scene.boxes[self.scope.boxes[cell]].height if inner is None else inner.height + HEADER + PADDING

    def _place_rows(self) -> None:
        ports = range(len(self.scope.boxes), self.arrangement.items)
        self.tops: list[float] = []
        self.bottoms: list[float] = []
        self.row_of: dict[int, int] = {}
        y = gap = 0.0
        for number, row in enumerate(self.arrangement.rows):
            is_ports = bool(row) and all(cell in ports for cell in row)
            y += PORT_GAP if is_ports and number else gap
            gap = PORT_GAP if is_ports else ROW_GAP
            self.tops.append(y)
            y += max((self._height(cell) for cell in row), default=0.0)
            self.bottoms.append(y)
            self.row_of.update(dict.fromkeys(row, number))
        self.height = y

    def _middle(self, cell: int) -> float:
        row = self.row_of[cell]
        return (self.tops[row] + self.bottoms[row]) / 2

    def flatten(self, dx: float, dy: float, drawing: Drawing) -> None:
        """Adds what is in the scope to ``drawing``, moved by ``dx`` and ``dy``."""
        for k, number in enumerate(self.scope.boxes):
            near, far = self.extents[k]
            height = self._height(k)
            x, y = dx + self.x[k] - near, dy + self._middle(k) - height / 2
            drawing.items.append(PlacedBox(number, x, y, near + far, height, k in self.inner))
            if k in self.inner:
                self.inner[k].flatten(x + (near + far - self.inner[k].width) / 2, y + HEADER, drawing)
        for (source, target), values in self.scope.item_edges.items():
            self._add_lines(source, target, values, dx, dy, drawing)

    def _add_lines(self, source: int, target: int, values: Sequence[int], dx: float, dy: float, drawing: Drawing) -> None:
        leads_up = (source, target) in self.arrangement.reversed
        upper, lower = (target, source) if leads_up else (source, target)
        ends = {(self._meeting(upper, leads_up, v), self._meeting(lower, not leads_up, v)): v for v in values}
        inner = self.inner.get(target)
        for (start, end), value in ends.items():
            to_border = target >= len(self.scope.boxes) or (inner is not None and (True, value) in inner.ports)
            path = self._path(upper, lower, self.arrangement.chains[source, target], start, end)
            drawing.lines.append(Line(_text(path, dx, dy), not to_border, leads_up))

    def _meeting(self, cell: int, comes_in: bool, value: int) -> float:
        inner = self.inner.get(cell)
        if inner is None or (comes_in, value) not in inner.ports:
            return self.x[cell]
        return self.x[cell] + inner.ports[comes_in, value] - inner.meeting

    def _path(self, upper: int, lower: int, bends: Sequence[int], start: float, end: float) -> list[tuple[float, float]]:
        """Points; the line is straight down within rows and curved between them, from every second point on."""
        is_port = upper >= len(self.scope.boxes)
        points = [(start, -HEADER if is_port else self._middle(upper) + self._height(upper) / 2)]
        points.append((start, self.bottoms[self.row_of[upper]]))
        for bend in bends:
            points += [(self.x[bend], self.tops[self.row_of[bend]]), (self.x[bend], self.bottoms[self.row_of[bend]])]
        is_port = lower >= len(self.scope.boxes)
        points.append((end, self.tops[self.row_of[lower]]))
        points.append((end, self.height + PADDING if is_port else self._middle(lower) - self._height(lower) / 2))
        return points


def _text(points: Sequence[tuple[float, float]], dx: float, dy: float) -> str:
    moved = [(x + dx, y + dy) for x, y in points]
    text = f"M{moved[0][0]:.1f},{moved[0][1]:.1f}V{moved[1][1]:.1f}"
    for (x, y), (x2, y2), (_, y3) in zip(moved[1::2], moved[2::2], moved[3::2]):
        middle = (y + y2) / 2
        text += f"C{x:.1f},{middle:.1f} {x2:.1f},{middle:.1f} {x2:.1f},{y2:.1f}"
        text += f"V{y3:.1f}" if y3 > y2 + 0.05 else ""
    return text


__all__ = ["HEADER", "PORT_WIDTH", "Drawing", "Line", "PlacedBox", "draw"]
