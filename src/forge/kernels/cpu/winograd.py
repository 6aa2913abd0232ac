"""Kernel families ``conv2d_winograd_nchwc`` and ``conv3d_winograd_ncdhwc``: 3x3 convolutions with fewer multiplications.

Those of images have stride 1, and take four ninths or a quarter of the multiplications. Those of volumes are sums over slices.
Outputs and inputs of a tile are as far from each other as the taps of a dilated kernel.

F(m x m, 3x3) of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015), for m of 2 and 4: each m x m tile of
outputs is A^T ((G g G^T) * (B^T d B)) A over the patch d of (m + 2) x (m + 2) inputs under it, where * is taken element by
element and summed over channels.

Operands: data [N][C/c][H][W][c]; weight [O/o][16 or 36][I/i][i][o], the G g G^T of every filter by position; result
[N][O/o][OH][OW][o]. ``attrs``: padding, dilation (1 along the depth), in_channels; strides are 1. Errors relative to the largest
output are about those of the direct sum for m = 2, and 1e-5 for m = 4. Of volumes, data are [N][C/c][D][H][W][c], the result is
alike, and the weight has taps along the depth, [O/o][16 or 36][kd][I/i][i][o]; their stride may be larger than 1.

A task is a block of tiles, of a few slices of volumes: their patches are transformed into a local array, position by position
multiplied by the weights by the register tiles of matrix products, and the sums of one group of output channels transformed
back at a time.

Reading weights is what small images take, and for m = 4 they are four times those of the direct sum. Where sizes are known at run
time only, each call takes the m with the least work for them: the weights for 2 are among those for 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from forge import dtypes, loops
from forge.errors import CompileError
from forge.kernels.cpu import gemm, tiles
from forge.kernels.cpu.gemm import Product, Rows
from forge.kernels.cpu.micro import micro_kernel
from forge.kernels.cpu.spatial import WRITTEN_OUT, Image, SpatialAxis, clamp, note_algorithm, static_shape, window_of
from forge.kernels.cpu.winograd_lines import SCHEMES, place, square, square_in_loops
from forge.kernels.cpu.winograd_plan import Counts, WinogradPlan, WinogradProblem, plan_tasks
from forge.loops.contract import KernelCall, Variant, kernel
from forge.loops.dots import Group
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, ExprLike
from forge.tir.stmt import Allocate, Function, Prefetch, Stmt, seq, store

# The weights of each block of output channels are prefetched this many bytes ahead of the multiply-adds.
PREFETCH_BYTES: Final = 4096


def variant(call: KernelCall) -> Variant | None:
    """Shares code between convolutions of whole blocks of channels over images or volumes of unknown sizes."""
    problem = problem_of(call)
    if problem.is_known or problem.in_channels != problem.in_padded:
        return None
    plans = _plans(problem)
    plan, window = plans[0], problem.window
    numbers = (plan.in_padded // window.block, window.out_blocks, plan.stride, plan.parts, plan.part_groups,
               *(p.block for p in plans))
    places = [(p.patch_places, p.sum_places) for p in _shared(plans, [E.const(n) for n in numbers])]
    key = f"{plan.vectors} {plan.tile_rows} {plan.run} {places}"
    extents = {(0, 1): 0, (1, 0): 1, (1, len(call.results[0].shape) - 3): 0, (len(call.operands), 1): 1}
    return Variant(key, numbers, extents, ("channels", "in_channels"))


def _plans(problem: WinogradProblem, kernel: str = "") -> list[WinogradPlan]:
    """The plan; where sizes are unknown, also those of smaller tiles, for small images."""
    plan = plan_tasks(problem, kernel)
    return [plan, *(() if plan.is_known else plan.smaller)]


def _shared(plans: Sequence[WinogradPlan], numbers: Sequence[Expr]) -> list[WinogradPlan]:
    """``plans`` of code that calls with other numbers share."""
    in_blocks, _, stride, parts, part_groups, *blocks = numbers
    return [replace(plan, shared=Counts(in_blocks * plan.window.block, block, stride, parts, part_groups))
            for plan, block in zip(plans, blocks, strict=True)]


@kernel("conv3d_winograd_ncdhwc")
@kernel("conv2d_winograd_nchwc", variant=variant)
def conv2d_winograd_nchwc(call: KernelCall) -> Function:
    """3x3 convolution in the Winograd domain."""
    plans = _plans(problem_of(call), call.name)
    if call.numbers:
        plans = _shared(plans, call.numbers)
    return in_tasks(call, plans, Task)


class Choice:
    """The choice of that plan, of some, which takes the least work for the sizes that there are.

    There are ``blocks`` of ``block`` of the ``tiles`` of an image. Patches have ``positions``, from each to the next ``patches``
    elements of patches and ``sums`` of sums, the first of which is ``first_sum``.
    """

    def __init__(self, plans: Sequence[WinogradPlan], lets: list[Stmt]) -> None:
        self.plans = plans
        self.number: Expr = E.const(0)
        least = plans[0].work if len(plans) > 1 else E.const(0)
        for number, plan in enumerate(plans[1:], 1):
            least, work = (loops.bound(w, lets, "work") for w in (least, plan.work))
            self.number = loops.bound(E.select(work < least, E.const(number), self.number), lets, "plan")
            least = E.binary("min", work, least)
        self.blocks = loops.bound(self._of(lambda p: p.blocks[0]), lets, "blocks")
        self.block = loops.bound(self._of(lambda p: p.blocks[1]), lets, "block_size")
        numbers: tuple[Callable[[WinogradPlan], ExprLike], ...] = (
            lambda p: p.scheme.positions, lambda p: p.patch_places, lambda p: p.sum_places, lambda p: p.first_sum,
            lambda p: p.count)
        self.positions, self.patches, self.sums, self.first_sum, self.tiles = (
            loops.bound(self._of(number), lets, "places") for number in numbers)

    def _of(self, value: Callable[[WinogradPlan], ExprLike]) -> Expr:
        """A number of the plan."""
        first, *others = (E.as_expr(value(plan)) for plan in self.plans)
        for number, other in enumerate(others, 1):
            first = E.select(self.number.eq(number), other, first)
        return first

    def statement(self, of_plan: Callable[[WinogradPlan], Stmt]) -> Stmt:
        """Returns the loops of the plan that is chosen at run time."""
        *others, chosen = map(of_plan, self.plans)
        for number, statement in reversed(list(enumerate(others))):
            chosen = loops.guard(self.number.eq(number), statement, chosen)
        return chosen


def in_tasks(call: KernelCall, plans: Sequence[WinogradPlan], kind: type[Task]) -> Function:
    """Makes the function of plans, of which the first one may be for any tile, whose tasks are of this kind."""
    before: list[Stmt] = []
    plan, choice = plans[0], Choice(plans, before)
    depth, counts = plan.window.depth, plan.counts
    runs, run = depth.blocks(plan.run)
    extents = {"image": plan.window.batch, "run": runs, "block": choice.blocks, "part": counts.parts}

    def task(index: Expr) -> Stmt:
        let, (image, number, block, part) = loops.bound_indices(index, extents)
        lets: list[Stmt] = [let]
        first_slice = loops.bound(number * run, lets, "first_slice")
        slices = loops.bound(depth.rest(run, first_slice), lets, "slices")
        first = loops.bound(block * choice.block, lets, "first_tile")
        group = loops.bound(part * counts.part_groups, lets, "first_group")
        left = choice.block if plan.is_known else E.binary("min", choice.block, choice.tiles - first)
        return seq(lets, kind(choice, (image, first_slice), slices, first, loops.bound(left, lets, "tiles"), group).statement())

    steps = E.const(plan.steps * plan.unit.size) if plan.shared is None else counts.in_padded
    sums = counts.block * counts.part_groups * (plan.run * plan.scheme.positions * plan.vectors * plan.tile.lanes)
    return call.function(seq(before, loops.parallel(loops.product(list(extents.values())), sums * steps, task)))


def problem_of(call: KernelCall) -> WinogradProblem:
    """Returns all that the plan of a call depends on."""
    rank = len(call.results[0].shape)
    wanted = "[O/o][16 or 36][I/i][i][o], or with [kd] before [I/i]"
    _, positions, *slices, in_blocks, in_block, out_block = static_shape(call, call.operands[1], rank, wanted)
    window = window_of(call, (*slices, 3, 3))
    axes = (window.height, window.width)
    blocks, steps = (in_block, out_block), [a.stride for a in axes]
    scheme = SCHEMES.get(positions)
    if scheme is None or blocks != (window.block, window.out_block) or steps != [1, 1]:
        raise CompileError(f"{call.name}: Winograd convolution of {positions} positions, blocks {blocks}, strides {steps}; "
                           f"expected {' or '.join(map(str, SCHEMES))}, the blocks of data and result, and 1")
    dtype = tiles.accumulator_dtype(window.data.dtype, window.weight.dtype)
    padded, in_lanes = in_blocks * in_block, tiles.vector_lanes(in_block, call.target, dtype)
    in_channels = int(call.attrs.in_channels or padded)
    note_algorithm(call, window, in_channels * window.slices)
    problem = WinogradProblem(
        window=window, target=call.target, dtype=dtype, unit=Group(1, dtype), scheme=scheme, in_channels=in_channels,
        in_padded=padded, in_lanes=in_lanes, vectors=1)
    return replace(problem, vectors=_group_vectors(problem.out_vectors, out_block // problem.lanes))


def _group_vectors(out_vectors: int, per_block: int) -> int:
    """Vectors of output channels that are summed together: two or three, in whole blocks or whole parts of one."""
    fitting = [v for v in tiles.divisors(out_vectors, 3) if v % per_block == 0 or per_block % v == 0]
    return 2 if 2 in fitting else fitting[0]


class Task:
    """Statements of one task: ``size`` tiles of ``slices`` images from ``image`` on.

    Where the number of tiles is known, some of them may be past the last one.
    """

    def __init__(self, choice: Choice, image: Image, slices: Expr, first: Expr, size: Expr, first_group: Expr) -> None:
        self.choice = choice
        self.plan = plan = choice.plans[0]
        self.window = plan.window
        self.image = image
        self.slices = slices
        self.first = first
        self.size = size
        self.first_group = first_group
        self.counts = plan.counts
        self.patches = loops.local("patches", plan.element, max(p.scheme.positions * p.patch_places for p in choice.plans))
        self.sums = self.patches if plan.joint else loops.local(
            "sums", plan.dtype, max(p.scheme.positions * p.sum_places for p in choice.plans))

    def statement(self) -> Stmt:
        """Returns all groups of output channels of the task."""
        def sums(number: Expr) -> Stmt:
            lets, group = loops.bind("group", self.first_group + number)
            return seq(lets, self.prepare(group), self._all_products(group),
                       self.choice.statement(lambda p: self._outputs(p, group)))

        first, count = self._on_data(E.const(0), self.window.depth.span(self.slices))
        plan = self.plan
        used = E.const(-(-plan.in_channels // plan.in_lanes)) if plan.shared is None else self.counts.in_padded // plan.in_lanes
        transformed = self.choice.statement(lambda p: loops.serial("slice", count, lambda place: loops.serial(
            "vector", used, lambda vector: self._transform_vector(p, place, vector)), first))
        return seq(map(Allocate, self.buffers), transformed, loops.serial("number", self.counts.part_groups, sums))

    @property
    def buffers(self) -> list[Buffer]:
        """Returns the buffers on the stack."""
        return [self.patches] if self.plan.joint else [self.patches, self.sums]

    def prepare(self, group: Expr) -> Stmt:
        """Prepares the products of a group of output channels."""
        return seq()

    def finish(self, value: Expr) -> Expr:
        """Returns the result of transformed sums."""
        return value

    @property
    def _may_be_past(self) -> bool:
        return self.plan.is_known and self.plan.tile_count % self.plan.block != 0

    def _first_output(self, plan: WinogradPlan, tile: Expr) -> tuple[list[Stmt], Expr, Expr]:
        """Row and column of the first output of a tile; past the last one, of that of the last."""
        number, lets = self.first + tile, list[Stmt]()
        if self._may_be_past:
            number = E.binary("min", number, plan.tile_count - 1)
        row, column = (loops.bound(place, lets, name) for place, name in (
            (number // plan.wide, "tile_row"), (number % plan.wide, "tile_column")))
        return lets, plan.scheme.first(row, self.window.height.dilation), plan.scheme.first(column, self.window.width.dilation)

    def _left(self, plan: WinogradPlan, axis: SpatialAxis, first: Expr) -> Expr:
        """Outputs of a tile that lie on the result."""
        if axis.dilation == 1:
            return axis.rest(E.const(plan.scheme.out), first)
        return E.binary("min", loops.ceildiv(axis.positions - first, axis.dilation), plan.scheme.out)

    def _transform_vector(self, plan: WinogradPlan, number: Expr, vector: Expr) -> Stmt:
        """B^T d B of all patches of one vector of channels of slice ``number`` of those under the task.

        Neighbouring patches follow each other: rows of all slices, at multiples of 4 KiB, would push each other out of the cache.
        """
        window = self.window
        vectors = window.block // plan.in_lanes
        lets_block, block = loops.bind("block", vector // vectors)
        lanes = E.ramp(vector % vectors * plan.in_lanes, 1, plan.in_lanes)
        channel = number * self.counts.in_padded + vector * plan.in_lanes
        source = window.indices(self.image[0], block, self._first_slice + number)

        def patch(tile: Expr) -> Stmt:
            lets, row, column = self._first_output(plan, tile)
            top = loops.bound(row - window.height.pad, lets, "top")
            left = loops.bound(column - window.width.pad, lets, "left")
            inside = E.logical_and(*(E.logical_and(first >= 0, first < axis.data - (plan.scheme.patch - 1) * axis.dilation)
                                     for axis, first in ((window.height, top), (window.width, left))))
            return seq(lets, self._transform_patch(plan, tile, channel, [*source, top, left, lanes], inside))

        return seq(lets_block, loops.serial("tile", self.size, patch))

    @property
    def _first_slice(self) -> Expr:
        """The slice of data, or of the padding before it, that is the first one under those of the task."""
        return self.window.slice_of(self.image, E.const(0))

    def _on_data(self, number: Expr, count: Expr) -> tuple[Expr, Expr]:
        """Of ``count`` slices from slice ``number`` of those under the task, the first one that is data, and how many are."""
        depth, zero = self.window.depth, E.const(0)
        if not depth.padded:
            return zero, count
        first = self._first_slice + number
        skipped = clamp(zero - first, zero, count)
        return skipped, E.binary("max", E.binary("min", depth.data - first, count) - skipped, 0)

    def _transform_patch(self, plan: WinogradPlan, tile: Expr, channel: Expr, source: Sequence[Expr], inside: Expr) -> Stmt:
        """One vector of channels of one patch, whose first element is at ``source``: read in place where all of it is data."""
        window = self.window
        *image, top, left, lanes = source
        undefined = plan.window.slices > 1 and plan.in_channels % plan.in_lanes

        def at(y: Expr, x: Expr) -> tuple[Expr, Expr]:
            return top + y * window.height.dilation, left + x * window.width.dilation

        def data(y: Expr, x: Expr) -> Expr:
            value = E.cast(window.data.read([*image, *at(y, x), lanes]), plan.element)
            if not undefined:
                return value
            valid = image[1] * window.block + lanes < plan.in_channels
            return E.select(valid, value, E.const(0, plan.element, plan.in_lanes))

        def keep(y: ExprLike, x: int, value: Expr) -> Stmt:
            index = tile * self.counts.stride + place(y, x) * plan.patch_places + channel
            return store(self.patches, E.ramp(index, 1, plan.in_lanes), value)

        def fill(buffer: Buffer, index: Expr, y: Expr, x: Expr) -> Stmt:
            row, column = at(y, x)
            here = E.logical_and(window.height.holds(row), window.width.holds(column))
            outside = E.const(plan.pad_value, plan.element, plan.in_lanes)
            return loops.guard(here, store(buffer, index, data(y, x)), store(buffer, index, outside))

        scheme = plan.scheme
        fast = square(scheme.patch, scheme.patch, lambda y, x: data(E.const(y), E.const(x)), scheme.input_line, keep)
        if plan.shared is not None:
            return loops.guard(inside, fast, square_in_loops(scheme, plan.element, plan.in_lanes, fill, keep))
        border = loops.local("border", plan.element, scheme.positions, plan.in_lanes)
        copied = loops.serial("y", scheme.patch, lambda y: loops.serial(
            "x", scheme.patch, lambda x: fill(border, y * scheme.patch + x, y, x)))
        bordered = square(scheme.patch, scheme.patch, lambda y, x: E.load(border, y * scheme.patch + x), scheme.input_line, keep)
        return loops.guard(inside, fast, seq(Allocate(border), copied, bordered))

    def _all_products(self, group: Expr) -> Stmt:
        """Those of the plan; register tiles of the smaller ones are the same, but may have more rows than those of the first."""
        first, last = self.choice.plans[0], self.choice.plans[-1]
        products = self._products(first, group)
        if first.tile == last.tile:
            return products
        return loops.guard(self.choice.number.eq(0), products, self._products(last, group))

    def _products(self, plan: WinogradPlan, group: Expr) -> Stmt:
        """For every position: patches times weights."""
        counts, choice, window = self.counts, self.choice, self.window
        rows = Rows(E.const(0), self.size, loops.static(self.size), plan.block)

        def products(p: Expr, number: Expr) -> Stmt:
            lets: list[Stmt] = []
            steps: Expr = E.const(plan.steps) if plan.shared is None else counts.in_padded * window.slices
            first: Expr = E.const(0)
            begin = number * window.depth.stride
            tap, taps = self._on_data(begin, E.const(window.slices))
            skipped = tap * counts.in_padded
            if loops.static(taps) != window.slices:
                steps = loops.bound(taps * (counts.in_padded // plan.unit.size), lets, "steps")
                first = loops.bound(skipped // plan.unit.size, lets, "first_step")
            start = loops.bound(begin * counts.in_padded + skipped + p * choice.patches, lets, "start")
            product = Product(
                plan.tile, steps,
                lambda row, k: plan.unit.load(self.patches, row * counts.stride + start + k * plan.unit.size),
                lambda k, v: self.weight(p, group, first + k, v), micro_kernel(plan.unit, plan.target),
                lambda row, value: seq(store(self.sums, self._sums_at(p * choice.sums, number, row, v), value(v))
                                       for v in range(plan.tile.vectors)),
                prefetch=lambda k: self.prefetch(p, group, first + k))
            return seq(lets, gemm.row_tiles(product, rows))

        return loops.serial("position", choice.positions, lambda p: loops.serial(
            "slice", self.slices, lambda number: products(p, number)))

    def _sums_at(self, position: Expr, number: Expr, row: Expr, vector: ExprLike) -> Expr:
        """Where a vector of sums is, of those whose position begins ``position`` elements after the first."""
        tile = self.plan.tile
        first = self.choice.first_sum + position
        return E.ramp(((row + number * self.size) * tile.vectors + vector) * tile.lanes + first, 1, tile.lanes)

    def channel(self, group: Expr, vector: ExprLike) -> tuple[Expr, Expr]:
        """Returns the output block and the channel inside it of a vector of a group."""
        plan = self.plan
        per_block = self.window.out_block // plan.tile.lanes
        number = group * plan.tile.vectors + vector
        return number // per_block, number % per_block * plan.tile.lanes

    def prefetch(self, position: Expr, group: Expr, k: Expr) -> Stmt:
        """Prefetches the weights that follow: those of the next position lie after those of this one."""
        weight = self.window.weight
        if weight.buffer is None:
            return seq()
        distance = PREFETCH_BYTES // (self.window.out_block * dtypes.itemsize(weight.dtype))
        return seq(Prefetch(weight.buffer, self._weight_place(position, group, k + distance, v))
                   for v in range(self.plan.tile.vectors))

    def _weight_place(self, position: Expr, group: Expr, k: Expr, vector: int) -> Expr:
        """Number of the first element of a vector in the weight's buffer; k may lie after the position's channels."""
        block, lane = self.channel(group, vector)
        depth = self.counts.in_padded * self.window.slices
        return ((block * self.plan.scheme.positions + position) * depth + k) * self.window.out_block + lane

    def weight(self, position: Expr, group: Expr, k: Expr, vector: int) -> Expr:
        """Loads a vector of transformed weights."""
        weight, lanes, inner = self.window.weight, self.plan.tile.lanes, self.window.block
        if weight.buffer is not None:
            value = E.load(weight.buffer, E.ramp(self._weight_place(position, group, k, vector), 1, lanes))
        else:
            block, lane = self.channel(group, vector)
            places = loops.unravel(k // inner, weight.shape[2:-2])
            value = weight.read([block, position, *places, k % inner, E.ramp(lane, 1, lanes)])
        return E.cast(value, self.plan.tile.dtype)

    def _outputs(self, plan: WinogradPlan, group: Expr) -> Stmt:
        """A^T m A of every tile, written where it lies on the result."""
        def tile_outputs(number: Expr, tile: Expr) -> Stmt:
            lets, row, column = self._first_output(plan, tile)
            vectors = _each("vector", plan.vectors, plan.vectors, lambda vector: self._output_tile(
                plan, group, number, tile, row, column, vector), self._repeats)
            written = loops.guard(self.first + tile < plan.tile_count, vectors) if self._may_be_past else vectors
            return seq(lets, written)

        return loops.serial("slice", self.slices, lambda number: loops.serial(
            "tile", self.size, lambda tile: tile_outputs(number, tile)))

    def _output_tile(
        self, plan: WinogradPlan, group: Expr, number: Expr, tile: Expr, row: Expr, column: Expr, vector: Expr
    ) -> Stmt:
        window, out = self.window, plan.scheme.out
        block, lane = self.channel(group, vector)
        lanes = E.ramp(lane, 1, plan.tile.lanes)
        finished = loops.local("outputs", plan.tile.dtype, out * out, plan.tile.lanes)

        def load(y: int, x: int) -> Expr:
            return E.load(self.sums, self._sums_at(E.as_expr(place(y, x)) * plan.sum_places, number, tile, vector))

        def write(y: Expr, x: Expr) -> Stmt:
            value = E.cast(self.finish(E.load(finished, y * out + x)), window.result.dtype)
            place = row + y * window.height.dilation, column + x * window.width.dilation
            return window.write((self.image[0], self.image[1] + number), block, *place, lanes, value)

        transform = square(plan.scheme.patch, out, load, plan.scheme.output_line,
                           lambda y, x, value: store(finished, y * out + x, value))
        high, wide = self._left(plan, window.height, row), self._left(plan, window.width, column)
        rows = _each("y", high, out, lambda y: _each("x", wide, out, lambda x: write(y, x)), self._repeats)
        return seq(Allocate(finished), transform, rows)

    @property
    def _repeats(self) -> bool:
        """Whether loops over vectors and rows of outputs stay loops: where calls share code, and an epilogue makes it long."""
        window, lanes = self.window, self.plan.tile.lanes
        zero, value = E.const(0), E.const(0, window.result.dtype, lanes)
        written = window.write(self.image, zero, zero, zero, E.ramp(zero, 1, lanes), value)
        return self.plan.shared is not None and loops.statement_cost(written) > WRITTEN_OUT


def _each(name: str, count: ExprLike, most: int, body: Callable[[Expr], Stmt], repeat: bool = False) -> Stmt:
    """``body`` for each index below ``count``, which is at most ``most``: written out, unless the same code is to ``repeat``."""
    count = E.as_expr(count)
    if repeat:
        return loops.serial(name, count, body)
    known = loops.static(count)
    if known is not None:
        return loops.unroll(name, known, body)
    return loops.unroll(name, most, lambda i: loops.guard(i < count, body(i)))
