"""Charts of reports, as inline SVG. Colours are classes of the page's style; each chart says in words what it shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from forge.quantization.chosen.rounding_errors import RoundedValue
from forge.quantization.chosen.sensitivity import Exclusion
from forge.quantization.chosen.variants import ModelVariant
from forge.view.page import printable

WIDTH, HEIGHT = 620.0, 300.0
_LEFT, _TOP, _RIGHT, _BOTTOM = 52.0, 16.0, 24.0, 42.0
HISTOGRAM_WIDTH, HISTOGRAM_HEIGHT = 300.0, 96.0
MAX_RADIUS, MIN_RADIUS = 16.0, 5.0
SHOWN_DB = 80.0
"""Where the axis of decibels ends: what is nearer is drawn there."""


def text_of(text: str) -> str:
    """Escapes text of a model for a page."""
    return escape(printable(text))


def svg(width: float, height: float, label: str, body: str, kind: str = "chart") -> str:
    """Returns an image of this size in pixels, with a label for readers who cannot see it."""
    box = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    return f'<svg class="{kind}" {box} role="img" aria-label="{text_of(label)}">{body}</svg>'


@dataclass(frozen=True)
class Scale:
    """A map from numbers between ``low`` and ``high`` to places between ``begin`` and ``end``."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, number: float) -> float:
        share = (number - self.low) / ((self.high - self.low) or 1.0)
        return self.begin + min(1.0, max(0.0, share)) * (self.end - self.begin)

    @property
    def ticks(self) -> list[float]:
        """Some round numbers."""
        step = 10 ** math.floor(math.log10((self.high - self.low) / 2 or 1.0))
        step *= next(k for k in (1, 2, 5, 10) if (self.high - self.low) / (k * step) <= 6)
        first = math.ceil(self.low / step)
        return [k * step for k in range(first, math.floor(self.high / step) + 1)]


def axes(x: Scale, y: Scale, x_title: str, y_title: str) -> str:
    """Draws lines, ticks and titles."""
    bottom, left = HEIGHT - _BOTTOM, _LEFT
    parts = [f'<path class="axis" d="M{left},{_TOP}V{bottom}H{WIDTH - _RIGHT}"/>']
    for tick in x.ticks:
        parts.append(f'<text class="tick" x="{x(tick):.1f}" y="{bottom + 15}" text-anchor="middle">{tick:g}</text>')
    for tick in y.ticks:
        parts.append(f'<path class="grid" d="M{left},{y(tick):.1f}H{WIDTH - _RIGHT}"/>')
        parts.append(f'<text class="tick" x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    middle = (left + WIDTH - _RIGHT) / 2
    parts.append(f'<text class="tick" x="{middle:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{text_of(x_title)}</text>')
    place = f'x="12" y="{(_TOP + bottom) / 2:.0f}" transform="rotate(-90 12 {(_TOP + bottom) / 2:.0f})"'
    return "".join([*parts, f'<text class="tick" {place} text-anchor="middle">{text_of(y_title)}</text>'])


def _horizontal(high: float, low: float = 0.0) -> Scale:
    return Scale(low, 1.08 * high or 1.0, _LEFT, WIDTH - _RIGHT)


def _vertical(numbers: Sequence[float]) -> Scale:
    shown = [min(n, SHOWN_DB) for n in numbers]
    return Scale(min(shown) - 5, max(shown) + 5, HEIGHT - _BOTTOM, _TOP)


def pareto(variants: Sequence[ModelVariant]) -> str:
    """Draws latency to the right, decibels upwards, size as area; the best are filled and joined by a line."""
    known = [(k + 1, v, min(v.sqnr, SHOWN_DB)) for k, v in enumerate(variants) if v.sqnr is not None]
    if not known:
        return ""
    times = [1e3 * v.seconds for _, v, _ in known]
    x, y = _horizontal(max(times), 0.9 * min(times)), _vertical([s for *_, s in known])
    largest = max(v.bytes for _, v, _ in known) or 1
    best = sorted((x(1e3 * v.seconds), y(s)) for _, v, s in known if v.is_best)
    line = "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in best) if best else ""
    points = "".join(_point(k, v, x(1e3 * v.seconds), y(s), v.bytes / largest) for k, v, s in known)
    body = f'{axes(x, y, "milliseconds of a call", "outputs, dB")}<path class="front" d="{line}"/>{points}'
    label = f"{len(known)} variants: milliseconds of a call to the right, signal to noise of the outputs upwards, size as area"
    return svg(WIDTH, HEIGHT, label, body)


def _point(number: int, variant: ModelVariant, x: float, y: float, share: float) -> str:
    radius = max(MIN_RADIUS, MAX_RADIUS * math.sqrt(share))
    kind = "point best" if variant.is_best else "point"
    kind += " chosen" if variant.is_chosen else ""
    circle = f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"><title>{text_of(variant.title)}</title></circle>'
    return circle + _mark(x, y, radius, f"{number}{_beyond(variant.sqnr)}")


def _beyond(sqnr: float | None) -> str:
    """Labels a point that is drawn at the end of the axis, but lies beyond."""
    return f" \u2191 {sqnr:.0f} dB" if sqnr is not None and sqnr > SHOWN_DB else ""


def _mark(x: float, y: float, radius: float, text: str) -> str:
    """Text next to a point: to its left where its right has no room."""
    if x > 0.75 * WIDTH:
        return f'<text class="mark" x="{x - radius - 3:.1f}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    return f'<text class="mark" x="{x + radius + 3:.1f}" y="{y + 4:.1f}">{text}</text>'


def curve(exclusions: Sequence[Exclusion]) -> str:
    """Draws decibels of the outputs if more and more layers stay in float."""
    points = [(len(e.numbers), e.sqnr) for e in exclusions if e.sqnr is not None]
    if len(points) < 2:
        return ""
    x, y = _horizontal(points[-1][0]), _vertical([s for _, s in points])
    places = [(x(k), y(min(s, SHOWN_DB))) for k, s in points]
    line = "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in places)
    dots = "".join(f'<circle class="point best" cx="{a:.1f}" cy="{b:.1f}" r="3.5"><title>{k} layers: {s:.1f} dB</title></circle>'
                   for (a, b), (k, s) in zip(places, points))
    marks = "".join(_mark(a, b, 3.5, _beyond(s).strip()) for (a, b), (_, s) in zip(places, points) if s > SHOWN_DB)
    body = f'{axes(x, y, "layers in float", "outputs, dB")}<path class="front" d="{line}"/>{dots}{marks}'
    return svg(WIDTH, HEIGHT, "signal to noise of the outputs by the number of layers in float", body)


def histogram(value: RoundedValue) -> str:
    """Draws logarithms of counts; what is outside the range of quantized values has another colour, and lines are its ends."""
    end = value.first + value.width * len(value.counts)
    x = Scale(min(value.first, value.least), max(end, value.most), 4.0, HISTOGRAM_WIDTH - 4)
    heights = [math.log1p(c) for c in value.counts]
    tallest, floor = max(heights, default=0.0) or 1.0, HISTOGRAM_HEIGHT - 16
    inside: list[str] = []
    outside: list[str] = []
    for k, height in enumerate(heights):
        begin = value.first + k * value.width
        bar = _bar(x(begin), x(begin + value.width), floor, (floor - 6) * height / tallest) if height else ""
        is_inside = begin < value.most and value.least < begin + value.width
        (inside if is_inside else outside).append(bar)
    lines = "".join(f'<path class="threshold" d="M{x(edge):.1f},2V{floor}"/>' for edge in (value.least, value.most))
    ends = f'<text class="tick" x="4" y="{floor + 12}">{x.low:.4g}</text>' \
           f'<text class="tick" x="{HISTOGRAM_WIDTH - 4}" y="{floor + 12}" text-anchor="end">{x.high:.4g}</text>'
    body = f'<path class="bars" d="{"".join(inside)}"/><path class="cut" d="{"".join(outside)}"/>{lines}{ends}'
    codes = f"quantized values reach from {value.least:.4g} to {value.most:.4g}"
    label = f"histogram of {value.label} from {value.low:.4g} to {value.high:.4g}; {codes}"
    return svg(HISTOGRAM_WIDTH, HISTOGRAM_HEIGHT, label, body, "histogram")


def _bar(begin: float, end: float, floor: float, height: float) -> str:
    return f"M{begin:.1f},{floor:.1f}v{-height:.1f}H{max(end, begin + 0.5):.1f}v{height:.1f}z"


def bar(share: float, kind: str, length: float = 90.0) -> str:
    """Draws a bar of a table, a decoration next to a number."""
    width = length * min(1.0, max(0.0, share))
    rectangle = f'<rect class="{kind}" width="{width:.1f}" height="10"/>'
    return f'<svg class="bar" width="{length:.0f}" height="10" aria-hidden="true">{rectangle}</svg>'
