"""What functions take: operands, and arguments that are one integer or size, or several."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge.dims import Dim, DimExpr
from forge.errors import OptionError
from forge.nn.tensor import Tensor

Operand = Tensor | np.ndarray | np.generic | complex | DimExpr
"""A tensor, an array, a number, or a size of a tensor."""


def integers(given: Any, what: str, count: int | None = None, least: int | None = None) -> tuple[int, ...]:
    """Integers; one stands for ``count``.

    Args:
        what: the function and the argument, for the message.
        count: how many; None: any number.
        least: the smallest that is allowed.

    Raises:
        OptionError: another number of them, one that is below ``least``, or something else.
    """
    return _several(given, what, count, least, is_symbolic=False)  # type: ignore[return-value]


def integer(given: Any, what: str, least: int | None = None) -> int:
    """One integer, as `integers`."""
    return integers([given], what, 1, least)[0]


def sizes(given: Any, what: str, count: int | None = None, least: int = 0) -> tuple[Dim, ...]:
    """As `integers`; sizes of tensors are allowed, too."""
    return _several(given, what, count, least, is_symbolic=True)


def size(given: Any, what: str, least: int = 0) -> Dim:
    """One size, as `sizes`."""
    return sizes([given], what, 1, least)[0]


def _several(given: Any, what: str, count: int | None, least: int | None, is_symbolic: bool) -> tuple[Dim, ...]:
    listed = tuple(given) if isinstance(given, list | tuple) else (given,)
    if count is not None and len(listed) == 1:
        listed *= count
    fits = all(is_symbolic and isinstance(k, DimExpr) or _is_integer(k, least) for k in listed)
    if not fits or (count is not None and len(listed) != count):
        one = ("an integer" if least is None else f"an integer from {least} on") + " or a size of a tensor" * is_symbolic
        several = "" if count == 1 else f", or {'several' if count is None else count} of them"
        shown = given[0] if count == 1 and isinstance(given, list) else given
        raise OptionError(f"{what}: got {shown!r}; expected {one}{several}")
    return tuple(k if isinstance(k, DimExpr) else int(k) for k in listed)


def _is_integer(given: Any, least: int | None) -> bool:
    is_integer = isinstance(given, int | np.integer) and not isinstance(given, bool)
    return is_integer and (least is None or int(given) >= least)
