"""The layout of arenas: what lives at the same time is apart at all sizes, and as close as blocks of known sizes lie."""

from __future__ import annotations

import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from forge import dims
from forge.dims import Dim
from forge.lowering import arena
from forge.lowering.arena import Block, Lives, most_live_bytes

LIVES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(1, 9)), max_size=60)


@given(LIVES)
def test_what_lives_at_the_same_time(lives: list[tuple[int, int, int]]) -> None:
    """The tree of lives against comparing all pairs."""
    blocks = [Block(size, min(a, b), max(a, b)) for a, b, size in lives]
    tree = Lives(max((b.last for b in blocks), default=0) + 1)
    for k, block in enumerate(blocks):
        together = [o for o in blocks[:k] if o.first <= block.last and block.first <= o.last]
        assert sorted(map(id, tree.overlapping(block))) == sorted(map(id, together))
        tree.add(block)
    sums = [sum(b.size for b in blocks if b.first <= step <= b.last) for step in range(41)]
    assert most_live_bytes(blocks) == max(sums)


N, M = dims.symbol("n"), dims.symbol("m")
SIZES: list[Dim] = [
    64, 640, 64 * N, 128 * N, 64 * N * M, 64 * N * dims.ceildiv(M, 2), 64 * dims.ceildiv(N * N, 64), 64 * dims.maximum(N - 5, 0),
]
SYMBOLIC_LIVES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.sampled_from(SIZES)), max_size=30)
TYPICAL = {"n": 24, "m": 24}


@example([(0, 1, SIZES[7]), (0, 1, 64)], 1, 1)
@given(SYMBOLIC_LIVES, st.integers(0, 70), st.integers(0, 70))
def test_blocks_of_a_moment_are_apart_at_all_sizes(lives: list[tuple[int, int, Dim]], n: int, m: int) -> None:
    spans = [(min(a, b), max(a, b)) for a, b, _ in lives]
    sizes = [size for *_, size in lives]
    layout, numbers = arena.plan(sizes, spans, [TYPICAL])
    offsets, total = layout.layout_at({"n": n, "m": m})
    begins = [offsets[k] for k in numbers]
    ends = [begin + dims.evaluate(size, {"n": n, "m": m}) for begin, size in zip(begins, sizes, strict=True)]
    assert total == max(ends, default=0)
    for a, b in itertools.combinations(range(len(sizes)), 2):
        if spans[a][0] <= spans[b][1] and spans[b][0] <= spans[a][1]:
            assert ends[a] <= begins[b] or ends[b] <= begins[a]


@given(SYMBOLIC_LIVES)
def test_at_typical_sizes_the_arena_is_that_of_known_sizes(lives: list[tuple[int, int, Dim]]) -> None:
    spans = [(min(a, b), max(a, b)) for a, b, _ in lives]
    sizes = [size for *_, size in lives]
    layout, numbers = arena.plan(sizes, spans, [TYPICAL])
    blocks = [Block(dims.evaluate(size, TYPICAL), first, last) for size, (first, last) in zip(sizes, spans, strict=True)]
    total = arena.place(blocks)
    offsets, size = layout.layout_at(TYPICAL)
    assert ([offsets[k] for k in numbers], size) == ([b.offset for b in blocks], total)


def test_of_equal_arenas_the_one_that_is_smaller_at_the_next_sizes_counts() -> None:
    sizes, spans = [512, 256, 128 * N, 128 * N], [(1, 1), (0, 2), (0, 0), (1, 1)]
    small, large = {"n": 2}, {"n": 100}
    alone, _ = arena.plan(sizes, spans, [small])
    best, _ = arena.plan(sizes, spans, [small, large])
    assert best.layout_at(small)[1] == alone.layout_at(small)[1]
    assert best.layout_at(large)[1] == 256 + 128 * 100 + 512 < alone.layout_at(large)[1]
