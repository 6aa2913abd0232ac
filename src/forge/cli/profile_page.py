"""A profile as one self-contained page: bars by operator, and a table of all kernels that can be sorted."""

from __future__ import annotations

from html import escape

from forge.driver.profiler import Profile, ProfileRow, of_copy, rate
from forge.view.page import document

_STYLE = """
:root { color-scheme: light dark }
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em;
  color: light-dark(#222, #e6e8ec); background: light-dark(#fff, #14161a) }
table { border-collapse: collapse; width: 100% } td, th { padding: .25em .6em; text-align: left; vertical-align: top }
th { border-bottom: 2px solid #888; cursor: pointer } tr:nth-child(even) { background: light-dark(#f4f4f6, #1e2127) }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.bar { background: #4a78b8; height: 1em; display: inline-block; vertical-align: middle }
.shapes { color: light-dark(#666, #98a1b0); font-size: 12px }
"""
_SCRIPT = """
document.querySelectorAll('th').forEach((head, column) => head.addEventListener('click', () => {
  const body = document.querySelector('#kernels tbody'), down = head.dataset.down !== '1';
  head.dataset.down = down ? '1' : '0';
  const key = row => row.cells[column].dataset.key ?? row.cells[column].textContent;
  const order = (a, b) => isNaN(key(a)) || isNaN(key(b)) ? String(key(a)).localeCompare(key(b)) : key(a) - key(b);
  [...body.rows].sort((a, b) => down ? order(b, a) : order(a, b)).forEach(row => body.append(row));
}));
"""
_HEADS = ("#", "layer, operators", "ms", "share", "GFLOP/s", "of peak", "GB/s", "of copy")


def page(found: Profile, name: str) -> str:
    """The page's text."""
    peaks = f"{found.peaks.flops / 1e9:.0f} GFLOP/s and {found.peaks.bandwidth / 1e9:.1f} GB/s copied"
    heads = "".join(f"<th>{head}</th>" for head in _HEADS)
    rows = "".join(_kernel(number, row, found) for number, row in enumerate(found.rows))
    body = (
        f"<h1>{escape(name)}</h1>"
        f"<p>{1e3 * found.seconds:.4g} ms on {found.threads} thread(s), median of {found.rounds} rounds or more; "
        f"{len(found.rows)} kernels. Peaks measured in the same run: {peaks} in memory; cached: what moves faster.</p>"
        f"<h2>By operators</h2><table>{_bars(found)}</table>"
        f'<h2>Kernels in order</h2><table id="kernels"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    )
    return document(f"{name}: profile", _STYLE, body, _SCRIPT)


def _bars(found: Profile) -> str:
    whole = sum(r.seconds for r in found.rows) or 1.0
    lines = []
    for operators, rows in found.by_operator.items():
        seconds = sum(r.seconds for r in rows)
        bar = f'<span class="bar" style="width:{40 * seconds / whole:.2f}em"></span>'
        lines.append(f'<tr><td>{escape(" + ".join(operators))} &times; {len(rows)}</td><td class="n">{1e3 * seconds:.3f} ms</td>'
                     f"<td>{bar} {seconds / whole:.1%}</td></tr>")
    return "".join(lines)


def _kernel(number: int, row: ProfileRow, found: Profile) -> str:
    whole = sum(r.seconds for r in found.rows) or 1.0
    title = escape(", ".join(row.nodes))
    layer = f"{escape(row.layer)}<br>" if row.layer else ""
    what = f'{layer}{escape(" + ".join(row.operators))}<br><span class="shapes">{escape(row.shapes)}</span>'
    cells = [_number(number, "d"), f'<td title="{title}">{what}</td>', _number(1e3 * row.seconds, ".4f")]
    cells.append(_number(row.seconds / whole, ".1%"))
    flops, moved = rate([row], "flops"), rate([row], "bytes")
    cells += [_number(None if flops is None else flops / 1e9, ".1f")]
    cells += [_number(None if flops is None else flops / found.peaks.flops, ".0%")]
    cells += [_number(None if moved is None else moved / 1e9, ".1f")]
    share = "" if moved is None else of_copy(moved, found.peaks.bandwidth)
    cells.append(f'<td class="n" data-key="{-1 if moved is None else moved / found.peaks.bandwidth}">{share}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _number(value: float | None, form: str) -> str:
    return '<td class="n" data-key="-1"></td>' if value is None else f'<td class="n" data-key="{value}">{value:{form}}</td>'
