"""Layered drawings of directed graphs: which row each item is in, in which order, and where.

After Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system structures" (1981), with the steps as in
Gansner, Koutsofios, North and Vo, "A technique for drawing directed graphs" (1993): cycles are broken, items ranked by longest
path, long edges cut by bends (one trunk for all edges of an item), rows ordered by medians, and x chosen by least squares along
each row (pool adjacent violators). Rows and order do not depend on the sizes of items; `coordinates` does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

MAX_BENDS = 6000
"""Of one drawing; edges that would need more, the longest first, are drawn straight."""

_ORDER_SWEEPS = 8
_PLACE_SWEEPS = 14
_TO_BEND = 0.01  # small: where an edge and a box want one place, the box gets it
BEND_WIDTH = 6.0
BOX_GAP = 26.0
BEND_GAP = 12.0

Edge = tuple[int, int]
Neighbours = defaultdict[int, list[int]]
Extent = tuple[float, float]
"""How far an item reaches to the left and to the right of where its edges meet it."""


@dataclass(frozen=True)
class Arrangement:
    """Cells in rows. Cells below ``items`` are the items, the others are bends of edges.

    Attributes:
        rows: cells from left to right, rows from top to bottom.
        chains: of each edge, the bends from its upper to its lower end.
        reversed: edges that lead upwards.
    """

    items: int
    rows: list[list[int]]
    chains: dict[Edge, tuple[int, ...]]
    reversed: frozenset[Edge]
    links: dict[Edge, float] = field(default_factory=dict)  # between cells of neighbouring rows, with their pull

    @property
    def cells(self) -> int:
        return sum(map(len, self.rows))


def arrange(
    items: int, edges: Sequence[Edge], first: frozenset[int] = frozenset(), last: frozenset[int] = frozenset()
) -> Arrangement:
    """Rows and order for items 0 .. ``items`` - 1, whose numbers are their order where nothing else decides.

    Args:
        edges: pairs of different items, each pair once.
        first, last: items that stand alone in the top and bottom row.
    """
    turned = _back_edges(items, edges)
    downward = sorted({(b, a) if (a, b) in turned else (a, b) for a, b in edges})
    ranks = _ranks(items, downward, first, last)
    rows, trunks, links = _with_bends(items, downward, ranks)
    chains = {(a, b): tuple(trunks.get((b, a) if (a, b) in turned else (a, b), ())) for a, b in edges}
    return Arrangement(items, _ordered(rows, links), chains, frozenset(turned), links)


def _back_edges(items: int, edges: Sequence[Edge]) -> set[Edge]:
    """Edges without which there is no cycle: those to an item on the path of a depth-first search."""
    _, following = _neighbours(edges)
    state = [0] * items  # 1: on the path, 2: finished
    turned: set[Edge] = set()
    for root in range(items):
        stack = [] if state[root] else [(root, iter(following[root]))]
        state[root] = state[root] or 1
        while stack:
            item, pending = stack[-1]
            for other in pending:
                if state[other] == 1:
                    turned.add((item, other))
                elif state[other] == 0:
                    state[other] = 1
                    stack.append((other, iter(following[other])))
                    break
            else:
                state[item] = 2
                stack.pop()
    return turned


def _ranks(items: int, edges: Sequence[Edge], first: frozenset[int], last: frozenset[int]) -> list[int]:
    """Rows: longest paths from above; an item with fewer edges above than below moves down to what it feeds."""
    above, below = _neighbours(edges)
    order = _topological(items, above, below)
    ranks = [0] * items
    top = 1 if first else 0
    for item in order:
        ranks[item] = 0 if item in first else max([top, *(ranks[a] + 1 for a in above[item])])
    for item in reversed(order):
        if below[item] and item not in first and len(above[item]) < len(below[item]):
            ranks[item] = max(ranks[item], min(ranks[b] for b in below[item]) - 1)
    bottom = max([-1, *(ranks[i] for i in range(items) if i not in last)]) + 1
    for item in last:
        ranks[item] = bottom
    used = {rank: k for k, rank in enumerate(sorted(set(ranks)))}
    return [used[r] for r in ranks]


def _topological(items: int, above: Neighbours, below: Neighbours) -> list[int]:
    missing = [len(above[i]) for i in range(items)]
    ready = [i for i in range(items - 1, -1, -1) if not missing[i]]
    order = []
    while ready:
        item = ready.pop()
        order.append(item)
        for b in reversed(below[item]):
            missing[b] -= 1
            if not missing[b]:
                ready.append(b)
    return order


def _with_bends(
    items: int, edges: Sequence[Edge], ranks: list[int]
) -> tuple[list[list[int]], dict[Edge, list[int]], dict[Edge, float]]:
    """Rows with bends, the bends of each edge, and the links between neighbouring rows."""
    rows: list[list[int]] = [[] for _ in range(max(ranks, default=-1) + 1)]
    for item in range(items):
        rows[ranks[item]].append(item)
    trunks: dict[int, list[int]] = {}
    chains: dict[Edge, list[int]] = {}
    links: dict[Edge, float] = {}
    following = items
    for a, b in sorted(edges, key=lambda e: ranks[e[1]] - ranks[e[0]]):
        trunk = trunks.setdefault(a, [])
        needed = ranks[b] - ranks[a] - 1
        if following - items + needed - len(trunk) > MAX_BENDS:
            continue
        while len(trunk) < needed:
            upper = trunk[-1] if trunk else a
            rows[ranks[a] + len(trunk) + 1].append(following)
            links[upper, following] = 4.0 if trunk else _TO_BEND
            trunk.append(following)
            following += 1
        chains[a, b] = trunk[:needed]
        links[trunk[needed - 1] if needed else a, b] = _TO_BEND if needed else 3.0
    return rows, chains, links


def _ordered(rows: list[list[int]], links: dict[Edge, float]) -> list[list[int]]:
    """The order with the fewest crossings that sweeps by medians have found."""
    above, below = _neighbours(links)
    best, fewest = [list(row) for row in rows], _crossings(rows, below)
    current = [list(row) for row in rows]
    for sweep in range(_ORDER_SWEEPS):
        if not fewest:
            break
        downwards = sweep % 2 == 0
        for k in range(1, len(current)) if downwards else range(len(current) - 2, -1, -1):
            reference = current[k - 1] if downwards else current[k + 1]
            _sort_by_medians(current[k], reference, above if downwards else below)
        count = _crossings(current, below)
        if count < fewest:
            best, fewest = [list(row) for row in current], count
    return best


def _neighbours(links: Iterable[Edge]) -> tuple[Neighbours, Neighbours]:
    """Where links come from and where they lead, of each cell."""
    above, below = Neighbours(list), Neighbours(list)
    for a, b in links:
        above[b].append(a)
        below[a].append(b)
    return above, below


def _sort_by_medians(row: list[int], reference: list[int], neighbours: Neighbours) -> None:
    """Sorts in place; cells without neighbours keep their place."""
    position = {cell: k for k, cell in enumerate(reference)}
    medians = {}
    for cell in row:
        near = [(float(position[n]), 1.0) for n in neighbours[cell] if n in position]
        if near:
            medians[cell] = _median(near)
    moving = iter(sorted((cell for cell in row if cell in medians), key=lambda cell: medians[cell]))
    row[:] = [next(moving) if cell in medians else cell for cell in row]


def _crossings(rows: list[list[int]], below: Neighbours) -> int:
    """Pairs of links that cross: inversions, counted with a binary indexed tree."""
    total = 0
    for upper, lower in pairwise(rows):
        position = {cell: k for k, cell in enumerate(lower)}
        tree = [0] * (len(lower) + 1)
        seen = 0
        for cell in upper:
            ends = sorted(position[b] for b in below[cell] if b in position)
            for end in ends:
                k, before = end + 1, 0
                while k:
                    before += tree[k]
                    k &= k - 1
                total += seen - before
            for end in ends:
                k = end + 1
                while k <= len(lower):
                    tree[k] += 1
                    k += k & -k
            seen += len(ends)
    return total


def coordinates(arrangement: Arrangement, extents: Sequence[Extent]) -> list[float]:
    """Where the edges of each cell meet it, along x; ``extents`` are of the items. Cells of a row keep order and distance."""
    rows = arrangement.rows
    sizes = [*extents, *[(BEND_WIDTH / 2, BEND_WIDTH / 2)] * (arrangement.cells - arrangement.items)]
    above, below = _neighbours(arrangement.links)
    pulls = {**arrangement.links, **{(b, a): pull for (a, b), pull in arrangement.links.items()}}
    x = [0.0] * len(sizes)
    distances = [separations(row, sizes, arrangement.items) for row in rows]
    for row, apart in zip(rows, distances):
        _set(x, row, spread([0.0] * len(row), [1.0] * len(row), apart))
    for sweep in range(_PLACE_SWEEPS):
        downwards = sweep % 2 == 1
        before = list(x)
        for k in range(1, len(rows)) if downwards else range(len(rows) - 2, -1, -1):
            wanted, weights = [], []
            for cell in rows[k]:
                near = [(x[n], pulls[n, cell]) for n in (above if downwards else below)[cell]]
                wanted.append(_median(near) if near else x[cell])
                weights.append(sum(pull for _, pull in near) or 0.5)
            _set(x, rows[k], spread(wanted, weights, distances[k]))
        if downwards and all(abs(a - b) < 0.05 for a, b in zip(x, before)):
            break
    return x


def _median(places: list[tuple[float, float]]) -> float:
    """The place with half of the weight on each side; between two, their middle."""
    if len(places) == 1:
        return places[0][0]
    places.sort()
    half = sum(weight for _, weight in places) / 2
    passed = 0.0
    for k, (place, weight) in enumerate(places):
        passed += weight
        if passed == half:
            return (place + places[k + 1][0]) / 2
        if passed > half:
            return place
    return places[-1][0]


def separations(row: Sequence[int], extents: Sequence[Extent], items: int) -> list[float]:
    """Least distance of neighbours in a row."""
    found = []
    for left, right in pairwise(row):
        gap = BOX_GAP if left < items and right < items else BEND_GAP
        found.append(extents[left][1] + extents[right][0] + gap)
    return found


def spread(wanted: Sequence[float], weights: Sequence[float], distances: Sequence[float]) -> list[float]:
    """Positions nearest to those ``wanted``, in weighted least squares, that are at least ``distances`` apart."""
    offsets = [0.0]
    for distance in distances:
        offsets.append(offsets[-1] + distance)
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for target, weight, offset in zip(wanted, weights, offsets):
        mean, total, count = target - offset, weight, 1
        while pools and pools[-1][0] > mean:
            other, mass, members = pools.pop()
            mean = (mean * total + other * mass) / (total + mass)
            total, count = total + mass, count + members
        pools.append((mean, total, count))
    means = [mean for mean, _, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets)]


def _set(x: list[float], row: Sequence[int], values: Sequence[float]) -> None:
    for cell, value in zip(row, values):
        x[cell] = value
