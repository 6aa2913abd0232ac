"""Numbers rounded as quantized integers can say them, as TensorFlow and TFLite train with."""

from __future__ import annotations

from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def between(g: Composer, x: Value, low: Value, high: Value, bits: int, narrow: bool) -> Value:
    """Numbers as integers of ``bits`` between ``low`` and ``high`` can say them; the range is moved so that 0 is one of them.

    Args:
        narrow: the least integer is left out.
    """
    least, most = float(narrow), 2.0**bits - 1
    data, first, last = (Term(g, v) for v in (x, low, high))
    scale = (last - first) / (most - least)
    zero = least - first / scale
    zero = (zero + 0.5).floor().maximum(least).minimum(most)
    bottom, top = ((bound - zero) * scale for bound in (least, most))
    steps = (data.maximum(bottom).minimum(top) - bottom) * (1 / scale)
    return ((steps + 0.5).floor() * scale + bottom).value
