"""Kernel family ``matmul``: products of (stacks of) matrices that are both known at run time only.

Operands: a [..., M, K] (``transpose_a``: [..., K, M]) and b [..., K, N] (``transpose_b``: [..., N, K]), the axes before broadcast
as in NumPy; result [..., M, N].

One task is a block of rows of one product and one column tile. The columns of b are copied into a local panel (a transposed b in
registers, square by square), unless they lie in rows that may be read as they are. Where K does not fit, the panel holds a part
of it and partial sums wait on the stack. bfloat16 and float16 are summed in pairs of k where K is even and the target multiplies
such, uint8 and int8 in fours or pairs where K is a multiple of four: the panel then holds these, and a step of the sum takes all
k of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from forge import dtypes, loops
from forge.errors import CompileError
from forge.kernels.cpu import gemm, tiles
from forge.kernels.cpu.gemm import FinishRow, Product, Rows, RowValue
from forge.kernels.cpu.micro import Left, OuterProduct, micro_kernel
from forge.kernels.cpu.panels import Right, VectorElement, along_columns, broadcast_indices, contiguous, panel_vector
from forge.loops import RegisterTile
from forge.loops.contract import KernelCall, Reader, Writer, kernel
from forge.loops.dots import Group
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import TILE_BYTES, Allocate, Function, Stmt, seq
from forge.tir.visit import nodes

# A task has at most about this many rows.
ROW_BLOCK: Final = 256
# A local panel of b, or a copy of rows of a, takes at most this many bytes.
PANEL_BYTES: Final = 192 << 10
# A panel that holds a part of K has this many rows.
PART_DEPTH: Final = 512
# This many parts are added as exactly as one; where their number is a symbol, they are taken for more.
MANY_PARTS: Final = 32
# A product with one row reads b once and in place: column tiles of this many vectors are long pieces of its rows.
SINGLE_VECTORS: Final = 8
# Rows of b of at most this many bytes are read in place; longer ones fall on the same few cache sets.
DIRECT_STRIDE_BYTES: Final = 2048


@dataclass(frozen=True, kw_only=True)
class MatmulPlan:
    """Sizes and choices of one call. ``depth`` and ``depth_block`` count steps of the sum, each of a ``group`` of k.

    ``rest`` counts the numbers of k after the last group.
    """

    a: Reader
    b: Reader
    result: Writer
    transpose_a: bool
    transpose_b: bool
    rows: Expr
    columns: Expr
    depth: Expr
    rest: Expr
    tile: RegisterTile
    row_block: int
    depth_block: int
    direct: bool
    staged: bool
    group: Group
    micro: OuterProduct
    single: bool  # one row, for which b is read in place

    @property
    def split(self) -> bool:
        """Whether K is worked off in parts."""
        known = loops.static(self.depth)
        return known is None or known > self.depth_block

    def read_a(self, batch: Sequence[Expr], row: Expr, step: Expr, mask: Expr | None = None) -> Expr:
        """Elements of one row of a that one step multiplies; a mask has a lane for each k."""
        return self._step(lambda k: self.value_a(batch, row, k, mask), step, row.lanes, not self.transpose_a)

    def read_b(self, batch: Sequence[Expr], step: Expr, column: Expr, mask: Expr | None = None) -> Expr:
        """Elements of one column of b that one step multiplies."""
        return self._step(lambda k: self.value_b(batch, k, column, mask), step, column.lanes, step.lanes > 1)

    def value_a(self, batch: Sequence[Expr], row: Expr, k: Expr, mask: Expr | None = None) -> Expr:
        """Reads the element of a, in its own dtype."""
        return self._value(self.a, batch, [k, row] if self.transpose_a else [row, k], mask)

    def value_b(self, batch: Sequence[Expr], k: Expr, column: Expr, mask: Expr | None = None) -> Expr:
        """Reads the element of b, in its own dtype."""
        return self._value(self.b, batch, [column, k] if self.transpose_b else [k, column], mask)

    def _value(self, operand: Reader, batch: Sequence[Expr], matrix: Sequence[Expr], mask: Expr | None) -> Expr:
        return operand.read([*broadcast_indices(batch, operand.shape[:-2]), *matrix], mask)

    def _step(self, read: Callable[[Expr], Expr], step: Expr, others: int, along: bool) -> Expr:
        """The group at ``step``, with its lanes or ``others``; ``along``: all numbers of a group are read at once."""
        lanes = max(step.lanes, others)
        if self.group.size == 1:
            return E.broadcast(E.cast(read(step), self.tile.dtype), lanes)
        if along:
            return self.group.adjacent(read, step)
        return E.broadcast(self.group.read(read, step * self.group.size), lanes)

    def mask_of(self, step: Expr, count: Expr, mask: Expr | None) -> Expr | None:
        """Returns ``mask``, which says where ``step`` is below ``count``, for each k."""
        if mask is None or self.group.size == 1:
            return mask
        return self.group.numbers(step) < count * self.group.size


@kernel("matmul")
def matmul(call: KernelCall) -> Function:
    """a @ b over the last two axes."""
    plan = _plan(call)
    body = _tasks(plan)
    if loops.static(plan.rows) is None:
        single = _plan(call, E.const(1))
        body = loops.guard(plan.rows.eq(1), _tasks(single), body) if single.single else body
    return call.function(body)


def _tasks(plan: MatmulPlan) -> Stmt:
    """A parallel loop over blocks of rows and column tiles."""
    column_tiles = loops.ceildiv(plan.columns, plan.tile.width)
    return gemm.batch_tasks(plan.result.shape[:-2], plan.rows, plan.row_block, column_tiles, (plan.depth, plan.tile.width),
                            partial(_task, plan))


def _plan(call: KernelCall, rows: Expr | None = None) -> MatmulPlan:
    """Sizes and choices; ``rows``: their number, where it is known better than from the shape."""
    a, b, result = call.operands[0], call.operands[1], call.results[0]
    if a is None or b is None or len(a.shape) < 2 or len(b.shape) < 2:
        raise CompileError(f"{call.name}: matrix product; expected two operands of rank 2 or more")
    transpose_a, transpose_b = bool(call.attrs.transpose_a), bool(call.attrs.transpose_b)
    rows, columns = result.shape[-2] if rows is None else rows, result.shape[-1]
    depth = a.shape[-2 if transpose_a else -1]
    dtype = tiles.accumulator_dtype(a.dtype, b.dtype)
    group = Group.chosen(call.target, a.dtype, b.dtype, depth, dtype, tiles=not E.is_const(rows, 1))
    if _leaves_rest(a, b, rows, depth, call.target):
        group = Group.chosen(call.target, a.dtype, b.dtype, E.const(0), dtype)
    depth, rest = depth // group.size, depth % group.size
    lanes = call.target.lanes(dtype)
    vectors, tile_rows = tiles.product_tile(loops.static(rows), loops.static(columns), lanes, call.target, group.registers)
    micro = micro_kernel(group, call.target, tiles=not E.is_const(rows, 1))
    if micro.in_tiles:
        vectors, tile_rows = gemm.tile_of_registers(loops.static(rows), loops.static(columns), lanes)
    single = E.is_const(rows, 1) and not transpose_b and group.size == 1 and _rows_contiguous(call.target, b)
    if single:
        vectors, tile_rows = max(1, min(SINGLE_VECTORS, -(-(loops.static(columns) or ROW_BLOCK) // lanes))), 1
    known_depth = loops.static(depth)
    element = dtypes.itemsize(dtype)
    whole = known_depth is not None and known_depth * vectors * lanes * element <= PANEL_BYTES
    block = gemm.padded_steps(micro, known_depth) if known_depth is not None and whole else PART_DEPTH
    view = is_view(lambda row, k: a.read([*_zeros(a), *([k, row] if transpose_a else [row, k])]))
    staged = not view or _is_converted(a.dtype, group, transpose_a) or micro.in_tiles
    most = max(tile_rows, PANEL_BYTES // (max(block, 1) * element)) if staged else ROW_BLOCK
    direct = single or not micro.in_tiles and _read_in_place(call.target, b, transpose_b, dtype, vectors * lanes)
    return MatmulPlan(
        a=a, b=b, result=result, transpose_a=transpose_a, transpose_b=transpose_b, rows=rows, columns=columns,
        depth=depth, rest=rest, tile=RegisterTile(tile_rows, vectors, lanes, dtype),
        row_block=gemm.row_block(rows, tile_rows, min(most, ROW_BLOCK)), depth_block=block, direct=direct, staged=staged,
        group=group, micro=micro, single=single)


def _leaves_rest(a: Reader, b: Reader, rows: Expr, depth: Expr, target: Target) -> bool:
    """Whether a sum is one of groups and what is left, in tile registers."""
    known = loops.static(depth)
    alike = a.dtype == b.dtype in loops.HALF and a.dtype in target.isa.tiles
    return alike and not E.is_const(rows, 1) and (known is None or known >= TILE_BYTES // 2)


def _is_converted(dtype: str, group: Group, transposed: bool) -> bool:
    """Whether a step takes some work to make what it multiplies of elements of ``dtype``."""
    if group.size == 1:
        return dtype in loops.HALF
    return dtype != group.dtype or transposed and group.size == 4


def _zeros(operand: Reader) -> list[Expr]:
    return [E.const(0)] * (len(operand.shape) - 2)


def is_view(read: Callable[[Expr, Expr], Expr]) -> bool:
    """Returns whether reading is a plain load at an index without divisions: cheap enough to repeat."""
    value = read(E.var("row"), E.var("k"))
    return isinstance(value, E.Load) and all(
        isinstance(x, (E.Const, E.Var)) or isinstance(x, E.Binary) and x.op in ("add", "mul", "sub") for x in nodes(value.index))


def _read_in_place(target: Target, b: Reader, transposed: bool, dtype: str, width: int) -> bool:
    """Whether b's rows serve as they are: short, in whole column tiles, few enough for the second-level cache."""
    rows, columns = loops.static(b.shape[-2]), loops.static(b.shape[-1])
    if transposed or rows is None or columns is None or columns % width or b.dtype != dtype:
        return False
    row_bytes = columns * dtypes.itemsize(dtype)
    return _rows_contiguous(target, b) and row_bytes <= DIRECT_STRIDE_BYTES and rows * row_bytes <= target.l2_cache // 4


def _rows_contiguous(target: Target, b: Reader) -> bool:
    return contiguous(lambda n: b.read([*_zeros(b), E.var("k"), n]), target.lanes(b.dtype))


def _task(plan: MatmulPlan, batch: Sequence[Expr], rows: Rows, column_tile: Expr) -> Stmt:
    lets, column = loops.bind("column", column_tile * plan.tile.width)

    def finish(row: Expr, value: RowValue) -> Stmt:
        return _finish(plan, batch, row, column, value)

    whole = _part(plan, batch, rows, column, E.const(0), plan.depth, finish, None)
    if not plan.split:
        return seq(lets, whole)
    return seq(lets, loops.guard(plan.depth <= plan.depth_block, whole, _in_parts(plan, batch, rows, column)))


def _in_parts(plan: MatmulPlan, batch: Sequence[Expr], rows: Rows, column: Expr) -> Stmt:
    """K in parts, the sums of which wait in a local buffer."""
    depth = loops.static(plan.depth)
    many = dtypes.is_float(plan.tile.dtype) and (depth is None or depth > MANY_PARTS * plan.depth_block)
    partial = gemm.PartialSums(plan.tile, rows, many)

    def part(number: Expr) -> Stmt:
        lets, first = loops.bind("first_k", number * plan.depth_block)
        lets_count, count = loops.bind("k_count", E.binary("min", E.const(plan.depth_block), plan.depth - first))
        return seq(lets, lets_count, _part(plan, batch, rows, column, first, count, partial.keep, partial.load))

    def write(number: Expr) -> Stmt:
        row = rows.begin + number
        return _finish(plan, batch, row, column, lambda v: partial.total(row, v))

    parts = loops.serial("part", loops.ceildiv(plan.depth, plan.depth_block), part)
    return seq(partial.start(), parts, loops.serial("row", rows.count, write))


def _part(plan: MatmulPlan, batch: Sequence[Expr], rows: Rows, column: Expr, first: Expr, count: Expr,
          finish: FinishRow, start: Callable[[Expr, int], Expr] | None) -> Stmt:
    """All rows of a task over k in [first, first + count)."""
    pack, right = _right(plan, batch, column, first, count)
    stage, left = _left(plan, batch, rows, first, count)
    product = Product(plan.tile, gemm.padded_steps(plan.micro, count), left, right, plan.micro, finish, start)
    return seq(pack, stage, gemm.any_rows(product, rows, plan.rows))


def _left(plan: MatmulPlan, batch: Sequence[Expr], rows: Rows, first: Expr, count: Expr) -> tuple[Stmt, Left]:
    """The copy of the rows of a that a costly prologue needs, and the function that reads an element."""
    if not plan.staged:
        return seq(), lambda row, k: plan.read_a(batch, row, first + k)

    def read(row: Expr, k: Expr, mask: Expr | None) -> Expr:
        return plan.read_a(batch, row, first + k, plan.mask_of(k, count, mask))

    lanes = 1 if plan.transpose_a else plan.tile.lanes
    stage, copy = gemm.copied_rows(rows, plan.group.word, count, plan.depth_block, lanes, read)
    more = loops.serial("row", rows.count, lambda row: gemm.zero_steps(copy, row * plan.depth_block, count, plan.micro))
    return seq(stage, more), lambda row, k: E.load(copy, (row - rows.begin) * plan.depth_block + k)


def _right(plan: MatmulPlan, batch: Sequence[Expr], column: Expr, first: Expr, count: Expr) -> tuple[Stmt, VectorElement]:
    """The packing of a column tile of b, and the function that reads a vector of it."""
    tile = plan.tile
    if plan.direct:
        whole = E.is_const(plan.columns % tile.width, 0)

        def in_place(k: Expr, v: int) -> Expr:
            index = E.ramp(column + v * tile.lanes, 1, tile.lanes)
            return plan.read_b(batch, first + k, index, None if whole else index < plan.columns)

        return seq(), in_place
    panel = loops.local("panel", plan.group.word, -(-plan.depth_block // tile.lanes) * tile.lanes * tile.width)

    def read(k: Expr, n: Expr, mask: Expr | None) -> Expr:
        return plan.read_b(batch, first + k, n, mask if k.lanes == 1 else plan.mask_of(k, count, mask))

    by_columns = along_columns(lambda k, n: plan.value_b(batch, k, n), tile.lanes)
    pack = Right(read, by_columns, plan.columns, count, tile).pack(panel, E.const(0), column)
    vector = panel_vector(panel, tile, E.const(0))
    more = gemm.zero_steps(panel, 0, count, plan.micro, tile.width)
    return seq(Allocate(panel), pack, more), lambda k, v: plan.group.factor(vector(k, v))


def _finish(plan: MatmulPlan, batch: Sequence[Expr], row: Expr, column: Expr, value: RowValue) -> Stmt:
    """Adds the products of k after the last whole group to the sums of a row of a column tile, and writes them."""
    written = _write(plan, batch, row, column, value)
    if E.is_const(plan.rest, 0):
        return written
    tile, k = plan.tile, plan.depth * plan.group.size
    whole = E.is_const(plan.columns % tile.width, 0)

    def total(v: int) -> Expr:
        columns = E.ramp(column + v * tile.lanes, 1, tile.lanes)
        factors = (plan.value_b(batch, k, columns, None if whole else columns < plan.columns),
                   plan.value_a(batch, row, k))
        b, a = (E.broadcast(E.cast(x, tile.dtype), tile.lanes) for x in factors)
        return loops.multiply_add(a, b, value(v))

    return loops.guard(plan.rest.ne(0), _write(plan, batch, row, column, total), written)


def _write(plan: MatmulPlan, batch: Sequence[Expr], row: Expr, column: Expr, value: RowValue) -> Stmt:
    """Writes one row of a column tile."""
    result = plan.result

    def write(columns: Expr, x: Expr, mask: Expr | None) -> Stmt:
        return result.write([*batch, row, columns], loops.finished(x, result.dtype), mask)

    return gemm.write_row(plan.tile, column, plan.columns, value, write)
