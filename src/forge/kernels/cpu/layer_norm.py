"""Layer normalization and its form without mean (RMS).

Mean first, then the sum of squared differences: as accurate as the numbers allow, and cheap while the row is in a near cache.
Of a longer row both are taken chunk by chunk and put together, so that memory is read once for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forge import dtypes
from forge.kernels.cpu.moments import moments
from forge.kernels.cpu.panels import broadcast_indices
from forge.kernels.cpu.rows import AlongRow, KernelRow, Position, Step, row_function, row_problem
from forge.loops import bind, bound, guard, static
from forge.loops.contract import KernelCall, kernel
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Function, Stmt, seq

COST = 10


@kernel("layer_norm")
def layer_norm(call: KernelCall) -> Function:
    """Family of ``nn.layer_norm`` and ``nn.rms_norm`` over all axes from attribute axis to the last.

    Operands: data, gamma (or None), beta (or None, or not there); attributes axis, epsilon, and optionally scale and center,
    which turn gamma and beta off. ``(x - mean) / sqrt(variance + epsilon) * gamma + beta``; ``nn.rms_norm`` takes the mean
    for 0. float16 and bfloat16 are computed in float32.
    """
    data = call.readers[0]
    gamma = call.operand(1) if getattr(call.attrs, "scale", True) else None
    beta = call.operand(2) if getattr(call.attrs, "center", True) else None

    def reads(indices: Sequence[Expr]) -> Mapping[str, Expr]:
        values = {"data": data.read(tuple(indices))}
        given = {"gamma": gamma, "beta": beta}
        return values | {name: p.read(broadcast_indices(indices, p.shape)) for name, p in given.items() if p is not None}

    rank = len(data.shape)
    problem = row_problem(call, range(call.attrs.axis % rank, rank), reads)
    dtype = data.dtype if data.dtype == "float64" else "float32"
    centred = call.operator != "nn.rms_norm"
    scale = E.const(1.0, dtype) / E.cast(problem.length, dtype)

    def normalized(row: KernelRow) -> list[Step]:
        return [(_normalize(row, scale, call.attrs.epsilon, centred), None)]

    return row_function(call, problem, dtype, normalized, COST, centred)


def _normalize(row: KernelRow, scale: Expr, epsilon: float, centred: bool) -> Stmt:
    # A row that does not fit into half of the first-level cache is taken in chunks.
    limit = row.problem.target.l1_cache // (2 * dtypes.itemsize(row.dtype))
    length = static(row.problem.length)
    if not centred or not isinstance(row, AlongRow) or row.cached or length is not None and length <= limit:
        return _normalize_row(row, scale, epsilon, centred)
    row.is_short = True
    whole = _normalize_row(row, scale, epsilon, centred)
    passed, mean, total = moments(row)
    chunks = seq(passed, _apply(row, scale, epsilon, mean, total))
    return guard(E.compare("gt", row.problem.length, limit), chunks, whole)


def _apply(row: KernelRow, scale: Expr, epsilon: float, mean: Expr | None, total: Expr) -> list[Stmt]:
    """Divides by the deviation, of which ``total`` is the sum of squares."""
    deviation = E.call("sqrt", total * scale + E.const(epsilon, row.dtype))
    lets, factor = bind("factor", E.const(1.0, row.dtype, total.lanes) / deviation)
    return [*lets, row.each(lambda position: _result(row, position, mean, factor))]


def _normalize_row(row: KernelRow, scale: Expr, epsilon: float, centred: bool) -> Stmt:
    parts: list[Stmt] = []
    mean: Expr | None = None
    if centred:
        first, total = row.reduce("sum", lambda position: row.first("data", position))
        parts.append(first)
        mean = bound(total * scale, parts, "mean")

    def squares(position: Position) -> tuple[Sequence[Stmt], Expr]:
        lets, d = row.first("data", position) if mean is None else bind("d", row.again("data", position) - mean)
        return lets, d * d

    second, total = row.reduce("sum", squares)
    return seq(parts, second, _apply(row, scale, epsilon, mean, total))


def _result(row: KernelRow, position: Position, mean: Expr | None, factor: Expr) -> Stmt:
    x = row.again("data", position)
    y = (x if mean is None else x - mean) * factor
    if "gamma" in row.problem.reads:
        y = y * row.read("gamma", position)
    if "beta" in row.problem.reads:
        y = y + row.read("beta", position)
    return row.write(y, position)
