"""A profile as one self-contained page: bars by operator, and a table of all kernels that can be sorted."""

from __future__ import annotations

from html import escape

from forge.cli import source
from forge.driver.profiler import Profile, ProfileRow, of_copy, rate
from forge.view.page import document
from forge.view.tables import SCRIPT, STYLE, number, table

_STYLE = """
.bar { background: var(--good); height: 1em; display: inline-block; vertical-align: middle }
.shares td { border: 0 } .shares td:last-child { width: 50%; min-width: 14em; white-space: nowrap }
"""
_HEADS = ("#", "layer, operators", "ms", "share", "GFLOP/s", "of peak", "GB/s", "of copy")
_NOTES = """<p class="note"><b>of peak</b>: of the most multiplications and additions that the threads were measured to do.
Winograd's algorithm does fewer than are counted, and may exceed 100 %. <b>of copy</b>: of the bytes that copying in memory
reads and writes in the same time; <i>cached</i> is faster than that, so the bytes came from caches. Kernels that are
too short to tell have no rates.</p>"""


def page(found: Profile, name: str) -> str:
    """The page's text."""
    peaks = f"{found.peaks.flops / 1e9:.0f} GFLOP/s and {found.peaks.bandwidth / 1e9:.1f} GB/s copied"
    rows = [_kernel(place, row, found) for place, row in enumerate(found.rows)]
    body = (
        f"<h1>{escape(name)}</h1>"
        f"<p>{1e3 * found.seconds:.4g} ms on {source.count_text(found.threads, 'thread')}, median of {found.rounds} rounds or "
        f"more; {source.count_text(len(found.rows), 'kernel')}. Peaks measured in the same run: {peaks} in memory.</p>"
        f'<h2>By operators</h2><div class="wide"><table class="shares">{_bars(found)}</table></div>'
        f"<h2>Kernels in order</h2>{_NOTES}{table('kernels', _HEADS, rows)}"
    )
    return document(f"{name}: profile", STYLE + _STYLE, f"<main>{body}</main>", SCRIPT)


def _bars(found: Profile) -> str:
    whole = sum(r.seconds for r in found.rows) or 1.0
    lines = []
    for operators, rows in found.by_operator.items():
        seconds = sum(r.seconds for r in rows)
        bar = f'<span class="bar" style="width:{85 * seconds / whole:.2f}%"></span>'
        what, taken = f'{escape(" + ".join(operators))} &times; {len(rows)}', f"{1e3 * seconds:.4f} ms"
        lines.append(f'<tr><td class="name">{what}</td><td class="n">{taken}</td><td>{bar} {seconds / whole:.1%}</td></tr>')
    return "".join(lines)


def _kernel(place: int, row: ProfileRow, found: Profile) -> str:
    whole = sum(r.seconds for r in found.rows) or 1.0
    title = escape(", ".join(row.nodes))
    layer = f"{escape(row.layer)}<br>" if row.layer else ""
    what = f'{layer}{escape(" + ".join(row.operators))}<br><small>{escape(row.shapes)}</small>'
    flops, moved = rate([row], "flops"), rate([row], "bytes")
    cells = [
        number(place, "d"), f'<td class="name" title="{title}">{what}</td>', number(1e3 * row.seconds, ".4f"),
        number(row.seconds / whole, ".1%"), number(None if flops is None else flops / 1e9, ".1f", missing=""),
        number(None if flops is None else flops / found.peaks.flops, ".0%", missing=""),
        number(None if moved is None else moved / 1e9, ".1f", missing=""),
    ]
    share = "" if moved is None else of_copy(moved, found.peaks.bandwidth)
    cells.append(f'<td class="n" data-key="{-1 if moved is None else moved / found.peaks.bandwidth}">{share}</td>')
    return f"<tr>{''.join(cells)}</tr>"
