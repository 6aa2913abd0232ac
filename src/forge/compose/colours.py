"""Colours of images whose last axis has three channels, from 0 to 1, as TensorFlow has them."""

from __future__ import annotations

from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def channels(g: Composer, x: Value) -> list[Term]:
    if x.rank < 1 or x.shape[-1] != 3:
        raise g.invalid(f"got {x.type}; expected images of three channels, which are last")
    return [Term(g, g.call("take", x, g.constant(k, "int64"), axis=x.rank - 1)) for k in range(3)]


def joined(g: Composer, parts: list[Term]) -> Value:
    return g.call("stack", *(part.value for part in parts), axis=parts[0].value.rank)


def hsv_of_rgb(g: Composer, x: Value) -> list[Term]:
    """Hue, saturation and value."""
    red, green, blue = channels(g, x)
    value = red.maximum(green).maximum(blue)
    span = value - red.minimum(green).minimum(blue)
    saturation = (value > 0).where(span / value, 0)
    unit = (1 / span) * (1 / 6)
    hue = value.equals(green).where(unit * (blue - red) + 2 / 6, unit * (red - green) + 4 / 6)
    hue = value.equals(red).where(unit * (green - blue), hue)
    hue = (span > 0).where(hue, 0)
    return [(hue < 0).where(hue + 1, hue), saturation, value]


def rgb_of_hsv(g: Composer, hue: Term, saturation: Term, value: Term) -> Value:
    turned = hue * 6

    def part(distance: Term) -> Term:
        share = distance.maximum(0).minimum(1)
        return ((1 - saturation) + saturation * share) * value

    return joined(g, [part(abs(turned - 3) - 1), part(2 - abs(turned - 2)), part(2 - abs(turned - 4))])
