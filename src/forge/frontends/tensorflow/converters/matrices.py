"""Diagonals and triangles of matrices."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims
from forge.compose.distances import cross as vector_product
from forge.dims import Dim
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts
from forge.ir.nodes import Value

_ALIGNMENTS = ("LEFT_LEFT", "LEFT_RIGHT", "RIGHT_LEFT", "RIGHT_RIGHT")


def _band(g: Context, k: Value) -> tuple[int, int]:
    found = g.required_ints(k, "k")
    if not 1 <= len(found) <= 2 or found[0] > found[-1]:
        raise g.invalid(f"k: got {found}; expected the number of a diagonal, or of the lowest and the highest")
    return found[0], found[-1]


def _rights(g: Context, align: str) -> tuple[bool, bool]:
    """Whether diagonals above the main one, and those below it, stand at the right end of their rows."""
    if align not in _ALIGNMENTS:
        raise g.invalid(f"align: got {align!r}; expected one of {', '.join(_ALIGNMENTS)}")
    above, below = align.split("_")
    return above == "RIGHT", below == "RIGHT"


def _set(g: Context, x: Value, diagonal: Value, band: tuple[int, int], align: str) -> Value:
    above, below = _rights(g, align)
    if band[0] == band[1] and diagonal.rank == x.rank:
        diagonal = g.call("squeeze", diagonal, axis=(diagonal.rank - 2,))
    return g.call(
        "matrix_set_diag", x, diagonal, k1=band[0], k2=band[1], super_diag_right_align=above, sub_diag_right_align=below)


@converts("MatrixSetDiag")
def matrix_set_diag(g: Context, x: Value, diagonal: Value) -> Value:
    return _set(g, x, diagonal, (0, 0), "LEFT_LEFT")


@converts("MatrixSetDiagV2")
def matrix_set_diag_v2(g: Context, x: Value, diagonal: Value, k: Value) -> Value:
    return _set(g, x, diagonal, _band(g, k), "LEFT_LEFT")


@converts("MatrixSetDiagV3")
def matrix_set_diag_v3(g: Context, x: Value, diagonal: Value, k: Value, *, align: str = "RIGHT_LEFT") -> Value:
    return _set(g, x, diagonal, _band(g, k), align)


@converts("MatrixDiag")
def matrix_diag(g: Context, diagonal: Value) -> Value:
    return _made(g, diagonal, (0, 0), (-1, -1), g.constant(0, diagonal.dtype), "LEFT_LEFT")


@converts("MatrixDiagV2")
def matrix_diag_v2(g: Context, diagonal: Value, k: Value, rows: Value, columns: Value, padding: Value) -> Value:
    return _made(g, diagonal, _band(g, k), (g.one_int(rows, "num_rows"), g.one_int(columns, "num_cols")), padding, "LEFT_LEFT")


@converts("MatrixDiagV3")
def matrix_diag_v3(
    g: Context, diagonal: Value, k: Value, rows: Value, columns: Value, padding: Value, *, align: str = "RIGHT_LEFT"
) -> Value:
    return _made(g, diagonal, _band(g, k), (g.one_int(rows, "num_rows"), g.one_int(columns, "num_cols")), padding, align)


def _made(
    g: Context, diagonal: Value, band: tuple[int, int], wanted: Sequence[int], padding: Value, align: str
) -> Value:
    """Matrices of ``padding`` with diagonals; sizes of -1 are the least that hold these, of square ones where both are."""
    longest = diagonal.shape[-1]
    rows, columns = longest - min(band[1], 0), longest + max(band[0], 0)
    if wanted[0] == wanted[1] == -1:
        rows = columns = dims.maximum(rows, columns)
    sizes: list[Dim] = [given if given != -1 else least for given, least in zip(wanted, (rows, columns))]
    batch = diagonal.shape[:-1] if band[0] == band[1] else diagonal.shape[:-2]
    return _set(g, g.broadcast(g.reshape(padding, ()), (*batch, *sizes)), diagonal, band, align)


@converts("MatrixDiagPart")
def matrix_diag_part(g: Context, x: Value) -> Value:
    return _part(g, x, (0, 0), g.constant(0, x.dtype), "LEFT_LEFT")


@converts("MatrixDiagPartV2")
def matrix_diag_part_v2(g: Context, x: Value, k: Value, padding: Value) -> Value:
    return _part(g, x, _band(g, k), padding, "LEFT_LEFT")


@converts("MatrixDiagPartV3")
def matrix_diag_part_v3(g: Context, x: Value, k: Value, padding: Value, *, align: str = "RIGHT_LEFT") -> Value:
    return _part(g, x, _band(g, k), padding, align)


def _part(g: Context, x: Value, band: tuple[int, int], padding: Value, align: str) -> Value:
    """Diagonals, the highest first, filled up to the longest."""
    rights = _rights(g, align)
    numbers = range(band[1], band[0] - 1, -1)
    found = [g.call("diagonal", x, offset=k, axis1=x.rank - 2, axis2=x.rank - 1) for k in numbers]
    if len(found) == 1:
        return found[0]
    longest: Dim = 0
    for one in found:
        longest = dims.maximum(longest, one.shape[-1])
    parts = []
    for k, one in zip(numbers, found):
        missing = longest - one.shape[-1]
        is_right = rights[0] if k > 0 else rights[1] and k < 0
        widths = (*((0, 0),) * (one.rank - 1), (missing, 0) if is_right else (0, missing))
        parts.append(g.call("nn.pad", one, g.reshape(padding, ()), pad_width=widths))
    return g.call("stack", *parts, axis=x.rank - 2)


@converts("Diag")
def diag(g: Context, diagonal: Value) -> Value:
    """A tensor of twice the rank, 0 but where both halves of the indices are the same."""
    count = dims.product(diagonal.shape)
    whole = _made(g, g.reshape(diagonal, (count,)), (0, 0), (-1, -1), g.constant(0, diagonal.dtype), "LEFT_LEFT")
    return g.reshape(whole, (*diagonal.shape, *diagonal.shape))


@converts("DiagPart")
def diag_part(g: Context, x: Value) -> Value:
    half = x.shape[: x.rank // 2]
    count = dims.product(half)
    return g.reshape(g.call("diagonal", g.reshape(x, (count, count))), half)


@converts("MatrixBandPart", "BatchMatrixBandPart")
def matrix_band_part(g: Context, x: Value, lower: Value, upper: Value) -> Value:
    """Without what lies further from the diagonal than that; all of a side for numbers below 0."""
    below, above = g.one_int(lower, "num_lower"), g.one_int(upper, "num_upper")
    if below >= 0:
        x = g.call("trilu", x, g.constant(-below, "int64"), upper=True)
    return g.call("trilu", x, g.constant(above, "int64"), upper=False) if above >= 0 else x


@converts("Cross")
def cross(g: Context, a: Value, b: Value) -> Value:
    return vector_product(g, a, b, a.rank - 1)
