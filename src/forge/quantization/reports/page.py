"""A report as one self-contained page: charts, tables that can be sorted, histograms. It runs one script and loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from forge.quantization.chosen.rounding_errors import RoundedValue
from forge.quantization.chosen.variants import ModelVariant
from forge.quantization.reports import charts
from forge.quantization.reports.charts import text_of
from forge.quantization.reports.report import LayerRow, Report, decibel_text, share_text
from forge.view.page import document
from forge.view.tables import SCRIPT, STYLE, number, table

NEAR_DB, FAR_DB = 30.0, 15.0
"""From here on errors are small; below this they are large."""
FULL_BAR_DB = 60.0
WAYS = ("float32", "bfloat16", "int8")

_STYLE = """
.cards { display: flex; flex-wrap: wrap; gap: .8em; margin: 1em 0; padding: 0 } .cards div { background: var(--surface);
  border: 1px solid var(--line); border-radius: 8px; padding: .5em 1em } .cards dt { color: var(--muted); font-size: 12px }
.cards dd { margin: 0; font-size: 1.25em; font-variant-numeric: tabular-nums }
.bar { vertical-align: middle; margin-left: .4em }
.good { fill: var(--good) } .fair { fill: var(--fair) } .bad { fill: var(--bad) }
.chart { width: 100%; height: auto } .axis, .grid { fill: none; stroke: var(--line) } .axis { stroke: var(--muted) }
.tick, .mark { font-size: 11px; fill: var(--muted) } .mark { fill: var(--ink); font-weight: 600 }
.front { fill: none; stroke: var(--good); stroke-dasharray: 4 3 } .point { fill: none; stroke: var(--muted); stroke-width: 1.5 }
.point.best { fill: var(--good); fill-opacity: .35; stroke: var(--good) } .point.chosen { stroke: var(--bad); stroke-width: 2.5 }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 1.5em }
figure { margin: 0 } figcaption { color: var(--muted); font-size: 12px }
.values { display: grid; grid-template-columns: repeat(auto-fill, minmax(310px, 1fr)); gap: 1em }
.values figure { background: var(--surface); border: 1px solid var(--line); border-radius: 8px; padding: .6em }
.bars { fill: var(--good) } .cut { fill: var(--bad) } .threshold { stroke: var(--bad); stroke-width: 1.3; stroke-dasharray: 3 2 }
.values figcaption { color: var(--ink) }
"""


def page(report: Report) -> str:
    """Returns the text of the page."""
    parts = [_head(report), _suggestions(report), _charts(report), _variants(report), _layers(report), _times(report),
             _left(report), _values(report)]
    return document(f"{report.name}: quantization", STYLE + _STYLE, f"<main>{''.join(parts)}</main>", SCRIPT)


def frame(report: Report) -> str:
    """Returns the page in a frame of another one, which it cannot touch."""
    facts = 'title="quantization report" sandbox="allow-scripts" style="width:100%;height:640px;border:1px solid #888"'
    return f'<iframe {facts} srcdoc="{escape(page(report))}"></iframe>'


def _head(report: Report) -> str:
    cards = [("quantized layers", f"{len(report.layers)} of {len(report.layers) + len(report.left)}")]
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
    where = f"samples: {report.samples}, threads: {report.threads}, {report.cpu}"
    note = f"{text_of(scheme)}<br>{text_of(where)}. dB: signal to noise against the float model; larger is better."
    return f"<h1>{text_of(report.name)}: quantization</h1><p class='note'>{note}</p><dl class='cards'>{listed}</dl>"


def _suggestions(report: Report) -> str:
    if not report.suggestions:
        return "<h2>Suggestions</h2><p>None: nothing that was tried gains much.</p>"
    marks = {True: "", False: " <small>(predicted)</small>"}
    items = "".join(f"<li>{text_of(s.text)}{marks[s.measured]}</li>" for s in report.suggestions)
    return f"<h2>Suggestions</h2><ul id='suggestions'>{items}</ul>"


def _charts(report: Report) -> str:
    variants = "Variants, by their numbers in the table. Area: size. Filled: no other is better in all. Red ring: as quantized."
    shown = [(charts.pareto(report.variants), variants),
             (charts.curve(report.exclusions), "Outputs if the layers that cost most stay in float, one after the other.")]
    figures = "".join(f"<figure>{chart}<figcaption>{text}</figcaption></figure>" for chart, text in shown if chart)
    return f"<h2>Accuracy, latency, size</h2><div class='charts'>{figures}</div>" if figures else ""


def _variants(report: Report) -> str:
    if not report.variants:
        return ""
    rows = [_variant(k + 1, v) for k, v in enumerate(report.variants)]
    heads = ("#", "variant", "outputs, dB", "arg max agrees, %", "ms", "bytes", "layers", "best")
    return f"<h2>Variants tried</h2>{table('variants', heads, rows)}"


def _variant(place: int, variant: ModelVariant) -> str:
    share = None if variant.agreement is None else 100 * variant.agreement
    cells = [number(variant.sqnr, ".1f"), number(share, ".1f"), number(1e3 * variant.seconds, ".4g")]
    cells += [number(variant.bytes, ",d"), number(variant.layers, "d"), f"<td>{'yes' if variant.is_best else ''}</td>"]
    return _row(place, text_of(variant.title), cells)


def _row(place: int, name: str, cells: Sequence[str]) -> str:
    return f'<tr>{number(place, "d")}<td class="name">{name}</td>{"".join(cells)}</tr>'


def _layers(report: Report) -> str:
    heads = ("#", "layer", "in the model, dB", "alone, dB", "weight, dB", "data, dB", "output: only this, dB",
             "output: all but this, dB", "weight bytes", "what would help")
    note = ("Alone: the layer by itself is quantized and reads float data; of that, what its weight and its data lose. "
            "Output: of the model with only this layer quantized, and with all others.")
    rows = [_layer(row) for row in report.worst]
    return f"<h2>Layers, the worst first</h2><p class='note'>{note}</p>{table('layers', heads, rows)}"


def _layer(row: LayerRow) -> str:
    error = row.error
    cells = [number(db, ".1f", _decibel_bar(db)) for db in (error.cumulative, error.alone)]
    cells += [number(db, ".1f") for db in (error.weight, error.data, row.only, row.without)]
    cells.append(f'<td class="n" data-key="{0 if row.weight is None else row.weight.bytes}">{row.size_text}</td>')
    cells.append(f'<td class="text">{text_of(row.advice)}</td>')
    return _row(row.number, f"{text_of(row.label)}<br><small>{text_of(row.shapes)}</small>", cells)


def _decibel_bar(sqnr: float) -> str:
    return charts.bar(sqnr / FULL_BAR_DB, "good" if sqnr >= NEAR_DB else "fair" if sqnr >= FAR_DB else "bad", 60)


def _times(report: Report) -> str:
    rows = [row for row in report.layers if row.seconds]
    if not rows:
        return ""
    ways = [w for w in WAYS if any(w in row.seconds for row in rows)]
    longest = max(s for row in rows for s in row.seconds.values()) or 1.0
    lines = [_time_row(row, ways, longest) for row in rows]
    heads = ("#", "layer", *(f"{way}, us" for way in ways))
    note = "Least time of a layer with what is fused into its kernel; layers that share one share its time."
    return f"<h2>Times of layers</h2><p class='note'>{note}</p>{table('times', heads, lines)}"


def _time_row(row: LayerRow, ways: Sequence[str], longest: float) -> str:
    least, cells = min(row.seconds.values()), []
    for name in ways:
        taken = row.seconds.get(name)
        kind = "good" if taken == least else "fair"
        cells.append(number(None if taken is None else 1e6 * taken, ".1f", charts.bar((taken or 0) / longest, kind)))
    return _row(row.number, text_of(row.label), cells)


def _left(report: Report) -> str:
    if not report.left:
        return ""
    rows = [f'<tr><td class="name">{text_of(label)}</td><td>{text_of(reason)}</td></tr>' for label, reason in report.left.items()]
    return f"<h2>Layers that stay in float</h2>{table('left', ('layer', 'reason'), rows)}"


def _values(report: Report) -> str:
    if not report.values:
        return ""
    note = "Logarithms of counts in calibration. Dashed lines: the range of quantized values; what lies outside is cut off."
    figures = "".join(f"<figure>{charts.histogram(v)}<figcaption>{_caption(v)}</figcaption></figure>" for v in report.values)
    return f"<h2>What is rounded</h2><p class='note'>{note}</p><div class='values' id='values'>{figures}</div>"


def _caption(value: RoundedValue) -> str:
    other = ", ".join(f"{method} {db:.1f}" for method, db in value.methods.items())
    facts = (f"{value.dtype}, scale {value.scale:.4g}, zero {value.zero}; from {value.low:.4g} to {value.high:.4g}; "
             f"{value.choice}; {value.saturated:.3g} % cut off; {value.sqnr:.1f} dB (by method: {other})")
    return f"<b>{text_of(value.label)}</b><br><small>{text_of(facts)}</small>"


def _bytes(size: int) -> str:
    return f"{size / 1e6:.2f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
