"""Layered drawings: rows, order and coordinates of random graphs and of small known ones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge.view import layers
from forge.view.layers import arrange, coordinates, spread

few = settings(max_examples=150)

EDGES = st.integers(1, 24).flatmap(lambda n: st.tuples(
    st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] != e[1]), unique=True)))


@few
@given(EDGES)
def test_every_item_has_one_place_and_edges_lead_down_through_all_rows(graph: tuple[int, list[layers.Edge]]) -> None:
    items, edges = graph
    arrangement = arrange(items, edges)
    cells = [c for row in arrangement.rows for c in row]
    assert sorted(cells) == list(range(arrangement.cells))
    row_of = {c: k for k, row in enumerate(arrangement.rows) for c in row}
    for a, b in edges:
        upper, lower = (b, a) if (a, b) in arrangement.reversed else (a, b)
        rows = [row_of[c] for c in (upper, *arrangement.chains[a, b], lower)]
        assert rows == list(range(rows[0], rows[-1] + 1))


@few
@given(EDGES, st.data())
def test_cells_of_a_row_keep_order_and_distance(graph: tuple[int, list[layers.Edge]], data: st.DataObject) -> None:
    items, edges = graph
    extents = [(float(data.draw(st.integers(1, 90))), float(data.draw(st.integers(1, 90)))) for _ in range(items)]
    arrangement = arrange(items, edges)
    x = coordinates(arrangement, extents)
    assert np.isfinite(x).all()
    for row in arrangement.rows:
        boxes = [(x[c] - extents[c][0], x[c] + extents[c][1]) for c in row if c < items]
        assert all(right < left for (_, right), (left, _) in pairwise(boxes))


def test_a_graph_without_cycles_has_no_edge_upwards_and_a_cycle_one() -> None:
    chain = [(0, 1), (1, 2), (2, 3)]
    assert not arrange(4, [*chain, (0, 3)]).reversed
    assert arrange(4, [*chain, (3, 1)]).reversed == {(3, 1)}


def test_crossings_that_can_be_avoided_are() -> None:
    arrangement = arrange(6, [(0, 5), (1, 4), (2, 3)])
    upper, lower = arrangement.rows
    assert [{0: 5, 1: 4, 2: 3}[c] for c in upper] == lower


def test_a_chain_is_straight_beside_its_shortcut() -> None:
    arrangement = arrange(4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    x = coordinates(arrangement, [(30.0, 30.0)] * 4)
    assert x[1] == pytest.approx(x[2])
    assert len(arrangement.chains[0, 3]) == 2


def test_ports_stand_in_the_outermost_rows() -> None:
    arrangement = arrange(4, [(2, 0), (0, 1), (1, 3), (0, 3)], first=frozenset([2]), last=frozenset([3]))
    assert (arrangement.rows[0], arrangement.rows[-1]) == ([2], [3])


def test_edges_that_need_too_many_bends_are_straight(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = [(k, k + 1) for k in range(40)] + [(0, 20), (1, 40)]
    monkeypatch.setattr(layers, "MAX_BENDS", 20)
    arrangement = arrange(41, edges)
    assert len(arrangement.chains[0, 20]) == 19
    assert arrangement.chains[1, 40] == ()
    assert arrangement.cells == 41 + 19


@few
@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(0.5, 9), st.floats(0, 50)), min_size=1, max_size=9))
def test_spread_is_the_least_squares_solution(rows: list[tuple[float, float, float]]) -> None:
    wanted, weights, distances = (list(column) for column in zip(*rows))
    x = spread(wanted, weights, distances[1:])
    assert all(b - a >= d - 1e-6 for a, b, d in zip(x, x[1:], distances[1:]))
    cost = sum(w * (v - t) ** 2 for v, t, w in zip(x, wanted, weights))
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = np.array(x) + rng.normal(0, 1, len(x))
        if all(b - a >= d for a, b, d in zip(other, other[1:], distances[1:])):
            assert sum(w * (v - t) ** 2 for v, t, w in zip(other, wanted, weights)) >= cost - 1e-6 * (1 + cost)
