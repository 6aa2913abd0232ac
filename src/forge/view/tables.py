"""What pages with tables share: colours of light and dark screens, and tables that a click on a head sorts."""

from __future__ import annotations

from collections.abc import Sequence

STYLE = """
:root { color-scheme: light dark; --ink: light-dark(#222, #e6e8ec); --muted: light-dark(#5b6472, #98a1b0);
  --line: light-dark(#d5d9e0, #363c47); --surface: light-dark(#f6f7f9, #1e2127); --good: light-dark(#2f6fb3, #6aa5e8);
  --fair: light-dark(#b07a00, #e0a93b); --bad: light-dark(#c2260c, #ff7a5c) }
body { font: 14px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 84em; padding: 1.5em; color: var(--ink);
  background: light-dark(#fff, #14161a); overflow-wrap: anywhere }
h1 { font-size: 1.5em; margin: 0 } h2 { font-size: 1.15em; margin: 2em 0 .5em } p.note, small { color: var(--muted) }
.wide { overflow-x: auto } table { border-collapse: collapse; width: 100% }
th, td { padding: .3em .6em; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); overflow-wrap: normal }
th button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0; padding: 0; text-align: left }
th button { cursor: pointer } th[aria-sort] button::after { content: "\\00a0\\2195"; color: var(--muted) }
th[aria-sort=ascending] button::after { content: "\\00a0\\2191" }
th[aria-sort=descending] button::after { content: "\\00a0\\2193" } :focus-visible { outline: 2px solid var(--good) }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
td.name { min-width: 14em; overflow-wrap: anywhere } td.text { min-width: 11em }
"""
SCRIPT = """
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
"""Sorts by ``data-key`` of the cells, else by their texts."""


def table(name: str, heads: Sequence[str], rows: Sequence[str]) -> str:
    """A table with the identifier ``name``, which scrolls where the screen is narrower."""
    cells = "".join(f'<th scope="col" aria-sort="none"><button type="button">{head}</button></th>' for head in heads)
    return (f'<div class="wide"><table class="sorted" id="{name}"><thead><tr>{cells}</tr></thead>'
            f"<tbody>{''.join(rows)}</tbody></table></div>")


def number(value: float | None, form: str, extra: str = "", missing: str = "-") -> str:
    """A cell with a number, in a format, and what stands beside it."""
    if value is None:
        return f'<td class="n" data-key="-1e9">{missing}</td>'
    return f'<td class="n" data-key="{value}">{value:{form}}{extra}</td>'
