"""The element type of parameters for which none is said."""

from __future__ import annotations

from forge import dtypes
from forge.errors import OptionError

_default = "float32"


def get_default_dtype() -> str:
    """The element type of parameters for which none is said; at first "float32"."""
    return _default


def set_default_dtype(dtype: str) -> None:
    """Makes ``dtype`` the element type of parameters for which none is said, in modules that are made from then on.

    Raises:
        OptionError: Forge has no such element type.
    """
    global _default  # noqa: PLW0603 - the default of the process, as the name says
    try:
        _default = dtypes.canonical(dtype)
    except (ValueError, TypeError) as error:
        raise OptionError(f"set_default_dtype: {error}") from error
