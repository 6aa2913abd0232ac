"""Random choices of elements."""

from __future__ import annotations

from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def dropout(g: Composer, x: Value, rate: Value, *, seed: int, training: Value | None = None) -> tuple[Value, Value]:
    """``x / (1 - rate)`` with each element replaced by 0 with probability ``rate``, and the mask of those that stay.

    ``rate`` and ``training`` hold one number and one bool; where training is False, ``x`` and a mask of True.
    """
    share = Term(g, g.cast(g.reshape(rate, ()), "float32"))
    numbers = Term(g, g.call("random.uniform", out_shape=x.shape, out_dtype="float32", seed=seed))
    mask = numbers >= share
    scaled = Term(g, x) * (1 / (1 - share)).cast(x.dtype)
    kept = mask.where(scaled, 0)
    if training is None:
        return kept.value, mask.value
    on = Term(g, g.reshape(training, ()))
    return on.where(kept, Term(g, x)).value, mask.either(Term(g, g.call("logical_not", on.value))).value
