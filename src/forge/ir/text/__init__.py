"""The lexical rules of the text form, shared by printer and parser.

Scalars follow Relay: int32 ``42``, int64 ``42i64``, float32 ``3f``, float64 ``3f64``, bool ``True``; infinity is ``inff``,
not-a-number ``nanf``. Names that are not identifiers (letters, digits, ``_``, ``.``) are quoted: ``%"a/b"``.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np

from forge import dtypes
from forge.dims import DimExpr
from forge.errors import InvalidGraphError

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*\Z")

SUFFIX_OF = {
    "float32": "f", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int32": "", "int64": "i64", "int16": "i16",
    "int8": "i8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
}  # fmt: skip
DTYPE_OF = {suffix: dtype for dtype, suffix in SUFFIX_OF.items()} | {"i32": "int32"}


def name_text(name: str) -> str:
    """``name`` as it stands after ``%`` and ``@``."""
    return name if IDENTIFIER.match(name) else json.dumps(name)


def number_text(value: float | int | np.generic) -> str:
    """The shortest decimal text that reads back to ``value`` in its own precision, without a trailing ``.0``."""
    return str(value).removesuffix(".0")


def scalar_text(array: np.ndarray) -> str | None:
    """Inline text of a rank-0 constant; None where there is no such form."""
    dtype = dtypes.canonical(array.dtype)
    if array.shape != () or dtype not in (*SUFFIX_OF, "bool"):
        return None
    if dtype == "bool":
        return str(bool(array))
    if dtypes.is_float(dtype) and math.isnan(float(array)) and array.tobytes() != np.asarray(math.nan, array.dtype).tobytes():
        return None
    return number_text(array.dtype.type(array)) + SUFFIX_OF[dtype]


def attribute_text(value: Any) -> str:
    """An attribute's value: ``[1, 2]``, ``0.1f``, ``"NCHW"``, ``True``, ``None``, ``2*n + 1``.

    Raises:
        InvalidGraphError: it has no text form.
    """
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int | DimExpr):
        return str(value)
    if isinstance(value, float):
        return number_text(value) + "f"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(attribute_text(v) for v in value)}]"
    raise InvalidGraphError(f"attribute: got {value!r} of type {type(value).__name__}, which has no text form")
