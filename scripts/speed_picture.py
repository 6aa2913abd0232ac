"""Draws ``docs/static/speed.svg``: how Forge compares with the fastest peer, from the first table of the page of measurements."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "performance.md"
WIDTH, LABELS, TOP, ROW, UNIT = 720, 200, 52, 20, 190
"""In pixels: of the picture, of the names, of the heading, of a row, and of a ratio of 1."""

STYLE = """
.page { fill: #ffffff }
text { font: 13px system-ui, sans-serif; fill: #1f2328 } .small { font-size: 12px; fill: #59636e } .title { font-weight: 600 }
.bar { fill: #2f6fd0 } .peer { stroke: #59636e; stroke-dasharray: 3 3 }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117 } text { fill: #e6edf3 } .small { fill: #9198a1 } .bar { fill: #5b9bf5 } .peer { stroke: #9198a1 }
}
"""


class Row(NamedTuple):
    """A model, Forge's time on one thread in ms, and how many times as long the fastest peer takes."""

    model: str
    milliseconds: float
    ratio: float
    peer: str


def rows(page: str) -> list[Row]:
    """Those of the first table."""
    table = page[: page.index("| geometric mean |")]
    found = re.findall(r"^\| ([^|]+?) \| ([\d.]+) \| ([\d.]+) \| (\w+) \|", table, re.MULTILINE)
    return [Row(model, float(ms), float(ratio), peer) for model, ms, ratio, peer in found]


def bar(index: int, row: Row) -> str:
    y, length = TOP + index * ROW, row.ratio * UNIT
    return (
        f'<text x="{LABELS - 10}" y="{y + 14}" text-anchor="end">{row.model}</text>\n'
        f'<rect class="bar" x="{LABELS}" y="{y + 3}" width="{length:.0f}" height="{ROW - 6}" rx="2"/>\n'
        f'<text class="small" x="{LABELS + length + 6:.0f}" y="{y + 14}">{row.ratio:.2f}</text>\n')


def speed_picture() -> str:
    """The picture, the largest ratio first."""
    shown = sorted(rows(PAGE.read_text(encoding="utf-8")), key=lambda row: -row.ratio)
    height = TOP + len(shown) * ROW + 12
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    machine = "float32, batch 1, one thread of a Zen 5 core; peers: onnxruntime, openvino, MNN"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n'
        f"<title>Time of the fastest peer over that of Forge, {len(shown)} models</title>\n<style>{STYLE}</style>\n"
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="6"/>\n'
        f'<text class="title" x="{LABELS}" y="18">Time of the fastest peer / time of Forge</text>\n'
        f'<text class="small" x="{LABELS}" y="36">{machine}</text>\n'
        + "".join(bar(index, row) for index, row in enumerate(shown))
        + f'<line class="peer" x1="{LABELS + UNIT}" x2="{LABELS + UNIT}" y1="{TOP - 4}" y2="{height - 10}"/>\n</svg>\n')
