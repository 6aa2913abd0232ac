"""Ensembles of decision trees.

A path through a tree is a chain of loads of which each waits for the one before, and paths of neighbours part at once: vectors
would only gather. So scalar code follows several independent paths side by side and takes no branch on data. Full groups
follow them from one tree for several rows, whose nodes then stay in the first-level cache for a block of rows; rows that are left
over, from several trees.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from math import inf
from typing import Final

from forge import dtypes
from forge.loops import Cell, Loop, known, parallel_nest, static, supports_masks, vector_loop
from forge.loops.contract import KernelCall, kernel
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Function, If, Let, Stmt, loop, seq, store

# This many paths are followed at once: enough to hide the latency of a step from the second-level cache.
PATHS: Final = 16

# Whether any path continues is tested once in this many steps.
STEPS: Final = 4

# A block has at most this many rows, and totals of this many bytes, which lie on the stack.
MAX_ROWS: Final = 2048
MAX_BYTES: Final = 1 << 16

# At most this many targets are accumulated at once: they lie on the stack.
MAX_TARGETS: Final = 512

NODES, TREES = "tree_ensemble: the number of nodes", "tree_ensemble: the number of trees"

NODE = FEATURE, CHILD, THRESHOLD, LEAF = range(4)


class _Problem:
    """A block of rows from ``first_row`` on and a chunk of ``targets`` targets from ``first_target`` on.

    ``totals``: (rows of a block, targets of a chunk).
    """

    def __init__(self, call: KernelCall, totals: Buffer, first_row: Expr, first_target: Expr, targets: Expr) -> None:
        self.call, self.totals = call, totals
        self.first_row, self.first_target, self.targets = first_row, first_target, targets
        self.data, self.nodes, self.roots, self.weights = call.readers[:4]
        self.entry_targets, self.offsets = call.operand(4), call.operand(5)

    @property
    def start(self) -> float:
        return {"sum": 0.0, "min": inf, "max": -inf}[self.call.attrs.aggregate]

    def merge(self, a: Expr, b: Expr) -> Expr:
        return E.binary({"sum": "add", "min": "min", "max": "max"}[self.call.attrs.aggregate], a, b)

    def each_target(self, body: Callable[[Expr, int, Expr | None], Stmt]) -> Stmt:
        target, dtype = self.call.target, self.totals.dtype
        return vector_loop(self.targets, target.lanes(dtype), body, masked=supports_masks(target, (dtypes.itemsize(dtype),)))


@kernel("tree_ensemble")
def tree_ensemble(call: KernelCall) -> Function:
    """Family of ``tree_ensemble``: operands data, nodes, roots, weights and, where leaves speak of few targets, entry_targets and
    offsets; attributes targets, steps, aggregate. A part of the work is a block of rows and a chunk of targets.
    """
    data, _, roots, weights = call.readers[:4]
    targets = call.attrs.targets
    width = max(1, min(targets, MAX_TARGETS))
    most = _most_rows(call, width * dtypes.itemsize(weights.dtype))
    totals = Buffer("totals", weights.dtype, (E.const(most), E.const(width)), scope="local")
    block, chunk = E.var("block"), E.var("chunk")
    rows, step = E.var("rows"), _rows_of_block(data.shape[0], most, call.target.num_cores)
    first_target = chunk * width
    here = E.const(targets) if targets <= width else E.binary("min", E.const(targets) - first_target, E.const(width))
    problem = _Problem(call, totals, block * step, first_target, here)
    body = seq(Let(rows, E.binary("min", data.shape[0] - problem.first_row, step)), _block(problem, rows))
    loops = [Loop(block, (data.shape[0] + step - 1) // step), Loop(chunk, E.const(-(-targets // width)))]
    return call.function(parallel_nest(loops, body, step * roots.shape[0] * (call.attrs.steps + 1)))


def _most_rows(call: KernelCall, bytes_of_totals: int) -> int:
    """Rows of which data and totals leave room for a tree: in half of the first-level cache if a tree fits into the other half.

    A larger tree comes from the second-level cache for every row, and is fetched into it once for a block: many rows, then.
    """
    data, nodes, roots = call.readers[:3]
    size = dtypes.itemsize(data.dtype)
    tree = known(nodes.shape[0], NODES) * len(NODE) * size // max(1, known(roots.shape[0], TREES))
    target = call.target
    budget = target.l1_cache // 2 if tree <= target.l1_cache // 2 else max(target.l1_cache // 2, target.l2_cache // 4)
    columns = static(data.shape[1])
    count = call.attrs.features if columns is None else columns
    fitting = min(MAX_ROWS, MAX_BYTES // bytes_of_totals, budget // (count * size + bytes_of_totals))
    return int(max(PATHS, fitting // PATHS * PATHS))


def _rows_of_block(rows: Expr, most: int, cores: int) -> Expr:
    """Fewer than fit where that gives every core a block; full groups of paths."""
    parts = PATHS * max(1, cores)
    shared = (rows + (parts - 1)) // parts * PATHS
    return E.binary("max", E.binary("min", shared, E.const(most)), E.const(PATHS))


def _block(problem: _Problem, rows: Expr) -> Stmt:
    tree, group, cleared, row = E.var("tree"), E.var("group"), E.var("row"), E.var("row")
    side_by_side = [group * PATHS + k for k in range(PATHS)]
    root = E.var("root")
    full = rows // PATHS
    one_tree = seq(
        Let(root, E.cast(problem.roots.read((tree,)), "int64")),
        loop(group, full, _follow(problem, side_by_side, [root] * PATHS)),
    )

    def start(target: Expr, lanes: int, mask: Expr | None) -> Stmt:
        value = E.const(problem.start, problem.totals.dtype, lanes)
        return store(problem.totals, _place(problem, cleared, target, lanes), value, mask)

    return seq(
        Allocate(problem.totals),
        loop(cleared, rows, problem.each_target(start)),
        If(full > 0, loop(tree, problem.roots.shape[0], one_tree)),
        loop(row, rows - full * PATHS, _across_trees(problem, full * PATHS + row)),
        loop(row, rows, problem.each_target(lambda k, lanes, mask: _write(problem, row, k, lanes, mask))),
    )


def _place(problem: _Problem, row: Expr, target: Expr, lanes: int = 1) -> Expr:
    return E.ramp(problem.totals.offset(row, target), 1, lanes)


def _across_trees(problem: _Problem, row: Expr) -> Stmt:
    """All trees for one row."""
    count = known(problem.roots.shape[0], TREES)
    parts: list[Stmt] = []
    done = 0
    for width in (PATHS, PATHS // 4, 1):
        groups = (count - done) // width
        group = E.var("group")
        trees = [group * width + (done + k) for k in range(width)]
        roots = [E.cast(problem.roots.read((tree,)), "int64") for tree in trees]
        parts += [loop(group, groups, _follow(problem, [row] * width, roots))] if groups else []
        done += groups * width
    return seq(*parts)


def _follow(problem: _Problem, rows: Sequence[Expr], roots: Sequence[Expr]) -> Stmt:
    """Follows a path from each root for its row to a leaf, and adds what that says to the row's totals."""
    steps = problem.call.attrs.steps
    at = Buffer("at", "int64", (E.const(len(rows)),), scope="local")
    begin = [Allocate(at), *(store(at, k, root) for k, root in enumerate(roots))]
    rest = [_step(problem, at, rows) for _ in range(steps % STEPS)]
    whole = steps // STEPS
    if whole <= 2:
        walk: list[Stmt] = [_step(problem, at, rows) for _ in range(whole * STEPS)]
    else:
        moved = Cell("moved")
        some = [_step(problem, at, rows, moved if k == STEPS - 1 else None) for k in range(STEPS)]
        walk = [moved.start(1), loop(E.var("some"), whole, If(moved.value.ne(0), seq(some)))]
    return seq(*begin, *walk, *rest, *(_add_leaf(problem, row, E.load(at, k), k) for k, row in enumerate(rows)))


def _step(problem: _Problem, at: Buffer, rows: Sequence[Expr], moved: Cell | None = None) -> Stmt:
    """One step on all paths; ``moved``: becomes 0 if that changed none."""
    data, nodes = problem.data, problem.nodes
    parts: list[Stmt] = []
    changes: list[Expr] = []
    for k, row in enumerate(rows):
        node, after = E.var(f"node{k}"), E.var(f"after{k}")
        feature, child = (E.cast(nodes.read((node, E.const(column))), "int64") for column in (FEATURE, CHILD))
        threshold = E.call("reinterpret", nodes.read((node, E.const(THRESHOLD))), dtype=data.dtype)
        value = data.read((problem.first_row + row, feature))
        parts += [
            Let(node, E.load(at, k)),
            Let(after, child + E.select(value <= threshold, E.const(0), E.const(1))),
            store(at, k, after),
        ]
        changes.append(E.binary("xor", after, node))
    if moved is not None:
        parts.append(moved.set(reduce(operator.or_, changes)))
    return seq(*parts)


def _add_leaf(problem: _Problem, row: Expr, node: Expr, number: int) -> Stmt:
    leaf = E.var(f"leaf{number}")
    bind = Let(leaf, E.cast(problem.nodes.read((node, E.const(LEAF))), "int64"))
    if problem.entry_targets is not None:
        return seq(bind, _add_entries(problem, row, leaf))

    def add(target: Expr, lanes: int, mask: Expr | None) -> Stmt:
        place = _place(problem, row, target, lanes)
        weight = problem.weights.read((leaf, E.ramp(problem.first_target + target, 1, lanes)), mask)
        return store(problem.totals, place, problem.merge(E.load(problem.totals, place, mask), weight), mask)

    return seq(bind, problem.each_target(add))


def _add_entries(problem: _Problem, row: Expr, leaf: Expr) -> Stmt:
    assert problem.entry_targets is not None and problem.offsets is not None
    number, entry, target, begin = (E.var(name) for name in ("number", "entry", "target", "begin"))
    place = _place(problem, row, target)
    add = store(problem.totals, place, problem.merge(E.load(problem.totals, place), problem.weights.read((entry,))))
    if problem.call.attrs.targets > MAX_TARGETS:
        add = If(E.logical_and(target >= 0, target < problem.targets), add)
    visit = seq(Let(entry, begin + number), Let(target, problem.entry_targets.read((entry,)) - problem.first_target), add)
    return seq(
        Let(begin, problem.offsets.read((leaf,))),
        loop(number, problem.offsets.read((leaf + 1,)) - begin, visit),
    )


def _write(problem: _Problem, row: Expr, target: Expr, lanes: int, mask: Expr | None) -> Stmt:
    total = E.load(problem.totals, _place(problem, row, target, lanes), mask)
    if problem.call.attrs.aggregate != "sum":
        nothing = E.const(problem.start, total.dtype, lanes)
        total = E.select(total.eq(nothing), E.const(0.0, total.dtype, lanes), total)
    (result,) = problem.call.results
    place = (problem.first_row + row, E.ramp(problem.first_target + target, 1, lanes))
    return result.write(place, total, mask)
