"""A report as one self-contained page: charts, tables that can be sorted, histograms. It runs one script and loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from forge.quantization import charts
from forge.quantization.charts import text_of
from forge.quantization.report import LayerRow, Report, decibel_text, share_text
from forge.quantization.rounding_errors import RoundedValue
from forge.quantization.variants import Variant
from forge.view.page import document

NEAR_DB, FAR_DB = 30.0, 15.0
"""From here on errors are small; below this they are large."""
FULL_BAR_DB = 60.0
WAYS = ("float32", "bfloat16", "int8")

_STYLE = """
:root { color-scheme: light dark; --ink: light-dark(#222, #e6e8ec); --muted: light-dark(#5b6472, #98a1b0);
  --line: light-dark(#d5d9e0, #363c47); --surface: light-dark(#f6f7f9, #1e2127); --good: light-dark(#2f6fb3, #6aa5e8);
  --fair: light-dark(#b07a00, #e0a93b); --bad: light-dark(#c2260c, #ff7a5c) }
body { font: 14px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 84em; padding: 1.5em; color: var(--ink);
  background: light-dark(#fff, #14161a); overflow-wrap: anywhere }
h1 { font-size: 1.5em; margin: 0 } h2 { font-size: 1.15em; margin: 2em 0 .5em } p.note, small { color: var(--muted) }
.cards { display: flex; flex-wrap: wrap; gap: .8em; margin: 1em 0; padding: 0 } .cards div { background: var(--surface);
  border: 1px solid var(--line); border-radius: 8px; padding: .5em 1em } .cards dt { color: var(--muted); font-size: 12px }
.cards dd { margin: 0; font-size: 1.25em; font-variant-numeric: tabular-nums }
.wide { overflow-x: auto } table { border-collapse: collapse; width: 100% }
th, td { padding: .3em .6em; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line) }
th button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0; padding: 0; text-align: left }
th button { cursor: pointer } th[aria-sort] button::after { content: " \\2195"; color: var(--muted) }
th[aria-sort=ascending] button::after { content: " \\2191" }
th[aria-sort=descending] button::after { content: " \\2193" } :focus-visible { outline: 2px solid var(--good) }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap } td.name { min-width: 12em }
.bar { vertical-align: middle; margin-left: .4em }
.good { fill: var(--good) } .fair { fill: var(--fair) } .bad { fill: var(--bad) }
.chart { max-width: 100%; height: auto } .axis, .grid { fill: none; stroke: var(--line) } .axis { stroke: var(--muted) }
.tick, .mark { font-size: 11px; fill: var(--muted) } .mark { fill: var(--ink); font-weight: 600 }
.front { fill: none; stroke: var(--good); stroke-dasharray: 4 3 } .point { fill: none; stroke: var(--muted); stroke-width: 1.5 }
.point.best { fill: var(--good); fill-opacity: .35; stroke: var(--good) } .point.chosen { stroke: var(--bad); stroke-width: 2.5 }
.charts { display: flex; flex-wrap: wrap; gap: 1.5em } figure { margin: 0 } figcaption { color: var(--muted); font-size: 12px }
.values { display: grid; grid-template-columns: repeat(auto-fill, minmax(310px, 1fr)); gap: 1em }
.values figure { background: var(--surface); border: 1px solid var(--line); border-radius: 8px; padding: .6em }
.bars { fill: var(--good) } .cut { fill: var(--bad) } .threshold { stroke: var(--bad); stroke-width: 1.3; stroke-dasharray: 3 2 }
.values figcaption { color: var(--ink) }
"""
_SCRIPT = """
document.querySelectorAll('table.sorted').forEach(table => table.querySelectorAll('th').forEach((head, column) => {
  head.querySelector('button').addEventListener('click', () => {
    const down = head.getAttribute('aria-sort') !== 'descending', body = table.tBodies[0];
    table.querySelectorAll('th').forEach(other => other.setAttribute('aria-sort', 'none'));
    head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const key = row => row.cells[column].dataset.key ?? row.cells[column].textContent;
    const order = (a, b) => isNaN(key(a)) || isNaN(key(b)) ? key(a).localeCompare(key(b)) : key(a) - key(b);
    [...body.rows].sort((a, b) => down ? order(b, a) : order(a, b)).forEach(row => body.append(row));
  });
}));
"""


def page(report: Report) -> str:
    """The page's text."""
    parts = [_head(report), _suggestions(report), _charts(report), _variants(report), _layers(report), _times(report),
             _left(report), _values(report)]
    return document(f"{report.name}: quantisation", _STYLE, f"<main>{''.join(parts)}</main>", _SCRIPT)


def frame(report: Report) -> str:
    """The page inside another one, which it cannot touch."""
    facts = 'title="quantisation report" sandbox="allow-scripts" style="width:100%;height:640px;border:1px solid #888"'
    return f'<iframe {facts} srcdoc="{escape(page(report))}"></iframe>'


def _head(report: Report) -> str:
    cards = [("quantised layers", f"{len(report.layers)} of {len(report.layers) + len(report.left)}")]
    for output in report.outputs:
        cards.append((f"output {output.name}", f"{decibel_text(output.sqnr)} dB"))
        if output.agreement is not None:
            cards.append((f"arg max of {output.name} agrees", share_text(output.agreement)))
    real, chosen = next(iter(report.variants), None), report.chosen
    if real is not None and chosen is not None:
        cards.append(("size", f"{_bytes(real.bytes)} → {_bytes(chosen.bytes)}"))
        cards.append(("latency", f"{1e3 * real.seconds:.3g} → {1e3 * chosen.seconds:.3g} ms"))
    listed = "".join(f"<div><dt>{text_of(name)}</dt><dd>{text_of(text)}</dd></div>" for name, text in cards)
    scheme = ", ".join(f"{name}={value!r}" for name, value in report.scheme.items() if value not in (None, []))
    where = f"{report.samples} samples, {report.threads} thread(s), {report.cpu}"
    note = f"{text_of(scheme)}<br>{text_of(where)}. dB: signal to noise against the model of real numbers; larger is better."
    return f"<h1>{text_of(report.name)}: quantisation</h1><p class='note'>{note}</p><dl class='cards'>{listed}</dl>"


def _suggestions(report: Report) -> str:
    if not report.suggestions:
        return "<h2>Suggestions</h2><p>None: nothing that was tried gains much.</p>"
    marks = {True: "", False: " <small>(predicted)</small>"}
    items = "".join(f"<li>{text_of(s.text)}{marks[s.measured]}</li>" for s in report.suggestions)
    return f"<h2>Suggestions</h2><ul id='suggestions'>{items}</ul>"


def _charts(report: Report) -> str:
    variants = "Variants, by their numbers in the table. Area: size. Filled: no other is better in all. Red ring: as quantised."
    shown = [(charts.pareto(report.variants), variants),
             (charts.curve(report.exclusions), "Outputs if the layers that cost most stay real, one after the other.")]
    figures = "".join(f"<figure>{chart}<figcaption>{text}</figcaption></figure>" for chart, text in shown if chart)
    return f"<h2>Accuracy, latency, size</h2><div class='charts'>{figures}</div>" if figures else ""


def _table(name: str, heads: Sequence[str], rows: Sequence[str]) -> str:
    cells = "".join(f'<th scope="col" aria-sort="none"><button type="button">{head}</button></th>' for head in heads)
    return (f'<div class="wide"><table class="sorted" id="{name}"><thead><tr>{cells}</tr></thead>'
            f"<tbody>{''.join(rows)}</tbody></table></div>")


def _number(value: float | None, form: str, extra: str = "") -> str:
    if value is None:
        return '<td class="n" data-key="-1e9">-</td>'
    return f'<td class="n" data-key="{value}">{value:{form}}{extra}</td>'


def _variants(report: Report) -> str:
    if not report.variants:
        return ""
    rows = [_variant(k + 1, v) for k, v in enumerate(report.variants)]
    heads = ("#", "variant", "outputs, dB", "arg max agrees, %", "ms", "bytes", "layers", "best")
    return f"<h2>Variants tried</h2>{_table('variants', heads, rows)}"


def _variant(number: int, variant: Variant) -> str:
    share = None if variant.agreement is None else 100 * variant.agreement
    cells = [_number(number, "d"), f'<td class="name">{text_of(variant.title)}</td>', _number(variant.sqnr, ".1f")]
    cells += [_number(share, ".1f"), _number(1e3 * variant.seconds, ".4g")]
    cells += [_number(variant.bytes, ",d"), _number(variant.layers, "d")]
    return f"<tr>{''.join(cells)}<td>{'yes' if variant.is_best else ''}</td></tr>"


def _layers(report: Report) -> str:
    heads = ("#", "layer", "in the model, dB", "alone, dB", "weight, dB", "data, dB", "output: only this, dB",
             "output: all but this, dB", "weight bytes", "what would help")
    note = ("Alone: the layer by itself is quantised and reads real data; of that, what its weight and its data lose. "
            "Output: of the model with only this layer quantised, and with all others.")
    rows = [_layer(row) for row in report.worst]
    return f"<h2>Layers, the worst first</h2><p class='note'>{note}</p>{_table('layers', heads, rows)}"


def _layer(row: LayerRow) -> str:
    error = row.error
    cells = [_number(row.number, "d"), f'<td class="name">{text_of(row.label)}<br><small>{text_of(row.shapes)}</small></td>']
    cells += [_number(db, ".1f", _decibel_bar(db)) for db in (error.cumulative, error.alone)]
    cells += [_number(db, ".1f") for db in (error.weight, error.data, row.only, row.without)]
    cells.append(f'<td class="n" data-key="{0 if row.weight is None else row.weight.bytes}">{row.size_text}</td>')
    return f"<tr>{''.join(cells)}<td>{text_of(row.advice)}</td></tr>"


def _decibel_bar(number: float) -> str:
    return charts.bar(number / FULL_BAR_DB, "good" if number >= NEAR_DB else "fair" if number >= FAR_DB else "bad", 60)


def _times(report: Report) -> str:
    rows = [row for row in report.layers if row.seconds]
    if not rows:
        return ""
    ways = [w for w in WAYS if any(w in row.seconds for row in rows)]
    longest = max(s for row in rows for s in row.seconds.values()) or 1.0
    lines = [_time_row(row, ways, longest) for row in rows]
    heads = ("#", "layer", *(f"{way}, us" for way in ways))
    note = "Least time of a layer with what is fused into its kernel; layers that share one share its time."
    return f"<h2>Times of layers</h2><p class='note'>{note}</p>{_table('times', heads, lines)}"


def _time_row(row: LayerRow, ways: Sequence[str], longest: float) -> str:
    least = min(row.seconds.values())
    cells = [_number(row.number, "d"), f'<td class="name">{text_of(row.label)}</td>']
    for name in ways:
        taken = row.seconds.get(name)
        kind = "good" if taken == least else "fair"
        cells.append(_number(None if taken is None else 1e6 * taken, ".1f", charts.bar((taken or 0) / longest, kind)))
    return f"<tr>{''.join(cells)}</tr>"


def _left(report: Report) -> str:
    if not report.left:
        return ""
    rows = [f'<tr><td class="name">{text_of(label)}</td><td>{text_of(reason)}</td></tr>' for label, reason in report.left.items()]
    return f"<h2>Layers that stay real</h2>{_table('left', ('layer', 'reason'), rows)}"


def _values(report: Report) -> str:
    if not report.values:
        return ""
    note = ("Logarithms of counts over the calibration data. Dashed lines: the range of the codes; what lies outside is cut off.")
    figures = "".join(f"<figure>{charts.histogram(v)}<figcaption>{_caption(v)}</figcaption></figure>" for v in report.values)
    return f"<h2>What is rounded</h2><p class='note'>{note}</p><div class='values' id='values'>{figures}</div>"


def _caption(value: RoundedValue) -> str:
    other = ", ".join(f"{method} {db:.1f}" for method, db in value.methods.items())
    facts = (f"{value.dtype}, scale {value.scale:.4g}, zero {value.zero}; from {value.low:.4g} to {value.high:.4g}; "
             f"{value.choice}; {value.saturated:.3g} % cut off; {value.sqnr:.1f} dB (by method: {other})")
    return f"<b>{text_of(value.label)}</b><br><small>{text_of(facts)}</small>"


def _bytes(size: int) -> str:
    return f"{size / 1e6:.2f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
